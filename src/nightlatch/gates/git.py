"""A branch of a git remote that only the newest holder can move."""

from __future__ import annotations

import os

from ..core import fence, given
from ..core.value import replace
from ..errors import Conflict, GateUnreachable, StaleToken, StoreUnreachable, UsageError
from ..store import url as store_url
from ..store.git import names
from ..store.git.objects import Pack
from ..store.git.remote import Remote, resolve
from ..store.git.repository import Move, Moved, Refused, Repository, verdict
from ..store.git.store import GitStore
from ..store.git.trouble import line_with
from ..system import clock, command, durable, identity
from . import git_seen, refusals
from .bearer import present
from .plain import Memory
from .worktree import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..core.fence import Refusal, Standing
    from ..core.model import Known, Mark
    from ..core.protocols import Bearer
    from ..store.git.objects import Commit

_TIMEOUT = 30.0
_FOLLOW = 3  # how often a branch that somebody else moved is followed
_CROWD = 20  # how often other leases' holders, or our own keeper, may come first


class Git:
    """The branch `branch` of a remote, moved by pushes that carry a fence.

        with nightlatch.lease("articles", gates=[site := gates.Git("origin", "main")]) as lease:
            write_and_commit()
            site.push(lease)

    Branch and fence, `refs/nightlatch/@fence/<branch>`, go in one atomic push, and the fence is always a new
    commit on top of the one that was seen: whoever has seen an older fence moves neither. Needs no hook at the
    server. Whoever pushes without the gate is not kept out; its commits are followed (fetch and rebase).
    A branch on one machine's own disk is sealed by holders that find it under the same path only.
    """

    def __init__(self, remote: str = "origin", branch: str = "", *, folder: str = ".") -> None:
        """`remote`: a name in the repository of `folder`, or a URL. `branch` "": the one checked out there."""
        given.text(remote, "remote")
        given.text(branch, "branch", empty=True)
        folder = given.path(folder, "folder")
        place = resolve(remote if remote.startswith("git+") else f"git+{remote}", folder)
        self._open(place, branch or Worktree(folder).branch())

    def _open(self, remote: Remote, branch: str) -> None:
        self.branch = branch
        self.url = f"git+{without_password(remote.url)}#{branch}"
        folder = store_url.folder_of(f"git+{remote.url}")
        self._repository = Repository(remote, folder)
        self._branch_ref = f"refs/heads/{branch}"
        self._fence_ref = names.fence(branch)
        file = names.encode(branch).replace("/", "")
        self._refusals = os.path.join(folder, "refusals", file)
        self._seen = os.path.join(folder, "seen", file)
        self._sealed: Mark | None = None
        self._known: tuple[str, dict[str, Standing]] = ("", {})  # a fence and its marks
        self._memory = Memory()  # and of the repository that was pushed from

    @classmethod
    def from_url(cls, url: str) -> Git:
        place, _, branch = url.partition("#")
        if not branch:
            raise UsageError(f"{url!r} names no branch: write git+https://host/path#main")
        gate = cls.__new__(cls)
        gate._open(resolve(place), branch)
        return gate

    def seal(self, mark: Mark, by: str, known: Known | None = None) -> Mark | None:
        """Refuse every older grant from now on, by a push of the fence alone; returns the mark before."""
        before: Mark | None = None

        def raised(standing: dict[str, Standing]) -> dict[str, Standing] | None:
            nonlocal before
            before = standing[mark.name].mark if mark.name in standing else None
            return self._raised(standing, mark, by, known)

        self._change(raised)
        self._sealed = mark
        return before

    def push(
        self,
        bearer: Bearer | Mark,
        *,
        folder: str = ".",
        done: tuple[str, str] | None = None,
        trailers: Mapping[str, str] | None = None,
    ) -> str:
        """Push HEAD of the repository in `folder`; returns the commit that landed.

        Raises `StaleToken`, and nothing moved, if a newer holder has sealed the branch; `Conflict` if somebody
        else's push cannot be brought together with this one without a person. `done` is a (scope, key) that is
        settled with it: in the same push if the lease stands in the same remote, else right after. Nothing is
        pushed if that key is done. The tip gets trailers with the lease's name and token, and `trailers`.
        """
        mark, by = present(self, bearer, self._sealed)
        told = {"Nightlatch-Job": mark.name, **(trailers or {}), "Nightlatch-Token": str(mark.token)}
        if done is None:
            return _Push(self, mark, by, folder, told).run()
        store = getattr(bearer, "store", None)
        if store is None:
            raise UsageError("a done key needs a lease, whose store can keep it; a mark alone has none")
        if store.look(*done):
            return ""
        if isinstance(store, GitStore) and store.repository.remote.url == self._repository.remote.url:

            def settling(value: str) -> list[Move]:
                return store.moves_to_settle(mark.name, mark.grant, *done, value=value)

            return _Push(self, mark, by, folder, told, settling).run()
        landed = _Push(self, mark, by, folder, told).run()
        store.settle(mark.name, mark.grant, *done, value=landed)
        return landed

    def fetch(self, folder: str = ".") -> str:
        """Bring what the branch has into the repository in `folder`; returns its tip, "" if there is no branch."""
        tip = self._look().get(self._branch_ref, "")
        if tip:
            work = Worktree(folder, config=self._repository.remote.config)
            work.fetch(self._repository.remote.url, self._branch_ref, tip)
        return tip

    def standing(self) -> dict[str, Standing]:
        """Every mark by lease name."""
        return _marks(self._fence(self._look().get(self._fence_ref, "")))

    def refusals(self) -> list[Refusal]:
        """What this machine was refused, the oldest first."""
        return refusals.read(self._refusals)

    def adopt(self, store: str) -> int:
        """Re-key marks of another store to this one; returns how many there were."""
        foreign = 0

        def rekeyed(standing: dict[str, Standing]) -> dict[str, Standing] | None:
            nonlocal foreign
            foreign = sum(stands.mark.store != store for stands in standing.values())
            new = {name: replace(s, mark=replace(s.mark, store=store, grant="")) for name, s in standing.items()}
            return new if foreign else None

        self._change(rekeyed)
        return foreign

    def _change(self, decide: Callable[[dict[str, Standing]], dict[str, Standing] | None]) -> None:
        """Move the fence alone; again from where it stands if another came first."""
        for _ in range(_CROWD):
            stands = self._look()
            old = stands.get(self._fence_ref, "")
            marks = decide(self._marks(old))
            if marks is None:
                return
            try:
                move = self._next_fence(old, marks)
                with _as_gate():
                    self._repository.swap([move], timeout=_TIMEOUT)
                self._remember(stands.get(self._branch_ref, ""), move.new, marks)
                return
            except Refused as refused:
                raise GateUnreachable(f"{self.url} cannot be sealed: the server refuses it ({refused})") from refused
            except Moved:
                continue
        raise GateUnreachable(f"{self.url} is sealed by others all the time; no turn in {_CROWD} tries. Try again")

    def _raised(
        self, standing: dict[str, Standing], mark: Mark, by: str, known: Known | None = None
    ) -> dict[str, Standing] | None:
        """The marks with ours; None if ours stands already. A refusal is recorded here, on this machine."""
        try:
            if not fence.admit(self.url, standing, mark, known):
                return None
        except StaleToken as refused:
            durable.private_folder(os.path.dirname(self._refusals))
            refusals.record(self._refusals, refused, by)
            raise
        here = fence.Standing(mark=mark, by=" ".join(by.split()), at=clock.wall())
        return {**standing, mark.name: here}

    def _next_fence(self, old: str, marks: dict[str, Standing]) -> Move:
        """A new commit on top of the fence that was seen. New even with the same marks: an unchanged ref is not
        compared, and the branch would move."""
        pack = Pack()
        message = f"fence of {self.branch}\n\n{fence.pack(marks)}\nnonce={identity.new_id()}"
        commit = pack.commit(message, parent=old, at=clock.wall())
        self._repository.write(pack)
        return Move(ref=self._fence_ref, old=old, new=commit.oid)

    def _remember(self, branch: str, seen: str, marks: dict[str, Standing]) -> None:
        git_seen.keep(self._seen, branch, seen)
        self._known = (seen, marks)

    def _recall(self, mark: Mark) -> dict[str, str]:
        """What this machine remembers, if that would let `mark` in: nobody is refused from memory."""
        branch, seen = git_seen.recall(self._seen) or ("", "")
        if seen and seen != self._known[0]:
            here = self._repository.commits_here({"": seen})
            if not here:
                return {}
            self._known = (seen, _marks(here[""]))
        try:
            fence.admit(self.url, self._known[1], mark)
        except StaleToken:
            return {}
        return {self._branch_ref: branch, self._fence_ref: seen} if seen else {}

    def _marks(self, seen: str) -> dict[str, Standing]:
        if seen != self._known[0] or not seen:
            self._known = (seen, _marks(self._fence(seen)))
        return self._known[1]

    def _look(self) -> dict[str, str]:
        with _as_gate():
            return self._repository.look(self._branch_ref, self._fence_ref, timeout=_TIMEOUT)

    def _fence(self, oid: str) -> Commit | None:
        """The fence that was seen; it may have moved on since, so the chain is asked, not the ref."""
        if not oid:
            return None
        with _as_gate():
            found = self._repository.commits({self._fence_ref: oid}, timeout=_TIMEOUT)
        if not found:
            raise GateUnreachable(f"the fence of {self.url} is not what it was: somebody has set it back. Look at it")
        return found[self._fence_ref]


