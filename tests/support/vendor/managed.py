"""Vendors of managed agents on loopback: Anthropic's sessions, Google's interactions, OpenAI's responses, and a plain API
for commands. One real HTTP server; it counts what was launched, and its faults are set by the test.

    with ManagedVendor() as vendor:
        vendor.work = Work(polls=3)
        …
        vendor.agents, vendor.begun("k")
"""

from __future__ import annotations

import itertools
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

RUNNING, WAITING, DONE, FAILED, CANCELLED, SPENT, ODD = (
    "running", "waiting", "done", "failed", "cancelled", "spent", "odd",
)  # fmt: skip
LOST, REFUSED, OVERLOADED, DROPPED = "lost", "refused", "overloaded", "dropped"  # what becomes of a request
SLOW = "slow"  # it is acted on, and answered after a while
_SLOW_BY = 0.3  # seconds

_WORDS = {
    "google": {RUNNING: "in_progress", WAITING: "requires_action", DONE: "completed", FAILED: "failed",
               CANCELLED: "cancelled", SPENT: "budget_exceeded", ODD: "pondering"},
    "openai": {RUNNING: "in_progress", WAITING: "in_progress", DONE: "completed", FAILED: "incomplete",
               CANCELLED: "cancelled", SPENT: "incomplete", ODD: "pondering"},
    "plain": {RUNNING: "running", WAITING: "waiting", DONE: "succeeded", FAILED: "failed", CANCELLED: "cancelled",
              SPENT: "over-budget", ODD: "pondering"},
}  # fmt: skip


@dataclass(frozen=True)
class Work:
    """How an agent works that is launched from now on."""

    polls: int = 2  # after which it is `becomes`; 0: never
    becomes: str = DONE
    tokens: int = 100  # a poll
    usd: float = 0.01  # a poll
    steps: bool = True  # they grow
    cancel_takes: float = 0.0  # seconds
    cancels: bool = True  # a cancel takes
    answer: str = "the answer"


@dataclass
class Agent:
    id: str
    kind: str
    body: dict[str, Any]
    work: Work
    at: float = field(default_factory=time.monotonic)
    made: float = field(default_factory=time.time)
    messages: int = 0  # that started work
    polls: int = 0
    cancels: int = 0
    cancelled_at: float = float("inf")
    archived: bool = False
    status: str = RUNNING

    @property
    def launch(self) -> str:
        return str((self.body.get("metadata") or self.body.get("labels") or {}).get("nightlatch_launch", ""))

    def look(self) -> str:
        """Its state now."""
        if self.status in (RUNNING, ODD) and time.monotonic() >= self.cancelled_at + self.work.cancel_takes:
            self.status = CANCELLED
        if self.status == RUNNING and self.work.polls and self.polls >= self.work.polls:
            self.status = self.work.becomes
        return self.status


