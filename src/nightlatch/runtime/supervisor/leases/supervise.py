"""Hold a lease while a command runs: supervisor, warden, command."""

from __future__ import annotations

import errno
import os

from ....core import duration
from ....core.model import check_name
from ....core.value import value
from ....errors import LeaseLost
from ....store import url
from ....system import warden
from ....system.lifetime import Lifetime
from ....system.light import signal
from ...both.leases.lease import Lease, ttl_seconds
from .handle import Handle, without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from ....core.protocols import Gate
    from ....core.tenure import Tenure

GRACE = 10.0  # seconds between asking a tree to end and ending it

BY_HAND = (signal.SIGINT, signal.SIGQUIT)  # a person wants its end: Ctrl-C, Ctrl-\
ENDING = (signal.SIGTERM, signal.SIGHUP, *BY_HAND)
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)

_before: dict[int, Any] = {}  # what was done at a signal before it was passed on


@value(frozen=True, kw_only=True)
class Ended:
    """How a supervised command ended."""

    exit_code: int  # the command's own, 128 + N if signal N ended it, or Nightlatch's own word
    said: str  # what a person should know beyond the exit code; "" if there is nothing


def supervise(
    name: str,
    argv: list[str],
    *,
    store: str | None = None,
    ttl: str | None = None,
    wait: str = "0s",
    gates: Collection[str] = (),
) -> Ended:
    """Run `argv` under the lease `name`; returns when nothing of it is left. Raises Busy if it is held.

    `gates` are paths or URLs; they are sealed before the command starts, with those used under the name before.

    For a process of its own: it forks, takes over signals, and becomes the parent of all orphans below.
    """
    check_name(name)
    the_store = url.connect(store)
    seconds, patience = ttl_seconds(ttl, the_store), duration.parse(wait, what="wait")
    declared = _gates(gates)
    lifetime = Lifetime(the_store.folder)
    # Forked before any thread or connection exists: a fork copies neither in a usable state.
    guard = warden.Warden(lifetime.grant, lifetime=lifetime)

    def on_tenure(tenure: Tenure) -> None:
        guard.tell("tenure", tenure.freeze_at, tenure.end_at, tenure.deadline)

    def on_lost(_: LeaseLost) -> None:
        # By its own clock the warden does the same; this is for a lease that was taken before its time.
        guard.tell("end", warden.LOST, seconds * 0.1, int(signal.SIGTERM))

    try:
        lease = Lease(
            the_store,
            name,
            ttl=seconds,
            wait=patience,
            gates=declared,
            lifetime=lifetime,
            on_tenure=on_tenure,
            on_lost=on_lost,
        )
        handle = None
        try:
            forward_signals(guard)
            handle = Handle(store, lease.grant)  # what the command calls must ask the same store
            guard.start(argv, environment(lease) | handle.environment, grace=GRACE)
            ended = _await_end(guard, argv)
        finally:
            guard.dismiss()
            if handle:
                handle.close()
            lost = lease.lost
            lease.release()
    except BaseException:
        guard.dismiss()
        raise
    return Ended(exit_code=LeaseLost.exit_code, said=f"{lost}. {argv[0]} was ended") if lost else ended


def _gates(targets: Collection[str]) -> list[Gate]:
    if not targets:
        return []
    from ....gates import at

    return [at(target) for target in targets]


def environment(lease: Lease) -> dict[str, str]:
    """Without the store's password; how to find the store is another question."""
    return {
        **without_password(dict(os.environ), lease.store.url),
        "NIGHTLATCH_LEASE": lease.name,
        "NIGHTLATCH_TOKEN": str(lease.token),
        "NIGHTLATCH_GRANT": lease.grant,
    }


def forward_signals(guard: warden.Warden, grace: float = GRACE) -> None:
    def handle(signum: int, _frame: object) -> None:
        if signum in BY_HAND and _in_foreground():
            return  # the terminal has sent it to the command as well; what it means is the command's to say
        if signum in _PASSED_ON:
            guard.tell("signal", signum)
        else:
            guard.tell("end", warden.ASKED, 0.0 if guard.asked_with else grace, signum)
            guard.asked_with = guard.asked_with or signum

    for signum in ENDING + _PASSED_ON:
        if signal.getsignal(signum) != signal.SIG_IGN:  # nohup's wish
            _before[signum] = signal.signal(signum, handle)


def collect_signals(asked: list[int]) -> dict[int, Any]:
    """The command is over, and its supervisor goes on: note who asks it to end. Returns what `signals_back` would have
    set; ours stays until somebody does."""
    forwarded = [signum for signum in ENDING if signum in _before]
    for signum in forwarded:
        signal.signal(signum, lambda signum, _: asked.append(signum))
    return {signum: _before.pop(signum) for signum in forwarded}


def signals_back() -> None:
    """There is no command any more: a signal means this process again."""
    while _before:
        signal.signal(*_before.popitem())


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


def _await_end(guard: warden.Warden, argv: list[str]) -> Ended:
    while report := guard.report():
        match report:
            case ("failed", int(number), str(where)):
                return not_started(argv[0], number, where)
            case ("ended", int(status), str(why), int(left)):
                return _ended(argv[0], status, why, left)
    return Ended(exit_code=125, said=f"the warden was killed; {argv[0]} and all it had started were ended")


def _ended(command: str, status: int, why: str, left: int) -> Ended:
    code = os.waitstatus_to_exitcode(status) if status >= 0 else -signal.SIGTERM  # ended before it was started
    said = ""
    if why == warden.LEFTOVERS:
        said = f"{command} left {left} process{'es' if left > 1 else ''} behind; ended"
    return Ended(exit_code=128 - code if code < 0 else code, said=said)


def not_started(command: str, number: int, where: str) -> Ended:
    if number in (errno.ENOENT, errno.ENOTDIR):
        hint = "" if "/" in command else f" (looked in {os.environ.get('PATH', os.defpath)})"
        return Ended(exit_code=127, said=f"{command}: not found{hint}")
    return Ended(exit_code=126, said=f"{command} cannot be executed: {os.strerror(number)} ({where})")
