-- The grants of a lease, the newest first: grant, the token before it, the grant that had that token, and so on.
ALTER TABLE lease ADD COLUMN past TEXT NOT NULL DEFAULT '';
