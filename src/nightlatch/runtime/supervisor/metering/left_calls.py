"""Calls that earlier attempts of a run left in flight: nobody saw their end, so they are in doubt.

A gateway may outlive its supervisor and be stopped in the middle of a call, while what the vendor charges for the call
grows. So the gateway is ended first; where its end cannot be proven, as on another machine, a call counts with all that
was held for it.
"""

from __future__ import annotations

from ....ledger.holds import FIRST_LAUNCH, Hold
from ...shared import call_slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow


class LeftCalls:
    """Finds the calls when it is made. Call `forget` when they are in the ledger."""

    def __init__(self, ledger: Ledger, run: RunRow, folder: str, now: float) -> None:
        """`folder`: the run's. `now`: by the ledger's clock."""
        self._files = {attempt: call_slots.path_of(folder, attempt) for attempt in call_slots.attempts(folder)}
        set_back = {attempt: call_slots.end_gateway(path) for attempt, path in self._files.items()}
        holds = [hold for hold in ledger.holds.of_run(run) if hold.call < FIRST_LAUNCH]
        granted = [
            granted_hold(call, run, attempt) for attempt, path in self._files.items() for call in call_slots.read(path)
        ]
        if granted:
            known = {(hold.attempt, hold.call) for hold in holds}
            ended = {call for entry in ledger.journal.of_run(run.id) for call in entry.facts.get("ended", "").split()}
            holds += [
                hold for hold in granted
                if (hold.attempt, hold.call) not in known and f"{hold.attempt}.{hold.call}" not in ended
            ]  # fmt: skip
        # Each with the highest age that it can have: the wall clock may have been set back.
        self.calls = [(hold, now - hold.at + set_back.get(hold.attempt, float("inf"))) for hold in holds]

    def forget(self) -> None:
        for path in self._files.values():
            call_slots.remove(path)


def granted_hold(message: dict[str, Any], run: RunRow, attempt: int) -> Hold:
    """What is held for a call that a gateway granted by itself, from its message or slot."""
    return Hold(
        run=run.id, attempt=attempt, call=message["id"], job=run.job, at=message["at"], usd=message["usd"],
        tokens=message["tokens"], calls=1, fixed=message["fixed"], output_rate=message["output_rate"],
        output=message["output"], **names_of(message),
    )  # fmt: skip


def names_of(message: dict[str, Any]) -> dict[str, str]:
    """Model, item and subagent of a call, for the ledger."""
    return {name: str(message.get(name) or "")[:_LONGEST] for name in ("model", "item", "agent")}


_LONGEST = 200  # characters of a name
