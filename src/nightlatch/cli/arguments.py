"""Arguments of commands, declared as with argparse, parsed in a tenth of the time.

Importing argparse takes longer than taking a lease. This module supports options anywhere before `--`, as
`--name VALUE` or `--name=VALUE`, positional words, a help text, and a one-line error. Options cannot be abbreviated.
"""

from __future__ import annotations

import sys

from .. import exits
from ..config import place
from ..core import advice
from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ..core.options import Option


class Namespace:
    """The parsed arguments, by name."""

    name: str  # most commands have it

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no argument {name!r}")

    def given_values(self, names: Iterable[str]) -> dict[str, object]:
        """The options among `names` that were given, with their values."""
        found = {name: self.__dict__[name] for name in names}
        return {name: value for name, value in found.items() if not (value is None or value is False or value == [])}


class Argument:
    def __init__(
        self,
        name: str,
        *,
        metavar: str = "",
        default: object = None,
        type: Callable[[str], object] = str,
        action: str = "store",
        nargs: str = "",
        choices: Iterable[str] = (),
        empty: bool = False,
        hidden: bool = False,
        help: str = "",
    ) -> None:
        self.name = name
        self.dest = name.lstrip("-").replace("-", "_")
        self.positional = not name.startswith("-")
        self.flag = action == "store_true"
        self.many = action == "append" or nargs in ("+", "*")
        self.required = self.positional and nargs not in ("?", "*")
        self.default = False if self.flag else [] if self.many and default is None else default
        self.metavar = metavar or self.dest.upper()
        self.convert, self.choices, self.help = type, tuple(choices), help
        self.empty, self.hidden = empty or self.positional, hidden

    def read(self, text: str) -> object:
        if not text and not self.empty:  # an unset "$STORE" must not silently mean the default store
            raise UsageError(f"{self.name} is empty: give it a value, or omit it")
        if self.choices and text not in self.choices:
            name = self.metavar if self.positional else self.name
            raise UsageError(f"{name} {text!r} is not known: use one of {', '.join(self.choices)}")
        try:
            return self.convert(text)
        except ValueError:
            raise UsageError(f"{self.name} {text!r} is not a{' whole' if self.convert is int else ''} number") from None

    @property
    def shown(self) -> str:
        return self.metavar if self.positional else self.name if self.flag else f"{self.name} {self.metavar}"


