-- A run inside another one: handled by the same process, under the same grant. "" for all others.
ALTER TABLE run ADD COLUMN parent TEXT NOT NULL DEFAULT '';
