"""`require` and `ensure`, and the eye outside: `ping`."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from nightlatch.testing.expect import until
from tests.support.programs import nightlatch
from tests.support.runs import one
from tests.support.workspaces import run


def test_a_precondition_that_fails_starts_nothing(sqlite_url: str, tmp_path: Path) -> None:
    done = nightlatch(
        sqlite_url, "run", "job", "--require", f"test -f {tmp_path}/ready", "--", "touch", f"{tmp_path}/ran"
    )
    assert done.returncode == 1 and not (tmp_path / "ran").exists()
    assert one(sqlite_url, "job")["status"] == "failed" and "it was not started" in one(sqlite_url, "job")["reason"]
    (tmp_path / "ready").touch()
    done = nightlatch(
        sqlite_url, "run", "job", "--require", f"test -f {tmp_path}/ready", "--", "touch", f"{tmp_path}/ran"
    )
    assert done.returncode == 0 and (tmp_path / "ran").exists()


ENSURE = (
    "--workspace",
    "scratch",
    "--ensure",
    "grep -q '^# ' article.md",
    "--ensure",
    "test $(wc -w < article.md) -ge 5",
)


@pytest.mark.parametrize(
    ("article", "lands"), [("# Tides come and go", True), ("# Short", False), ("no title here at all", False)]
)
def test_nothing_is_published_that_does_not_hold(sqlite_url: str, tmp_path: Path, article: str, lands: bool) -> None:
    done = run(sqlite_url, *ENSURE, "--publish", f"article.md={tmp_path}/out", command=f"echo '{article}' > article.md")
    found = one(sqlite_url, "job")
    assert (tmp_path / "out").exists() is lands and (done.returncode == 0) is lands, done.stderr
    if not lands:
        assert found["status"] == "needs-attention" and "nothing is published" in found["reason"]
        kept = found["reason"].rpartition("Its workspace: ")[2]
        assert (Path(kept) / "article.md").read_text() == f"{article}\n"


def test_the_commands_own_end_is_the_runs(sqlite_url: str) -> None:
    assert run(sqlite_url, "--require", "true", "--ensure", "true", command="exit 7").returncode == 7
    missing = nightlatch(sqlite_url, "run", "two", "--require", "true", "--", "no-such-program")
    assert missing.returncode == 127 and "was not found on the PATH" in missing.stdout + missing.stderr


def test_it_is_under_the_runs_bounds(sqlite_url: str) -> None:
    assert run(sqlite_url, "--timeout", "1s", "--ensure", "sleep 60", command="true").returncode == 124


class Eye(http.server.BaseHTTPRequestHandler):
    seen: ClassVar[list[tuple[str, str]]] = []
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.seen.append((self.path, body))
        self.send_response(self.status)
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def eye() -> Iterator[type[Eye]]:
    made = type("Made", (Eye,), {"seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), made)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made.url = f"http://127.0.0.1:{server.server_port}/uuid"  # type: ignore[attr-defined]
    yield made
    server.shutdown()


def test_an_address_is_told_of_the_beginning_and_the_end(sqlite_url: str, eye: Any) -> None:
    assert run(sqlite_url, "--ping", eye.url, command="sleep 1").returncode == 0
    until(lambda: len(eye.seen) == 2, 30, "both messages came")
    assert sorted(path for path, _ in eye.seen) == ["/uuid", "/uuid/start"]
    run(sqlite_url, "--key", "k", "--ping", eye.url, command="sleep 1; exit 3")
    until(lambda: len(eye.seen) == 4, 30, "both messages came")
    path, body = next(one for one in eye.seen if one[0] == "/uuid/fail")
    assert path and "status=failed exit=3" in body


@pytest.mark.parametrize("kind", ["refuses", "fails", "hangs"])
def test_a_server_that_does_not_answer_changes_no_verdict(sqlite_url: str, eye: Any, kind: str) -> None:
    listening = socket.create_server(("127.0.0.1", 0))  # nobody accepts
    hanging = f"http://127.0.0.1:{listening.getsockname()[1]}/x"
    url = {"refuses": "http://127.0.0.1:9/x", "hangs": hanging}.get(kind, eye.url)
    eye.status = 500
    done = run(sqlite_url, "--ping", url, command="true", timeout=20)
    listening.close()
    assert done.returncode == 0 and one(sqlite_url, "job")["status"] == "succeeded"
