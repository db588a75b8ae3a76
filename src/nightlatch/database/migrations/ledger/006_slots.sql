-- What became of a job's slots: one, or a range whose slots all ended alike. Times are wall clock in milliseconds; `slot`
-- is the one that they were collapsed into. `era`: how often the job's row had been set back by then.
CREATE TABLE slot_record (
  job     TEXT   NOT NULL,
  first   BIGINT NOT NULL,
  last    BIGINT NOT NULL,
  count   BIGINT NOT NULL,
  outcome TEXT   NOT NULL,
  reason  TEXT   NOT NULL,
  slot    BIGINT NOT NULL,
  run     TEXT   NOT NULL,
  host    TEXT   NOT NULL,
  at      BIGINT NOT NULL,
  era     BIGINT NOT NULL,
  PRIMARY KEY (job, first)
) /* sqlite: WITHOUT ROWID */;