def _tls(certificate: Path) -> ssl.SSLContext:
    key = certificate.with_suffix(".key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=vendor", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


class ManagedVendor:
    def __init__(self, *, certificate: Path | None = None) -> None:
        """`certificate`: a file to be made; the vendor then speaks TLS, as only those that trust the file can."""
        self._certificate = certificate
        self.agents: dict[str, Agent] = {}
        self.requests: list[tuple[str, str, dict[str, str], dict[str, Any]]] = []
        self.work = Work()
        self.fault: Callable[[str, str], str] = lambda verb, path: ""  # verb: launch, prepare, poll, list, cancel
        self.raw: Callable[[str], Iterable[bytes] | None] = lambda verb: None  # what is sent in place of an answer
        self.shown: Callable[[dict[str, Any]], Any] = lambda reply: reply  # changes what a poll is answered with
        self.files: dict[str, bytes] = {}  # of every agent, by the name that it gave
        self.lag = 0.0  # seconds before what was made shows in lists, and in what is read
        self.hidden = 0.0  # seconds for which a new agent is a 404
        self.retry_after = ""
        self.seen: list[tuple[str, str, int]] = []  # (verb, path, status)
        self._numbers, self._lock = itertools.count(1), threading.Lock()

    def __enter__(self) -> ManagedVendor:
        vendor = self

        class Handler(_Handler):
            owner = vendor

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http{'s' * bool(self._certificate)}://127.0.0.1:{self._server.server_port}"
        if self._certificate:
            self._server.socket = _tls(self._certificate).wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def environment(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "sk-ant-key-of-a-test",
            "OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": "sk-key-of-a-test-openai",
            "GOOGLE_GEMINI_BASE_URL": self.url, "GEMINI_API_KEY": "key-of-a-test-google",
            "VENDOR": self.url, "NO_PROXY": "127.0.0.1",
        }  # fmt: skip

    def working(self) -> list[Agent]:
        """Those that got something to do, whatever became of them."""
        return [agent for agent in self.agents.values() if agent.messages]

    def at_work(self) -> list[Agent]:
        return [agent for agent in self.working() if agent.look() == RUNNING]

    def launches(self) -> dict[str, int]:
        """How often work began, by the launch's label."""
        found: dict[str, int] = {}
        for agent in self.working():
            found[agent.launch] = found.get(agent.launch, 0) + agent.messages
        return found

    def verb(self, name: str) -> list[tuple[str, str, int]]:
        return [one for one in self.seen if one[0] == name]

    # ── the APIs: (status, reply) ──

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> tuple[str, int, Any]:
        parts = path.strip("/").split("/")
        with self._lock:
            if parts[:2] == ["v1", "sessions"]:
                return self._sessions(method, parts[2:], query, body)
            if parts[:2] == ["v1", "interactions"]:
                return self._flat("google", method, parts[2:], body)
            if parts[:2] == ["v1", "responses"]:
                return self._flat("openai", method, parts[2:], body)
            if parts[:2] == ["v2", "agents"]:
                return self._listed_or_flat(method, parts[2:], query, body)
            if parts[:1] == ["plain"]:
                return self._flat("plain", method, parts[1:], body)
            if parts[:2] == ["v1", "files"]:
                return "files", 200, self._anthropic_file(parts[2:])
            if parts[:2] == ["v1", "environments"]:
                return "files", 200, self._google_file(path.partition("/files/")[2], query)
        return "unknown", 404, _error("no such path")

    def _make(self, kind: str, body: dict[str, Any]) -> Agent:
        agent = Agent(f"{kind[:4]}_{next(self._numbers)}", kind, body, self.work)
        self.agents[agent.id] = agent
        return agent

    def _flat(self, kind: str, method: str, rest: list[str], body: dict[str, Any]) -> tuple[str, int, Any]:
        if not rest:
            agent = self._make(kind, body)
            agent.messages = 1
            return "launch", 200, {"id": agent.id, "status": _WORDS[kind][RUNNING]}
        if rest == ["find"]:
            found = [a for a in self._shown_in_lists() if a.launch == body["labels"]["nightlatch_launch"]]
            return "list", 200, {"handle": found[0].id if found else None}
        found_agent = self.agents.get(rest[0])
        if found_agent is None or time.monotonic() < found_agent.at + self.hidden:
            return ("cancel" if rest[1:] == ["cancel"] else "poll"), 404, _error("not found")
        if rest[1:] == ["cancel"]:
            self._cancel(found_agent)
            return "cancel", 200, self._shown(found_agent)
        found_agent.polls += 1
        return "poll", 200, self.shown(self._shown(found_agent))

    def _listed_or_flat(
        self, method: str, rest: list[str], query: dict[str, list[str]], body: dict[str, Any]
    ) -> tuple[str, int, Any]:
        """The API of the examples in docs/agents.md."""
        if rest or method == "POST":
            return self._flat("plain", method, rest, body)
        known = [a for a in self._shown_in_lists() if [a.launch] == query["launch"]]
        return "list", 200, {"data": [{"id": a.id} for a in known]}

    def _shown_in_lists(self) -> list[Agent]:
        return [agent for agent in self.agents.values() if time.monotonic() >= agent.at + self.lag]

    def _cancel(self, agent: Agent) -> None:
        agent.cancels += 1
        if agent.work.cancels:
            agent.cancelled_at = min(agent.cancelled_at, time.monotonic())
            if agent.look() == WAITING:
                agent.status = CANCELLED

    def _shown(self, agent: Agent) -> dict[str, Any]:
        status, work, counted = agent.look(), agent.work, agent.polls
        word, tokens, steps = _WORDS[agent.kind][status], counted * work.tokens, counted if work.steps else 1
        text, output_tokens = work.answer if status in (DONE, FAILED) else "", counted if work.tokens else 0
        if agent.kind == "google":
            made: list[dict[str, Any]] = [{"type": "thought"}] * steps + [
                {"type": "model_output", "content": [{"type": "text", "text": text}]}
            ]
            if status == WAITING:
                made.append({"type": "function_call", "id": "c1", "name": "deploy", "arguments": {"to": "production"}})
            return {"id": agent.id, "status": word, "model": "gemini-3.1-pro-preview", "steps": made, "environment_id": "environment_1",
                    "usage": {"total_input_tokens": tokens - output_tokens, "total_output_tokens": output_tokens,
                              "total_tokens": tokens}}  # fmt: skip
        if agent.kind == "openai":
            output: list[dict[str, Any]] = [{"type": "reasoning"}] * steps
            output.append({"type": "message", "content": [{"type": "output_text", "text": text}]})
            return {"id": agent.id, "status": word, "model": "gpt-5.4", "output": output,
                    "incomplete_details": {"reason": "max_output_tokens"} if word == "incomplete" else None,
                    "usage": {"input_tokens": tokens - output_tokens, "output_tokens": output_tokens,
                              "total_tokens": tokens}}  # fmt: skip
        return {"status": word, "steps": steps, "tokens": tokens, "usd": round(counted * work.usd, 9), "answer": text,
                "waits_for": "deploy to production" if status == WAITING else ""}  # fmt: skip

    # ── files ──

    def _anthropic_file(self, rest: list[str]) -> Any:
        if rest:
            return list(self.files.values())[int(rest[0].removeprefix("file_"))]
        return {"data": [{"id": f"file_{place}", "filename": name} for place, name in enumerate(self.files)]}

    def _google_file(self, path: str, query: dict[str, list[str]]) -> Any:
        if query.get("alt") == ["media"]:
            return next(data for name, data in self.files.items() if name.lstrip("/") == unquote(path))
        return {"files": [{"type": "directory", "path": "src"}, *({"type": "file", "path": n} for n in self.files)]}

    # ── Anthropic's sessions ──

    def _sessions(
        self, method: str, rest: list[str], query: dict[str, list[str]], body: dict[str, Any]
    ) -> tuple[str, int, Any]:
        now = time.monotonic()
        if not rest and method == "POST":
            agent = self._make("anthropic", body)
            return "prepare", 200, self._session(agent)
        if not rest:
            archived = query.get("include_archived") == ["true"]
            shown = [a for a in self._shown_in_lists() if a.kind == "anthropic" and (archived or not a.archived)]
            return "list", 200, {"data": [self._session(a) for a in shown]}
        found = self.agents.get(rest[0])
        if found is None or (method == "GET" and now < found.at + self.hidden):
            return "poll", 404, _error("not found")
        if rest[1:] == ["archive"]:
            found.archived = True
            return "archive", 200, self._session(found)
        if rest[1:] == ["events"] and method == "POST":
            if found.archived:
                return "launch", 400, _error("the session is archived")
            kinds = {event["type"] for event in body["events"]}
            if "user.interrupt" in kinds:
                self._cancel(found)
                return "cancel", 200, {"data": []}
            found.messages += 1
            found.body["events"] = body["events"]
            return "launch", 200, {"data": []}
        if rest[1:] == ["events"]:
            return "events", 200, {"data": self._events(found)}
        found.polls += 1
        return "poll", 200, self.shown(self._session(found))

    def _session(self, agent: Agent) -> dict[str, Any]:
        status = agent.look() if agent.messages else "idle"
        word = {RUNNING: "running", ODD: "pondering", "idle": "idle"}.get(status, "idle")
        output_tokens = agent.polls if agent.work.tokens else 0
        return {
            "id": agent.id, "type": "session", "status": word, "metadata": agent.body.get("metadata", {}),
            "archived_at": "2026-11-17T00:00:00Z" if agent.archived else None,
            "agent": {"id": agent.body.get("agent"), "model": {"id": "claude-opus-5-5"}},
            "usage": {"input_tokens": agent.polls * agent.work.tokens - output_tokens, "output_tokens": output_tokens,
                      "list_cost": {"amount": f"{agent.polls * agent.work.usd * 100:.6f}", "currency": "USD"}},
        }  # fmt: skip

    def _events(self, agent: Agent) -> list[dict[str, Any]]:
        status = agent.look()
        found: list[dict[str, Any]] = [{"type": "session.status_idle", "stop_reason": {"type": "end_turn"}}]
        if not agent.messages:
            return found
        found.append({"type": "user.message"})
        found += [{"type": "agent.thinking"}] * (agent.polls if agent.work.steps else 1)
        if agent.cancels:
            found.append({"type": "user.interrupt"})
        if status in (DONE, FAILED):
            found.append({"type": "agent.message", "content": [{"type": "text", "text": agent.work.answer}]})
        if status == FAILED:
            found.append({"type": "session.error", "error": {"message": "the model gave up"}})
        if status == WAITING:
            found.append({"type": "agent.custom_tool_use", "id": "e1", "name": "deploy", "input": {"to": "production"}})
        reasons = {
            DONE: "end_turn",
            FAILED: "retries_exhausted",
            SPENT: "budget_reached",
            CANCELLED: "end_turn",
            WAITING: "requires_action",
        }
        if status in reasons:
            found.append({"type": "session.status_idle", "stop_reason": {"type": reasons[status], "event_ids": ["e1"]}})
        return found


def _error(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "error", "code": 400, "message": message}}


