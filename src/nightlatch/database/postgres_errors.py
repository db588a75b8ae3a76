"""What PostgreSQL and the network say, as one line that tells a person what to do."""

from __future__ import annotations

from ..errors import StoreUnreachable
from .wire import Broken, ServerRefused

_CHECK = "Check host and port in --store; nightlatch doctor looks closer"

# A part of libpq's text → what it means. A server may speak another language: then its own words are shown.
_NETWORK = (
    ("Connection refused", f"cannot be reached: nothing listens there (connection refused). {_CHECK}"),
    ("could not translate host name", f"cannot be reached: no such host name. {_CHECK}"),
    ("No such file or directory", f"cannot be reached: no server has that socket. {_CHECK}"),
    ("No route to host", f"cannot be reached: no route to that host. {_CHECK}"),
    ("no answer in time", f"did not answer in time. {_CHECK}"),
    ("password authentication failed", "refused user or password. Put the right one into ~/.pgpass or PGPASSWORD"),
    ("no password supplied", "asks for a password. Put it into ~/.pgpass or PGPASSWORD (inside a run: --pass-store)"),
    ("no pg_hba.conf entry", "lets in nobody from here under this user: add a line to its pg_hba.conf"),
    ('role "', "does not know this user. Write another in --store, or make it: createuser NAME"),
    ('" does not exist', "has no such database. Write another in --store, or make it: createdb NAME"),
    ("too many", "has no connection left for us. Raise max_connections there, or put a pooler in front"),
    ("starting up", "is starting up. Try again in a moment"),
    ("shutting down", "is shutting down. Try again when it is back"),
    ("terminating connection", "ended our connection in the middle: whether it happened is not known. Try again"),
    ("read-only", "offers no server that can be written to: name the primary in --store"),
)

_SERVER = {
    "25006": "is read-only: a standby, or default_transaction_read_only is on. Name the primary in --store; with "
    "several hosts: postgresql://one,two/database?target_session_attrs=read-write",
    "42501": "does not let this user do that. Let its owner run: nightlatch migrate --store URL (or hand over "
    "`nightlatch migrate --dump-sql`), then GRANT USAGE ON SCHEMA and SELECT, INSERT, UPDATE ON ALL TABLES in it",
    "57014": "gave up the statement: its statement_timeout is too short for us",
    "55P03": "gave up the statement: its lock_timeout is too short for us",
    "53100": "cannot write: its disk is full. Free some space there; nothing was changed",
    "53300": "has no connection left for us. Raise max_connections there, or put a pooler in front",
    "42P01": "lacks a table of ours: run nightlatch migrate",
    "42703": "has tables of another make in our schema: name another one with ?schema=NAME",
}


class ExplainedPostgresErrors:
    """`with ExplainedPostgresErrors(url): …` turns what went wrong inside into StoreUnreachable."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if isinstance(error, ServerRefused):
            said = _SERVER.get(error.sqlstate, f"failed: {_line(error)} (SQLSTATE {error.sqlstate})")
        elif isinstance(error, Broken):
            text = _line(error)
            said = next((advice for sign, advice in _NETWORK if sign in text), f"cannot be reached: {text}. {_CHECK}")
        else:
            return
        raise StoreUnreachable(f"the store {self._url} {said}") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")
