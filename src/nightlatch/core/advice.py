"""What to type next, as data: a command's words. Each front end renders it, about the store that its user reads.

Sentences in errors are made in many places and have no front end: they use `command`, which is about the store that
this process was started with.
"""

from __future__ import annotations

from .passwords import without_password
from .printable import printable
from .value import value

_chosen_store = ""  # by --store; what the environment names, the user's next command finds there too


@value(frozen=True, kw_only=True)
class Advice:
    """A command of Nightlatch, such as words=("resolve", "7k3f")."""

    words: tuple[str, ...]  # as the program gets them, unquoted
    rest: str = ""  # what only the user can fill in, as it is shown: CMD …

    def shell(self, store: str = "") -> str:
        """As it is typed in a shell, about this store; "": the one that is used anyway."""
        named = ("--store", without_password(store)) if store else ()
        return " ".join(["nightlatch", *map(quoted, (*named, *self.words)), *filter(None, [self.rest])])


def to(*words: str, rest: str = "") -> Advice:
    return Advice(words=words, rest=rest)


def about(store: str | None) -> None:
    """From now on commands are about this store; none: about the one that is used anyway."""
    global _chosen_store  # noqa: PLW0603 - a process is started about one store, and messages are made everywhere
    _chosen_store = without_password(store or "")


def chosen_store() -> str:
    """The store that commands are about, for a process that this one starts; "" for none."""
    return _chosen_store


def text(advice: Advice) -> str:
    """As the user of this process types it."""
    return advice.shell(_chosen_store)


def command(*words: str, rest: str = "") -> str:
    """The same, for a sentence."""
    return text(to(*words, rest=rest))


def quoted(word: str) -> str:
    """`word` as one word of a shell, safe to print and itself again when it is typed."""
    if word.isalnum() and word.isascii():
        return word
    import shlex

    if word.isprintable():
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    return f"$'{printable(escaped.replace(chr(13), chr(92) + 'r'))}'"