class _Push:
    """One push, from the first look to the commit that stands at the remote."""

    def __init__(
        self,
        gate: Git,
        mark: Mark,
        by: str,
        folder: str,
        trailers: Mapping[str, str],
        settling: Callable[[str], list[Move]] | None = None,
    ) -> None:
        self.gate, self.mark, self.by, self.trailers, self.settling = gate, mark, by, trailers, settling
        self.work = Worktree(folder, config=gate._repository.remote.config, memory=gate._memory)
        self.unsure = ""  # a commit whose push got no answer: it may have landed

    def run(self) -> str:
        try:
            return self._run()
        except command.Unfinished as error:
            raise GateUnreachable(
                f"{self.gate.url} cannot be pushed to: {error}. It may or may not have landed"
            ) from error

    def _run(self) -> str:
        gate, work, followed = self.gate, self.work, 0
        tip = plain = work.tip()
        for turn in range(_CROWD):
            recalled = {} if turn else gate._recall(self.mark)
            stands = recalled or gate._look()
            base, seen = stands.get(gate._branch_ref, ""), stands.get(gate._fence_ref, "")
            marks = self._admitted(seen, base)
            if marks is None:
                return self.unsure  # refused now, but what we sent before that did land
            if base:
                common = work.common(gate._repository.remote.url, gate._branch_ref, base, tip)
                if recalled and (common == tip or common != base):
                    continue  # neither that it stands there nor what to follow is said from memory
                if common == tip and (tip == self.unsure or self.settling is None):
                    return tip  # it stands there: nothing to push, or only the reply was lost
                if common != base:
                    followed += 1
                    if followed > _FOLLOW:
                        raise GateUnreachable(
                            f"others push to {gate.branch} all the time. Nothing was pushed; try again"
                        )
                    try:
                        tip = work.follow(base, gate.branch)
                    except Conflict:
                        work.set_tip(plain)  # as the person left it: without trailers of a push that did not happen
                        raise
            plain = tip
            if tip != base:
                tip = work.sign(tip, self.trailers)
            try:
                moves = self.settling(tip) if self.settling else []
                forward = gate._next_fence(seen, marks)
                landed = self._land(tip, [*moves, forward])
            finally:
                work.settle()
            if landed:
                gate._remember(tip, forward.new, marks)
                return tip
        raise GateUnreachable(f"{gate.url} is moved by others all the time; no turn in {_CROWD} tries. Try again")

    def _admitted(self, seen: str, base: str) -> dict[str, Standing] | None:
        standing = self.gate._marks(seen)
        try:
            return self.gate._raised(standing, self.mark, self.by) or standing
        except StaleToken:
            if self.unsure and base:
                self.work.fetch(self.gate._repository.remote.url, self.gate._branch_ref, base)
                if self.work.contains(self.unsure, base):
                    return None
            raise

    def _land(self, tip: str, moves: list[Move]) -> bool:
        """Push all of it or nothing. False: something stood elsewhere, look again."""
        gate = self.gate
        words = [f"--force-with-lease={move.ref}:{move.old}" for move in moves]  # the branch itself is never forced
        specs = [f"{tip}:{gate._branch_ref}", *(f"{move.new}:{move.ref}" for move in moves)]
        refs = [gate._branch_ref, *(move.ref for move in moves)]
        try:
            code, out, said = self.work.push(
                gate._repository, ["--atomic", *words, "--", gate._repository.remote.url, *specs]
            )
            answered, against = verdict(code, out, said, refs)
        except command.Unfinished as error:
            answered, against = False, str(error)
        if answered and not against:
            return True
        if not answered:
            self.unsure = tip
        with _as_gate():
            stands = gate._repository.look(*refs, timeout=_TIMEOUT)
        if any(stands.get(move.ref, "") != move.old for move in moves) or "fetch first" in against:
            return False  # ours too, if only the reply was lost: the next look finds the branch with our commit
        if "non-fast-forward" in against or "failed to update ref" in against or "cannot lock ref" in against:
            return False
        if not answered:
            raise GateUnreachable(f"{gate.url} gave no answer to a push ({line_with('', against)}). Try again")
        raise GateUnreachable(f"{gate.url} refuses the push ({line_with('', against)}). Nothing was pushed")


class _as_gate:
    """What cannot be reached here is a gate."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if isinstance(error, StoreUnreachable):
            raise GateUnreachable(str(error)) from error


def _marks(commit: Commit | None) -> dict[str, Standing]:
    lines = commit.message.split("\n") if commit else []
    return fence.unpack("\n".join(line for line in lines if "\t" in line))


def without_password(url: str) -> str:
    """A gate's URL stands in the store for every machine; each brings its own password."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    user, at, place = host.rpartition("@")
    return f"{scheme}{mark}{user.partition(':')[0]}{at}{place}{slash}{path}" if mark else url
