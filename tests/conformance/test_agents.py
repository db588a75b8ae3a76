"""The suite for adapters: passed by ours, by the examples of the docs, and failed by adapters that are broken on purpose."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nightlatch.agents import providers
from nightlatch.agents.seam import CANCELLED, Ask, Seen, Unclear
from nightlatch.core.value import replace
from nightlatch.testing import AgentConformance, run
from tests.support.vendor import managed
from tests.support.vendor.managed import ManagedVendor, Work

DOCS = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()


def example(title: str, begins: str) -> str:
    """The first block of the docs behind a title that begins so."""
    behind = DOCS.partition(f"## {title}\n")[2]
    block = behind.partition(f"```{begins}")[2].partition("```")[0]
    assert block
    return block


class Loopback(AgentConformance):
    """With the vendor on loopback, whose cancel takes a moment."""

    provider = ""
    fields: dict[str, Any] = {}  # noqa: RUF012

    def setup_method(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.vendor = ManagedVendor().__enter__()
        self.vendor.work, self.vendor.lag = Work(polls=0, cancel_takes=0.3), 0.5
        for name, text in self.vendor.environment().items():
            self.patch.setenv(name, text)
        self.patch.setenv("ACME_URL", self.vendor.url)

    def teardown_method(self) -> None:
        self.vendor.__exit__()
        self.patch.undo()

    def make_adapter(self) -> Any:
        return providers.load(self.provider, self.fields)

    def begun(self, ask: Ask) -> int:
        return self.vendor.launches().get(ask.labels["nightlatch_launch"], 0)

    @contextmanager
    def lost_reply(self) -> Iterator[None]:
        self.vendor.fault = lambda verb, _: managed.LOST if verb == "launch" else ""
        yield
        self.vendor.fault = lambda *_: ""

    @contextmanager
    def out_of_order(self) -> Iterator[None]:
        self.vendor.fault = lambda verb, _: managed.OVERLOADED if verb in ("poll", "list", "events") else ""
        yield
        self.vendor.fault = lambda *_: ""

    def works(self, handle: str) -> bool:
        return self.vendor.agents[handle].look() == managed.RUNNING

    def finish(self, handle: str) -> None:
        self.vendor.agents[handle].status = managed.DONE

    def odd(self, handle: str) -> None:
        self.vendor.agents[handle].status = managed.ODD


class TestAnthropic(Loopback):
    provider = "anthropic"
    fields = {"environment_id": "env_1"}  # noqa: RUF012


class TestGoogle(Loopback):
    provider = "google"


class TestOpenAI(Loopback):
    provider = "openai"


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="the example needs curl and jq")
class TestCommandsOfTheDocs(Loopback):
    provider = "command"

    @pytest.fixture(autouse=True)
    def _script(self, tmp_path: Path) -> None:  # the suite makes an instance for each test
        script = tmp_path / "acme"
        script.write_text(example("Any vendor, with curl and jq", "sh\n"))
        script.chmod(0o755)
        self.fields = {verb: f"{script} {verb}" for verb in ("launch", "find", "poll", "cancel")}


def from_docs() -> Any:
    names: dict[str, Any] = {}
    exec(example("An adapter in Python", "python\n"), names)
    return names["Acme"]


Acme = from_docs()


class TestAdapterOfTheDocs(Loopback):
    kind: type[Any] = Acme

    def make_adapter(self) -> Any:
        return self.kind({})


def test_the_example_of_the_docs_is_short():
    assert len(example("An adapter in Python", "python\n").strip().splitlines()) <= 45


# ── broken on purpose ──


class LaunchesTwice(Acme):  # type: ignore[misc, valid-type]
    def launch(self, ask: Ask, handle: str) -> str:
        try:
            return str(super().launch(ask, handle))
        except Unclear:
            return str(super().launch(ask, handle))


class SaysNoForUnknown(Acme):  # type: ignore[misc, valid-type]
    def find(self, ask: Ask, handle: str) -> str | None:
        try:
            return super().find(ask, handle)  # type: ignore[no-any-return]
        except Unclear:
            return None


class DoesNotWait(Acme):  # type: ignore[misc, valid-type]
    ended: set[str] = set()  # noqa: RUF012

    def cancel(self, handle: str) -> None:
        super().cancel(handle)
        self.ended.add(handle)

    def poll(self, handle: str) -> Seen:
        seen: Seen = super().poll(handle)
        return replace(seen, status=CANCELLED) if handle in self.ended else seen


class Forgets(Acme):  # type: ignore[misc, valid-type]
    def poll(self, handle: str) -> Seen:
        seen: Seen = super().poll(handle)
        return replace(seen, steps=-seen.steps)


@pytest.mark.parametrize(
    ("broken", "caught"),
    [
        (LaunchesTwice, "test_a_launch_whose_reply_is_lost_is_not_sent_again_and_proves_nothing"),
        (SaysNoForUnknown, "test_a_find_that_can_read_nothing_does_not_return_none"),
        (DoesNotWait, "test_a_cancel_takes_effect_and_poll_shows_no_end_while_the_agent_works"),
        (Forgets, "test_statuses_are_known_ones_and_figures_never_fall"),
    ],
)
def test_an_adapter_that_is_broken_is_caught(broken: type[Any], caught: str):
    class Case(TestAdapterOfTheDocs):
        kind = broken

    assert caught in {failure.test for failure in run(Case)}
