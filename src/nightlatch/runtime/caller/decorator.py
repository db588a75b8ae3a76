"""`@nightlatch.job`: the function stays a plain function, and gets `.run()` and `.dry_run()`."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, cast

from ...core import checks
from ...core.job import Job
from ...core.model import check_name
from ...core.options import DECORATOR, as_keyword, read
from ...core.target import Function
from ...core.value import replace
from ...errors import UsageError
from ..shared.job import checked_here
from ..shared.plan import Plan
from ..shared.verdict import Verdict
from .supervised import signature, supervised, supervised_dry_run

if TYPE_CHECKING:
    from ...core.keywords import JobOptions

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

_LONGEST = 100_000  # characters: the job's arguments become one argument of a command line


class Supervisable(Protocol[P, R_co]):
    """What the decorator adds to a function, with the function's own parameters."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def run(self, *args: P.args, **kwargs: P.kwargs) -> Verdict:
        """Run it in a child process under a supervisor, and return how it ended."""

    def dry_run(self, *args: P.args, **kwargs: P.kwargs) -> Plan:
        """Run it in a child process that only plans its effects, and return the plan."""


class JobDecorator(Protocol):
    def __call__(self, function: Callable[P, R_co], /) -> Supervisable[P, R_co]: ...


def job(
    *function: object,
    name: str | None = None,
    key: str | Callable[..., str] | None = None,
    store: str | None = None,
    **options: Unpack[JobOptions],
) -> JobDecorator:
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

    `name` defaults to the function's name. `key` is made from the arguments: a string with their names in braces, or
    a function of them. `stall` counts from the last `progress`. The other options are those of `nightlatch
    run`, under the same names: `keep_awake=True` is `--keep-awake`.

    `.run()` takes arguments that JSON can carry and returns the verdict, not what the function returned: a result
    is published, or written through a gate. An exception fails the run and is recorded with its traceback. The
    child imports the function again, so define it at the top of a module, and in a script start it under
    `if __name__ == "__main__":`.

    `.dry_run()` takes the same arguments and claims nothing: steps are computed and not recorded, effects are not
    done but planned. It returns the plan, which `nightlatch show NAME --plan` prints.
    """
    if function:
        raise UsageError("write @nightlatch.job(), with parentheses; options go there by name")

    def decorate(function: Callable[P, R_co]) -> Supervisable[P, R_co]:
        checks.function(function, "a job")
        job_name = check_name(getattr(function, "__name__", "") if name is None else name)
        try:
            declared = _declared(job_name, key, store, options)
        except UsageError as error:
            error.args = (f"the job {job_name}: {error}",)
            raise

        def job_for(args: Any, kwargs: Any) -> Job:
            run_key = _key(key, function, args, kwargs)
            if run_key == "":
                raise UsageError(f"the key of {job_name} is empty: return a string that names what is processed")
            job = replace(declared, key=run_key or "", target=_target(function, args, kwargs))
            return checked_here(job.check(as_keyword), as_keyword)

        def run(*args: Any, **kwargs: Any) -> Verdict:
            return supervised(job_for(args, kwargs), store=store)

        def dry_run(*args: Any, **kwargs: Any) -> Plan:
            return supervised_dry_run(job_for(args, kwargs), store=store)

        supervisable = cast("Supervisable[P, R_co]", function)
        supervisable.run, supervisable.dry_run = run, dry_run  # type: ignore[method-assign]
        return supervisable

    return decorate


job.__signature__ = signature(job, DECORATOR)  # type: ignore[attr-defined]


def _declared(name: str, key: object, store: str | None, options: Mapping[str, object]) -> Job:
    """The job without its arguments, checked already when its file is imported."""
    if store is not None:
        checks.text(store, "store", empty=True)
    if key is not None and not callable(key):
        checks.text(key, "key")
    reports = {"progress": "report"} if options.get("stall") and not options.get("progress") else {}
    given = read(Job, {**options} | reports, DECORATOR, as_keyword)
    placeholder = Function(where=name, arguments="{}", path=(), interpreter=sys.executable)
    declared = Job(name=name, target=placeholder, **given).check(as_keyword)
    if declared.slot:
        from datetime import UTC

        from ...core import schedule

        schedule.parse(declared.slot, UTC)  # the machine that runs the job checks its time zone
    return declared


def _key(key: str | Callable[..., str] | None, function: Any, args: Any, kwargs: Any) -> str | None:
    if callable(key):
        derived = key(*args, **kwargs)
        if not isinstance(derived, str):
            raise UsageError(
                f"the key of {function.__name__} is {derived!r}: return a string that names what is processed"
            )
        return derived
    if key is None:
        return None
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    try:
        return key.format(**bound.arguments)
    except (KeyError, IndexError) as error:
        raise UsageError(f"the key {key!r} names {error}, which is not an argument of {function.__name__}") from None
    except (ValueError, AttributeError) as error:
        raise UsageError(f"the key {key!r} of {function.__name__} cannot be made: {error}") from None


def _target(function: Any, args: Any, kwargs: Any) -> Function:
    if "<" in function.__qualname__:
        raise UsageError(
            f"{function.__qualname__} cannot be run in another process: define it at the top of a module, not inside a "
            f"function"
        )
    paths = tuple(os.path.abspath(folder) for folder in sys.path)
    try:
        arguments = json.dumps({"args": args, "kwargs": kwargs}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the arguments of {function.__name__} must be plain JSON values: {error}") from None
    if len(arguments) + sum(map(len, paths)) > _LONGEST:
        raise UsageError(f"the arguments of {function.__name__} are too long for a command line: pass a file's path")
    where = f"{_module(function)}:{function.__qualname__}"
    return Function(where=where, arguments=arguments, path=paths, interpreter=sys.executable)


def _module(function: Any) -> str:
    """The module's name; for a script its file, since `__main__` in the child is another module."""
    if function.__module__ != "__main__":
        return str(function.__module__)
    main: Any = sys.modules["__main__"]
    if main.__spec__ is not None:
        return str(main.__spec__.name)  # python -m
    file = getattr(main, "__file__", None)
    if not file:
        raise UsageError(
            f"{function.__name__} is not defined in a file, so another process cannot find it: put it into a file"
        )
    return os.path.abspath(str(file))
