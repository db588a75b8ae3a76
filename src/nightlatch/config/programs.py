"""Checks that everything a job needs exists where the service will look for it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

from ..core.batch import unpack
from ..core.job import Job
from ..core.target import Each, Function

# Built-ins and keywords of the shell: a line that begins with one need not name a program.
_SHELL_WORDS = frozenset((
    ".", ":", "[", "[[", "alias", "bg", "break", "case", "cd", "command", "continue", "do", "echo", "eval", "exec",
    "exit", "export", "false", "fg", "for", "function", "if", "jobs", "kill", "let", "local", "printf", "pwd",
    "read", "return", "set", "shift", "source", "test", "then", "time", "times", "trap", "true", "type", "ulimit",
    "umask", "unset", "until", "wait", "while", "{", "(", "!",
))  # fmt: skip

_FIND_MODULE = (
    "import importlib.util, sys; sys.path[:0] = [sys.argv[2]]\n"
    "import nightlatch.runtime.child.python_job\n"
    "try: found = importlib.util.find_spec(sys.argv[1])\n"
    "except ModuleNotFoundError: found = None\n"
    "sys.exit(0 if found else 3)"
)


def missing(job: Job, path: str) -> list[str]:
    """What cannot be found, and what to do about it. Programs are searched for on `path`. Problems that only a
    start would show are not looked for."""
    home = os.path.dirname(job.file)
    items = unpack(job.target).items if isinstance(job.target, Each) else ""
    needs = [("cwd", job.cwd if not job.workspace else ""), ("env_file", job.env_file), ("items", items)]
    found = [
        f"{key}: there is no {name}"
        for key, name in needs
        if name and not os.path.exists(os.path.join(home, os.path.expanduser(name)))
    ]
    return [*filter(None, [_program(job, path, home)]), *found]


def _program(job: Job, path: str, home: str) -> str:
    if isinstance(job.target, Function):
        return _function(job.target, home)
    words = list(job.target.command if isinstance(job.target, Each) else job.target.words)
    program = _program_of_line(words[2]) if words[:2] == ["sh", "-c"] and len(words) > 2 else words[0]
    if not program or "{" in program:
        return ""
    folder = os.path.normpath(os.path.join(home, job.cwd))
    if job.workspace and not os.path.isabs(program) and "/" in program:
        return ""  # it is in the workspace, which does not exist yet
    if "/" in program:
        there = os.path.join(folder, os.path.expanduser(program))
        if not os.path.exists(there):
            return f"there is no {program}" + ("" if os.path.isabs(program) else f" in {folder}")
        return "" if os.access(there, os.X_OK) else f"{program} may not be executed: chmod +x {shlex.quote(there)}"
    if shutil.which(program, path=dict(job.env).get("PATH", path)):
        return ""
    return f"{program} is not found on the PATH of the service: write its whole path, or set env.PATH"


def _program_of_line(line: str) -> str:
    """The program that a shell line begins with; "" if that cannot be told."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return ""
    while words and "=" in words[0] and words[0].partition("=")[0].isidentifier():
        words = words[1:]
    plain = bool(words) and words[0] not in _SHELL_WORDS and not set(words[0]) & set("$`;|&<>(){}*?~#")
    return words[0] if plain else ""


def _function(target: Function, home: str) -> str:
    module = target.where.rpartition(":")[0]
    if module.endswith(".py"):
        module = "os"  # config/targets.py has checked the file: only check the interpreter
    words = [target.interpreter, "-P", "-c", _FIND_MODULE, module, home]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{target.interpreter} cannot be started: {error}"
    if done.returncode == 3:
        return f"the module {module} is not found from {home}"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["without a message"])[-1]
        return f"{target.interpreter} cannot run it ({last}): {target.interpreter} -m pip install nightlatch"
    return ""
