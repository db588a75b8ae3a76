"""OpenAI's Responses, Chat Completions and embeddings."""

from __future__ import annotations

from typing import Any

from ...core.metering import price
from ..body import Body
from ..requested import ANSWERS, USES, ModelRequest, ReplyUsage, number, rows, table, whole, words
from . import Dialect

_STANDARD = ("", "default", "standard")  # tiers at the usual price
_FEES = {"web_search": price.WEB_SEARCH, "file_search": price.FILE_SEARCH}
# Tools whose price nobody knows before they are used.
_UNPRICED = ("image_generation", "code_interpreter", "mcp", "shell")
_CLIENT_TOOLS = ("function", "custom", "local_shell", "shell", "apply_patch", "namespace", "tool_search")


class _OpenAI(Dialect):
    vendor = "openai"

    def allow_uses(self, body: Body, uses: int) -> None:
        body.set("max_tool_calls", uses)

    def refusal(self, message: str) -> tuple[int, dict[str, Any]]:
        kind = "insufficient_quota"  # at this code every client stops
        return 400, {"error": {"message": message, "type": kind, "code": kind, "param": None}}


def _fee(tool: str) -> str:
    return next((fee for name, fee in _FEES.items() if tool.startswith(name)), price.CALL)


def _searches(fields: dict[str, Any]) -> bool:
    """Is this one of the models that search the web for every answer, such as gpt-4o-search-preview?"""
    return "-search-" in str(fields.get("model") or "")


def _compacts(edit: dict[str, Any]) -> bool:
    """Does this edit of the context have a model read all of it once more?"""
    return str(edit.get("type") or "").startswith("compact")


def _is_clients(tool: dict[str, Any]) -> bool:
    """Does the client run this tool? A shell may also run at the vendor, in its container."""
    environment = table(tool.get("environment")).get("type")
    return str(tool.get("type") or "").startswith(_CLIENT_TOOLS) and environment in (None, "local")


def _tier(fields: dict[str, Any]) -> str:
    tier = str(fields.get("service_tier") or "")
    return "" if tier in _STANDARD else tier


def _split(usage: dict[str, Any], input_: str, output_: str, input_details: str, output_details: str) -> dict[str, int]:
    """Tokens by kind, from these fields. Cached and written ones are parts of the input; both sides may have audio."""
    parts, audio_output = table(usage.get(input_details)), number(table(usage.get(output_details)).get("audio_tokens"))
    total, output = number(usage.get(input_)), number(usage.get(output_))
    cached = min(number(parts.get("cached_tokens")), total)
    written = min(number(parts.get("cache_write_tokens")), total - cached)
    audio = min(number(parts.get("audio_tokens")), total - cached - written)
    found = {price.INPUT: total - cached - written - audio, price.OUTPUT: output - min(audio_output, output)}
    more = {
        price.CACHE_READ: cached,
        price.CACHE_WRITE: written,
        price.INPUT_AUDIO: audio,
        price.OUTPUT_AUDIO: min(audio_output, output),
    }
    return found | {kind: count for kind, count in more.items() if count}


class Responses(_OpenAI):
    """Responses, and their compaction (`compact`), whose reply has the same form and whose output cannot be limited."""

    _known = words(
        "model input instructions max_output_tokens max_tool_calls metadata parallel_tool_calls "
        "previous_response_id prompt_cache_key prompt_cache_options prompt_cache_retention reasoning "
        "safety_identifier service_tier store stream stream_options temperature text tool_choice tools "
        "top_logprobs top_p truncation user include conversation context_management moderation "
        "client_metadata background access_programs"
    )
    _counted = words(
        "model input instructions tools tool_choice text reasoning previous_response_id conversation truncation"
    )

    def __init__(self, *, compact: bool = False) -> None:
        self._compact = compact

    def read(self, body: Body, path: str) -> ModelRequest:
        fields = body.fields
        server = [str(tool.get("type") or "") for tool in rows(fields.get("tools")) if not _is_clients(tool)]
        conversation = fields.get("conversation")
        unknown = sorted(fields.keys() - self._known)
        media = body.mentions("input_image", "input_file", "file_id", "image_url", "input_audio", "item_reference")
        return ModelRequest(
            models=(str(fields.get("model") or ""),),
            tier=_tier(fields),
            stream=fields.get("stream") is True,
            output=whole(fields, "max_output_tokens") or None,
            tools=tuple(map(_fee, server)),
            uses=(whole(fields, "max_tool_calls", most=ANSWERS) or USES) if server else 0,
            passes=2 if any(map(_compacts, rows(fields.get("context_management")))) else 1,
            uncounted=", ".join(unknown) or ("media" if media else ""),
            after=str(fields.get("previous_response_id") or table(conversation).get("id") or conversation or ""),
            refused=self._refused(fields, server),
        )

    def _refused(self, fields: dict[str, Any], server: list[str]) -> str:
        if fields.get("background"):
            return "background responses are charged after their reply; leave out `background`"
        if fields.get("prompt"):
            return "a stored prompt may bring tools and input that nobody sees here; put its text into `instructions`"
        unpriced = [kind for kind in server if kind.startswith(_UNPRICED)]
        return f"nobody knows the price of the tool {unpriced[0]} before it is used" if unpriced else ""

    def limit(self, body: Body, output: int) -> None:
        if not self._compact:
            body.set("max_output_tokens", output)

    def counting(self, body: Body, path: str) -> tuple[str, dict[str, Any]] | None:
        if body.fields.keys() - self._known - self._counted:
            return None  # what is not counted may bring input
        return "responses/input_tokens", {
            name: body.fields[name] for name in sorted(self._counted) if name in body.fields
        }

    def read_usage(self, data: dict[str, Any], into: ReplyUsage) -> None:
        response = table(data.get("response")) if str(data.get("type") or "").startswith("response.") else data
        into.model = str(response.get("model") or into.model)
        into.id = str(response.get("id") or into.id)
        usage = response.get("usage")
        if not isinstance(usage, dict):
            return
        into.tier = _tier(response)
        into.counts = _split(usage, "input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details")
        for tool, used in table(response.get("tool_usage")).items():
            if tool in _FEES and (uses := number(table(used).get("num_requests")) or number(used)):
                into.counts[_FEES[tool]] = uses
        into.ended = True


