"""OpenAI's background responses. They cannot be listed: a launch without a reply is in doubt."""

from __future__ import annotations

import os

from ..core.metering import price
from .fields import api_key, merged
from .http import VendorClient, quoted
from .seam import CANCELLED, FAILED, RUNNING, SUCCEEDED, Ask, Seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_STATUSES = {
    "queued": RUNNING,
    "in_progress": RUNNING,
    "completed": SUCCEEDED,
    "failed": FAILED,
    "incomplete": FAILED,
    "cancelled": CANCELLED,
}


class OpenAI:
    lag = 10.0  # an assumption: the vendor does not say
    vendor = "openai"
    budgets = ("output",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        base = os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        key = api_key("OPENAI_API_KEY", base="OPENAI_BASE_URL")
        self._client = VendorClient(base, {"Authorization": f"Bearer {key}"})

    def launch(self, ask: Ask, handle: str) -> str:
        body: dict[str, Any] = {
            "model": ask.agent, "input": ask.input, "background": True, "store": True, "metadata": dict(ask.labels),
        }  # fmt: skip
        if ask.tokens is not None:
            body["max_output_tokens"] = ask.tokens
        return self._client.launch_for_handle("/responses", merged(body, ask.fields))

    def poll(self, handle: str) -> Seen:
        found = self._client.get(f"/responses/{quoted(handle)}")
        state, usage, output = str(found.get("status")), found.get("usage") or {}, found.get("output") or []
        details = usage.get("input_tokens_details") or {}
        cached, written = int(details.get("cached_tokens") or 0), int(details.get("cache_write_tokens") or 0)
        return Seen(
            status=_STATUSES.get(state, RUNNING),
            reason=_reason(state, found),
            steps=len(output),
            counts={
                price.INPUT: int(usage.get("input_tokens") or 0) - cached - written,
                price.CACHE_READ: cached,
                price.CACHE_WRITE: written,
                price.OUTPUT: int(usage.get("output_tokens") or 0),
            },
            model=str(found.get("model") or ""),
            answer=_answer(output),
            page=f"https://platform.openai.com/logs/{quoted(handle)}",
        )

    def cancel(self, handle: str) -> None:
        self._client.post(f"/responses/{quoted(handle)}/cancel")


def _reason(state: str, found: dict[str, Any]) -> str:
    if state not in _STATUSES:
        return f"a state that is not known here: {state}"
    if state == "incomplete":
        return f"incomplete: {(found.get('incomplete_details') or {}).get('reason') or 'no reason given'}"
    return str((found.get("error") or {}).get("message") or state) if state == "failed" else ""


def _answer(output: list[dict[str, Any]]) -> str:
    messages = [item for item in output if item.get("type") == "message"]
    blocks = [block for item in messages for block in item.get("content") or ()]
    return "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "output_text")
