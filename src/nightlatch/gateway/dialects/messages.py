"""Anthropic's Messages."""

from __future__ import annotations

from typing import Any

from ...core.metering import price
from ...core.metering.call import LEAST
from ...core.value import replace
from ..body import Body
from ..requested import USES, ModelRequest, ReplyUsage, number, rows, table, whole, words
from . import Dialect

_KNOWN = words(
    "model messages max_tokens system metadata stop_sequences stream temperature top_k top_p thinking "
    "tools tool_choice service_tier speed cache_control output_config inference_geo fallbacks betas "
    "diagnostics context_management user_profile_id workspace_id fallback_credit_token"
)
_MEDIA = ("image", "document", "file", "file_id", "container_upload")
_CACHED = ("cache_control", "ephemeral")  # names that show caching in a request
_MEDIA_OR_CACHED = frozenset((*_MEDIA, *_CACHED))  # names that show media or caching in a request
_UNCACHED = (price.INPUT, price.CACHE_READ)  # kinds of input, if the request asks for no caching
_COUNTED = words("model messages system thinking tools tool_choice cache_control output_config mcp_servers")
_USAGE = (
    ("input_tokens", price.INPUT),
    ("cache_read_input_tokens", price.CACHE_READ),
    ("output_tokens", price.OUTPUT),
)
_CLIENT_TOOLS = ("custom", "bash_", "text_editor_", "computer_", "memory_")  # tools that the client runs
_REQUEST = ModelRequest(models=())
_STANDARD = ("", "auto", "standard", "standard_only")  # tiers at the usual price


class Messages(Dialect):
    vendor = "anthropic"

    def read(self, body: Body, path: str) -> ModelRequest:
        fields, plain = body.fields, body.names.isdisjoint(_MEDIA_OR_CACHED)
        thinking = number(table(fields["thinking"]).get("budget_tokens")) if "thinking" in fields else 0
        server = self._server_tools(fields) if "tools" in fields else {}
        uncounted = "" if plain or not body.mentions(*_MEDIA) else "media"
        if not _KNOWN.issuperset(fields):
            uncounted = ", ".join(sorted(fields.keys() - _KNOWN))
        speed, tier = str(fields.get("speed") or ""), str(fields.get("service_tier") or "")
        requested = replace(
            _REQUEST,
            models=(str(fields.get("model") or ""), *self._fallbacks(fields)),
            tier=speed if speed not in _STANDARD else "" if tier in _STANDARD else tier,
            stream=fields.get("stream") is True,
            inputs=_UNCACHED if plain else self._inputs(body),
            output=whole(fields, "max_tokens"),
            lowest=LEAST + thinking,
            uncounted=uncounted,
        )
        if not server:
            return requested
        tools = tuple([price.WEB_SEARCH if "search" in tool else price.CALL for tool in server])
        return replace(requested, tools=tools, uses=sum(server.values()))

    def _inputs(self, body: Body) -> tuple[str, ...]:
        """The kinds that its input may be charged as. Caches are written only if the request asks for it."""
        cached = body.mentions(*_CACHED)
        hour = cached and body.mentions("1h")
        return (*_UNCACHED, *[price.CACHE_WRITE] * cached, *[price.CACHE_WRITE_1H] * hour)

    def _fallbacks(self, fields: dict[str, Any]) -> list[str]:
        found = fields.get("fallbacks")
        if not found:
            return []
        named = found if isinstance(found, list) else []
        return [str(table(one).get("model") or one) for one in named]

    def _server_tools(self, fields: dict[str, Any]) -> dict[str, int]:
        """The tools that the vendor runs → how often each may be used."""
        found = {}
        for index, tool in enumerate(rows(fields.get("tools"))):
            kind = str(tool.get("type") or "custom")
            if not kind.startswith(_CLIENT_TOOLS):
                found[f"{kind}#{index}"] = whole(tool, "max_uses") or USES
        return found

    def limit(self, body: Body, output: int) -> None:
        body.set("max_tokens", output)

    def allow_uses(self, body: Body, uses: int) -> None:
        """Share the uses out among the vendor's tools; a tool that gets none is left out."""
        tools, kept = rows(body.fields.get("tools")), []
        left = uses
        for tool in tools:
            if str(tool.get("type") or "custom").startswith(_CLIENT_TOOLS):
                kept.append(tool)
            elif left:
                part = min(number(tool.get("max_uses")) or USES, left)
                left -= part
                kept.append({**tool, "max_uses": part} if "search" in tool["type"] or "fetch" in tool["type"] else tool)
        if kept != tools:
            body.set("tools", kept)

    def counting(self, body: Body, path: str) -> tuple[str, dict[str, Any]] | None:
        return "v1/messages/count_tokens", {name: body.fields[name] for name in sorted(_COUNTED) if name in body.fields}

    def read_usage(self, data: dict[str, Any], into: ReplyUsage) -> None:
        kind = data.get("type")
        if kind == "message_start":
            self._message(table(data.get("message")), into)
            into.input_known = into.counts is not None
        elif kind == "message":
            self._message(data, into)
            into.ended = into.counts is not None
        elif kind == "message_delta" and isinstance(data.get("usage"), dict):
            self._usage(data["usage"], into)
            into.ended = True

    def _message(self, message: dict[str, Any], into: ReplyUsage) -> None:
        into.model = str(message.get("model") or "")
        if isinstance(message.get("usage"), dict):
            self._usage(message["usage"], into)

    def _usage(self, usage: dict[str, Any], into: ReplyUsage) -> None:
        """The figures are of the whole message so far, so they replace earlier ones."""
        counts = _counts(usage)
        into.counts = counts if into.counts is None else {**into.counts, **counts}
        tier = str(usage.get("speed") or "")
        tier = tier if tier not in _STANDARD else str(usage.get("service_tier") or "")
        if tier not in _STANDARD:
            into.tier = tier
        # Compaction and the work of other models are reported only here; the figures above are the message's own.
        into.more = [
            (str(one.get("model") or ""), _counts(one))
            for one in rows(usage.get("iterations"))
            if one.get("type") not in (None, "message")
        ] if "iterations" in usage else []  # fmt: skip

    def refusal(self, message: str) -> tuple[int, dict[str, Any]]:
        return 402, {"type": "error", "error": {"type": "billing_error", "message": message}}

    def is_error(self, reply: dict[str, Any]) -> bool:
        return reply.get("type") == "error" and isinstance(reply.get("error"), dict)


def _counts(usage: dict[str, Any]) -> dict[str, int]:
    found = {kind: number(count) for name, kind in _USAGE if (count := usage.get(name)) is not None}
    if (count := usage.get("cache_creation_input_tokens")) is not None:
        written = number(count)
        hour = min(written, number(table(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")))
        found[price.CACHE_WRITE], found[price.CACHE_WRITE_1H] = written - hour, hour
    if searches := number(table(usage.get("server_tool_use")).get("web_search_requests")):
        found[price.WEB_SEARCH] = searches
    return found
