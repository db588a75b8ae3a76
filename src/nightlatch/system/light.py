"""Standard modules without their Python halves, for the path of `lock` and `run`: no other file imports private ones.

`signal` imports enum and functools to name its constants, `sqlite3` imports datetime for converters that we do not
use, `hashlib` loads OpenSSL, `socket` imports selectors, `ctypes` defines classes for a call that needs none (1.6 ms
instead of 0.3), `weakref` imports half of collections, `_sqlite3` imports functools. Together they take longer than
acquiring a lease. The C modules below them have the same names with the same meaning; a type checker sees the public
ones. Each is loaded at its first use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import sqlite3
    from hashlib import sha256
    from typing import Any
    from weakref import ref

    sockets: Any

    def prctl(*arguments: int) -> int: ...

else:
    import _signal as signal
    from sys import version_info

    def __getattr__(name):
        if name == "sqlite3":
            return _sqlite3()
        if name == "sockets":
            import _socket

            return _socket
        if name == "ref":
            from _weakref import ref

            return ref
        if name == "sha256":
            return _sha256()
        raise AttributeError(name)

    def prctl(*arguments):
        """What `ctypes.CDLL(None).prctl(…)` returns. Linux only."""
        import _ctypes

        return _ctypes.call_function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl"), arguments)

    def _sqlite3():
        """It takes nothing but lru_cache from functools, whose import takes longer than its own (2.5 ms): so it gets
        that alone. A program with threads has imported functools already."""
        import sys

        if "functools" not in sys.modules and "_sqlite3" not in sys.modules:
            try:
                from _functools import _lru_cache_wrapper

                sys.modules["functools"] = stand_in = type(sys)("functools")
                stand_in.lru_cache = lambda size: lambda function: _lru_cache_wrapper(function, size, False, tuple)
                import _sqlite3
            except ImportError:
                pass  # of another interpreter, which may need more of it
            finally:
                sys.modules.pop("functools", None)
        import _sqlite3

        return _sqlite3

    def _sha256():
        for module in ("_sha2" if version_info >= (3, 12) else "_sha256", "hashlib"):
            try:
                return __import__(module).sha256
            except ImportError:
                continue
        raise ImportError("this Python has no sha256")


__all__ = ["prctl", "ref", "sha256", "signal", "sockets", "sqlite3"]