class Parser:
    """One command's arguments."""

    def __init__(self, command: str, purpose: str, examples: str = "") -> None:
        self.prog, self._command = f"nightlatch {command}", command
        self.usage = ""
        self._purpose, self._examples = purpose, examples
        self.arguments: list[Argument] = []
        self.add_argument("--store", metavar="URL", help="where leases are kept (default: $NIGHTLATCH_STORE)")
        self.add_argument("--config", metavar="FILE", help="nightlatch.toml (default: the nearest one, from here up)")

    def add_argument(self, name: str, **how: Any) -> None:
        """As in argparse: metavar, default, type, action (store_true, append), nargs (?, +, *), choices, help. Also:
        `empty` allows an empty value, `hidden` omits the argument from the help."""
        self.arguments.append(Argument(name, **how))

    def add_flag(self, name: str, help: str) -> None:
        self.add_argument(name, action="store_true", help=help)

    def add_options(self, rows: Iterable[Option]) -> None:
        """Add options of core/job.py or core/batch.py. `Namespace.given_values` returns those that were given."""
        from ..core.options import as_flag  # imported here, since `lock` must start fast and has none of them

        for row in rows:
            action = "store_true" if row.flag else "append" if row.many else "store"
            self.add_argument(
                as_flag(row.name), metavar=row.metavar, type=int if row.number else str, action=action,
                choices=row.choices, help=row.help,
            )  # fmt: skip

    def parse_args(self, argv: list[str]) -> Namespace:
        try:
            return self._parse(argv)
        except UsageError as error:
            raise UsageError(f"{error}. See `{self.prog} --help`") from None

    def _parse(self, argv: list[str]) -> Namespace:
        options = {argument.name: argument for argument in self.arguments if not argument.positional}
        values = {argument.dest: argument.default for argument in self.arguments}
        words: list[str] = []
        rest = iter(argv)
        for word in rest:
            if word in ("-h", "--help"):
                print(self.help(), end="")
                sys.exit(0)
            if word == "--":
                words += rest
            elif not word.startswith("-") or word == "-":
                words.append(word)
            else:
                name, equals, text = word.partition("=")
                argument = options.get(name)
                if argument is None:
                    raise UsageError(f"unknown option {name}{_nearest(name, options)}")
                values[argument.dest] = self._value_of(argument, text if equals else None, rest, values[argument.dest])
        advice.choose(str(values["store"] or ""), str(values["config"] or ""))
        place.choose(str(values["config"] or ""))
        self._assign_positionals(words, values)
        return Namespace(**values)

    @staticmethod
    def _value_of(argument: Argument, text: str | None, rest: Iterable[str], previous: object) -> object:
        if argument.flag:
            if text is not None:
                raise UsageError(f"{argument.name} takes no value")
            return True
        if text is None:
            text = next(iter(rest), None)
        if text is None:
            raise UsageError(f"{argument.name} needs a value: {argument.shown}")
        value = argument.read(text)
        return [*previous, value] if argument.many and isinstance(previous, list) else value

    def _assign_positionals(self, words: list[str], values: dict[str, Any]) -> None:
        positionals = [argument for argument in self.arguments if argument.positional]
        for index, argument in enumerate(positionals):
            required_later = sum(later.required for later in positionals[index + 1 :])
            if argument.many:
                taken, words = words[: len(words) - required_later], words[len(words) - required_later :]
                values[argument.dest] = [argument.read(word) for word in taken]
                missing = argument.required and not taken
            elif len(words) > (0 if argument.required else required_later):
                values[argument.dest], words = argument.read(words[0]), words[1:]
                missing = False
            else:
                missing = argument.required
            if missing:
                one_of = f": use one of {', '.join(argument.choices)}" if argument.choices else ""
                raise UsageError(f"{argument.metavar} is missing{one_of}")
        if words:
            hint = "; put the command after --" if "-- CMD" in self.usage else ""
            raise UsageError(f"unexpected argument {words[0]!r}{hint}")

    def help(self) -> str:
        from . import helptext  # needed for --help only

        visible = [argument for argument in self.arguments if not argument.hidden]
        shown = [*((argument.shown, argument.help) for argument in visible), ("-h, --help", "this text")]
        words = " ".join(a.metavar if a.required else f"[{a.metavar}]" for a in visible if a.positional)
        usage = self.usage or " ".join(filter(None, (self.prog, words, "[options]")))
        lines = [*helptext.usage(usage), "", *helptext.prose(self._purpose), "", "arguments:", *helptext.table(shown)]
        lines += ["", "exit codes:", *helptext.table((f"{code:<5}", text) for code, text in exits.of(self._command))]
        if self._examples:
            lines += ["", "examples:", *helptext.examples(self._examples)]
        return "\n".join(lines) + "\n"


class _ParserReady(BaseException):
    """Raised by `parser_of` where a command would parse its arguments."""

    def __init__(self, parser: Parser) -> None:
        super().__init__()
        self.parser = parser


def parser_of(command: str) -> Parser:
    """The parser of a command: its `main` is called, and stopped where it would parse."""
    module = __import__(f"{__package__}.{command}", fromlist=["main"])

    def stop(self: Parser, _argv: list[str]) -> Namespace:
        raise _ParserReady(self)

    parse_args, Parser.parse_args = Parser.parse_args, stop  # type: ignore[method-assign,assignment]
    try:
        module.main([])
    except _ParserReady as ready:
        return ready.parser
    finally:
        Parser.parse_args = parse_args  # type: ignore[method-assign]
    raise LookupError(command)


def split_command(argv: list[str]) -> tuple[list[str], list[str]]:
    """Nightlatch's arguments, and the command after `--`, which is never parsed."""
    if "--" in argv:
        at = argv.index("--")
        if argv[at + 1 : at + 2] == [""]:
            raise UsageError("the command after -- is empty: its first word must name a program")
        if "…" in argv[at + 1 :]:
            raise UsageError("the command after -- has a literal … in it: replace it with what is to be run")
        return argv[:at], argv[at + 1 :]
    return argv, []


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f" (did you mean {near[0]}?)" if near else ""
