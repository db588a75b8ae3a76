"""Effects in the ledger: each verb moves one row from the status that its caller saw, and journals the move
on the chain of the effect's scope.

The row carries the token and the grant of the holder that began it; every holder's verb compares them where it
writes, so that a holder that was overtaken records nothing."""

from __future__ import annotations

from ..core import advice
from ..core.effects import BEGUN, DONE, FAILED, IN_DOUBT
from ..core.model import Holder
from ..core.value import replace, value
from ..errors import StaleToken
from . import kinds
from .chain import clean
from .typed_table import TypedTable, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tables import ChainTransaction, Tables


@value(frozen=True, kw_only=True)
class Effect:
    """One effect. Times are wall clock, in seconds."""

    scope: str
    key: str
    status: str  # core.effects
    attempt: int
    token: int
    grant: str
    holder: Holder
    command: str = ""
    input: str = ""  # fingerprint; "": none
    deadline: float  # by then its command has ended, and every request it sent has been served or refused
    exit_code: int | None = None
    result: str = ""  # the beginning of its output
    reason: str = ""
    began: float = 0.0
    changed: float = 0.0


EFFECT = TypedTable("effect", Effect)

# Only an effect that is proven not done is begun again: not one that is done, or whose outcome is unknown.
_BEGIN = f"""
{EFFECT.put}
ON CONFLICT (scope, key) DO UPDATE SET
  status = 'begun', attempt = excluded.attempt, token = excluded.token, grant_id = excluded.grant_id,
  holder = excluded.holder, command = excluded.command, input = excluded.input, deadline = excluded.deadline,
  exit_code = NULL, result = '', reason = '', began = excluded.began, changed = excluded.changed
WHERE effect.status = 'failed' AND effect.token < excluded.token AND effect.attempt < excluded.attempt
RETURNING {EFFECT.names}
"""

# An early end leaves the deadline as it is: a server may still serve the request of a client that is gone. An end that
# was noticed after the deadline moves the deadline to that moment.
# Columns have milliseconds, as `chain.at` does; `EFFECT.by_column` converts the seconds of an `Effect`.
_MOVE = f"""
UPDATE {{prefix}}effect SET status = :status, exit_code = CAST(:exit_code AS BIGINT), result = :result,
  reason = :reason, changed = :at, deadline = CASE WHEN :has_ended = 1 AND deadline < :at THEN :at ELSE deadline END
WHERE scope = :scope AND key = :key AND status = :was AND token = :token AND grant_id = :grant AND attempt = :attempt
RETURNING {EFFECT.names}
"""

_LEARN = f"""
{EFFECT.put}
ON CONFLICT (scope, key) DO UPDATE SET
  status = excluded.status, attempt = excluded.attempt, token = excluded.token, grant_id = excluded.grant_id,
  holder = excluded.holder, input = excluded.input, deadline = excluded.deadline, exit_code = NULL,
  result = excluded.result, reason = excluded.reason, changed = excluded.changed
WHERE effect.attempt <= excluded.attempt AND effect.status <> 'done'
RETURNING {EFFECT.names}
"""


