"""A target that is replaced as a whole by what a run leaves in its workspace: a file, a folder or an object."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager

from ....errors import NothingToPublish, UsageError
from ....gates import at
from ....gates.folder import Folder
from ....gates.on_disk import check_outside_releases
from ....system import fingerprint, treecopy
from ....system.open_beneath import open_beneath
from .targets import IN_PLACE, REPLACED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ....core.fence import Landing
    from .targets import CommandFolder, Facts, Publisher
    from .workspace import Workspace

_CHUNK = 1 << 20


class ReplaceTarget:
    """`FROM=TO`: replaces the file, folder or object TO with FROM of the workspace."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.source, equals, to = text.partition("=")
        if not equals or not self.source or not to:
            raise UsageError(f"--publish {text!r}: write FROM=TO, as in page.html=/srv/www/page.html; or git")
        if os.path.isabs(self.source) or ".." in self.source.split("/"):
            raise UsageError(f"--publish {text!r}: FROM is a path in the workspace, not starting with / and without ..")
        if to.startswith("git+"):
            raise UsageError(
                f"--publish {text!r}: to push to a branch, use --publish git with --workspace git:URL#branch"
            )
        is_url = "://" in to
        if not is_url and os.path.isdir(to) and not os.path.islink(to.rstrip("/")):
            # Refuse it now, not when the work is done.
            raise UsageError(
                f"--publish {text!r}: {to} is a plain folder, and a folder cannot be switched in one step; a link can. "
                f"Move it away: mv {to} {to.rstrip('/')}.before"
            )
        folder = self.source.endswith("/") and not is_url
        self.gate: Any = Folder(to) if folder else at(to)
        self._is_folder = getattr(self.gate, "takes_folders", False)
        check_outside_releases(getattr(self.gate, "path", ""))

    def describe(self, workspace: Workspace | CommandFolder, publisher: Publisher) -> Facts:
        """What is to be published, by its sha256. `NothingToPublish`: the command did not make it."""
        with _opened(workspace.path, self.source) as fd:
            if os.path.isdir(fd) != self._is_folder:
                what, hint = (
                    ("file", "TO without / at its end") if self._is_folder else ("folder", f"{self.source}/=TO")
                )
                raise NothingToPublish(f"nothing was published: {self.source} is a {what}. Write {hint}")
            return {"from": self.source, "sha256": fingerprint.of(fd)} | self._tokens(publisher)

    def planned(self, workspace: Workspace, publisher: Publisher) -> Facts:
        """What is to be published once it is approved, and what landed at the target last."""
        facts = self.describe(workspace, publisher)
        with _opened(workspace.path, self.source) as fd:
            size = _size(fd)
        return {"from": facts["from"], "sha256": facts["sha256"], "size": str(size)} | self._last_landing()

    def moved(self, plan: Facts) -> bool:
        """Has another write landed at the target since the plan was made?"""
        return self._last_landing() != {name: plan[name] for name in ("over", "landed")}

    def _last_landing(self) -> Facts:
        """Token (`over`) and digest (`landed`) of what landed at the target last."""
        landings = self.gate.landings()
        last = landings[-1] if landings else None
        return {"over": str(last.mark.token) if last else "", "landed": last.digest if last else ""}

    def copy_to(self, plan: Facts, earlier: Workspace, staging: str) -> bool:
        """Copy the planned content to `staging`, where no process in the workspace can change it; False if the copy is
        not what the plan names."""
        target = os.path.join(staging, self.source.rstrip("/"))
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        try:
            with _opened(earlier.path, plan["from"]) as fd:
                if os.path.isdir(fd):
                    treecopy.copy(fd, target)
                else:
                    _copy_file(fd, target)
        except NothingToPublish:
            return False
        return fingerprint.of(target) == plan["sha256"]

    def _tokens(self, publisher: Publisher) -> Facts:
        """The token under which it is to land, and the token (`over`) of what it is to replace."""
        return {"token": str(publisher.lease.token), "over": self._last_landing()["over"]}

    def landed(self, facts: Facts, fresh: Workspace | CommandFolder | None) -> str:
        """IN_PLACE, REPLACED, or "" if it has not landed. Call it after the seal: nothing older can arrive then."""
        if self._holds(facts["sha256"]):
            return IN_PLACE
        return REPLACED if any(_is_landing_of(landing, facts) for landing in self.gate.landings()) else ""

    def overtaken(self, facts: Facts) -> bool:
        """Has another write landed at the target since `facts` were journaled? Only for what has not landed itself."""
        last = self._last_landing()["over"]
        return bool(last) and facts.get("over", last) != last

    def _holds(self, digest: str) -> bool:
        if not hasattr(self.gate, "path"):
            try:
                return fingerprint.of_bytes(self.gate.read()) == digest
            except FileNotFoundError:
                return False
        return os.path.exists(self.gate.path) and fingerprint.of(self.gate.path) == digest

    def intact(self, facts: Facts, earlier: Workspace) -> bool:
        """Is the content unchanged in the workspace that an earlier attempt left?"""
        try:
            with _opened(earlier.path, facts["from"]) as fd:
                return fingerprint.of(fd) == facts["sha256"]
        except NothingToPublish:
            return False

    def land(self, workspace: Workspace | CommandFolder, facts: Facts, publisher: Publisher) -> str:
        with _opened(workspace.path, self.source) as fd:
            return str(self.gate.publish(publisher.lease, fd, digest=facts["sha256"]) or "")


def _copy_file(source: int, target: str) -> None:
    os.lseek(source, 0, os.SEEK_SET)
    with open(target, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        while chunk := os.read(source, _CHUNK):
            file.write(chunk)
        os.fchmod(file.fileno(), os.fstat(source).st_mode & 0o777)


def _size(fd: int) -> int:
    """Bytes of a file, or of all files in a folder."""
    if not os.path.isdir(fd):
        return os.fstat(fd).st_size
    return sum(
        os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
        for _, _, names, folder in os.fwalk(".", dir_fd=fd)
        for name in names
    )


@contextmanager
def _opened(workspace: str, source: str) -> Iterator[int]:
    """Open what the command left at `source`. Links are followed only inside the workspace."""
    try:
        fd = open_beneath(workspace, source)
    except FileNotFoundError as error:
        raise NothingToPublish(
            f"nothing was published: the command succeeded and left no {source} in its workspace"
        ) from error
    except OSError as error:
        why = "a link that leads out of it" if error.errno == errno.EXDEV else f"not readable ({error.strerror})"
        raise NothingToPublish(f"nothing was published: {source} in the workspace is {why}") from error
    try:
        yield fd
    finally:
        os.close(fd)


def _is_landing_of(landing: Landing, facts: Facts) -> bool:
    return (str(landing.mark.token), landing.digest) == (facts.get("token"), facts["sha256"])
