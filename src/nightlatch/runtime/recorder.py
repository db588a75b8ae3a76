"""A run's steps, on the supervisor's side: what is known of them, and their checkpoints by the run's one writer."""

from __future__ import annotations

import os

from ..core.effects import BEGUN, DONE, FAILED
from ..core.states import LOST
from ..ledger.chain import clean
from ..ledger.steps import RUN_SCOPE, STEP
from ..system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..ledger.ledger import Ledger
    from ..ledger.writer import Writer

    Told = Sequence[Any]  # digest, key, state, tries, result, reason

_COUNT_EVERY = 1.0  # seconds between two records of how far a map is


class Recorder:
    """For one writer: the run's, or that of a run inside it."""

    def __init__(self, ledger: Ledger, writer: Writer, folder: str, redacted: Callable[[str], str]) -> None:
        self._ledger, self._writer, self._folder, self._redacted = ledger, writer, folder, redacted
        self._scope = ""
        self._counted_at = 0.0
        self._asked = 0

    @property
    def scope(self) -> str:
        if not self._scope:
            run = self._writer.run
            # A first attempt has no success behind it that would have to be looked for.
            self._scope = f"{RUN_SCOPE}{run.id}" if run.attempt <= 1 else self._ledger.steps.scope_of(run.id)
        return self._scope

    def known(self) -> dict[str, Any]:
        """A file with what earlier attempts have left, a step a line; "" if they left nothing.

        Not through the socket: it may be long, and a child that is stopped while it reads must not stop us too.
        """
        if self._writer.run.attempt <= 1:
            return {"path": ""}  # nobody was here before
        self._asked += 1  # who asks removes the file, and two may ask at once
        path, some = os.path.join(self._folder, f"steps-{self._writer.run.id}-{self._asked}"), False
        lost = {one.attempt for one in self._ledger.attempts(self._writer.run.id) if one.state == LOST}
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            for digest, state, tries, attempt, result in self._ledger.steps.facts(self.scope):
                some = True
                # Where the supervisor died too, it was not the step that ended the attempt.
                counted = tries - (state == BEGUN and attempt in lost)
                file.write(f"{digest} {state} {counted} {result}\n")
        return {"path": path if some else ""}

    def write(self, requests: Sequence[dict[str, Any]]) -> None:
        """What several requests tell of steps, in one commit."""
        run, at = self._writer.run, int(clock.wall() * 1000)
        rows: dict[str, tuple[object, ...]] = {}
        keys: dict[str, list[str]] = {}
        for request in requests:
            for digest, key, state, tries, result, reason in request["steps"]:
                if state not in (BEGUN, DONE, FAILED):
                    raise ValueError(f"a step cannot be {state!r}")
                why = clean(self._redacted(reason)) if reason else ""
                # By digest: the last word on a step counts, and no database takes two on one row in one statement.
                rows[digest] = (
                    self.scope, str(digest), clean(key), state, int(tries), run.id, run.attempt, None, str(result),
                    why, at,
                )  # fmt: skip
                keys.setdefault(state, []).append(str(key))
        facts = {state: "\n".join(names) for state, names in keys.items()}
        self._writer.record("steps", [(STEP, list(rows.values()))], **facts)
        self._count(requests)

    def _count(self, requests: Sequence[dict[str, Any]]) -> None:
        """How far a map is, for people who look; once a second is enough."""
        last = next((request for request in reversed(requests) if request.get("of")), None)
        now = clock.now()
        if last and (now - self._counted_at > _COUNT_EVERY or last["done"] == last["of"]):
            self._counted_at = now
            self._writer.progress(int(last["done"]), int(last["of"]), str(last.get("message") or ""))
