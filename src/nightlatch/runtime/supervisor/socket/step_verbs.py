"""Verbs about a command's steps, and the runs inside its run. Requests that arrive together are recorded together."""

from __future__ import annotations

from ....errors import Error, Stop
from ...shared.replies import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from ...shared.leases.lease import Lease
    from ...shared.steps.nested_runs import NestedRuns
    from ...shared.steps.recorder import Recorder

    Record = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


class StepVerbs:
    def __init__(
        self,
        lease: Lease,
        ledger: Ledger,
        writer: Writer,
        folder: str,
        redacted: Callable[[str], str],
        progressed: Callable[[], None],
    ) -> None:
        self._lease, self._ledger, self._writer, self._folder = lease, ledger, writer, folder
        self._redacted, self._progressed = redacted, progressed
        self._own: Recorder | None = None  # for steps that are not in a nested run
        self._nested_runs: NestedRuns | None = None
        self._child_writes = False  # does the command write steps and nested runs itself?

    def tick(self, now: float) -> float:
        """Write what waited to be written together; returns when to call this again."""
        return self._nested_runs.tick(now) if self._nested_runs else float("inf")

    def abandon(self) -> None:
        """Nothing of the command is left: end the nested runs that it left open."""
        if self._nested_runs or self._child_writes:
            self._nested.abandon(child_writes=self._child_writes)

    @property
    def _nested(self) -> NestedRuns:
        if self._nested_runs is None:
            from ...shared.steps.nested_runs import NestedRuns

            self._nested_runs = NestedRuns(self._lease, self._ledger, self._writer.run, self._folder, self._redacted)
        return self._nested_runs

    def _recorder(self, run: str) -> Recorder:
        if run:
            return self._nested.recorder(run)
        if self._own is None:
            from ...shared.steps.recorder import Recorder

            writer = self._writer
            self._own = Recorder(self._ledger, writer.steps, self._folder, self._redacted, writer.progress)
        return self._own

    # ── recorded together: each returns the method that records all such requests ──

    def many_step(self, request: dict[str, Any]) -> Record | None:
        return self._record_nested if request.get("run") else self._record_steps

    def many_close(self, request: dict[str, Any]) -> Record | None:
        return self._record_nested if request.get("run") else None

    def _record_steps(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        try:
            self._recorder("").write(requests)
        except (Error, Stop) as error:
            return [refusal(error)] * len(requests)
        except Exception as error:  # noqa: BLE001 - what the command sends does not end its supervisor
            if len(requests) == 1:
                return [refusal(error)]
            return [self._record_steps([request])[0] for request in requests]  # perhaps only one is wrong
        return [{"ok": True}] * len(requests)

    def _record_nested(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Record steps and ends of nested runs."""
        try:
            return self._nested.record(requests)
        except (Stop, Exception) as error:  # noqa: BLE001 - as above
            return [refusal(error)] * len(requests)

    # ── answered one by one ──

    def do_known(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._recorder(str(request.get("run") or "")).known()

    def do_direct_writer(self, _: dict[str, Any]) -> dict[str, Any]:
        from ....system.durable import inode
        from ...shared.effect_records import ledger_is_per_machine

        address, store = self._ledger.address, self._lease.store
        if address:
            self._writer.let_child_write_steps()
        self._child_writes = self._child_writes or bool(address)
        return {
            "ledger": address,
            "inode": inode(address),
            "store": "" if ledger_is_per_machine(store, self._ledger) else store.url,
        }

    def do_open(self, request: dict[str, Any]) -> dict[str, Any]:
        self._progressed()
        return self._nested.open(str(request["key"]))

    def do_close(self, _: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("`close` is about a run inside this one: give the `run` that `open` answered with")
