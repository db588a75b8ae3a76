"""Stores whose other records are each broken in one way: done keys, jobs' rows, gates; and their connections."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from nightlatch.core.model import Begun, Done, Granted, Holder, Takeover
from nightlatch.core.row import Cursor, Move
from nightlatch.core.value import replace
from nightlatch.system import identity
from nightlatch.testing import stores
from tests.support.stores.broken import Unchecked, caught_by
from tests.support.stores.page_store import Page, PageStore

# Done keys


@caught_by(stores.DoneKeys)
class TheLastSettleStays(PageStore):
    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        with self._page() as page:
            self._mine(page, name, grant)
            page["done"].pop(f"{scope}\n{key}", None)
        return super().settle(name, grant, scope, key, value=value, input=input)


@caught_by(stores.DoneKeys)
class OtherInputIsNotNoticed(PageStore):
    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        return super().settle(name, grant, scope, key, value=value)


@caught_by(stores.DoneKeys)
class AStaleHolderMaySettleWhatIsDone(PageStore):
    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        return self.look(scope, key) or super().settle(name, grant, scope, key, value=value, input=input)


@caught_by(stores.DoneKeys)
class KeysHaveNoScope(PageStore):
    def look(self, scope: str, key: str) -> Done | None:
        return super().look("", key)

    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        return super().settle(name, grant, "", key, value=value, input=input)


# Keys that were begun


@caught_by(stores.KeysBegun)
class TheNextHolderForgetsWhatWasBegun(PageStore):
    def acquire(
        self,
        name: str,
        grant: str,
        holder: Holder,
        ttl: float,
        over: Takeover | None = None,
        begin: Begun | None = None,
    ) -> Granted:
        with self._page() as page:
            if begin and (lease := page["leases"].get(name)) and lease["grant"] != grant:
                lease["begun"] = []
        return super().acquire(name, grant, holder, ttl, over, begin)


@caught_by(stores.KeysBegun)
class ReleaseEndsWhateverWasBegun(PageStore):
    def _end(self, page: Page, name: str, lease: Page) -> None:
        super()._end(page, name, lease)
        lease["begun"] = []


@caught_by(stores.KeysBegun)
class WhatIsSettledStaysBegun(PageStore):
    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        with self._page() as page:
            begun = self._mine(page, name, grant)["begun"]
        done = super().settle(name, grant, scope, key, value=value, input=input)
        with self._page() as page:
            page["leases"][name]["begun"] = begun
        return done


# Jobs' rows


@caught_by(stores.Cursors)
class TheRowMovesForEverybody(PageStore):
    def _move(self, rows: Page, move: Move) -> bool:
        return super()._move(rows, replace(move, seen=rows.get(move.job, {"id": ""})["id"]))


@caught_by(stores.Cursors)
class TheRowRunsAheadOfTheClock(PageStore):
    def _move(self, rows: Page, move: Move) -> bool:
        won = super()._move(rows, replace(move, slot=0.0))
        if won:
            rows[move.job]["slot"] = move.slot
        return won


@caught_by(stores.Cursors)
class AMoveThatIsSentAgainHasLost(PageStore):
    def _move(self, rows: Page, move: Move) -> bool:
        return rows.get(move.job, {"id": ""})["id"] != move.id and super()._move(rows, move)


@caught_by(stores.Cursors)
class ARowCannotBeSetBack(PageStore):
    def _move(self, rows: Page, move: Move) -> bool:
        return rows.get(move.job, {"slot": 0.0})["slot"] <= move.slot and super()._move(rows, move)


@caught_by(stores.Cursors)
class OneLostMoveLosesAll(PageStore):
    def advance(self, moves: Sequence[Move]) -> list[bool]:
        with self._page() as page:
            rows = dict(page["rows"])
            won = [self._move(rows, move) for move in moves]
            if all(won):
                page["rows"] = rows
            return won if all(won) else [False] * len(won)


@caught_by(stores.Cursors)
class TheRowIsComparedBeforeItIsLocked(PageStore):
    def advance(self, moves: Sequence[Move]) -> list[bool]:
        with self._page() as page:
            rows = dict(page["rows"])
        won = [self._move(rows, move) for move in moves]
        time.sleep(0.01)
        with self._page() as page:
            page["rows"] |= {move.job: rows[move.job] for move, yes in zip(moves, won, strict=True) if yes}
        return won


@caught_by(stores.Cursors)
class TheRowForgetsFractions(PageStore):
    def cursors(self, jobs: Collection[str] | None = None, *, due: float | None = None) -> list[Cursor]:
        return [replace(row, slot=float(int(row.slot))) for row in super().cursors(jobs, due=due)]


@caught_by(stores.Cursors)
class EveryRowIsWorthALook(PageStore):
    def cursors(self, jobs: Collection[str] | None = None, *, due: float | None = None) -> list[Cursor]:
        return super().cursors(jobs)


# The registry of gates


@caught_by(stores.GateRegistry)
class GatesAreForgottenOnRelease(PageStore):
    def _end(self, page: Page, name: str, lease: Page) -> None:
        super()._end(page, name, lease)
        lease["gates"] = []


@caught_by(stores.GateRegistry)
class GatesAreForgottenOnTakeover(PageStore):
    def _may_take(self, lease: Page, over: Takeover | None) -> bool:
        may = super()._may_take(lease, over)
        lease["gates"] = [] if may else lease["gates"]
        return may


@caught_by(stores.GateRegistry)
class AGateStandsOnTheListTwice(PageStore):
    def register(self, name: str, grant: str, gate: str) -> bool:
        with self._page() as page:
            self._mine(page, name, grant)["gates"].append(gate)
            return True


@caught_by(stores.GateRegistry)
class RegisterChecksBeforeItIsLocked(PageStore):
    """The lease moves between check and write: the new holder is not given a gate that the old one believes in."""

    def register(self, name: str, grant: str, gate: str) -> bool:
        with self._page() as page:
            self._mine(page, name, grant)
        time.sleep(0.01)
        return Unchecked(self.path).register(name, grant, gate)


@caught_by(stores.GateRegistry)
class UnregisterChecksBeforeItIsLocked(PageStore):
    """The lease moves between check and write: the taker has sealed a gate that its successors will not."""

    def unregister(self, name: str, gate: str, grant: str = "") -> bool:
        with self._page() as page:
            if grant:
                self._mine(page, name, grant)
        time.sleep(0.01)
        return super().unregister(name, gate)


# Connections


@caught_by(stores.Connections)
class EveryConnectionHasAnIdOfItsOwn(PageStore):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._id = identity.new_id()

    @property
    def id(self) -> str:
        return self._id


@caught_by(stores.Connections)
class ClosedIsClosedForGood(PageStore):
    _closed = False

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def _page(self) -> Iterator[Page]:
        assert not self._closed, "closed"
        with super()._page() as page:
            yield page


@caught_by(stores.Connections)
class RemembersWhatItRead(PageStore):
    """A cache that nobody invalidates."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._seen: dict[str, object] = {}

    def read(self, name: str):
        if name not in self._seen:
            self._seen[name] = super().read(name)
        return self._seen[name]
