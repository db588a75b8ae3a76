"""A target to which a run's commits are pushed: the branch that its workspace was cloned from."""

from __future__ import annotations

import re

from ....errors import GateUnreachable, UsageError
from . import uncommitted
from .targets import IN_PLACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ....core.model import Begun
    from ....gates.git import Git
    from .clone import Source
    from .targets import CommandFolder, Facts, Publisher
    from .workspace import Workspace

_TRAILER = re.compile(r"^ *Nightlatch-(\w+): (.*)$", re.MULTILINE)


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
