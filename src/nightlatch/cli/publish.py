"""nightlatch publish"""

from __future__ import annotations

import os

from ..errors import LeaseLost, StaleToken, UsageError
from ..gates import address
from ..gates.file import File
from ..gates.folder import KEEP, Folder
from ..runtime.inherited import Inherited
from .arguments import Parser
from .told import note_refusal, store_of_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..gates.objects import Object

_PURPOSE = """\
Replace DST by SRC as a whole, unless a newer holder of the lease has taken over.

DST is a file; or a folder, when SRC is one; or an object (s3://bucket/key). The token is verified at DST
itself, in one step with the write: a holder that was paused, however long, cannot write once its
successor has begun. Run it inside `nightlatch lock NAME -- CMD …`, or after
eval "$(nightlatch lease acquire NAME)".

A folder is a symbolic link to one of DST.releases/, switched in one step. What is there when this
returns 0 stays there, power failure included.

exit code: 0; 73 refused, a newer holder stands there; 123 the lease is not held any more; 69 DST or the
store could not be reached; 64 usage."""

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
    parser.add_argument("--rollback", action="store_true", help="folder, object: go back to the release before")
    parser.add_argument("--adopt", action="store_true", help="folder: take over a DST that is a plain folder")
    parser.add_argument("--json", action="store_true", help="print what was published as one JSON object")
    args = parser.parse_args(argv)
    if len(args.places) != (1 if args.rollback else 2):
        raise UsageError("give SRC and DST; with --rollback only DST. `nightlatch publish --help` shows how")
    if args.keep is not None and args.keep < 1:
        raise UsageError("--keep needs a number of at least 1: what was just published is kept")
    source, target = (None if args.rollback else args.places[0]), args.places[-1]
    store = args.store or store_of_run()
    gate = _gate(source, target, args.keep)
    try:
        lease = Inherited.from_environment(store)
        release = _write(gate, lease, source, args.adopt)
    except (StaleToken, LeaseLost) as refused:
        note_refusal(store, gate.url, refused)
        raise
    if args.json:
        import json

        facts = {"gate": gate.url, "lease": lease.name, "token": lease.token, "release": release}
        print(json.dumps({"version": 1, **facts}))
    return 0


def _write(gate: File | Folder | Object, lease: Inherited, source: str | None, adopt: bool) -> str | None:
    """The release that is shown now; None for a file, which has none."""
    if adopt and not (isinstance(gate, Folder) and source is not None):
        raise UsageError("--adopt is for publishing a folder")
    if isinstance(gate, File):
        if source is None:
            raise UsageError(f"{gate.path} is a file: releases are kept of folders and objects only")
        gate.publish(lease, source)
        return None
    if source is None:
        return gate.rollback(lease)
    return gate.publish(lease, source, adopt=adopt) if isinstance(gate, Folder) else gate.publish(lease, source)


def _gate(source: str | None, target: str, keep: int | None) -> File | Folder | Object:
    """By DST; on this machine's disk a folder is what a folder is published to, and what is rolled back."""
    if target.startswith(("s3:", "gs:", "az:")):
        from ..gates.objects import Object

        return Object(target, keep=keep or KEEP)
    path = address.to_path(target) if "://" in target else target
    if os.path.isdir(path if source is None else source):
        return Folder(path, keep=keep or KEEP)
    if path.endswith("/"):
        raise UsageError(f"{target} names a folder, and a file is published to a file: write {target}NAME")
    return File(path)
