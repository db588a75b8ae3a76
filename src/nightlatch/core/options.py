"""An option is one row: its name, how its value is read, its default, its help, and where it is valid.

The rows are fields of the classes in core/job.py and core/batch.py. The command line, `@nightlatch.job`,
`nightlatch.run()` and the docs are made from them, so a new option is one row, and the line where it takes effect. A
row reads the value that a front end passes: words of a command line, or values of Python, JSON or TOML. A value that
cannot be used raises `BadOption`, which carries the field. A front end's `name` spells a field as its users write it.
"""

from __future__ import annotations

from ..errors import BadOption, UsageError
from . import budget, checks, duration
from .budget import Cap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Names = Callable[..., str]  # (field, value="") → the option as users of the front end write it

RUN, BATCH, DECORATOR, CALL = "nightlatch run", "nightlatch batch", "@nightlatch.job", "nightlatch.run()"
FILE = "nightlatch.toml"
OF_A_JOB = (RUN, DECORATOR, CALL, FILE)
NOT_IN_FILE = (RUN, DECORATOR, CALL)  # in the file, the schedule takes the option's place
OF_A_START = (RUN, CALL)  # for one start: not part of the job
OF_THE_FILE = (FILE,)  # only a schedule needs it


def as_flag(field: str, value: str = "") -> str:
    """As the command line has it: --progress report"""
    return f"--{field.replace('_', '-')}" + (f" {value}" if value else "")


def as_keyword(field: str, value: str = "") -> str:
    """As Python has it: progress="report" """
    return f'{field}="{value}"' if value else field


def as_setting(field: str, value: str = "") -> str:
    """As nightlatch.toml has it: progress = "report" """
    return f'{field} = "{value}"' if value else field


class Option:
    """One row."""

    def __init__(
        self,
        read: Callable[[Any, str], Any],
        default: object,
        help: str,
        *,
        written: str = "",
        metavar: str = "",
        where: tuple[str, ...] = OF_A_JOB,
        choices: tuple[str, ...] = (),
        refused: Mapping[str, str] = {},
        defines: bool = True,
    ) -> None:
        self.name = ""  # the field's name, from __set_name__
        self.default, self.written = default, written  # the default as a value, and as people write it
        self.metavar, self.where, self.choices, self.refused = metavar, where, choices, refused
        self.defines = defines  # part of the job's definition
        self.flag, self.number, self.many = read is _flag, read is checks.whole, read in (_texts, _variables, _pairs)
        self.optional = read in (_text, _time, _caps, _item_caps)  # in Python, None means the default
        self._read, self._help = read, help

    def __set_name__(self, _: type, name: str) -> None:
        self.name = name

    @property
    def typed(self) -> object:
        """The default as a Python caller writes it."""
        return self.default if self.flag or self.number or self.many else self.written or None

    @property
    def type(self) -> str:
        """What a Python caller may pass, for a type checker."""
        return _TYPES.get(self._read, "str | None")

    @property
    def help(self) -> str:
        return self._help + (f" (default {self.written})" if self.written else "; may be repeated" * self.many)

    def read(self, value: object, name: Names) -> Any:
        """The value of the field, from what a front end passes."""
        if value is None and self.optional:
            return self.default
        what = name(self.name)
        try:
            found = self._read(value, what)
            if found in self.refused:
                raise UsageError(f"{what} {found!r} is not supported: {self.refused[found]}")
            if self.choices and found not in self.choices:
                raise UsageError(f"{what} {found!r} is not known: use one of {', '.join(self.choices)}")
            return found
        except UsageError as error:
            raise BadOption(str(error), self.name) from None


def rows(declared: type, where: str = "") -> dict[str, Option]:
    """The options of a class by name: all of them, or those that are valid in `where`."""
    table = _cache.get((declared, where))
    if table is None:
        found = {name: row for name, row in vars(declared).items() if isinstance(row, Option)}
        table = {name: row for name, row in found.items() if where in row.where} if where else found
        _cache[declared, where] = table
    return table


_cache: dict[tuple[type, str], dict[str, Option]] = {}  # of `rows`


