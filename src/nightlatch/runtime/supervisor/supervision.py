"""The one way to supervise: work, the lease that it is done under, and the signals that are meant for it.

    prepare (lifetime lock, warden) → hold (lease) → start → report … → end (work, then lease)

`lock`, `once`, a run and a dry-run differ in what they look at before and record afterwards.
"""

from __future__ import annotations

import os

from ...config import place
from ...database import dsn
from ...store import url
from ...system import clock, warden
from ...system.identity import new_id
from ...system.lifetime import Lifetime
from ...system.light import signal
from ...system.reports import Started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...core.model import Begun
    from ...core.protocols import Gate, Store
    from ...errors import LeaseLost
    from ...system.reports import Report
    from ..shared.leases.lease import Lease
    from .leases.handle import Handle
    from .work import Work

GRACE = 10.0  # seconds between asking a tree to end and ending it

BY_HAND = (signal.SIGINT, signal.SIGQUIT)  # a person wants its end: Ctrl-C, Ctrl-\
ENDING = (signal.SIGTERM, signal.SIGHUP, *BY_HAND)
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


class Supervision:
    """Use it with `with`: at its end, however that comes about, nothing of the work is left, and the lease is given
    back after that.

    For a process of its own: it forks, takes over signals, and becomes the parent of all orphans below.
    """

    def __init__(self, work: Work, folder: str = "") -> None:
        """`folder`: for the lock that proves our life; "" for one that will hold no lease."""
        self.work = work
        self.lease: Lease | None = None
        self.lost: LeaseLost | None = None  # once it is over: why the lease was not held to the end
        self.end_signal = 0  # the signal that we were asked to end with
        self._handle: Handle | None = None
        self._before: dict[int, Any] = {}  # what was done at a signal before it was passed on
        self._lifetime = Lifetime(folder) if folder else None
        self.grant = self._lifetime.grant if self._lifetime else new_id()
        # Before any thread or connection exists: a fork copies neither in a usable state.
        work.prepare(self.grant, self._lifetime)

    def __enter__(self) -> Supervision:
        return self

    def __exit__(self, *_: object) -> None:
        self.work.end()  # whatever went wrong: nothing works on when the lease is given back
        if self._handle:
            self._handle.close()
        if self.lease:
            self.lost = self.lease.lost
            self.lease.release()
        elif self._lifetime:
            self._lifetime.end()

    def close(self) -> None:
        """For a process that goes on: there is no work any more, a signal means this process again."""
        while self._before:
            signal.signal(*self._before.popitem())
        self.work.close()

    def collect_signals(self, received: list[int]) -> dict[int, Any]:
        """The work is over, and this process goes on: note who asks it to end. Returns what `close` would have set;
        ours stays until somebody does."""
        forwarded = [signum for signum in ENDING if signum in self._before]
        for signum in forwarded:
            signal.signal(signum, lambda signum, _: received.append(signum))
        return {signum: self._before.pop(signum) for signum in forwarded}

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
    ) -> Lease:
        """Acquire the lease, and keep it. When it is lost, the work is ended."""
        from ..shared.leases.lease import Lease  # not before the fork: meanwhile the warden makes the tree's cgroup

        lifetime, self._lifetime = self._lifetime, None  # the lease's from here on, whether it comes to one or not
        self.lease = Lease(
            store,
            name,
            ttl=ttl,
            wait=wait,
            gates=gates,
            lifetime=lifetime,
            begin=begin,
            on_tenure=self.work.keep,
            # By its own clock the warden does the same; this is for a lease that was taken before its time.
            on_lost=lambda _: self.work.ask_to_end(warden.LOST, ttl * 0.1, signal.SIGTERM),
        )
        return self.lease

    def environment(self) -> dict[str, str]:
        """For the work: without the store's password; how to find the store is another question."""
        assert self.lease
        return {
            **without_password(dict(os.environ), self.lease.store.url),
            "NIGHTLATCH_LEASE": self.lease.name,
            "NIGHTLATCH_TOKEN": str(self.lease.token),
            "NIGHTLATCH_GRANT": self.grant,
        }

    def store_environment(self, store: str | None) -> dict[str, str]:
        """For the work's environment: commands of Nightlatch below it find the same store, until its end. `store`: as
        it was named for us; the environment has it otherwise."""
        where = url.resolve(store)
        if not dsn.has_secret(where) and not dsn.needs_environment(where):
            named = store or ("" if os.environ.get(url.ENV) else place.store())
            return {url.ENV: named} if named else {}
        from .leases.handle import Handle

        self._handle = Handle(where, self.grant)
        return self._handle.environment

    # ── start and attend ──

    def start(
        self, environment: dict[str, str], *, cwd: str = "", grace: float = GRACE, limit: float | None = None
    ) -> None:
        """As `Work.start`. From here on, signals that ask us to end are the work's."""
        self._forward_signals(grace)
        if not self.work.reattach():
            self.work.start(environment, cwd=cwd, grace=grace, limit=limit)

    def last_report(self) -> Report:
        """Wait for it, where there is nothing else to attend to."""
        while (report := self.work.report(clock.SLICE)) is None or isinstance(report, Started):
            pass
        return report

    def _forward_signals(self, grace: float) -> None:
        def handle(signum: int, _frame: object) -> None:
            if signum in BY_HAND and _in_foreground():
                return  # the terminal has sent it to the command as well; what it means is the command's to say
            if signum in _PASSED_ON:
                self.work.pass_on(signum)
            else:
                self.work.ask_to_end(warden.SIGNALLED, 0.0 if self.end_signal else grace, signum)
                self.end_signal = self.end_signal or signum

        for signum in ENDING + _PASSED_ON:
            if signal.getsignal(signum) != signal.SIG_IGN:  # nohup's wish
                self._before[signum] = signal.signal(signum, handle)


def without_password(environment: dict[str, str], store: str) -> dict[str, str]:
    """The environment for a command. PGPASSWORD is the store's only where that is on PostgreSQL."""
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
