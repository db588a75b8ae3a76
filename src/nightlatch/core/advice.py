"""The command to type next, as data. Each front end renders it for the store that its user reads.

Error messages are composed in many places, far from a front end: they use `command`, which names the store that this
process was started with.
"""

from __future__ import annotations

from .passwords import without_password
from .printable import printable
from .value import value

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")  # without quotes

# Chosen by --store and --config. A choice by environment variables is not named: the user's next command finds it too.
_chosen_store = ""
_chosen_config = ""


@value(frozen=True, kw_only=True)
class Advice:
    """A command of Nightlatch, such as words=("resolve", "7k3f")."""

    words: tuple[str, ...]  # unquoted, as in argv

    def shell(self, store: str = "", config: str = "") -> str:
        """The shell line that runs it for this store and this nightlatch.toml; "": the default one."""
        named = (*(("--store", without_password(store)) if store else ()), *(("--config", config) if config else ()))
        return " ".join(["nightlatch", *map(quoted, (*named, *self.words))])


def to(*words: str) -> Advice:
    return Advice(words=words)


def choose(store: str | None, config: str = "") -> None:
    """From now on, name this store and this nightlatch.toml in every command; None or "": name none."""
    global _chosen_store, _chosen_config
    _chosen_store, _chosen_config = without_password(store or ""), config


def chosen_store() -> str:
    """The store that every command names, to be passed to a child process; "": none."""
    return _chosen_store


def text(advice: Advice) -> str:
    """The shell line for the store that this process was started with."""
    return advice.shell(_chosen_store, _chosen_config)


def command(*words: str) -> str:
    """The shell line of a command, to be put into an error message."""
    return text(to(*words))


def quoted(word: str) -> str:
    """`word` quoted for a shell: safe to print, and the shell reads the same word back."""
    if word and all(letter in _SAFE for letter in word):
        return word
    if word.isprintable():
        return "'" + word.replace("'", "'\"'\"'") + "'"
    escaped = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    return f"$'{printable(escaped.replace(chr(13), chr(92) + 'r'))}'"
