"""Which nightlatch.toml counts: the one that is named, else the nearest one above this folder, else the user's.

Every command looks, so this imports nothing else unless a file is found.
"""

from __future__ import annotations

import os
import sys

from ..errors import BadConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENV = "NIGHTLATCH_CONFIG"
NAME = "nightlatch.toml"

_chosen = ""  # by --config
_stores: dict[str, str] = {}  # by path: a command asks several times


def choose(path: str | None) -> None:
    """From now on this file counts; none: the one that is found."""
    global _chosen  # noqa: PLW0603 - a process is started about one file, as it is about one store
    _chosen = os.path.abspath(path) if path else ""


def find() -> str:
    """The file that counts; "" if there is none. Inside a run that is the run's own, wherever the command stands: an
    agent cannot choose another by writing one into its workspace."""
    named = _chosen or os.environ.get(ENV, "")
    if named:
        if not os.path.isfile(named):
            raise BadConfig(f"{'--config' if _chosen else ENV} names {named}, and there is no such file")
        return _trusted(os.path.abspath(named))
    if os.environ.get("NIGHTLATCH_RUN"):
        return ""
    for path in _above():
        if os.path.isfile(path):
            return _trusted(path)
    path = os.path.join(config_folder(), NAME)
    return _trusted(path) if os.path.isfile(path) else ""


def of_a_run(file: str) -> str:
    """What NIGHTLATCH_CONFIG is inside a run: the file that the run's job is in, else the one that counts here."""
    try:
        return file or find()
    except BadConfig:  # what does not count here does not count there
        return ""


def settings(file: str, *names: str) -> dict[str, Any]:
    """Some keys of the file that a run's job is in, else of the one that counts here."""
    path = of_a_run(file)
    if not path:
        return {}
    from .load import settings_of

    return settings_of(path, *names)


def store() -> str:
    """The store that the file names, as it is meant from any folder; "" if no file names one."""
    path = find()
    if path and path not in _stores:
        from .load import store_of

        _stores[path] = store_of(path)
    return _stores.get(path, "")


def logs_json(file: str = "") -> bool:
    """Whether the file says log = "json". Every run asks at its end, so the file is not parsed for it: what is at its
    top comes before its first table."""
    path = of_a_run(file)
    try:
        with open(path, encoding="utf-8") as read:
            for line in read:
                text = line.partition("#")[0].replace(" ", "").strip()
                if text.startswith("["):
                    return False
                if text in ('log="json"', "log='json'"):
                    return True
    except (OSError, UnicodeDecodeError):
        pass  # no file, or one that says nothing to us
    return False


def config_folder() -> str:
    """The folder of this user on this machine for settings."""
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/nightlatch")
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.config"), "nightlatch")


def _above() -> list[str]:
    """Where a file may be, from this folder up to the root."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # somebody removed it
        return []
    found = []
    while True:
        found.append(os.path.join(folder, NAME))
        above = os.path.dirname(folder)
        if above == folder:
            return found
        folder = above


def _trusted(path: str) -> str:
    """A file says which commands are run: another user's would run them as this one."""
    info = os.stat(path)
    if info.st_uid not in (os.geteuid(), 0):
        raise BadConfig(
            f"{path} belongs to another user (uid {info.st_uid}), who could run commands as you. Name a file of yours: "
            f"--config FILE; or make it yours: sudo chown {os.geteuid()} {path}"
        )
    if info.st_mode & 0o002:
        raise BadConfig(f"every user of this machine can write to {path}, and run commands as you: chmod o-w {path}")
    return path
