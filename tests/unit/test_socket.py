"""A child that misbehaves at the socket does not disturb its supervisor."""

from __future__ import annotations

import json
import os
import resource
import select
import socket
from _thread import allocate_lock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from nightlatch.runtime.shared.replies import DeferredReply, one_by_one
from nightlatch.runtime.supervisor.socket.server import Socket
from tests.support.programs import until


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Socket]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    line = Socket("the-grant", one_by_one(lambda request: {"said": request["word"]}))
    yield line
    line.close()


@contextmanager
def client(served: Socket) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as mine:
        mine.connect(served.path)
        served.serve([served.descriptors[0]])
        yield mine


def ask(word: str) -> bytes:
    return json.dumps({"grant": "the-grant", "word": word}).encode() + b"\n"


def works(served: Socket) -> bool:
    with client(served) as mine:
        mine.sendall(ask("well"))
        served.serve([served.descriptors[-1]])
        return bool(json.loads(mine.recv(1000))["said"] == "well")


def test_one_that_says_nonsense_and_hangs_up(served: Socket) -> None:
    with client(served) as mine:
        mine.sendall(b"nonsense\nmore of it\n" + ask("fine") + b"half a li")
    served.serve([served.descriptors[-1]])
    assert not connected(served), "its descriptor is closed"
    assert works(served)


def test_one_that_never_reads_is_not_read_from_and_nobody_waits_for_it(served: Socket) -> None:
    with client(served) as mine:
        mine.setblocking(False)
        for _ in range(50):
            with suppress(BlockingIOError):
                mine.send(ask("x" * 50_000))
            served.serve(ready(served.descriptors))
        assert len(served.sending) == 1 and served.sending[0] not in served.descriptors
        assert works(served)
        seen = b""
        while served.sending:
            seen += mine.recv(1 << 16)
            served.serve(ready([], served.sending))
        assert json.loads(seen.splitlines()[0])["said"] == "x" * 50_000, "it reads after all"


def test_one_that_hangs_up_while_its_answer_is_made(served: Socket) -> None:
    going = allocate_lock()
    going.acquire()
    slowly(served, lambda: going.acquire() and {})
    with client(served) as mine:
        mine.sendall(ask("x"))
        fd = served.descriptors[-1]
        served.serve([fd])
    going.release()
    (wake,) = until(lambda: ready(served.descriptors[1:2]))
    served.serve([wake, fd])  # both are ready, and the answer finds nobody
    assert not connected(served)
    assert answered(served, "well")


def test_an_answer_does_not_go_to_the_next_client_with_the_same_descriptor(served: Socket) -> None:
    with client(served) as first:
        first.sendall(b"nonsense\n" + ask("for the first"))
        fd = served.descriptors[-1]
    with socket.socket(socket.AF_UNIX) as second:
        second.connect(served.path)
        served.serve([fd, served.descriptors[0]])
        second.sendall(ask("for the second"))
        served.serve(served.descriptors[1:])
        assert json.loads(second.recv(1000))["said"] == "for the second"


def test_a_descriptor_that_has_nothing_to_read_is_not_one_that_hung_up(served: Socket) -> None:
    with client(served):
        served.serve(served.descriptors[1:])
        assert connected(served)


def test_one_that_says_no_more_still_gets_the_answers_it_waits_for(served: Socket) -> None:
    going = allocate_lock()
    going.acquire()
    slowly(served, lambda: going.acquire() and {"said": "late"})
    with client(served) as mine:
        mine.sendall(ask("x"))
        mine.shutdown(socket.SHUT_WR)
        served.serve(ready(served.descriptors))
        served.serve(ready(served.descriptors))
        going.release()
        served.serve(until(lambda: ready(served.descriptors)))
        assert json.loads(mine.recv(1000))["said"] == "late"
    assert not connected(served), "its descriptor is closed"


@pytest.mark.parametrize("number", ["[" * 900 + "]" * 900, '{"a": 1}'])
def test_a_number_that_is_none_is_refused(served: Socket, number: str) -> None:
    with client(served) as mine:
        mine.sendall(b'{"grant": "the-grant", "word": "x", "id": %b}\n' % number.encode())
        served.serve(served.descriptors[1:])
        assert b'"ok": false' in mine.recv(1000)
    assert works(served)


