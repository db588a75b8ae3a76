"""nightlatch publish"""

from __future__ import annotations

import os

from ..errors import LeaseLost, StaleToken, UsageError
from ..runtime.child import publishing as run_publishing
from .arguments import Namespace, Parser
from .in_run import note_refusal

_PURPOSE = """\
Replace DST with SRC as a whole, unless a newer holder of the lease has taken over.

DST is a file, a folder (if SRC is one) or an object (s3://bucket/key). The token is verified at DST itself, in the
same atomic step as the write: however long a holder was paused, it cannot write once its successor has begun. Use
it inside `nightlatch lock NAME -- CMD …`, or after eval "$(nightlatch lease acquire NAME)". Inside `nightlatch
run` the supervisor publishes and records it: if an attempt dies after publishing, the next one does not publish
again.

A published folder is a symbolic link into DST.releases/, switched in one step. Once this exits with 0, the result
survives even a power failure."""

_EXAMPLES = """\
  nightlatch lock report -- sh -c './report > new.html && nightlatch publish new.html /srv/www/report.html'
  nightlatch publish ./build /srv/www/site --keep 10
  nightlatch publish --rollback /srv/www/site
  nightlatch publish data.parquet s3://bucket/latest.parquet"""


def main(argv: list[str]) -> int:
    parser = Parser("publish", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch publish SRC DST [options]\n       nightlatch publish --rollback DST [options]"
    parser.add_argument("places", metavar="SRC DST", nargs="+", help="what to publish, and where")
    parser.add_argument("--keep", metavar="N", type=int, help="folder, object: releases to keep (default 5)")
    parser.add_flag("--rollback", "folder, object: go back to the previous release")
    parser.add_flag("--adopt", "folder: take over a DST that is a plain folder")
    parser.add_flag("--parents", "create the folder of DST if it does not exist")
    parser.add_flag("--json", "print what was published as one JSON object")
    args = parser.parse_args(argv)
    if len(args.places) != (1 if args.rollback else 2):
        raise UsageError("give SRC and DST; with --rollback only DST. `nightlatch publish --help` shows how")
    if not all(args.places):
        raise UsageError("SRC or DST is empty: name a file, a folder or an object")
    if args.keep is not None and args.keep < 1:
        raise UsageError("--keep counts the release just published too: write 1 or more")
    source, target = (None if args.rollback else args.places[0]), args.places[-1]
    _check_folder(target, make=args.parents)
    publish = _publish_in_run if run_publishing.uses_run_lease() and not args.store else _publish_here
    facts = publish(source, target, args)
    if args.json:
        from .json_out import print_json

        print_json({"version": 1, **facts})
    return 0


def _check_folder(target: str, *, make: bool) -> None:
    """If the target's folder is missing, create it (`make`) or raise: a misspelt one must not be created silently."""
    folder = os.path.dirname(os.path.abspath(target))
    if "://" in target or os.path.lexists(folder):
        return
    if not make:
        raise UsageError(f"the folder {folder} does not exist: add --parents to create it, or correct DST")
    os.makedirs(folder, exist_ok=True)


def _publish_in_run(source: str | None, target: str, args: Namespace) -> dict[str, object]:
    """Let the supervisor publish: it has the store and the run's record."""
    reply = run_publishing.publish(source, target, keep=args.keep, adopt=args.adopt)
    return {word: reply[word] for word in ("gate", "lease", "token")} | {"release": reply["landed"] or None}


def _publish_here(source: str | None, target: str, args: Namespace) -> dict[str, object]:
    from ..runtime.child.inherited import Inherited
    from ..runtime.supervisor.publishing.requested_targets import RequestedReplace

    request = RequestedReplace(source, target, keep=args.keep, adopt=args.adopt)
    try:
        lease = Inherited.from_environment(args.store)
        release = request.write(lease)
    except (StaleToken, LeaseLost) as refused:
        note_refusal(request.gate.url, refused)
        raise
    return {"gate": request.gate.url, "lease": lease.name, "token": lease.token, "release": release or None}
