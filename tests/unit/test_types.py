"""Types survive: what a type checker knows of a job, a step, a map and an effect. `make lint` checks this file with
mypy; an ignore that is not needed, because a wrong call passes, is an error there too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nightlatch
from nightlatch.runtime.shared.plan import Plan

if TYPE_CHECKING:
    from typing import assert_type

    from nightlatch.runtime.child.steps.mapping import Results

    def a_job_keeps_the_functions_signature() -> None:
        assert_type(newsletter("2026-11-16"), int)
        assert_type(newsletter.run("2026-11-16"), nightlatch.Verdict)
        assert_type(newsletter.dry_run("2026-11-16", copies=2), Plan)
        newsletter(3)  # type: ignore[arg-type]
        newsletter.run(3)  # type: ignore[arg-type]
        newsletter.run()  # type: ignore[call-arg]
        newsletter.run("2026-11-16", copy=2)  # type: ignore[call-arg]

    async def an_async_job_keeps_what_it_returns() -> None:
        assert_type(await translation("otter"), bytes)
        assert_type(translation.run("otter"), nightlatch.Verdict)
        await translation(3)  # type: ignore[arg-type]

    async def what_a_run_calls_keeps_its_result(run: nightlatch.Run) -> None:
        assert_type(run.step("size", len, "abc"), int)
        assert_type(await run.step("text", fetch, 3), str)
        assert_type(run.map(len, ["a", "b"]), Results[int])
        assert_type(run.map(len, ["a"])[0], int)
        assert_type(await run.map(fetch, [1, 2]), Results[str])
        assert_type(run.effect("post", do=lambda: 3), int)
        assert_type(await run.effect("post", do=post), bytes)
        assert_type(run.handle("id", len, "abc"), int)
        await run.map(fetch, ["a"])  # type: ignore[arg-type]


@nightlatch.job(key="{night}")
def newsletter(night: str, copies: int = 1) -> int:
    return len(night) * copies


@nightlatch.job(key="{topic}")
async def translation(topic: str) -> bytes:
    return topic.encode()


async def fetch(number: int) -> str:
    return str(number)


async def post() -> bytes:
    return b""


def test_a_decorated_job_is_still_the_function():
    assert newsletter("2026-11-16", copies=2) == 20
