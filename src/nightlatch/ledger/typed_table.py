"""Rows by name: the columns of a table are the fields of its class, in their order, and a field's type says how it is
stored. A new column is a field of the class, and a line in a migration."""

from __future__ import annotations

from ..core.model import Holder
from ..core.units import UNITS, Amounts
from ..core.value import Generic, T, made
from ..database.guarded import Table
from ..errors import UsageError
from .chain import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any


def to_ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def to_seconds(ms: int) -> float:
    return ms / 1000


def _to_holder(text: str) -> Holder:
    """Cached: many rows have the same holder."""
    if text not in _holders:
        if len(_holders) > _MOST_HOLDERS:
            _holders.clear()
        _holders[text] = Holder.unpack(text)
    return _holders[text]


_holders: dict[str, Holder] = {}
_MOST_HOLDERS = 100


# A field's type → its column's type, and how a value is read and written; None: unchanged.
_STORED: dict[str, tuple[str, Callable[[Any], Any] | None, Callable[[Any], Any] | None]] = {
    "str": ("TEXT", None, None),
    "int": ("BIGINT", None, None),
    "int | None": ("BIGINT", None, None),
    "float": ("BIGINT", to_seconds, to_ms),
    "float | None": ("BIGINT", to_seconds, to_ms),
    "Holder": ("TEXT", _to_holder, Holder.pack),
    "dict[str, str]": ("TEXT", unpack, pack),
}
_SCALES = {unit: known.scale for unit, known in UNITS.items()}
_NOTHING = Amounts()
_MOST = 4 * 10**18  # parts: the sum of two such amounts still fits into 64 bits
_NAMES = {"grant": "grant_id", "facts": "body"}  # where a column cannot have its field's name


class TypedTable(Table, Generic[T]):
    """A table whose rows are objects of one class. A field of the type `Amounts` is a column for each unit."""

    def __init__(self, name: str, record_class: type[T], tail: str = "") -> None:
        self._class, self._amounts = record_class, ""  # the latter: the name of the field of type `Amounts`
        columns: dict[str, str] = {}
        nullable: set[str] = set()
        self._fields: list[str] = []
        self._reads: list[tuple[str, Callable[[Any], Any]]] = []
        self._writes: list[tuple[str, Callable[[Any], Any]]] = []
        for field, kind in record_class.__annotations__.items():
            if kind == "Amounts":
                self._amounts = field
                columns |= dict.fromkeys(UNITS, "BIGINT")
                self._fields += UNITS
                continue
            stored, read, write = _STORED[kind]
            columns[_NAMES.get(field, field)] = stored
            if kind.endswith("None"):
                nullable.add(_NAMES.get(field, field))
            self._fields.append(field)
            if read:
                self._reads.append((field, read))
            if write:
                self._writes.append((field, write))
        super().__init__(name, columns, tail)
        self.names = ", ".join(columns)  # for SELECT and RETURNING
        self.select = f"SELECT {self.names} FROM {{prefix}}{name} "
        # PostgreSQL cannot tell the type of a parameter that is NULL.
        values = ", ".join(f"CAST(:{one} AS {columns[one]})" if one in nullable else f":{one}" for one in columns)
        # Inserts one row, with the values of `by_column`.
        self.put = f"INSERT INTO {{prefix}}{name} ({self.names}) VALUES ({values}) {tail}"

    def read(self, row: tuple[Any, ...]) -> T:
        """The object of a row that was selected by `names`."""
        found = dict(zip(self._fields, row, strict=True))
        for field, read in self._reads:
            stored = found[field]
            if stored is not None:
                found[field] = read(stored)
        if self._amounts:
            found[self._amounts] = amounts({unit: found.pop(unit) for unit in UNITS})
        return made(self._class, found)

    def row(self, record: T) -> tuple[Any, ...]:
        """The object as a row, in the columns' order."""
        found = dict(record.__dict__)
        for field, write in self._writes:
            found[field] = write(found[field])
        if self._amounts:
            found |= counts(found[self._amounts].by_unit())
        return tuple([found[field] for field in self._fields])

    def by_column(self, record: T) -> dict[str, Any]:
        """The object by its columns, for `put`."""
        return dict(zip(self.columns, self.row(record), strict=True))


def where(which: Iterable[str], *more: str) -> str:
    """A WHERE clause: each of these columns equals its parameter, and the other conditions hold. Columns that are not
    asked for do not appear, so that the database can use an index."""
    conditions = [*(f"{column} = :{column}" for column in which), *more]
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def counts(by_unit: Mapping[str, float]) -> dict[str, int]:
    """Amounts as stored, in whole parts of a unit. A fraction of a token counts as 1: usage is never understated."""
    if not by_unit.keys() <= UNITS.keys():
        unknown = min(by_unit.keys() - UNITS.keys())
        raise UsageError(f"there is no unit {unknown!r}: report {', '.join(UNITS)}")
    parts = dict.fromkeys(UNITS, 0)
    for unit, amount in by_unit.items():
        scale = _SCALES[unit]
        if not 0 <= amount * scale <= _MOST:
            raise UsageError(f"{unit}={amount} is not an amount: use 0 or more, and less than 10^9")
        parts[unit] = -int(-amount // 1) if scale == 1 else round(amount * scale)
    return parts


def amounts(parts: Mapping[str, float]) -> Amounts:
    """Amounts as people write them, from whole parts of each unit."""
    if not any(parts.values()):
        return _NOTHING
    return made(Amounts, {unit: parts[unit] / scale if scale > 1 else parts[unit] for unit, scale in _SCALES.items()})
