"""A crontab as jobs of nightlatch.toml: each line becomes a job, or a reason why not. The crontab is never changed.

What a crontab expresses in other ways becomes a key: `CRON_TZ` becomes tz, `timeout 30m` timeout, `flock` overlap =
"queue" (with -n no key, since that is the default), and each flag of `nightlatch run NAME --slot …` its key.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

from ..core import options, schedule
from ..core.advice import quoted
from ..core.job import Job
from ..core.options import FILE, RUN
from ..core.value import value
from ..errors import UsageError

_VARIABLE = re.compile(r"""\s*(["']?)([A-Za-z_]\w*)\1\s*=\s*(.*?)\s*$""")
_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")  # a word of a shell line, with its quotes
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_FIRST_KEYS = ("schedule", "tz", "command")  # the keys that a job's table begins with
_NO_TIMEOUT = "cron sets no time limit: add a timeout"
_MAIL_VARIABLES = ("MAILTO", "MAILFROM")
_TOO_GENERAL = (  # words that say nothing about a job, so it is not named after them
    "sh", "bash", "env", "nice", "ionice", "sudo", "python", "python3", "node", "ruby", "perl", "cd", "exec",
    "source", "printf",
)  # fmt: skip


@value(frozen=True, kw_only=True)
class CrontabLine:
    """One line of a crontab: the job that it becomes, or why it becomes none."""

    text: str
    number: int
    name: str = ""
    keys: dict[str, Any] = {}  # noqa: RUF012 - a value is frozen
    why_not: str = ""
    notes: tuple[str, ...] = ()  # comments for the job's table


def read(text: str, *, home: str, folder: str, system: bool = False) -> list[CrontabLine]:
    """The lines of a crontab that start a command. `home`: the folder where cron runs them; `folder`: where
    nightlatch.toml will be. If the two differ, a job gets `cwd`. `system`: each line names its user, as in
    /etc/crontab."""
    found: list[CrontabLine] = []
    env: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (variable := _VARIABLE.match(line)) and not line.lstrip()[:1].isdigit() and line.lstrip()[0] not in "*@":
            env[variable[2]] = _unquoted(variable[3])
            continue
        found.append(_read_line(line.strip(), number, dict(env), home, folder, system, {one.name for one in found}))
    return found


def jobs_still_in(jobs: dict[str, Job], crontab: str) -> dict[str, str]:
    """The jobs that a crontab starts too and so would run twice: name → the crontab's line."""
    found: dict[str, str] = {}
    for line in read(crontab, home="", folder=""):
        for name, job in jobs.items():
            command = line.keys.get("command")
            text = " ".join(map(quoted, command)) if isinstance(command, list) else command
            same = text and text == job.target.shown
            named = re.search(rf"\bnightlatch\b.*\brun\s+{re.escape(name)}(\s|$)", line.text)
            if same or named:
                found.setdefault(name, line.text)
    return found


def _read_line(
    text: str, number: int, env: dict[str, str], home: str, folder: str, system: bool, names: set[str]
) -> CrontabLine:
    time_fields = 1 if text.startswith("@") else 5
    parts = text.split(None, time_fields + system)
    if len(parts) <= time_fields + system:
        return CrontabLine(text=text, number=number, why_not="it has no command")
    when, rest = " ".join(parts[:time_fields]), parts[-1]
    if system and parts[time_fields] != os.environ.get("USER", ""):
        return CrontabLine(
            text=text, number=number, why_not=f"it runs as {parts[time_fields]}: add it to a file of that user"
        )
    try:
        schedule.parse(when, datetime.UTC)
    except UsageError as error:
        return CrontabLine(text=text, number=number, why_not=str(error))
    keys: dict[str, Any] = {"schedule": when, "timeout": "none"}
    notes = [_NO_TIMEOUT]
    command, stdin = _split_at_percent(rest)
    name, command = _unwrap(command, keys, notes)
    name = _unique(name or _name_for(command), names)
    if stdin:
        command = f"printf '%s\\n' {' '.join(map(shlex.quote, stdin))} | {{ {command}\n}}"
    if keys["timeout"] != "none":
        notes.remove(_NO_TIMEOUT)
    _apply_environment(env, keys, notes)
    if isinstance(command, str) and "/dev/null" in command:
        notes.append("its output is kept anyway (nightlatch logs): what it sends to /dev/null is lost")
    shell = env.get("SHELL", "/bin/sh")
    keys.setdefault("command", command if shell in ("/bin/sh", "sh") else [shell, "-c", command])
    if home and os.path.realpath(home) != os.path.realpath(folder):
        keys.setdefault("cwd", home)
    ordered = {key: keys[key] for key in (*_FIRST_KEYS, *keys) if key in keys}
    return CrontabLine(text=text, number=number, name=name, keys=ordered, notes=tuple(notes))


def _split_at_percent(text: str) -> tuple[str, list[str]]:
    """The command before the first %, and the lines of its standard input after it, separated by %. \\% is a %."""
    parts = re.split(r"(?<!\\)%", text)
    command, *stdin = (part.replace("\\%", "%") for part in parts)
    return command.rstrip(), stdin


def _unwrap(command: str, keys: dict[str, Any], notes: list[str]) -> tuple[str, str]:
    """(the job's name if `nightlatch run` names it, else ""; the command without the wrappers that became keys)"""
    for _ in range(3):  # flock around timeout around nightlatch, in any order
        raw = list(_WORD.finditer(command))
        try:
            words = [" ".join(shlex.split(word[0])) for word in raw]
        except ValueError:
            return "", command
        program = os.path.basename(words[0]) if words else ""
        if program == "nightlatch" and words[1:2] == ["run"]:
            return _from_run(shlex.split(command)[2:], keys, notes) or ("", command)
        taken = _WRAPPERS[program](words, keys) if program in _WRAPPERS else 0
        if not taken or taken >= len(words):
            return "", command
        # `flock FILE -c 'a line'` has the command in one word; otherwise it is the rest of the line, quotes kept
        command = words[taken] if words[taken - 1] in ("-c", "--command") else command[raw[taken].start() :]
    return "", command


def _flock(words: list[str], keys: dict[str, Any]) -> int:
    """How many words flock and its options take; 0 if they cannot become keys. The lease replaces the lock: with -n a
    slot is skipped while the last run is working, which is the default; without -n the slot queues."""
    at, skips = 1, False
    while at < len(words) and words[at].startswith("-"):
        if words[at] in ("-n", "--nonblock", "--nb", "-xn", "-nx"):
            skips = True
        elif words[at] not in ("-x", "-e", "--exclusive", "-o", "--close"):
            return 0
        at += 1
    if not skips:
        keys["overlap"] = "queue"
    at += 1  # the file
    return at + 1 if words[at : at + 1] in (["-c"], ["--command"]) else at


def _timeout(words: list[str], keys: dict[str, Any]) -> int:
    """How many words timeout and its options take; 0 if they cannot become keys."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        option, equals, text = words[at].partition("=")
        if option not in ("-k", "--kill-after"):
            return 0
        keys["grace"] = _duration(text if equals else "".join(words[at + 1 : at + 2]))
        at += 1 if equals else 2
    found = _duration("".join(words[at : at + 1]))
    if not found:
        return 0
    keys["timeout"] = found
    return at + 1


_WRAPPERS = {"flock": _flock, "timeout": _timeout}


def _duration(text: str) -> str:
    """A time of timeout(1) in our notation; "" if it is not one."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    return f"{found[1]}{found[2] or 's'}" if found else ""


def _from_run(words: list[str], keys: dict[str, Any], notes: list[str]) -> tuple[str, str] | None:
    """The name and command of `nightlatch run NAME [flags] -- CMD …`. The flags become keys; if one cannot: None."""
    if "--" not in words:
        return None
    at = words.index("--")
    name, flags, command = words[0], words[1:at], words[at + 1 :]
    if name.startswith("-") or not command:
        return None
    rows = options.rows(Job, RUN)
    from_flags: dict[str, Any] = {}
    flags = [part for word in flags for part in (word.split("=", 1) if word.startswith("--") else [word])]
    given = iter(flags)
    for flag in given:
        field = flag.removeprefix("--").replace("-", "_")
        if field == "held_ok":
            continue
        if field in ("store", "config", "verdict"):
            notes.append(f"{flag} {next(given, '')} of the line is left out: a file has one store for all")
            continue
        row = rows.get(field)
        if row is None or (FILE not in row.where and field != "slot"):
            return None
        text: Any = True if row.flag else next(given, "")
        if row.many:
            from_flags.setdefault(field, []).append(text)
        else:
            from_flags[field] = int(text) if row.number and text.isdecimal() else text
    if "env" in from_flags:
        from_flags["env"] = dict(one.partition("=")[::2] for one in from_flags["env"])
    if "budget" in from_flags:
        caps = dict(cap.partition("=")[::2] for cap in from_flags["budget"].split(","))
        from_flags["budget"] = {unit: float(amount) for unit, amount in caps.items()}
    keys["schedule"] = from_flags.pop("slot", keys["schedule"])
    keys.update({"timeout": "1h"} | from_flags)
    keys["command"] = [
        f"@{word}" if word.startswith("@") else word for word in command
    ]  # doubled, since a word that begins with one @ names a file
    return name, shlex.join(command)


def _apply_environment(env: dict[str, str], keys: dict[str, Any], notes: list[str]) -> None:
    if env.get("CRON_TZ"):
        keys.setdefault("tz", env["CRON_TZ"])
    if env.get("HOME"):
        keys.setdefault("cwd", env["HOME"])
    if any(env.get(name) for name in _MAIL_VARIABLES):
        notes.append("cron mailed its output; here `nightlatch` shows what failed")
    rest = {name: text for name, text in env.items() if name not in ("CRON_TZ", "HOME", "SHELL", *_MAIL_VARIABLES)}
    if rest:
        keys["env"] = {**rest, **keys.get("env", {})}


def _name_for(command: str) -> str:
    """A name for the job, from the first word of the command that is neither a wrapper nor an option."""
    for word in re.split(r"[\s;&|()]+", command):
        base = os.path.splitext(os.path.basename(word.strip("'\"")))[0].lower()
        name = _NOT_IN_A_NAME.sub("-", base).strip("-")
        if name and name not in _TOO_GENERAL and not word.startswith(("-", "/dev/", "~")) and "=" not in word:
            return name[:40]
    return "job"


def _unique(name: str, used: set[str]) -> str:
    if name not in used:
        return name
    return next(f"{name}-{number}" for number in range(2, len(used) + 3) if f"{name}-{number}" not in used)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def toml(line: CrontabLine) -> Iterator[str]:
    """A line as TOML: the line as a comment, then the job, or why there is none."""
    yield f"# {line.text}"
    if line.why_not:
        yield f"# line {line.number} of the crontab did not become a job: {line.why_not}"
        return
    yield f"[jobs.{_key(line.name)}]"
    for note in line.notes:
        yield f"# {note}"
    for key, given in line.keys.items():
        yield f"{key} = {_value(given)}"
    yield 'stage = "unattended"'


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(given: Any) -> str:
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int | float):
        return f"{given:g}"
    if isinstance(given, list):
        return f"[{', '.join(map(_value, given))}]"
    if isinstance(given, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(text)}" for name, text in given.items()) + " }"
    return json.dumps(str(given), ensure_ascii=False).replace("\x7f", "\\u007f")
