"""Access to the pages: an unguessable path, single-use codes, and sessions. Kept as private files beside the store, so
that `nightlatch open` can make a code for a server in another process, and a restarted server knows its sessions.

Cookies ignore ports: one for 127.0.0.1 goes to every server on that address. So the session's cookie is bound to an
unguessable path, under which all pages are.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from typing import Any

from ..core.value import value
from ..system import clock, durable

CODE_LASTS = 60.0  # seconds
SESSION_LASTS = 30 * 86400.0
TOKEN_LASTS = 10 * 365 * 86400.0
_PREFIX, _CODES, _SESSIONS, _PORTS, _TOKENS = "prefix", "codes", "sessions", "ports", "tokens"


@value(frozen=True, kw_only=True)
class Session:
    csrf: str
    read_only: bool
    until: float


class Access:
    def __init__(self, store_folder: str) -> None:
        self._folder = durable.private_folder(os.path.join(store_folder, "pages"))
        for name in (_CODES, _SESSIONS, _PORTS, _TOKENS):
            durable.private_folder(os.path.join(self._folder, name))

    @property
    def prefix(self) -> str:
        """The first part of every path."""
        path = os.path.join(self._folder, _PREFIX)
        while True:
            try:
                with open(path, encoding="ascii") as file:
                    if found := file.read():
                        return found
            except FileNotFoundError:
                pass
            durable.replace(path, secrets.token_urlsafe(24).encode())  # of two writers, the last one wins for both

    def new_code(self, *, read_only: bool) -> str:
        """A code that opens one session, within a minute."""
        self._sweep()
        code = secrets.token_urlsafe(24)
        self._put(_CODES, code, {"read_only": read_only, "until": clock.wall() + CODE_LASTS})
        return code

    def redeem(self, code: str) -> str | None:
        """The token of a new session; None if the code is unknown, used or too old."""
        found = self._take(_CODES, code)
        if found is None or found["until"] < clock.wall():
            return None
        token = secrets.token_urlsafe(32)
        until = clock.wall() + SESSION_LASTS
        self._put(
            _SESSIONS, token, {"csrf": secrets.token_urlsafe(24), "read_only": bool(found["read_only"]), "until": until}
        )
        return token

    def session(self, token: str) -> Session | None:
        found = self._read(_SESSIONS, token) if token else None
        return Session(**found) if found and found["until"] >= clock.wall() else None

    def new_token(self) -> str:
        """A bearer token that reads the metrics, and nothing else."""
        token = secrets.token_urlsafe(32)
        self._put(_TOKENS, token, {"until": clock.wall() + TOKEN_LASTS})
        return token

    def reads_metrics(self, token: str) -> bool:
        found = self._read(_TOKENS, token) if token else None
        return found is not None and bool(found["until"] >= clock.wall())

    def revoke(self) -> int:
        """End every session, code and token; the path changes too. Returns how many sessions there were."""
        sessions = os.listdir(os.path.join(self._folder, _SESSIONS))
        for kind in (_CODES, _SESSIONS, _TOKENS):
            for name in os.listdir(os.path.join(self._folder, kind)):
                durable.remove(os.path.join(self._folder, kind, name))
        durable.replace(os.path.join(self._folder, _PREFIX), secrets.token_urlsafe(24).encode())
        return len(sessions)

    # ── where servers of this store listen ──

    def note_port(self, port: int) -> None:
        durable.replace(os.path.join(self._folder, _PORTS, str(port)), str(os.getpid()).encode())

    def forget_port(self, port: int) -> None:
        durable.remove(os.path.join(self._folder, _PORTS, str(port)))

    def ports(self) -> list[int]:
        """The noted ports. A server that was killed leaves its port noted."""
        return sorted(int(name) for name in os.listdir(os.path.join(self._folder, _PORTS)) if name.isdecimal())

    # ── files named by the hash of their secret: listing the folder reveals no secret ──

    def _put(self, kind: str, secret: str, facts: dict[str, Any]) -> None:
        durable.replace(self._path(kind, secret), json.dumps(facts).encode())

    def _read(self, kind: str, secret: str) -> dict[str, Any] | None:
        try:
            with open(self._path(kind, secret), encoding="ascii") as file:
                found: dict[str, Any] = json.load(file)
                return found
        except FileNotFoundError:
            return None

    def _take(self, kind: str, secret: str) -> dict[str, Any] | None:
        """Read and remove the file; of two callers at once, only the one that removes it gets the facts."""
        found = self._read(kind, secret)
        if found is None:
            return None
        return found if durable.remove(self._path(kind, secret)) else None

    def _path(self, kind: str, secret: str) -> str:
        return os.path.join(self._folder, kind, hashlib.sha256(secret.encode()).hexdigest())

    def _sweep(self) -> None:
        """Remove expired codes and sessions."""
        for kind in (_CODES, _SESSIONS):
            for name in os.listdir(os.path.join(self._folder, kind)):
                path = os.path.join(self._folder, kind, name)
                try:
                    with open(path, encoding="ascii") as file:
                        expired = json.load(file)["until"] < clock.wall()
                except (OSError, ValueError, KeyError):
                    continue
                if expired:
                    durable.remove(path)