def test_what_goes_wrong_in_an_answer_is_the_answer(served: Socket) -> None:
    def wrong(_: object) -> list[Any]:
        raise KeyError("no such thing")

    answer_by(served, wrong)
    with client(served) as mine:
        mine.sendall(ask("x") * 2)
        served.serve(served.descriptors[1:])
        assert mine.recv(1000).count(b'"ok": false') == 2


def test_more_connections_than_there_may_be_leave_room_for_the_next(served: Socket) -> None:
    made = []
    for _ in range(700):
        mine = socket.socket(socket.AF_UNIX)
        mine.connect(served.path)
        served.serve(served.descriptors[:1])
        made.append(mine)
    assert works(served)
    assert len(served.descriptors) < 600
    assert made[0].recv(1) == b"", "the one that was silent for longest"
    for mine in made:
        mine.close()


def test_no_descriptor_left_is_not_the_end(served: Socket) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket(socket.AF_UNIX) as mine:
        mine.connect(served.path)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            served.serve(served.descriptors[:1])
            assert not ready(served.descriptors), "or the loop would turn and turn"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        served.serve([])
        served.serve(ready(served.descriptors))
        mine.sendall(ask("well"))
        served.serve(served.descriptors[1:])
        assert json.loads(mine.recv(1000))["said"] == "well"


def test_so_many_answers_at_once_do_not_take_as_many_threads(served: Socket) -> None:
    going = allocate_lock()
    going.acquire()

    def wait() -> dict[str, Any]:
        with going:
            return {}

    slowly(served, wait)
    before = threads()
    with client(served) as mine:
        for _ in range(3):
            mine.sendall(ask("x") * 300)
            served.serve(ready(served.descriptors))
        assert threads() - before < 200
        going.release()
        seen = b""
        while seen.count(b"\n") < 900:
            served.serve(until(lambda: ready(served.descriptors, served.sending)))
            mine.setblocking(False)
            try:
                seen += mine.recv(1 << 16)
            except BlockingIOError:
                pass


def test_lines_without_an_end_do_not_fill_the_memory(served: Socket) -> None:
    made = []
    for _ in range(40):
        mine = socket.socket(socket.AF_UNIX)
        mine.connect(served.path)
        mine.setblocking(False)
        served.serve(served.descriptors[:1])
        made.append(mine)
    for _ in range(60):
        for mine in made:
            with suppress(OSError):
                mine.send(b"x" * (1 << 16))
        served.serve(ready(served.descriptors))
    assert sum(len(one.unread) for one in connected(served).values()) <= 1 << 26
    for mine in made:
        mine.close()
    served.serve(ready(served.descriptors))
    assert works(served)


def test_a_command_may_remove_its_socket(served: Socket) -> None:
    Path(served.path).unlink()


def connected(served: Socket) -> dict[int, Any]:
    return served._clients._clients if served._clients else {}


def answer_by(served: Socket, answers: Callable[[list[dict[str, Any]]], list[Any]]) -> None:
    served._answers = answers
    if served._clients:
        served._clients._answers = answers


def slowly(served: Socket, make: Callable[[], Any]) -> None:
    """Every answer takes a while."""
    answer_by(served, lambda requests: [DeferredReply(make) for _ in requests])


def ready(reading: list[int], sending: Sequence[int] = ()) -> list[int]:
    poll = select.poll()
    for fd in reading:
        poll.register(fd, select.POLLIN)
    for fd in sending:
        poll.register(fd, select.POLLOUT)
    return [fd for fd, _ in poll.poll(0)]


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def answered(served: Socket, word: str) -> bool:
    answer_by(served, one_by_one(lambda request: {"said": request["word"]}))
    with client(served) as mine:
        mine.sendall(ask(word))
        served.serve(ready(served.descriptors))
        return bool(json.loads(mine.recv(1000))["said"] == word)
