"""The conformance suite for adapters of managed agents: against the vendor itself, or a double of it.

class TestAcme(AgentConformance):
    def make_adapter(self):
        return Acme({})

    def begun(self, ask):
        return the vendor's own count of agents that got this launch's work
"""

from __future__ import annotations

import time
import unittest
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ..agents.seam import ENDED, RUNNING, STATUSES, UNKNOWN, Ask, NotLaunched, Seen, Unclear, can
from ..core.agent import label
from ..system import identity


class AgentConformance:
    """Everything an adapter has to show. Derive from it, and define `make_adapter` and `begun`. The other hooks are
    optional: without one, the tests that need it are skipped."""

    patience = 10.0  # seconds for a cancel to take effect

    def make_adapter(self) -> Any:
        raise NotImplementedError("say how to make the adapter: def make_adapter(self): return MyAdapter({})")

    def begun(self, ask: Ask) -> int:
        """How often work was begun for this launch, by the vendor's own count."""
        raise NotImplementedError("say how often the vendor began work for ask.labels['nightlatch_launch']")

    def make_ask(self) -> Ask:
        """A launch whose agent works until it is cancelled."""
        launch = label("conformance", identity.new_id())
        return Ask(
            agent="conformance",
            input="wait until you are cancelled",
            fields={},
            labels={"nightlatch_run": "conformance", "nightlatch_launch": launch},
            since="2020-01-01T00:00:00Z",
        )

    def lost_reply(self) -> AbstractContextManager[None]:
        """A context in which the vendor acts on a launch, but its reply is lost."""
        raise unittest.SkipTest("`lost_reply` is not defined")

    def out_of_order(self) -> AbstractContextManager[None]:
        """A context in which the vendor answers every read with 503."""
        raise unittest.SkipTest("`out_of_order` is not defined")

    def works(self, handle: str) -> bool:
        """Is the agent at work, by the vendor's own account?"""
        raise unittest.SkipTest("`works` is not defined")

    def finish(self, handle: str) -> None:
        """Make the agent finish its work."""
        raise unittest.SkipTest("`finish` is not defined")

    def odd(self, handle: str) -> None:
        """Make the vendor show a state that the adapter does not know."""
        raise unittest.SkipTest("`odd` is not defined")

    # ── helpers ──

    @contextmanager
    def launched(self) -> Iterator[tuple[Any, Ask, str]]:
        """(adapter, ask, handle) of an agent at work; it is cancelled when the context ends."""
        adapter, ask = self.make_adapter(), self.make_ask()
        handle = self._launch(adapter, ask)
        try:
            yield adapter, ask, handle
        finally:
            adapter.cancel(handle)

    def _launch(self, adapter: Any, ask: Ask) -> str:
        prepare = can(adapter, "prepare")
        return str(adapter.launch(ask, prepare(ask) if prepare else ""))

    def _wait_for_end(self, adapter: Any, handle: str) -> Seen:
        """Poll until the agent has ended; returns what the last poll showed."""
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            try:
                seen: Seen = adapter.poll(handle)
                if seen.status in ENDED:
                    return seen
            except Unclear:
                pass
            time.sleep(0.05)
        raise AssertionError(f"{handle} has not ended within {self.patience:.0f} s")

    # ── the tests ──

    def test_a_launch_begins_work_once_and_returns_a_handle(self) -> None:
        with self.launched() as (_, ask, handle):
            assert handle and isinstance(handle, str)
            assert self.begun(ask) == 1, "work was begun more than once"

    def test_preparing_twice_begins_no_work(self) -> None:
        adapter, ask = self.make_adapter(), self.make_ask()
        prepare = can(adapter, "prepare")
        if prepare is None:
            raise unittest.SkipTest("the adapter has no `prepare`")
        prepare(ask)
        prepare(ask)
        assert self.begun(ask) == 0

    def test_a_launch_whose_reply_is_lost_is_not_sent_again_and_proves_nothing(self) -> None:
        adapter, ask = self.make_adapter(), self.make_ask()
        prepare = can(adapter, "prepare")
        handle = prepare(ask) if prepare else ""
        with self.lost_reply():
            try:
                adapter.launch(ask, handle)
            except NotLaunched:
                raise AssertionError("a lost reply does not prove that nothing was launched") from None
            except Unclear:
                pass
            else:
                raise AssertionError("launch returned although its reply was lost: did it try again?")
        assert self.begun(ask) == 1, "work was begun more than once"

    def test_what_was_launched_is_found_again(self) -> None:
        with self.launched() as (adapter, ask, handle):
            find = can(adapter, "find")
            if find is None:
                raise unittest.SkipTest("the adapter has no `find`: a lost reply is in doubt")
            deadline = time.monotonic() + adapter.lag + 5.0
            while (found := find(ask, "")) in (None, UNKNOWN) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert found == handle
            assert find(ask, handle) == handle

    def test_a_find_that_can_read_nothing_does_not_return_none(self) -> None:
        with self.launched() as (adapter, ask, _):
            find = can(adapter, "find")
            if find is None:
                raise unittest.SkipTest("the adapter has no `find`: a lost reply is in doubt")
            with self.out_of_order():
                try:
                    found = find(ask, "")
                except Unclear:
                    return
            assert found is not None, "`find` could not read anything, and still returned None"

    def test_an_agent_that_cannot_be_read_has_not_ended(self) -> None:
        with self.launched() as (adapter, _, handle), self.out_of_order():
            try:
                seen = adapter.poll(handle)
            except Unclear:
                return
        assert seen.status not in ENDED

    def test_a_handle_that_the_vendor_does_not_know_has_not_ended(self) -> None:
        try:
            seen = self.make_adapter().poll("no-such-agent-0")
        except Unclear:
            return
        assert seen.status not in ENDED, "a 404 is unknown, not gone"

    def test_a_cancel_takes_effect_and_poll_shows_no_end_while_the_agent_works(self) -> None:
        with self.launched() as (adapter, _, handle):
            adapter.cancel(handle)
            self._wait_for_end(adapter, handle)
            assert not self.works(handle), "poll showed it as ended while it still worked"

    def test_a_cancel_may_be_sent_twice(self) -> None:
        with self.launched() as (adapter, _, handle):
            adapter.cancel(handle)
            adapter.cancel(handle)
            self._wait_for_end(adapter, handle)

    def test_a_cancel_ends_no_other_agent(self) -> None:
        with self.launched() as (adapter, _, handle), self.launched() as (_, _, neighbour):
            adapter.cancel(handle)
            self._wait_for_end(adapter, handle)
            assert self.works(neighbour)

    def test_an_agent_that_has_finished_is_shown_with_its_answer(self) -> None:
        with self.launched() as (adapter, _, handle):
            self.finish(handle)
            assert self._wait_for_end(adapter, handle).answer

    def test_statuses_are_known_ones_and_figures_never_fall(self) -> None:
        with self.launched() as (adapter, _, handle):
            before: tuple[float, ...] = ()
            for _ in range(4):
                seen = adapter.poll(handle)
                assert seen.status in STATUSES, seen.status
                figures = (seen.steps, seen.usd or 0.0, *(seen.counts[kind] for kind in sorted(seen.counts)))
                assert all(now >= then for now, then in zip(figures, before, strict=bool(before))), (before, figures)
                before = figures

    def test_an_unknown_state_counts_as_running_and_is_given_as_the_reason(self) -> None:
        with self.launched() as (adapter, _, handle):
            self.odd(handle)
            seen = adapter.poll(handle)
            assert seen.status == RUNNING and seen.reason
