"""A run may not be started while its child imports the job's file: a start at the top of that file would start the run
again from inside itself, for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import UsageError

_importing = False


class StartedMeanwhile(UsageError):
    """A run was started by the import of a job's file."""


@contextmanager
def mark_import() -> Iterator[None]:
    """Mark the block in which the job's file is imported."""
    global _importing  # noqa: PLW0603 - a process imports its job once
    _importing = True
    try:
        yield
    finally:
        _importing = False


def check(name: str) -> None:
    """Called before the job `name` is started: raises if the import of its file is what starts it."""
    if _importing:
        raise StartedMeanwhile(
            f"{name} is started while the run's process imports the file of its job: put the start below "
            f'if __name__ == "__main__":'
        )
