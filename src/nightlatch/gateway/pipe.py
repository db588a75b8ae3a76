"""The gateway's end of the pipe to its supervisor, which holds and settles. One JSON object a line."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any, cast

from ..core.metering.call import Call
from ..runtime.shared.call_slots import CallSlots
from .room import Room

Row = tuple[str, int, int, int, str]  # kind, tokens, billionths of a dollar, calls, model ("": the requested one)
_encode = json.JSONEncoder(separators=(",", ":")).encode
_MOMENT = 0.02  # seconds for which messages that are not urgent are collected


def _row(kind: str, tokens: int, usd: int, calls: int, model: str) -> str:
    model_field = f',"model":{_encode(model)}' if model else ""
    return f'{{"kind":"{kind}","tokens":{tokens},"usd":{usd},"calls":{calls}{model_field}}}'


class Pipe(asyncio.Protocol):
    """Made by `open`. `over` is set when the supervisor tells the gateway to end, or has ended itself."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._unread = b""
        self._unsent: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last = 0  # number of the last call
        self._room: Room | None = None
        self._called = self._settled = False
        self._settings: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._closed = asyncio.Event()
        self.over = asyncio.Event()

    @classmethod
    async def open(cls, fd: int) -> tuple[Pipe, dict[str, Any]]:
        """Connect; returns the pipe and the settings, which are its first message."""
        _, pipe = await asyncio.get_running_loop().create_connection(cls, sock=socket.socket(fileno=fd))
        settings = await pipe._settings
        slots = CallSlots(settings["slots"])
        slots.sign()
        pipe._last, pipe._room = settings["last"], Room(slots)
        return pipe, settings

    # ── from the supervisor ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._handle_message(json.loads(line))

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()
        self._end()

    def _handle_message(self, message: dict[str, Any]) -> None:
        if not self._settings.done():
            self._settings.set_result(message)
        elif "room" in message:
            if self._room:
                self._room.renew(message)
        elif message.get("do") == "end":
            self._end()
        else:
            waiting = self._waiting.pop(message["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            elif "output" in message:
                self.free(message["id"])  # its client has left

    def _end(self) -> None:
        self.over.set()
        self._room = None  # nobody is left to record what it would grant
        for future in self._waiting.values():
            future.cancel()

    # ── to the supervisor ──

    def report_called(self) -> None:
        """A client has called: from now on the supervisor waits for our last messages. Sent at once, and only once."""
        if not self._called:
            self._called = True
            self._send({"do": "called"})

    def grant(self, call: Call, about: dict[str, Any]) -> int:
        """Grant a call here and now: returns its number; 0 if the supervisor has to decide. `about` has when it arrived
        (`at`), its model, item and subagent, and whether it came with a `login`."""
        # While others wait, the supervisor decides in turn: granting here would let this call overtake them.
        if self._room is None or self._waiting:
            return 0
        line = self._room.grant(self._last + 1, call, about)
        if line is None:
            return 0
        self._last += 1
        self._later(line)
        return self._last

    async def hold(self, call: Call, about: dict[str, Any]) -> dict[str, Any]:
        """Grant the call, or have the supervisor decide. The reply has `id` and the `output` to limit it to, `count`
        if the vendor's count is wanted first, or says why it is `refused`. A call that fits only later waits here."""
        if number := self.grant(call, about):
            return {"id": number, "output": call.wanted}
        self._last += 1
        number = self._last
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._send({"do": "hold", "id": number, "call": call.__dict__, **about})
        try:
            return await future
        except asyncio.CancelledError:
            # Its client has left. If the answer arrived at the same moment, free what is held for it.
            if self._waiting.pop(number, None) is not None:
                self._send({"do": "drop", "id": number})
            elif not future.cancelled() and "output" in future.result():
                self.free(number)
            raise

    def free(self, number: int) -> None:
        """The call was never sent, or the vendor refused it: nothing was used."""
        self._send({"do": "free", "id": number})

    def settle(self, number: int, rows: list[Row]) -> None:
        """Report what the call used, a row for each kind of token."""
        text = ",".join([_row(*row) for row in rows])
        self._later(f'{{"do":"settle","id":{number},"rows":[{text}]}}\n'.encode())
        self._settled = True

    def doubt(self, number: int, known: int | None) -> None:
        """The end of the call's reply was not seen. `known`: the cost of its input, in billionths."""
        self._send({"do": "doubt", "id": number, "known": known})

    def report_refused(self, why: str) -> None:
        """A request was refused for another reason than a cap."""
        self._send({"do": "refused", "why": why})

    def _send(self, message: dict[str, Any]) -> None:
        self._later(_encode(message).encode() + b"\n")
        if message["do"] == "hold":
            self._flush()

    def _later(self, line: bytes) -> None:
        """Send the line with the next urgent message, or in a moment; at once as long as no call has settled, because
        from the first call on the usage that the command itself reports is only noted."""
        self._unsent.append(line)
        if not self._settled:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_MOMENT, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    async def close(self) -> None:
        """Returns when the supervisor has everything that was sent."""
        self._flush()
        if self._transport is not None:
            self._transport.close()
            await self._closed.wait()
