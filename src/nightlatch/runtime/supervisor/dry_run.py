"""The dry-run of a Python job: the function runs and its effects are found, but none of them is done.

No lease, no key, no gate, no run: only the plan is recorded, in the job's journal. The function uses the same socket as
in a run; its requests are answered, and not recorded.
"""

from __future__ import annotations

import os
import select
import sys
import tempfile

from ...config import place
from ...core import advice, budget, statuses
from ...core import effects as rules
from ...core.effects import BEGUN, DONE, IN_DOUBT, PLANNED
from ...core.units import CAPPED
from ...errors import InDoubt, OnlyPlanned
from ...ledger import kinds
from ...store import url
from ...system import clock, redaction, tree
from ..shared import env_file, plan
from ..shared.effect_records import EffectRecords
from ..shared.job import go_home
from ..shared.plan import Plan, PlannedEffect
from ..shared.replies import one_by_one
from ..shared.steps.nested_runs import RESULT
from ..shared.verdict import Verdict
from .agents.at_work import next_launch
from .publishing.workspace import Workspace
from .run.ending import Ending
from .run.preflight import Preflight
from .run.watch import RunWatch
from .socket import verbs
from .socket.server import Socket
from .supervision import Supervision, without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.job import Job
    from ...ledger.records import RunRow


def dry_run(job: Job, *, store: str | None = None) -> Plan:
    """Run the job's function within its bounds, without its effects; record the plan and return it. Needs its own
    process, as `tries.run` does."""
    return _DryRun(job, go_home(job, store)).dry_run()


