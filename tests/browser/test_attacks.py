"""What must not get in, and what must not fall over: each attack by its name."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from nightlatch.core import statuses
from nightlatch.ledger import open_for
from nightlatch.ledger.decisions import state_of
from nightlatch.store import url as stores
from nightlatch.system import clock
from nightlatch.web import access as accesses
from nightlatch.web import connections, live
from nightlatch.web.access import Access
from nightlatch.web.server import listen
from tests.support import programs
from tests.support.pages import PagesProcess, Session, raw
from tests.support.programs import nightlatch, until


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """One run, failed, with output that wants to be a script."""
    store = f"sqlite:///{tmp_path_factory.mktemp('attacked')}/state/nightlatch.db"
    script = """printf '<script>document.title="owned"</script>\\n\\033[31mred\\033[0m \\033]0;title\\007 \\342\\200\\256bidi\\n'; exit 3"""
    done = nightlatch(store, "run", "crawl", "--key", "<img src=x onerror=alert(1)>", "--", "sh", "-c", script)
    assert done.returncode == 3
    found = PagesProcess(store)
    yield found
    found.end()


@pytest.fixture
def me(pages):
    return pages.session()


def form_of(pages: PagesProcess) -> dict[str, str]:
    (run,) = open_for(pages.store).history.runs(job="crawl")
    return {"run": run.id, "seen": state_of(run)}


def status_of(pages: PagesProcess) -> str:
    (run,) = open_for(pages.store).history.runs(job="crawl")
    return run.status


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost", "127.0.0.1:1", "localhost.:{port}", "127.0.0.2:{port}",
     "[::]:{port}", "127.0.0.1.nip.io:{port}", "[::1]", ""],
)  # fmt: skip
def test_a_wrong_host_is_misdirected(me, pages, host):
    assert me.get("", Host=host.format(port=pages.port))[0] == 421


def test_a_request_line_that_names_a_host_is_misdirected(me, pages):
    line = f"GET http://evil.example/{pages.access.prefix}/ HTTP/1.1\r\nHost: 127.0.0.1:{pages.port}\r\n"
    reply = raw(pages.port, f"{line}Cookie: nightlatch={me.token}\r\nConnection: close\r\n\r\n".encode())
    assert reply.startswith(b"HTTP/1.1 421")


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_a_loopback_name_with_our_port_is_a_host(me, pages, host):
    assert me.get("", Host=host.format(port=pages.port))[0] == 200


def test_nothing_is_shown_without_a_session(pages):
    for path in ("", "jobs", "run/x", "journal.jsonl?job=crawl", "usage.csv", "leases"):
        status, _, text = Session(pages).get(path)
        assert status == 403 and "crawl" not in text


def test_nothing_is_outside_of_the_path_that_nobody_can_guess(me, pages):
    for path in ("/", "/jobs", "/static/nightlatch.css", f"/{'x' * 32}/", "/favicon.ico"):
        status, _, text = me.request("GET", path, {})
        assert status == 404 and "crawl" not in text


def test_metrics_need_a_session_or_a_token(pages, me):
    text = me.get("metrics")[2]
    assert 'nightlatch_runs_total{job="crawl",status="failed"} 1.0' in text
    assert Session(pages).get("metrics")[0] == 403
    token = pages.access.new_token()
    for given in ("", "Bearer", f"Bearer {token}x", f"Basic {token}", "Bearer ../sessions", f"Bearer {me.token}"):
        status, headers, refused = Session(pages).request("GET", "/metrics", {"Authorization": given})
        assert (status, headers["www-authenticate"]) == (401, "Bearer") and "crawl" not in refused
    bearer = {"Authorization": f"Bearer {token}"}
    status, headers, scraped = Session(pages).request("GET", "/metrics", bearer)
    assert status == 200 and "nightlatch_runs_total" in scraped and headers["x-content-type-options"] == "nosniff"
    assert pages.access.prefix not in scraped + str(headers)
    assert Session(pages).get("", **bearer)[0] == 403  # and nothing else
    assert Session(pages).request("GET", "/metrics", {**bearer, "Host": "evil.example"})[0] == 421


def test_metrics_at_a_port_of_their_own_and_nothing_else_there(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    (tmp_path / "nightlatch.toml").write_text(f"pages = {{ metrics_port = {port} }}\n")
    store = f"sqlite:///{tmp_path}/state/nightlatch.db"
    nightlatch(store, "run", "crawl", "--key", "k", "--", "true")
    pages = PagesProcess(store, cwd=tmp_path)
    assert pages.process.stderr and f"127.0.0.1:{port}/metrics" in pages.process.stderr.readline()

    def asked(path: str, host: str) -> bytes:
        request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        return raw(port, request.encode())

    assert b'nightlatch_runs_total{job="crawl"' in asked("/metrics", f"127.0.0.1:{port}")
    assert asked("/metrics", "evil.example").startswith(b"HTTP/1.1 421")
    assert asked("/metrics", f"localhost:{pages.port}").startswith(b"HTTP/1.1 421")
    for path in ("/", f"/{pages.access.prefix}/", f"/{pages.access.prefix}/static/nightlatch.css"):
        assert asked(path, f"127.0.0.1:{port}").startswith(b"HTTP/1.1 404")
    pages.end()


def test_a_cookie_of_the_same_name_by_another_port_locks_nobody_out(pages, me):
    """Cookies know no ports: a server that an agent starts may set ours for every path."""
    for cookies in (f"nightlatch={me.token}; nightlatch=evil", f"nightlatch=evil; nightlatch={me.token}"):
        assert me.get("", Cookie=cookies)[0] == 200
    other = pages.session(read_only=True)  # nor is a person moved into somebody else's session
    assert (
        me.csrf in me.get(f"run/{form_of(pages)['run']}", Cookie=f"nightlatch={me.token}; nightlatch={other.token}")[2]
    )


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded; charset=foo", "application/x-www-form-urlencoded; charset=utf-16",
     "multipart/form-data; boundary=x", "multipart/form-data", "application/json"],
)  # fmt: skip
def test_a_form_that_cannot_be_read_is_refused(me, pages, kind):
    assert me.post("act/retry", form_of(pages), **{"Content-Type": kind})[0] in (400, 403)
    assert status_of(pages) == statuses.FAILED


@pytest.mark.parametrize(
    "path",
    ["night?date=0001-01-01", "night?date=9999-12-31", "journal.jsonl?run=zzzz", "run/%00", "job/%ff", "find?q=%00"],
)
def test_what_does_not_exist_is_a_page_that_says_so(me, pages, path):
    status, _, text = me.get(path)
    assert status == 404 and "<h1" in text


def test_a_stream_that_is_not_read_is_let_go(tmp_path, monkeypatch):
    store = f"sqlite:///{tmp_path}/state/nightlatch.db"
    nightlatch(store, "run", "long", "--key", "k", "--", "sh", "-c", "seq 900000")
    impatient = "from nightlatch.web import live; live.PATIENCE = 1.0; from nightlatch.cli.main import main; main()"
    monkeypatch.setattr(programs, "NIGHTLATCH", [sys.executable, "-c", impatient])
    pages = PagesProcess(store)
    me, (run,) = pages.session(), open_for(store).history.runs(job="long")
    request = f"GET /{pages.access.prefix}/run/{run.id}/events HTTP/1.1\r\nHost: 127.0.0.1:{pages.port}\r\n"
    deaf = []
    for _ in range(live.STREAMS):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", pages.port))
        one.sendall(f"{request}Cookie: nightlatch={me.token}\r\n\r\n".encode())
        deaf.append(one)
    until(lambda: me.get(f"run/{run.id}/events")[0] == 200)
    for one in deaf:
        one.close()
    pages.end()


def test_a_form_without_its_token_changes_nothing(me, pages):
    form = form_of(pages)
    for csrf in ("", "x", pages.session().csrf):  # none, a wrong one, another session's
        assert me.post("act/retry", {**form, "csrf": csrf})[0] == 403
    assert status_of(pages) == statuses.FAILED


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}", None]
)
def test_a_form_of_another_origin_changes_nothing(me, pages, origin):
    headers = {"Origin": origin and origin.format(port=pages.port)}
    assert me.post("act/retry", form_of(pages), **headers)[0] == 403
    assert status_of(pages) == statuses.FAILED


def test_a_form_without_a_session_changes_nothing(pages):
    assert Session(pages).post("act/retry", form_of(pages))[0] == 403
    assert status_of(pages) == statuses.FAILED


def test_a_session_that_may_only_look_changes_nothing(pages):
    assert pages.session(read_only=True).post("act/retry", form_of(pages))[0] == 403
    assert status_of(pages) == statuses.FAILED


def test_a_server_that_only_shows_has_no_way_to_change_anything(pages):
    other = PagesProcess(pages.store, "--read-only")
    assert other.session().post("act/retry", form_of(pages))[0] in (403, 404, 405)
    other.end()
    assert status_of(pages) == statuses.FAILED


def test_a_job_whose_costs_did_not_change_has_no_new_usual(me, pages):
    status, _, text = me.post("act/usual", {"job": "crawl", "what": "usd", "run": form_of(pages)["run"]})
    assert status == 409 and "has changed since" in text
    assert not [entry for entry in open_for(pages.store).journal.of_job("crawl") if entry.kind == "usual"]


def test_a_decision_by_a_link_is_not_one(me, pages):
    assert (
        me.get("act/retry?" + "&".join(f"{name}={text}" for name, text in form_of(pages).items()).replace(" ", "%20"))[
            0
        ]
        == 405
    )
    assert status_of(pages) == statuses.FAILED


def test_a_code_is_good_once(pages):
    address = pages.opening().removeprefix(pages.base)
    status, headers, _ = Session(pages).get(address)
    assert status == 200
    cookie = headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", f"Path=/{pages.access.prefix}/"))
    assert Session(pages).get(address)[0] == 403


def test_a_code_is_good_for_a_minute(tmp_path, monkeypatch):
    access = Access(str(tmp_path))
    code, late = access.new_code(read_only=False), time.time() + accesses.CODE_LASTS + 1
    monkeypatch.setattr(clock, "wall", lambda: late)
    assert access.redeem(code) is None


def test_a_session_ends(tmp_path, monkeypatch):
    access = Access(str(tmp_path))
    token = access.redeem(access.new_code(read_only=False))
    assert token and access.session(token)
    late = time.time() + accesses.SESSION_LASTS + 1
    monkeypatch.setattr(clock, "wall", lambda: late)
    assert access.session(token) is None


def test_codes_cannot_be_tried_one_after_the_other(tmp_path):
    pages = PagesProcess(f"sqlite:///{tmp_path}/state/nightlatch.db")
    tried = [Session(pages).get(f"open/{number}")[0] for number in range(12)]
    assert tried[:10] == [403] * 10 and tried[10:] == [429] * 2
    pages.end()


def test_revoking_ends_every_session(tmp_path):
    pages = PagesProcess(f"sqlite:///{tmp_path}/state/nightlatch.db")
    me = pages.session()
    path = f"/{pages.access.prefix}/"
    assert me.request("GET", path, {})[0] == 200
    done = nightlatch(pages.store, "open", "--revoke")
    assert done.stdout == "1 session ended\n", done.stderr
    assert me.request("GET", path, {})[0] == 404
    assert me.get("")[0] == 403
    pages.end()


def test_a_run_may_not_open_the_pages(pages):
    done = nightlatch(pages.store, "open", "--print", env={"NIGHTLATCH_RUN": "x", "NIGHTLATCH_JOB": "crawl"})
    assert done.returncode == 77 and not done.stdout
    done = nightlatch(
        pages.store, "open", "--print", "--read-only", env={"NIGHTLATCH_RUN": "x", "NIGHTLATCH_STORE": pages.store}
    )
    assert done.stdout.startswith(pages.base), done.stderr


def test_files_of_sessions_are_private_and_open_nothing(pages, me):
    folder = os.path.join(stores.folder_of(pages.store), "pages")
    found = [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]
    assert found and all(os.stat(path).st_mode & 0o077 == 0 for path in found)
    assert not any(me.token in path for path in found)


def test_the_cookie_is_not_sent_to_another_port(pages, browser):
    """Cookies know no ports: bound to the path, it stays here."""
    asked: list[str] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(str(self.headers))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = browser.new_context()
    page = context.new_page()
    page.goto(pages.opening())
    page.wait_for_selector("header.top")
    page.goto(f"http://127.0.0.1:{server.server_port}/")
    page.goto(f"http://127.0.0.1:{server.server_port}/{'a' * 32}/")
    server.shutdown()
    server.server_close()
    context.close()
    assert len(asked) >= 2 and not any("nightlatch=" in headers for headers in asked)
    assert not any(pages.access.prefix in headers for headers in asked)  # nor is the path in a Referer


def test_a_script_in_output_key_job_or_message_is_text(pages, watched):
    one = watched()
    page = one.open(pages)
    for path in ("", "jobs", "job/crawl", f"run/{form_of(pages)['run']}", "journal?job=crawl", "night"):
        page.goto(f"{pages.base}{path}")
        assert "owned" not in page.title()
        assert page.locator("main script, main img").count() == 0
    page.goto(f"{pages.base}run/{form_of(pages)['run']}")
    text = page.inner_text("#log ol")
    assert '<script>document.title="owned"</script>' in text
    assert "red" in text and "\x1b" not in text and "title" not in text.replace("document.title", "")
    assert "\\u202ebidi" in text  # written out, and turns nothing around
    one.check(pages)


def test_raw_output_is_text_in_a_sandbox(me, pages):
    status, headers, text = me.get(f"run/{form_of(pages)['run']}/raw")
    assert status == 200 and "<script>" in text
    assert headers["content-type"].startswith("text/plain") and headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("sandbox")


@pytest.mark.parametrize(
    "path", ["static/../../access.py", "static/%2e%2e%2faccess.py", "run/..%2f..%2fetc/raw", "static/", "job/../../x"]
)
def test_a_path_that_leads_elsewhere_leads_nowhere(me, pages, path):
    status, _, text = me.request("GET", f"/{pages.access.prefix}/{path}", {})
    assert status in (403, 404) and "import" not in text


def test_every_reply_has_its_headers(me, pages):
    for path in ("", "nowhere", "run/nope", "static/nightlatch.css"):
        _, headers, _ = me.get(path)
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff" and "referrer-policy" in headers


def test_a_header_that_is_too_large_is_refused(pages):
    big = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{pages.port}\r\nX-Big: {'a' * 20_000}\r\n\r\n".encode()
    assert b" 431 " in raw(pages.port, big).split(b"\r\n")[0]
    many = "".join(f"X-{number}: {'a' * 100}\r\n" for number in range(200))
    assert b" 431 " in raw(pages.port, f"GET / HTTP/1.1\r\n{many}\r\n".encode()).split(b"\r\n")[0]


def test_a_body_that_is_too_large_is_refused(me):
    assert me.post("act/retry", {"run": "x" * 100_000})[0] == 413


def test_five_hundred_silent_connections_keep_nobody_out(pages, me):
    silent = []
    try:
        for _ in range(500):
            one = socket.create_connection(("127.0.0.1", pages.port))
            one.sendall(b"GET / HTTP/1.1\r\nHost: ")
            silent.append(one)
            if len(silent) % 100 == 0:
                assert me.get("")[0] == 200
        assert me.get("jobs")[0] == 200
        kept = len(os.listdir(f"/proc/{pages.process.pid}/fd"))
        assert kept < connections.MOST + 60
    finally:
        for one in silent:
            one.close()


def test_a_line_of_a_megabyte_is_cut(tmp_path):
    store = f"sqlite:///{tmp_path}/state/nightlatch.db"
    nightlatch(
        store, "run", "long", "--key", "k", "--", "sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end"
    )
    pages = PagesProcess(store)
    (run,) = open_for(store).history.runs(job="long")
    status, _, text = pages.session().get(f"run/{run.id}")
    assert status == 200 and len(text) < 60_000 and ">end<" in text
    pages.end()


def test_a_button_of_yesterdays_page_does_nothing_and_says_what_happened(tmp_path):
    store = f"sqlite:///{tmp_path}/state/nightlatch.db"
    nightlatch(store, "run", "crawl", "--key", "k", "--", "false")
    pages = PagesProcess(store)
    me, old = pages.session(), form_of(pages)
    nightlatch(store, "run", "crawl", "--key", "k", "--", "true")  # meanwhile it went well
    status, _, text = me.post("act/retry", old)
    assert status == 409 and "succeeded by now, at attempt 2" in text
    assert status_of(pages) == statuses.SUCCEEDED
    status, _, text = me.post("act/cancel", {**old, "sure": "1"})
    assert status == 409
    pages.end()


def test_a_stream_is_resumed_at_the_byte(tmp_path):
    store = f"sqlite:///{tmp_path}/state/nightlatch.db"
    nightlatch(store, "run", "talk", "--key", "k", "--", "sh", "-c", "echo one; echo two; echo three")
    pages = PagesProcess(store)
    me, (run,) = pages.session(), open_for(store).history.runs(job="talk")
    _, _, whole = me.get(f"run/{run.id}/events")
    place = next(line.removeprefix("id: ") for line in whole.splitlines() if line.startswith("id: "))
    inode, _, end = place.partition(":")
    _, _, rest = me.get(f"run/{run.id}/events", **{"Last-Event-ID": f"{inode}:{int(end) - 6}"})
    (data,) = [
        json.loads(line.removeprefix("data: ")) for line in rest.splitlines() if line.startswith('data: {"lines')
    ]
    assert data == {"lines": [["three", True]], "lost": False}
    _, _, none = me.get(f"run/{run.id}/events", **{"Last-Event-ID": place})
    assert "event: output" not in none
    pages.end()


def test_the_port_is_the_next_one_if_it_is_taken():
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = taken.getsockname()[1]
    found = listen(port)
    assert port < found.getsockname()[1] <= port + 20
    found.close()
    taken.close()
