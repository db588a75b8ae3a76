-- A run that waits for an approval: until when. An approved one has the head of the plan that was approved until it has
-- ended. `uncounted`: it ended, and its job's row in the store may not know of that yet.
ALTER TABLE run ADD COLUMN held BIGINT;
ALTER TABLE run ADD COLUMN approved TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN uncounted TEXT NOT NULL DEFAULT '';
CREATE INDEX run_held ON run (job) WHERE held IS NOT NULL;
CREATE INDEX run_uncounted ON run (job) WHERE uncounted <> '';
