/*
 * Leases with fencing tokens, gates that verify them, and the list of registered gates.
 *
 * Clients compete for one lease. The model has no clock, which makes it stronger: acquire has no guard,
 * so a lease can expire between any two steps, and a client can pause between any two steps for any time
 * (a suspended laptop, a stopped process, a slow network). A client that crashed is one that pauses for
 * ever. What is one step here (`atomic`) must be one atomic operation in the code.
 *
 * Without any -D this is the protocol. -DRESTORE, -DRESTORE_TWICE and -DREPEAT add trouble; each -D under
 * "What can be taken away" removes one measure, and proofs/check shows what breaks then.
 */

#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* how often a client acquires; each time is a new grant, as if by a new process */
#endif
#ifndef ROUNDS_OF_FIRST
#define ROUNDS_OF_FIRST ROUNDS /* client 0 may come back more often than the others */
#endif

#define GATES 2
#define FIRST 1  /* gate 0 is registered before the story begins */
#define SECOND 2 /* gate 1 is registered by a client, in the middle of its work */
#ifdef NOTHING_REGISTERED
#define REGISTERED 0
#else
#define REGISTERED FIRST
#endif
#define TOKENS 16 /* more than are ever given; an assertion tells if not */

#define BIT(g) (1 << (g))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* ---- The store ---- */

typedef Grants {
  byte by[TOKENS]
}
typedef Record {
  byte token; /* only grows; stays when the lease is released */
  byte grant; /* the holder's; 0: released */
  byte gates; /* the registered gates, a bit for each */
  Grants past /* which grant got which token; in life the last few dozen are enough */
}
Record store;

#ifdef REPEAT
byte late; /* the grant of an acquire whose copy is still on its way; only client 0 sends any */
#endif

/* ---- The gates: each remembers a mark ---- */

typedef Mark {
  byte token;
  byte grant
}
Mark mark[GATES];

/* ---- What only the properties look at ---- */

byte given;    /* how often the store has said yes (acquire, register, raise): this orders the holders */
byte newest;   /* the newest holder whose acquire-and-seal has returned */
byte highest;  /* the highest token ever given */
bool restored; /* the store has been put back to an older state */

#define UNREAD 0
#define FRESH 1
#define CHANGED 2 /* by somebody else, since it was read */
byte copy[CLIENTS * GATES]; /* what each client has read behind each gate */
#define COPY(c, g) copy[(c) * GATES + (g)]

/* ---- The properties: each is a flag that must never be set ---- */

bool token_again; /* a token repeated or fell */
bool stale_write; /* a write landed after a newer holder's acquire-and-seal had returned */
bool lost_update; /* a write landed on top of a change that its writer had not read */
bool false_alarm; /* a holder asked for a person although the store had forgotten nothing */

#define NEVER(flag, condition) flag = (condition); assert(!flag); flag = false

/* ---- Key states: with -DREACH each is an error, which shows that the model does get there ---- */

#ifdef REACH
bool first_gate_written, second_gate_written, written_by_later_grant, written_after_raise;
bool write_refused, seal_refused, register_refused, needs_attention, released;
#define REACHED(state) NEVER(state, true)
#else
#define REACHED(state) skip
#endif

/* ---- What can be taken away ---- */

/* The gate's check: a higher token, or the very grant that it remembers. Without the grant two holders
 * that got the same token from a restored counter would both pass. */
#if defined(NO_GATE)
#define ADMITS(g) true
#elif defined(NO_GRANT_IN_MARK)
#define ADMITS(g) (token >= mark[g].token)
#else
#define ADMITS(g) (token > mark[g].token || (token == mark[g].token && grant == mark[g].grant))
#endif

/* Does the store know where this mark comes from? If not, it has forgotten grants, and perhaps gates with
 * them. A seal leaves such a mark where it is, because it is the only evidence. To compare with the token
 * before mine is not enough: its holder may have stopped at the very evidence that I would then overlook. */
