-- What may have been used, unseen: calls to a model whose reply was cut or lost. In billionths, as usd.
ALTER TABLE run ADD COLUMN doubt BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN doubt BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tally ADD COLUMN doubt BIGINT NOT NULL DEFAULT 0;
-- The subagent that made a call.
ALTER TABLE usage ADD COLUMN agent TEXT NOT NULL DEFAULT '';
-- Calls in flight, each with the most it may come to. A row is deleted in the commit that records what the call used.
-- `fixed`, `output_rate` and `output` tell what it may have cost after so many seconds, if nobody sees its end.
CREATE TABLE held (
  run         TEXT   NOT NULL,
  attempt     BIGINT NOT NULL,
  call        BIGINT NOT NULL,
  job         TEXT   NOT NULL,
  at          BIGINT NOT NULL,
  usd         BIGINT NOT NULL,
  tokens      BIGINT NOT NULL,
  calls       BIGINT NOT NULL,
  fixed       BIGINT NOT NULL,
  output_rate BIGINT NOT NULL,
  output      BIGINT NOT NULL,
  model       TEXT   NOT NULL,
  item        TEXT   NOT NULL,
  agent       TEXT   NOT NULL,
  PRIMARY KEY (run, attempt, call)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX held_job ON held (job);
-- The budget that a person has set for a run, in place of the one it was started with.
CREATE TABLE budget (
  run  TEXT NOT NULL PRIMARY KEY,
  caps TEXT NOT NULL
);
-- Transactions that hold calls under one shared cap take turns on its row.
CREATE TABLE cap (
  name TEXT   NOT NULL PRIMARY KEY,
  turn BIGINT NOT NULL
)
