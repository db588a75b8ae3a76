"""Small immutable records: what `dataclass(frozen=True, kw_only=True)` makes, without its import.

Importing `dataclasses`, which imports `inspect`, takes about as long as a whole lease cycle, and `lock` and `run` use
these records. A type checker sees real dataclasses.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass as value
    from dataclasses import replace
    from typing import Any, Generic, TypeVar

    T = TypeVar("T")

    def made(cls: type[T], values: dict[str, Any]) -> T: ...

else:
    T = None

    class Generic:  # typing is as slow to import
        def __class_getitem__(cls, _):
            return cls

    def value(*, frozen, kw_only):
        if not (frozen and kw_only):
            raise TypeError("a value is always frozen, and its fields are always named")
        return _value

    def _value(cls):
        bases = [base for base in reversed(cls.__mro__) if "__annotations__" in vars(base)]
        fields = tuple({field: None for base in bases for field in base.__annotations__})
        declared = {field: getattr(cls, field) for field in fields if hasattr(cls, field)}
        # A field has its default as a plain value, or in an option's row (core/options.py).
        defaults = {field: getattr(row, "default", row) for field, row in declared.items()}
        known = frozenset(fields)

        def __init__(self, **arguments):
            values = self.__dict__
            values.update(defaults, **arguments)
            if len(values) != len(known) or not arguments.keys() <= known:
                wrong = ", ".join(values.keys() - known)
                missing = ", ".join(known - values.keys())
                raise TypeError(f"{cls.__name__} " + (f"has no field {wrong}" if wrong else f"needs {missing}"))

        def __eq__(self, other):
            return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

        def __hash__(self):
            return hash(tuple(self.__dict__[field] for field in fields))

        def __repr__(self):
            return f"{cls.__name__}({', '.join(f'{f}={self.__dict__[f]!r}' for f in fields)})"

        def __setattr__(self, name, _value):
            raise AttributeError(f"{cls.__name__}.{name} cannot be changed: a value is frozen")

        for method in (__init__, __eq__, __hash__, __repr__, __setattr__):
            setattr(cls, method.__name__, method)
        return cls

    def made(cls, values):
        """An instance of `cls` with these values, which must be all its fields: this is not checked."""
        new = object.__new__(cls)
        new.__dict__.update(values)
        return new

    def replace(old, **changes):
        if not changes.keys() <= old.__dict__.keys():
            raise TypeError(f"{type(old).__name__} has no field {', '.join(changes.keys() - old.__dict__.keys())}")
        return made(type(old), {**old.__dict__, **changes})


__all__ = ["Generic", "T", "made", "replace", "value"]
