"""nightlatch serve"""

from __future__ import annotations

import os
import sys

from ..config import crontab as crontab_jobs
from ..config import place
from ..config.load import Config, alerts_of, load
from ..core.printable import printable
from ..observe.traces.export import is_wanted
from ..scheduler.serve import Server
from ..scheduler.side_process import SideProcess
from ..store import url
from ..system import crontab, storage
from .arguments import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..web.server import PagesServer

_PURPOSE = """\
Start the jobs of nightlatch.toml when they are due. Any number of machines may serve one store: each slot is started
by one of them.

Slots that were missed while no machine served (a closed lid, a reboot) are made up for by one run of the newest, unless
the job says otherwise. Edits of the file take effect within seconds; if an edit is invalid, or other users can write to
the file, the previous version stays in force. You may stop, kill or upgrade this process while runs are active: they
continue. As process 1 of a container it ends them first on SIGTERM, each with its grace time. While the store cannot be
reached nothing is started, and slots wait.

It also shows the web pages, on loopback: nightlatch open."""

_EXAMPLES = """\
  nightlatch check && nightlatch serve
  nightlatch serve --config ~/jobs/nightlatch.toml
  nightlatch serve --only-pages                      # if cron starts your jobs
  nightlatch slots                                   # the outcome of every due time"""


def main(argv: list[str]) -> int:
    parser = Parser("serve", _PURPOSE, _EXAMPLES)
    parser.add_flag("--only-pages", "start nothing: only show the pages")
    parser.add_flag("--read-only", "with --only-pages: pages that cannot change anything")
    parser.add_argument(
        "--port", metavar="PORT", type=int, help="port of the pages (default 4747, or the next free one)"
    )
    parser.add_flag("--no-pages", "do not show the pages")
    parser.add_argument("--child", action="store_true", hidden=True, help="end when standard input does")
    args = parser.parse_args(argv)
    if args.only_pages:
        where = url.resolve(args.store)
        return pages_server(where, port=args.port, read_only=args.read_only).run(report, child=args.child)
    jobs_server = server(args.store)
    for name, line in crontab_jobs.jobs_still_in(load(place.find()).jobs, crontab.read() or "").items():
        print(f"nightlatch: {name} runs twice: your crontab starts it too. Remove this line (crontab -e): "
              f"{printable(line)}", file=sys.stderr)  # fmt: skip
    side_processes = [
        SideProcess(args.store, "alerts", "send", "--follow", wanted=lambda: alerts_of(place.find())),
        SideProcess(args.store, "traces", "send", "--follow", wanted=lambda: is_wanted(os.environ)),
    ]
    if not args.no_pages:
        port = ["--port", str(args.port)] if args.port is not None else []
        side_processes.append(SideProcess(args.store, "serve", "--only-pages", "--child", *port))
    code = jobs_server.serve(side_processes)
    if jobs_server.moved:
        os.execv(sys.executable, [sys.executable, "-P", "-m", "nightlatch", *sys.argv[1:]])  # noqa: S606
    return code


def server(store: str | None) -> Server:
    """A server of the jobs in the nightlatch.toml that applies here."""
    file = place.require()

    def read() -> Config:
        return load(place.trusted(file))  # again for each new version

    return Server(read, store, report)


def pages_server(where: str, *, port: int | None = None, read_only: bool = False) -> PagesServer:
    """A server of a store's pages, with the settings of `[pages]` in the nightlatch.toml that applies here."""
    from ..web.server import PagesServer
    from ..web.settings import PagesSettings

    settings: PagesSettings = place.settings("", "pages").get("pages") or PagesSettings()
    return PagesServer(
        storage.absolute_store(where, os.getcwd()),
        port=settings.port if port is None else port,
        read_only=read_only,
        url=settings.url,
        metrics_port=settings.metrics_port,
    )


def report(text: str) -> None:
    """Print a line about what the server does."""
    print(f"nightlatch: {text}", file=sys.stderr, flush=True)
