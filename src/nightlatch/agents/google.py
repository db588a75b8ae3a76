"""Google's interactions, of agents such as Antigravity. They cannot be listed: a launch without a reply is in doubt."""

from __future__ import annotations

import os

from ..core.metering import price
from .fields import api_key, merged
from .files import save
from .http import VendorClient, quoted
from .seam import CANCELLED, FAILED, OVER_BUDGET, RUNNING, SUCCEEDED, WAITING, Ask, NotLaunched, Seen, Unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

_STATUSES = {
    "queued": RUNNING,
    "in_progress": RUNNING,
    "requires_action": WAITING,
    "requires_continuation": FAILED,
    "completed": SUCCEEDED,
    "failed": FAILED,
    "incomplete": FAILED,
    "cancelled": CANCELLED,
    "budget_exceeded": OVER_BUDGET,
}


_CAPPED = "antigravity"
_MOST_PAGES = 1000
_UNCAPPED = ("deep-research", "code-mender")  # Google enforces no cap on these: we poll their usage and cancel


class Google:
    lag = 60.0  # seconds, an assumption: the vendor was seen to answer 404 for a while after a launch
    vendor = "google"
    budgets = ("tokens",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        key = api_key("GEMINI_API_KEY", "GOOGLE_API_KEY", base="GOOGLE_GEMINI_BASE_URL")
        base = os.environ.get("GOOGLE_GEMINI_BASE_URL") or "https://generativelanguage.googleapis.com"
        self._client = VendorClient(base, {"x-goog-api-key": key})

    def launch(self, ask: Ask, handle: str) -> str:
        body: dict[str, Any] = {
            "agent": ask.agent, "input": ask.input, "background": True, "store": True, "labels": dict(ask.labels),
        }  # fmt: skip
        if ask.tokens is not None and _kind(ask) == _CAPPED:
            # In this vendor's JSON a 64-bit number is a string.
            body["agent_config"] = {"type": _CAPPED, "max_total_tokens": str(ask.tokens)}
        return self._client.launched("/v1/interactions", merged(body, ask.fields))

    def poll(self, handle: str) -> Seen:
        found = self._client.get(f"/v1/interactions/{quoted(handle)}", {"stream": "false"})
        word, usage, steps = str(found.get("status")), found.get("usage") or {}, found.get("steps") or []
        status = _STATUSES.get(word, RUNNING)
        cached, tools = (int(usage.get(f"total_{kind}_tokens") or 0) for kind in ("cached", "tool_use"))
        return Seen(
            status=status,
            reason=_reason(word, found),
            waits_for=_wanted(steps) if status == WAITING else "",
            steps=len(steps),
            counts={
                price.INPUT: int(usage.get("total_input_tokens") or 0) + tools - cached,
                price.CACHE_READ: cached,
                price.OUTPUT: int(usage.get("total_output_tokens") or 0) + int(usage.get("total_thought_tokens") or 0),
            },
            model=str(found.get("model") or ""),
            answer=_answer(steps),
        )

    def cancel(self, handle: str) -> None:
        self._client.post(f"/v1/interactions/{quoted(handle)}/cancel")

    def fetch(self, handle: str, folder: Path) -> None:
        """Every file of its environment, if it has one."""
        environment = self._client.get(f"/v1/interactions/{quoted(handle)}", {"stream": "false"}).get("environment_id")
        if not environment:
            return
        place, query = f"/v1/environments/{quoted(str(environment))}/files/", {"recursive": "true"}
        for _ in range(_MOST_PAGES):
            reply = self._client.get(place, query)
            for file in reply.get("files") or ():
                if file.get("type") == "file":
                    path = "/".join(map(quoted, str(file["path"]).strip("/").split("/")))
                    save(folder, str(file["path"]), path, self._client.content(f"{place}{path}?alt=media"))
            following = reply.get("next_page_token")
            if not following:
                return
            query["page_token"] = str(following)
        raise Unclear("the list of its files has no end")


def _kind(ask: Ask) -> str:
    """The type of the agent's configuration. Only one type has a cap: under a budget, an agent of unknown type is not
    launched."""
    given = ask.fields.get("agent_config")
    if isinstance(given, dict) and given.get("type"):
        return str(given["type"])
    for kind in (_CAPPED, *_UNCAPPED):
        if ask.agent.startswith(kind):
            return kind
    raise NotLaunched(
        f"nothing was launched: we do not know whether Google can enforce a budget for the agent {ask.agent}. Name its "
        f"type: --set agent_config.type={_CAPPED} (Google enforces it), or another type, such as dynamic (Nightlatch "
        f"polls its usage, and cancels it when it is over budget)"
    )


def _reason(word: str, found: dict[str, Any]) -> str:
    if word not in _STATUSES:
        return f"a state that is not known here: {word}"
    if _STATUSES[word] != FAILED:
        return ""
    errors = [str(error.get("message") or error.get("code") or "") for error in found.get("errors") or ()]
    return "; ".join(filter(None, errors)) or word


def _answer(steps: list[dict[str, Any]]) -> str:
    """The text of the last output."""
    made = [step for step in steps if step.get("type") == "model_output"]
    blocks = made[-1].get("content") or () if made else ()
    return "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")


def _wanted(steps: list[dict[str, Any]]) -> str:
    answered = {step.get("call_id") for step in steps}
    open_calls = [step for step in steps if step.get("type") == "function_call" and step.get("id") not in answered]
    return ", ".join(f"{step.get('name')} {step.get('arguments', '')}" for step in open_calls) or "a decision"
