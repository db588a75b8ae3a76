"""nightlatch serve"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

from ..config import crontab as crontabs
from ..config import place
from ..config.load import alerts_of, load
from ..core.printable import printable
from ..errors import BadConfig
from ..scheduler.serve import Server
from ..system import crontab
from .arguments import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..config.load import Config

_PURPOSE = """\
Start the jobs of nightlatch.toml when they are due. Any number of machines may serve one store: each slot is started
by one of them.

What was missed while nobody served (a closed lid, a reboot) is made up for by one run of the newest slot, unless the
job says otherwise. Edits of the file count within seconds; a broken one leaves the file before it in force. Runs have
sessions of their own: this process may be stopped, killed and upgraded while they work. As process 1 of a container,
SIGTERM ends them first, each by its grace time. While the store does not answer nothing is started, and slots wait."""

_EXAMPLES = """\
  nightlatch check && nightlatch serve
  nightlatch serve --config ~/jobs/nightlatch.toml
  nightlatch slots                                   # what became of every due time"""


def main(argv: list[str]) -> int:
    parser = Parser("serve", _PURPOSE, _EXAMPLES)
    args = parser.parse_args(argv)
    made = server(args.store)
    for name, line in crontabs.still_there(load(place.find()).jobs, crontab.read() or "").items():
        print(f"nightlatch: {name} runs twice: your crontab starts it too. Remove this line (crontab -e): "
              f"{printable(line)}", file=sys.stderr)  # fmt: skip
    with telling():
        return made.serve()


@contextmanager
def telling() -> Iterator[None]:
    """Beside the scheduler, a process that tells of what went wrong: a transport that hangs keeps no slot waiting. It
    ends with this one, however this one ends: it reads from a pipe that only we have."""
    if not alerts_of(place.find()):
        yield
        return
    words = [sys.executable, "-m", "nightlatch", "alerts", "send", "--follow"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        assert process.stdin
        process.stdin.close()


def server(store: str | None) -> Server:
    """Of the file that counts here."""
    file = place.find()
    if not file:
        raise BadConfig("there is no nightlatch.toml here, nor above, nor in the user's config folder: nightlatch init")

    def read() -> Config:
        return load(file)

    return Server(read, store, lambda text: print(f"nightlatch: {text}", file=sys.stderr, flush=True))
