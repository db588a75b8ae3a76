"""The C parts of standard modules without their Python parts, for the path of `lock` and `run`. Only this file imports
private modules.

`signal` imports enum and functools to name its constants, `sqlite3` imports datetime for converters that we do not
use, `json` imports re, `hashlib` loads OpenSSL, `socket` imports selectors, `ctypes` defines classes for a call that
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

    def loads(text: str | bytes) -> Any: ...

    def dumps(fact: object) -> str: ...

    def encoder(default: Callable[[Any], Any] | None = None, *, nan: bool = True) -> Callable[[object], str]: ...

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
        if name == "dumps":
            return globals().setdefault("dumps", encoder())
        raise AttributeError(name)

    def encoder(default=None, *, nan=True):
        """As `json.JSONEncoder(default=default, allow_nan=nan).encode`."""
        import _json

        quote = _json.encode_basestring_ascii

        def refused(fact):
            raise TypeError(f"{type(fact).__name__} cannot be written as JSON")

        def encode(fact):
            pieces = _json.make_encoder({}, default or refused, quote, None, ": ", ", ", False, False, nan)
            return quote(fact) if isinstance(fact, str) else "".join(pieces(fact, 0))

        return encode

    class _Scanner:
        strict, memo, object_hook, object_pairs_hook = True, {}, None, None
        parse_float, parse_int = float, int
        parse_constant = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf")}.__getitem__
        scan = None

        @classmethod
        def make(cls):
            import _json

            cls.scan = _json.make_scanner(cls)
            return cls.scan

    def loads(text):
        """As `json.loads`."""
        if not isinstance(text, str):
            text = text.decode()
        text = text.strip(" \t\n\r")
        try:
            found, end = (_Scanner.scan or _Scanner.make())(text, 0)
        except StopIteration:
            raise ValueError("it is not JSON") from None
        if end != len(text):
            raise ValueError(f"it is not JSON: more follows at {end}")
        return found

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
    "dumps",
    "encoder",
    "loads",
    "module_from_spec",
    "prctl",
    "ref",
    "sha256",
    "signal",
    "sockets",
    "spec_from_file_location",
    "sqlite3",
]
