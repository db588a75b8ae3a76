"""The items of batches, each in the scope of its batch's name.

Rows are written by the run's writer, in the commit that checks its token. Here they are read: as there may be a
million, their digests are read in pages, from the index alone.
"""

from __future__ import annotations

from ..core.effects import BEGUN, DONE, GIVEN_UP, IN_DOUBT
from ..core.value import value
from . import kinds
from .chain import clean
from .typed_table import TypedTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeAlias

    from .tables import Tables

    States: TypeAlias = dict[str, tuple[Any, ...]]  # by digest; only to be compared

_PAGE = 50_000  # digests in one page
_AT_ONCE = 500  # digests in one statement


@value(frozen=True, kw_only=True)
class ItemRow:
    """One item. `changed` is wall clock, in seconds."""

    scope: str
    digest: str
    key: str
    status: str  # one of core.effects
    tries: int
    run: str
    attempt: int
    exit_code: int | None
    result: str  # the beginning of its output
    reason: str
    changed: float


_IDENTITY = ("scope", "digest", "key")  # what identifies an item; the rest may change
ITEM = TypedTable(
    "item",
    ItemRow,
    # What is done stays done, whatever is reported later.
    "ON CONFLICT (scope, digest) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in ItemRow.__annotations__ if name not in _IDENTITY)
    + " WHERE item.status <> 'done'",
)

_DIGESTS = """
SELECT digest FROM {prefix}item WHERE scope = :scope AND status = :status AND digest > :after
ORDER BY digest LIMIT :most
"""
_RESOLVABLE = "scope = :scope AND status IN ('in-doubt', 'needs-attention'{this}"
# What a person knows of an item when deciding. Not when it changed: wall clocks step.
_STATES = f"SELECT digest, key, status, run, attempt, tries FROM {{prefix}}item WHERE {_RESOLVABLE}"
_RESOLVE = """
UPDATE {prefix}item SET status = :status, reason = :reason, changed = :at
WHERE scope = :scope AND digest IN ({digests})
"""
_COUNTS = "SELECT status, COUNT(*) FROM {prefix}item WHERE scope = :scope GROUP BY status"
# Goes from scope to scope by the index, so that a million done items are not read.
_NEEDING_DECISION = """
WITH RECURSIVE seen (scope) AS (
  SELECT MIN(scope) FROM {prefix}item
  UNION ALL SELECT (SELECT MIN(scope) FROM {prefix}item WHERE scope > seen.scope) FROM seen WHERE seen.scope IS NOT NULL
)
SELECT found.*, (SELECT MIN(reason) FROM {prefix}item AS item
                WHERE item.scope = found.scope AND item.status = found.status AND item.key = found.one) FROM (
  SELECT seen.scope, item.status, COUNT(*), MIN(item.key) AS one, MAX(item.changed) FROM seen
  JOIN {prefix}item AS item ON item.scope = seen.scope AND item.status IN ('in-doubt', 'needs-attention')
  {this} GROUP BY seen.scope, item.status
) AS found ORDER BY found.scope, found.status
"""


class Items:
    """Made by `Ledger.items`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def digests(self, scope: str, status: str) -> Iterator[str]:
        """The digests of all items in a status, in order, without holding them all."""
        found = self._tables.in_pages(_DIGESTS, _PAGE, {"after": ""}, scope=scope, status=status)
        return (digest for (digest,) in found)

    def finished(self, scope: str) -> Iterator[str]:
        """The digests of items that are never done again: they are done, or a person gave them up."""
        yield from self.digests(scope, DONE)
        yield from self.digests(scope, GIVEN_UP)

    def reasons(self, scope: str, digests: list[str]) -> dict[str, str]:
        """The reason of each item, by its digest."""
        return self._column("reason", scope, digests)

    def keys(self, scope: str, digests: list[str]) -> dict[str, str]:
        """The key of each item, by its digest."""
        return self._column("key", scope, digests)

    def _column(self, column: str, scope: str, digests: list[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        sql = f"SELECT digest, {column} FROM {{prefix}}item WHERE scope = :scope AND digest IN ({{digests}})"
        for listed, some in _in_parts(sql, digests):
            found |= dict(self._tables.read(listed, scope=scope, **some))
        return found

    def every(self, scope: str, status: str, limit: int = 1_000_000) -> list[ItemRow]:
        some = "WHERE scope = :scope AND status = :status ORDER BY digest LIMIT :most"
        return self._tables.select(ITEM, some, scope=scope, status=status, most=limit)

    def in_flight(self, scope: str) -> list[ItemRow]:
        """Items begun and not ended. For a new holder of the batch's lease: nobody works on them any more."""
        return self.every(scope, BEGUN)

    def in_doubt(self, scope: str) -> list[ItemRow]:
        return self.every(scope, IN_DOUBT)

    def counts(self, scope: str) -> dict[str, int]:
        """How many items there are in each status."""
        return dict(self._tables.read(_COUNTS, scope=scope))

    def needing_decision(self, key: str = "") -> list[tuple[str, str, int, str, float, str]]:
        """(batch, status, how many, one of their keys, last change, that item's reason) of all items that need a
        decision, or of those with this key."""
        rows = self._tables.read(_NEEDING_DECISION.replace("{this}", "WHERE item.key = :key" if key else ""), key=key)
        return [(scope, status, count, key, at / 1000, reason) for scope, status, count, key, at, reason in rows]

    def states(self, scope: str, key: str) -> States:
        """What a person who decides with `resolve` knows of the items that it would decide about."""
        return {row[0]: row for row in self._tables.read(_of_key(_STATES, key), scope=scope, key=key)}

    def resolve(self, scope: str, key: str, status: str, *, reason: str, seen: States) -> list[str]:
        """Record what a person decided about an item that is not done; with key "", about all in doubt or set aside.
        Returns their keys. `seen`: their `states` when the person decided; those that have changed are left out."""
        with self._tables.on_chain(scope) as chain:
            now = chain(_of_key(_STATES, key) + " {lock}", scope=scope, key=key)
            same = {row[0]: row[1] for row in now if seen.get(row[0]) == row}
            for sql, some in _in_parts(_RESOLVE, list(same)):
                chain(sql, scope=scope, status=status, reason=clean(reason), at=chain.at, **some)
            keys = sorted(same.values())
            if keys:
                chain.append(kinds.ITEMS_RESOLVED, status=status, keys="\n".join(keys), reason=reason)
            return keys


def _in_parts(sql: str, digests: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The statement, as often as it takes for all digests: each time with the parameters for some of them."""
    for first in range(0, len(digests), _AT_ONCE):
        some = {f"digest{number}": digest for number, digest in enumerate(digests[first : first + _AT_ONCE])}
        yield sql.replace("{digests}", ", ".join(f":{name}" for name in some)), some


def _of_key(sql: str, key: str) -> str:
    """The statement for all items that need a decision; with a key, for that one, even if it failed or was given up."""
    return sql.replace("{this}", ", 'given-up', 'failed') AND key = :key" if key else ")")
