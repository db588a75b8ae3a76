"""Standard modules without their Python halves, for the path of `lock` and `run`.

`signal` imports enum and functools to dress up its constants, `sqlite3` imports datetime for converters
that are not used here, `hashlib` loads OpenSSL, `socket` imports selectors. Together they take longer
than acquiring a lease. The C modules underneath have the same names with the same meaning; a type
checker sees the public ones. Each is loaded when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import sqlite3
    from hashlib import sha256
    from typing import Any

    sockets: Any
else:
    import _signal as signal
    from sys import version_info

    def __getattr__(name):
        if name == "sqlite3":
            import _sqlite3

            return _sqlite3
        if name == "sockets":
            import _socket

            return _socket
        if name == "sha256":
            return _sha256()
        raise AttributeError(name)

    def _sha256():
        for module in ("_sha2" if version_info >= (3, 12) else "_sha256", "hashlib"):
            try:
                return __import__(module).sha256
            except ImportError:
                continue
        raise ImportError("this Python has no sha256")


__all__ = ["sha256", "signal", "sockets", "sqlite3"]
