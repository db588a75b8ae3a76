"""A batch, in the supervisor: what is known of its items, and the one writer of their checkpoints.

A batch is a run whose command is the driver, in the tree under the warden: what ends the run ends the driver and every
item. Through the run's socket the driver asks for its plan and reports each item before the item starts and after it
has ended; reports that arrive together are one commit.
"""

from __future__ import annotations

import os
import shlex
import sys
from itertools import islice

from ....core import advice, budget, effects
from ....core.effects import BEGUN, DONE, FAILED, IN_DOUBT, SET_ASIDE
from ....core.model import check_name
from ....errors import Busy, UsageError
from ....ledger import kinds, open_for
from ....ledger.chain import clean
from ....ledger.items import ITEM, ItemRow
from ....store import url
from ....system import clock, identity, redaction
from ....system.durable import private_folder
from ...shared import client
from ...shared.batches.items import IN_DOUBT_ITSELF
from ...shared.effect_records import ledger_is_per_machine
from ...shared.leases.lease import Lease
from ..socket.reported import Reported
from . import bar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from ....core.batch import Batch
    from ....core.budget import Cap
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from ...shared.verdict import Verdict
    from ..publishing.workspace import Workspace
    from .item_publishing import Publishing


_DEFAULT_KEY = "{}"  # the key template if none is given: the item itself is its key
_WAITS_FOR = 3.0  # seconds for which an item counts as waiting after it last reported so
_HOMES = "batch-home"  # scope of done keys: each names the ledger that has a batch's items


def plan(batch: Batch) -> dict[str, object]:
    """What the driver has to know of the batch."""
    items = batch.items if batch.items == "-" else os.path.abspath(batch.items)
    facts = {name: fact for name, fact in batch.__dict__.items() if name != "budget"}
    facts |= {"items": items, "lost": batch.when_lost, "caps": bool(batch.item_caps)}
    return {**facts, "store": advice.chosen_store()}


def run(batch: Batch, *, store: str | None = None) -> tuple[Verdict, dict[str, Any]]:
    """Do what is unfinished. Returns the verdict and the driver's summary ({} if the driver ended without one).

    Raises Busy while another run works on the batch. Needs its own process.
    """
    from ..run import tries

    checkpoints = prepare_checkpoints(batch, store)
    try:
        return tries.run(batch.job(sys.executable).check(), store=store, checkpoints=checkpoints), checkpoints.summary
    finally:
        checkpoints.close()


def prepare_checkpoints(batch: Batch, store: str | None) -> Checkpoints:
    """The checkpoints for a run of the batch; raises if it may not be run here, or not with this key."""
    if batch.publish:
        client.check_may_act()
    connected, ledger = url.connect(store), open_for(url.resolve(store))
    _check_home(connected, ledger, batch.name)
    _check_key(ledger, batch)
    connected.close()
    return Checkpoints(batch)


def known(ledger: Ledger, batch: Batch) -> dict[bytes, int]:
    """For showing a plan: the digests of the items that a run would not do, each with the reason, as in `Selection`."""
    from ...shared.batches.selection import Selection

    name, items = batch.name, ledger.items
    _check_key(ledger, batch)
    found = dict.fromkeys(map(bytes.fromhex, items.finished(name)), Selection.DONE)
    doubtful = [*_undecided(ledger, name), *(items.in_flight(name) if batch.when_lost == "doubt" else ())]
    found.update((bytes.fromhex(item.digest), Selection.DOUBT) for item in doubtful)
    if not batch.retry_failed:
        found.update((bytes.fromhex(digest), Selection.ASIDE) for digest in items.digests(name, SET_ASIDE))
    return found


def resolve(
    name: str, key: str, outcome: str, *, by: str = "", store: str | None = None, wait: float = 0.0
) -> list[str]:
    """Decide about an item that is not done, or with key "" about all that are in doubt or set aside; returns their
    keys. Raises Busy while the batch runs."""
    status, by = effects.resolution(outcome, of_item=True), by or identity.user()
    connected, items = url.connect(store), open_for(url.resolve(store)).items
    seen = items.states(name, key)
    with Lease(connected, check_name(name), ttl=connected.default_ttl, wait=wait):
        keys = items.resolve(name, key, status, reason=f"resolved as {outcome} by {by}", seen=seen)
    if not keys and seen:
        which = f"the item {key!r}" if key else "what needed a decision"
        raise UsageError(f"{which} in the batch {name} has changed meanwhile: nothing was decided. Look at it again")
    if not keys:
        which = f"item {key!r} that failed," if key else "item that"
        raise UsageError(f"there is nothing to resolve: the batch {name} has no {which} is in doubt or was set aside")
    return keys


