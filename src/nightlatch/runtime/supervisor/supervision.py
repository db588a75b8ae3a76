"""The one way to supervise: a command under its warden, its lease, and the signals for it.

    lifetime lock, warden → hold (lease) → start → report … → end (command, then lease)

`lock`, `once`, a run and a dry-run differ only in what they check before and record afterwards.
"""

from __future__ import annotations

import os
import sys

from ...config import place
from ...database import dsn
from ...store import url
from ...system import clock
from ...system.identity import new_id
from ...system.lifetime import Lifetime
from ...system.light import signal
from ...system.warden import LOST, SIGNALLED, Warden
from ...system.warden_messages import Report, Started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ...core.model import Begun, Record
    from ...core.protocols import Gate, Store
    from ...errors import LeaseLost
    from ..shared.leases.lease import Lease
    from .leases.handle import Handle

GRACE = 10.0  # seconds between SIGTERM and SIGKILL for the tree

BY_HAND = (signal.SIGINT, signal.SIGQUIT)  # from a person at the terminal: Ctrl-C, Ctrl-\
ENDING = (signal.SIGTERM, signal.SIGHUP, *BY_HAND)  # they ask us to end
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)  # the command gets them as they are


class Supervision:
    """Use it with `with`: however the block ends, nothing of the command is left, and then the lease is released.

    Needs its own process: it forks, handles signals, and becomes the parent of all orphans below.
    """

    def __init__(
        self,
        argv: Sequence[str],
        folder: str = "",
        *,
        captured: Sequence[int] = (),
        blocked: bool = False,
        frugal: bool = False,
    ) -> None:
        """`folder`: for the lock that proves that we live; "" if no lease will be held. `captured`: the command's
        standard streams (1, 2) that this process reads, from `streams`. `blocked`, `frugal`: as for `Warden`."""
        self._argv = list(argv)
        self.lease: Lease | None = None
        self.lost: LeaseLost | None = None  # set on exit: why the lease was not held to the end; None: it was
        self.end_signal = 0  # the first signal that asked us to end; 0: none
        self.terminal_signal = 0  # the last Ctrl-C or Ctrl-\\ at the terminal, which the command got too
        self._handle: Handle | None = None
        self._earlier_handlers: dict[int, Any] = {}  # by signal, to be restored
        self._lifetime = Lifetime(folder) if folder else None
        self.grant = self._lifetime.grant if self._lifetime else new_id()
        pipes = {number: os.pipe() for number in captured}
        self.streams = {number: reading_end for number, (reading_end, _) in pipes.items()}
        out, err = (pipes[number][1] if number in pipes else number for number in (1, 2))
        # Before any thread or connection exists: neither survives a fork.
        streams = (out, err) if pipes else None
        self.warden = Warden(self.grant, streams, lifetime=self._lifetime, blocked=blocked, frugal=frugal)
        for _, writing_end in pipes.values():
            os.close(writing_end)

    def __enter__(self) -> Supervision:
        return self

    def __exit__(self, *_: object) -> None:
        self.warden.dismiss()  # whatever went wrong: nothing may go on working when the lease is released
        if self._handle:
            self._handle.close()
        if self.lease:
            self.lost = self.lease.lost
            self.lease.release()
        elif self._lifetime:
            self._lifetime.end()

    def close(self) -> None:
        """The command has ended and this process goes on: restore its signal handlers."""
        while self._earlier_handlers:
            signal.signal(*self._earlier_handlers.popitem())
        self.warden.close()
        for reading_end in self.streams.values():
            os.close(reading_end)

    def collect_signals(self, received: list[int]) -> dict[int, Any]:
        """The command has ended and this process goes on: from now on, signals that ask it to end are added to
        `received`. Returns the earlier handlers, which the caller has to restore: `close` no longer does."""
        forwarded = [signum for signum in ENDING if signum in self._earlier_handlers]
        for signum in forwarded:
            signal.signal(signum, lambda signum, _: received.append(signum))
        return {signum: self._earlier_handlers.pop(signum) for signum in forwarded}

    # ── hold ──

    def hold(
        self,
        store: Store,
        name: str,
        *,
        ttl: float,
        wait: float,
        gates: Iterable[Gate] = (),
        begin: Begun | None = None,
        lazy: bool = False,
    ) -> Lease:
        """Acquire the lease, and keep it. When the lease is lost, the command is ended. `lazy` as in `Lease`."""
        from ..shared.leases.lease import Lease  # imported after the fork: meanwhile the warden makes the cgroup

        lifetime, self._lifetime = self._lifetime, None  # the lease ends it from here on, even if acquiring fails
        self.lease = Lease(
            store,
            name,
            ttl=ttl,
            wait=wait,
            gates=gates,
            lifetime=lifetime,
            begin=begin,
            lazy=lazy,
            on_wait=lambda record: _print_waiting(name, record),
            on_tenure=self.warden.keep,
            # The warden does the same by its own clock; this is for a lease that another holder took before it expired.
            on_lost=lambda _: self.warden.ask_to_end(LOST, ttl * 0.1),
            on_failure=self.warden.dismiss,  # it may be in the run's cgroup, which could not be removed
        )
        return self.lease

    def environment(self) -> dict[str, str]:
        """The command's environment, without the store's password and without what `store_environment` returns."""
        assert self.lease
        return {
            **without_password(dict(os.environ), self.lease.store.url),
            "NIGHTLATCH_LEASE": self.lease.name,
            "NIGHTLATCH_TOKEN": str(self.lease.token),
            "NIGHTLATCH_GRANT": self.grant,
        }

    def store_environment(self, store: str | None) -> dict[str, str]:
        """The variables by which Nightlatch commands inside the command find the same store. `store`: the
        --store option; None: the environment or nightlatch.toml names the store."""
        where = url.resolve(store)
        if not dsn.has_secret(where) and not dsn.needs_environment(where):
            named = store or ("" if os.environ.get(url.ENV) else url.of_run() or place.store())
            return {url.ENV: named} if named else {}
        from .leases.handle import Handle

        self._handle = Handle(where, self.grant)
        return self._handle.environment

    # ── start and attend ──

    def start(
        self, environment: dict[str, str], *, cwd: str = "", grace: float = GRACE, limit: float | None = None
    ) -> None:
        """Start the command. From here on, signals that ask us to end go to it. `grace`: seconds between SIGTERM and
        SIGKILL. `limit`: when it must have ended, by the suspend-proof clock, even if this supervisor hangs."""
        self._forward_signals(grace)
        if limit is not None:
            self.warden.limit(limit)
        self.warden.start(self._argv, environment, cwd=cwd, grace=grace)

    def last_report(self) -> Report:
        """Wait for the command's last report and return it: for a caller that has nothing else to do meanwhile."""
        while (report := self.warden.report(clock.SLICE)) is None or isinstance(report, Started):
            pass
        return report

    def _forward_signals(self, grace: float) -> None:
        def handle(signum: int, _frame: object) -> None:
            if signum in BY_HAND and _in_foreground():
                self.terminal_signal = signum
                return  # the terminal has sent it to the command too, which decides what it means
            if signum in _PASSED_ON:
                self.warden.pass_on(signum)
            else:
                self.warden.ask_to_end(SIGNALLED, 0.0 if self.end_signal else grace, signum)
                self.end_signal = self.end_signal or signum

        for signum in ENDING + _PASSED_ON:
            if signal.getsignal(signum) != signal.SIG_IGN:  # else it stays ignored, as under nohup
                self._earlier_handlers[signum] = signal.signal(signum, handle)


def without_password(environment: dict[str, str], store: str) -> dict[str, str]:
    """`environment` without the store's password. PGPASSWORD stays if the store is not on PostgreSQL."""
    kept = {name: text for name, text in environment.items() if name != dsn.PASSWORD or not dsn.is_postgres(store)}
    if dsn.has_secret(kept.get(url.ENV, "")):
        del kept[url.ENV]
    return kept


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _print_waiting(name: str, record: Record | None) -> None:
    """Only at a terminal: cron mails whatever is printed."""
    if os.isatty(2):
        by = f"held by {record.holder}" if record and record.grant else "not free yet"
        print(f"nightlatch: waiting for {name}, {by}", file=sys.stderr)