#define KNOWN(g) (mark[g].token == 0 || mark[g].grant == grant || (raised && !working))
#if defined(NO_GATE) || defined(NO_EVIDENCE)
#define EXPLAINED(g) true
#elif defined(NO_GRANT_IN_MARK)
#define EXPLAINED(g) (mark[g].token == token || KNOWN(g) || past.by[mark[g].token])
#elif defined(EVIDENCE_BY_TOKEN_BEFORE)
#define EXPLAINED(g) (mark[g].token <= before || KNOWN(g))
#else
#define EXPLAINED(g) (past.by[mark[g].token] == mark[g].grant || KNOWN(g))
#endif

#ifdef NO_SEAL
#define SEALS(g) false
#else
#define SEALS(g) (gates & BIT(g))
#endif

/* What every verb of a holder needs. By the grant alone, a late copy of its own acquire makes a holder that
 * was overtaken look current again. */
#ifdef GRANT_ALONE
#define MINE (store.grant == grant)
#else
#define MINE (store.grant == grant && store.token == token)
#endif

#ifdef REGISTER_UNCHECKED
#define MAY_REGISTER true
#else
#define MAY_REGISTER MINE
#endif

/* The wall clock in token = max(token + 1, unix_milliseconds). A sane one is past every token given so
 * far; the other one has stopped, and tokens are a plain counter. */
#ifdef SANE_CLOCK
#define NOW (highest + 1)
#else
#define NOW 0
#endif
#ifdef RAISE_WITHOUT_CLOCK
#define NOW_AT_RAISE 0
#else
#define NOW_AT_RAISE NOW
#endif

/* A plain counter does repeat tokens after a restore; there the grants in the marks must hold alone. */
#if defined(RESTORE) && !defined(SANE_CLOCK)
#define MAY_REPEAT true
#else
#define MAY_REPEAT false
#endif

/* ---- Steps of the store ---- */

inline copy_grants(to, from) {
  d_step {
    i = 0;
    do
    :: i < TOKENS -> to.by[i] = from.by[i]; i++
    :: else -> break
    od;
    i = 0
  }
}

inline clear_grants(list) {
  d_step {
    i = 0;
    do
    :: i < TOKENS -> list.by[i] = 0; i++
    :: else -> break
    od;
    i = 0
  }
}

/* The store gives `token` to `grant`. */
inline give() {
  assert(token < TOKENS);
  NEVER(token_again, token <= highest && !MAY_REPEAT);
  highest = MAX(highest, token);
  given++;
  order = given;
  store.token = token;
  store.past.by[token] = grant
}

/* The list of gates comes with the grant: one that was read before can lack a gate that the old holder
 * registered in between. */
inline acquire() {
#ifdef EVIDENCE_BY_TOKEN_BEFORE
  before = store.token;
#endif
  copy_grants(past, store.past);
  token = MAX(store.token + 1, NOW);
  give();
  store.grant = grant;
#ifndef LIST_BEFORE_ACQUIRE
  gates = store.gates;
#endif
  printf("client %d acquires: token %d, grant %d, gates %d\n", me, token, grant, gates)
}

/* ---- Steps of a gate ---- */

inline set_mark() {
  mark[g].token = token;
  mark[g].grant = grant
}

/* The write itself. From now on what the others have read here is old. */
inline land() {
  printf("client %d writes behind gate %d with token %d\n", me, g, token);
  NEVER(stale_write, order < newest);
  NEVER(lost_update, COPY(me, g) == CHANGED);
  d_step {
    i = 0;
    do
    :: i < CLIENTS ->
      COPY(i, g) = (i == me -> FRESH : (COPY(i, g) == UNREAD -> UNREAD : CHANGED));
      i++
    :: else -> break
    od;
    i = 0
  }
}

/* ---- A client ---- */

