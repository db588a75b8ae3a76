"""A store in an SQL database, written once for SQLite and PostgreSQL.

Each verb is one statement, atomic by itself, so nothing here depends on isolation levels or on one connection. `{now}`
is the clock that decides (the server's, or this boot's), `{wall}` the wall clock, `{share}` locks a row that must not
change before we commit, `{prefix}` is the schema of the tables, `{notify}` notifies waiters of a release, `{alone}` is
true if nobody else is acquiring the same name at this moment.
"""

from __future__ import annotations

from ..core import advice
from ..core.model import Begun, Done, Granted, Holder, KnownGrants, Record, Takeover
from ..core.tenure import request_timeout
from ..database.guarded import Table
from ..errors import Busy, LeaseLost, StoreUnreachable
from ..system import clock, identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from ..core.protocols import ReleaseWaiter
    from ..core.row import Cursor, Move
    from ..database.postgres import PostgresDatabase
    from ..database.sqlite import SqliteDatabase

# The next token. It is at least the wall clock in ms, so even a store that lost its records hands out higher ones.
# `excluded.token` is that clock, read once: between two readings it could step back.
_NEXT = "CASE WHEN lease.token >= excluded.token THEN lease.token + 1 ELSE excluded.token END"

# The first WHERE only reads, and lets one acquirer at a time go on. Without it losers would queue on the row, since ON
# CONFLICT locks before it compares, and the winner's release would queue behind them.
_ACQUIRE = f"""
INSERT INTO {{prefix}}lease (name, token, previous, grant_id, holder, ttl, clock, expires, since, until, version, gates,
  past)
SELECT :name, {{wall}}, 0, :grant, :holder, :ttl, :clock, {{now}} + :ttl, {{wall}}, {{wall}} + :ttl, 1, 0, :grant
WHERE CASE WHEN EXISTS (SELECT 1 FROM {{prefix}}lease WHERE name = :name AND grant_id NOT IN (:grant, :over))
      THEN FALSE ELSE {{alone}} END
ON CONFLICT (name) DO UPDATE SET
  token    = CASE WHEN lease.grant_id = excluded.grant_id THEN lease.token ELSE {_NEXT} END,
  previous = CASE WHEN lease.grant_id = excluded.grant_id THEN lease.previous ELSE lease.token END,
  since    = CASE WHEN lease.grant_id = excluded.grant_id THEN lease.since ELSE excluded.since END,
  past     = CASE WHEN lease.grant_id = excluded.grant_id THEN lease.past
                  ELSE substr(excluded.past || ' ' || lease.token || ' ' || lease.past, 1, {KnownGrants.LENGTH}) END,
  grant_id = excluded.grant_id, holder = excluded.holder, ttl = excluded.ttl, clock = excluded.clock,
  expires  = excluded.expires, until = excluded.until, version = lease.version + 1
WHERE lease.grant_id IS NULL
   OR lease.grant_id = excluded.grant_id
   OR (lease.grant_id = :over AND lease.clock = excluded.clock AND lease.expires <= {{now}})
   OR (lease.grant_id = :over AND :proven = 1 AND lease.version = :version)
RETURNING token, previous, gates, past
"""

_RENEW = """
UPDATE {prefix}lease
SET expires = {now} + :ttl, until = {wall} + :ttl, ttl = :ttl, clock = :clock, version = version + 1
WHERE name = :name AND grant_id = :grant RETURNING token
"""

# A release need not wait for the disk: one that a server crash forgets only costs the rest of its TTL, and the commit
# of the next grant flushes it too.
_RELEASE = """
UPDATE {prefix}lease SET grant_id = NULL, until = {wall}, version = version + 1
WHERE name = :name AND grant_id = :grant RETURNING token{notify}
"""

_EVICT = """
UPDATE {prefix}lease SET grant_id = NULL, until = {wall}, version = version + 1
WHERE name = :name AND grant_id IS NOT NULL RETURNING token{notify}
"""

_READ = """
SELECT name, token, grant_id, holder, ttl, since, until, version,
       CASE WHEN clock = :clock THEN expires - {now} END, past
FROM {prefix}lease
"""

_HELD_BY_ANOTHER = "SELECT 1 FROM {prefix}lease WHERE name = :name AND grant_id IS NOT NULL AND grant_id <> :grant"

# The token is never below the clock, as in an acquire: a store that forgot its grants may have handed out `above` + 1.
# The clock is read once here too (`moment`). A person who raises the token vouches for all older marks.
_RAISE_MINE = """
UPDATE {prefix}lease SET version = lease.version + 1, token =
  CASE WHEN lease.token >= moment.wall AND lease.token >= :above THEN lease.token + 1
       WHEN :above >= moment.wall THEN :above + 1 ELSE moment.wall END
FROM (SELECT {wall} AS wall) AS moment
WHERE name = :name AND grant_id = :grant RETURNING token
"""

