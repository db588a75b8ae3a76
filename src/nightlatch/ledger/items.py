"""The items of batches, each in the scope of its batch's name. (Their table is called `step`.)

Rows are written by the run's writer, in the commit that checks its token. They are read here: a million
digests at a time, in pages, from an index that has all that is needed.
"""

from __future__ import annotations

from itertools import product

from ..core.effects import BEGUN, IN_DOUBT
from ..core.value import value
from ..database.guarded import Table
from .chain import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .tables import Tables

_PAGE = 50_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

ITEM = Table(
    "step",
    {
        "scope": "TEXT",
        "digest": "TEXT",
        "key": "TEXT",
        "state": "TEXT",
        "tries": "BIGINT",
        "run": "TEXT",
        "attempt": "BIGINT",
        "exit_code": "BIGINT",
        "result": "TEXT",
        "reason": "TEXT",
        "changed": "BIGINT",
    },
    # What is done stays done, whatever is said of it later.
    "ON CONFLICT (scope, digest) DO UPDATE SET state = excluded.state, tries = excluded.tries, run = excluded.run, "
    "attempt = excluded.attempt, exit_code = excluded.exit_code, result = excluded.result, reason = excluded.reason, "
    "changed = excluded.changed WHERE step.state <> 'done'",
)

_DIGESTS = """
SELECT digest FROM {prefix}step WHERE scope = :scope AND state = :state AND digest > :after
ORDER BY digest LIMIT :most
"""
_SOME = """
SELECT digest, key, state, tries, run, exit_code, result, reason, changed FROM {prefix}step
WHERE scope = :scope AND state = :state ORDER BY digest LIMIT :most
"""
_REASONS = "SELECT digest, reason FROM {prefix}step WHERE scope = :scope AND digest IN "
_RESOLVE = """
UPDATE {prefix}step SET state = :state, reason = :reason, changed = :at
WHERE scope = :scope AND state IN ('in-doubt', 'needs-attention') AND (:key = '' OR key = :key) RETURNING key
"""
_COUNTS = "SELECT state, COUNT(*) FROM {prefix}step WHERE scope = :scope GROUP BY state"
# From scope to scope by the index: a million items that are done are not looked at.
_ASKING = """
WITH RECURSIVE seen (scope) AS (
  SELECT MIN(scope) FROM {prefix}step
  UNION ALL SELECT (SELECT MIN(scope) FROM {prefix}step WHERE scope > seen.scope) FROM seen WHERE seen.scope IS NOT NULL
)
SELECT found.*, (SELECT MIN(reason) FROM {prefix}step AS step
                WHERE step.scope = found.scope AND step.state = found.state AND step.key = found.one) FROM (
  SELECT seen.scope, step.state, COUNT(*), MIN(step.key) AS one, MAX(step.changed) FROM seen
  JOIN {prefix}step AS step ON step.scope = seen.scope AND step.state IN ('in-doubt', 'needs-attention')
  WHERE :key = '' OR step.key = :key GROUP BY seen.scope, step.state
) AS found ORDER BY found.scope, found.state
"""


@value(frozen=True, kw_only=True)
class Item:
    """One item as it stands. `changed` is wall clock, in seconds."""

    digest: str
    key: str
    state: str  # core.effects
    tries: int
    run: str
    exit_code: int | None
    result: str  # the first of what it printed
    reason: str
    changed: float


class Items:
    """Made by `Ledger.items`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def digests(self, scope: str, state: str) -> Iterator[str]:
        """The digests of all items in a state, in order, without holding them all."""
        after = ""
        while True:
            page = self._tables.read(_DIGESTS, scope=scope, state=state, after=after, most=_PAGE)
            for (digest,) in page:
                yield digest
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def reasons(self, scope: str, digests: list[str]) -> dict[str, str]:
        """Why each of these stands as it does: of 676 at most, in one question."""
        given = {"".join(name): digest for name, digest in zip(product(_LETTERS, repeat=2), digests, strict=False)}
        places = ", ".join(f":{name}" for name in given)
        return dict(self._tables.read(_REASONS + f"({places})", scope=scope, **given)) if given else {}

    def every(self, scope: str, state: str, limit: int = 1_000_000) -> list[Item]:
        rows = self._tables.read(_SOME, scope=scope, state=state, most=limit)
        return [
            Item(
                digest=digest,
                key=key,
                state=state,
                tries=tries,
                run=run,
                exit_code=exit_code,
                result=result,
                reason=reason,
                changed=changed / 1000,
            )
            for digest, key, state, tries, run, exit_code, result, reason, changed in rows
        ]

    def in_flight(self, scope: str) -> list[Item]:
        """Begun and not ended: whoever holds the batch's lease now knows that nobody works on them."""
        return self.every(scope, BEGUN)

    def in_doubt(self, scope: str) -> list[Item]:
        return self.every(scope, IN_DOUBT)

    def counts(self, scope: str) -> dict[str, int]:
        """How many items there are in each state."""
        return dict(self._tables.read(_COUNTS, scope=scope))

    def asking(self, key: str = "") -> list[tuple[str, str, int, str, float, str]]:
        """(batch, state, how many, one of their keys, last change, why that one) of all items that wait for a person,
        or of those with this key."""
        rows = self._tables.read(_ASKING, key=key)
        return [(scope, state, count, key, at / 1000, reason) for scope, state, count, key, at, reason in rows]

    def resolve(self, scope: str, key: str, state: str, *, reason: str) -> list[str]:
        """A person says what becomes of an item in doubt or set aside, or with key "" of all. Returns their keys."""
        with self._tables.on_chain(scope) as chain:
            rows = chain(_RESOLVE, scope=scope, key=key, state=state, reason=clean(reason), at=chain.at)
            keys = sorted(key for (key,) in rows)
            if keys:
                chain.append("steps-resolved", state=state, keys="\n".join(keys), reason=reason)
            return keys