proctype Client(byte me) {
  byte round;
  byte token, grant;
  byte gates;  /* the gates it knows of */
  Grants past; /* the grants before its own */
#ifdef EVIDENCE_BY_TOKEN_BEFORE
  byte before;
#endif
  byte order;  /* for the properties only */
  bool working, raised;
  byte g, fence, i;

again: /* with nothing remembered */
  atomic {
    token = 0; grant = 0; gates = 0; order = 0; working = false; raised = false; g = 0; fence = 0;
    clear_grants(past);
    COPY(me, 0) = UNREAD;
    COPY(me, 1) = UNREAD;
    if
    :: round == (me == 0 -> ROUNDS_OF_FIRST : ROUNDS) -> goto finished
    :: else -> round++
    fi
  }

#ifdef LIST_BEFORE_ACQUIRE
  gates = store.gates;
#endif
  atomic {
    grant = given + 1; /* a random id in life: here a number nobody else has, never compared by size */
    acquire()
  }
#ifdef REPEAT
  if
  :: true
  :: atomic { /* the reply is lost: it asks again with the same grant, perhaps after somebody else got in */
      me == 0 ->
      acquire()
    }
  :: atomic { /* the request went out twice, and the copy is still on its way */
      me == 0 && late == 0 ->
      late = grant
    }
  fi;
#endif

  /* Seal every registered gate before anything is read. A gate that only remembers the highest token it
   * has seen lets the old holder in until the new one's first write. */
seal:
  g = 0;
seal_rest:
  do
  :: g == GATES -> break
  :: g < GATES && !SEALS(g) -> g++
  :: g < GATES && SEALS(g) ->
    atomic {
      if
      :: EXPLAINED(g) && ADMITS(g) ->
        set_mark();
        printf("client %d seals gate %d with token %d\n", me, g, token);
        g++
      :: else ->
        fence = mark[g].token;
        printf("client %d is refused at gate %d: the mark has token %d\n", me, g, fence);
        goto refused
      fi
    }
  od;

  atomic { /* acquire-and-seal returns */
    newest = MAX(newest, order);
    working = true;
    printf("client %d starts to work\n", me)
  }

  do
  :: atomic { /* read */
      if
      :: gates & FIRST -> g = 0
      :: gates & SECOND -> g = 1
      fi;
      COPY(me, g) = FRESH;
      printf("client %d reads behind gate %d\n", me, g)
    }

  :: atomic { /* write what was read and worked on: the gate's check and the write are one step */
      if
      :: COPY(me, 0) != UNREAD -> g = 0
      :: COPY(me, 1) != UNREAD -> g = 1
      fi;
      if
      :: ADMITS(g)
#ifdef RAISE_IN_WORK
      :: !ADMITS(g) && MINE ->
        token = MAX(MAX(store.token, mark[g].token) + 1, NOW);
        give();
        printf("client %d raises in its work: token %d\n", me, token)
      :: !ADMITS(g) && !MINE -> goto lost
#else
      :: else -> /* and no raise here: what it has read may be old by now */
        REACHED(write_refused);
        goto lost
#endif
      fi;
      set_mark();
#ifdef CHECK_THEN_WRITE
    }
    atomic {
#endif
      land();
      if
      :: g == 0 -> REACHED(first_gate_written)
      :: g == 1 -> REACHED(second_gate_written)
      fi;
      if
      :: grant > 1 -> REACHED(written_by_later_grant)
      :: else
      fi;
      if
      :: raised -> REACHED(written_after_raise)
      :: else
      fi
    }

  :: atomic { /* register the second gate before its first use */
      !(gates & SECOND) ->
      gates = gates | SECOND;
#ifdef UNREGISTERED
      printf("client %d does not register gate 1\n", me)
#else
      if
      :: MAY_REGISTER -> /* a newer holder already has its list, and will not seal what I add now */
        store.gates = store.gates | SECOND;
#ifndef REGISTER_KEEPS_TOKEN
        /* A new token for the longer list, sealed into every gate: so a mark tells it when a restored
         * store has forgotten the registration. */
        token = MAX(store.token + 1, NOW);
        give();
#endif
        printf("client %d registers gate 1: token %d\n", me, token)
      :: !MAY_REGISTER ->
        REACHED(register_refused);
        goto lost
      fi
#endif
    }
#ifdef REGISTER_SEALS_ONE
    g = 1;
    atomic {
      if
      :: EXPLAINED(g) && ADMITS(g) ->
        set_mark();
        printf("client %d seals gate %d with token %d\n", me, g, token)
      :: else -> goto lost
      fi
    }
#else
    goto seal /* all: a restored store may take me for the holder; the other gates know better */
#endif

  :: break
  od;

release:
  atomic {
    if
    :: MINE ->
      store.grant = 0; /* the record stays, and with it the token */
#ifdef RELEASE_RESETS_TOKEN
      store.token = 0;
#endif
      printf("client %d releases\n", me);
      REACHED(released)
    :: else
    fi
  }
  goto again;

refused: /* by a gate, at a seal */
  atomic {
    if
    :: working || !MINE ->
      REACHED(seal_refused);
      goto lost
    :: else
    fi;
    /* The lease is mine, yet the gate has a mark that the store cannot explain: the store has forgotten
     * grants. Unattended, this is the end of the run. */
    NEVER(false_alarm, !restored);
    if
    :: true ->
      printf("client %d needs attention\n", me);
      REACHED(needs_attention);
      goto release
    :: true -> /* a person has looked, lists the gates again, and lets it raise its token */
#ifndef RAISE_KEEPS_LIST
      store.gates = FIRST | SECOND;
      gates = store.gates;
#endif
      token = MAX(MAX(store.token, fence) + 1, NOW_AT_RAISE);
      give();
      raised = true; /* the person answers for the older marks */
      printf("client %d raises: token %d, gates %d\n", me, token, gates)
    fi
  }
#ifdef RAISE_SEALS_ONE
  goto seal_rest;
#else
  goto seal; /* all: an older grant's token may lie between my old one and my new one */
#endif

lost:
  goto again;

finished:
  skip
}

