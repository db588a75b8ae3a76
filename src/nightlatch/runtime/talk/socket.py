"""The run's private socket: how a child, in any language, speaks to its supervisor.

One JSON object a line in, one a line out. The child needs no access to the store, and the run has one
writer. The supervisor serves it from its own loop: all that has come in is read before any of it is
answered, so that what came together is written together.
"""

from __future__ import annotations

import os
from _thread import start_new_thread

from ...errors import Error, Stop, StoreUnreachable
from ...system.light import sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Request = dict[str, Any]
    Answer = Callable[[Request], dict[str, Any]]
    Answers = Callable[[list[Request]], list["dict[str, Any] | Later"]]

_LONGEST_LINE = 1 << 22  # bytes; who says more than that at once is cut off
_PATIENCE = 1.0  # seconds for a child that does not read its answers
_LONGEST_PATH = 100  # bytes that fit into a socket's address on every system


class Later:
    """An answer that takes a while: it is made in a thread of its own, and the loop goes on."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self.make = make


class Socket:
    """Listens at `path`. `descriptors` are to be polled; `serve` is called with all that are ready."""

    def __init__(self, grant: str, answers: Answers) -> None:
        self.path = os.path.join(_new_folder(), "socket")
        self._grant, self._answers = grant, answers
        self._listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        self._listener.bind(self.path)
        os.chmod(self.path, 0o600)
        self._listener.listen(16)
        self._listener.setblocking(False)
        self._unread: dict[int, bytes] = {}
        self._life: dict[int, object] = {}  # a descriptor's number is used again: which connection was it?
        self._made: list[tuple[int, object, object, dict[str, Any]]] = []  # by threads; told of through the pipe
        self._wake: tuple[int, int] | None = None

    @property
    def descriptors(self) -> list[int]:
        return [self._listener.fileno(), *self._unread, *(self._wake[:1] if self._wake else ())]

    def serve(self, fds: Iterable[int]) -> None:
        """Take new connections; read what stands in the others, then answer it."""
        asked: list[tuple[int, object, Request]] = []
        for fd in fds:
            if fd == self._listener.fileno():
                client, _ = self._listener._accept()
                os.set_inheritable(client, False)
                os.set_blocking(client, False)
                self._unread[client], self._life[client] = b"", object()
            elif self._wake and fd == self._wake[0]:
                os.read(fd, 1 << 16)
                while self._made:
                    self._send(*self._made.pop(0))
            else:
                self._read(fd, asked)
        if not asked:
            return
        answers = self._answers([request for *_, request in asked])
        for (fd, number, _), answer in zip(asked, answers, strict=True):
            if isinstance(answer, Later):
                self._start(fd, number, answer)
            else:
                self._send(fd, self._life.get(fd), number, answer)

    def close(self) -> None:
        for fd in self._unread:
            os.close(fd)
        self._unread.clear()
        self._life.clear()
        self._listener.close()
        os.unlink(self.path)
        os.rmdir(os.path.dirname(self.path))

    def _read(self, fd: int, asked: list[tuple[int, object, Request]]) -> None:
        import json

        try:
            data = os.read(fd, 1 << 16)  # more would be mapped and unmapped each time
        except OSError:
            data = b""  # it is gone in the middle of a word
        *lines, self._unread[fd] = (self._unread[fd] + data).split(b"\n")
        for line in lines:
            number = None
            try:
                request = json.loads(line)
                if not isinstance(request, dict) or request.pop("grant", "") != self._grant:
                    raise ValueError("every line is a JSON object whose `grant` is $NIGHTLATCH_GRANT")
                number = request.pop("id", None)
            except (ValueError, RecursionError) as error:
                self._send(fd, self._life.get(fd), number, refusal(error))
            else:
                asked.append((fd, number, request))
        if not data or len(self._unread.get(fd, b"")) > _LONGEST_LINE:
            self._drop(fd)

    def _send(self, fd: int, life: object, number: object, answer: dict[str, Any]) -> None:
        import json

        if life is None or self._life.get(fd) is not life:
            return  # it has hung up
        view = memoryview(json.dumps(answer if number is None else {"id": number, **answer}).encode() + b"\n")
        try:
            while view:
                try:
                    view = view[os.write(fd, view) :]
                except BlockingIOError:
                    if not has_room(fd, _PATIENCE):
                        raise  # who asks and does not listen is cut off: the watch must not wait for it
        except OSError:
            self._drop(fd)

    def _start(self, fd: int, number: object, later: Later) -> None:
        if self._wake is None:
            self._wake = os.pipe()
        wake, life = self._wake[1], self._life.get(fd)

        def work() -> None:
            self._made.append((fd, life, number, reply(lambda _: later.make(), {})))
            os.write(wake, b".")

        start_new_thread(work, ())

    def _drop(self, fd: int) -> None:
        if self._life.pop(fd, None):
            del self._unread[fd]
            os.close(fd)


def has_room(fd: int, patience: float | None) -> bool:
    """May something be written to it without waiting, at the latest after `patience` seconds? None: wait for that."""
    import select

    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(None if patience is None else patience * 1000))


def one_by_one(answer: Answer) -> Answers:
    """For who answers each request by itself."""
    return lambda requests: [reply(answer, request) for request in requests]


def reply(answer: Answer, request: Request) -> dict[str, Any]:
    """The answer, or why there is none: whatever a command says, its supervisor goes on."""
    try:
        return {"ok": True, **answer(request)}
    except (Stop, Exception) as error:  # noqa: BLE001
        return refusal(error)


def refusal(error: BaseException) -> dict[str, Any]:
    """A lost lease too is an answer; what it means for the run, the watch says."""
    if isinstance(error, Error | Stop):
        return {"ok": False, "error": str(error), "exit_code": error.exit_code}
    if isinstance(error, OSError):
        return {"ok": False, "error": f"not recorded: {error}", "exit_code": 125}
    return {"ok": False, "error": f"not understood: {error}", "exit_code": 64}


def _new_folder() -> str:
    """A private folder that nobody else can have made: its name cannot be guessed. Nor is it long, for a socket's
    address has room for about a hundred bytes."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    base = runtime if 0 < len(runtime) < _LONGEST_PATH - 40 and os.access(runtime, os.W_OK) else "/tmp"  # noqa: S108
    folder = f"{base}/nightlatch-{os.urandom(8).hex()}"
    try:
        os.mkdir(folder, 0o700)
    except OSError as error:
        raise StoreUnreachable(
            f"no folder can be made in {base} for the run's socket: {error.strerror}. Make room there, or set "
            f"XDG_RUNTIME_DIR to a folder of yours"
        ) from error
    return folder
