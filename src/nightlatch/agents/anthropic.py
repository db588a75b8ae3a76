"""Claude sessions. A session without a message does nothing: `prepare` makes one, and `launch` sends the message."""

from __future__ import annotations

import os

from ..core.metering import price
from .fields import api_key, first_set, without
from .files import save
from .http import HttpError, VendorClient, quoted
from .seam import CANCELLED, FAILED, OVER_BUDGET, RUNNING, SUCCEEDED, WAITING, Ask, Seen, Unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

_STOPPED = {  # why a session went idle
    "end_turn": SUCCEEDED,
    "requires_action": WAITING,
    "retries_exhausted": FAILED,
    "budget_reached": OVER_BUDGET,
    "refusal": FAILED,
}
_TOOL_USES = ("agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use")
_STEPS = (*_TOOL_USES, "agent.message", "agent.thinking")
_PAGE_SIZE, _MAX_PAGES = 100, 1000


class Anthropic:
    lag = 5.0  # an assumption: the vendor does not say
    vendor = "anthropic"
    budgets = ("usd",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        token = os.environ.get("ANTHROPIC_AUTH_TOKEN") or api_key("ANTHROPIC_API_KEY", base="ANTHROPIC_BASE_URL")
        headers = {"Authorization": f"Bearer {token}"}
        self._client = VendorClient(
            os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com",
            headers | {"anthropic-version": "2026-10-21", "anthropic-beta": "managed-agents-2026-04-01"},
        )
        self._environment = first_set(fields, "environment_id", "environment")

    def prepare(self, ask: Ask) -> str:
        """Make a session for this launch; returns its id. A session that an earlier attempt prepared is archived first:
        if that attempt is only paused, its message must find a closed session."""
        for session in self._sessions(ask):
            if not session.get("archived_at") and not self._has_message(session["id"]):
                self._client.post(f"/v1/sessions/{quoted(session['id'])}/archive")
        body: dict[str, Any] = {"agent": ask.agent, "metadata": dict(ask.labels)}
        body |= without(ask.fields, "environment", "environment_id")
        if self._environment:
            body["environment_id"] = self._environment
        if ask.usd is not None and "budget" not in body:
            cents = f"{ask.usd * 100:.4f}".rstrip("0").rstrip(".")
            body["budget"] = {"type": "limit", "max_list_cost": {"amount": cents, "currency": "USD"}}
        return self._client.launch_for_handle("/v1/sessions", body)

    def launch(self, ask: Ask, handle: str) -> str:
        message = {"type": "user.message", "content": [{"type": "text", "text": ask.input}]}
        self._client.launch(f"/v1/sessions/{quoted(handle)}/events", {"events": [message]})
        return handle

    def find(self, ask: Ask, handle: str) -> str | None:
        candidates = [handle] if handle else []
        candidates += [session["id"] for session in self._sessions(ask) if session["id"] != handle]
        return next((session for session in candidates if self._has_message(session)), None)

    def poll(self, handle: str) -> Seen:
        session = self._client.get(f"/v1/sessions/{quoted(handle)}")
        events = list(self._events(handle))
        status, reason, waits_for = _judge(session, events)
        usage = session.get("usage") or {}
        cost = usage.get("list_cost") or {}
        cache_writes = usage.get("cache_creation") or {}
        return Seen(
            status=status,
            reason=reason,
            waits_for=waits_for,
            steps=sum(event.get("type") in _STEPS for event in events),
            usd=float(cost["amount"]) / 100 if cost.get("amount") is not None else None,
            counts={
                price.INPUT: usage.get("input_tokens") or 0,
                price.CACHE_READ: usage.get("cache_read_input_tokens") or 0,
                price.CACHE_WRITE: cache_writes.get("ephemeral_5m_input_tokens") or 0,
                price.CACHE_WRITE_1H: cache_writes.get("ephemeral_1h_input_tokens") or 0,
                price.OUTPUT: usage.get("output_tokens") or 0,
            },
            model=_model(session),
            answer=_answer(events),
            page=f"https://platform.claude.com/workspaces/default/sessions/{quoted(handle)}",
        )

    def cancel(self, handle: str) -> None:
        self._client.post(f"/v1/sessions/{quoted(handle)}/events", {"events": [{"type": "user.interrupt"}]})

    def fetch(self, handle: str, folder: Path) -> None:
        """Save every file of the session in `folder`."""
        used_names = set()
        for file in self._paged("/v1/files", {"scope_id": handle, "limit": str(_PAGE_SIZE)}):
            name, file_id = str(file.get("filename") or ""), str(file["id"])
            name = f"{file_id}-{name}" if name in used_names else name
            used_names.add(name)
            save(folder, name, file_id, self._client.content(f"/v1/files/{quoted(file_id)}/content"))

    def every(self, since: str) -> Iterator[tuple[str, Mapping[str, str], str]]:
        """(handle, labels, status) of all sessions."""
        for session in self._listed(since):
            yield session["id"], session.get("metadata") or {}, session["status"]

    def _sessions(self, ask: Ask) -> Iterator[dict[str, Any]]:
        """The sessions of this launch; archived ones too: one may have got the message before it was archived."""
        for session in self._listed(ask.since, include_archived="true"):
            labels = session.get("metadata") or {}
            if all(labels.get(name) == text for name, text in ask.labels.items() if name.endswith("launch")):
                yield session

    def _listed(self, since: str, **more: str) -> Iterator[dict[str, Any]]:
        query = {"created_at[gte]": since, "limit": str(_PAGE_SIZE), **more}
        yield from self._paged("/v1/sessions", query)

    def _events(self, handle: str) -> Iterator[dict[str, Any]]:
        yield from self._paged(f"/v1/sessions/{quoted(handle)}/events", {"limit": str(_PAGE_SIZE), "order": "asc"})

    def _paged(self, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        for _ in range(_MAX_PAGES):
            reply = self._client.get(path, query)
            yield from reply.get("data", ())
            following = reply.get("next_page")
            if not following:
                return
            query = {**query, "page": str(following)}
        raise Unclear(f"the list of {path} has no end")

    def _has_message(self, handle: str) -> bool:
        try:
            return any(event.get("type") == "user.message" for event in self._events(handle))
        except HttpError as error:
            if error.status == 404:
                raise Unclear(f"the session {handle} does not show yet") from None
            raise


def _judge(session: dict[str, Any], events: list[dict[str, Any]]) -> tuple[str, str, str]:
    """(status, reason, what it waits for)"""
    state = str(session.get("status"))
    if state in ("running", "rescheduling"):
        return RUNNING, "", ""
    interrupted = _last(events, "user.interrupt") > max(_last(events, "user.message"), -1)
    if state == "terminated":
        return (CANCELLED if interrupted else FAILED), "" if interrupted else _error_message(events), ""
    if state != "idle":
        return RUNNING, f"a state that is not known here: {state}", ""
    idle_at = _last(events, "session.status_idle")
    if idle_at < _last(events, "user.message"):
        return RUNNING, "", ""  # it has not started on the message
    if interrupted:
        return (CANCELLED, "", "") if idle_at > _last(events, "user.interrupt") else (RUNNING, "", "")
    why = str((events[idle_at].get("stop_reason") or {}).get("type"))
    status = _STOPPED.get(why)
    if status is None:
        return RUNNING, f"idle, for a reason that is not known here: {why}", ""
    if status == WAITING:
        return WAITING, "", _waits_for(events, events[idle_at]["stop_reason"].get("event_ids") or ())
    return status, "" if status == SUCCEEDED else _error_message(events) or why, ""


def _last(events: list[dict[str, Any]], kind: str) -> int:
    return max((at for at, event in enumerate(events) if event.get("type") == kind), default=-1)


def _error_message(events: list[dict[str, Any]]) -> str:
    at = _last(events, "session.error")
    return str((events[at].get("error") or {}).get("message") or "") if at >= 0 else ""


def _waits_for(events: list[dict[str, Any]], blocked: Any) -> str:
    found = [event for event in events if event.get("id") in blocked and event.get("type") in _TOOL_USES]
    return ", ".join(f"{event.get('name', 'a tool')} {event.get('input', '')}" for event in found) or "a decision"


def _model(session: dict[str, Any]) -> str:
    model = (session.get("agent") or {}).get("model") if isinstance(session.get("agent"), dict) else ""
    return str(model.get("id") or "") if isinstance(model, dict) else str(model or "")


def _answer(events: list[dict[str, Any]]) -> str:
    at = _last(events, "agent.message")
    blocks = events[at].get("content") or () if at >= 0 else ()
    return "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