class Checkpoints:
    """Records the items of a batch, and handles the driver's verbs at the socket. Made before the run; `prepare` gives
    it the run's writer."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._reported: dict[str, Reported] = {}
        self._publishing: Publishing | None = None
        self._home: Workspace | None = None  # contains a folder for each item that publishes
        self.bar = bar.Bar(batch.name) if bar.is_wanted() else None
        self.summary: dict[str, Any] = {}
        self.on_item_end: Callable[[str], None] = lambda _: None  # called with the item's digest
        self.hidden = redaction.secrets(os.environ)  # replaced when the command's environment is known

    def close(self) -> None:
        if self.bar:
            self.bar.close()

    def waits(self, reported: Reported) -> None:
        """An item reports, every second, that it waits for a probe."""
        reported.waited_at = clock.now()
        if self.bar:
            self.bar.wait(self.waiting())

    def waiting(self) -> int:
        """How many items wait for a probe."""
        return sum(clock.now() - reported.waited_at < _WAITS_FOR for reported in self._reported.values())

    @property
    def item_caps(self) -> tuple[Cap, ...]:
        return self._batch.item_caps

    def reported_by(self, item: str) -> Reported:
        """What an item has reported, by its digest."""
        return self._reported.setdefault(item, Reported())

    def prepare(self, store: Store, ledger: Ledger, lease: Lease, writer: Writer, folder: str) -> None:
        """Before the driver starts: settle the items that the last driver left in flight, and write the digests of all
        that are done, in doubt or set aside into files for the new driver."""
        self._writer, self._items = writer, ledger.items
        name = self._batch.name
        writer.event(kinds.BATCH, again=self.hidden.text(self._batch.continued_by))
        if _begun_with(ledger, self._batch) != clean(self._batch.key or _DEFAULT_KEY):
            ledger.journal.note(name, kinds.BATCH_KEY, key=self._batch.key or _DEFAULT_KEY)
        if ledger_is_per_machine(store, ledger):
            store.settle(
                lease.name, lease.grant, _HOMES, name, value=f"{ledger.id} {identity.user()}@{identity.host()}"
            )
            _check_home(store, ledger, name)
        if self._batch.publish:
            from ..publishing.workspace import Workspace
            from .item_publishing import Publishing

            self._publishing = Publishing(lease, writer.run.id, name)
            self._home = Workspace.make(store.folder, f"{writer.run.id}-{writer.run.attempt}", None)
        self._recover(ledger.items.in_flight(name))
        private_folder(folder)
        self._files = {status: os.path.join(folder, f"items-{status}") for status in (DONE, IN_DOUBT, SET_ASIDE)}
        _write_digests(self._files[DONE], ledger.items.finished(name))
        _write_digests(self._files[IN_DOUBT], (item.digest for item in _undecided(ledger, name)))
        aside = () if self._batch.retry_failed else ledger.items.digests(name, SET_ASIDE)
        _write_digests(self._files[SET_ASIDE], aside)

    def _recover(self, lost: list[ItemRow]) -> None:
        """Settle what the last driver left in flight: published items are done, the rest follows --lost."""
        landed = {item.digest for item in lost if self._publishing and self._publishing.recover(item)}
        not_published = IN_DOUBT if self._batch.when_lost == "doubt" else FAILED, "in flight when its batch died"
        published = DONE, "published before its batch died"
        rows = []
        for item in lost:
            status, why = published if item.digest in landed else not_published
            rows.append((item.digest, item.key, status, item.tries, None, "", why))
        if rows:
            self._write(kinds.ITEMS_LOST, rows)
        if self._publishing:
            for digest in landed:
                self._publishing.unregister_gates(digest)

    def do_plan(self, _: dict[str, Any]) -> dict[str, Any]:
        home = self._home.path if self._home else ""
        shown = {"bar": self.bar is not None, "as_data": _is_redirected(1)}
        return {"plan": plan(self._batch), "known": self._files, "home": home, **shown}

    def do_steps(self, request: dict[str, Any]) -> dict[str, Any]:
        # Ends come first: they free the places that the next items take.
        begun = [(digest, key, BEGUN, tries, None, "", "") for digest, key, tries in request.get("begun", ())]
        ended = [_ended_item(record) for record in request.get("ended", ())]
        self._write(kinds.ITEMS_MOVED, [*ended, *begun])
        for digest, _, status, *_ in ended:
            self.on_item_end(digest)
            if status != FAILED:  # it will not be tried again
                self._reported.pop(digest, None)
            if status == DONE and self._publishing:
                self._publishing.unregister_gates(digest)
        if self.bar and "counts" in request:
            self.bar.waiting = self.waiting()
            self.bar.update(**request["counts"])
        return {}

    def do_item_report(self, request: dict[str, Any]) -> dict[str, Any]:
        reported = self._reported.pop(str(request["digest"]), Reported())
        if reported.used and request.get("again"):
            self.reported_by(str(request["digest"])).add(reported.used)  # an item's cap covers all its tries
        return {"failure": reported.failure, "retry_after": reported.retry_after, "used": reported.used}

    def do_land(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._publish(**request)

    def do_spent(self, _: dict[str, Any]) -> dict[str, Any]:
        caps, spent = self._batch.item_caps, self._reported.items()
        capped = ((item, budget.exceeded(caps, reported.used, lambda *_: 0.0)) for item, reported in spent)
        return {"over": {item: str(cap) for item, cap in capped if cap}}

    def do_reasons(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"reasons": self._items.reasons(self._batch.name, request["digests"])}

    def do_over(self, request: dict[str, Any]) -> dict[str, Any]:
        self.summary = request
        if self.bar:
            self.bar.close()
        return {}

    def _publish(self, digest: str, key: str, tries: int, targets: list[str], workspace: str) -> dict[str, Any]:
        if self._publishing is None:
            raise ValueError("this batch publishes nothing")
        publishing = self._publishing

        def intend(what: str) -> None:
            self._write(kinds.ITEMS_PUBLISHING, [(digest, key, BEGUN, tries, None, what, "publishing")])

        return publishing.publish(digest, key, targets, workspace, intend)

    def _write(self, kind: str, items: Sequence[tuple[str, str, str, int, int | None, str, str]]) -> None:
        run, at = self._writer.run, clock.wall()
        rows, keys = [], dict[str, list[str]]()
        for digest, key, status, tries, code, result, why in items:
            shown, reason = (clean(self.hidden.text(text)) for text in (result, why))
            row = ItemRow(
                scope=self._batch.name, digest=digest, key=clean(key), status=status, tries=tries, run=run.id,
                attempt=run.attempt, exit_code=code, result=shown, reason=reason, changed=at,
            )  # fmt: skip
            rows.append(ITEM.row(row))
            keys.setdefault(status, []).append(key)
        self._writer.record(kind, [(ITEM, rows)], **{status: "\n".join(some) for status, some in keys.items()})


def _ended_item(record: list[Any]) -> tuple[str, str, str, int, int | None, str, str]:
    digest, key, status, tries, exit_code, result, reason = record
    if status not in (DONE, FAILED, IN_DOUBT, SET_ASIDE):
        raise ValueError(f"an item cannot end as {status!r}")
    return str(digest), str(key), status, int(tries), int(exit_code), str(result), str(reason)


def _undecided(ledger: Ledger, name: str) -> list[Any]:
    """Items in doubt that need a person. If an item's command reported the doubt, the next start runs it again."""
    return [item for item in ledger.items.in_doubt(name) if item.exit_code != IN_DOUBT_ITSELF]


