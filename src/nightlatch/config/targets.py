"""What a job of nightlatch.toml runs: `command`, `python` with `args`, or `agent`; each is a row of `TARGETS`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from typing import Any

from ..core import checks
from ..core.agent import AgentRequest, flat
from ..core.target import Command, Function
from ..core.value import value
from ..errors import UsageError
from .mistakes import shown

_LONGEST_WORD = 128 * 1024 - 1  # bytes: the kernel's limit for one word of a command

Stamp = tuple[str, int, int, int, int, int]  # made by `stamp`


def stamp(path: str) -> Stamp:
    """Path, time, size, inode, owner and mode of a file. Take it before reading: an edit in between is then found, not
    missed."""
    try:
        info = os.stat(path)
    except OSError:
        return path, 0, 0, 0, 0, 0
    return path, info.st_mtime_ns, info.st_size, info.st_ino, info.st_uid, info.st_mode


@value(frozen=True, kw_only=True)
class JobTarget:
    """What to run, the part of it that defines the job, and the stamps of the files that it was read from."""

    target: Command | Function
    defined_as: tuple[str, ...]
    files: tuple[Stamp, ...] = ()
    is_shell_line: bool = False  # was `command` a string?


def command(given: Any, table: dict[str, Any], folder: str, interpreter: str) -> JobTarget:
    """Read `command`: a list of words (@FILE stands for that file's content), or a string, a line for the shell."""
    if isinstance(given, str):
        words = ["sh", "-c", checks.text(given, "command")]
    elif isinstance(given, list) and given:
        words = [checks.text(word, "a word of command", empty=True) for word in given]
    else:
        raise UsageError(f"command is {checks.shown(given)}: write a list of words, or a line for the shell")
    read = [_word(word, folder) for word in words]
    texts, definitions, files = zip(*read, strict=True)
    written = given if isinstance(given, str) else " ".join(words)
    digests = ", ".join(definition[: definition.rindex(" ") + 13] for _, definition, file in read if file)
    return JobTarget(
        target=Command(words=texts, shown_as=written + (f" ({digests})" if digests else "")),
        defined_as=("command", *definitions),
        files=tuple(filter(None, files)),
        is_shell_line=isinstance(given, str),
    )


def _word(word: str, folder: str) -> tuple[str, str, Stamp | None]:
    """(the word to run, the word in the definition, the stamp of the file that it names)"""
    if not word.startswith("@"):
        return word, word, None
    if word.startswith("@@"):
        return word[1:], word, None
    path = os.path.join(folder, os.path.expanduser(word[1:]))
    file_stamp = stamp(path)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"command: {word} is the content of the file {shown(path)}, which cannot be read ({reason}). Write @{word} "
            f"if you mean the word itself"
        ) from None
    if len(text.encode()) > _LONGEST_WORD or "\0" in text:
        raise UsageError(f"command: {word} is too long for a command line: let the program read the file itself")
    return text, f"{word} sha256 {hashlib.sha256(text.encode()).hexdigest()}", file_stamp


def python(given: Any, table: dict[str, Any], folder: str, interpreter: str) -> JobTarget:
    """Read `python`: module:function, or FILE.py:function."""
    name = checks.text(given, "python")
    module, colon, function = name.rpartition(":")
    if not colon or not module or not function:
        raise UsageError(f"python {name!r} does not name a function: write module:function")
    arguments = table.get("args", [])
    if not isinstance(arguments, list | dict):
        raise UsageError("args must be a list, or a table of names and values")
    try:
        packed = json.dumps({"args": [], "kwargs": {}, "args" if isinstance(arguments, list) else "kwargs": arguments})
    except TypeError:
        raise UsageError("args contains a date or time: write it as a string") from None
    where = f"{os.path.join(folder, module)}:{function}" if module.endswith(".py") else name
    if module.endswith(".py") and not os.path.isfile(os.path.join(folder, module)):
        raise UsageError(f"python: there is no file {shown(os.path.join(folder, module))}")
    return JobTarget(
        target=Function(where=where, arguments=packed, path=(folder,), interpreter=interpreter),
        defined_as=("python", name, packed),
    )


def agent(given: Any, table: dict[str, Any], folder: str, interpreter: str) -> JobTarget:
    """Read `agent`: a table with provider, agent, input, and the vendor's fields."""
    if not isinstance(given, dict):
        raise UsageError(f"agent is {checks.shown(given)}: write a table with provider, agent and input")
    fields = {name: fact for name, fact in given.items() if name not in ("provider", "agent", "input")}
    text, definition, file = _word(checks.text(given.get("input", ""), "input of agent"), folder)
    try:
        request = AgentRequest(
            provider=given.get("provider", ""), agent=given.get("agent", ""), input=text, fields=flat(fields)
        ).check()
        driver = request.command(interpreter, definition)
    except TypeError:
        raise UsageError("agent contains a date or time: write it as a string") from None
    return JobTarget(target=driver, defined_as=("agent", driver.defined_as), files=(file,) if file else ())


TARGETS: dict[str, Callable[[Any, dict[str, Any], str, str], JobTarget]] = {
    "command": command,
    "python": python,
    "agent": agent,
}
