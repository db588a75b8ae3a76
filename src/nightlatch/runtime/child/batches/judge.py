"""Judges how an item ended: what is recorded, whether it is tried again, whether the batch stops."""

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

_NOT_THE_ITEMS_FAULT = (126, 127)  # exit codes of a command that cannot be started


class Judge:
    """Failed items are tried again while that may help and --retries allows it. After a permanent failure the item
    is set aside: it waits for a person, and no later start tries it."""

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
        self.recently_set_aside: list[tuple[str, list[Any]]] = []  # (failure, record) of the items set aside last
        self.not_before = 0.0  # a server asked us to wait: nothing is started sooner
        self.stopping = ""  # why nothing more is started

    def verdicts(self, ended: list[ItemProcess]) -> list[list[Any]]:
        """The records to write: of the items that ended, and of those that the breaker no longer sets aside."""
        return [self._judge(child) for child in ended] + self._obey_breaker()

    def unreadable(self, bad: BadItem) -> None:
        where = f"line {bad.line}"
        self.summary.failed.append((where, bad.what))
        self.breaker.add(where, breaker.failure_shape(None, [bad.what]))
        self._stop_at_limit()
        self._obey_breaker()

    def _obey_breaker(self) -> list[list[Any]]:
        why = self.breaker.tripped
        if not why or self.limit or self.stopping:
            return []
        # A failure that most items share is not the fault of a single item: none of them is set aside for it.
        freed = [record for failure, record in self.recently_set_aside if failure == why]
        keys = {record[1] for record in freed}
        self.summary.failed += [entry for entry in self.summary.set_aside if entry[0] in keys]
        self.summary.set_aside = [entry for entry in self.summary.set_aside if entry[0] not in keys]
        self.stop(
            f"paused: most of the last items failed in the same way ({why}). Fix the cause first, or set --max-failures"
        )
        return [[*record[:2], FAILED, *record[3:]] for record in freed]

    def _judge(self, child: ItemProcess) -> list[Any]:
        """Returns the record of how an item ended; stops the batch if necessary."""
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
        in_doubt = [item.digest.hex(), item.key, IN_DOUBT, child.tries, code, "", child.reason]
        if code == IN_DOUBT_ITSELF:
            self.summary.doubts.append((item.key, child.complaint() or child.reason))
            return in_doubt
        if child.killed and self.plan["lost"] == "doubt":
            # Treat it as lost: whatever killed it may be about to kill the batch too.
            self.summary.killed.append((item.key, child.reason))
            return in_doubt
        may_retry = child.tries <= self.plan["retries"] and not child.over_budget
        reply = self.client.ask(do="item-report", digest=item.digest.hex(), again=may_retry)
        again = not child.over_budget and (child.timed_out or retry.worth_another(FAILED, code))
        return self._fail(child, reply["failure"], reply, again=again)

    def _publish(self, child: ItemProcess) -> dict[str, Any]:
        """Publish the item's result, without which it is not done. Returns {}, or the reply that says why it failed."""
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
        failure_shape = breaker.failure_shape(code, [why] if why else child.complaint().splitlines())
        self.breaker.add(item.key, failure_shape)
        retry_after = reply.get("retry_after", 0.0)
        if retry_after:
            self._pause_starts(retry_after, item.key)
        record = [item.digest.hex(), item.key, FAILED, child.tries, code, "", reason]
        if again and child.tries <= self.plan["retries"] and not self.stopping:
            chance = random.random()  # noqa: S311 - jitter is not a secret
            pause = retry.pause(child.tries, base=self.plan["backoff"], chance=chance, at_least=retry_after)
            self.waiting.append((clock.now() + pause, item, child.tries))
            return record
        last_line = "" if reason in child.complaint() else _last_line(child.complaint())
        shown = (item.key, why or f"{reason}{last_line}")
        if child.workspace:
            record[6] = f"{reason}. Its workspace: {child.workspace}"
        if again or code in _NOT_THE_ITEMS_FAULT:
            self.summary.failed.append(shown)
        else:
            record[2] = SET_ASIDE
            self.summary.set_aside.append(shown)
            self.recently_set_aside = [*self.recently_set_aside[-9:], (failure_shape, record)]
        self._stop_at_limit()
        return record

    def _pause_starts(self, retry_after: float, key: str) -> None:
        until = clock.now() + min(retry_after, retry.LONGEST)
        if until > self.not_before + 1.0:
            wait = duration.show(until - clock.now())
            print(f"nightlatch: no item starts for {wait}: a server asked {printable(key)} to wait", file=sys.stderr)
        self.not_before = max(self.not_before, until)

    def _stop_at_limit(self) -> None:
        failed = len(self.summary.failed) + len(self.summary.set_aside)
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


def _last_line(complaint: str) -> str:
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    return f": {lines[-1][:200]}" if lines else ""