def _write_digests(path: str, digests: Iterable[str]) -> None:
    digests = iter(digests)
    with open(path, "wb") as file:
        while some := "".join(islice(digests, 4096)):
            file.write(bytes.fromhex(some))


def _begun_with(ledger: Ledger, batch: Batch) -> str:
    """The key template that the batch was last started with; "" if it never was."""
    noted = ledger.journal.last_note(batch.name, kinds.BATCH_KEY)
    return str(noted.facts["key"]) if noted else ""


def _check_key(ledger: Ledger, batch: Batch) -> None:
    """Refuse another key template: all items would look new, and be done again."""
    begun = _begun_with(ledger, batch)
    if begun and begun != clean(batch.key or _DEFAULT_KEY) and ledger.items.counts(batch.name):
        raise UsageError(
            f"the batch {batch.name} was begun with --key {shlex.quote(begun)}: with another key all its items would "
            f"be new, and done again. Use that key, or begin a batch under another name"
        )


def _check_home(store: Store, ledger: Ledger, name: str) -> None:
    """With a ledger per machine, a batch must go on where it began: elsewhere all items would be done again. Compares
    ledgers, not machines: two users of one machine each have their own."""
    home = store.look(_HOMES, name) if ledger_is_per_machine(store, ledger) else None
    if home and home.value.split(" ")[0] != ledger.id:
        raise Busy(
            f"the batch {name} was begun by {home.value.partition(' ')[2]}, and only the ledger there knows which of "
            f"its items are done. Continue there, or share a store that has the ledger in it (postgresql://…)"
        )


def _is_redirected(fd: int) -> bool:
    """Does a file or another program get what is printed there? No for a terminal, and for --quiet (/dev/null)."""
    try:
        return not os.isatty(fd) and not os.path.samestat(os.fstat(fd), os.stat(os.devnull))
    except OSError:  # closed
        return False
