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
else:
    import _signal as signal

    def __getattr__(name):
        if name != "sqlite3":
            raise AttributeError(name)
        import _sqlite3

        return _sqlite3


__all__ = ["signal", "sqlite3"]
