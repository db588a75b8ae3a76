"""A program such as git, run to its end or ended on time, with everything it started.

`subprocess` would not do: if a child's exit status was collected elsewhere (a supervisor that ends its tree reaps every
child), it counts that as a success. Here the outcome is then unknown.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Mapping, Sequence

from . import clock, tree

GRACE = 0.5  # seconds between SIGTERM and SIGKILL: after SIGTERM git removes its lock files

_LOOK_EVERY = 0.05  # seconds; a background process may keep the pipes open after the program has ended


class Unfinished(Exception):
    """The program did not end by itself: its work may or may not have happened."""


def run(argv: Sequence[str], *, env: Mapping[str, str], stdin: bytes = b"", timeout: float) -> tuple[int, bytes, bytes]:
    """(exit code, stdout, stderr). Raises `Unfinished` after `timeout`, or if the exit status was collected elsewhere;
    then nothing of the program runs any more.

    It runs in a separate process group: Ctrl-C at our terminal does not reach it, and one signal reaches all of it.
    """
    return start(argv, env=env, stdin=stdin).finish(timeout)


def start(argv: Sequence[str], *, env: Mapping[str, str], stdin: bytes = b"") -> RunningProgram:
    """Start the program, to do something else while it runs. The caller must call `finish`."""
    running = RunningProgram(argv, env, stdin)
    tree.own_programs.add(running.pid)
    return running


class RunningProgram:
    def __init__(self, argv: Sequence[str], env: Mapping[str, str], stdin: bytes) -> None:
        self.name = argv[0]
        self.out: list[bytes] = []
        self.err: list[bytes] = []
        self.unsent = memoryview(stdin)
        self.status: int | None = None
        self.reaped = False
        theirs_in, self.input_fd = os.pipe()
        out, theirs_out = os.pipe()
        err, theirs_err = os.pipe()
        self.outputs = {out: self.out, err: self.err}
        for fd in (self.input_fd, out, err):
            os.set_blocking(fd, False)
        try:
            self.pid = os.posix_spawnp(
                argv[0],
                list(argv),
                dict(env),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs, number)
                    for number, theirs in enumerate((theirs_in, theirs_out, theirs_err))
                ],
                setpgroup=0,
                setsigmask=[],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT],
            )
        except BaseException:
            self.close()
            raise
        finally:
            for fd in (theirs_in, theirs_out, theirs_err):
                os.close(fd)
        if not self.unsent:
            self._close_input()

    def finish(self, timeout: float) -> tuple[int, bytes, bytes]:
        try:
            self.listen(clock.now() + timeout)
            code = self.collect()
        except BaseException:
            self.end()
            raise
        finally:
            tree.own_programs.discard(self.pid)
            self.close()
        if code is None:
            raise Unfinished(f"{self.name} was ended from outside")
        return code, b"".join(self.out), b"".join(self.err)

    def listen(self, deadline: float) -> None:
        """Write its input and read its output until it has ended."""
        while self.outputs:
            left = deadline - clock.now()
            if left <= 0:
                raise Unfinished(f"{self.name} gave no answer in time")
            if not self._exchange(min(left, _LOOK_EVERY)) and self._ended():
                while clock.now() < deadline and self._exchange(0):
                    pass  # what it wrote between our last read and its end
                return

    def collect(self) -> int | None:
        """Its exit code; None if its exit status was collected elsewhere."""
        if not self.reaped:
            self._reap(0)
        return None if self.status is None else os.waitstatus_to_exitcode(self.status)

    def end(self) -> None:
        """SIGTERM to its whole group, then SIGKILL. It is reaped after that, so no other group can have its number."""
        if self.reaped:
            return
        self._signal(signal.SIGTERM)
        deadline = clock.now() + GRACE
        while self.outputs and clock.now() < deadline:
            self._exchange(0.01)
        self._signal(signal.SIGKILL)
        self._reap(0)

    def close(self) -> None:
        self._close_input()
        for fd in self.outputs:
            os.close(fd)
        self.outputs = {}

    def _exchange(self, seconds: float) -> bool:
        """One round of reading and writing, waiting for up to `seconds`; False if there was nothing to do."""
        poll = select.poll()
        for fd in self.outputs:
            poll.register(fd, select.POLLIN)
        if self.input_fd >= 0:
            poll.register(self.input_fd, select.POLLOUT)
        ready = poll.poll(seconds * 1000)
        for fd, _ in ready:
            if fd == self.input_fd:
                self._write_input()
            else:
                self._read_output(fd)
        return bool(ready)

    def _read_output(self, fd: int) -> None:
        chunk = os.read(fd, 65536)
        if chunk:
            self.outputs[fd].append(chunk)
        else:
            del self.outputs[fd]
            os.close(fd)

    def _write_input(self) -> None:
        try:
            self.unsent = self.unsent[os.write(self.input_fd, self.unsent) :]
        except BrokenPipeError:
            self.unsent = self.unsent[:0]  # it does not read the rest; its exit code says why
        if not self.unsent:
            self._close_input()

    def _close_input(self) -> None:
        if self.input_fd >= 0:
            os.close(self.input_fd)
            self.input_fd = -1

    def _ended(self) -> bool:
        return self.reaped or self._reap(os.WNOHANG)

    def _reap(self, options: int) -> bool:
        try:
            pid, status = os.waitpid(self.pid, options)
        except ChildProcessError:
            self.reaped = True
            return True
        if pid:
            self.status, self.reaped = status, True
        return bool(pid)

    def _signal(self, signum: int) -> None:
        try:
            os.killpg(self.pid, signum)
        except (ProcessLookupError, PermissionError):
            pass  # nothing of it is left; macOS reports "not permitted" for a group of zombies
