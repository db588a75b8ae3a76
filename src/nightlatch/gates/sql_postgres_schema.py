"""What the gate keeps in PostgreSQL: the marks, the check as a function of the server, and triggers that call it.

The functions run with their owner's rights (SECURITY DEFINER), so that a user of a guarded table needs no rights on
the marks. `enter` admits only callers that know the current grant.

Each gated transaction writes a *passage*, a row with a random number, and holds an advisory lock on that number until
it ends. A holder that lost the reply to a COMMIT looks for the number. A transaction id would not do: after a crash the
server hands out again the ids whose log it had not flushed.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection, sql

from ..errors import UsageError

SCHEMA = "nightlatch_gates"
CURSOR = "nightlatch_gate"
REFUSED = "NL073"  # SQLSTATE that the triggers raise

ENTRY = "nightlatch_gates.enter(text, text, text, bigint, tid, bigint)"

_CHECK = """FROM nightlatch_gates.mark m WHERE m.gate = its_gate
    AND m.token || ':' || m.grant_id || ':' || m.lease = claim {store}FOR SHARE"""

_CREATE = f"""
CREATE SCHEMA IF NOT EXISTS nightlatch_gates;
CREATE TABLE IF NOT EXISTS nightlatch_gates.mark (gate text, lease text, token bigint NOT NULL, grant_id text NOT NULL,
    store text NOT NULL, at double precision NOT NULL, by text NOT NULL, PRIMARY KEY (gate, lease));
CREATE TABLE IF NOT EXISTS nightlatch_gates.refusal (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    gate text NOT NULL, at double precision NOT NULL, lease text NOT NULL, offered bigint NOT NULL,
    grant_id text NOT NULL, store text NOT NULL, stands bigint NOT NULL, by text NOT NULL);
ALTER TABLE nightlatch_gates.mark ADD COLUMN IF NOT EXISTS floor bigint NOT NULL DEFAULT 0;
CREATE TABLE IF NOT EXISTS nightlatch_gates.passage (number bigint NOT NULL, token bigint NOT NULL,
    gate text NOT NULL, lease text NOT NULL);