_RAISE = f"""
INSERT INTO {{prefix}}lease (name, token, previous, grant_id, holder, ttl, clock, expires, since, until, version, gates)
SELECT :name, CASE WHEN :above >= wall THEN :above + 1 ELSE wall END, 0, NULL, '', 0, '', 0, wall, wall, 1, 0
FROM (SELECT {{wall}} AS wall) AS moment WHERE TRUE
ON CONFLICT (name) DO UPDATE SET token = {_NEXT}, version = lease.version + 1, past = ''
RETURNING token
"""

_LOOK = "SELECT scope, key, value, input, token, at FROM {prefix}done WHERE scope = :scope AND key = :key"

_SETTLE = """
INSERT INTO {prefix}done (scope, key, value, input, token, at)
SELECT :scope, :key, :value, :input, token, {wall} FROM {prefix}lease WHERE name = :name AND grant_id = :grant {share}
ON CONFLICT (scope, key) DO NOTHING RETURNING scope, key, value, input, token, at
"""

_MY_LEASE = "SELECT token, {wall} FROM {prefix}lease WHERE name = :name AND grant_id = :grant"
_MY_LEASE_LOCKED = "SELECT token FROM {prefix}lease WHERE name = :name AND grant_id = :grant {share}"
_DONE_TABLE = Table(
    "done",
    {"scope": "TEXT", "key": "TEXT", "value": "TEXT", "input": "TEXT", "token": "BIGINT", "at": "BIGINT"},
    "ON CONFLICT (scope, key) DO NOTHING",
)

# `gates` counts the changes of the list of gates; 0: the list was never used. The update also locks the lease's row
# before the list changes, so that a takeover and a change of the list cannot miss each other.
_CHANGE_GATES = "UPDATE {prefix}lease SET gates = gates + 1 WHERE name = :name AND grant_id = :grant RETURNING token"

_UNREGISTER = "DELETE FROM {prefix}gate WHERE name = :name AND gate = :gate RETURNING gate"

_REGISTER = """
INSERT INTO {prefix}gate (name, gate, token, at) VALUES (:name, :gate, :token, {wall})
ON CONFLICT (name, gate) DO NOTHING RETURNING gate
"""