class _DryRun(Preflight):
    """Begins with a run's preflight, and takes no lease."""

    def __init__(self, job: Job, store: str | None) -> None:
        super().__init__(job, store)
        self.ending = Ending()

    def dry_run(self) -> Plan:
        with Supervision(self.job.command) as self.supervision:
            self.grant = self.supervision.grant  # not granted by a store: it only names the socket and the tree
            key = self.look()
            result = self._skipped_plan(key) if isinstance(key, Verdict) else self._run_function(key)
        self.ledger.journal.note(self.job.name, kinds.PLAN, **result.entry())
        return result

    def _skipped_plan(self, verdict: Verdict) -> Plan:
        return Plan(job=verdict.job, key=verdict.key, status=plan.SKIPPED, reason=verdict.reason, at=verdict.at)

    def _run_function(self, key: str) -> Plan:
        job, started = self.job, clock.now()
        self.effects: dict[tuple[str, str], PlannedEffect] = {}
        self.partial, self.steps_done = False, 0  # partial: the function ended where it needed a planned effect
        self.earlier_run = self.ledger.find(job.name, key)  # of the same key, if any
        self.watch = RunWatch(
            now=started, stall=job.stall, paths=list(job.watched), caps=lambda: job.budget, used=self.reported.used,
            spent_before=self.spending.before, cancelled_by=lambda: None,
        )  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="nightlatch-") as self.folder:
            workspace = self._workspace()
            socket = Socket(self.grant, one_by_one(self._answer))
            environment = self._environment(key, socket.path, workspace)
            self.hidden = redaction.secrets(environment)
            try:
                limit = None if job.timeout is None else started + job.timeout
                cwd = os.path.join(workspace.path, job.cwd) if workspace else job.cwd
                self.supervision.start(environment, cwd=cwd, grace=job.grace, limit=limit)
                self._attend(socket)
            finally:
                socket.close()
                if workspace:
                    workspace.remove()
        status, reason = self.ending.judge(None, job.timeout, self.reported)
        good = status == statuses.SUCCEEDED
        if good and not self.partial:
            for target in job.publish:
                self._add(PlannedEffect(key=f"publish {target}", status=PLANNED))
        return Plan(
            job=job.name,
            key=key,
            status=(plan.PARTIAL if self.partial else plan.WHOLE) if good else status,
            exit_code=0 if good else self.ending.exit_code if status == statuses.FAILED else statuses.exit_code(status),
            reason=self.reported.failure if good else reason,
            effects=tuple(self.effects.values()),
            steps=self.steps_done,
            elapsed=clock.now() - started,
            at=clock.wall(),
        )

    def _workspace(self) -> Workspace | None:
        if not self.job.workspace:
            return None
        from .publishing.clone import source

        repository = source(self.job.workspace) if self.job.workspace.startswith("git") else None
        return Workspace.make(self.store.folder, f"dry-run-{self.grant}", repository)

    def _environment(self, key: str, socket: str, workspace: Workspace | None) -> dict[str, str]:
        # The lease of an outer run must not be used here.
        withheld = {"NIGHTLATCH_LEASE", url.ENV}
        if self.job.workspace.startswith("git"):
            from .publishing.clone import REPOSITORY_VARIABLES

            withheld |= set(REPOSITORY_VARIABLES)
        outer = without_password(dict(os.environ), self.store.url)
        inherited = {name: text for name, text in outer.items() if name not in withheld}
        return inherited | env_file.variables(self.job) | {
            tree.DRY_RUN: "1",
            "NIGHTLATCH_RUN": self.earlier_run.id if self.earlier_run else "dry-run",
            "NIGHTLATCH_JOB": self.job.name,
            "NIGHTLATCH_KEY": key,
            "NIGHTLATCH_SLOT": self.job.due,
            "NIGHTLATCH_MISSED": str(self.job.missed),
            "NIGHTLATCH_SINCE": self.job.since,
            "NIGHTLATCH_ATTEMPT": str(self.earlier_run.attempt + 1 if self.earlier_run else 1),
            "NIGHTLATCH_TOKEN": "0",
            "NIGHTLATCH_GRANT": self.grant,
            "NIGHTLATCH_SOCKET": socket,
            place.ENV: place.of_a_run(self.job.file),
            **({"NIGHTLATCH_WORKSPACE": workspace.path} if workspace else {}),
        }  # fmt: skip

    def _attend(self, socket: Socket) -> None:
        warden = self.supervision.warden
        while not self.ending.over:
            judged = None if self.ending.decided else self.watch.judge(clock.now())
            if judged:
                self.ending.decided = judged
                warden.ask_to_end(judged[0], self.job.grace)
            poll = select.poll()
            for fd in (warden.fileno(), *socket.descriptors):
                poll.register(fd, select.POLLIN)
            for fd in socket.sending:
                poll.register(fd, select.POLLOUT)
            pause = min(self.watch.next_at(clock.now()) - clock.now(), clock.SLICE)
            ready = [fd for fd, _ in poll.poll(max(pause, 0.0) * 1000 + 1)]
            socket.serve([fd for fd in ready if fd != warden.fileno()])
            if report := warden.report():
                self.ending.take(report)

    # ── answers ──

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.watch.progressed(clock.now())
        verb = request.pop("do", "")
        method = verbs.find(self, verb)
        if method is None:
            raise verbs.unknown(verb, self)
        answer: dict[str, Any] = method(request)
        return answer

    def do_known(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"path": self._finished_steps(request.get("run") or (self.earlier_run.id if self.earlier_run else ""))}

    def do_step(self, request: dict[str, Any]) -> dict[str, Any]:
        self.steps_done += sum(status == DONE for _, _, status, *_ in request["steps"])
        return {}

    def do_progress(self, request: dict[str, Any]) -> dict[str, Any]:
        count = "/".join(str(request[name]) for name in ("done", "total") if request.get(name))
        print(f"nightlatch: {count or 0} {request.get('message') or ''}".rstrip(), file=sys.stderr)
        return {}

    def do_spend(self, request: dict[str, Any]) -> dict[str, Any]:
        self.reported.add(budget.amounts(f"{unit}={amount}" for unit, amount in request.items() if unit in CAPPED))
        self.watch.spent()
        return {"used": self.reported.used}

    def do_fail(self, request: dict[str, Any]) -> dict[str, Any]:
        self.reported.failure = self.hidden.text(str(request.get("reason") or ""))
        self.reported.attention, self.partial = bool(request.get("attention")), bool(request.get("planned"))
        return {}

    def do_check(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"token": 0}

    def do_direct_writer(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"ledger": "", "store": ""}

    def do_store(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"url": self.store.url}

    def do_may_act(self, _: dict[str, Any]) -> dict[str, Any]:
        return {}

    def do_publish(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._plan_write(f"publish {request.get('target')}")

    def do_push(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._plan_write(f"push {request.get('remote')} {request.get('branch') or ''}".rstrip())

    def do_close(self, _: dict[str, Any]) -> dict[str, Any]:
        return {}

    do_retry_after = do_refused = do_close

    def do_agent_begin(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answers which launch this would be. The launch itself is an effect: planned, unless it is done."""
        job, key = self.job, str(request["key"])
        number, launch = next_launch(self.store, self.ledger, job.name, key, again=job.again)
        row = self.ledger.agents.find(job.name, launch)
        self.do_effect({"scope": job.name, "key": launch})
        return {
            "launch": launch,
            "number": number,
            "handle": row.handle if row else "",
            "given": {},
            "used": row.used.by_unit() if row else {},
        }

    def do_agent(self, request: dict[str, Any]) -> dict[str, Any]:
        if not self.ledger.agents.find(self.job.name, str(request["launch"])):
            raise OnlyPlanned(str(request["launch"]), None)
        return {"more": {}}

    def do_why(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"why": self.ending.decided[0] if self.ending.decided else ""}

    def _plan_write(self, key: str) -> dict[str, Any]:
        self._add(PlannedEffect(key=key, status=PLANNED))
        return {"gate": "", "lease": "", "token": 0, "landed": ""}

    def do_effect(self, request: dict[str, Any]) -> dict[str, Any]:
        scope, key = str(request.get("scope") or rules.STORE_WIDE), str(request["key"])
        done, known = EffectRecords(self.store, self.ledger, scope, key).peek(str(request.get("input") or ""))
        if done or (known and known.status == DONE):
            self._add(PlannedEffect(key=key, scope=scope, status=DONE))
            return {"status": DONE, "result": done.value if done else known.result if known else ""}
        unclear = known if known and known.status in (BEGUN, IN_DOUBT) else None
        why = f"begun by {unclear.holder}, and not ended" if unclear and unclear.status == BEGUN else ""
        status, reason = (unclear.status, unclear.reason or why) if unclear else (PLANNED, "")
        self._add(PlannedEffect(key=key, scope=scope, status=status, reason=reason))
        return {"status": PLANNED}

    def _add(self, effect: PlannedEffect) -> None:
        self.effects.setdefault((effect.scope, effect.key), effect)

    def do_open(self, request: dict[str, Any]) -> dict[str, Any]:
        key = str(request["key"])
        run = self.ledger.find(self.job.name, key)
        if run and statuses.needs_person(run.status):
            raise InDoubt(f"{run.job} ({key}) is {run.status}: {run.reason}. Look: {advice.command('show', run.id)}")
        if self.store.look(self.job.name, key) or (run and run.status == statuses.SUCCEEDED):
            return {"status": DONE, "result": self._result(run) if run else ""}
        return {"status": "begun", "run": run.id if run else f"dry-run {key}", "attempt": run.attempt + 1 if run else 1}

    def _result(self, run: RunRow) -> str:
        log = self.ledger.step_log
        return log.result(log.chain_of(run.id, before=True), RESULT)

    def _finished_steps(self, run: str) -> str:
        """The path of a new file with the steps that earlier attempts of `run` finished."""
        log = self.ledger.step_log
        fd, path = tempfile.mkstemp(dir=self.folder)
        with open(fd, "w") as file:
            for digest, status, _, _, result in log.facts(log.chain_of(run)) if run else ():
                if status == DONE:
                    file.write(f"{digest} {DONE} 0 {result}\n")
        return path