CREATE OR REPLACE FUNCTION nightlatch_gates.enter(its_gate text, claim text, its_store text, its_number bigint,
    spare tid, spare_number bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    its_token bigint;
    its_lease text;
    place tid;
    nightlatch_gate refcursor := '{CURSOR}';
BEGIN
    SELECT m.token, m.lease INTO its_token, its_lease {_CHECK.format(store="AND m.store = its_store ")};
    IF NOT FOUND THEN RETURN NULL; END IF;
    PERFORM pg_advisory_xact_lock(its_number);
    -- A passage whose transaction is known to have ended is written over: so the table does not grow. Nothing is
    -- searched for here: under SERIALIZABLE that would make strangers' transactions fail.
    UPDATE nightlatch_gates.passage SET number = its_number, token = its_token, gate = its_gate, lease = its_lease
        WHERE ctid = spare AND number = spare_number RETURNING ctid INTO place;
    IF place IS NULL THEN
        INSERT INTO nightlatch_gates.passage VALUES (its_number, its_token, its_gate, its_lease)
            RETURNING ctid INTO place;
    END IF;
    -- This cursor lives exactly as long as the transaction: CLOSE fails in any other.
    OPEN nightlatch_gate FOR SELECT;
    RETURN place;
END $body$;
CREATE OR REPLACE FUNCTION nightlatch_gates.landed(its_number bigint, its_gate text, its_lease text, its_token bigint)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
    SELECT CASE WHEN pg_is_in_recovery() THEN NULL
        WHEN EXISTS (SELECT FROM nightlatch_gates.passage p WHERE p.number = its_number) THEN true
        ELSE (SELECT CASE WHEN m.floor <= its_token THEN false END FROM nightlatch_gates.mark m
              WHERE m.gate = its_gate AND m.lease = its_lease) END
$body$;
CREATE OR REPLACE FUNCTION nightlatch_gates.guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    its_gate text := TG_ARGV[0];
    claim text := current_setting('nightlatch.mark', true);
BEGIN
    PERFORM 1 {_CHECK.format(store="")};
    IF NOT FOUND THEN
        RAISE EXCEPTION 'nightlatch: %.% is behind the gate %, and %. Nothing was written',
            TG_TABLE_SCHEMA, TG_TABLE_NAME, its_gate,
            CASE WHEN coalesce(claim, '') = '' THEN 'no token was offered'
                 ELSE 'token ' || split_part(claim, ':', 1) || ' is not its current one' END
            USING ERRCODE = '{REFUSED}', HINT = 'Write inside gates.Sql(…).transaction(connection, lease); from a '
                'shell: PGOPTIONS="-c nightlatch.mark=$NIGHTLATCH_TOKEN:$NIGHTLATCH_GRANT:$NIGHTLATCH_LEASE" psql …';
    END IF;
    RETURN NULL;
END $body$;
GRANT USAGE ON SCHEMA nightlatch_gates TO PUBLIC;
"""

_GUARDED = """SELECT c.oid::regclass::text, encode(t.tgargs, 'escape') FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
    JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = 'nightlatch_gates' AND p.proname = 'guard' AND t.tgname = 'nightlatch_write' ORDER BY 1"""

_TREE = """WITH RECURSIVE tree AS (SELECT to_regclass(%s)::oid AS id
    UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.id)
    SELECT id::regclass::text FROM tree WHERE id IS NOT NULL"""


def exists(connection: Connection[Any]) -> bool:
    row = connection.execute("SELECT to_regprocedure(%s) IS NOT NULL", (ENTRY,)).fetchone()
    return bool(row and row[0])


def ensure(connection: Connection[Any]) -> None:
    if not exists(connection):
        with connection.transaction():
            # A process stopped in a transaction may hold locks on the tables of an older version.
            connection.execute("SET LOCAL lock_timeout = '30s'")
            # IF NOT EXISTS fails if another session creates the same at this moment.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('nightlatch gates', 0))")
            connection.execute(_CREATE.encode())


def install(connection: Connection[Any], gate: str, table: str) -> None:
    """Put triggers on the table, its partitions and INHERITS children: a write to a child fires only the child's."""
    for part in _with_children(connection, table):
        others = [other for name, other in _tables_and_gates(connection) if name == part and other != gate]
        if others:
            raise UsageError(f"{part} already has the triggers of the gate {others[0]}: remove those first")
        _drop_triggers(connection, part)
        for trigger, verbs in (("nightlatch_write", "INSERT OR UPDATE OR DELETE"), ("nightlatch_truncate", "TRUNCATE")):
            connection.execute(
                sql.SQL(
                    "CREATE TRIGGER {} BEFORE {} ON {} FOR EACH STATEMENT EXECUTE FUNCTION nightlatch_gates.guard({})"
                ).format(sql.Identifier(trigger), sql.SQL(verbs), sql.SQL(part), sql.Literal(gate))
            )


def remove(connection: Connection[Any], gate: str, tables: list[str]) -> list[str]:
    wanted = {part for table in tables for part in _with_children(connection, table)}
    found = [table for table in guarded(connection, gate) if not tables or table in wanted]
    for table in found:
        _drop_triggers(connection, table)
    return found


def guarded(connection: Connection[Any], gate: str) -> list[str]:
    return [table for table, its_gate in _tables_and_gates(connection) if its_gate == gate]


def unguarded(connection: Connection[Any], gate: str) -> list[str]:
    """Partitions and children that guarded tables got after `install`."""
    tables = guarded(connection, gate)
    return sorted({part for table in tables for part in _with_children(connection, table)} - set(tables))


def _tables_and_gates(connection: Connection[Any]) -> list[tuple[str, str]]:
    rows = connection.execute(_GUARDED).fetchall()
    return [(table, arguments.removesuffix("\\000")) for table, arguments in rows]


def _with_children(connection: Connection[Any], table: str) -> list[str]:
    """The table, its partitions and its children, named as the server writes them: quoted where needed."""
    rows = connection.execute(_TREE, (table,)).fetchall()
    if not rows:
        raise UsageError(f"there is no table {table}: with a schema it is schema.table, and capitals need quotes")
    return [name for (name,) in rows]


def _drop_triggers(connection: Connection[Any], table: str) -> None:
    for trigger in ("nightlatch_write", "nightlatch_truncate"):
        connection.execute(sql.SQL("DROP TRIGGER IF EXISTS {} ON {}").format(sql.Identifier(trigger), sql.SQL(table)))
