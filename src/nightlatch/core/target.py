"""What a job runs: a command, a Python function, or a command for each of many items."""

from __future__ import annotations

from .advice import quoted
from .value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Python code that launches and watches an agent at a vendor. Run by -c, since -m takes 2 ms longer.
DRIVER = "from nightlatch.agents.drive import main; main()"


@value(frozen=True, kw_only=True)
class Command:
    """The words of a command line."""

    words: tuple[str, ...]
    shown_as: str = ""  # how it is shown and recorded; "": by its words
    defined_as: str = ""  # what defines it; "": its words

    @property
    def shown(self) -> str:
        return self.shown_as or " ".join(map(quoted, self.words))

    @property
    def definition(self) -> tuple[str, ...]:
        return "command", *((self.defined_as,) if self.defined_as else self.words)


@value(frozen=True, kw_only=True)
class Function:
    """A function at the top of a module, called in a separate process."""

    where: str  # module:qualname, or /path/to/script.py:qualname
    arguments: str  # a JSON object: args, kwargs
    path: tuple[str, ...]  # folders to import modules from
    interpreter: str

    @property
    def words(self) -> tuple[str, ...]:
        import json

        arguments = json.dumps(json.loads(self.arguments) | {"path": self.path})
        # -P: a file in the workspace must not be imported instead of a module of the same name.
        return self.interpreter, "-P", "-m", "nightlatch.runtime.child.python_job", self.where, arguments

    @property
    def shown(self) -> str:
        return f"{self.where} {self.arguments}"

    @property
    def definition(self) -> tuple[str, ...]:
        """What defines it, without what differs between machines (folders, interpreter) and calls (arguments)."""
        return "python", self.where.rpartition("/")[2]


@value(frozen=True, kw_only=True)
class Each:
    """A batch: `command` is run for each of its items. `words` start the batch's driver."""

    name: str  # of the batch
    command: tuple[str, ...]
    batch: str  # a JSON object: the batch, as core/batch.py packs it
    defined_as: str
    interpreter: str

    @property
    def words(self) -> tuple[str, ...]:
        driver = "nightlatch.runtime.child.batches.driver"
        return self.interpreter, "-P", "-m", driver, self.name, "--", *self.command

    @property
    def shown(self) -> str:
        return f"batch {self.name} -- {' '.join(map(quoted, self.command))}"

    @property
    def definition(self) -> tuple[str, ...]:
        return "batch", self.defined_as


TARGETS = {"command": Command, "python": Function, "batch": Each}  # by the first word of their definition


def pack(target: Command | Function | Each) -> dict[str, Any]:
    return {target.definition[0]: {**target.__dict__}}


def unpack(packed: dict[str, Any]) -> Command | Function | Each:
    ((kind, facts),) = packed.items()
    target: Command | Function | Each = TARGETS[kind](
        **{name: tuple(fact) if isinstance(fact, list) else fact for name, fact in facts.items()}
    )
    return target
