"""What the work has reported through the socket."""

from __future__ import annotations


class Reported:
    """What an attempt, or an item of a batch, has reported about itself so far."""

    def __init__(self) -> None:
        self.used: dict[str, float] = {}
        self.unwritten: dict[str, float] = {}  # the part of `used` that the ledger does not have yet
        self.unmetered = ""  # why `used` may be incomplete
        self.refused = ""  # why a call to a model was refused: the budget that is spent
        self.retry_after = 0.0  # seconds it asked to wait before the next try
        self.failure = ""  # why it failed, in its own words
        self.attention = False  # a person has to look
        self.doubts: set[str] = set()  # effects whose end nobody knows and no probe can find out
        self.waited_at = float("-inf")  # when it last reported that it waits for a probe
        self.abandoned = ""  # an effect that it was in the middle of when it ended

    def add(self, amounts: dict[str, float]) -> None:
        for unit, amount in amounts.items():
            self.used[unit] = self.used.get(unit, 0.0) + amount
