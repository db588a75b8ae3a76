-- Agents that runs launched at a vendor. The handle is here before the first poll, so that a later attempt or a
-- person can end them.
-- usd, tokens and so on are the vendor's totals as they were last recorded as usage.
CREATE TABLE agent (
  job      TEXT   NOT NULL,
  launch   TEXT   NOT NULL,
  run      TEXT   NOT NULL,
  item     TEXT   NOT NULL,
  provider TEXT   NOT NULL,
  agent    TEXT   NOT NULL,
  handle   TEXT   NOT NULL,
  status   TEXT   NOT NULL,
  note     TEXT   NOT NULL,
  page     TEXT   NOT NULL,
  fields   TEXT   NOT NULL,
  usd      BIGINT NOT NULL,
  tokens   BIGINT NOT NULL,
  calls    BIGINT NOT NULL,
  units    BIGINT NOT NULL,
  doubt    BIGINT NOT NULL,
  began    BIGINT NOT NULL,
  changed  BIGINT NOT NULL,
  ended    BIGINT,
  PRIMARY KEY (job, launch)
) /* sqlite: WITHOUT ROWID */;
CREATE INDEX agent_run ON agent (run);
CREATE INDEX agent_handle ON agent (handle);
CREATE INDEX agent_open ON agent (job) WHERE ended IS NULL
