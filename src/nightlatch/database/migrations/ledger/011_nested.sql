-- The newest nested runs of a job, in their order. Other runs are not in it, so it costs them nothing.
CREATE INDEX run_nested ON run (job, changed) WHERE parent <> ''
