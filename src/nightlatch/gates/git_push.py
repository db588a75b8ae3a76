"""One push through a git gate: the branch, its fence and, if given, a done key; all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..core.fence import KeptMark
from ..core.model import Mark
from ..errors import Conflict, GateUnreachable, StaleToken
from ..store.git.git_errors import is_full, line_with
from ..store.git.repository import RefMove, verdict
from ..system import program
from .git_fence import MAX_TRIES, TIMEOUT, BranchFence, gate_errors
from .worktree import Worktree

_MAX_REBASES = 3  # how often to rebase onto a branch that somebody else moved


class Push:
    """One push, from the first look at the remote until the commit has landed there.

    `moves_to_settle(commit)` returns the ref moves that settle a done key with that commit.
    """

    def __init__(
        self,
        fence: BranchFence,
        work: Worktree,
        mark: Mark,
        by: str,
        trailers: Mapping[str, str],
        moves_to_settle: Callable[[str], list[RefMove]] | None = None,
    ) -> None:
        self._fence, self._work, self._mark, self._by = fence, work, mark, by
        self._trailers, self._moves_to_settle = trailers, moves_to_settle
        self._remote = fence.repository.remote.url
        self._unanswered = ""  # a commit whose push got no reply: it may have landed

    def run(self) -> str:
        """Returns the commit that landed."""
        try:
            return self._run()
        except program.Unfinished as error:
            raise GateUnreachable(
                f"{self._fence.url} cannot be pushed to: {error}. It may or may not have landed"
            ) from error

    def _run(self) -> str:
        fence, work, rebases = self._fence, self._work, 0
        tip = plain = work.tip()  # `plain`: without our trailers
        for turn in range(MAX_TRIES):
            recalled = None if turn else fence.recall(self._mark)
            base, fence_commit = recalled or fence.look()
            marks = self._admitted(fence_commit, base)
            if marks is None:
                return self._unanswered  # refused now, but our earlier push had landed
            if base:
                common = work.merge_base(self._remote, fence.branch_ref, base, tip)
                if recalled and (common == tip or common != base):
                    continue  # what was recalled may be out of date: look before we return, or rebase
                if common == tip and (tip == self._unanswered or self._moves_to_settle is None):
                    return tip  # the branch has it: nothing to push, or only the reply was lost
                if common != base:
                    rebases += 1
                    if rebases > _MAX_REBASES:
                        raise GateUnreachable(f"others keep pushing to {fence.branch}. Nothing was pushed; try again")
                    try:
                        tip = work.rebase_onto(base, fence.branch)
                    except Conflict:
                        work.set_tip(plain)  # as the user left it: without trailers of a push that did not happen
                        raise
            plain = tip
            if tip != base:
                tip = work.add_trailers(tip, self._trailers)
            moves = self._moves_to_settle(tip) if self._moves_to_settle else []
            fence_move = fence.next_move(fence_commit, marks)
            if self._land(tip, [*moves, fence_move]):
                fence.remember(tip, fence_move.new, marks)
                return tip
        raise GateUnreachable(f"{fence.url} is being moved by others: no success in {MAX_TRIES} tries. Try again")

    def _admitted(self, fence_commit: str, base: str) -> dict[str, KeptMark] | None:
        """The marks to push; None if we are refused now, but our push that got no reply had landed before."""
        marks = self._fence.marks(fence_commit)
        try:
            return self._fence.with_mark(marks, self._mark, self._by) or marks
        except StaleToken:
            if self._unanswered and base:
                self._work.fetch(self._remote, self._fence.branch_ref, base)
                if self._work.contains(self._unanswered, base):
                    return None
            raise

    def _land(self, tip: str, moves: list[RefMove]) -> bool:
        """Push the commit and the moves, all or nothing. False if a ref has moved: look again."""
        fence = self._fence
        # The branch itself needs no condition, since it is never forced.
        conditions = [f"--force-with-lease={move.ref}:{move.old}" for move in moves]
        specs = [f"{tip}:{fence.branch_ref}", *(f"{move.new}:{move.ref}" for move in moves)]
        refs = [fence.branch_ref, *(move.ref for move in moves)]
        try:
            code, out, err = self._work.push(fence.repository, ["--atomic", *conditions, "--", self._remote, *specs])
            answered, refusal = verdict(code, out, err, refs)
        except program.Unfinished as error:
            answered, refusal = False, str(error)
        if answered and not refusal:
            return True
        if not answered:
            self._unanswered = tip
        with gate_errors():
            found = fence.repository.look(*refs, timeout=TIMEOUT)
        if any(found.get(move.ref, "") != move.old for move in moves) or "fetch first" in refusal:
            return False  # if this very push moved it and only its reply was lost, the next look finds our commit
        if "non-fast-forward" in refusal or "failed to update ref" in refusal or "cannot lock ref" in refusal:
            return False
        if is_full(refusal):
            with gate_errors():
                raise fence.repository.unreachable(refusal)
        if not answered:
            raise GateUnreachable(f"{fence.url} gave no reply to a push ({line_with('', refusal)}). Try again")
        raise GateUnreachable(f"{fence.url} refuses the push ({line_with('', refusal)}). Nothing was pushed")
