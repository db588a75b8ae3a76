"""nightlatch push"""

from __future__ import annotations

import os

from ..errors import LeaseLost, StaleToken
from ..gates.git import Git
from ..gates.worktree import Worktree
from ..runtime.child import publishing as run_publishing
from ..runtime.child.inherited import Inherited
from .arguments import Namespace, Parser
from .in_run import note_refusal

_PURPOSE = """\
Push HEAD to BRANCH of REMOTE, unless a newer holder of the lease has taken over.

The branch and its fence (a ref that holds the token) move in one atomic push, so however long a holder was paused,
it cannot push once its successor has begun. If somebody else has pushed, it fetches, rebases and tries again, up to
three times. It never force-pushes. Use it inside `nightlatch lock NAME -- CMD …`, or after
eval "$(nightlatch lease acquire NAME)". Inside `nightlatch run` the supervisor pushes and records it: with --done
KEY, if an attempt dies after pushing, the next one does not push again.

The last commit gets trailers (Nightlatch-Job, Nightlatch-Run, Nightlatch-Token), unless it is signed or others
already have it. With --done KEY the key is marked done in the same push if the store is the same remote (--store
git+origin), otherwise right after it; if it is already done, nothing is pushed."""

_EXAMPLES = """\
  nightlatch lock articles -- sh -c './write && git commit -qam "New article" && nightlatch push'
  nightlatch push origin main
  nightlatch --store git+origin push --done "$(nightlatch key example.org my-article)\""""


def main(argv: list[str]) -> int:
    parser = Parser("push", _PURPOSE, _EXAMPLES)
    parser.add_argument(
        "remote", metavar="REMOTE", nargs="?", default="origin", help="a remote or a URL (default origin)"
    )
    parser.add_argument(
        "branch", metavar="BRANCH", nargs="?", default="", help="the branch; HEAD or nothing means the current one"
    )
    parser.add_argument("--done", metavar="KEY", help="mark this key done with the push")
    parser.add_argument("--scope", help="scope of the key (default: the lease's name)")
    args = parser.parse_args(argv)
    branch, landed = (_push_in_run if run_publishing.uses_run_lease() and not args.store else _push_here)(args)
    if landed:
        Worktree(".").track(args.remote, branch, landed)
    print(f"{branch} {landed}" if landed else f"skipped: {args.done} is done")
    return 0


def _push_in_run(args: Namespace) -> tuple[str, str]:
    """Let the supervisor push: it has the store and the run's record. Returns the branch, and the commit or ""."""
    reply = run_publishing.push(args.remote, args.branch, key=args.done, scope=args.scope or "")
    return str(reply["gate"]).rpartition("#")[2], str(reply["landed"])


def _push_here(args: Namespace) -> tuple[str, str]:
    gate = Git(args.remote, args.branch)
    trailers = {
        trailer: os.environ[name]
        for trailer, name in (("Nightlatch-Job", "NIGHTLATCH_JOB"), ("Nightlatch-Run", "NIGHTLATCH_RUN"))
        if os.environ.get(name)
    }
    try:
        lease = Inherited.from_environment(args.store)
        done = (args.scope or lease.name, args.done) if args.done else None
        return gate.branch, gate.push(lease, done=done, trailers=trailers)
    except (StaleToken, LeaseLost) as refused:
        note_refusal(gate.url, refused)
        raise
