"""Google's generateContent, embeddings, and interactions with a model."""

from __future__ import annotations

from typing import Any

from ...core.metering import price
from ...core.metering.call import LEAST
from ..body import Body
from ..requested import ANSWERS, USES, ModelRequest, ReplyUsage, either, number, rows, table, whole, words
from . import Dialect

_STANDARD = ("", "standard", "default", "SERVICE_TIER_UNSPECIFIED", "unspecified")  # tiers at the usual price
_INPUT_KINDS = {"AUDIO": price.INPUT_AUDIO, "IMAGE": price.INPUT_IMAGE, "VIDEO": price.INPUT_VIDEO}
_OUTPUT_KINDS = {"AUDIO": price.OUTPUT_AUDIO, "IMAGE": price.OUTPUT_IMAGE, "VIDEO": price.OUTPUT_VIDEO}

_CLIENT_TOOLS = words("functionDeclarations function_declarations function computerUse computer_use")
_MEDIA = ("inlineData", "inline_data", "fileData", "file_data", "fileUri", "file_uri")


class _Google(Dialect):
    """A search cannot be limited in these requests."""

    vendor = "google"

    def refusal(self, message: str) -> tuple[int, dict[str, Any]]:
        return 402, {"error": {"code": 402, "status": "FAILED_PRECONDITION", "message": message}}

    def counted(self, reply: dict[str, Any]) -> int | None:
        found = reply.get("totalTokens", reply.get("total_tokens"))
        return found if type(found) is int else None


def model_of(path: str) -> str:
    """v1beta/models/gemini-3:generateContent → gemini-3"""
    return path.rsplit("/", 1)[-1].partition(":")[0]


def _vendor_tools(tools: object) -> tuple[str, ...]:
    """The kinds of fees of the tools that the vendor runs: all but the client's. One tool may come without a list."""
    found = []
    for tool in rows(tools if isinstance(tools, list) else [tools]):
        names = {str(tool["type"])} if "type" in tool else set(map(str, tool))
        found += [name.lower() for name in names - _CLIENT_TOOLS]
    searches = [any(word in name for word in ("search", "maps", "url", "retrieval")) for name in found]
    return tuple([price.WEB_SEARCH if search else price.CALL for search in searches])


def _split(total: int, cached: int, details: object, kinds: dict[str, str], plain: str, key: str) -> dict[str, int]:
    """Uncached tokens, by kind. `plain`: the kind of all other modalities. `key`: the field with a count."""
    found = {plain: total - cached}
    for one in rows(details):
        kind = kinds.get(str(one.get("modality") or "").upper())
        if kind:
            count = min(number(one.get(key)), found[plain])
            found[plain] -= count
            found[kind] = found.get(kind, 0) + count
    return {kind: count for kind, count in found.items() if count or kind == plain}


class GenerateContent(_Google):
    _known = words(
        "contents systemInstruction system_instruction generationConfig generation_config safetySettings "
        "safety_settings tools toolConfig tool_config labels model serviceTier service_tier store"
    )

    def read(self, body: Body, path: str) -> ModelRequest:
        fields = body.fields
        config = table(either(fields, "generationConfig", "generation_config"))
        thinking = table(either(config, "thinkingConfig", "thinking_config"))
        media = body.mentions(*_MEDIA)
        tier = str(either(fields, "serviceTier", "service_tier") or "")
        tools = _vendor_tools(fields.get("tools"))
        return ModelRequest(
            models=(model_of(path),),
            tier="" if tier in _STANDARD else tier.lower(),
            stream=":streamGenerateContent" in path,
            output=whole(config, "maxOutputTokens", "max_output_tokens") or None,
            lowest=LEAST + number(either(thinking, "thinkingBudget", "thinking_budget")),
            times=whole(config, "candidateCount", "candidate_count", most=ANSWERS) or 1,
            tools=tools,
            uses=USES if tools else 0,
            uncounted=", ".join(sorted(fields.keys() - self._known)) or ("media" if media else ""),
        )

    def limit(self, body: Body, output: int) -> None:
        name = "generation_config" if "generation_config" in body.fields else "generationConfig"
        config = {key: found for key, found in table(body.fields.get(name)).items() if key != "max_output_tokens"}
        body.set(name, {**config, "maxOutputTokens": output})

    def counting(self, body: Body, path: str) -> tuple[str, dict[str, Any]] | None:
        base = path.partition(":")[0]
        return f"{base}:countTokens", {
            "generateContentRequest": {"model": f"models/{model_of(path)}", **body.fields},
        }

    def read_usage(self, data: dict[str, Any], into: ReplyUsage) -> None:
        into.model = str(data.get("modelVersion") or into.model)
        usage = data.get("usageMetadata")
        if not isinstance(usage, dict):
            return
        total = number(usage.get("promptTokenCount")) + number(usage.get("toolUsePromptTokenCount"))
        cached = min(number(usage.get("cachedContentTokenCount")), total)
        output = number(usage.get("candidatesTokenCount")) + number(usage.get("thoughtsTokenCount"))
        counts = _split(total, cached, usage.get("promptTokensDetails"), _INPUT_KINDS, price.INPUT, "tokenCount")
        counts |= {price.CACHE_READ: cached} if cached else {}
        counts |= _split(output, 0, usage.get("candidatesTokensDetails"), _OUTPUT_KINDS, price.OUTPUT, "tokenCount")
        queries = [
            query
            for one in rows(data.get("candidates"))
            for query in table(one.get("groundingMetadata")).get("webSearchQueries") or ()
        ]
        searches = max(len(queries), (into.counts or {}).get(price.WEB_SEARCH, 0))
        into.counts = counts | ({price.WEB_SEARCH: searches} if searches else {})
        into.input_known = True
        # Each chunk has the figures so far; the last one says why the reply ended.
        into.ended = (
            into.ended
            or any(one.get("finishReason") for one in rows(data.get("candidates")))
            or bool(table(data.get("promptFeedback")).get("blockReason"))
        )


