"""What a run publishes to: a file, a folder or an object that is replaced, or a branch that is pushed to.

Each target can say what is about to land there (`describe`), make it land (`land`), and tell whether it has
landed (`landed`). What `describe` returns is journaled before the write, so that a successor can ask `landed` about it.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager

from ....core.value import value
from ....errors import GateUnreachable, NothingToPublish, UsageError
from ....gates import at
from ....gates.folder import Folder
from ....gates.on_disk import check_outside_releases
from ....system import fingerprint, treecopy
from ....system.open_beneath import open_beneath
from . import uncommitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ....core.fence import Landing
    from ....core.model import Begun
    from ....gates.git import Git
    from ...shared.leases.lease import Lease
    from .clone import Source
    from .workspace import Workspace

    Facts = dict[str, str]


# What `landed` returns; "" if the content has not landed.
IN_PLACE = "there"
REPLACED = "replaced since"  # it landed, and another write replaced it

_CHUNK = 1 << 20
_TRAILER = re.compile(r"^ *Nightlatch-(\w+): (.*)$", re.MULTILINE)


@value(frozen=True, kw_only=True)
class CommandFolder:
    """A folder that is used like a workspace: one of the command's, or a staged copy."""

    path: str
    commit: str = ""
    guard: str = ""  # as in `Workspace`, if the folder is in one


@value(frozen=True, kw_only=True)
class Publisher:
    """The run that publishes."""

    lease: Lease
    run: str
    job: str
    done: tuple[str, str] | None  # the key that may be settled in one step with a push
    attempt: int = 0  # the attempt whose result is published; 0: the command publishes a part of its work

    @property
    def trailers(self) -> dict[str, str]:
        """Trailers in addition to the lease's. Only the push that completes an attempt names it: so other machines know
        that the attempt is complete."""
        return {"Nightlatch-Run": self.run} | ({"Nightlatch-Attempt": str(self.attempt)} if self.attempt else {})


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


