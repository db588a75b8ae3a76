"""One item's command: start it, end it at its timeout, keep its output until it has ended."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import tempfile
from typing import BinaryIO

from ....core import duration
from ....core.printable import printable
from ....system import clock
from ...shared import metered
from ...shared.batches.items import BatchItem

RESULT = 1024  # bytes of standard output that are kept as an item's result

_FITS_PIPE = 4096  # bytes that fit into a pipe before anything reads it
_FITS_ENVIRONMENT = 100_000  # bytes of an item that NIGHTLATCH_ITEM can carry
_COMPLAINT = 4096  # bytes, at the end of standard error, that say why an item failed
_USAGE = 1 << 18  # bytes, at the end of standard output, in which an agent's usage is looked for
_PIECE = 1 << 16  # bytes of a line that are copied at once


class ItemProcess:
    """Has its own process group. Its output is shown when it ends, so that output of several items is not mixed."""

    def __init__(
        self,
        item: BatchItem,
        argv: list[str],
        env: dict[str, str],
        tries: int,
        *,
        timeout: float | None,
        grace: float,
        workspace: str = "",  # the folder it runs in; "" for the current one
    ) -> None:
        self.item, self.tries, self._env, self.workspace = item, tries, env, workspace
        self._argv, self._timeout, self._grace = argv, timeout, grace
        self.exit_code = 0  # 128 + N if signal N ended it
        self.timed_out = self.over_budget = False
        self.killed = False  # by SIGKILL, and not ours: the whole batch is being ended, or the kernel is out of memory
        self._pid = 0
        self._why = ""  # why we ended it, or could not start it
        self._end_at = self._kill_at = float("inf")
        self._out: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the item runs
        self._err: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115

    def start(self) -> bool:
        """Start it. False if it cannot be started; then `exit_code` and `complaint` say why."""
        item_json = self.item.text.encode(errors="surrogateescape")
        env = {**os.environ, **self._env}
        env.pop("NIGHTLATCH_ITEM", None)
        metered.for_item(env, self.item.digest.hex())
        if len(item_json) <= _FITS_ENVIRONMENT and b"\0" not in item_json:
            env["NIGHTLATCH_ITEM"] = os.fsdecode(item_json)
        stdin = -1
        here = os.open(".", os.O_RDONLY | os.O_CLOEXEC) if self.workspace else -1
        try:
            stdin = _readable(item_json + b"\n")
            if self.workspace:
                os.chdir(self.workspace)  # this program has one thread
            self._pid = self._spawn(self._argv, env, stdin)
        except OSError as error:
            self.exit_code = 127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126
            self._why = f"{self._argv[0]} cannot be started: {error.strerror}"
            self._err.write(self._why.encode())
            return False
        finally:
            if stdin >= 0:
                os.close(stdin)
            if here >= 0:
                os.fchdir(here)
                os.close(here)
        if self._timeout is not None:
            self._end_at = clock.now() + self._timeout
        return True

    def _spawn(self, argv: list[str], env: dict[str, str], stdin: int) -> int:
        streams = (stdin, self._out.fileno(), self._err.fileno())
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)]
        defaults = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ]
        defaults = [
            signum for signum in defaults if signal.getsignal(signum) != signal.SIG_IGN or signum == signal.SIGPIPE
        ]
        try:
            return os.posix_spawnp(argv[0], argv, env, file_actions=actions, setpgroup=0, setsigdef=defaults)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            found = shutil.which(argv[0]) or argv[0]  # a script without #!
            return os.posix_spawn("/bin/sh", ["sh", found, *argv[1:]], env, file_actions=actions, setpgroup=0)

    def has_ended(self) -> bool:
        """Has it ended? If so, nothing of its process group is left."""
        if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        self._signal(signal.SIGKILL)  # before it is reaped: the group's number cannot be reused yet
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.exit_code = 128 - code if code < 0 else code
        self.killed = code == -signal.SIGKILL and not self._why
        return True

    @property
    def next_at(self) -> float:
        """When to call `end_if_due`."""
        return min(self._end_at, self._kill_at)

    def end_if_due(self, now: float) -> None:
        if now >= self._kill_at:
            self._signal(signal.SIGKILL)
            self._kill_at = float("inf")
        elif now >= self._end_at:
            self.timed_out = True
            self.end(f"not done after {duration.show(self._timeout or 0)}")

    def end(self, why: str) -> None:
        """Ask it to end (SIGTERM); a second call does nothing."""
        if self._kill_at != float("inf"):
            return
        self._why = self._why or why
        self._end_at, self._kill_at = float("inf"), clock.now() + self._grace
        self._signal(signal.SIGTERM)

    def end_over_budget(self, cap: str) -> None:
        if not self.over_budget:
            self.over_budget = True
            self.end(f"its budget {cap} is spent")

    def kill(self) -> None:
        """End it at once; the warden proves that nothing is left."""
        self._why = self._why or "its batch was ended"
        self._signal(signal.SIGKILL)

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @property
    def reason(self) -> str:
        if self.succeeded:
            return ""
        return self._why or ("killed from outside" if self.killed else f"exit code {self.exit_code}")

    def result(self) -> str:
        self._out.seek(0)
        return self._out.read(RESULT).decode(errors="backslashreplace")

    def tail(self) -> bytes:
        """The end of its standard output, where an agent reports its usage."""
        self._out.seek(max(self._out.seek(0, os.SEEK_END) - _USAGE, 0))
        return self._out.read()

    def complaint(self) -> str:
        """The end of its standard error."""
        self._err.seek(max(self._err.seek(0, os.SEEK_END) - _COMPLAINT, 0))
        return self._err.read().decode(errors="backslashreplace")

    def show(self, *, all_on_stderr: bool = False, as_data: bool = False) -> None:
        """Show what it printed, each line with the item's key, and close the files. `as_data`: standard output
        unchanged, since a file or another program reads it."""
        prefix = f"{printable(self.item.key)} | ".encode(errors="surrogateescape")
        for source, screen in ((self._out, sys.stderr if all_on_stderr else sys.stdout), (self._err, sys.stderr)):
            source.seek(0)
            screen.flush()
            if as_data and screen is sys.stdout:
                shutil.copyfileobj(source, screen.buffer)
            else:
                _copy_prefixed(source, screen.buffer, prefix)
            screen.flush()
            source.close()

    def _signal(self, signum: int) -> None:
        if self._pid <= 0:
            raise ValueError("an item that was not started has no process group; 0 would be our own")
        try:
            os.killpg(self._pid, signum)
        except (ProcessLookupError, PermissionError):
            pass  # nothing of it is left; macOS refuses to signal a group of zombies


def _copy_prefixed(source: BinaryIO, screen: BinaryIO, prefix: bytes) -> None:
    last = b"\n"
    while piece := source.readline(_PIECE):
        screen.write((prefix if last.endswith(b"\n") else b"") + piece)
        last = piece
    if not last.endswith(b"\n"):
        screen.write(b"\n")  # so that the next item begins a new line


def _readable(data: bytes) -> int:
    """A descriptor from which `data` can be read, without a process that writes it."""
    if len(data) <= _FITS_PIPE:
        reads, writes = os.pipe()
        os.write(writes, data)
        os.close(writes)
        return reads
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        file.seek(0)
        return os.dup(file.fileno())
