"""The summary of a batch: how many items of each outcome, which ones failed, and the command that continues it."""

from __future__ import annotations

from typing import Any

from ....core import advice, effects
from ....core.printable import printable

_NAMED = 10  # items that a line names; the ledger has them all
LISTED = 200  # items of each status that the JSON lists


class Summary:
    def __init__(self, name: str, again: str, *, piped: bool) -> None:
        self.name, self.again = name, again  # `again`: the command that continues the batch
        self.items_too = ", with the items on standard input as before" if piped else ""
        self.done = self.skipped = self.doubled = 0  # `doubled`: items whose key had occurred before
        self.failed: list[tuple[str, str]] = []  # (key, why): the next start does them again
        self.set_aside: list[tuple[str, str]] = []  # the next start does not: their failure is permanent
        self.aside_before: list[tuple[str, str]] = []  # set aside by an earlier start
        self.doubts: list[tuple[str, str]] = []  # their command reported that they are in doubt
        self.killed: list[tuple[str, str]] = []  # killed from outside, so that nobody knows whether they acted
        self.waiting: list[tuple[str, str]] = []  # `killed`, and those in doubt from earlier starts; filled at the end
        self.duplicates: list[str] = []  # some of the doubled items, to be named: the first ones found
        self.unrecorded: list[str] = []  # keys of items whose end could not be recorded
        self.stopped = ""  # why not all items were tried

    @property
    def unfinished(self) -> bool:
        return any((self.failed, self.set_aside, self.aside_before, self.doubts, self.waiting, self.unrecorded))

    def short(self) -> str:
        doubt, set_aside = len(self.doubts) + len(self.waiting), len(self.set_aside) + len(self.aside_before)
        text = f"{self.done} done, {self.skipped} skipped, {len(self.failed)} failed, {doubt} in doubt"
        return text + (f", {set_aside} set aside" if set_aside else "")

    def text(self) -> str:
        lines = [f"nightlatch: {self.name}: {self.short()}" + (f" ({self.stopped})" if self.stopped else "")]
        lines += _listed("failed", _named(self.failed), len(self.failed))
        set_aside = [*self.set_aside, *self.aside_before]
        lines += _listed("set aside, they failed for good", _named(set_aside), len(set_aside))
        lines += _listed("in doubt, as their command reported", [key for key, _ in self.doubts])
        lines += _listed("in doubt, not done again", _named(self.waiting), len(self.waiting))
        lines += _listed("done once, though their key occurs more than once", self.duplicates, self.doubled)
        lines += _listed("ended, but not recorded: in doubt for the next start", self.unrecorded)
        if self.waiting:
            words = effects.words_to_type(self.waiting[0][0], "done", options=("--batch", self.name))
            lines.append(f"  look, then: {advice.command('resolve', *words)}   (or failed, or again)")
            if len(self.waiting) > 1:
                every = advice.command("resolve", "--all", "done", "--batch", self.name)
                lines.append(f"  or for all that wait: {every}   (or failed, or again)")
        if self.failed or self.doubts or self.stopped or self.unrecorded:
            lines.append(f"  to continue with the unfinished items{self.items_too}: {self.again}")
        if self.set_aside or self.aside_before:
            lines.append(f"  to try those set aside too{self.items_too}: {self.again_with('--retry-failed')}")
        return "\n".join(lines)

    def again_with(self, option: str) -> str:
        command, _, rest = self.again.partition(" batch ")
        return self.again if option in rest.split(" -- ")[0].split() else f"{command} batch {option} {rest}"

    def facts(self, exit_code: int) -> dict[str, Any]:
        """For JSON."""
        by_status = {
            "failed": self.failed,
            "in-doubt": [*self.doubts, *self.waiting, *((key, "ended, but not recorded") for key in self.unrecorded)],
            "needs-attention": [*self.set_aside, *self.aside_before],
        }
        return {
            "version": 1,
            "batch": self.name,
            "exit_code": exit_code,
            "done": self.done,
            "skipped": self.skipped,
            "failed": len(self.failed),
            "in_doubt": len(by_status["in-doubt"]),
            "set_aside": len(by_status["needs-attention"]),
            "doubled": self.doubled,
            "stopped": self.stopped,
            "items": [
                {"key": key, "status": status, "reason": why.strip()[-500:]}
                for status, found in by_status.items()
                for key, why in found[:LISTED]
            ],
            "again": self.again,
        }

    def exit_code(self, signum: int) -> int:
        if signum:
            return 128 + signum
        if self.doubts or self.waiting or self.unrecorded:
            return 76
        return 1 if self.failed or self.set_aside or self.aside_before or self.stopped else 0


def _named(found: list[tuple[str, str]]) -> list[str]:
    """The keys that are named, with their reasons; a shared reason is given once."""
    by_reason: dict[str, list[str]] = {}
    for key, why in found[:_NAMED]:
        by_reason.setdefault(why, []).append(key)
    return [", ".join(keys) + (f" ({why})" if why else "") for why, keys in by_reason.items()]


def _listed(title: str, what: list[str], count: int | None = None) -> list[str]:
    count = len(what) if count is None else count
    if not count:
        return []
    more = f", … {count - _NAMED} more" if count > _NAMED else ""
    return [printable(f"  {title}: {', '.join(what[:_NAMED])}{more}")]
