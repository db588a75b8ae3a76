"""nightlatch store"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
from collections.abc import Callable
from functools import partial

from ..core import advice
from ..core.passwords import hide_password
from ..core.printable import printable
from ..core.protocols import Store
from ..errors import Busy
from ..ledger import location
from ..runtime.supervisor.afterwards import lapse
from ..store import url
from ..system import presence
from . import screen
from .arguments import Parser
from .json_out import print_json
from .only_people import require_person
from .reading import existing_url

Removal = tuple[str, Callable[[], object]]  # (what it is, the function that removes it)

_PURPOSE = """\
Show or remove the store as a whole.

show      show its address, its id, and the folder on this machine with its log (runs.log) and the output of runs
remove    show what it contains, ask, and remove it for good: leases, done keys, gates, runs, output and journal. For
          a git store, the refs below refs/nightlatch/ at the remote and this machine's folder; for PostgreSQL, the
          schema. Refused while a lease is held. Published targets stay, with their marks beside them"""

_EXAMPLES = """\
  nightlatch store show
  nightlatch store remove
  nightlatch --store git+origin store remove --yes"""


def main(argv: list[str]) -> int:
    parser = Parser("store", _PURPOSE, _EXAMPLES)
    parser.add_argument("verb", metavar="VERB", choices=("show", "remove"), help="show or remove")
    parser.add_flag("--yes", "remove: do not ask")
    parser.add_flag("--json", "show: print one JSON object")
    args = parser.parse_args(argv)
    if args.verb == "remove":
        require_person("store remove", "", args.store)
    where = existing_url(args.store)
    store = url.connect(where)
    return _show(store, args.json) if args.verb == "show" else _remove(where, store, args.yes)


def _show(store: Store, as_json: bool) -> int:
    log = os.path.join(store.folder, "runs.log")
    if as_json:
        print_json({"version": 1, "store": store.url, "id": store.id, "folder": store.folder, "log": log})
    else:
        print(f"store   {printable(store.url)}\nid      {store.id}\nfolder  {store.folder}\nlog     {log}")
    return 0


def _remove(where: str, store: Store, yes: bool) -> int:
    now = store.clock()
    held = [record for record in store.records() if lapse.at_work(record, now)]
    if held:
        first, more = held[0], f", and {len(held) - 1} more are" if held[1:] else ""
        raise Busy(
            f"{printable(first.name)} is held by {first.holder}{more}: "
            f"nothing was removed. Wait until it has ended, or end it; if its holder is gone for good: "
            f"{advice.command('lease', 'release', first.name, '--force')}"
        )
    removals = _removals(where, store)
    print(f"this will be removed for good from {printable(store.url)}:")
    for what, _ in removals:
        print(f"  {printable(what)}")
    if not yes and not screen.ask("Remove it?", "nothing was removed. To remove it: add --yes"):
        print("nothing was removed")
        return 0
    store.close()
    for _, remove in removals:
        remove()
    print("removed")
    return 0


def _removals(where: str, store: Store) -> list[Removal]:
    """What to remove. What machines share comes first: if its removal fails, this machine's files are still there."""
    kind = url.ledger_of(where)
    places = sorted({store.folder, url.folder_of(where)})  # named after the remote's URL, and after the URL as given
    folders = [(f"the folder {place}", partial(shutil.rmtree, place)) for place in places if os.path.isdir(place)]
    if kind == url.BESIDE:
        files = [found for file in location.files(where) for found in [file, *glob.glob(f"{glob.escape(file)}[-.]*")]]
        existing_files = [file for file in files if os.path.isfile(file)]
        return [*((f"the file {file}", _unlink(file)) for file in existing_files), *folders]
    if kind == url.INSIDE:
        return [_schema(where), *folders]
    return [_refs(where), *folders]


def _unlink(file: str) -> Callable[[], object]:
    def remove() -> None:
        presence.forget(file)
        with contextlib.suppress(FileNotFoundError):  # SQLite removes its log with the last connection
            os.unlink(file)

    return remove


def _schema(where: str) -> Removal:
    from ..database.postgres import PostgresDatabase

    database = PostgresDatabase(where, "store")

    def drop() -> None:
        with database.transaction() as execute:
            execute(f"DROP SCHEMA {database.schema} CASCADE")

    return f"the schema {database.schema} of {hide_password(where)}, for all machines", drop


def _refs(where: str) -> Removal:
    from ..store.git import store as git
    from ..store.git.names import ROOT

    repository = git.connect(where).repository
    refs = [ref for ref in repository.look(f"{ROOT}*", timeout=30.0) if ref.startswith(ROOT)]
    what = f"{len(refs)} refs below refs/nightlatch/ at {repository.shown}, for all machines"
    return what, lambda: repository.delete(refs)