class _Handler(BaseHTTPRequestHandler):
    owner: ManagedVendor
    protocol_version = "HTTP/1.1"

    def _do(self) -> None:
        vendor, where = self.owner, urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        vendor.requests.append((self.command, self.path, {n.lower(): t for n, t in self.headers.items()}, body))
        raw = vendor.raw(_verb(self.command, where.path, body))
        if raw is not None:
            return self._send_raw(raw)
        before = vendor.fault(_verb(self.command, where.path, body), where.path)
        if before in (REFUSED, OVERLOADED):
            return self._reply(_verb(self.command, where.path, body), 429 if before == REFUSED else 503, _error(before))
        if before == DROPPED:
            return self._cut()
        verb, status, reply = vendor.answer(self.command, where.path, parse_qs(where.query), body)
        if before == LOST:
            vendor.seen.append((verb, self.path, 0))
            return self._cut()
        if before == SLOW:
            time.sleep(_SLOW_BY)
        return self._reply(verb, status, reply)

    do_GET = do_POST = _do

    def _reply(self, verb: str, status: int, reply: Any) -> None:
        self.owner.seen.append((verb, self.path, status))
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.send_response(status)
        if status in (429, 503) and self.owner.retry_after:
            self.send_header("Retry-After", self.owner.retry_after)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            pass  # the client was ended meanwhile

    def _send_raw(self, parts: Iterable[bytes]) -> None:
        self.close_connection = True
        try:
            for part in parts:
                self.wfile.write(part)
                self.wfile.flush()
        except OSError:
            pass  # the client had enough

    def _cut(self) -> None:
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def _verb(method: str, path: str, body: dict[str, Any]) -> str:
    """What a request is, before it is answered."""
    parts = path.strip("/").split("/")
    parts = parts[1:] if parts[0] == "plain" else parts[2:]
    if path.startswith("/v1/sessions"):
        if not parts:
            return "prepare" if method == "POST" else "list"
        if parts[1:] == ["events"] and method == "POST":
            return "cancel" if body["events"][0]["type"] == "user.interrupt" else "launch"
        return {"archive": "archive", "events": "events"}.get("".join(parts[1:]), "poll")
    if not parts:
        return "launch" if method == "POST" else "list"
    return {"find": "list"}.get(parts[0], "cancel" if parts[1:] == ["cancel"] else "poll")


__all__ = ["CANCELLED", "DONE", "DROPPED", "FAILED", "LOST", "ODD", "OVERLOADED", "REFUSED", "RUNNING", "SLOW", "SPENT", "WAITING",
           "Agent", "ManagedVendor", "Work", "replace"]  # fmt: skip
