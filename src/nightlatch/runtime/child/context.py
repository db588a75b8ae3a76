"""`nightlatch.current()`: the run, for the code that runs in it."""

from __future__ import annotations

import os
from contextvars import ContextVar

from ...core import checks
from ...errors import UsageError
from ..shared.client import send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from logging import Logger
    from pathlib import Path
    from typing import Any, TypeVar, overload

    from .effects import Proof
    from .steps.mapping import Key, Results
    from .steps.step import Retry, StepMemory

    R = TypeVar("R")
    T = TypeVar("T")

_current: Run | None = None
_nested_run: ContextVar[Run] = ContextVar("nested nightlatch run")


class Run:
    """The run this process was started in. Requests go to its supervisor, which has the lease and writes the record.

    When a method returns, what it did is recorded. Every method raises `UsageError` outside of a run, and
    `LeaseLost`, which no `except Exception` swallows, when the lease is gone.
    """

    def __init__(self) -> None:
        def text(name: str) -> str:
            return os.environ.get(f"NIGHTLATCH_{name}", "")

        if not text("RUN") or not text("SOCKET"):
            raise UsageError(
                "there is no run here: start it with `nightlatch run NAME -- CMD …`, or call .run() of a job"
            )
        self.run, self.job, self.key, self.slot = text("RUN"), text("JOB"), text("KEY"), text("SLOT")
        self.attempt, self.token = int(text("ATTEMPT")), int(text("TOKEN"))
        self.dry_run = bool(text("DRY_RUN"))  # steps are done but not recorded; effects are only planned
        self._memory: StepMemory | None = None

    @property
    def workspace(self) -> Path:
        """The attempt's own folder."""
        from pathlib import Path

        path = os.environ.get("NIGHTLATCH_WORKSPACE")
        if not path:
            raise UsageError("this run has no workspace: ask for one with workspace='scratch' or --workspace scratch")
        return Path(path)

    @property
    def log(self) -> Logger:
        """A logger that writes to standard error, which is shown and kept with the run."""
        import logging

        logger = logging.getLogger(f"nightlatch.run.{self.job}")
        if not logger.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            logger.propagate = False
        return logger

    def step(self, key: str, function: Callable[..., R], *args: Any, retry: Retry = 0, **kwargs: Any) -> R:
        """Call `function(*args, **kwargs)` and record its result under `key`; if one is recorded, return that instead.

            outline = run.step("outline", write_outline, topic)
            text = await run.step("text", write_text, outline)      # a coroutine function: to be awaited

        The key belongs to this run: its next attempt gets the result without calling the function. The result is
        what JSON can carry; a tuple comes back as a list, in the first attempt too. An exception is recorded and
        raised; with `retry=3` a transient failure (a connection, a timeout, HTTP 429 and 503) is tried up to three more
        times; Retry-After is honoured. If an attempt dies in a step, the next one does the step again: what must not
        happen twice is an `effect`.
        """
        result: R = self._step_memory().step(key, function, args, kwargs, retry)
        return result

    if TYPE_CHECKING:

        @overload
        def map(  # type: ignore[overload-overlap]  # a coroutine function matches both
            self,
            function: Callable[[T], Coroutine[Any, Any, R]],
            items: Iterable[T],
            *,
            key: Key = ...,
            concurrency: int = ...,
            retry: Retry = ...,
            failures: str = ...,
            name: str | None = ...,
        ) -> Coroutine[Any, Any, Results[R]]: ...

        @overload
        def map(
            self,
            function: Callable[[T], R],
            items: Iterable[T],
            *,
            key: Key = ...,
            concurrency: int = ...,
            retry: Retry = ...,
            failures: str = ...,
            name: str | None = ...,
        ) -> Results[R]: ...

    def map(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        *,
        key: Key = None,
        concurrency: int = 1,
        retry: Retry = 0,
        failures: str = "raise",
        name: str | None = None,
    ) -> Any:
        """Call `function(item)` for each item, `concurrency` at a time, each as a step; returns the results in order.

            pages = run.map(write, articles, key="{site}/{slug}", concurrency=8, retry=3)
            pages = await run.map(write_async, articles, key=lambda article: article.id)

        `key` is a template of an item's fields, or a function of the item; without `key` the item itself is the key.
        The next attempt does the unfinished items, whatever their order, also when items were added or removed. Items
        that share a key are done once. A failed item does not stop the others: after the last one `MapFailed` is
        raised, which names the failed items; with failures="return" they are in `.failed` of the returned list. When
        most items fail in the same way, the map stops early. An item during which three attempts died is set aside
        for a person.
        `name` distinguishes two maps of one run; the default is the function's name.
        """
        from .steps.drive import drive, is_async
        from .steps.mapping import Map, run_threads
        from .steps.step import check_retry

        checks.function(function, "what a map calls")
        checks.whole(concurrency, "concurrency", least=1)
        check_retry(retry)
        if failures not in ("raise", "return"):
            raise UsageError(f"failures is {checks.shown(failures)}: write 'raise' or 'return'")
        work = Map(self._step_memory(), function, items, key, name)
        if is_async(function):
            return self._map_async(work, concurrency, retry, failures)
        todo = drive(work.prepare(retry))
        if concurrency == 1 or todo < 2:
            drive(work.worker())
        else:
            run_threads(work, min(concurrency, todo), drive)
        return work.result(failures)

    async def _map_async(self, work: Any, concurrency: int, retry: Retry, failures: str) -> Any:
        import asyncio

        from .steps.drive import drive_async

        todo = await drive_async(work.prepare(retry))
        try:
            async with asyncio.TaskGroup() as group:
                workers = [group.create_task(drive_async(work.worker())) for _ in range(min(concurrency, max(todo, 1)))]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None  # as with threads: the first error stops all workers
        if any(worker.cancelled() for worker in workers):
            raise asyncio.CancelledError("a worker of the map was cancelled")  # a TaskGroup does not raise this
        return work.result(failures)

    def handle(self, key: str, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        """Handle one piece of work, such as a message from a queue, as a nested run; returns its result.

            for message in queue:
                run.handle(message.id, post, message)

        The nested run has the same job, and its own key and steps; inside `function`, `nightlatch.current()` returns
        it. A key that is done is not handled again: its recorded result is returned, as long as the run is kept. An
        exception fails the nested run and is raised here; the next `handle` of the key is the run's next attempt. All
        nested runs share the lease and the bounds of this process. Await the result if `function` is a coroutine
        function.
        """
        from .steps.drive import UserCall, call
        from .steps.nested_run import handle

        if checks.text(key, "key") != key[:1000]:
            raise UsageError(f"{checks.shown(key)} cannot be a key: use up to 1000 characters")
        checks.function(function, "what handles it")
        result: R = call(handle(self, key, UserCall(function, args, kwargs)), function)
        return result

    def _nested(self, run: str, key: str, attempt: int) -> _NestedScope:
        from .steps.step import StepMemory

        nested = object.__new__(Run)
        nested.__dict__ |= {**self.__dict__, "run": run, "key": key, "slot": "", "attempt": attempt}
        nested._memory = StepMemory(run, attempt)
        return _NestedScope(nested)

    def effect(
        self,
        name: str,
        *,
        do: Callable[[], R],
        key: str = "",
        probe: Callable[[], Any] | None = None,
        input: Any = None,
        not_done: tuple[Proof, ...] = (),
        deadline: str = "10m",
        settle: str = "10s",
        retry: Retry = 0,
        scope: str = "",
    ) -> R:
        """Do something to the outside world once: never again after it is done, never silently again when in doubt.

            run.effect("post", key=slug, do=lambda: post(text), probe=lambda: find_post(slug))

        `name` and `key` (together `post/the-slug`) identify the effect in the whole store, or in `scope`. The intent
        is recorded, `do` is called, and its result is recorded; a later call of the same effect returns that result.
        With another `input` than the first time the effect is refused (`InputChanged`).

        If `do` raises, the effect counts as not done where that is certain: `NotDone`, a refused connection, a class
        or an HTTP status listed in `not_done`. Then it may be tried again, as often as `retry` says. Anything else
        leaves it in doubt, and so does a crash. Then `probe` is called: it returns the result, or True, if the
        effect was done, and None or False if not. "Not done" counts only after `deadline` and `settle` have passed;
        until then a request may be under way, and the probe is called again. Without a probe `InDoubt` is raised,
        and the run waits for a person. An effect that is not over at its `deadline` is ended, with the run.

        In a dry-run nothing is called. An effect that is done returns its result, any other a `Planned`, which
        raises `OnlyPlanned` when it is read.
        """
        from ...core import duration
        from ...core.effects import STORE_WIDE
        from .effects import EffectRequest, effect
        from .steps.drive import call
        from .steps.step import check_retry

        checks.text(name, "an effect's name")
        checks.text(key, "key", empty=True)
        checks.text(scope, "scope", empty=True)
        checks.function(do, "do")
        if probe is not None:
            checks.function(probe, "probe")
        check_retry(retry)
        seconds = duration.parse(deadline, what="deadline")
        if not seconds:
            raise UsageError("a deadline of 0s leaves the effect no time: give it some")
        request = EffectRequest(
            f"{name}/{key}" if key else name, scope or STORE_WIDE, do, probe, input, not_done, seconds,
            duration.parse(settle, what="settle"),
        )  # fmt: skip
        result: R = call(effect(self._step_memory(), request, retry), *filter(None, (do, probe)))
        return result

    def publish(
        self, source: str | os.PathLike[str], target: str | os.PathLike[str], *, keep: int | None = None
    ) -> str:
        """Replace `target` (a file, a folder, or s3://bucket/key) by `source`, unless a newer holder has taken over.

            run.publish("build", "/srv/www/site")

        The supervisor writes, through the target's gate; the write is durable when this returns. Content that an
        earlier attempt of this run has published is not published again. Returns the release, "" for a file; in a
        dry-run nothing is done. Raises `StaleToken` if a newer holder has written there; `nightlatch show` of the
        run lists the refusal.
        """
        from .publishing import publish

        if keep is not None:
            checks.whole(keep, "keep", least=1)
        return str(publish(checks.path(source, "source"), checks.path(target, "target"), keep=keep)["landed"])

    def push(self, remote: str = "origin", branch: str = "", *, folder: str = ".", done: str = "") -> str:
        """Push HEAD of the repository in `folder` to a branch that only the newest holder can move; returns the commit.

        `branch` "" means the one checked out. `done` is a key of this job that the push marks done; if it is already
        done, or an earlier attempt has pushed for it, nothing is pushed, and "" is returned.
        """
        from .publishing import push

        checks.text(remote, "remote")
        checks.text(branch, "branch", empty=True)
        checks.text(done, "done", empty=True)
        folder = checks.path(folder, "folder")
        return str(push(remote, branch, folder=folder, key=done or None, scope=self.job if done else "")["landed"])

    def progress(self, done: int, total: int = 0, message: str = "") -> None:
        """Report how far the run is; a `total` of 0 means unknown. A run whose `done` advances is not stalled."""
        checks.number(done, "done")
        checks.number(total, "total")
        checks.text(message, "message", empty=True)
        send(do="progress", done=done, total=total, message=message)

    def spend(self, *, model: str = "", tag: str = "", **amounts: float) -> dict[str, float]:
        """Report usage (usd, tokens, calls, units) of this model, counted under this tag, such as
        tag="site=example.org". Returns what this run has used so far; a run beyond its budget is ended
        from outside."""
        checks.text(model, "model", empty=True)
        checks.text(tag, "tag", empty=True)
        for unit, amount in amounts.items():
            checks.number(amount, unit)
        labels = {name: text for name, text in (("model", model), ("tag", tag)) if text}
        return dict(send(do="spend", **labels, **amounts)["used"])

    def check(self) -> None:
        """Return while the lease is certainly held; raise `LeaseLost` otherwise. Call it before a step that must not
        happen twice; between the check and the step only a gate protects."""
        send(do="check")

    def _step_memory(self) -> StepMemory:
        if self._memory is None:
            from .steps.step import StepMemory

            self._memory = StepMemory("", self.attempt)
        return self._memory

    def __repr__(self) -> str:
        return f"<Run {self.run} of {self.job}, key {self.key}, attempt {self.attempt}, token {self.token}>"


class _NestedScope:
    """Inside the block, `current()` is the nested run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        self._before = _nested_run.set(self._run)

    def __exit__(self, *_: object) -> None:
        _nested_run.reset(self._before)


def current() -> Run:
    """The run this process works in, or the nested run it handles right now. Raises `UsageError` if there is none."""
    nested = _nested_run.get(None)
    if nested is not None:
        return nested
    global _current  # noqa: PLW0603 - a process is started in one run, and stays in it
    if _current is None or _current.run != os.environ.get("NIGHTLATCH_RUN"):
        _current = Run()
    return _current
