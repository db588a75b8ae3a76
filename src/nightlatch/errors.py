"""Every error and every stop signal, each with the exit code that the command line ends with.

`Error` says that something could not be done; catch it where you can do something about it.
`Stop` says that this work must end now. It derives from BaseException, so that a broad
`except Exception` in the work itself cannot swallow it.
"""

from __future__ import annotations

from . import exits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .core.model import Mark, Record
    from .ledger.records import RunRow
    from .runtime.child.steps.mapping import Failed, Results


class Error(Exception):
    """Something could not be done; the message says what to do next."""

    exit_code: int = exits.OURS  # Nightlatch itself failed, unless a subclass says otherwise


class UsageError(Error):
    """Invalid usage: an unknown name, a bad duration, a missing value."""

    exit_code: int = exits.USAGE


class BadOption(UsageError):
    """An option's value cannot be used. `field` is its name in the table of options, core/job.py."""

    field = ""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class InputChanged(Error):
    """A key that is already done was used again with other input."""

    exit_code: int = exits.INPUT_CHANGED


class StoreUnreachable(Error):
    """The store did not answer, so nothing is known. The request may or may not have taken effect."""

    exit_code: int = exits.UNREACHABLE


class GateUnreachable(Error):
    """A gate could not be reached for a seal or a write, which may or may not have taken effect."""

    exit_code: int = exits.UNREACHABLE


class NothingToPublish(Error):
    """The command succeeded but did not create what was to be published."""

    exit_code: int = exits.FAILED


class StaleToken(Error):
    """A gate refused a write, since a newer holder has taken over. Nothing was written."""

    exit_code: int = exits.STALE
    offered: Mark | None = None
    current: Mark | None = None

    def __init__(self, message: str, *, offered: Mark | None = None, current: Mark | None = None) -> None:
        super().__init__(message)
        self.offered = offered
        self.current = current


class OtherStore(StaleToken):
    """The gate is fenced from another store, whose tokens cannot be compared with this store's."""


class Forgotten(OtherStore):
    """The gate knows a grant that the store has forgotten: the store was restored from an older backup."""


class Busy(Error):
    """Another process holds the lease. `record` says which one, and until when."""

    exit_code: int = exits.HELD
    record: Record | None = None

    def __init__(self, message: str, record: Record | None = None) -> None:
        super().__init__(message)
        self.record = record


class RunEnded(Error):
    """The run does not allow this: it has ended, or (despite the name) it waits for a person. See `run.status`."""

    exit_code: int = exits.NEEDS_PERSON

    def __init__(self, message: str, run: RunRow) -> None:
        super().__init__(message)
        self.run = run


class Nested(Busy):
    """The lease is held by the run that asks for it: waiting would never end."""


class InDoubt(Error):
    """Nobody knows whether the effect or the run acted. A person has to look."""

    exit_code: int = exits.NEEDS_PERSON


class NotDone(Error):
    """The function that does an effect raises this if certainly nothing was done: the effect may be tried again."""

    exit_code: int = exits.FAILED


class OnlyPlanned(Error):
    """A dry-run used the result of an effect, which a dry-run does not do. `planned` is the result's placeholder."""

    exit_code: int = exits.FAILED

    def __init__(self, effect: str, planned: object) -> None:
        super().__init__(f"the result of the effect {effect} is not known: this is a dry-run, and nothing was done")
        self.planned = planned


class MapFailed(Error):
    """Some items of a `map` are not done. `results` has all items, `failed` those that are not done."""

    exit_code: int = exits.FAILED

    def __init__(self, message: str, results: Results[Any]) -> None:
        super().__init__(message)
        self.results = results

    @property
    def failed(self) -> list[Failed]:
        return self.results.failed


class Conflict(Error):
    """Two changes to the same thing, which only a person can reconcile. Nothing was written, nothing is lost."""

    exit_code: int = exits.NEEDS_PERSON


class NotAllowed(Error):
    """Only a person may do this, or the job's stage does not allow it yet. Nothing was done."""

    exit_code: int = exits.NOT_ALLOWED


class BadConfig(Error):
    """A setting cannot be used. `lines`: the message, then one line for each mistake in the file."""

    exit_code: int = exits.CONFIG
    lines: tuple[str, ...] = ()

    def __init__(self, message: str, lines: tuple[str, ...] = ()) -> None:
        super().__init__("\n".join((message, *lines)))
        self.lines = (message, *lines)


class ServiceTrouble(Error):
    """This machine's service manager did not do what was asked."""

    exit_code: int = exits.UNREACHABLE


class OverBudget(Error):
    """A cap for the day or the month is reached; the run was not started."""

    exit_code: int = exits.OVER_BUDGET


class Stop(BaseException):
    """This work must end now."""

    exit_code: int = exits.OURS


class LeaseLost(Stop):
    """The lease is no longer ours. `reason` is one of:

    taken     another holder has it, or a person released it
    expired   it could not be renewed in time; another holder may have it
    released  this handle was released, and has refused everything since
    """

    exit_code: int = exits.LEASE_LOST
    reason = "taken"

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def remedy(error: BaseException) -> str:
    """What to do about an error of the operating system that is neither ours nor the user's; "" if it may be ours.

    Defined here because this module is always loaded: without a free descriptor nothing more can be imported.
    """
    import errno
    import os

    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, ImportError) and os.strerror(errno.EMFILE) in str(error):
        number = errno.EMFILE  # of a library that could not be opened
    if number == errno.ENOENT:
        try:
            os.getcwd()
        except FileNotFoundError:
            return "The folder that this was started in was removed: cd to another one"
    return {
        errno.ENOSPC: "Free some space on that disk",
        errno.EDQUOT: "Free some space: your quota on that disk is used up",
        errno.EROFS: "That disk is read-only: mount it for writing",
        errno.EMFILE: "Raise the limit of open files: ulimit -n 1024",
        errno.ENFILE: "The whole system has too many open files: close some",
    }.get(number or 0, "")


def kinds() -> dict[str, type[Error] | type[Stop]]:
    """Every class of this module by its name, which stands for the class in messages between processes."""
    return {
        name: found for name, found in globals().items() if isinstance(found, type) and issubclass(found, Error | Stop)
    }


def name_of(error: Error | Stop) -> str:
    """The name of the error's class or, if it is defined elsewhere, of its nearest base class in this module."""
    ours = kinds()
    return next(kind.__name__ for kind in type(error).__mro__ if ours.get(kind.__name__) is kind)


def recreate(name: str, message: str, exit_code: int) -> Error | Stop:
    """The error that another process raised: the same class, message and exit code."""
    kind = kinds().get(name, Error)
    error = kind.__new__(kind, message)  # not by __init__, whose other arguments were not sent
    if exit_code != kind.exit_code:
        error.exit_code = exit_code
    return error
