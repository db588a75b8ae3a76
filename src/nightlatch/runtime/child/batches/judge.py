"""How an item ended, and what that means: for its record, for another try, for the batch."""

from __future__ import annotations

import random
import sys
from typing import Any

from ....core import breaker, duration, retry
from ....core.effects import DONE, FAILED, IN_DOUBT, SET_ASIDE
from ....core.printable import printable
from ....system import clock
from ...shared import usage
from ...shared.batches.items import IN_DOUBT_ITSELF, BatchItem
from ...shared.batches.template import BadItem
from .driver_client import DriverClient
from .item_process import ItemProcess
from .item_workspaces import ItemWorkspaces
from .summary import Summary

_NOT_THE_ITEMS_FAULT = (126, 127)  # its command cannot be started


class Judge:
    """Failed items are tried again while that may help and --retries allows it. One that says itself that trying is
    in vain is set aside: it waits for a person, and no start runs into it again."""

    def __init__(
        self,
        plan: dict[str, Any],
        client: DriverClient,
        workspaces: ItemWorkspaces | None,
        summary: Summary,
        total: int,
    ) -> None:
        self.plan, self.client, self.workspaces, self.summary, self._total = plan, client, workspaces, summary, total
        self.limit = breaker.Limit(plan["max_failures"]) if plan["max_failures"] else None
        self.breaker = breaker.Breaker()
        self.waiting: list[tuple[float, BatchItem, int]] = []  # (when, item, tries so far)
        self.blamed: list[tuple[str, list[Any]]] = []  # (failure, record) of the last items that were set aside
        self.not_before = 0.0  # a server has asked for patience: nothing is started sooner
        self.stopping = ""  # why nothing more is started

    def verdicts(self, ended: list[ItemProcess]) -> list[list[Any]]:
        return [self._judge(child) for child in ended] + self._heed_breaker()

    def unreadable(self, bad: BadItem) -> None:
        where = f"line {bad.line}"
        self.summary.failed.append((where, bad.what))
        self.breaker.add(where, breaker.alike(None, [bad.what]))
        self.failed()
        self._heed_breaker()

    def _heed_breaker(self) -> list[list[Any]]:
        why = self.breaker.tripped
        if not why or self.limit or self.stopping:
            return []
        # What most of them share is not this or that item's fault: none of them is set aside for it.
        freed = [record for failure, record in self.blamed if failure == why]
        keys = {record[1] for record in freed}
        self.summary.failed += [entry for entry in self.summary.aside if entry[0] in keys]
        self.summary.aside = [entry for entry in self.summary.aside if entry[0] not in keys]
        self.stop(
            f"paused: most of the last items failed in the same way ({why}). Put that right first, or say with "
            "--max-failures how many may"
        )
        return [[*record[:2], FAILED, *record[3:]] for record in freed]

    def _judge(self, child: ItemProcess) -> list[Any]:
        """How an item ended, as it is recorded; and what that means for the batch."""
        item, code = child.item, child.exit_code
        complaint = ""
        if self.plan["meter"] == "output":
            if used := usage.from_output(child.tail()):
                self.client.ask(do="spend", item=item.digest.hex(), **used)
            complaint = usage.complaint(child.tail())
        if child.succeeded and complaint:
            return self._fail(child, complaint, {}, again=True)
        if child.succeeded:
            refused = self._publish(child)
            if refused:
                return self._fail(child, refused["failed"], {}, again=refused["again"])
            self.summary.done += 1
            self.breaker.add(item.key, "")
            return [item.digest.hex(), item.key, DONE, child.tries, code, child.result(), ""]
        doubt = [item.digest.hex(), item.key, IN_DOUBT, child.tries, code, "", child.reason]
        if code == IN_DOUBT_ITSELF:
            self.summary.doubts.append((item.key, child.complaint() or child.reason))
            return doubt
        if child.killed and self.plan["lost"] == "doubt":
            # As one in flight when its batch dies: that may be happening now.
            self.summary.killed.append((item.key, child.reason))
            return doubt
        trying = child.tries <= self.plan["retries"] and not child.over_budget
        reply = self.client.ask(do="item-report", digest=item.digest.hex(), again=trying)
        again = not child.over_budget and (child.timed_out or retry.worth_another(FAILED, code))
        return self._fail(child, reply["failure"], reply, again=again)

    def _publish(self, child: ItemProcess) -> dict[str, Any]:
        """An item is done when its result has landed. {}, or why it has not."""
        if not self.workspaces:
            return {}
        item = child.item
        reply = self.client.ask(
            do="land",
            digest=item.digest.hex(),
            key=item.key,
            tries=child.tries,
            targets=self.workspaces.targets(item.content),
            workspace=child.workspace,
        )
        if "failed" not in reply:
            self.workspaces.remove(item, child.tries)
            return {}
        return reply

    def _fail(self, child: ItemProcess, why: str, reply: dict[str, Any], *, again: bool) -> list[Any]:
        item, code, reason = child.item, child.exit_code, why or child.reason
        alike = breaker.alike(code, [why] if why else child.complaint().splitlines())
        self.breaker.add(item.key, alike)
        at_least = reply.get("retry_after", 0.0)
        if at_least:
            self._hold(at_least, item.key)
        record = [item.digest.hex(), item.key, FAILED, child.tries, code, "", reason]
        if again and child.tries <= self.plan["retries"] and not self.stopping:
            chance = random.random()  # noqa: S311 - jitter is no secret
            pause = retry.pause(child.tries, base=self.plan["backoff"], chance=chance, at_least=at_least)
            self.waiting.append((clock.now() + pause, item, child.tries))
            return record
        last = "" if reason in child.complaint() else _last(child.complaint())
        shown = (item.key, why or f"{reason}{last}")
        if child.workspace:
            record[6] = f"{reason}. Its workspace: {child.workspace}"
        if again or code in _NOT_THE_ITEMS_FAULT:
            self.summary.failed.append(shown)
        else:
            record[2] = SET_ASIDE
            self.summary.aside.append(shown)
            self.blamed = [*self.blamed[-9:], (alike, record)]
        self.failed()
        return record

    def _hold(self, at_least: float, key: str) -> None:
        until = clock.now() + min(at_least, retry.LONGEST)
        if until > self.not_before + 1.0:
            wait = duration.show(until - clock.now())
            print(f"nightlatch: nothing is started for {wait}: {printable(key)} was asked to wait", file=sys.stderr)
        self.not_before = max(self.not_before, until)

    def failed(self) -> None:
        failed = len(self.summary.failed) + len(self.summary.aside)
        if self.plan["fail_fast"]:
            self.stop("an item failed, and --fail-fast was given")
        elif self.limit and self.limit.passed(failed, self._total):
            self.stop(
                f"{failed} item{'s' if failed > 1 else ''} failed, more than --max-failures {self.plan['max_failures']}"
            )

    def stop(self, why: str) -> None:
        self.stopping = self.stopping or why
        for _, item, _ in self.waiting:
            self.summary.failed.append((item.key, "not tried again"))
        self.waiting.clear()


def _last(complaint: str) -> str:
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    return f": {lines[-1][:200]}" if lines else ""
