-- What was used on a day of the ledger's time zone, and how attempts ended: by job, host, model, tag and the status that
-- the attempt ended with. Added to in the transaction that ends an attempt; never pruned, so that a year's report
-- outlives the runs. The row without a model and a tag counts the attempts, the runs that were over with them, their
-- time in milliseconds and their items.
CREATE TABLE tally_by_day (
  job      TEXT   NOT NULL,
  day      TEXT   NOT NULL,
  host     TEXT   NOT NULL,
  model    TEXT   NOT NULL,
  tag      TEXT   NOT NULL,
  status   TEXT   NOT NULL,
  attempts BIGINT NOT NULL,
  runs     BIGINT NOT NULL,
  elapsed  BIGINT NOT NULL,
  items    BIGINT NOT NULL,
  usd      BIGINT NOT NULL,
  tokens   BIGINT NOT NULL,
  calls    BIGINT NOT NULL,
  units    BIGINT NOT NULL,
  doubt    BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (job, day, host, model, tag, status)
) /* sqlite: WITHOUT ROWID */;
INSERT INTO tally_by_day (job, day, host, model, tag, status, attempts, runs, elapsed, items, usd, tokens, calls, units)
SELECT job, day, '', '', '', '', 0, 0, 0, 0, usd, tokens, calls, units FROM tally;
DROP TABLE tally;
ALTER TABLE tally_by_day RENAME TO tally;
CREATE INDEX tally_day ON tally (day);
-- The newest runs of a job, its last sixty with how they ended and how long they took: all from the index. No index names
-- a column that progress or usage changes: PostgreSQL would lose its in-place updates.
CREATE INDEX run_job_changed ON run (job, parent, changed, status, elapsed);
DROP INDEX run_status;
CREATE INDEX run_status_changed ON run (status, changed);
-- What happens rarely and is asked for by its time: refusals, what people decided. Queries repeat this condition.
CREATE INDEX journal_rare ON journal (at, kind) WHERE kind NOT IN ('opened', 'started', 'ended', 'progress', 'usage',
  'steps', 'effect', 'effect-begun', 'effect-done', 'step-begun', 'step-done', 'input', 'workspace', 'publishing',
  'published', 'batch', 'lent');
-- Alerts. Where each reader is in each job's chain; what is wrong with a job, and since when; what is to be sent, once for
-- each transport; and the messages that it is sent in. A message's claim is one process's try to send it, until
-- `claim_until`.
CREATE TABLE alert_cursor (
  reader TEXT   NOT NULL,
  chain  TEXT   NOT NULL,
  seq    BIGINT NOT NULL,
  PRIMARY KEY (reader, chain)
) /* sqlite: WITHOUT ROWID */;
CREATE TABLE alert_problem (
  job      TEXT   NOT NULL,
  subject  TEXT   NOT NULL,
  rule     TEXT   NOT NULL,
  run      TEXT   NOT NULL,
  since    BIGINT NOT NULL,
  count    BIGINT NOT NULL,
  reported BIGINT NOT NULL,
  PRIMARY KEY (job, subject)
) /* sqlite: WITHOUT ROWID */;
CREATE TABLE alert (
  id        TEXT   NOT NULL,
  transport TEXT   NOT NULL,
  rule      TEXT   NOT NULL,
  job       TEXT   NOT NULL,
  run       TEXT   NOT NULL,
  at        BIGINT NOT NULL,
  detail    TEXT   NOT NULL,
  message   TEXT   NOT NULL,
  PRIMARY KEY (id, transport)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX alert_message_of ON alert (message, transport, at);
CREATE TABLE alert_route (
  transport TEXT   NOT NULL PRIMARY KEY,
  last      BIGINT NOT NULL,
  count     BIGINT NOT NULL
);
CREATE TABLE alert_message (
  id          TEXT   NOT NULL PRIMARY KEY,
  transport   TEXT   NOT NULL,
  status      TEXT   NOT NULL,
  made        BIGINT NOT NULL,
  due         BIGINT NOT NULL,
  tries       BIGINT NOT NULL,
  claim       TEXT   NOT NULL,
  claim_until BIGINT NOT NULL,
  changed     BIGINT NOT NULL,
  reason      TEXT   NOT NULL
);
CREATE INDEX alert_message_status ON alert_message (status, transport, made);
INSERT INTO meta (key, value) VALUES ('ledger.needs', '8') ON CONFLICT (key) DO UPDATE SET value = excluded.value
