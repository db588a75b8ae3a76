"""One push through a git gate: the branch, its fence and, if given, a done key; all or nothing."""

from __future__ import annotations

from ..errors import Conflict, GateUnreachable, StaleToken
from ..store.git.git_errors import is_full, line_with
from ..store.git.repository import RefMove, verdict
from ..system import program
from .git_fence import MAX_TRIES, TIMEOUT, BranchFence, gate_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..core.fence import KeptMark
    from ..core.model import Mark
    from .worktree import Worktree

_MAX_REBASES = 3  # how often to rebase onto a branch that somebody else moved


class Push:
    """From the first look at the remote to the commit that landed there.

    `settling` returns the moves that settle a done key together with the commit it is given.
    """

    def __init__(
        self,
        fence: BranchFence,
        work: Worktree,
        mark: Mark,
        by: str,
        trailers: Mapping[str, str],
        settling: Callable[[str], list[RefMove]] | None = None,
    ) -> None:
        self._fence, self._work, self._mark, self._by = fence, work, mark, by
        self._trailers, self._settling = trailers, settling
        self._remote = fence.repository.remote.url
        self._unsure = ""  # a commit whose push got no reply: it may have landed

    def run(self) -> str:
        try:
            return self._run()
        except program.Unfinished as error:
            raise GateUnreachable(
                f"{self._fence.url} cannot be pushed to: {error}. It may or may not have landed"
            ) from error

    def _run(self) -> str:
        fence, work, followed = self._fence, self._work, 0
        tip = plain = work.tip()
        for turn in range(MAX_TRIES):
            recalled = None if turn else fence.recall(self._mark)
            base, seen = recalled or fence.look()
            marks = self._admitted(seen, base)
            if marks is None:
                return self._unsure  # refused now, but what we sent before that did land
            if base:
                common = work.merge_base(self._remote, fence.branch_ref, base, tip)
                if recalled and (common == tip or common != base):
                    continue  # "it is there" and "rebase onto this" need a real look
                if common == tip and (tip == self._unsure or self._settling is None):
                    return tip  # it is there: nothing to push, or only the reply was lost
                if common != base:
                    followed += 1
                    if followed > _MAX_REBASES:
                        raise GateUnreachable(f"others keep pushing to {fence.branch}. Nothing was pushed; try again")
                    try:
                        tip = work.rebase_onto(base, fence.branch)
                    except Conflict:
                        work.set_tip(plain)  # as the user left it: without trailers of a push that did not happen
                        raise
            plain = tip
            if tip != base:
                tip = work.add_trailers(tip, self._trailers)
            moves = self._settling(tip) if self._settling else []
            forward = fence.forward(seen, marks)
            if self._land(tip, [*moves, forward]):
                fence.remember(tip, forward.new, marks)
                return tip
        raise GateUnreachable(f"{fence.url} is being moved by others: no success in {MAX_TRIES} tries. Try again")

    def _admitted(self, seen: str, base: str) -> dict[str, KeptMark] | None:
        """The marks to push; None: we are refused now, but the push that got no reply landed before that."""
        marks = self._fence.marks(seen)
        try:
            return self._fence.raised(marks, self._mark, self._by) or marks
        except StaleToken:
            if self._unsure and base:
                self._work.fetch(self._remote, self._fence.branch_ref, base)
                if self._work.contains(self._unsure, base):
                    return None
            raise

    def _land(self, tip: str, moves: list[RefMove]) -> bool:
        """Push all or nothing. False: a ref has moved, look again."""
        fence = self._fence
        words = [f"--force-with-lease={move.ref}:{move.old}" for move in moves]  # the branch itself is never forced
        specs = [f"{tip}:{fence.branch_ref}", *(f"{move.new}:{move.ref}" for move in moves)]
        refs = [fence.branch_ref, *(move.ref for move in moves)]
        try:
            code, out, err = self._work.push(fence.repository, ["--atomic", *words, "--", self._remote, *specs])
            answered, against = verdict(code, out, err, refs)
        except program.Unfinished as error:
            answered, against = False, str(error)
        if answered and not against:
            return True
        if not answered:
            self._unsure = tip
        with gate_errors():
            found = fence.repository.look(*refs, timeout=TIMEOUT)
        if any(found.get(move.ref, "") != move.old for move in moves) or "fetch first" in against:
            return False  # ours too, if only the reply was lost: the next look finds the branch with our commit
        if "non-fast-forward" in against or "failed to update ref" in against or "cannot lock ref" in against:
            return False
        if is_full(against):
            with gate_errors():
                raise fence.repository.unreachable(against)
        if not answered:
            raise GateUnreachable(f"{fence.url} gave no reply to a push ({line_with('', against)}). Try again")
        raise GateUnreachable(f"{fence.url} refuses the push ({line_with('', against)}). Nothing was pushed")
