"""What a batch tells at its end: how many of each, which ones failed, and what to type to go on."""

from __future__ import annotations

import shlex

_NAMED = 10  # items that are named; the ledger knows them all


class Summary:
    def __init__(self, name: str, again: str) -> None:
        self.name, self.again = name, again
        self.done = self.skipped = self.doubled = 0
        self.failed: list[tuple[str, str]] = []  # (key, why)
        self.doubts: list[tuple[str, str]] = []  # their command said so
        self.waiting: list[str] = []  # in doubt since before: a person has to look
        self.doubles: list[str] = []
        self.unrecorded: list[str] = []
        self.stopped = ""

    def short(self) -> str:
        doubt = len(self.doubts) + len(self.waiting)
        return f"{self.done} done, {self.skipped} skipped, {len(self.failed)} failed, {doubt} in doubt"

    def text(self) -> str:
        lines = [f"nightlatch: {self.name}: {self.short()}" + (f" ({self.stopped})" if self.stopped else "")]
        lines += _listed("failed", [f"{key}{' (' + why + ')' if why else ''}" for key, why in self.failed])
        lines += _listed("in doubt, by their command's word", [key for key, _ in self.doubts])
        lines += _listed("in doubt, not done again", self.waiting)
        lines += _listed("a key that stands there more than once was done once", self.doubles, self.doubled)
        lines += _listed("ended, but not recorded: in doubt for the next start", self.unrecorded)
        if self.waiting:
            name, key = shlex.quote(self.name), shlex.quote(self.waiting[0])
            lines.append(
                f"  look, then: nightlatch batch {name} --resolve done {key}   (or failed, or again; no key: all)"
            )
        if self.failed or self.doubts or self.stopped or self.unrecorded:
            lines.append(f"  go on with what is unfinished: {self.again}")
        return "\n".join(lines)

    def exit_code(self, signum: int) -> int:
        if signum:
            return 128 + signum
        if self.doubts or self.waiting or self.unrecorded:
            return 76
        return 1 if self.failed or self.stopped else 0


def _listed(title: str, what: list[str], count: int | None = None) -> list[str]:
    count = len(what) if count is None else count
    if not count:
        return []
    more = f", … {count - _NAMED} more" if count > _NAMED else ""
    return [f"  {title}: {', '.join(what[:_NAMED])}{more}"]
