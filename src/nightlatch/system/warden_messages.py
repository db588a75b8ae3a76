"""What a supervisor and its warden send each other through pipes. The supervisor sends orders; the warden reports that
the command has started, could not be started, or has ended, and why it was ended."""

from __future__ import annotations

import errno
import marshal
import os

from .. import exits
from ..core.value import value
from ..errors import remedy
from . import durable
from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Why the tree was ended.
LOST, ORPHANED, SIGNALLED, LEFTOVERS = "lost", "orphaned", "signalled", "leftovers"
FAILED, TIMED_OUT, OVERDUE = "failed", "timed-out", "overdue"

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # what people and systems send to end a command

_OF_THE_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # the command is not at fault
_HEADER = 4  # bytes, with the length of the message
_FIRST_LINE = 256  # bytes of a script's first line that the kernel reads


@value(frozen=True, kw_only=True)
class Started:
    pid: int


@value(frozen=True, kw_only=True)
class NotStarted:
    """The command cannot be executed."""

    command: str
    number: int  # errno
    where: str  # the file that caused it
    hint: str = ""  # what to do about it

    @property
    def exit_code(self) -> int:
        if self.number in _OF_THE_MACHINE:
            return exits.UNREACHABLE  # nothing is wrong with the command
        return 127 if self.number in (errno.ENOENT, errno.ENOTDIR) else 126

    @property
    def reason(self) -> str:
        hint = f": {self.hint}" if self.hint else ""
        if self.exit_code != 127:
            where = "" if self.where == self.command else f" ({self.where})"
            return f"{self.command} cannot be executed: {os.strerror(self.number)}{where}{hint}"
        looked = "" if "/" in self.command or hint else f" (looked in {os.environ.get('PATH', os.defpath)})"
        return f"{self.command}: not found{looked}{hint}"


def hint(command: str, number: int) -> str:
    """What to do about the errno `number` of executing `command`; "" if the error says enough. Call it in the folder
    where the command was to run."""
    if number == errno.ENOENT and "/" in command and os.path.isfile(command):
        return _missing_interpreter(command)
    program, _, arguments = command.partition(" ")
    if number == errno.ENOENT and arguments and ("/" not in program or os.path.isfile(program)):
        return "this is one word; write it without quotes, or use sh -c for a line of shell"
    if number == errno.EACCES and os.path.isdir(command):
        return "it is a folder"
    if number == errno.EACCES and os.path.isfile(command) and not os.access(command, os.X_OK):
        return f"chmod +x {command}"
    return remedy(OSError(number, ""))


def _missing_interpreter(script: str) -> str:
    """The hint for a script that exists: the program that its first line names does not."""
    try:
        with open(script, "rb") as file:
            first = file.read(_FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return ""
    if first.endswith(b"\r"):
        return f"its lines end as on Windows; convert them: sed -i 's/\\r$//' {script}"
    named = os.fsdecode(first[2:].split()[0]) if first[2:].split() else "nothing"
    return f"its first line names {named}, which does not exist"


@value(frozen=True, kw_only=True)
class Ended:
    """Nothing of the work is left: its tree is proven empty."""

    status: int | None = 0  # as `wait` returns it; None if unknown
    why: str = ""  # one of the reasons above; "" if it ended by itself
    left: int = 0  # how many processes the command left behind
    started: bool = True
    stands_by: bool = False  # the warden has let go of the tree, and waits for another

    @property
    def signal(self) -> int:
        """The signal that ended it; 0 if it exited."""
        if self.status is None:
            return int(signal.SIGKILL if self.started else signal.SIGTERM)
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0

    @property
    def exit_code(self) -> int:
        """The exit code as a shell shows it: 128 + N if signal N ended it."""
        return 128 + self.signal if self.signal else os.waitstatus_to_exitcode(self.status or 0)

    @property
    def leftovers(self) -> str:
        return f"left {self.left} process{'es' if self.left > 1 else ''} behind; ended" if self.left else ""


@value(frozen=True, kw_only=True)
class WardenDied:
    """The warden was killed. The command was then ended too; its outcome is unknown."""


Report = Started | NotStarted | Ended | WardenDied
KINDS = {kind.__name__: kind for kind in (Started, NotStarted, Ended)}


def send(fd: int, *message: Any) -> None:
    body = marshal.dumps(message)
    durable.write_all(fd, len(body).to_bytes(_HEADER, "big") + body)


def receive(fd: int) -> Any:
    """The next message; None at end of file."""
    header = _read(fd, _HEADER)
    body = _read(fd, int.from_bytes(header, "big")) if header else b""
    return marshal.loads(body) if body else None  # noqa: S302 - both ends are one program, forked


def _read(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = os.read(fd, size - len(data))
        if not chunk:
            return b""
        data += chunk
    return data
