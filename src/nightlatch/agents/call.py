"""`nightlatch.agents.run()`: launch an agent from Python, and wait for its verdict."""

from __future__ import annotations

import os
import sys

from ..core.agent import AgentRequest, flat, for_agent
from ..core.model import check_name
from ..core.options import CALL, as_keyword
from ..core.value import value
from ..ledger import open_for
from ..runtime.caller.supervised import supervised
from ..runtime.shared.job import read
from ..runtime.shared.verdict import Verdict
from ..store import url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.keywords import RunOptions  # noqa: F401 - what `options` may be

ANSWER = "answer.md"  # a file in the run's folder


@value(frozen=True, kw_only=True)
class AgentVerdict(Verdict):
    handle: str = ""  # of the run's last launch
    answer: str = ""


def run(
    name: str,
    *,
    provider: str,
    agent: str = "",
    input: str,
    fields: dict[str, Any] | None = None,
    store: str | None = None,
    **options: Any,
) -> AgentVerdict:
    """Launch an agent at a vendor once for its key, within bounds, as `nightlatch agent run` does.

        verdict = nightlatch.agents.run(
            "article", provider="anthropic", agent="agent_01", input="Write the article", key="2026-11-17",
            fields={"environment_id": "env_01"}, timeout="1h", budget="usd=5",
        )

    `fields` go into the vendor's launch request, by its own names; `waits`, `every`, `deadline` and `priced_as` are
    read by Nightlatch and not sent. The options are those of `nightlatch.run()`. Returns how it ended, with the agent's
    `handle` and `answer`.
    """
    request = AgentRequest(provider=provider, agent=agent, input=input, fields=flat(fields or {})).check()
    job = read(check_name(name), request.command(sys.executable), for_agent(options), CALL, as_keyword)
    verdict = supervised(job, store=store)
    ledger, folder = open_for(url.resolve(store)), url.connect(store).folder
    launched = ledger.agents.of_run(verdict.run) if verdict.run else []
    return AgentVerdict(
        **verdict.__dict__, handle=launched[-1].handle if launched else "", answer=_answer(folder, verdict.run)
    )


def _answer(folder: str, run: str) -> str:
    try:
        with open(os.path.join(folder, "runs", run, ANSWER), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
