"""The store's URL from the supervisor: `NIGHTLATCH_STORE=via:SOCKET`.

The environment of a command under `nightlatch lock` must not hold the store's password: every program that the
command starts would see it, and logs that dump the environment would record it. So the supervisor keeps the URL, and
Nightlatch's own commands ask for it through a private socket.
"""

from __future__ import annotations

import os

from ..core import json_text
from ..errors import StoreUnreachable
from ..system import light

PREFIX = "via:"

_urls: dict[str, str] = {}  # socket's path → the store's URL


def ask(path: str) -> str:
    """The URL of the store, from the supervisor's socket. If its password came from PGPASSWORD, sets that variable in
    this process."""
    if path not in _urls:
        answer = _answer(path)
        if not answer.get("ok"):
            raise StoreUnreachable(
                f"the supervisor did not name its store: {answer.get('error')}. Name the store: --store URL"
            )
        if answer.get("password"):
            os.environ["PGPASSWORD"] = str(answer["password"])
        _urls[path] = str(answer["url"])
    return _urls[path]


def grant_for(path: str) -> str:
    """The grant that the socket at `path` was opened for: this process's own, or that of a run around it."""
    grants = [os.environ.get("NIGHTLATCH_GRANT", ""), *os.environ.get("NIGHTLATCH_LINEAGE", "").split()]
    return next((grant for grant in grants if grant.startswith(os.path.basename(path))), "")


def _answer(path: str) -> dict[str, object]:
    sockets = light.sockets
    connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        connection.connect(path)
        connection.sendall(json_text.dumps({"grant": grant_for(path), "do": "store"}).encode() + b"\n")
        text = b""
        while not text.endswith(b"\n"):
            more = connection.recv(1 << 16)
            if not more:
                raise ConnectionResetError("it closed the connection")
            text += more
    except OSError as error:
        raise StoreUnreachable(
            f"the supervisor that knows the store does not answer at {path}: {error}. Name the store: --store URL"
        ) from error
    finally:
        connection.close()
    found: dict[str, object] = json_text.loads(text)
    return found