class Chat(_OpenAI):
    _known = words(
        "model messages frequency_penalty function_call functions logit_bias logprobs max_completion_tokens "
        "max_tokens metadata n parallel_tool_calls prediction presence_penalty prompt_cache_key "
        "prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed "
        "service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user "
        "verbosity web_search_options modalities audio moderation"
    )

    def read(self, body: Body, path: str) -> ModelRequest:
        fields = body.fields
        limit = whole(fields, "max_completion_tokens", "max_tokens")
        media = body.mentions("image_url", "input_audio", "file", "file_id", "audio")
        searches = "web_search_options" in fields or _searches(fields)
        kinds = (*price.INPUTS, price.OUTPUT)  # what was predicted and is not in the answer is charged as output
        return ModelRequest(
            models=(str(fields.get("model") or ""),),
            tier=_tier(fields),
            stream=fields.get("stream") is True,
            inputs=kinds if fields.get("prediction") else price.INPUTS,
            output=limit or None,
            times=whole(fields, "n", most=ANSWERS) or 1,
            tools=(price.WEB_SEARCH,) if searches else (),
            uses=USES if searches else 0,
            uncounted=", ".join(sorted(fields.keys() - self._known)) or ("media" if media else ""),
        )

    def allow_uses(self, body: Body, uses: int) -> None:
        """The searches of these requests cannot be limited."""

    def limit(self, body: Body, output: int) -> None:
        named = [name for name in ("max_tokens", "max_completion_tokens") if body.fields.get(name) is not None]
        for name in named or ("max_completion_tokens",):
            body.set(name, output)

    def prepare(self, body: Body, requested: ModelRequest) -> bool:
        options = table(body.fields.get("stream_options"))
        if not requested.stream or options.get("include_usage") is True:
            return False
        body.set("stream_options", {**options, "include_usage": True})
        return True

    def is_ours(self, data: dict[str, Any]) -> bool:
        """The last event, with nothing but usage: it breaks clients that did not ask for it."""
        return data.get("choices") == [] and isinstance(data.get("usage"), dict)

    def read_usage(self, data: dict[str, Any], into: ReplyUsage) -> None:
        into.model = str(data.get("model") or into.model)
        usage = data.get("usage")
        if isinstance(usage, dict):
            into.tier = _tier(data)
            into.counts = _split(
                usage, "prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"
            )
            if _searches(data):
                into.counts[price.WEB_SEARCH] = 1  # not reported, and made for every answer
            into.ended = True


class Embeddings(_OpenAI):
    _known = words("model input dimensions encoding_format user")

    def read(self, body: Body, path: str) -> ModelRequest:
        unknown = ", ".join(sorted(body.fields.keys() - self._known))
        return ModelRequest(models=(str(body.fields.get("model") or ""),), has_output=False, uncounted=unknown)

    def read_usage(self, data: dict[str, Any], into: ReplyUsage) -> None:
        into.model = str(data.get("model") or into.model)
        if isinstance(data.get("usage"), dict):
            into.counts, into.ended = {price.INPUT: number(data["usage"].get("prompt_tokens"))}, True
