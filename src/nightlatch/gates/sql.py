"""Tables in the user's own database that only the newest holder can change, in the user's own transaction."""

from __future__ import annotations

from contextlib import contextmanager

from ..core import checks, fence
from ..core.fence import KeptMark, Refusal
from ..core.model import KnownGrants, Mark, check_name
from ..core.value import replace
from ..errors import GateUnreachable, StaleToken, UsageError
from ..system import clock, extras
from .bearer import sealed_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol

    from ..core.protocols import Bearer

    class GateMarks(Protocol):
        """The marks of one gate, in a transaction that excludes every other seal of that gate."""

        def read(self) -> dict[str, KeptMark]: ...
        def write(self, kept: KeptMark) -> None: ...
        def record(self, refusal: Refusal) -> None: ...

    class GatedTransaction(Protocol):
        """The user's transaction, begun and checked: the mark cannot change before the transaction ends."""

        def commit(self) -> None:
            """Raises `InDoubt` if nobody knows whether it was committed; after any other error it was not."""

        def rollback(self) -> None: ...

        def cut_off(self) -> bool:
            """Has the server closed the connection?"""

    class Database(Protocol):
        """What the gate needs of a database; implemented by `sql_sqlite` and `sql_postgres`."""

        url: str  # without a password

        def exclusive(self, gate: str, mark: Mark | None) -> Any:
            """A context manager that yields `GateMarks`, in a separate transaction that is durable when it ends."""

        def enter(self, connection: Any, gate: str, mark: Mark) -> GatedTransaction | None:
            """Begin the user's transaction if this mark is the gate's current one; otherwise return None."""

        def marks(self, gate: str) -> dict[str, KeptMark]: ...
        def refusals(self, gate: str) -> list[Refusal]: ...
        def install(self, gate: str, tables: list[str]) -> None: ...
        def remove(self, gate: str, tables: list[str]) -> list[str]: ...
        def guarded(self, gate: str) -> list[str]: ...
        def unguarded(self, gate: str) -> list[str]: ...


_TRIES = 3  # how often to seal and look for the mark on the connection


