"""`@nightlatch.job`: a function that stays a plain function, and can be supervised."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

from ...core import duration, given
from ...core.model import check_name
from ...errors import UsageError
from ..rehearsing.plan import Plan
from .job import Job, caps, seconds
from .start import flags, rehearsed, supervised
from .verdict import Verdict

F = TypeVar("F", bound=Callable[..., Any])

_LONGEST = 100_000  # characters of all arguments: they are one word of a command line


class Supervisable(Protocol):
    """What the decorator adds to a function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def run(self, *args: Any, **kwargs: Any) -> Verdict:
        """Run it in a child process under a supervisor, and return how it ended."""

    def dry_run(self, *args: Any, **kwargs: Any) -> Plan:
        """Run it in a child process, with effects that are only planned, and return the plan."""


def job(
    *function: object,
    name: str | None = None,
    key: str | Callable[..., str] | None = None,
    slot: str | None = None,
    ttl: str | None = None,
    timeout: str | None = "1h",
    stall: str | None = None,
    budget: str | Mapping[str, float] | None = None,
    workspace: str | None = None,
    publish: tuple[str, ...] = (),
    lost: str | None = None,
    retries: int = 0,
    backoff: str | None = None,
    store: str | None = None,
) -> Callable[[F], Supervisable]:
    """Make a function, sync or async, a job.

        @nightlatch.job(key="{site}/{slug}", timeout="30m", budget={"usd": 2})
        def article(site: str, slug: str) -> None:
            run = nightlatch.current()
            ...
            run.progress(1, 3, "outline")
            run.spend(usd=0.03, tokens=900)

        article("example.org", "first")              # a plain call, here
        verdict = article.run("example.org", "first")  # supervised, in a child process
        plan = article.dry_run("example.org", "first")  # which effects would it have?

    `name` is the function's own if it is not given. `key` is made from the arguments: a text with their names in
    braces, or a function of them. `stall` counts from the last `progress`. The rest is as `nightlatch run` has it.

    `.run()` takes arguments that JSON can carry and returns the verdict, not what the function returned: a result
    is published, or written through a gate. An exception fails the run and is recorded with its traceback. The
    function is imported again in the child, so it has to stand at the top of a module, and what starts it in a
    script under `if __name__ == "__main__":`.

    `.dry_run()` takes the same and claims nothing: steps are computed and not recorded, effects are not done but
    planned. It returns the plan, which `nightlatch show NAME --plan` prints.
    """
    if function:
        raise UsageError("write @nightlatch.job(), with parentheses; what it is to be told goes there by its name")

    def decorate(function: F) -> Supervisable:
        given.function(function, "a job")
        told = check_name(getattr(function, "__name__", "") if name is None else name)
        try:
            _check(told, {"ttl": ttl, "timeout": timeout, "stall": stall, "backoff": backoff}, key=key, slot=slot,
                   budget=budget, workspace=workspace, publish=publish, lost=lost, retries=retries,
                   store=store)  # fmt: skip
        except UsageError as error:
            raise UsageError(f"the job {told}: {str(error).removeprefix('--')}") from None
        bounds = flags(
            slot=slot, ttl=ttl, timeout="none" if timeout is None else timeout, stall=stall,
            progress="report" if stall else None, budget=budget or None, meter="report" if budget else None,
            workspace=workspace or None, publish=publish, lost=lost, retries=retries or None, backoff=backoff,
        )  # fmt: skip

        def run(*args: Any, **kwargs: Any) -> Verdict:
            options = [*bounds, *flags(key=_key(key, function, args, kwargs))]
            return supervised(told, options, _command(function, args, kwargs), store=store)

        def dry_run(*args: Any, **kwargs: Any) -> Plan:
            options = [*bounds, *flags(key=_key(key, function, args, kwargs))]
            return rehearsed(told, options, _command(function, args, kwargs), store=store)

        made = cast(Supervisable, function)
        made.run, made.dry_run = run, dry_run  # type: ignore[method-assign]
        return made

    return decorate


def _check(
    name: str, times: dict[str, str | None], *, key: object, budget: Any, slot: str | None, workspace: str | None,
    publish: tuple[str, ...], lost: str | None, retries: object, store: str | None,
) -> None:  # fmt: skip
    """As `nightlatch run` will check it, but where it is written and not at night."""
    given.whole(retries, "retries")
    given.budget(budget)
    for field, text in {"slot": slot, "workspace": workspace, "lost": lost, "store": store}.items():
        if text is not None:
            given.text(text, field, empty=True)
    if key is not None and not callable(key):
        given.text(key, "key")
    results = (publish,) if isinstance(publish, str) else publish
    if not isinstance(results, list | tuple):
        raise UsageError(f'publish is {given.shown(publish)}: give a list, as in ["report.html=/srv/www/report.html"]')
    for result in results:
        given.text(result, "publish")
    bounds = {field: seconds(text, field) for field, text in times.items() if field != "backoff"}
    if times["backoff"] is not None:
        duration.parse(times["backoff"], what="backoff")
    if slot is not None:
        from datetime import UTC

        from ...core import schedule
        from ...system import clock

        schedule.newest_due(slot, clock.wall(), UTC)  # its zone is the business of the machine that runs it
    allowed = caps("".join(flags(budget=budget)).removeprefix("--budget="))
    Job(
        name=name, command=[sys.executable], reports=True, caps=allowed, meter="report", workspace=workspace or "",
        publish=tuple(results), lost=lost or "", ttl=bounds["ttl"], timeout=bounds["timeout"], stall=bounds["stall"],
    ).check()  # fmt: skip


def _key(key: str | Callable[..., str] | None, function: Any, args: Any, kwargs: Any) -> str | None:
    if callable(key):
        made = key(*args, **kwargs)
        if not isinstance(made, str):
            raise UsageError(f"the key of {function.__name__} is {made!r}: return a text that names what is processed")
        return made
    if key is None:
        return None
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    try:
        return key.format(**bound.arguments)
    except (KeyError, IndexError) as error:
        raise UsageError(f"the key {key!r} names {error}, which is no argument of {function.__name__}") from None
    except (ValueError, AttributeError) as error:
        raise UsageError(f"the key {key!r} of {function.__name__} cannot be made: {error}") from None


def _command(function: Any, args: Any, kwargs: Any) -> list[str]:
    if "<" in function.__qualname__:
        raise UsageError(
            f"{function.__qualname__} cannot be run in another process: define it at the top of a module, not inside a "
            f"function"
        )
    paths = [os.path.abspath(place) for place in sys.path]
    try:
        given = json.dumps({"args": args, "kwargs": kwargs, "path": paths}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the arguments of {function.__name__} must be plain, as JSON has them: {error}") from None
    if len(given) > _LONGEST:
        raise UsageError(f"the arguments of {function.__name__} are too long for a command line: pass a file's path")
    where = f"{_module(function)}:{function.__qualname__}"
    # -P: what lies in the workspace is not to be imported in the place of a module of the same name.
    return [sys.executable, "-P", "-m", "nightlatch.runtime.runs.child", where, given]


def _module(function: Any) -> str:
    """The module's name, or the file of the script that is running: as `__main__` it would be the child itself."""
    if function.__module__ != "__main__":
        return str(function.__module__)
    main: Any = sys.modules["__main__"]
    if main.__spec__ is not None:
        return str(main.__spec__.name)  # python -m
    file = getattr(main, "__file__", None)
    if not file:
        raise UsageError(f"{function.__name__} stands in no file, so another process cannot find it: put it into one")
    return os.path.abspath(str(file))
