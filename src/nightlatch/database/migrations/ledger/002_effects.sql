-- An effect: something done to the outside world. Its row is its fence: token and grant of the holder that began it.
-- Times are wall clock in milliseconds, as in 001.
CREATE TABLE effect (
  scope     TEXT   NOT NULL,
  key       TEXT   NOT NULL,
  state     TEXT   NOT NULL,
  attempt   BIGINT NOT NULL,
  token     BIGINT NOT NULL,
  grant_id  TEXT   NOT NULL,
  holder    TEXT   NOT NULL,
  command   TEXT   NOT NULL,
  input     TEXT   NOT NULL,
  deadline  BIGINT NOT NULL,
  exit_code BIGINT,
  result    TEXT   NOT NULL,
  reason    TEXT   NOT NULL,
  began     BIGINT NOT NULL,
  changed   BIGINT NOT NULL,
  PRIMARY KEY (scope, key)
);
CREATE INDEX effect_state ON effect (state);
-- A step: one item of a batch, in the scope of the batch's name. `digest` is the key's, short and of one length,
-- so that a million of them are read at once.
CREATE TABLE step (
  scope     TEXT   NOT NULL,
  digest    TEXT   NOT NULL,
  key       TEXT   NOT NULL,
  state     TEXT   NOT NULL,
  tries     BIGINT NOT NULL,
  run       TEXT   NOT NULL,
  attempt   BIGINT NOT NULL,
  exit_code BIGINT,
  result    TEXT   NOT NULL,
  reason    TEXT   NOT NULL,
  changed   BIGINT NOT NULL,
  PRIMARY KEY (scope, digest)
);
-- Which items are done is read from this index alone, in order.
CREATE INDEX step_state ON step (scope, state, digest);
