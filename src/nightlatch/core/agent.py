"""A managed agent as a job's command: writes the words that start its driver, and reads them back."""

from __future__ import annotations

from ..errors import UsageError
from . import checks, duration
from .keys import key as derive
from .target import DRIVER, Command
from .value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

OWN = ("anthropic", "google", "openai", "command")  # providers that are part of Nightlatch
FIELDS = {  # the driver's own fields and their defaults; all other fields go to the vendor
    "waits": "0s",  # how long the agent may wait for a person
    "every": "30s",  # the longest time between two polls
    "deadline": "30s",  # how long the launch may take
    "priced_as": "",  # the model whose prices count, where the vendor names none
}
_DURATIONS = ("waits", "every", "deadline")
PREPARED = "prepared"  # an agent's status before its launch: nothing works yet
_JSON_WORDS, _IN_NUMBERS = ("true", "false", "null", "NaN", "Infinity", "-Infinity"), frozenset("0123456789+-.eE")


@value(frozen=True, kw_only=True)
class AgentRequest:
    """The agent to launch. `fields` is flat: the name budget.type stands for `type` in the table `budget`."""

    provider: str
    agent: str
    input: str
    fields: Mapping[str, Any]

    def check(self) -> AgentRequest:
        for what in ("provider", "agent", "input"):
            checks.text(getattr(self, what), what, empty=what == "agent" and self.provider == "command")
        if self.provider not in OWN and ":" not in self.provider:
            raise UsageError(
                f"there is no provider {self.provider!r}: use {', '.join(OWN)}, or an adapter of yours, "
                f"package.module:Name"
            )
        for name in _DURATIONS:
            self.seconds(name)
        return self

    def seconds(self, name: str) -> float:
        found = duration.parse(str(self.fields.get(name, FIELDS[name])), what=name)
        if not found and name != "waits":
            raise UsageError(f"{name} cannot be 0s: use 1s or more")
        return found

    def command(self, interpreter: str, shown: str = "") -> Command:
        """The command that starts the driver. `shown`: what is recorded in place of the input."""
        words = [word for name, fact in self.fields.items() for word in ("--set", f"{name}={_written(fact)}")]
        agent = ("--agent", self.agent) if self.agent else ()
        named = ("--provider", self.provider, *agent, *words)
        text = shown or self.input
        return Command(
            # -P: a file in the workspace must not be imported instead of a module of the same name.
            words=(interpreter, "-P", "-c", DRIVER, *named, "--input", self.input),
            shown_as=f"agent {' '.join(named)} --input {text}",
            defined_as="\n".join(("agent", *named, text)),
        )

    @property
    def nested(self) -> dict[str, Any]:
        """The fields as tables: the reverse of `flat`."""
        nested: dict[str, Any] = {}
        for name, fact in self.fields.items():
            *tables, last = name.split(".")
            place = nested
            for table in tables:
                place = place.setdefault(table, {})
            place[last] = fact
        return nested


def flat(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Tables as the flat `AgentRequest.fields`."""
    found: dict[str, Any] = {}
    for name, fact in fields.items():
        found |= flat(fact, f"{prefix}{name}.") if isinstance(fact, dict) and fact else {f"{prefix}{name}": fact}
    return found


def read_fields(words: Iterable[str]) -> dict[str, Any]:
    """The fields in words such as budget.type=limit. A value that is JSON is parsed, any other is text."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not all(name.split(".")):
            raise UsageError(f"--set {word!r} is not understood: write FIELD=VALUE, as in environment=remote")
        found[name] = _parsed(text)
    return found


def read_words(words: Sequence[str]) -> AgentRequest:
    """The request in the words that the driver was started with."""
    flags: dict[str, list[str]] = {}
    for flag, text in zip(words[::2], words[1::2], strict=True):
        flags.setdefault(flag.removeprefix("--"), []).append(text)
    single = {name: flags.get(name, [""])[0] for name in ("provider", "agent", "input")}
    return AgentRequest(**single, fields=read_fields(flags.get("set", ()))).check()


def for_agent(options: Mapping[str, Any]) -> dict[str, Any]:
    """A job's options with an agent's defaults: the vendor's usage figures count, a lost attempt is continued."""
    progress = {"progress": ["report"]} if options.get("stall") else {}
    return {"meter": "report", "lost": "again", **progress, **options}


def launch_key(key: str, number: int) -> str:
    """The effect's key for the next launch under a run's `key`, after `number` launches that ended."""
    shown = key if key.isprintable() and len(key) < 900 else derive("long", key)
    return f"agent/{shown}/{number + 1}"


def ended_scope(job: str) -> str:
    """The scope of the done keys that record ended launches in the store, for all machines."""
    return f"agent:{job}"


def label(job: str, launch: str) -> str:
    """What identifies a launch at the vendor: lower case, and short enough for every vendor."""
    return derive("launch", job, launch)[:32].lower()


def _written(fact: object) -> str:
    if isinstance(fact, str) and _parsed(fact) == fact:
        return fact
    from json import dumps

    return dumps(fact)  # also for text that `_parsed` would take for another type


def _parsed(text: str) -> Any:
    bare = text.strip()
    if bare[:1] not in ("{", "[", '"') and bare not in _JSON_WORDS and not _IN_NUMBERS.issuperset(bare):
        return text  # as most values are: this saves the slow import of json
    from json import loads

    try:
        return loads(text)
    except ValueError:
        return text
