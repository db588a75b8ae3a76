"""Which nightlatch.toml applies: the named one, else the nearest in this folder or above, else the user's.

Every command looks for it, so the reader (config/load.py) is imported only if there is a file.
"""

from __future__ import annotations

import os
import sys

from ..errors import BadConfig
from ..system import storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENV = "NIGHTLATCH_CONFIG"
NAME = "nightlatch.toml"
_PIECE = 16384  # bytes read at a time

_chosen = ""  # the file that --config names
_in_force: dict[str, str] = {}  # path → the text that `serve` has in force: an invalid edit does not count
_stores: dict[str, str] = {}  # path → the store it names; kept, since a command asks several times


def choose(path: str | None) -> None:
    """Use this file from now on; without a path, search for one."""
    global _chosen  # noqa: PLW0603 - a process works with one file, as with one store
    _chosen = os.path.abspath(path) if path else ""


def put_in_force(texts: dict[str, str]) -> None:
    """From now on these are the texts of the files at these paths, and the other files are as they are on the disk."""
    _in_force.clear()
    _in_force.update(texts)
    _stores.clear()


def find() -> str:
    """The file that applies here; "" if there is none. Inside a run it is the run's file, whatever the folder: an agent
    cannot choose another by writing one into its workspace."""
    named = _chosen or os.environ.get(ENV, "")
    if named:
        if not os.path.isfile(named):
            raise BadConfig(f"{'--config' if _chosen else ENV} names {named}, and there is no such file")
        return trusted(os.path.abspath(named))
    return _search()


def is_found_unnamed() -> bool:
    """Would the file that --config names be found without it too?"""
    return bool(_chosen) and not os.environ.get(ENV) and _search() == _chosen


def _search() -> str:
    if os.environ.get("NIGHTLATCH_RUN"):
        return ""
    for path in _paths_upwards():
        if os.path.isfile(path):
            return trusted(path)
    path = os.path.join(config_folder(), NAME)
    return trusted(path) if os.path.isfile(path) else ""


def require() -> str:
    """The file that applies here; raises `BadConfig` if there is none."""
    file = find()
    if not file:
        raise BadConfig(
            "there is no nightlatch.toml here, above, or in your config folder. Create one: nightlatch init"
        )
    return file


def of_a_run(file: str) -> str:
    """The value of NIGHTLATCH_CONFIG in a run: `file`, which declares its job, or if "" the one that applies here."""
    try:
        return file or find()
    except BadConfig:  # a file that is refused here would be refused in the run too
        return ""


def settings(file: str, *names: str) -> dict[str, Any]:
    """The named top-level keys of `file`, which declares a run's job, or if "" of the file that applies here."""
    path = of_a_run(file)
    if not path or not _may_have(path, names):
        return {}
    from .load import settings_of

    return settings_of(path, *names, text=_in_force.get(path))


def _may_have(path: str, names: tuple[str, ...]) -> bool:
    """May the file have one of these keys? It has none if neither their names nor a backslash (an escape) are in it.
    Every run asks, and parsing a file of many jobs takes longer than a short run."""
    try:
        if path in _in_force:
            return any(word in _in_force[path] for word in ("\\", *names))
        return mentions(path, "\\", *names)
    except OSError:
        return True  # `settings_of` reports what is wrong


def mentions(path: str, *words: str) -> bool:
    """Is one of these words in the file? Read in pieces: new memory for a large file takes longer than the reading."""
    wanted = [word.encode() for word in words]
    longest = max(map(len, wanted))
    with open(path, "rb", buffering=0) as file:
        rest = b""
        while piece := file.read(_PIECE):
            text = rest + piece
            if any(word in text for word in wanted):
                return True
            rest = text[-longest:]
    return False


def store() -> str:
    """The store that the file names, as a URL that is valid in any folder; "" if it names none."""
    path = find()
    if path and path not in _stores:
        from .load import settings_of  # every command needs the store: mistakes elsewhere in the file are ignored

        _stores[path] = str(settings_of(path, "store").get("store", ""))
    return _stores.get(path, "")


def logs_json(file: str = "") -> bool:
    """Does the file say log = "json"? Every run asks at its end, so only the lines above the first table are read, and
    nothing is parsed."""
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
        pass  # there is no file, or it is not text
    return False


def config_folder() -> str:
    """This user's folder for Nightlatch's settings."""
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/nightlatch")
    return os.path.join(storage.user_folder("XDG_CONFIG_HOME", "~/.config"), "nightlatch")


def _paths_upwards() -> list[str]:
    """The paths to look at, from this folder up to the root."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # the folder was removed
        return []
    found = []
    while True:
        found.append(os.path.join(folder, NAME))
        above = os.path.dirname(folder)
        if above == folder:
            return found
        folder = above


def trusted(path: str) -> str:
    """Return the path; raise `BadConfig` if another user can write the file, which decides what runs as this user."""
    try:
        info = os.stat(path)
    except OSError:
        return path  # `load` says what is wrong
    if info.st_uid not in (os.geteuid(), 0):
        raise BadConfig(
            f"{path} belongs to another user (uid {info.st_uid}), who could run commands as you. Name a file of yours: "
            f"--config FILE; or make it yours: sudo chown {os.geteuid()} {path}"
        )
    if info.st_mode & 0o002:
        raise BadConfig(f"every user of this machine can write to {path}, and run commands as you: chmod o-w {path}")
    return path
