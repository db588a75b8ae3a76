-- What a row of usage is about: whose attempt, which model, which kind of token, where the figure comes from,
-- which item or step, which tag. "" is not known.
ALTER TABLE usage ADD COLUMN attempt BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE usage ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE usage ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE usage ADD COLUMN item TEXT NOT NULL DEFAULT '';
ALTER TABLE usage ADD COLUMN tag TEXT NOT NULL DEFAULT '';
-- What a job has used on a day of the ledger's time zone, by attempts that have ended: written where one ends, so that
-- a cap of a day or a month is a sum of a few rows.
CREATE TABLE tally (
  job    TEXT   NOT NULL,
  day    TEXT   NOT NULL,
  usd    BIGINT NOT NULL,
  tokens BIGINT NOT NULL,
  calls  BIGINT NOT NULL,
  units  BIGINT NOT NULL,
  PRIMARY KEY (job, day)
) /* sqlite: WITHOUT ROWID */;
-- The items of batches. A program that knows them by their old name must not work here any more.
ALTER TABLE step RENAME TO item;
DROP INDEX step_state;
CREATE INDEX item_state ON item (scope, state, digest);
INSERT INTO meta (key, value) VALUES ('ledger.needs', '4') ON CONFLICT (key) DO UPDATE SET value = excluded.value
