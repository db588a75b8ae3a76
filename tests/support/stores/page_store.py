"""A whole store on one page of JSON, behind one lock: the smallest that keeps every promise.

An example for authors of stores, and the base of the broken ones, which each differ in one line.
Not durable, and not fast.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nightlatch.core.model import Begun, Done, Granted, Holder, Record, Takeover
from nightlatch.core.row import Cursor, Move
from nightlatch.core.value import replace
from nightlatch.errors import Busy, InputChanged, LeaseLost
from nightlatch.store.polling import PollingWaiter
from nightlatch.system import clock, identity

Page = dict[str, Any]


class PageStore:
    default_ttl = 60.0
    lists_begun = True
    has_clock = True

    def __init__(self, path: str) -> None:
        self.path = path
        self.url = f"page:{path}"
        self.folder = f"{path}.d"

    @property
    def id(self) -> str:
        with self._page() as page:
            return str(page["id"])

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
            lease = page["leases"].get(name)
            if lease and lease["grant"] not in ("", grant) and not self._may_take(lease, over):
                raise Busy(f"{name} is held", self._record(name, lease))
            lease = lease or self._new_lease()
            if lease["grant"] != grant:
                lease.update(previous=lease["token"], token=self._next(lease["token"]), since=clock.wall())
                if begin:
                    new = replace(begin, host=holder.host, token=lease["token"], at=clock.wall())
                    lease["begun"] = [one.__dict__ for one in Begun.add(_begun(lease), new)]
            lease.update(grant=grant, holder=holder.pack())
            page["leases"][name] = lease
            self._give_time(lease, ttl)
            return Granted(
                token=lease["token"],
                previous=lease["previous"],
                gates=tuple(lease["gates"]),
                begun=Begun.without(_begun(lease), {lease["token"]}),
            )

    def renew(self, name: str, grant: str, ttl: float) -> None:
        with self._page() as page:
            self._give_time(self._mine(page, name, grant), ttl)

    def release(self, name: str, grant: str, ended: Collection[int] = ()) -> None:
        with self._page() as page:
            lease = self._mine(page, name, grant)
            lease["begun"] = [one for one in lease["begun"] if one["token"] not in ended]
            self._end(page, name, lease)

    def evict(self, name: str) -> bool:
        with self._page() as page:
            lease = page["leases"].get(name)
            if not lease or not lease["grant"]:
                return False
            self._end(page, name, lease)
            return True

    def read(self, name: str) -> Record | None:
        with self._page() as page:
            lease = page["leases"].get(name)
            return self._record(name, lease) if lease else None

    def records(self) -> Iterator[Record]:
        with self._page() as page:
            return iter([self._record(name, lease) for name, lease in sorted(page["leases"].items())])

    def raise_token(self, name: str, above: int, grant: str = "") -> int:
        with self._page() as page:
            lease = self._mine(page, name, grant) if grant else page["leases"].setdefault(name, self._new_lease())
            before, lease["token"] = lease["token"], max(lease["token"], above) + 1
            for one in lease["begun"]:
                if grant and one["token"] == before:
                    one["token"] = lease["token"]
            self._change(lease)
            return int(lease["token"])

    def look(self, scope: str, key: str) -> Done | None:
        with self._page() as page:
            done = page["done"].get(f"{scope}\n{key}")
            return Done(**done) if done else None

    def settle(self, name: str, grant: str, scope: str, key: str, *, value: str = "", input: str = "") -> Done:
        with self._page() as page:
            lease = self._mine(page, name, grant)
            token = lease["token"]
            lease["begun"] = [one for one in lease["begun"] if (name, one["key"]) != (scope, key)]
            new = {"scope": scope, "key": key, "value": value, "input": input, "token": token, "at": clock.wall()}
            done = page["done"].setdefault(f"{scope}\n{key}", new)
            if input and done["input"] not in ("", input):
                raise InputChanged(f"{key} is done with other input")
            return Done(**done)

    def settle_many(self, name: str, grant: str, scope: str, keys: Mapping[str, str]) -> None:
        for key, value in keys.items():
            self.settle(name, grant, scope, key, value=value)

    def cursors(self, jobs: Collection[str] | None = None, *, due: float | None = None) -> list[Cursor]:
        with self._page() as page:
            rows = [Cursor(**row) for row in page["rows"].values()]
        return [row for row in rows if (jobs is None or row.job in jobs) and (due is None or row.wake <= due)]

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        with self._page() as page:
            return [self._move(page["rows"], move) for move in moves]

    def _move(self, rows: Page, move: Move) -> bool:
        row = rows.get(move.job, {"id": "", "slot": 0.0})
        if row["id"] == move.id:
            return True
        if row["id"] != move.seen or (move.slot > clock.wall() and move.slot > row["slot"]):
            return False
        rows[move.job] = {name: value for name, value in move.__dict__.items() if name != "seen"}
        return True

    def register(self, name: str, grant: str, gate: str) -> bool:
        with self._page() as page:
            gates = self._mine(page, name, grant)["gates"]
            if gate in gates:
                return False
            gates.append(gate)
            return True

    def gates(self, name: str) -> tuple[str, ...]:
        with self._page() as page:
            return tuple(page["leases"].get(name, {"gates": []})["gates"])

    def unregister(self, name: str, gate: str, grant: str = "") -> bool:
        with self._page() as page:
            lease = self._mine(page, name, grant) if grant else page["leases"].get(name, {"gates": []})
            gates = lease["gates"]
            if gate not in gates:
                return False
            gates.remove(gate)
            return True

    def listen(self, name: str) -> PollingWaiter:
        return PollingWaiter(every=0.01)

    def may_expire_by_observation(self, record: Record) -> bool:
        return True

    def clock(self) -> float:
        return clock.wall()

    def close(self) -> None:
        pass

    # What the verbs are made of; a broken store breaks one of these, or one verb.

    def _next(self, token: int) -> int:
        return max(token + 1, int(clock.wall() * 1000))

    def _expired(self, lease: Page) -> bool:
        return self.has_clock and bool(lease["expires"] <= clock.now())

    def _may_take(self, lease: Page, over: Takeover | None) -> bool:
        if over is None or over.grant != lease["grant"]:
            return False
        return self._expired(lease) or (over.proven and over.version == lease["version"])

    def _mine(self, page: Page, name: str, grant: str) -> Page:
        lease: Page | None = page["leases"].get(name)
        if lease is None or lease["grant"] != grant:
            raise LeaseLost(f"{name} is not held under this grant", reason="taken")
        return lease

    def _give_time(self, lease: Page, ttl: float) -> None:
        lease.update(ttl=ttl, expires=clock.now() + ttl, until=clock.wall() + ttl)
        self._change(lease)

    def _change(self, lease: Page) -> None:
        lease["version"] = identity.new_id()

    def _end(self, page: Page, name: str, lease: Page) -> None:
        lease.update(grant="", until=clock.wall())
        self._change(lease)

    def _new_lease(self) -> Page:
        empty = {"token": 0, "previous": 0, "grant": "", "holder": "", "ttl": 0.0, "expires": 0.0, "version": ""}
        return {**empty, "since": clock.wall(), "until": clock.wall(), "gates": [], "begun": []}

    def _record(self, name: str, lease: Page) -> Record:
        shown = {field: lease[field] for field in ("token", "grant", "ttl", "since", "until", "version")}
        left = lease["expires"] - clock.now() if self.has_clock else None
        return Record(name=name, holder=Holder.unpack(lease["holder"]), left=left, begun=_begun(lease), **shown)

    @contextmanager
    def _page(self) -> Iterator[Page]:
        """The page, nobody else's as long as the block runs; written back unless the block raises."""
        with open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            was = file.read()
            page = json.loads(was) if was else {"id": identity.new_id(), "leases": {}, "done": {}, "rows": {}}
            yield page
            if (text := json.dumps(page)) != was:
                file.seek(0)
                file.truncate()
                file.write(text)


def _begun(lease: Page) -> tuple[Begun, ...]:
    return tuple(Begun(**one) for one in lease["begun"])


class ClocklessStore(PageStore):
    """No clock that all agree on: nobody is expired here; a challenger has to watch."""

    has_clock = False