class PushTarget:
    """`git`: pushes the workspace's commits to its branch. Uncommitted changes are committed first."""

    def __init__(self, source: Source) -> None:
        if source.remote is None:
            raise UsageError(
                "--publish git needs a remote to push to, and the repository in this folder has none: "
                "git remote add origin URL"
            )
        from ....gates.git import Git

        self.gate: Git = Git(source.remote.url, source.branch)

    def planned(self, workspace: Workspace, publisher: Publisher) -> Facts:
        """The commit that is to be pushed once it is approved."""
        return {"commit": self._commit_changes(workspace, publisher), "base": workspace.commit}

    def moved(self, plan: Facts) -> bool:
        """Never: a push replaces nothing. It follows the branch, or is a conflict."""
        return False

    def restore(self, plan: Facts, earlier: Workspace) -> bool:
        """Make the plan's commit the tip again; False if the files differ from it. (The tip may be the same files with
        the trailers of a push that did not happen.)"""
        work = self._earlier_repository(earlier)
        earlier.commit = plan["base"]
        if not plan["commit"]:
            return True
        trees = [work.run("rev-parse", "--verify", "--quiet", f"{one}^{{tree}}") for one in ("HEAD", plan["commit"])]
        if trees[0] != trees[1] or trees[0][0] or work.run("status", "--porcelain")[1]:
            return False
        work.set_tip(plan["commit"])
        return True

    def _commit_changes(self, workspace: Workspace | CommandFolder, publisher: Publisher) -> str:
        """Commit what the command left uncommitted; returns the tip, "" if there is no commit at all."""
        work = self._work(workspace)
        message = f"{publisher.job}: changes of run {publisher.run}\n\nThe command left them uncommitted."
        uncommitted.commit(work, message)
        if not workspace.commit and work.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")[0]:
            return ""
        return str(work.tip())

    def describe(self, workspace: Workspace | CommandFolder, publisher: Publisher) -> Facts:
        """The tip, with its trailers added here: the push changes the commit only if it has to rebase it."""
        tip = self._commit_changes(workspace, publisher)
        if not tip:
            return {"commit": "", "base": ""}
        work = self._work(workspace)
        if tip != workspace.commit:
            lease = publisher.lease
            trailers = {"Nightlatch-Job": lease.name, **publisher.trailers, "Nightlatch-Token": str(lease.token)}
            tip = work.add_trailers(tip, trailers)
        return {"commit": tip, "base": workspace.commit, "run": publisher.run, "token": str(publisher.lease.token)}

    def landed(self, facts: Facts, fresh: Workspace | CommandFolder) -> str:
        """IN_PLACE if the branch has the commit, whatever was pushed on top of it since; else ""."""
        return IN_PLACE if self._contains(facts, fresh) else ""

    def overtaken(self, facts: Facts) -> bool:
        """Never: a push replaces nothing. It follows the branch, or is a conflict."""
        return False

    def _contains(self, facts: Facts, fresh: Workspace | CommandFolder) -> bool:
        """Does the branch have the commit, by its id, or by its trailers if the push had to rebase it?"""
        work, tip = self._work(fresh), fresh.commit
        if not facts["commit"] or not tip:
            return not facts["commit"]
        if work.contains(facts["commit"], tip):
            return True
        since = f"{facts['base']}..{tip}" if facts["base"] and work.contains(facts["base"], tip) else tip
        wanted = {"Run": facts["run"], "Token": facts["token"]} | self._result_trailer(facts)
        return any(wanted.items() <= found.items() for found in self._trailers_with(work, since, facts["token"]))

    def _result_trailer(self, facts: Facts) -> Facts:
        """The trailer that tells the result from a part that the command pushed under the same token."""
        return {"Attempt": facts["attempt"]}

    def has_result_of(self, other: Begun, publisher: Publisher, fresh: Workspace) -> bool:
        """Does the branch have the commit that completed an attempt of another machine?"""
        if not fresh.commit:
            return False
        # The attempt's number is not compared: `other.attempt` counts the attempts of all machines.
        return any(
            "Attempt" in found and (found.get("Job"), found.get("Token")) == (publisher.lease.name, str(other.token))
            for found in self._trailers_with(self._work(fresh), fresh.commit, str(other.token))
        )

    def _trailers_with(self, work: Any, since: str, token: str) -> Iterator[Facts]:
        """The trailers of each commit with this token, their names without "Nightlatch-". In a commit that somebody
        squashed from several, each of these has its own paragraph."""
        text = f"Nightlatch-Token: {token}"
        code, found, stderr = work.run("log", "--fixed-strings", f"--grep={text}", "--format=%B%n", since)
        if code:
            raise GateUnreachable(f"{self.gate.url} could not be searched for {text}: {stderr.strip()}")
        for paragraph in found.split("\n\n"):
            yield dict(_TRAILER.findall(paragraph))

    def intact(self, facts: Facts, earlier: Workspace) -> bool:
        work = self._earlier_repository(earlier)
        earlier.commit = facts["base"]
        code, tip, _ = work.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return code == 0 and tip == facts["commit"] and not work.run("status", "--porcelain")[1]

    def land(self, workspace: Workspace | CommandFolder, facts: Facts, publisher: Publisher) -> str:
        if facts["commit"] == facts["base"]:
            return facts["commit"]  # the command found nothing to change
        return self.gate.push(
            publisher.lease,
            folder=workspace.path,
            done=publisher.done,
            trailers=publisher.trailers,
            guard=workspace.guard,
        )

    def _earlier_repository(self, earlier: Workspace) -> Any:
        """The repository of an earlier attempt. Its processes are gone, so their git locks are removed."""
        work = self._work(earlier)
        work.remove_locks()
        return work

    @staticmethod
    def _work(workspace: Workspace | CommandFolder) -> Any:
        from ....gates.worktree import Worktree

        return Worktree(workspace.path, guard=workspace.guard)


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
