"""Errors of PostgreSQL and the network, turned into one line that says what to do."""

from __future__ import annotations

from ..errors import StoreUnreachable
from .wire import Broken, ServerRefused

_CHECK = "Check host and port in --store; nightlatch doctor looks closer"
_CUT_OFF = "closed the connection before it answered, so the outcome is not known. Try again"

# A part of libpq's message → what it means. If the server uses another language, its own message is shown.
_NETWORK = (
    ("Connection refused", f"cannot be reached: nothing listens there (connection refused). {_CHECK}"),
    ("could not translate host name", f"cannot be reached: no such host name. {_CHECK}"),
    ("No such file or directory", f"cannot be reached: no server has that socket. {_CHECK}"),
    ("No route to host", f"cannot be reached: no route to that host. {_CHECK}"),
    ("no answer in time", f"did not answer in time. {_CHECK}"),
    ("password authentication failed", "refused user or password. Put the right one into ~/.pgpass or PGPASSWORD"),
    ("no password supplied", "asks for a password. Put it into ~/.pgpass or PGPASSWORD (inside a run: --pass-store)"),
    ("no pg_hba.conf entry", "does not accept this user from this machine: add a line to its pg_hba.conf"),
    ('role "', "does not know this user. Name another in --store, or create it: createuser NAME"),
    ('" does not exist', "has no such database. Name another in --store, or create it: createdb NAME"),
    ("too many", "has no connection left for us. Raise max_connections there, or put a pooler in front"),
    ("starting up", "is starting up. Try again in a moment"),
    ("shutting down", "is shutting down. Try again when it is back"),
    ("terminating connection", _CUT_OFF),
    ("server closed the connection", _CUT_OFF),
    ("Connection reset by peer", _CUT_OFF),
    ("read-only", "has no server that accepts writes: name the primary in --store"),
)

_SERVER = {
    "25006": "is read-only: a standby, or default_transaction_read_only is on. Name the primary in --store; with "
    "several hosts: postgresql://one,two/database?target_session_attrs=read-write",
    "42501": "does not let this user do that. Ask its owner to run: nightlatch migrate --store URL (or the SQL that "
    "`nightlatch migrate --dump-sql` prints), then to GRANT USAGE ON SCHEMA, and SELECT, INSERT, UPDATE, DELETE ON ALL "
    "TABLES",
    "57014": "cancelled the statement: its statement_timeout is too short. Raise it for this user",
    "55P03": "cancelled the statement: another session kept what it needs locked for too long. Try again: the server "
    "ends one that has stopped (or the lock_timeout of this user is too short)",
    "53100": "cannot write: its disk is full. Free some space there; nothing was changed",
    "53300": "has no connection left for us. Raise max_connections there, or put a pooler in front",
    "42P01": "lacks one of Nightlatch's tables: run nightlatch migrate",
    "42703": "has tables of another program in this schema: name another schema with ?schema=NAME",
}


class ExplainedPostgresErrors:
    """`with ExplainedPostgresErrors(url): …` turns errors inside it into StoreUnreachable."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if isinstance(error, ServerRefused):
            problem = _SERVER.get(error.sqlstate, f"failed: {_line(error)} (SQLSTATE {error.sqlstate})")
        elif isinstance(error, Broken):
            text = _line(error)
            problem = next(
                (advice for sign, advice in _NETWORK if sign in text), f"cannot be reached: {text}. {_CHECK}"
            )
        else:
            return
        raise StoreUnreachable(f"the store {self._url} {problem}") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")