class Sql:
    """The gate `name` in a database; connections are the user's, of sqlite3 or psycopg 3.

        articles = gates.Sql("articles", url="postgresql://app@db/site")
        with nightlatch.lease("writer", gates=[articles]) as lease:
            with articles.transaction(conn, lease):
                conn.execute("UPDATE articles SET …")

    The transaction commits only if no newer holder has sealed the gate: a seal waits for it, or ends it.
    A stale holder gets `StaleToken` before the block's first statement. A write that bypasses the gate is
    refused only if its table has triggers: `nightlatch gate install`, or `install` here.

    Later holders, on any machine, need only the URL to seal. It never carries a password: libpq finds
    that in PGPASSWORD, ~/.pgpass or a service file. Without `url`, the gate takes it from the first
    connection. `timeout` (PostgreSQL only): the longest a transaction may take, by the server's clock.
    """

    def __init__(self, name: str, url: str | None = None, *, timeout: str | None = None) -> None:
        self.name = check_name(name)
        self._timeout = timeout
        if url is not None:
            checks.text(url, "the database's URL")
        self._database: Database | None = _by_url(url, timeout) if url else None
        self._sealed: set[str] = set()  # grants under which this process has sealed it
        self.registered: Mark | None = None

    @classmethod
    def from_url(cls, url: str) -> Sql:
        database, _, name = url.partition("#")
        if not name:
            raise UsageError(f"name the gate in the database, after a #: {database}#articles")
        return cls(name, database)

    @property
    def url(self) -> str:
        return f"{self._known_database.url}#{self.name}"

    def seal(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        """Refuse every older grant from now on; returns the previous mark.

        PostgreSQL: an older holder in the middle of a transaction has 2 s to finish, then its session is ended.
        SQLite: a holder stopped in its transaction is killed, a running one is waited for.
        """
        refused: StaleToken | None = None
        before: KeptMark | None = None
        try:
            with self._known_database.exclusive(self.name, mark) as marks:
                current = marks.read()
                before = current.get(mark.name)
                fence.check_not_gone(self.url, current, mark, self._sealed)
                try:
                    if fence.admit(self.url, current, mark, known):
                        marks.write(fence.kept(mark, by, clock.wall()))
                except StaleToken as stale:
                    refused = stale
                    marks.record(fence.Refusal.of(stale, by, clock.wall()))
        except GateUnreachable as error:
            if refused is None:
                raise
            refused.add_note(f"the refusal could not be recorded: {error}")
        if refused:
            raise refused
        self._sealed.add(mark.grant)
        return before.mark if before else None

    @contextmanager
    def transaction(self, connection: Any, bearer: Bearer | Mark) -> Iterator[Any]:
        """One transaction on `connection`: commits when the block ends, rolls back when it raises.

        The connection must not be in a transaction yet, and the block must not end this one itself: what it
        writes after that is rolled back, with a `UsageError`. Raises `StaleToken`, with nothing written, if a
        newer holder has sealed the gate; `InDoubt` if the reply to the commit was lost and the database cannot
        say whether it happened.
        """
        self._database = self._database or _by_connection(connection, self._timeout)
        mark, by = sealed_mark(self, bearer)
        entered = self._enter(connection, mark, by)
        try:
            yield connection
        except BaseException as error:
            self._roll_back(entered, error)
            if entered.cut_off():
                self._raise_if_overtaken(mark, by, error)
            raise
        try:
            entered.commit()
        except GateUnreachable as error:
            self._raise_if_overtaken(mark, by, error)
            raise

    def standing(self) -> dict[str, KeptMark]:
        """Every mark by lease name."""
        return self._known_database.marks(self.name)

    def refusals(self) -> list[Refusal]:
        """The refusals at this gate, the oldest first."""
        return self._known_database.refusals(self.name)

    def adopt(self, store: str) -> int:
        """Make another store's marks this store's, with the same tokens; returns how many there were."""
        with self._known_database.exclusive(self.name, None) as marks:
            foreign = [kept for kept in marks.read().values() if kept.mark.store != store]
            for kept in foreign:
                # Without its grant: triggers do not know about stores, and would admit the old holder by it.
                marks.write(replace(kept, mark=replace(kept.mark, store=store, grant="")))
        return len(foreign)

    def install(self, *tables: str) -> None:
        """Put triggers on the tables, which refuse every change without this gate's current mark."""
        self._known_database.install(self.name, list(tables))

    def remove(self, *tables: str) -> list[str]:
        """Remove the triggers from these tables, or from all; returns the tables that had them. The marks stay."""
        return self._known_database.remove(self.name, list(tables))

    def guarded(self) -> list[str]:
        """The tables that have this gate's triggers."""
        return self._known_database.guarded(self.name)

    def unguarded(self) -> list[str]:
        """Partitions and children of guarded tables that have no triggers: they were added after `install`."""
        return self._known_database.unguarded(self.name)

    @property
    def _known_database(self) -> Database:
        if self._database is None:
            raise UsageError(
                f"the gate {self.name} does not know its database yet: gates.Sql({self.name!r}, "
                f'url="postgresql://user@host/database"), or sqlite:////path/to/file'
            )
        return self._database

    def _enter(self, connection: Any, mark: Mark, by: str) -> GatedTransaction:
        for _ in range(_TRIES):
            entered = self._known_database.enter(connection, self.name, mark)
            if entered:
                self._sealed.add(mark.grant)
                return entered
            # The mark is written through the URL and looked for on the connection, never the other way round:
            # so a connection to a database that later holders do not seal admits nobody.
            self.seal(mark, by)
        raise UsageError(
            f"this connection is not to the database that {self.url} names: a seal there would not be seen here. "
            f"Nothing was written. Give the gate the URL of the database it is used on"
        )

    def _roll_back(self, entered: GatedTransaction, error: BaseException) -> None:
        try:
            entered.rollback()
        except GateUnreachable as failed:
            error.add_note(str(failed))

    def _raise_if_overtaken(self, mark: Mark, by: str, error: BaseException) -> None:
        """Raise `StaleToken`, and record the refusal, if it was a newer holder that ended this session."""
        try:
            self.seal(mark, by)
        except StaleToken as stale:
            raise stale from error
        except GateUnreachable as failed:
            error.add_note(str(failed))


def _by_url(url: str, timeout: str | None) -> Database:
    if url.startswith("sqlite:"):
        from .sql_sqlite import Sqlite

        return Sqlite.by_url(url, timeout)
    if url.startswith(("postgresql:", "postgres:")):
        server: Database = _postgres().by_url(url, timeout)
        return server
    raise UsageError(
        f"{url.partition(':')[0]!r} is not a database that this gate knows: use postgresql://user@host/database, "
        f"or sqlite:////path/to/file"
    )


def _by_connection(connection: Any, timeout: str | None) -> Database:
    import sqlite3

    if isinstance(connection, sqlite3.Connection):
        from .sql_sqlite import Sqlite

        return Sqlite.by_connection(connection, timeout)
    server: Database = _postgres().by_connection(connection, timeout)
    return server


def _postgres() -> Any:
    try:
        from .sql_postgres import Postgres
    except ImportError as error:
        raise GateUnreachable(
            f"a gate on PostgreSQL needs psycopg 3 ({error}): {extras.install('postgres')}"
        ) from error
    return Postgres
