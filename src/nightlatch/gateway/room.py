"""Calls that this gateway may grant by itself: those that fit into the room which the run's own caps leave.

Only this gateway's calls count against these caps while it lives, so a call that fits unchanged need not wait for the
supervisor. What is granted is subtracted at once; what was not used comes back only with the supervisor's next message.
The supervisor decides everything else: a call that must be lowered or has to wait, or that does not fit.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from ..core.metering.call import Call, unlowered
from ..runtime.shared.call_slots import CallSlots
from ..system import clock

_MOST_TEXTS = 1000  # descriptions of calls that are kept in memory


class Room:
    def __init__(self, slots: CallSlots) -> None:
        self._slots = slots
        self._left: dict[str, int] | None = None  # unit → what is left; None: the supervisor decides about all calls
        self._texts: dict[tuple[str, str, str, bool], str] = {}  # see `_described`
        self._until = 0.0  # when this gateway must stop granting, by the suspend-proof clock
        self._to = 0  # calls up to this number have a slot
        self._unseen: deque[tuple[int, dict[str, int]]] = deque()  # granted, but not in the supervisor's figures yet

    def renew(self, message: dict[str, Any]) -> None:
        """Take over the supervisor's figures, less the calls that it had not seen."""
        while self._unseen and self._unseen[0][0] <= message["seen"]:
            self._unseen.popleft()
        self._left = message["room"]
        if self._left is None:
            return
        self._until, self._to = message["until"], message["to"]
        for _, bound in self._unseen:
            self._subtract(bound)

    def grant(self, number: int, call: Call, about: dict[str, Any]) -> bytes | None:
        """Grant the call and record it: returns the message for the supervisor. None: the supervisor must decide."""
        if self._left is None or number > self._to or (now := clock.now()) >= self._until:
            return None
        bound = unlowered(call, self._left)
        if bound is None:
            return None
        line = (
            # Times are rounded down to thousandths: no call looks younger than it is.
            f'{{"do":"held","id":{number},"began":{int(now * 1000)}e-3,"at":{int(clock.wall() * 1000)}e-3,'
            f'"usd":{bound["usd"]},'
            f'"tokens":{bound["tokens"]},"fixed":{call.fixed},"fee":{call.fee},"output":{call.wanted},'
            f'"output_rate":{call.output_rate * call.times},{self._described(about)}}}'
        ).encode()
        # The clock is read again: the next holder finds only calls that were in their slots before the lease ended.
        if not self._slots.put(number, line) or clock.now() >= self._until:
            return None
        self._subtract(bound)
        self._unseen.append((number, bound))
        return line + b"\n"

    def _described(self, about: dict[str, Any]) -> str:
        """Model, item, subagent and login as JSON; kept, since they are the same for many calls."""
        key = about["model"], about["item"], about["agent"], about["login"]
        found = self._texts.get(key)
        if found is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            names = ("model", "item", "agent", "login")
            found = self._texts[key] = json.dumps(dict(zip(names, key, strict=True)))[1:-1]
        return found

    def _subtract(self, bound: dict[str, int]) -> None:
        assert self._left is not None
        for unit in self._left:
            self._left[unit] -= bound[unit]
