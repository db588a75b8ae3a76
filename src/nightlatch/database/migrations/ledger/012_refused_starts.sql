-- Starts of a job that were refused: one record for each job and cause, with a count. Times are wall clock in ms.
CREATE TABLE refused_start (
  job    TEXT   NOT NULL,
  cause  TEXT   NOT NULL,
  reason TEXT   NOT NULL,
  first  BIGINT NOT NULL,
  last   BIGINT NOT NULL,
  count  BIGINT NOT NULL,
  PRIMARY KEY (job, cause)
) /* sqlite: WITHOUT ROWID */;
