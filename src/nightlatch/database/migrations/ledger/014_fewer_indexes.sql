-- The newest runs of all are merged from those of each status: this index was written three times by every run.
DROP INDEX run_changed
