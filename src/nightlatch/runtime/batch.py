"""A batch, on the supervisor's side: what is known of its items, and the one writer of their checkpoints.

The batch is a run like any other, whose command is the driver (`worker`), in the tree under the warden: what
ends the run ends the driver and every item. The driver asks for its plan and tells of every item through the
run's socket, before it starts one and after one has ended; what comes together is one commit.
"""

from __future__ import annotations

import os
import sys

from ..core import effects
from ..core.effects import BEGUN, DONE, FAILED, IN_DOUBT
from ..core.model import check_name
from ..core.value import value
from ..errors import Error, UsageError
from ..ledger import open_for
from ..ledger.chain import clean
from ..ledger.steps import STEP
from ..store import url
from ..system import clock, identity
from .effects import apart
from .job import Job
from .lease import Lease
from .listener import Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.protocols import Store
    from ..ledger.ledger import Ledger
    from ..ledger.writer import Writer
    from .verdict import Verdict

IN_DOUBT_ITSELF = 76  # a command that exits so says it does not know; asked again it will look, as `once` does

_HOMES = "batch-home"  # scope of the store's done keys that name the machine whose ledger has a batch's items


@value(frozen=True, kw_only=True)
class Batch:
    """What is to be done with which items. Times are seconds."""

    name: str
    items: str  # a path, or - for standard input
    command: list[str]
    key: str = ""
    format: str = ""
    jobs: int = 1
    timeout: float | None = None  # of one item
    retries: int = 0
    backoff: float = 1.0  # before the first of them; doubles
    fail_fast: bool = False
    max_failures: str = ""
    lost: str = "doubt"
    shell: bool = False
    again: str = ""  # the command line that goes on with this batch

    def plan(self) -> dict[str, object]:
        """As the driver gets it."""
        return {**self.__dict__, "items": self.items if self.items == "-" else os.path.abspath(self.items)}


def run(batch: Batch, *, store: str | None = None) -> Verdict:
    """Do what is unfinished. Raises Busy while another works on the batch. For a process of its own."""
    from . import pipeline

    driver = [sys.executable, "-P", "-m", "nightlatch.runtime.worker", batch.name, "--", *batch.command]
    job = Job(name=batch.name, command=driver, timeout=None, lost="again")
    the_store = url.connect(store)
    _at_home(the_store, open_for(url.resolve(store)), batch.name)
    the_store.close()
    return pipeline.run(job, store=store, steps=Checkpoints(batch))


def known(ledger: Ledger, name: str, lost: str) -> dict[bytes, int]:
    """Digests of the items that are not to be done, as `items.Selection` wants them; for a plan that is only shown."""
    from .items import Selection

    found = dict.fromkeys(map(bytes.fromhex, ledger.steps.digests(name, DONE)), Selection.DONE)
    waiting = [*_waiting(ledger, name), *(ledger.steps.in_flight(name) if lost == "doubt" else ())]
    found.update((bytes.fromhex(step.digest), Selection.DOUBT) for step in waiting)
    return found


def resolve(name: str, key: str, outcome: str, *, by: str = "", store: str | None = None) -> list[str]:
    """A person's word on an item in doubt, or with key "" on all of them; returns their keys. Raises Busy while
    the batch is worked on."""
    state, by = effects.resolution(outcome), by or identity.user()
    the_store = url.connect(store)
    with Lease(the_store, check_name(name), ttl=the_store.default_ttl, wait=0.0):
        keys = open_for(url.resolve(store)).steps.resolve(name, key, state, reason=f"resolved as {outcome} by {by}")
    if not keys:
        raise UsageError(f"{key or 'no item'} of the batch {name} is in doubt: nothing to resolve")
    return keys


class Checkpoints:
    """The items' side of a run: made before it, told of its writer when the attempt is sealed."""

    WORDS = ("plan", "steps", "told")  # what the driver says

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._told: dict[str, Told] = {}

    def told_of(self, item: str) -> Told:
        """What an item has said of itself, by its digest."""
        return self._told.setdefault(item, Told())

    def prepare(self, store: Store, ledger: Ledger, lease: Lease, writer: Writer, folder: str) -> None:
        """Before the driver starts: what the last one left in flight, and files with the digests of what is done."""
        self._writer = writer
        name = self._batch.name
        if apart(store, ledger):
            store.settle(lease.name, lease.grant, _HOMES, name, value=_machine())
            _at_home(store, ledger, name)
        lost = ledger.steps.in_flight(name)
        if lost:
            state = IN_DOUBT if self._batch.lost == "doubt" else FAILED
            why = "in flight when its batch died"
            self._write("steps-lost", [(s.digest, s.key, state, s.tries, None, "", why) for s in lost])
        self._files = {state: os.path.join(folder, f"items-{state}") for state in (DONE, IN_DOUBT)}
        _put(self._files[DONE], ledger.steps.digests(name, DONE))
        _put(self._files[IN_DOUBT], (step.digest for step in _waiting(ledger, name)))

    def answer(self, word: str, request: dict[str, Any]) -> dict[str, Any]:
        if word == "plan":
            return {"plan": self._batch.plan(), "done": self._files[DONE], "in_doubt": self._files[IN_DOUBT]}
        if word == "told":
            return dict(self._told.pop(str(request["digest"]), Told()).__dict__)
        # The begun ones after the ended ones: a slot is free before it is filled.
        begun = [(digest, key, BEGUN, tries, None, "", "") for digest, key, tries in request.get("begun", ())]
        self._write("steps", [*map(_ended, request.get("ended", ())), *begun])
        return {}

    def _write(self, kind: str, steps: list[tuple[str, str, str, int, int | None, str, str]]) -> None:
        run, at = self._writer.run, int(clock.wall() * 1000)
        rows = [
            (
                self._batch.name,
                digest,
                clean(key),
                state,
                tries,
                run.id,
                run.attempt,
                code,
                clean(result),
                clean(why),
                at,
            )
            for digest, key, state, tries, code, result, why in steps
        ]
        facts: dict[str, list[str]] = {}
        for _, key, state, *_ in steps:
            facts.setdefault(state, []).append(key)
        self._writer.record(kind, [(STEP, rows)], **{state: "\n".join(keys) for state, keys in facts.items()})


def _ended(told: list[Any]) -> tuple[str, str, str, int, int | None, str, str]:
    digest, key, state, tries, exit_code, result, reason = told
    if state not in (DONE, FAILED, IN_DOUBT):
        raise ValueError(f"an item cannot end as {state!r}")
    return str(digest), str(key), state, int(tries), int(exit_code), str(result), str(reason)


def _waiting(ledger: Ledger, name: str) -> list[Any]:
    """Items in doubt that wait for a person. One whose command said so by itself is asked again."""
    return [step for step in ledger.steps.in_doubt(name) if step.exit_code != IN_DOUBT_ITSELF]


def _put(path: str, digests: Any) -> None:
    with open(path, "wb") as file:
        for digest in digests:
            file.write(bytes.fromhex(digest))


def _machine() -> str:
    return f"{identity.machine()} {identity.host()}"


def _at_home(store: Store, ledger: Ledger, name: str) -> None:
    """With a ledger on each machine, a batch goes on where it was begun: elsewhere all of it would be done again."""
    home = store.look(_HOMES, name) if apart(store, ledger) else None
    if home and home.value.split(" ")[0] != identity.machine():
        raise Error(
            f"the batch {name} was begun on {home.value.partition(' ')[2]}, and which of its items are done stands in "
            f"that machine's ledger. Go on there, or share a store that has the ledger in it (postgresql://…)"
        )
