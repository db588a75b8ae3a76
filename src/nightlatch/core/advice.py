"""What to type next, as messages say it: about the store that this process was told to use."""

from __future__ import annotations

from .passwords import without_password

_given = ""  # by --store; what the environment names, the user's next command finds there too


def about(store: str | None) -> None:
    """From now on commands are about this store; none: about the one that is used anyway."""
    global _given  # noqa: PLW0603 - a process is started about one store, and messages are made everywhere
    _given = without_password(store or "")


def command(*words: str) -> str:
    """`nightlatch …` as it can be typed. Words are quoted by the caller."""
    if not _given:
        return " ".join(("nightlatch", *words))
    import shlex

    return " ".join(("nightlatch", "--store", shlex.quote(_given), *words))


def given() -> str:
    """The store that commands are about, for a process that this one starts; "" for none."""
    return _given
