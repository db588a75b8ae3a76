-- Times are milliseconds. `expires` counts on the clock that `clock` names; the others are wall clock,
-- for people. A lease's row is never deleted: its token has to outlive every holder.
CREATE TABLE lease (
  name     TEXT   NOT NULL PRIMARY KEY,
  token    BIGINT NOT NULL,
  previous BIGINT NOT NULL,
  grant_id TEXT,
  holder   TEXT   NOT NULL,
  ttl      BIGINT NOT NULL,
  clock    TEXT   NOT NULL,
  expires  BIGINT NOT NULL,
  since    BIGINT NOT NULL,
  until    BIGINT NOT NULL,
  version  BIGINT NOT NULL,
  gates    BIGINT NOT NULL
);
CREATE TABLE gate (
  name  TEXT   NOT NULL,
  gate  TEXT   NOT NULL,
  token BIGINT NOT NULL,
  at    BIGINT NOT NULL,
  PRIMARY KEY (name, gate)
);
CREATE TABLE done (
  scope TEXT   NOT NULL,
  key   TEXT   NOT NULL,
  value TEXT   NOT NULL,
  input TEXT   NOT NULL,
  token BIGINT NOT NULL,
  at    BIGINT NOT NULL,
  PRIMARY KEY (scope, key)
);
CREATE TABLE cursor (
  job        TEXT   NOT NULL PRIMARY KEY,
  next_due   BIGINT NOT NULL,
  definition TEXT   NOT NULL
);
