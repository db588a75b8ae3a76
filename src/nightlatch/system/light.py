"""The C parts of standard modules without their Python parts, for the path of `lock` and `run`. Only this file and
core/json_text.py import private modules.

`signal` imports enum and functools to name its constants, `sqlite3` imports datetime for converters that we do not
use, `hashlib` loads OpenSSL, `socket` imports selectors, `ctypes` defines classes for a call that
needs none (1.6 ms instead of 0.3), `weakref` imports half of collections, `_sqlite3` imports functools,
`importlib.util` imports threading. Together they take longer than acquiring a lease. Their C modules have the same
names with the same meaning; a type checker sees the public modules. Each is loaded at its first use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import sqlite3
    from collections.abc import Callable
    from hashlib import sha256
    from importlib.machinery import SourceFileLoader
    from importlib.util import MAGIC_NUMBER, module_from_spec
    from typing import Any
    from weakref import ref

    sockets: Any
    spec_from_file_location: Callable[..., Any]

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
        if name == "module_from_spec":
            import _frozen_importlib

            return _frozen_importlib.module_from_spec
        if name in ("MAGIC_NUMBER", "SourceFileLoader", "spec_from_file_location"):
            import _frozen_importlib_external

            return getattr(_frozen_importlib_external, name)
        raise AttributeError(name)

    def prctl(*arguments):
        """What `ctypes.CDLL(None).prctl(…)` returns. Linux only."""
        import _ctypes

        return _ctypes.call_function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl"), arguments)

    def _sqlite3():
        """The module needs only lru_cache from functools, which takes longer to import (2.5 ms) than the module itself.
        So it is imported with a stand-in that has only that. A program with threads has imported functools already."""
        import sys

        if "functools" not in sys.modules and "_sqlite3" not in sys.modules:
            try:
                from _functools import _lru_cache_wrapper

                sys.modules["functools"] = stand_in = type(sys)("functools")
                stand_in.lru_cache = lambda size: lambda function: _lru_cache_wrapper(function, size, False, tuple)
                import _sqlite3
            except ImportError:
                pass  # in another interpreter the module may need more of functools
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


__all__ = [
    "MAGIC_NUMBER",
    "SourceFileLoader",
    "module_from_spec",
    "prctl",
    "ref",
    "sha256",
    "signal",
    "sockets",
    "spec_from_file_location",
    "sqlite3",
]
