"""The verbs of an agent's driver at the run's socket: what is known of a launch, and what became of it."""

from __future__ import annotations

import os
from _thread import allocate_lock

from ....core import advice
from ....core import agent as names
from ....core.agent import PREPARED
from ....core.units import Amounts
from ....core.value import replace
from ....errors import StoreUnreachable
from ....ledger import kinds
from ....ledger.agents import AGENT, AgentRow
from ....system import durable
from ...shared.effect_records import EffectRecords
from .allowance import CAPPED, Allowances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ....core.budget import Cap
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Records, Writer
    from ...shared.leases.lease import Lease
    from ..run.spending import Spending
    from .by_handle import Canceller

    Spend = Callable[[dict[str, float], dict[str, str], Records], str]

SUCCEEDED = "succeeded"


class AgentsAtWork:
    """May be used by any thread: in a batch, each item's driver has its own launch."""

    def __init__(
        self,
        lease: Lease,
        ledger: Ledger,
        writer: Writer,
        spending: Spending,
        used: Mapping[str, float],
        spend: Spend,
        redacted: Callable[[str], str],
        *,
        folder: str,
        again: bool,
        environment: dict[str, str],
        cwd: str,
    ) -> None:
        """`folder`: the run's, for the agent's answer. `again`: the key's work is wanted once more. `environment`,
        `cwd`: the command's, for the process that ends an agent without its driver."""
        self._lease, self._ledger, self._writer, self._folder, self._again = lease, ledger, writer, folder, again
        self._spend, self._redacted = spend, redacted
        self._environment, self._cwd = environment, cwd
        self._allowances = Allowances(ledger, writer, spending, used)
        self._mutex = allocate_lock()
        self._rows: dict[str, AgentRow] = {}  # by launch
        self._cancellers: dict[str, Canceller] = {}  # by launch
        self._unconfirmed: dict[str, str] = {}  # handle → why its end is not known

    def warm_up(self) -> None:
        """Import what the driver's requests need, while the driver starts."""
        from ..effects import effect_requests  # noqa: F401

        names.label(self._writer.run.job, "")  # hashlib

    def begin(
        self, request: dict[str, Any], item_caps: tuple[Cap, ...], item_used: Mapping[str, float]
    ) -> dict[str, Any]:
        """The key's current launch: what is known of it, and what it may use."""
        job, key, item = self._writer.run.job, str(request["key"]), str(request.get("item") or "")
        for left in self._at_work(item):
            self._settle(left)  # an agent of the item's last try, which is being ended
        number, launch = next_launch(self._lease.store, self._ledger, job, key, again=self._again)
        row = self._ledger.agents.find(job, launch)
        with self._mutex:
            if row:
                self._rows[launch] = row
            given = self._allowances.give(launch, item, item_caps, item_used)
        return {
            "launch": launch,
            "label": names.label(job, launch),
            "number": number,
            "handle": row.handle if row else "",
            "given": given,
            "used": row.used.by_unit() if row else {},
        }

    def record(self, request: dict[str, Any]) -> dict[str, float]:
        """Record what the driver reports of an agent. Returns what was used since the last report."""
        run, now, launch = self._writer.run, self._writer.now(), str(request["launch"])
        ended = bool(request.get("ended"))
        if ended:  # first in the store, where all machines see it: a second launch would cost money
            self._lease.store.settle(
                self._lease.name, self._lease.grant, names.ended_scope(run.job), launch, value=str(request["status"])
            )
        with self._mutex:
            last = self._rows.get(launch)
            texts = {word: self._redacted(str(request.get(word) or "")) for word in ("note", "page", "fields")}
            facts = {word: str(request[word]) for word in ("provider", "agent", "handle", "status")}
            row = AgentRow(
                job=run.job, launch=launch, run=run.id, item=str(request.get("item") or ""), **facts, **texts,
                used=last.used if last else Amounts(), began=last.began if last else now, changed=now,
                ended=now if ended else None,
            )  # fmt: skip
            total = {unit: float(amount) for unit, amount in (request.get("used") or {}).items() if unit in CAPPED}
            before = row.used.by_unit()
            more = {unit: amount - before[unit] for unit, amount in total.items() if amount > before[unit]}
            more = {unit: round(amount, 9) for unit, amount in more.items()}
            row = replace(row, used=Amounts(**{**before, **{unit: total[unit] for unit in more}}))
            self._rows[launch] = row
            held = self._allowances.lower_hold(launch, None if ended else Amounts(**more)) if more or ended else ()
        if answer := str(request.get("answer") or ""):
            folder = durable.private_folder(self._folder)
            durable.replace(os.path.join(folder, "answer.md"), self._redacted(answer).encode())
        records = ((AGENT, [AGENT.row(row)]), *held)
        if more:
            about = {"model": str(request.get("model") or ""), "item": row.item, "source": "vendor"}
            self._spend(more, about, records)
        if last is None or ended or (last.handle, last.status, last.note) != (row.handle, row.status, row.note):
            self._note(row, () if more else records)
        return more

    def _note(self, row: AgentRow, records: Records) -> None:
        facts = {name: getattr(row, name) or None for name in ("agent", "note", "page", "item")}
        self._writer.record(
            kinds.AGENT,
            records,
            handle=row.handle,
            provider=row.provider,
            status=row.status,
            launch=row.launch,
            **facts,
        )

    def _at_work(self, item: str | None = None) -> list[AgentRow]:
        """Agents that still work, as far as is known: those of an item, or all."""
        with self._mutex:
            found = [row for row in self._rows.values() if row.ended is None and row.status != PREPARED]
        return [row for row in found if row.handle and item in (None, row.item)]

    def cancel(self, item: str | None = None) -> list[AgentRow]:
        """Begin to end the agents of an item, or all, by their handles: their drivers are gone. Returns them."""
        from .by_handle import Canceller

        left = self._at_work(item)
        for row in left:
            with self._mutex:
                if row.launch not in self._cancellers:
                    self._cancellers[row.launch] = Canceller(row, self._environment, self._cwd)
        return left

    def end(self, why: str) -> str:
        """Cancel all agents and wait for their ends. Returns what a person has to do; "": nothing. `why`: the cause,
        for that sentence."""
        for row in self.cancel():
            self._settle(row)
        if not self._unconfirmed:
            return ""
        unconfirmed = ", ".join(f"{handle} ({note})" for handle, note in self._unconfirmed.items())
        to_type = advice.command("agent", "cancel", next(iter(self._unconfirmed)))
        return f"{why}, and the vendor did not confirm the end of {unconfirmed}: {to_type}"

    def _settle(self, row: AgentRow) -> None:
        """Wait until an agent that is being cancelled has ended, or the vendor did not confirm that in time."""
        with self._mutex:
            canceller = self._cancellers.pop(row.launch, None)
        if canceller is None:
            return
        status, note = canceller.wait_for_end()
        if status:
            self._record_end(row, status, note)
        else:
            self._unconfirmed[row.handle] = note

    def _record_end(self, row: AgentRow, status: str, note: str) -> None:
        """Record that an agent was ended by its handle, as the vendor has confirmed."""
        facts = {
            name: getattr(row, name) for name in ("launch", "item", "provider", "agent", "handle", "page", "fields")
        }
        try:
            self.record({**facts, "status": status, "note": note, "ended": True})
        except StoreUnreachable:
            pass  # the next attempt finds it ended at the vendor


def next_launch(store: Store, ledger: Ledger, job: str, key: str, *, again: bool) -> tuple[int, str]:
    """The number of the key's first launch that is not over, whether it was made or not; and the key of its effect.
    `again`: the key's work is wanted once more."""
    number = 0
    while _is_over(store, ledger, job, key, number, again):
        number += 1
    return number, names.launch_key(key, number)


def _is_over(store: Store, ledger: Ledger, job: str, key: str, number: int, again: bool) -> bool:
    """May another launch follow this one? Only when it has ended; after a success, only if the work is wanted again, or
    the next launch was begun already."""
    ended = store.look(names.ended_scope(job), names.launch_key(key, number))
    if ended is None:
        return False
    if ended.value != SUCCEEDED or again:
        return True
    return any(EffectRecords(store, ledger, job, names.launch_key(key, number + 1)).peek(""))