def read(declared: type, values: Mapping[str, object], where: str, name: Names) -> dict[str, Any]:
    """The values of the fields, from a front end's `values`; options that these do not name are left out."""
    known = rows(declared, where)
    for field in values:
        if field not in known:
            import difflib

            near = difflib.get_close_matches(field, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise BadOption(f"{where} has no option {field!r}: {hint}Its options are {', '.join(known)}", field)
    return {field: known[field].read(value, name) for field, value in values.items()}


def changed(declared: object) -> dict[str, Any]:
    """The options that are not at their default, in types that JSON has."""
    table, values = rows(type(declared)), declared.__dict__
    found = {name: values[name] for name, row in table.items() if values[name] != row.default}
    if "budget" in found:
        found["budget"] = tuple((cap.unit, cap.period, cap.amount) for cap in found["budget"])
    return found


def restored(packed: Mapping[str, Any]) -> dict[str, Any]:
    """What `changed` returned, from its JSON: lists become tuples again."""
    found = {name: _frozen(value) for name, value in packed.items()}
    if "budget" in found:
        found["budget"] = tuple(Cap(unit=unit, period=of, amount=amount) for unit, of, amount in found["budget"])
    return found


def definition(declared: object, **more: object) -> str:
    """What a job is, as text to be hashed: the same on every machine and for every start. Options at their default are
    left out, so that an upgrade that adds an option changes no job. Of `env` only the names of variables count."""
    table = rows(type(declared))
    facts: dict[str, Any] = more | {name: fact for name, fact in changed(declared).items() if table[name].defines}
    if "budget" in facts:
        facts["budget"] = sorted(facts["budget"])
    if "env" in facts:
        facts["env"] = sorted(name for name, _ in declared.__dict__["env"])
    return "\n".join(f"{name}={fact!a}" for name, fact in sorted(facts.items()))


# ── the kinds of rows; they return Any, so that a type checker takes a field for its value ──


def text(help: str, default: str = "", **more: Any) -> Any:
    return Option(_text, default, help, written=default, **more)


def time(help: str, default: str = "", **more: Any) -> Any:
    """A duration. Without a default it is None, and the code that uses it chooses one."""
    return Option(_time, duration.parse(default) if default else None, help, written=default, metavar="TIME", **more)


def bound(help: str, default: str = "", **more: Any) -> Any:
    """A duration, or "none" for no bound."""
    return Option(_bound, _bound(default or None, ""), help, written=default, metavar="TIME", **more)


def whole(help: str, default: int = 0, **more: Any) -> Any:
    return Option(checks.whole, default, help, written=str(default), metavar="N", **more)


def wholes(help: str, default: tuple[int, ...], **more: Any) -> Any:
    """Several whole numbers."""
    return Option(_wholes, default, help, written=", ".join(map(str, default)), metavar="N", **more)


def flag(help: str, **more: Any) -> Any:
    return Option(_flag, False, help, **more)


def texts(help: str, **more: Any) -> Any:
    return Option(_texts, (), help, **more)


def variables(help: str, **more: Any) -> Any:
    """Environment variables: NAME=VALUE, or a mapping."""
    return Option(_variables, (), help, metavar="NAME=VALUE", **more)


def pairs(help: str, **more: Any) -> Any:
    """Names, each with a text."""
    return Option(_pairs, (), help, metavar="NAME=TEXT", **more)


def caps(help: str, **more: Any) -> Any:
    """A budget."""
    return Option(_caps, (), help, metavar="CAPS", **more)


def item_caps(help: str, **more: Any) -> Any:
    """A batch's budget, which may also have caps for each item."""
    return Option(_item_caps, (), help, metavar="CAPS", **more)


def _text(value: object, what: str, *, empty: bool = False) -> str:
    if isinstance(value, str) and value:
        return value  # not encoded: it may name a file that is not UTF-8
    return checks.text(value, what, empty=empty)


def _time(value: Any, what: str) -> float:
    return duration.parse(value, what=what)


def _bound(value: Any, what: str) -> float | None:
    word = value.strip().lower() if isinstance(value, str) else value
    if word is None or word == "none":
        return None
    found = 0.0 if word == "0" else duration.parse(word, what=what)
    if not found:
        raise UsageError(f"{what} {value} leaves no time: write how long, as in 30m or 1h30m, or none")
    return found


def _wholes(value: object, what: str) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise UsageError(f"{what} is {checks.shown(value)}: write a list of whole numbers")
    return tuple(checks.whole(one, what) for one in value)


def _flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{what} is {checks.shown(value)}: write True or False")
    return value


def _texts(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, str | list | tuple):
        raise UsageError(f"{what} is {checks.shown(value)}: pass a string, or a list of strings")
    return tuple(_text(one, what) for one in ((value,) if isinstance(value, str) else value))


def _pairs(value: Any, what: str) -> tuple[tuple[str, str], ...]:
    if _is_mapping(value):
        found = [(_text(name, what), "=", _text(text, f"{what} {name}", empty=True)) for name, text in value.items()]
    else:
        found = [text.partition("=") for text in _texts(value, what)]
    for name, equals, _ in found:
        if not equals or not name:
            raise UsageError(f"{what} {name!r}: write NAME=VALUE")
    return tuple((name, text) for name, _, text in found)


def _variables(value: Any, what: str) -> tuple[tuple[str, str], ...]:
    found = _pairs(value, what)
    for name, _ in found:
        if name.startswith("NIGHTLATCH_"):
            raise UsageError(f"{what} {name}: names that begin with NIGHTLATCH_ are set by the run; use another name")
    return found


def _item_caps(value: Any, what: str) -> tuple[Cap, ...]:
    return _caps(value, what, (*budget.PERIODS, budget.ITEM))


def _caps(value: Any, what: str, periods: tuple[str, ...] = budget.PERIODS) -> tuple[Cap, ...]:
    if _is_mapping(value):
        value = ",".join(f"{cap}={amount}" for cap, amount in value.items())
    elif not isinstance(value, str):
        raise UsageError(f'{what} is {checks.shown(value)}: write it as in {{"usd": 2, "usd/day": 10}}')
    return budget.parse(value, periods) if value else ()


def _is_mapping(value: object) -> bool:
    if isinstance(value, str | list | tuple):
        return False  # all that a command line passes, so it need not import collections.abc
    from collections.abc import Mapping

    return isinstance(value, Mapping)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


_TYPES: dict[Callable[[Any, str], Any], str] = {
    checks.whole: "int",
    _flag: "bool",
    _texts: "str | Sequence[str]",
    _variables: "Mapping[str, str] | Sequence[str]",
    _caps: "str | Mapping[str, float] | None",
}