class EmbedContent(_Google):
    """Its reply may not report usage: then the size of the body bounds its cost, and an embedding costs little."""

    def read(self, body: Body, path: str) -> ModelRequest:
        media = "media" if body.mentions(*_MEDIA) else ""
        return ModelRequest(models=(model_of(path),), has_output=False, uncounted=media)

    def read_usage(self, data: dict[str, Any], into: ReplyUsage) -> None:
        usage = table(data.get("usageMetadata"))
        if usage:
            into.counts, into.ended = {price.INPUT: number(usage.get("promptTokenCount"))}, True


class Interactions(_Google):
    _known = words(
        "model input generation_config labels previous_interaction_id response_format response_mime_type "
        "response_modalities safety_settings service_tier store stream system_instruction tools "
        "continuation_token background"
    )

    def read(self, body: Body, path: str) -> ModelRequest:
        fields = body.fields
        config = table(either(fields, "generation_config", "generationConfig"))
        media = body.mentions("image", "audio", "video", "document", "uri", "file")
        tier = str(either(fields, "service_tier", "serviceTier") or "")
        earlier = either(fields, "previous_interaction_id", "previousInteractionId")
        tools = _vendor_tools(fields.get("tools"))
        refused = "an agent works at the vendor: its budget is set where it is launched" if fields.get("agent") else ""
        if fields.get("background") and not refused:
            refused = "background interactions are charged after their reply; leave out `background`"
        return ModelRequest(
            models=(str(fields.get("model") or ""),),
            tier="" if tier in _STANDARD else tier.lower(),
            stream=fields.get("stream") is True,
            output=whole(config, "max_output_tokens", "maxOutputTokens") or None,
            lowest=LEAST + number(either(config, "thinking_budget", "thinkingBudget")),
            tools=tools,
            uses=USES if tools else 0,
            uncounted=", ".join(sorted(fields.keys() - self._known)) or ("media" if media else ""),
            after=str(earlier or either(fields, "continuation_token", "continuationToken") or ""),
            refused=refused,
        )

    def limit(self, body: Body, output: int) -> None:
        name = "generationConfig" if "generationConfig" in body.fields else "generation_config"
        config = {key: found for key, found in table(body.fields.get(name)).items() if key != "maxOutputTokens"}
        body.set(name, {**config, "max_output_tokens": output})

    def read_usage(self, data: dict[str, Any], into: ReplyUsage) -> None:
        interaction = table(data.get("interaction")) or data
        into.model, into.id = str(interaction.get("model") or into.model), str(interaction.get("id") or into.id)
        usage = interaction.get("usage")
        if not isinstance(usage, dict):
            return
        total = number(usage.get("total_input_tokens")) + number(usage.get("total_tool_use_tokens"))
        cached = min(number(usage.get("total_cached_tokens")), total)
        output = number(usage.get("total_output_tokens")) + number(usage.get("total_thought_tokens"))
        counts = _split(total, cached, usage.get("input_tokens_by_modality"), _INPUT_KINDS, price.INPUT, "tokens")
        counts |= {price.CACHE_READ: cached} if cached else {}
        counts |= _split(output, 0, usage.get("output_tokens_by_modality"), _OUTPUT_KINDS, price.OUTPUT, "tokens")
        searches = sum(number(one.get("count")) for one in rows(usage.get("grounding_tool_count")))
        into.counts = counts | ({price.WEB_SEARCH: searches} if searches else {})
        into.ended = str(interaction.get("status") or "completed") != "in_progress"
