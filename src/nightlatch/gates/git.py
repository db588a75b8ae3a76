"""A branch of a git remote that only the newest holder can move."""

from __future__ import annotations

from ..core import checks, fence
from ..core.passwords import without_password
from ..core.value import replace
from ..errors import UsageError
from ..store.git import names
from ..store.git.remote import Remote, resolve
from ..store.git.store import GitStore
from .bearer import sealed_mark
from .git_fence import BranchFence
from .git_push import Push
from .worktree import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..core.fence import KeptMark, Refusal
    from ..core.model import KnownGrants, Mark
    from ..core.protocols import Bearer
    from ..store.git.repository import RefMove


class Git:
    """The branch `branch` of a remote, moved by pushes that carry a fence.

        with nightlatch.lease("articles", gates=[site := gates.Git("origin", "main")]) as lease:
            write_and_commit()
            site.push(lease)

    The branch and its fence, `refs/nightlatch/@fence/<branch>`, move in one atomic push, and the fence is always a
    new commit on top of the fence that the holder has seen: if that is not the newest, neither moves. The server
    needs no hook. A plain `git push` is not kept out; the gate rebases onto its commits.
    A remote on a local disk is sealed only by holders that reach it under the same path.
    """

    def __init__(self, remote: str = "origin", branch: str = "", *, folder: str = ".", trusted: bool = True) -> None:
        """`remote`: a name in the repository of `folder`, or a URL. `branch` "" or HEAD: the branch checked out there.
        `trusted=False`: only the remote's address is taken from that repository's settings."""
        checks.text(remote, "remote")
        checks.text(branch, "branch", empty=True)
        folder = checks.path(folder, "folder")
        resolved = resolve(remote if remote.startswith("git+") else f"git+{remote}", folder)
        resolved = resolved if trusted else replace(resolved, config="")
        self._open(resolved, Worktree(folder).branch() if branch in ("", "HEAD", "@") else branch)

    def _open(self, remote: Remote, branch: str) -> None:
        self.branch = branch = names.branch(branch)
        self.url = f"git+{without_password(remote.url)}#{branch}"
        self._fence = BranchFence(remote, branch, self.url)
        self._remote = remote
        self.registered: Mark | None = None

    @classmethod
    def from_url(cls, url: str) -> Git:
        remote_url, _, branch = url.partition("#")
        if not branch:
            raise UsageError(f"{url!r} does not name a branch: write git+https://host/path#main")
        gate = cls.__new__(cls)
        gate._open(resolve(remote_url), branch)
        return gate

    def seal(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        """Refuse every older grant from now on, by a push of the fence alone; returns the previous mark."""
        before: Mark | None = None

        def decide(marks: dict[str, KeptMark]) -> dict[str, KeptMark] | None:
            nonlocal before
            before = marks[mark.name].mark if mark.name in marks else None
            return self._fence.with_mark(marks, mark, by, known)

        self._fence.change(decide)
        self._fence.sealed.add(mark.grant)
        return before

    def push(
        self,
        bearer: Bearer | Mark,
        *,
        folder: str = ".",
        done: tuple[str, str] | None = None,
        trailers: Mapping[str, str] | None = None,
        guard: str = "",
    ) -> str:
        """Push HEAD of the repository in `folder`; returns the commit that landed.

        Raises `StaleToken`, with nothing moved, if a newer holder has sealed the branch; `Conflict` if a person has
        to merge somebody else's push with this one. `done` is a (scope, key) that is settled with the push: in the
        same push if the lease is kept in the same remote, else right after. If that key is done already, nothing is
        pushed. The tip gets trailers with the lease's name and token, and `trailers`. With a `guard` (a folder of
        `git_guard`), settings and hooks come from there, and none from the repository.
        """
        mark, by = sealed_mark(self, bearer)
        trailers = {"Nightlatch-Job": mark.name, **(trailers or {}), "Nightlatch-Token": str(mark.token)}
        if done is None:
            return self._push(mark, by, folder, trailers, guard)
        store = getattr(bearer, "store", None)
        if store is None:
            raise UsageError("a done key is kept in the lease's store: pass the lease, not only its mark")
        if store.look(*done):
            return ""
        if isinstance(store, GitStore) and store.repository.remote.url == self._remote.url:

            def moves_to_settle(value: str) -> list[RefMove]:
                return store.moves_to_settle(mark.name, mark.grant, *done, value=value)

            return self._push(mark, by, folder, trailers, guard, moves_to_settle)
        landed = self._push(mark, by, folder, trailers, guard)
        store.settle(mark.name, mark.grant, *done, value=landed)
        return landed

    def _push(
        self,
        mark: Mark,
        by: str,
        folder: str,
        trailers: Mapping[str, str],
        guard: str,
        moves_to_settle: Callable[[str], list[RefMove]] | None = None,
    ) -> str:
        work = Worktree(folder, config=self._remote.config, guard=guard)
        return Push(self._fence, work, mark, by, trailers, moves_to_settle).run()

    def fetch(self, folder: str = ".", guard: str = "") -> str:
        """Fetch the branch into the repository in `folder`; returns its tip, "" if there is no branch."""
        tip, _ = self._fence.look()
        if tip:
            work = Worktree(folder, config=self._remote.config, guard=guard)
            work.fetch(self._remote.url, self._fence.branch_ref, tip)
        return tip

    def standing(self) -> dict[str, KeptMark]:
        """Every mark by lease name."""
        return self._fence.marks(self._fence.look()[1])

    def refusals(self) -> list[Refusal]:
        """The refusals of writers on this machine, the oldest first."""
        return self._fence.refusals()

    def adopt(self, store: str) -> int:
        """Make another store's marks this store's; returns how many there were."""
        foreign = 0

        def adopted_marks(marks: dict[str, KeptMark]) -> dict[str, KeptMark] | None:
            nonlocal foreign
            new, foreign = fence.adopted(marks, store)
            return new if foreign else None

        self._fence.change(adopted_marks)
        return foreign
