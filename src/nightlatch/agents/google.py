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
_CAPPED_TYPE = "antigravity"  # the only type of agent on which Google enforces a cap
_MAX_PAGES = 1000
_UNCAPPED_TYPES = ("deep-research", "code-mender")  # Nightlatch polls the usage of these, and cancels them


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
        if ask.tokens is not None and _kind(ask) == _CAPPED_TYPE:
            # In this vendor's JSON a 64-bit number is a string.
            body["agent_config"] = {"type": _CAPPED_TYPE, "max_total_tokens": str(ask.tokens)}
        return self._client.launch_for_handle("/v1/interactions", merged(body, ask.fields))

    def poll(self, handle: str) -> Seen:
        found = self._client.get(f"/v1/interactions/{quoted(handle)}", {"stream": "false"})
        state, usage, steps = str(found.get("status")), found.get("usage") or {}, found.get("steps") or []
        status = _STATUSES.get(state, RUNNING)
        cached, tools = (int(usage.get(f"total_{kind}_tokens") or 0) for kind in ("cached", "tool_use"))
        return Seen(
            status=status,
            reason=_reason(state, found),
            waits_for=_waits_for(steps) if status == WAITING else "",
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
        """Save every file of the agent's environment, if it has one, in `folder`."""
        environment = self._client.get(f"/v1/interactions/{quoted(handle)}", {"stream": "false"}).get("environment_id")
        if not environment:
            return
        files_path, query = f"/v1/environments/{quoted(str(environment))}/files/", {"recursive": "true"}
        for _ in range(_MAX_PAGES):
            reply = self._client.get(files_path, query)
            for file in reply.get("files") or ():
                if file.get("type") == "file":
                    path = "/".join(map(quoted, str(file["path"]).strip("/").split("/")))
                    save(folder, str(file["path"]), path, self._client.content(f"{files_path}{path}?alt=media"))
            following = reply.get("next_page_token")
            if not following:
                return
            query["page_token"] = str(following)
        raise Unclear("the list of its files has no end")


def _kind(ask: Ask) -> str:
    """The agent's type. Under a budget, an agent of unknown type is not launched: Google may enforce no cap on it."""
    config = ask.fields.get("agent_config")
    if isinstance(config, dict) and config.get("type"):
        return str(config["type"])
    for kind in (_CAPPED_TYPE, *_UNCAPPED_TYPES):
        if ask.agent.startswith(kind):
            return kind
    raise NotLaunched(
        f"nothing was launched: we do not know whether Google can enforce a budget for the agent {ask.agent}. Name its "
        f"type: --set agent_config.type={_CAPPED_TYPE} (Google enforces it), or another type, such as dynamic "
        f"(Nightlatch polls its usage, and cancels it when it is over budget)"
    )


def _reason(state: str, found: dict[str, Any]) -> str:
    if state not in _STATUSES:
        return f"a state that is not known here: {state}"
    if _STATUSES[state] != FAILED:
        return ""
    errors = [str(error.get("message") or error.get("code") or "") for error in found.get("errors") or ()]
    return "; ".join(filter(None, errors)) or state


def _answer(steps: list[dict[str, Any]]) -> str:
    """The text of the last output."""
    outputs = [step for step in steps if step.get("type") == "model_output"]
    blocks = outputs[-1].get("content") or () if outputs else ()
    return "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")


def _waits_for(steps: list[dict[str, Any]]) -> str:
    answered = {step.get("call_id") for step in steps}
    open_calls = [step for step in steps if step.get("type") == "function_call" and step.get("id") not in answered]
    return ", ".join(f"{step.get('name')} {step.get('arguments', '')}" for step in open_calls) or "a decision"
