"""What a person decides on a page: through the same functions as the command line, journaled with the person's name.

Each form carries the state that it was drawn from. If that has changed, nothing is done, and the page says what
happened meanwhile (409). What cannot be undone needs a second confirmation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from aiohttp import web

from ..config import place
from ..core.schedule import name_of
from ..core.value import value
from ..errors import Busy, Error, RunEnded, UsageError
from ..ledger import kinds, open_for
from ..ledger.decisions import state_of
from ..ledger.records import RunRow
from ..observe import open_decisions
from ..observe.changes import job_changes
from ..observe.reader import StoreReader
from ..runtime.supervisor.afterwards import decide
from ..runtime.supervisor.run import approval
from ..runtime.supervisor.run.rows import read_row
from ..scheduler.people import JobSlots
from ..store import url as stores
from ..system.identity import person
from . import words
from .guard import FORM
from .site import Site

_WAIT = 5.0  # seconds to wait for a lease that is held


class MovedOn(Exception):
    """The state that the page was drawn from has changed."""


@value(frozen=True, kw_only=True)
class Action:
    do: Callable[[StoreReader, dict[str, str]], str]  # returns the path to show next; "": the page with the form
    ask: Callable[[dict[str, str]], tuple[str, str, str]] | None = None  # the confirmation: (title, text, button)


class Actions:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._all = {
            "cancel": Action(do=_cancel, ask=_ask_cancel),
            "retry": Action(do=self._retry),
            "resolve": Action(do=_resolve, ask=_ask_resolve),
            "run": Action(do=self._run),
            "skip": Action(do=_skip, ask=_ask_skip),
            "pause": Action(do=_pause),
            "unpause": Action(do=_unpause),
            "usual": Action(do=_accept_level),
            "approve": Action(do=self._approve),
            "promote": Action(do=self._promote),
        }

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/{prefix}/act/{action}", self.act)]

    async def act(self, request: web.Request) -> web.Response:
        site, form = self._site, request[FORM]
        action = self._all.get(request.match_info["action"])
        if action is None:
            raise web.HTTPNotFound(text="There is no such action.\n")
        back = form["back"] if form.get("back", "").startswith(site.base) else site.base
        if action.ask and form.get("sure") != "1":
            title, text, label = action.ask(form)
            return site.draw(
                request, "confirm.html", title=title, text=text, label=label, back=back,
                action=request.match_info["action"], fields=sorted(form.items()),
            )  # fmt: skip
        try:
            next_path = await site.read(action.do, form)
        except (MovedOn, RunEnded) as moved:
            return site.message(request, "Nothing was done: it has changed since.", str(moved), status=409, back=back)
        except Busy as error:
            return site.message(request, "Nothing was done: it is in use.", str(error), status=409, back=back)
        except UsageError as error:
            return site.message(request, "Nothing was done.", str(error), status=409, back=back)
        except Error as error:
            return site.message(request, "That did not work.", str(error), status=500, back=back)
        raise web.HTTPSeeOther(f"{site.base}{next_path}" if next_path else back)

    def _retry(self, reader: StoreReader, form: dict[str, str]) -> str:
        run = _unchanged_run(reader, form)
        again = open_for(reader.url).decisions.retry(run.id, person(), state=state_of(run))
        if run.job in self._site.configured():
            _start(reader, "run", run.job, *(["--slot", run.slot] if run.slot else ["--key", run.key]))
        return f"run/{again.id}"

    def _run(self, reader: StoreReader, form: dict[str, str]) -> str:
        job, slot = form.get("job", ""), form.get("slot", "")
        if job not in self._site.configured():
            raise UsageError(f"{job} is not a job of the nightlatch.toml that the pages use")
        if slot:
            _expect_unchanged_row(reader, form)
        _start(reader, "run", job, *(["--slot", slot] if slot else []))
        return f"job/{job}"

    def _approve(self, reader: StoreReader, form: dict[str, str]) -> str:
        """Approve the plan that was shown, by its head; then the command line publishes it."""
        run = reader.run(form.get("run", ""))
        if run.held is None or run.head != form.get("head"):
            raise MovedOn(_meanwhile(reader, run))
        if run.job not in self._site.configured():
            raise UsageError(f"{run.job} is not a job of the nightlatch.toml that the pages use")
        if not reader.store.lists_begun:  # else the job's row decides, when the command line takes the run over
            open_for(reader.url).decisions.approve(run.id, run.head, person())
        _start(reader, "approve", run.id, "--yes")
        return f"run/{run.id}"

    def _promote(self, reader: StoreReader, form: dict[str, str]) -> str:
        _expect_unchanged_row(reader, form)
        command = _command(reader, "promote", form.get("job", ""))
        done = subprocess.run(**command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise UsageError(done.stderr.strip().removeprefix("nightlatch: "))
        return f"job/{form.get('job', '')}"


# ── a run ──


def _unchanged_run(reader: StoreReader, form: dict[str, str]) -> RunRow:
    run = reader.run(form.get("run", ""))
    if state_of(run) != form.get("seen"):
        raise MovedOn(_meanwhile(reader, run))
    return run


def _meanwhile(reader: StoreReader, run: RunRow) -> str:
    status = words.look(reader.status(run))[2]
    why = f": {words.short(run.reason)}" if run.reason else ""
    return f"Run {run.id} of {run.job} is {status} by now, at attempt {run.attempt}{why}. Look again, then decide."


def _cancel(reader: StoreReader, form: dict[str, str]) -> str:
    run = _unchanged_run(reader, form)
    ledger = open_for(reader.url)
    approval.cancel(
        reader.store, ledger, run, lambda: ledger.decisions.request_cancel(run.id, person(), state=state_of(run))
    )
    return f"run/{run.id}"


def _ask_cancel(form: dict[str, str]) -> tuple[str, str, str]:
    return (
        f"Cancel run {form.get('run', '')}?",
        "It is ended, after its grace time. Its key is not done: the next start makes another attempt.",
        "Cancel the run",
    )


def _resolve(reader: StoreReader, form: dict[str, str]) -> str:
    outcome = form.get("outcome", "")
    if outcome not in decide.OUTCOMES:
        raise UsageError("an outcome is done, failed or again")
    if "run" in form:
        run = _unchanged_run(reader, form)
        decide.resolve(run, outcome, person(), ledger=open_for(reader.url), store=reader.store, wait=_WAIT)
        return f"run/{run.id}"
    key, scope, of_batch, job = (form.get(name, "") for name in ("key", "scope", "batch", "job"))
    found = open_decisions.named(reader, key, scope=scope, batch=of_batch, job=job)
    if len(found) != 1 or f"{found[0].changed:.3f}" != form.get("changed"):
        raise MovedOn(f"{key} was decided meanwhile, or has changed since the page was drawn.")
    decide.resolve_open(
        key, outcome, person(), of_batch=of_batch, job=job, scope=scope, began=found[0].changed, store=reader.store,
        where=reader.url, wait=_WAIT,
    )  # fmt: skip
    return ""


def _ask_resolve(form: dict[str, str]) -> tuple[str, str, str]:
    what = words.short(form.get("key") or f"run {form.get('run', '')}", 80)
    if form.get("outcome") == "done":
        return (
            f"Was {what} done?",
            "Then no machine does it again. Only the outside world shows what it did.",
            "It was done",
        )
    return (
        f"Was {what} not done?",
        "Then the next start with its key does it again. If it was done after all, it happens twice.",
        "It was not done",
    )


# ── a job ──


def _expect_unchanged_row(reader: StoreReader, form: dict[str, str]) -> None:
    row = read_row(reader.store, form.get("job", ""))
    if row is None or row.id != form.get("seen"):
        due = f" Its next slot is {name_of(row.next_due)}." if row and row.next_due else ""
        raise MovedOn(f"The slots of {form.get('job', '')} have moved on since the page was drawn.{due}")


def _unchanged_slots(reader: StoreReader, form: dict[str, str]) -> JobSlots:
    _expect_unchanged_row(reader, form)
    return JobSlots(reader.store, open_for(reader.url), form.get("job", ""), person())


def _skip(reader: StoreReader, form: dict[str, str]) -> str:
    slots = _unchanged_slots(reader, form)
    try:
        slot = datetime.fromisoformat(form.get("slot", "")).timestamp()
    except ValueError:
        raise UsageError(f"{form.get('slot', '')!r} is not a slot") from None
    slots.skip(float(round(slot)))
    return f"job/{form.get('job', '')}"


def _ask_skip(form: dict[str, str]) -> tuple[str, str, str]:
    return (
        f"Skip {form.get('job', '')} at {form.get('slot', '')}?",
        "It is recorded as skipped by you, and not caught up.",
        "Skip the slot",
    )


def _pause(reader: StoreReader, form: dict[str, str]) -> str:
    _unchanged_slots(reader, form).pause()
    return f"job/{form.get('job', '')}"


def _unpause(reader: StoreReader, form: dict[str, str]) -> str:
    _unchanged_slots(reader, form).unpause()
    return f"job/{form.get('job', '')}"


def _accept_level(reader: StoreReader, form: dict[str, str]) -> str:
    """Accept the new level of a job as the usual one."""
    job, what, run = form.get("job", ""), form.get("what", ""), form.get("run", "")
    if not any(one.what == what and one.shift.first.run == run for one in job_changes(reader, job).current):
        raise MovedOn(f"What {job} uses has changed since the page was drawn, or the new level was accepted already.")
    open_for(reader.url).journal.note(job, kinds.USUAL, what=what, by=person(), run=run)
    return "usage"


def _start(reader: StoreReader, *arguments: str) -> None:
    """Start the command line in a new session, so that it outlives the pages."""
    subprocess.Popen(
        **_command(reader, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def _command(reader: StoreReader, *arguments: str) -> dict[str, Any]:
    config = place.find()
    args = [sys.executable, "-m", "nightlatch", *(["--config", config] if config else []), *arguments]
    env = {**os.environ, stores.ENV: reader.url}  # not as an argument, which other users see: it may hold a password
    return {"args": args, "cwd": os.path.dirname(config) or None, "stdin": subprocess.DEVNULL, "env": env}
