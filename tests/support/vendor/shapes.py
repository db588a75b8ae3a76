"""Replies in the vendors' own shapes, whole and as events. Each is (reply, events) for what a call came to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .plan import Plan


@dataclass(frozen=True)
class Came:
    """What a call came to."""

    id: str
    model: str
    input: int  # all of it
    output: int  # all of it
    plan: Plan
    body: dict[str, Any]

    @property
    def fresh(self) -> int:
        """Input that was neither read from a cache nor written to one."""
        return self.input - self.plan.cache_read - self.plan.cache_write - self.plan.cache_write_1h


def sse(name: str, data: dict[str, Any]) -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"


# ── Anthropic ──


def messages(came: Came) -> tuple[dict[str, Any], list[bytes]]:
    plan = came.plan
    first = {
        "input_tokens": came.fresh,
        "cache_read_input_tokens": plan.cache_read,
        "cache_creation_input_tokens": plan.cache_write + plan.cache_write_1h,
        "cache_creation": {
            "ephemeral_5m_input_tokens": plan.cache_write,
            "ephemeral_1h_input_tokens": plan.cache_write_1h,
        },
        "service_tier": "standard",
    }
    usage = {**first, "output_tokens": came.output}
    if plan.searches:
        usage["server_tool_use"] = {"web_search_requests": plan.searches}
    stop = "tool_use" if plan.tool else "max_tokens" if came.output < plan.output else "end_turn"
    text: dict[str, Any] = {"type": "text", "text": plan.text * plan.chunks}
    if plan.tool:
        text = {"type": "tool_use", "id": f"toolu_{came.id}", **plan.tool}
    message = {
        "id": f"msg_{came.id}", "type": "message", "role": "assistant", "model": came.model, "content": [text],
        "stop_reason": stop, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    opening = {**message, "content": [], "stop_reason": None, "usage": {**first, "output_tokens": 1}}
    events = [sse("message_start", {"type": "message_start", "message": opening})]
    if plan.tool:
        block: dict[str, Any] = {**text, "input": {}}
        deltas: list[dict[str, Any]] = [
            {"type": "input_json_delta", "partial_json": json.dumps(plan.tool.get("input", {}))}
        ]
    else:
        block = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": plan.text}] * plan.chunks
    events.append(sse("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}))
    events += [
        sse("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}) for delta in deltas
    ]
    events.append(sse("content_block_stop", {"type": "content_block_stop", "index": 0}))
    closing = {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    events += [sse("message_delta", closing), sse("message_stop", {"type": "message_stop"})]
    return message, events


# ── OpenAI ──


def chat(came: Came) -> tuple[dict[str, Any], list[bytes]]:
    plan = came.plan
    usage = {
        "prompt_tokens": came.input,
        "completion_tokens": came.output,
        "total_tokens": came.input + came.output,
        "prompt_tokens_details": {"cached_tokens": plan.cache_read, "cache_write_tokens": plan.cache_write},
        "completion_tokens_details": {"reasoning_tokens": plan.reasoning},
    }
    common = {"id": f"chatcmpl-{came.id}", "created": 1_700_000_000, "model": came.model}
    choice = {"index": 0, "message": {"role": "assistant", "content": plan.text * plan.chunks}, "finish_reason": "stop"}
    reply = {**common, "object": "chat.completion", "choices": [choice], "usage": usage}
    chunk = {**common, "object": "chat.completion.chunk"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}] + [{"content": plan.text}] * plan.chunks
    events = [sse("", {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas]
    events.append(sse("", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    if (came.body.get("stream_options") or {}).get("include_usage"):
        events.append(sse("", {**chunk, "choices": [], "usage": usage}))
    return reply, [*events, b"data: [DONE]\n\n"]


def responses(came: Came) -> tuple[dict[str, Any], list[bytes]]:
    plan = came.plan
    usage = {
        "input_tokens": came.input,
        "input_tokens_details": {"cached_tokens": plan.cache_read, "cache_write_tokens": plan.cache_write},
        "output_tokens": came.output,
        "output_tokens_details": {"reasoning_tokens": plan.reasoning},
        "total_tokens": came.input + came.output,
    }
    text = {"type": "output_text", "text": plan.text * plan.chunks, "annotations": []}
    item = {"type": "message", "id": f"item_{came.id}", "role": "assistant", "status": "completed", "content": [text]}
    reply = {
        "id": f"resp_{came.id}", "object": "response", "created_at": 1_700_000_000, "status": "completed",
        "model": came.model, "output": [item], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": usage, "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
        "temperature": 1.0, "top_p": 1.0, "service_tier": plan.tier or "default",
    }  # fmt: skip
    if plan.searches:
        reply["tool_usage"] = {"web_search": {"num_requests": plan.searches}}
    opening = {**reply, "status": "in_progress", "output": [], "usage": None}
    at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    told: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": opening}),
        ("response.output_item.added", {"output_index": 0, "item": {**item, "status": "in_progress", "content": []}}),
        ("response.content_part.added", {**at, "part": {**text, "text": ""}}),
        *[("response.output_text.delta", {**at, "delta": plan.text, "logprobs": []})] * plan.chunks,
        ("response.output_text.done", {**at, "text": text["text"], "logprobs": []}),
        ("response.content_part.done", {**at, "part": text}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": reply}),
    ]
    return reply, [sse(kind, {"type": kind, "sequence_number": n, **data}) for n, (kind, data) in enumerate(told)]


def embeddings(came: Came) -> tuple[dict[str, Any], list[bytes]]:
    usage = {"prompt_tokens": came.input, "total_tokens": came.input}
    data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.5]}]
    return {"object": "list", "model": came.model, "data": data, "usage": usage}, []


# ── Google ──


def generate(came: Came) -> tuple[dict[str, Any], list[bytes]]:
    plan = came.plan
    usage = {
        "promptTokenCount": came.input,
        "candidatesTokenCount": came.output - plan.reasoning,
        "thoughtsTokenCount": plan.reasoning,
        "cachedContentTokenCount": plan.cache_read,
        "totalTokenCount": came.input + came.output,
    }

    def part(text: str, **more: object) -> dict[str, Any]:
        return {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **more}

    common = {"modelVersion": came.model, "responseId": came.id}
    whole = {**common, "candidates": [part(plan.text * plan.chunks, finishReason="STOP")], "usageMetadata": usage}
    so_far = {**usage, "candidatesTokenCount": 1}
    events = [sse("", {**common, "candidates": [part(plan.text)], "usageMetadata": so_far}) for _ in range(plan.chunks)]
    return whole, [*events, sse("", {**common, "candidates": [part("", finishReason="STOP")], "usageMetadata": usage})]


def interactions(came: Came) -> tuple[dict[str, Any], list[bytes]]:
    plan = came.plan
    usage = {
        "total_input_tokens": came.input,
        "total_output_tokens": came.output - plan.reasoning,
        "total_thought_tokens": plan.reasoning,
        "total_cached_tokens": plan.cache_read,
        "total_tokens": came.input + came.output,
    }
    step = {"type": "model_output", "content": [{"type": "text", "text": plan.text * plan.chunks}]}
    whole = {
        "id": f"interaction-{came.id}", "object": "interaction", "model": came.model, "status": "completed",
        "created": "2026-11-17T00:00:00Z", "updated": "2026-11-17T00:00:00Z", "steps": [step], "usage": usage,
    }  # fmt: skip
    opening = {**whole, "status": "in_progress", "steps": [], "usage": None}
    told: list[tuple[str, dict[str, Any]]] = [
        ("interaction.created", {"interaction": opening}),
        ("step.start", {"index": 0, "step": {"type": "model_output"}}),
        *[("step.delta", {"index": 0, "delta": {"type": "text", "text": plan.text}})] * plan.chunks,
        ("step.stop", {"index": 0}),
        ("interaction.completed", {"interaction": whole}),
    ]
    return whole, [sse(kind, {"event_type": kind, "event_id": str(n), **data}) for n, (kind, data) in enumerate(told)]
