"""A holder that writes once through a SQL gate, and stops itself at a given point.

python sql_writer.py GATE STORE NAME TOKEN GRANT CONTENT POINT

POINT: inside   in the transaction, past the check, before the write
       written  in the transaction, after the write, before the commit
       copy     in the middle of COPY
       fetch    in the middle of a large result
       slow     inside too, but it continues when it reads a line
       never    it does not stop
exit code: 0 acknowledged, 73 refused
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import StaleToken
from tests.support.sql_target import connect


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def write(connection: Any, mark: Mark, content: str, point: str = "never") -> None:
    """The block of the transaction: one row replaced by another."""
    if point == "inside":
        stop()
    if point == "slow":
        sys.stdin.readline()
    if point == "fetch":
        for _ in connection.cursor().stream("SELECT repeat('x', 1000) FROM generate_series(1, 100000)"):
            if point:
                point = ""
                stop()
    connection.execute("DELETE FROM article")
    if point == "copy":
        with connection.cursor().copy("COPY article FROM STDIN") as copy:
            copy.write_row((content, mark.token))
            stop()
    else:
        connection.execute(f"INSERT INTO article VALUES ('{content}', {mark.token})")
    if point == "written":
        stop()


def main() -> int:
    url, store, name, token, grant, content, point = sys.argv[1:]
    gate = gates.Sql.from_url(url)
    connection = connect(gate)
    mark = Mark(store=store, name=name, token=int(token), grant=grant)
    try:
        with gate.transaction(connection, mark):
            write(connection, mark, content, point)
    except StaleToken:
        return 73
    return 0


if __name__ == "__main__":
    sys.exit(main())
