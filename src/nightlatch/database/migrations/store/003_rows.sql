-- A job's row: how far its slots are decided, its claim, its definition. `id` names its last change; `slot` and `wake`
-- are compared here, `body` is a text that the store does not read. It replaces `cursor`, which nothing has used.
CREATE TABLE job (
  job  TEXT   NOT NULL PRIMARY KEY,
  id   TEXT   NOT NULL,
  slot BIGINT NOT NULL,
  wake BIGINT NOT NULL,
  body TEXT   NOT NULL
);
CREATE INDEX job_wake ON job (wake);
DROP TABLE cursor
