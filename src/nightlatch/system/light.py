"""Standard modules without their Python halves, for the path of `lock` and `run`.

`signal` imports enum and functools to dress up its constants, `sqlite3` imports datetime for
converters that are not used here. Together they take longer than acquiring a lease. The C modules
underneath have the same names with the same meaning; a type checker sees the public ones.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import sqlite3
    from typing import Any

    sockets: Any
else:
    import _signal as signal

    def __getattr__(name):
        modules = {"sqlite3": "_sqlite3", "sockets": "_socket"}
        if name not in modules:
            raise AttributeError(name)
        return __import__(modules[name])


__all__ = ["signal", "sockets", "sqlite3"]