class SqlStore:
    default_ttl = 60.0
    lists_begun = False  # all machines share the ledger, or there is only one machine

    def __init__(self, url: str, database: SqliteDatabase | PostgresDatabase, folder: str) -> None:
        self.url = url  # as it may be shown: without a password
        self.folder = folder
        self._db = database
        self._rendered: dict[str, str] = {}

    @property
    def id(self) -> str:
        return self._db.identity()

    @property
    def may_be_lazy(self) -> bool:
        """May `acquire` and `settle` be `lazy`, that is, reach the disk only with the holder's next write? Only if one
        machine uses the store: a crash that forgets them then also ends every process that knew of them."""
        return not self._db.many_machines

    def acquire(
        self,
        name: str,
        grant: str,
        holder: Holder,
        ttl: float,
        over: Takeover | None = None,
        begin: Begun | None = None,
        *,
        lazy: bool = False,
    ) -> Granted:
        if self._db.look_first and over is None:
            self._look_first(name, grant)
        rows = self._write(
            _ACQUIRE,
            ttl,
            name=name,
            grant=grant,
            holder=holder.pack(),
            over=over.grant if over else "",
            version=int(over.version) if over else 0,
            proven=int(over.proven) if over else 0,
            lazy=lazy,
        )
        if not rows:
            raise self._busy(name)
        token, previous, gates, past = rows[0]
        return Granted(
            token=token, previous=previous, gates=self.gates(name) if gates else (), known=KnownGrants.read(past)
        )

    def _look_first(self, name: str, grant: str) -> None:
        if self._read(_HELD_BY_ANOTHER, name=name, grant=grant):
            raise self._busy(name)

    def renew(self, name: str, grant: str, ttl: float) -> None:
        if not self._write(_RENEW, ttl, name=name, grant=grant):
            raise self._lost(name)

    def release(self, name: str, grant: str, ended: Collection[int] = ()) -> None:
        if not self._db.write(self._sql(_RELEASE), lazy=True, name=name, grant=grant):
            raise self._lost(name)

    def evict(self, name: str) -> bool:
        return bool(self._write(_EVICT, name=name))

    def read(self, name: str) -> Record | None:
        rows = self._read(_READ + "WHERE name = :name", name=name, clock=self._db.clock_name)
        return _record(rows[0]) if rows else None

    def records(self) -> Iterator[Record]:
        return map(_record, self._read(_READ + "ORDER BY name", clock=self._db.clock_name))

    def raise_token(self, name: str, above: int, grant: str = "") -> int:
        rows = self._write(_RAISE_MINE if grant else _RAISE, name=name, grant=grant, above=above)
        if not rows:
            raise self._lost(name)
        return int(rows[0][0])

    def look(self, scope: str, key: str) -> Done | None:
        rows = self._read(_LOOK, scope=scope, key=key)
        return _done(rows[0]) if rows else None

    def settle(
        self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "", lazy: bool = False
    ) -> Done:
        rows = self._write(_SETTLE, name=name, grant=grant, scope=scope, key=key, value=value, input=input, lazy=lazy)
        done = _done(rows[0]) if rows else self._settled_before(name, grant, scope, key)
        return done.with_input(input)

    def settle_many(self, name: str, grant: str, scope: str, keys: Mapping[str, str]) -> None:
        mine: dict[str, object] = {"name": name, "grant": grant}
        for token, at in self._read(_MY_LEASE, **mine):
            rows = [(scope, key, value, "", token, at) for key, value in keys.items()]
            if self._db.guarded(self._sql(_MY_LEASE_LOCKED), mine, [(_DONE_TABLE, rows)]):
                return
        raise self._lost(name)

    def _settled_before(self, name: str, grant: str, scope: str, key: str) -> Done:
        record, done = self.read(name), self.look(scope, key)
        if record is None or record.grant != grant or done is None:
            raise self._lost(name)
        return done

    def cursors(self, jobs: Collection[str] | None = None, *, due: float | None = None) -> list[Cursor]:
        from . import sql_rows

        return sql_rows.cursors(self._db, self._sql, jobs, due)

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        from . import sql_rows

        return sql_rows.advance(self._db, self._sql, moves)

    def register(self, name: str, grant: str, gate: str) -> bool:
        return self._change_gates(_REGISTER, name, grant, gate)

    def unregister(self, name: str, gate: str, grant: str = "") -> bool:
        if grant:
            return self._change_gates(_UNREGISTER, name, grant, gate)
        return bool(self._write(_UNREGISTER, name=name, gate=gate))

    def _change_gates(self, change: str, name: str, grant: str, gate: str) -> bool:
        with self._db.transaction() as execute:
            held_by_me = execute(self._sql(_CHANGE_GATES), name=name, grant=grant)
            if not held_by_me:
                raise self._lost(name)
            return bool(execute(self._sql(change), name=name, gate=gate, token=held_by_me[0][0]))

    def listen(self, name: str) -> ReleaseWaiter:
        from .polling import PollingWaiter

        return self._db.listen(name) or PollingWaiter(every=self._db.poll_every)

    def may_expire_by_observation(self, record: Record) -> bool:
        """Called for a record dated by another clock, or by a server's clock that was set back since."""
        if self._db.many_machines or identity.same_machine(record.holder):
            return True
        raise StoreUnreachable(
            f"the store {self.url} is also used by another machine ({record.holder} holds {record.name}), and one "
            f"SQLite file cannot serve two machines. Share leases with --store postgresql://… or git+origin; if that "
            f"machine is gone for good (a restored disk, a rebuilt container): "
            f"{advice.command('lease', 'release', record.name, '--force')}"
        )

    def clock(self) -> float:
        if self._db.wall == ":wall":  # this machine's
            return int(clock.wall() * 1000) / 1000
        return float(self._read("SELECT {wall}")[0][0]) / 1000

    def pending(self) -> list[str]:
        """The statements that would bring the tables up to date; the first use of the store runs them."""
        return self._db.pending()

    def forget(self, name: str) -> None:
        """Remove everything about a lease. Only for a name that is never used again: its token would start over."""
        for table, column in (("done", "scope"), ("gate", "name"), ("job", "job"), ("lease", "name")):
            self._db.write(f"DELETE FROM {self._db.prefix}{table} WHERE {column} = :name RETURNING 1", name=name)

    def close(self) -> None:
        self._db.close()

    def gates(self, name: str) -> tuple[str, ...]:
        rows = self._read("SELECT gate FROM {prefix}gate WHERE name = :name ORDER BY gate", name=name)
        return tuple(gate for (gate,) in rows)

    def _read(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._db.read(self._sql(sql), **values)

    def _write(self, sql: str, ttl: float | None = None, **values: Any) -> list[tuple[Any, ...]]:
        if ttl is None:
            return self._db.write(self._sql(sql), **values)
        values |= {"ttl": round(ttl * 1000), "clock": self._db.clock_name}
        return self._db.write(self._sql(sql), patience=max(request_timeout(ttl), 0.1), **values)

    def _sql(self, sql: str) -> str:
        """The statement in this database's dialect, made once."""
        if sql not in self._rendered:
            words = ("now", "wall", "share", "unlocked", "prefix", "notify", "alone")
            self._rendered[sql] = sql.format(**{word: getattr(self._db, word) for word in words})
        return self._rendered[sql]

    def _busy(self, name: str) -> Busy:
        from . import held

        record = self.read(name)
        return Busy(held.sentence(record, name), record)

    def _lost(self, name: str) -> LeaseLost:
        from . import held

        return LeaseLost(held.lost_sentence(self.read(name), name), reason="taken")


def _record(row: tuple[Any, ...]) -> Record:
    name, token, grant, holder, ttl, since, until, version, left, past = row
    return Record(
        name=name,
        token=token,
        grant=grant or "",
        holder=Holder.unpack(holder),
        ttl=ttl / 1000,
        since=since / 1000,
        until=until / 1000,
        left=None if left is None or left > ttl else left / 1000,
        version=str(version),
        known=KnownGrants.read(past),
    )


def _done(row: tuple[Any, ...]) -> Done:
    scope, key, value, input_, token, at = row
    return Done(scope=scope, key=key, value=value, input=input_, token=token, at=at / 1000)
