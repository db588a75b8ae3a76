"""The scheduler's side of the forking process: give it claimed slots, collect their ends, replace it when it dies."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys

from ..config.load import Config
from ..core.row import Claim
from ..system import clock, durable
from . import forks
from .orders import receive, send
from .scheduled import Scheduled

LOG = "supervisors.log"
_ANSWER = 10.0  # seconds in which the forking process must answer an order; otherwise it is replaced


class _Order:
    """`what`: job and slot, for people. `order`: as it is sent to the forking process."""

    def __init__(self, what: str, order: dict[str, object]) -> None:
        self.what, self.order, self.at = what, order, clock.now()


class Starter:
    def __init__(self, store: str, folder: str) -> None:
        """`store`: its URL. It may hold a password, so it is sent through a private socket."""
        self._store = store
        self.config: Config | None = None  # the nightlatch.toml in force
        self._log = os.path.join(durable.private_folder(folder), LOG)
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.running: dict[int, str] = {}  # supervisor's pid → job and slot
        self._ordered: list[_Order] = []  # those not answered yet
        self._cold: list[subprocess.Popen[bytes]] = []  # supervisors started without the forking process

    def fileno(self) -> int:
        """Readable when a supervisor has ended; -1: no forking process."""
        return self._channel.fileno() if self._channel else -1

    def start(self, scheduled: Scheduled, claim: Claim) -> None:
        """Order a supervisor without waiting for it: the row shows what became of the claim."""
        job = scheduled.start(claim)
        order: dict[str, object] = {"job": job.pack(), "claim": claim.id, "store": self._store, "log": self._log}
        if self.config and self.config.changed:  # an edit that is not in force: the supervisor must not read it
            order["config"] = {self.config.path: self.config.text}
        what, channel = f"{job.name} {job.key}", self._connect()
        if channel is None:
            self._start_cold(order, what)
            return
        self._ordered.append(_Order(what, order))
        send(channel, order)

    def ended(self) -> list[tuple[str, int]]:
        """The supervisors that have ended since the last call, each with its exit code."""
        found: list[tuple[str, int]] = []
        while self._channel and select.select([self._channel], [], [], 0)[0]:
            message = receive(self._channel)
            if message is None:
                self._disconnect()
            elif "started" in message:
                self.running[message["started"]] = self._ordered.pop(0).what
            elif "again" in message:
                self._ordered.append(again := self._ordered.pop(0))
                send(self._channel, again.order)
            elif message["ended"] in self.running:
                found.append((self.running.pop(message["ended"]), message["code"]))
        for process in [process for process in self._cold if process.poll() is not None]:
            self._cold.remove(process)
            found.append((self.running.pop(process.pid, ""), process.returncode))
        return found

    @property
    def busy(self) -> bool:
        return bool(self._ordered or self.running)

    @property
    def has_open_orders(self) -> bool:
        """Is there an order whose supervisor has not been started yet?"""
        return bool(self._ordered)

    def signal_all(self, signum: int) -> None:
        """Send a signal to every supervisor that was started here."""
        for pid in self.running:
            try:
                os.kill(pid, signum)
            except ProcessLookupError:
                pass

    def close(self) -> None:
        """End the forking process; the runs that it started go on."""
        self._disconnect()

    def preload(self) -> None:
        """Start the forking process now, so that it is ready for the first slot."""
        self._connect()

    def _connect(self) -> socket.socket | None:
        stuck = self._ordered and clock.now() - self._ordered[0].at > _ANSWER
        if self._process and (stuck or self._process.poll() is not None):
            self._disconnect()
        if self._channel is None:
            ours, theirs = socket.socketpair()
            try:
                self._process = subprocess.Popen(
                    forks.command(theirs.fileno()), pass_fds=[theirs.fileno()], start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                )  # fmt: skip
            except OSError:  # no memory or no process left: a cold start may still succeed
                ours.close()
                return None
            finally:
                theirs.close()
            self._channel = ours
        return self._channel

    def _disconnect(self) -> None:
        if self._channel:
            self._channel.close()
        if self._process:
            try:
                self._process.wait(1.0)
            except subprocess.TimeoutExpired:  # it is stopped or hangs; killing it loses nothing
                self._process.kill()
                self._process.wait()
        self._channel = self._process = None
        # Nobody reports the ends of its runs any more: the rows show them.
        self._ordered.clear()
        self.running.clear()

    def _start_cold(self, order: dict[str, object], what: str) -> None:
        import json

        program = """if True:
            import json, sys
            from nightlatch.scheduler.supervisors import supervise
            sys.exit(supervise(json.load(sys.stdin))[0])
        """
        with open(self._log, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        assert process.stdin
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
        self.running[process.pid] = what
        self._cold.append(process)
