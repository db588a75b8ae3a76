"""A child that misbehaves at the socket does not disturb its supervisor."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nightlatch.runtime.talk.socket import Socket, one_by_one


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
    assert len(served.descriptors) == 1, "its descriptor is closed"
    assert works(served)


def test_one_that_asks_and_never_reads_is_cut_off(served: Socket) -> None:
    with client(served) as mine:
        mine.setblocking(False)
        before = served.descriptors[-1]
        for _ in range(50):
            try:
                mine.sendall(ask("x" * 100_000))
            except BlockingIOError:
                pass
            except OSError:
                break  # cut off
            if served.descriptors[-1] == before:
                served.serve([before])
        assert before not in served.descriptors
    assert works(served)
