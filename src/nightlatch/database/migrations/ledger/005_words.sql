-- How a run, an attempt, an effect or an item stands is called its status, here as everywhere else. A program that knows
-- the column by its old name must not work here any more.
ALTER TABLE run RENAME COLUMN state TO status;
ALTER TABLE attempt RENAME COLUMN state TO status;
ALTER TABLE effect RENAME COLUMN state TO status;
ALTER TABLE item RENAME COLUMN state TO status;
DROP INDEX run_state;
CREATE INDEX run_status ON run (status);
DROP INDEX effect_state;
CREATE INDEX effect_status ON effect (status);
DROP INDEX item_state;
CREATE INDEX item_status ON item (scope, status, digest);
INSERT INTO meta (key, value) VALUES ('ledger.needs', '5') ON CONFLICT (key) DO UPDATE SET value = excluded.value
