"""Items' workspaces, and where their results are published: in the driver, which knows the items' fields."""

from __future__ import annotations

import os
from typing import Any

from ....errors import UsageError
from ....system import treecopy
from ...shared.batches.items import BatchItem
from ...shared.batches.template import BadItem, Template


class ItemWorkspaces:
    """Fills the placeholders of --publish for an item, and makes a fresh folder in `home` for each of its tries."""

    def __init__(self, publish: list[str], home: str) -> None:
        self._home = home
        self._pairs = [_pair(text) for text in publish]

    def targets(self, content: Any) -> list[str]:
        """What is published where, as `FROM=TO` with the fields filled in."""
        return [f"{_fill(source, content, 'FROM')}={_target(to, content)}" for source, to in self._pairs]

    def make(self, item: BatchItem, tries: int) -> str:
        path = self._path(item, tries)
        treecopy.remove(path)
        os.mkdir(path, 0o700)
        return path

    def remove(self, item: BatchItem, tries: int) -> None:
        """Remove the workspaces of all tries of an item that is done. One that cannot be removed stays, like those of
        failed items: what was in it has been published."""
        for number in range(1, tries + 1):
            try:
                treecopy.remove(self._path(item, number))
            except OSError:
                pass

    def close(self) -> None:
        """Remove `home`, unless workspaces are left in it."""
        try:
            os.rmdir(self._home)
        except OSError:
            pass

    def _path(self, item: BatchItem, tries: int) -> str:
        return os.path.join(self._home, f"{item.digest.hex()}-{tries}")


def check(publish: list[str]) -> None:
    """Raise `UsageError` for a bad --publish, before anything is claimed."""
    for text in publish:
        _, to = _pair(text)
        if not to.fields:
            raise UsageError(
                f"--publish {text!r}: every item would replace the one before it. Put a field into TO, as in "
                f"page.md=out/{{slug}}.md"
            )


def _pair(text: str) -> tuple[Template, Template]:
    source, equals, to = text.partition("=")
    if not equals or not source or not to or to.startswith("git+"):
        raise UsageError(
            f"--publish {text!r}: write FROM=TO, as in page.md=out/{{slug}}.md; items cannot push to a branch"
        )
    return Template(source), Template(to)


def _fill(template: Template, content: Any, what: str) -> str:
    values = template.values(content)
    for text in values:
        if (
            not text
            or "\0" in text
            or ".." in text.split("/")
            or text.startswith("/")
            or (what == "FROM" and "=" in text)
        ):
            raise BadItem(f"{text!r} cannot be part of a path in --publish {template.text}")
    return template.fill(values)


def _target(template: Template, content: Any) -> str:
    to = _fill(template, content, "TO")
    return to if "://" in to else os.path.abspath(to) + ("/" if to.endswith("/") else "")