class Effects:
    """Made by `Ledger.effects`. Every verb is durable when it returns."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def find(self, scope: str, key: str) -> Effect | None:
        return self._tables.first(EFFECT, "WHERE scope = :scope AND key = :key", scope=scope, key=key)

    def with_key(self, key: str) -> list[Effect]:
        """The effects with this key, in all scopes."""
        return self._tables.select(EFFECT, "WHERE key = :key ORDER BY scope", key=key)

    def every(self, status: str = "", scope: str = "", limit: int = 1000) -> list[Effect]:
        """Effects with this status and scope ("": any), the newest change first."""
        which = {name: text for name, text in (("status", status), ("scope", scope)) if text}
        newest = f"{where(which)} ORDER BY changed DESC, key LIMIT :most"
        return self._tables.select(EFFECT, newest, **which, most=limit)

    def begin(
        self,
        scope: str,
        key: str,
        *,
        attempt: int,
        token: int,
        grant: str,
        holder: Holder,
        command: str,
        input: str,
        lasting: float,
    ) -> Effect:
        """Record the intent, before anything is done. `lasting`: seconds after which its command has surely ended."""
        with self._tables.on_chain(scope) as chain:
            at = chain.at / 1000
            begun = Effect(
                scope=scope, key=key, status=BEGUN, attempt=attempt, token=token, grant=grant, holder=holder,
                command=clean(command), input=input, deadline=at + lasting, began=at, changed=at,
            )  # fmt: skip
            rows = chain(_BEGIN, **EFFECT.by_column(begun))
            return self._journal_move(chain, rows, begun, kinds.EFFECT_BEGUN, by=str(holder), command=command)

    def finish(self, effect: Effect, status: str, *, exit_code: int | None, result: str, reason: str) -> Effect:
        """For its holder: record how the effect ended, once no process of its command is left.

        Raises `StaleToken` if another process has decided about it meanwhile.
        """
        return self._move(
            effect,
            BEGUN,
            status,
            kinds.EFFECT_ENDED[status],
            exit_code=exit_code,
            result=result,
            reason=reason,
            has_ended=True,
        )

    def reap(self, effect: Effect) -> Effect:
        """For the lease's present holder: mark it in doubt. The holder that began it is gone, and may have acted."""
        why = f"its holder {effect.holder} was gone before it reported how it ended"
        return self._move(effect, BEGUN, IN_DOUBT, kinds.EFFECT_IN_DOUBT, reason=why, has_ended=True)

    def decide(self, effect: Effect, status: str, *, by: str, result: str = "") -> Effect:
        """Record what a probe or a person found out about an effect in doubt."""
        if status not in (DONE, FAILED):
            raise ValueError(f"an effect in doubt cannot be decided as {status!r}")
        return self._move(
            effect, IN_DOUBT, status, kinds.EFFECT_RESOLVED, result=result or effect.result, reason=by, by=by
        )

    def learn(self, effect: Effect) -> Effect:
        """Record another machine's effect, as the shared store has it, if this ledger does not know it or its end."""
        with self._tables.on_chain(effect.scope) as chain:
            learned = replace(effect, began=chain.at / 1000, changed=chain.at / 1000)
            rows = chain(_LEARN, **EFFECT.by_column(learned))
            return self._journal_move(chain, rows, effect, kinds.EFFECT_LEARNED, reason=effect.reason)

    def _move(
        self,
        effect: Effect,
        was: str,
        status: str,
        kind: str,
        *,
        exit_code: int | None = None,
        result: str = "",
        reason: str = "",
        by: str | None = None,
        has_ended: bool = False,
    ) -> Effect:
        with self._tables.on_chain(effect.scope) as chain:
            rows = chain(
                _MOVE,
                scope=effect.scope,
                key=effect.key,
                was=was,
                token=effect.token,
                grant=effect.grant,
                attempt=effect.attempt,
                status=status,
                exit_code=exit_code,
                result=clean(result),
                reason=clean(reason),
                has_ended=int(has_ended),
                at=chain.at,
            )
            return self._journal_move(chain, rows, effect, kind, exit_code=exit_code, reason=reason or None, by=by)

    def _journal_move(
        self, chain: ChainTransaction, rows: list[tuple[Any, ...]], effect: Effect, kind: str, **facts: object
    ) -> Effect:
        if not rows:
            # Raised inside the transaction, which rolls it back.
            raise StaleToken(
                f"the effect {effect.key} has changed: another process has begun or resolved it. Nothing was recorded "
                f"here; look again: {advice.command('show', effect.key)}"
            )
        moved = EFFECT.read(rows[0])
        common = {name: getattr(moved, name) for name in ("scope", "key", "attempt", "token", "status")}
        chain.append(kind, **common, **facts)
        return moved