#ifdef RESTORE
/* A backup of the store is taken at some moment, and put back at some later one. */
proctype Restore() {
  Record backup;
  byte i;
  atomic {
    backup.token = store.token;
    backup.grant = store.grant;
    backup.gates = store.gates;
    copy_grants(backup.past, store.past);
    printf("a backup of the store: token %d, grant %d, gates %d\n", store.token, store.grant, store.gates)
  }
  atomic {
    store.token = backup.token;
    store.grant = backup.grant;
    store.gates = backup.gates;
    copy_grants(store.past, backup.past);
    restored = true;
    printf("the store is restored: token %d, grant %d, gates %d\n", store.token, store.grant, store.gates);
    /* It is not needed any more: one state less for each that differs only here. */
    backup.token = 0;
    backup.grant = 0;
    backup.gates = 0;
    clear_grants(backup.past)
  }
}
#endif

#ifdef REPEAT
/* The copy of an acquire arrives late. The store grants it, and the client does not know. */
proctype Late() {
end: /* there may be none */
  atomic {
    late != 0 ->
    store.token = MAX(store.token + 1, NOW);
    assert(store.token < TOKENS);
    highest = MAX(highest, store.token);
    store.grant = late;
    store.past.by[store.token] = late;
    printf("a late copy is granted: token %d, grant %d\n", store.token, store.grant)
  }
}
#endif

init {
  byte c;
  atomic {
    store.gates = REGISTERED;
    for (c : 0 .. CLIENTS - 1) {
      run Client(c)
    }
    c = 0;
#ifdef RESTORE
    run Restore();
#endif
#ifdef RESTORE_TWICE
    run Restore();
#endif
#ifdef REPEAT
    run Late();
#endif
  }
}
