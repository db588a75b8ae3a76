"""A vendor that is broken, or not a friend: nothing is launched twice, no key goes elsewhere, no file lands elsewhere,
and an answer that nobody can read is not the end of the watch."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightlatch.agents import providers
from nightlatch.agents.drive import AgentDriver
from nightlatch.agents.http import VendorClient
from nightlatch.agents.seam import Ask, NotLaunched, Unclear
from nightlatch.core.agent import AgentRequest
from nightlatch.errors import UsageError
from tests.support.agents import PROVIDERS, agent, begin, words
from tests.support.programs import nightlatch, until
from tests.support.runs import one
from tests.support.vendor import managed
from tests.support.vendor.managed import ManagedVendor, Work

ODD = "\x1b[31mred\x1b[0m\u202e\nline"
HTML = b"<html><body>Bad gateway</body></html>"


@pytest.fixture
def vendor() -> Iterator[ManagedVendor]:
    with ManagedVendor() as made:
        yield made


def reply(body: bytes, status: str = "200 OK", *headers: str) -> list[bytes]:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return ["\r\n".join(lines).encode() + body]


def chunked(body: bytes) -> list[bytes]:
    parts = [f"{len(body[at : at + 7]):x};x=y\r\n".encode() + body[at : at + 7] for at in range(0, len(body), 7)]
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head, *itertools.chain.from_iterable((part, b"\r", b"\n") for part in parts), b"0\r\n\r\n"]


UNREADABLE = {
    "html": reply(HTML),
    "nothing": reply(b""),
    "a list": reply(b"[]"),
    "null": reply(b"null"),
    "deep": reply(b"[" * 100_000),
    "wrong types": reply(b'{"status": 7, "usage": "much", "output": {"a": 1}}'),
    "cut": [b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"status": "completed"'],
    "cut in a chunk": [b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n900\r\n{"status": "completed"'],
    "not HTTP": [b"SSH-2.0-OpenSSH_9.6\r\n\r\n"],
    "silence": [],
    "500": reply(HTML, "500 Internal Server Error"),
    "an endless head": [b"HTTP/1.1 200 OK\r\n", *([b"x: " + b"y" * 4000 + b"\r\n"] * 40)],
}


def test_answers_to_polls_that_nobody_can_read_do_not_end_the_watch(sqlite_url: str, vendor: ManagedVendor):
    answers = iter(UNREADABLE.values())
    vendor.work = Work(polls=1)
    vendor.raw = lambda verb: next(answers, None) if verb == "poll" else None
    done = agent(sqlite_url, vendor, "openai", every="50ms")
    assert done.returncode == 0 and done.stdout == "the answer\n", done.stderr
    assert next(answers, None) is None and list(vendor.launches().values()) == [1]


@pytest.mark.parametrize("name", [*UNREADABLE, "a redirect"])
def test_a_launch_whose_answer_nobody_can_read_is_in_doubt(vendor: ManagedVendor, monkeypatch, name: str):
    for variable, text in vendor.environment().items():
        monkeypatch.setenv(variable, text)
    raw = {**UNREADABLE, "a redirect": reply(b"", "307 Temporary Redirect", "Location: http://127.0.0.1:1/")}[name]
    vendor.raw = lambda verb: raw
    with pytest.raises(Unclear):  # and not NotLaunched
        providers.load("openai", {}).launch(Ask(agent="gpt-5.4", input="go", fields={}, labels={}), "")
    assert len(vendor.requests) == 1


def test_a_key_does_not_follow_a_redirect(sqlite_url: str, vendor: ManagedVendor):
    with ManagedVendor() as elsewhere:
        to = f"Location: {elsewhere.url}/v1/responses"
        vendor.raw = lambda verb: reply(b"", "307 Temporary Redirect", to) if verb == "launch" else None
        done = agent(sqlite_url, vendor, "openai")
        assert done.returncode == 76 and "another address" in done.stderr, done.stderr
        redirected = iter([reply(b"", "302 Found", to)] * 2)
        vendor.raw = lambda verb: next(redirected, None) if verb == "poll" else None
        again = agent(sqlite_url, vendor, "openai", key="other")
        assert again.returncode == 0 and "another address" in again.stderr, again.stderr
        assert not elsewhere.requests


@pytest.mark.parametrize("body", [b"{}", b'{"id": null}', b'{"id": 7}', b'{"id": ""}'])
def test_a_launch_without_a_handle_is_in_doubt(sqlite_url: str, vendor: ManagedVendor, body: bytes):
    vendor.raw = lambda verb: reply(body) if verb == "launch" else None
    done = agent(sqlite_url, vendor, "google")
    assert done.returncode == 76 and "accepted the launch and returned no id" in done.stderr, done.stderr


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"])
def test_a_reply_that_trickles_in_for_ever_is_given_up(vendor: ManagedVendor, head: bytes):
    def trickle() -> Iterator[bytes]:
        yield head
        while True:
            time.sleep(0.05)
            yield b"x" if not head or b"Length" not in head else b""

    vendor.raw = lambda verb: trickle()
    with pytest.raises(Unclear, match=r"in time|timed out"):
        VendorClient(vendor.url, {}, timeout=0.5).get("/v1/responses/r")


def test_replies_in_chunks_and_after_an_interim_one_are_read(vendor: ManagedVendor):
    body = json.dumps({"text": "ä" * 40, "list": list(range(20))}).encode()
    vendor.raw = lambda verb: chunked(body)
    assert VendorClient(vendor.url, {}).get("/v1/responses/r") == json.loads(body)
    vendor.raw = lambda verb: [b"HTTP/1.0 200 OK\r\n\r\n", body]  # until the end of the connection
    assert VendorClient(vendor.url, {}).get("/v1/responses/r") == json.loads(body)


def test_a_reply_without_end_is_not_kept_in_memory(vendor: ManagedVendor):
    vendor.raw = lambda verb: itertools.chain([b"HTTP/1.1 200 OK\r\n\r\n"], itertools.repeat(b" " * 1_000_000))
    with pytest.raises(Unclear, match="longer than"):
        VendorClient(vendor.url, {}).get("/v1/responses/r")


@pytest.mark.parametrize("base", ["api.example.com", "ftp://a", "https://", "http://a:b", "https://user@a"])
def test_an_address_that_is_not_one_is_refused(base: str):
    with pytest.raises(UsageError, match="not the address of an API"):
        VendorClient(base, {})


def test_a_key_with_a_line_break_is_not_sent():
    with pytest.raises(UsageError, match="plain ASCII"):
        VendorClient("https://a", {"Authorization": "Bearer a\r\nX: y"})


def test_a_handle_stays_one_part_of_the_path(vendor: ManagedVendor, monkeypatch: pytest.MonkeyPatch):
    for variable, text in vendor.environment().items():
        monkeypatch.setenv(variable, text)
    for provider in ("anthropic", "google", "openai"):
        with pytest.raises(Unclear):
            providers.load(provider, {}).poll("../../keys?a=b#c \r\nX-Evil: 1")
    for handle in (".", ".."):
        with pytest.raises(Unclear):
            providers.load("openai", {}).poll(handle)
    paths = [path for _, path, _, _ in vendor.requests]
    assert len(paths) == 5 and all(path.count("/") == 3 and "evil" not in path for path in paths), paths
    assert not any("x-evil" in headers for _, _, headers, _ in vendor.requests)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_figures_that_fall_or_cannot_be_are_not_believed(sqlite_url: str, vendor: ManagedVendor, provider: str):
    factors = iter([1, 1000, 10, -5, 10**40, float("inf"), float("nan")])

    def odd(shown: dict[str, Any]) -> dict[str, Any]:
        factor = next(factors, 0)
        for place in (shown, shown.get("usage") or {}):
            for name, figure in place.items():
                if name in ("tokens", "usd") or name.endswith("_tokens"):
                    place[name] = factor * 100 if isinstance(figure, int) else factor * 0.01
                if name == "list_cost":
                    place[name] = {"amount": str(factor), "currency": "USD"}
        return shown

    vendor.work, vendor.shown = Work(polls=7), odd
    done = agent(sqlite_url, vendor, provider, "--set", "priced_as=gpt-5.4", every="50ms")
    assert done.returncode == 0, done.stderr
    used = one(sqlite_url, "article")["usage"]
    kinds = {"anthropic": 2, "google": 2, "openai": 2, "command": 1}[provider]  # input and output; of a command, tokens
    assert used["tokens"] == kinds * 100_000, used
    if provider in ("anthropic", "command"):
        assert used["usd"] == pytest.approx(10.0)
    assert nightlatch(sqlite_url, "audit", "verify").returncode == 0


def test_a_stall_is_not_hidden_by_steps_that_come_and_go(sqlite_url: str, vendor: ManagedVendor):
    lengths = itertools.cycle([5, 1])

    def flicker(shown: dict[str, Any]) -> dict[str, Any]:
        return {**shown, "output": shown["output"][:1] * next(lengths)}

    vendor.work, vendor.shown = Work(polls=0, tokens=0), flicker
    done = agent(sqlite_url, vendor, "openai", "--stall", "3s")
    assert done.returncode == 122, done.stderr


NAMES = {
    "../../outside": "outside", "/etc/nightlatch-test": "etc/nightlatch-test", "a/./b/../c.txt": "a/b/c.txt",
    "plain.md": "plain.md", "new\nline": "new_line", "x" * 400: "x" * 200,
}  # fmt: skip


@pytest.mark.parametrize("provider", ["anthropic", "google"])
def test_files_land_below_their_folder_whatever_they_are_called(
    sqlite_url: str, vendor: ManagedVendor, tmp_path: Path, provider: str
):
    vendor.files = {name: name.encode() for name in NAMES}
    keep = ("--workspace", "scratch", "--publish", f"files/={tmp_path / 'out'}")
    done = agent(sqlite_url, vendor, provider, *keep)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    found = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert found == {place: name.encode() for name, place in NAMES.items()}


def test_a_link_in_the_workspace_leads_nothing_out(sqlite_url: str, vendor: ManagedVendor, tmp_path: Path):
    outside, repository = tmp_path / "outside", tmp_path / "repository"
    outside.mkdir()
    repository.mkdir()
    (repository / "files").symlink_to(outside)
    (repository / "answer.md").symlink_to(outside / "answer.md")
    for git in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *git], cwd=repository, check=True)
    vendor.files = {"a.txt": b"a"}
    line = ["--workspace", "git", "--publish", f"answer.md={tmp_path / 'answer.md'}"]
    env = {**vendor.environment(), "PWD": str(repository)}
    done = nightlatch(sqlite_url, *words("anthropic", *line), env=env, cwd=repository)
    assert done.returncode == 75 and "could not be kept" in done.stderr, done.stderr
    assert not list(outside.iterdir())
    assert list(vendor.launches().values()) == [1]


def test_files_that_cannot_be_fetched_are_fetched_by_the_next_try_and_nothing_is_launched(
    sqlite_url: str, vendor: ManagedVendor, tmp_path: Path
):
    vendor.files, faults = {"a.txt": b"a"}, iter([reply(HTML, "502 Bad Gateway")])
    vendor.raw = lambda verb: next(faults, None) if verb == "files" else None
    keep = ("--workspace", "scratch", "--publish", f"files/a.txt={tmp_path / 'a.txt'}")
    done = agent(sqlite_url, vendor, "google", *keep, "--retries", "1", "--backoff", "50ms")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.txt").read_bytes() == b"a" and list(vendor.launches().values()) == [1]


def test_hostile_text_reaches_no_terminal(sqlite_url: str, vendor: ManagedVendor):
    def odd(shown: dict[str, Any]) -> dict[str, Any]:
        ended = any(made.cancelled_at < math.inf for made in vendor.working())
        return shown if ended else {**shown, "status": ODD, "model": ODD, "error": {"message": ODD}}

    vendor.shown = odd
    done = agent(sqlite_url, vendor, "openai", "--timeout", "2s", "--grace", "1s")
    assert done.returncode in (76, 124)
    run, (made,) = one(sqlite_url, "article")["run"], vendor.working()
    env = vendor.environment() | {"COLUMNS": "200"}
    for line in (["show", run], ["agent", "list"], ["agent", "list", "--all"], ["agent", "show", made.id], []):
        text = nightlatch(sqlite_url, *line, env=env).stdout
        assert "\x1b[31m" not in text and "\u202e" not in text, line


def test_a_launch_whose_time_was_over_is_not_sent(sqlite_url: str, monkeypatch: pytest.MonkeyPatch):
    """Its sender was stopped in front of it: a successor may have looked, found nothing, and launched."""
    for name in ("RUN", "JOB", "KEY", "SLOT", "SOCKET", "GRANT"):
        monkeypatch.setenv(f"NIGHTLATCH_{name}", "x")
    for name in ("ATTEMPT", "TOKEN"):
        monkeypatch.setenv(f"NIGHTLATCH_{name}", "1")
    launched: list[str] = []

    class Slow:
        lag, vendor, budgets = 0.0, "", ()

        def __init__(self, fields: object) -> None: ...

        def prepare(self, ask: Ask) -> str:
            time.sleep(0.3)
            return "prepared"

        def launch(self, ask: Ask, handle: str) -> str:
            launched.append(handle)
            return handle

    monkeypatch.setattr(providers, "load", lambda *_: Slow({}))
    driver = AgentDriver(AgentRequest(provider="a:B", agent="", input="go", fields={"deadline": "200ms"}))
    monkeypatch.setattr(driver, "_record", lambda *_: None)
    with pytest.raises(NotLaunched, match="time was over"):
        driver._start(Ask(agent="", input="go", fields={}, labels={}))
    assert not launched


# ── what people see ──


def test_an_agent_with_our_label_that_no_run_knows_is_listed(sqlite_url: str, vendor: ManagedVendor, tmp_path: Path):
    vendor.work = Work(polls=0)
    running = begin(sqlite_url, vendor, "anthropic")
    until(lambda: any(a.polls for a in vendor.working()))
    (made,) = vendor.working()
    known = nightlatch(sqlite_url, "agent", "list", "--provider", "anthropic", env=vendor.environment())
    assert known.stdout.count(made.id) == 1, known.stdout
    other = f"sqlite:///{tmp_path}/other.db"
    assert nightlatch(other, "run", "x", "--", "true").returncode == 0
    listed = nightlatch(other, "agent", "list", "--provider", "anthropic", env=vendor.environment())
    assert f"nightlatch agent cancel {made.id} --provider anthropic" in listed.stdout, listed.stdout + listed.stderr
    ended = nightlatch(other, "agent", "cancel", made.id, "--provider", "anthropic", env=vendor.environment())
    assert ended.returncode == 0 and not vendor.at_work(), ended.stderr
    _, err = running.communicate(timeout=60)
    assert "cancelled at the vendor" in err


def test_an_agent_that_waits_is_given_time(sqlite_url: str, vendor: ManagedVendor):
    vendor.work = Work(becomes=managed.WAITING)
    running = begin(sqlite_url, vendor, "google", "--waits", "1h")
    until(lambda: any(a.status == managed.WAITING for a in vendor.working()))
    (made,) = vendor.working()
    polls = made.polls
    until(lambda: made.polls > polls + 1)
    assert not made.cancels
    made.status = managed.DONE  # somebody answered in the vendor's console
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0 and out == "the answer\n" and "waits for: deploy" in err, err


def test_show_has_handle_states_and_page(sqlite_url: str, vendor: ManagedVendor):
    assert agent(sqlite_url, vendor, "openai").returncode == 0
    run, (made,) = one(sqlite_url, "article")["run"], vendor.working()
    shown = nightlatch(sqlite_url, "show", run, env={"COLUMNS": "250"}).stdout
    assert made.id in shown and "running" in shown and "succeeded" in shown, shown
    assert f"https://platform.openai.com/logs/{made.id}" in shown, shown


@pytest.mark.parametrize("kind", ["my-agent", "deep-research-pro", "antigravity-preview-09-2026"])
def test_a_google_agent_is_launched_under_a_budget_only_with_the_cap_that_it_takes(
    sqlite_url: str, vendor: ManagedVendor, kind: str
):
    line = ("--agent", kind, "--budget", "usd=1")
    done = agent(sqlite_url, vendor, "google", *line)
    if kind == "my-agent":
        assert done.returncode == 70 and "agent_config.type=antigravity" in done.stderr, done.stderr
        assert not vendor.working()
        done = agent(sqlite_url, vendor, "google", *line, "--set", "agent_config.type=antigravity")
    assert done.returncode == 0, done.stderr
    (made,) = vendor.working()
    assert ("max_total_tokens" in made.body.get("agent_config", {})) == (kind != "deep-research-pro")
