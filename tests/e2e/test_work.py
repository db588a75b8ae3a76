"""The seam for work: what is supervised need not be a command of this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from nightlatch.core.protocols import Store
from nightlatch.core.tenure import Tenure
from nightlatch.errors import Busy
from nightlatch.runtime.shared.leases.lease import Lease
from nightlatch.runtime.supervisor.supervision import Supervision
from nightlatch.store.url import connect
from nightlatch.system import warden
from nightlatch.system.lifetime import Lifetime
from nightlatch.system.warden_messages import Ended, Report, Started
from tests.support.programs import until


class Elsewhere:
    """Work at a vendor, as far as a test needs one: it goes on until it is asked to end."""

    name = "elsewhere"

    def __init__(self, *, goes_on: bool = False) -> None:
        self.goes_on = goes_on
        self.ends_under: tuple[Store, str] | None = None  # a lease that nobody else may have before this is over
        self.received: list[object] = []
        self.tenures: list[Tenure] = []
        self.environment: dict[str, str] = {}

    def prepare(self, grant: str, lifetime: Lifetime | None) -> None:
        assert lifetime and lifetime.grant == grant
        self.reading_end, self.writing_end = os.pipe()

    def reattach(self) -> bool:
        return self.goes_on

    def start(self, environment: dict[str, str], *, cwd: str, grace: float, limit: float | None) -> None:
        self.environment = environment
        os.write(self.writing_end, b"s")

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self.reading_end,)

    def report(self, seconds: float = 0.0) -> Report | None:
        os.set_blocking(self.reading_end, False)
        try:
            word = os.read(self.reading_end, 1)
        except BlockingIOError:
            return None
        return Started(pid=0) if word == b"s" else Ended(why=str(self.received[0]))

    def keep(self, tenure: Tenure) -> None:
        self.tenures.append(tenure)

    def pass_on(self, signum: int) -> None:
        self.received.append(signum)

    def ask_to_end(self, why: str, grace: float, signum: int) -> None:
        self.received.append(why)
        os.write(self.writing_end, b"e")

    def used(self, printed: bytes) -> dict[str, float]:
        return {"usd": 1.0}

    def end(self) -> None:
        self.received.append("end")
        if self.ends_under:
            with pytest.raises(Busy):
                Lease(*self.ends_under, ttl=60.0, wait=0.0)

    def close(self) -> None:
        os.close(self.reading_end)
        os.close(self.writing_end)


@pytest.fixture(autouse=True)
def signals_are_given_back() -> Iterator[None]:
    before = [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGUSR1)]
    yield
    assert [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGUSR1)] == before


def test_work_that_is_no_command_is_kept_asked_to_end_and_ended_before_its_lease_is_free(sqlite_url: str) -> None:
    store, work = connect(sqlite_url), Elsewhere()
    with Supervision(work, store.folder) as supervision:
        supervision.hold(store, "agent", ttl=60.0, wait=0.0)
        assert work.tenures[0].ttl == 60.0
        supervision.start(supervision.environment())
        assert work.environment["NIGHTLATCH_TOKEN"] == str(store.read("agent").token)  # type: ignore[union-attr]
        os.kill(os.getpid(), signal.SIGTERM)
        ended = supervision.last_report()
        work.ends_under = store, "agent"
    supervision.close()
    assert isinstance(ended, Ended) and ended.why == warden.SIGNALLED
    assert work.received == [warden.SIGNALLED, "end"] and supervision.end_signal == signal.SIGTERM
    Lease(store, "agent", ttl=60.0, wait=0.0).release()
    store.close()


def test_work_of_an_earlier_attempt_that_goes_on_is_not_started_again(sqlite_url: str) -> None:
    store, work = connect(sqlite_url), Elsewhere(goes_on=True)
    with Supervision(work, store.folder) as supervision:
        supervision.hold(store, "agent", ttl=60.0, wait=0.0)
        supervision.start(supervision.environment())
        assert work.report() is None and not work.environment
    supervision.close()
    store.close()


def test_work_whose_lease_was_taken_is_asked_to_end_at_once(sqlite_url: str) -> None:
    store, work = connect(sqlite_url), Elsewhere()
    with Supervision(work, store.folder) as supervision:
        supervision.hold(store, "agent", ttl=1.0, wait=0.0)
        supervision.start(supervision.environment())
        store.evict("agent")
        until(lambda: work.received)
    supervision.close()
    assert work.received[0] == warden.LOST and supervision.lost
    store.close()
