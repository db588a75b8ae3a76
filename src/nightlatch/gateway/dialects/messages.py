"""Anthropic's Messages."""

from __future__ import annotations

from typing import Any

from ...core.metering import price
from ...core.metering.call import LEAST
from ...core.value import replace
from ..body import Body
from ..requested import ANSWERS, USES, ModelRequest, ReplyUsage, number, rows, table, whole, words
from . import Dialect

_KNOWN = words(
    "model messages max_tokens system metadata stop_sequences stream temperature top_k top_p thinking "
    "tools tool_choice service_tier speed cache_control output_config inference_geo fallbacks betas "
    "diagnostics context_management user_profile_id workspace_id fallback_credit_token compaction container "
    "mcp_servers"
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
_ANSWERS = (None, "message", "fallback_message")  # kinds of iterations that wrote the message
_ADVISOR = "advisor"  # a tool by which another model reads the whole conversation, and answers
_REQUEST = ModelRequest(models=())
_STANDARD = ("", "auto", "standard", "standard_only")  # tiers at the usual price
_ANYWHERE = (None, "", "global", "not_available")  # regions at the usual price
_REGION = 10  # percent more, in any other region


class Messages(Dialect):
    vendor = "anthropic"

    def read(self, body: Body, path: str) -> ModelRequest:
        fields, plain = body.fields, body.names.isdisjoint(_MEDIA_OR_CACHED)
        fallbacks = self._fallbacks(fields) if fields.get("fallbacks") else []
        advisors = self._advisors(fields) if "tools" in fields else []
        server = self._server_tools(fields) if "tools" in fields or "mcp_servers" in fields else {}
        uncounted = "" if plain or not body.mentions(*_MEDIA) else "media"
        if not _KNOWN.issuperset(fields):
            uncounted = ", ".join(sorted(fields.keys() - _KNOWN))
        requested = replace(
            _REQUEST,
            models=(str(fields.get("model") or ""), *[str(one.get("model") or "") for one in (*fallbacks, *advisors)]),
            tier=_tier(fields),
            stream=fields.get("stream") is True,
            inputs=_UNCACHED if plain else self._inputs(body),
            output=whole(fields, "max_tokens"),
            lowest=LEAST + max([_thinking(one) for one in (fields, *fallbacks)]),
            uncounted=uncounted,
            surcharge=0 if fields.get("inference_geo") in _ANYWHERE else _REGION,
        )
        if fallbacks or advisors or "context_management" in fields or "compaction" in fields:
            requested = self._with_other_models(requested, fields, fallbacks, advisors)
        if not server:
            return requested
        tools = tuple([price.WEB_SEARCH if "search" in tool else price.CALL for tool in server])
        return replace(requested, tools=tools, uses=sum(server.values()))

    def _inputs(self, body: Body) -> tuple[str, ...]:
        """The kinds that its input may be charged as. Caches are written only if the request asks for it."""
        cached = body.mentions(*_CACHED)
        hour = cached and body.mentions("1h")
        return (*_UNCACHED, *[price.CACHE_WRITE] * cached, *[price.CACHE_WRITE_1H] * hour)

    def _with_other_models(
        self, requested: ModelRequest, fields: dict[str, Any], fallbacks: list[dict[str, Any]], advisors: list[Any]
    ) -> ModelRequest:
        """Other models may read the whole input too, each with its own limit: those that the request falls back to if
        it is declined (also in the middle of the answer), advisors, and the one that compacts the conversation."""
        limits = [requested.output, *[whole(one, "max_tokens") for one in advisors]]
        limits += [whole(one, "max_tokens") for one in fallbacks if one.get("max_tokens") is not None]
        compacts = "compaction" in fields or any(
            str(edit.get("type") or "").startswith("compact")
            for edit in rows(table(fields.get("context_management")).get("edits"))
        )
        refused = ""
        if not isinstance(fields.get("fallbacks") or [], list):
            refused = "its `fallbacks` let the vendor choose the model, so the price is not known: name the models"
        elif any("speed" in one and _tier({**fields, **one}) != requested.tier for one in fallbacks):
            refused = "its `fallbacks` have another speed than the request: state one for all"
        return replace(
            requested,
            output=None if None in limits else max(limit or 0 for limit in limits),
            passes=(1 + len(fallbacks)) * (1 + compacts),
            consults=bool(advisors),
            refused=refused,
        )

    def _fallbacks(self, fields: dict[str, Any]) -> list[dict[str, Any]]:
        found = fields["fallbacks"]
        named = found if isinstance(found, list) else [{"model": fields.get("model")}]
        return [one if isinstance(one, dict) else {"model": one} for one in named]

    def _advisors(self, fields: dict[str, Any]) -> list[dict[str, Any]]:
        return [tool for tool in rows(fields.get("tools")) if _kind(tool).startswith(_ADVISOR)]

    def _server_tools(self, fields: dict[str, Any]) -> dict[str, int]:
        """The tools that the vendor runs → how often each may be used."""
        found = {}
        for index, tool in enumerate(rows(fields.get("tools"))):
            kind = _kind(tool)
            if not kind.startswith(_CLIENT_TOOLS):
                found[f"{kind}#{index}"] = whole(tool, "max_uses", most=ANSWERS) or USES
        if fields.get("mcp_servers") and not any(name.startswith("mcp") for name in found):
            found["mcp_servers"] = USES  # in an older version of the API they need no tool
        return found

    def limit(self, body: Body, output: int) -> None:
        body.set("max_tokens", _at_most(body.fields, output))
        fallbacks = body.fields.get("fallbacks")
        if isinstance(fallbacks, list):
            limited = [table(one).get("max_tokens") is not None for one in fallbacks]
            lowered = [
                {**one, "max_tokens": _at_most(one, output)} if is_limited else one
                for one, is_limited in zip(fallbacks, limited, strict=True)
            ]
            if lowered != fallbacks:
                body.set("fallbacks", lowered)
        if advisors := self._advisors(body.fields):
            least, tools = max(output, LEAST), body.fields["tools"]  # the vendor takes no less
            body.set(
                "tools", [{**one, "max_tokens": _at_most(one, least)} if one in advisors else one for one in tools]
            )

    def allow_uses(self, body: Body, uses: int) -> None:
        """Share the uses out among the vendor's tools; a tool that gets none is left out."""
        tools, kept = rows(body.fields.get("tools")), []
        left = uses
        for tool in tools:
            if _kind(tool).startswith(_CLIENT_TOOLS):
                kept.append(tool)
            elif left:
                part = min(number(tool.get("max_uses")) or USES, left)
                left -= part
                limited = any(word in tool["type"] for word in ("search", "fetch", _ADVISOR))
                kept.append({**tool, "max_uses": part} if limited else tool)
        if kept != tools:
            body.set("tools", kept)

    def counting(self, body: Body, path: str) -> tuple[str, dict[str, Any]] | None:
        if body.fields.keys() - _KNOWN - _COUNTED:
            return None  # what is not counted may bring input, such as earlier turns that the vendor stores
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
        into.stated = {**into.stated, **_counts(usage)}
        tier = _tier(usage)
        if tier:
            into.tier = tier
        if "inference_geo" in usage:
            into.surcharge = 0 if usage["inference_geo"] in _ANYWHERE else _REGION
        into.counts, into.more = into.stated, []
        if iterations := rows(usage.get("iterations")):
            self._by_iteration(iterations, into)

    def _by_iteration(self, iterations: list[dict[str, Any]], into: ReplyUsage) -> None:
        """Charge each iteration to its model. The message's own figures leave out other models, compaction, and what
        later iterations have read again; what they alone have is charged to the message's model."""
        own: dict[str, int] = {}
        answers: dict[str, int] = {}  # in all iterations that wrote the message
        for one in iterations:
            counts, kind, model = _counts(one), one.get("type"), str(one.get("model") or "")
            if kind in _ANSWERS:
                answers = _sum(answers, counts)
            if kind in _ANSWERS and model in ("", into.model):
                own = _sum(own, counts)
            else:
                into.more.append((model, counts))
        missing = {kind: count - answers.get(kind, 0) for kind, count in into.stated.items()}
        into.counts = _sum(own, {kind: count for kind, count in missing.items() if count > 0 or kind not in answers})

    def refusal(self, message: str) -> tuple[int, dict[str, Any]]:
        return 402, {"type": "error", "error": {"type": "billing_error", "message": message}}

    def is_error(self, reply: dict[str, Any]) -> bool:
        return reply.get("type") == "error" and isinstance(reply.get("error"), dict)


def _kind(tool: dict[str, Any]) -> str:
    return str(tool.get("type") or "custom")


def _tier(fields: dict[str, Any]) -> str:
    """The speed, or else the service tier; "" at the usual price."""
    speed, tier = str(fields.get("speed") or ""), str(fields.get("service_tier") or "")
    return speed if speed not in _STANDARD else "" if tier in _STANDARD else tier


def _thinking(fields: dict[str, Any]) -> int:
    return number(table(fields.get("thinking")).get("budget_tokens"))


def _at_most(limited: dict[str, Any], output: int) -> int:
    stated = limited.get("max_tokens")
    return output if stated is None else min(int(stated), output)


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {kind: one.get(kind, 0) + other.get(kind, 0) for kind in (one | other)}


def _counts(usage: dict[str, Any]) -> dict[str, int]:
    found = {kind: number(count) for name, kind in _USAGE if (count := usage.get(name)) is not None}
    if (count := usage.get("cache_creation_input_tokens")) is not None:
        written = number(count)
        hour = min(written, number(table(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")))
        found[price.CACHE_WRITE], found[price.CACHE_WRITE_1H] = written - hour, hour
    if searches := number(table(usage.get("server_tool_use")).get("web_search_requests")):
        found[price.WEB_SEARCH] = searches
    return found
