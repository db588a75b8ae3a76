"""nightlatch open"""

from __future__ import annotations

import os
import sys
import urllib.request
import webbrowser

from ..store import url as stores
from ..web.access import Access
from .arguments import Parser
from .only_people import require_person
from .serve import pages_server, report

_PURPOSE = """\
Open the web pages in your browser: the last night, what needs you, active runs, and what they cost.

It opens an address with a code that works once, within a minute, and logs that browser in for 30 days. If no
`nightlatch serve` shows the pages, this command does, until Ctrl-C. They listen on loopback only; over ssh, forward the
port first (ssh -L 4747:127.0.0.1:4747 HOST)."""

_EXAMPLES = """\
  nightlatch open
  nightlatch open --read-only --print        # for a wall screen or a phone: it cannot change anything
  nightlatch open --metrics > token          # for Prometheus: authorization, credentials_file
  nightlatch open --revoke                   # end every session"""


def main(argv: list[str]) -> int:
    parser = Parser("open", _PURPOSE, _EXAMPLES)
    parser.add_flag("--read-only", "a session that may look but not change anything")
    parser.add_flag("--print", "print the address instead of opening a browser")
    parser.add_flag("--metrics", "only print a bearer token for /metrics")
    parser.add_flag("--revoke", "only end every session and token")
    args = parser.parse_args(argv)
    if not args.read_only:
        require_person("open", os.environ.get("NIGHTLATCH_JOB", "") or "pages", args.store)
    where = stores.resolve(args.store)
    access = Access(stores.folder_of(where))
    if args.metrics:
        print(access.new_token())
        return 0
    if args.revoke:
        ended = access.revoke()
        print(f"{ended} session{'' if ended == 1 else 's'} ended")
        return 0
    browse = not args.print
    pages_port = next((port for port in access.ports() if _is_ours(access, port)), None)
    if pages_port:
        show(access, pages_port, read_only=args.read_only, browse=browse)
        return 0
    return pages_server(where).run(
        report, ready=lambda port: show(access, port, read_only=args.read_only, browse=browse)
    )


def show(access: Access, port: int, *, read_only: bool, browse: bool) -> None:
    """Open the pages at `port` in a browser, with a code for one use; print the address if there is no browser."""
    address = f"http://127.0.0.1:{port}/{access.prefix}/open/{access.new_code(read_only=read_only)}"
    if browse and webbrowser.open(address):
        return
    print(address, flush=True)
    if sys.stderr.isatty():
        report(f"{'no browser was found here; ' if browse else ''}open this address within a minute; it works once")


def _is_ours(access: Access, port: int) -> bool:
    """Does a server of this store listen at `port`? Only such a server knows the path."""
    try:
        path = f"http://127.0.0.1:{port}/{access.prefix}/static/nightlatch.js"
        with urllib.request.urlopen(path, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False
