"""Calls that last too long are ended, all by one timer: a timer for each call is a good part of what a call costs."""

from __future__ import annotations

import asyncio

from aiohttp.web import BaseRequest

from ..system import clock

_LONGEST = 3590.0  # seconds that a call may last; shared caps rely on less than an hour (ledger/holds.py)
_LOOK = 5.0  # seconds between two looks


class Overdue:
    """The calls under way, the oldest first. If one lasts too long, its client is disconnected: that cancels its
    handler, as if the client had left, so its reply is in doubt and the connection to the vendor is closed."""

    def __init__(self, longest: float = _LONGEST, look: float = _LOOK) -> None:
        self._longest, self._look = longest, look
        self._under_way: dict[int, tuple[float, BaseRequest]] = {}

    def begin(self, request: BaseRequest) -> None:
        self._under_way[id(request)] = clock.now(), request

    def end(self, request: BaseRequest) -> None:
        del self._under_way[id(request)]

    async def watch(self) -> None:
        """End calls that last too long, for as long as the gateway runs."""
        while True:
            await asyncio.sleep(self._look)
            latest = clock.now() - self._longest
            for began, request in list(self._under_way.values()):
                if began > latest:
                    break
                if request.transport is not None:
                    request.transport.abort()
