-- Times are wall clock in milliseconds: the server's, or the machine's for a file.
-- usd counts billionths, units count millionths: sums are exact.
-- WITHOUT ROWID: one page to write for an entry, instead of one for the table and one for its key.
-- The row of a run is the ledger's fence: attempt, token, grant, seq, head.
CREATE TABLE run (
  id         TEXT   NOT NULL PRIMARY KEY,
  job        TEXT   NOT NULL,
  key        TEXT   NOT NULL,
  slot       TEXT   NOT NULL,
  command    TEXT   NOT NULL,
  definition TEXT   NOT NULL,
  host       TEXT   NOT NULL,
  state      TEXT   NOT NULL,
  attempt    BIGINT NOT NULL,
  token      BIGINT NOT NULL,
  grant_id   TEXT   NOT NULL,
  holder     TEXT   NOT NULL,
  seq        BIGINT NOT NULL,
  head       TEXT   NOT NULL,
  anchor     TEXT   NOT NULL,
  cancel     TEXT   NOT NULL,
  exit_code  BIGINT,
  reason     TEXT   NOT NULL,
  created    BIGINT NOT NULL,
  changed    BIGINT NOT NULL,
  started    BIGINT,
  ended      BIGINT,
  due        BIGINT,
  elapsed    BIGINT NOT NULL,
  done       BIGINT NOT NULL,
  total      BIGINT NOT NULL,
  message    TEXT   NOT NULL,
  usd        BIGINT NOT NULL,
  tokens     BIGINT NOT NULL,
  calls      BIGINT NOT NULL,
  units      BIGINT NOT NULL
);
CREATE UNIQUE INDEX run_job_key ON run (job, key);
CREATE INDEX run_changed ON run (changed);
CREATE INDEX run_state ON run (state);
CREATE TABLE attempt (
  run       TEXT   NOT NULL,
  attempt   BIGINT NOT NULL,
  token     BIGINT NOT NULL,
  grant_id  TEXT   NOT NULL,
  holder    TEXT   NOT NULL,
  state     TEXT   NOT NULL,
  exit_code BIGINT,
  reason    TEXT   NOT NULL,
  started   BIGINT NOT NULL,
  ended     BIGINT,
  elapsed   BIGINT NOT NULL,
  PRIMARY KEY (run, attempt)
) /* sqlite: WITHOUT ROWID */;
CREATE TABLE usage (
  run    TEXT   NOT NULL,
  seq    BIGINT NOT NULL,
  job    TEXT   NOT NULL,
  at     BIGINT NOT NULL,
  usd    BIGINT NOT NULL,
  tokens BIGINT NOT NULL,
  calls  BIGINT NOT NULL,
  units  BIGINT NOT NULL,
  PRIMARY KEY (run, seq)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX usage_job_at ON usage (job, at);
-- The journal: a chain for each run (named by its id) and one for each job (job:NAME).
CREATE TABLE journal (
  chain TEXT   NOT NULL,
  seq   BIGINT NOT NULL,
  at    BIGINT NOT NULL,
  kind  TEXT   NOT NULL,
  body  TEXT   NOT NULL,
  hash  TEXT   NOT NULL,
  PRIMARY KEY (chain, seq)
) /* sqlite: WITHOUT ROWID */;
-- The heads of the jobs' chains; the head of a run's chain is in the run's row.
CREATE TABLE chain (
  name TEXT   NOT NULL PRIMARY KEY,
  seq  BIGINT NOT NULL,
  head TEXT   NOT NULL
);
