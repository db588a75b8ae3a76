"""Migrations: numbered SQL files, applied in order, each once.

Most of them only add. A program accepts a newer schema unless that schema says, in `needs`, that it requires a newer
program: so an upgrade on one machine seldom stops the runs of another.
"""

from __future__ import annotations

import os

from ..errors import StoreUnreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

META = "CREATE TABLE IF NOT EXISTS meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)"
READ = "SELECT key, value FROM meta"
_SQLITE = "/* sqlite:"


_listed: dict[str, list[tuple[int, str]]] = {}  # read once: later the files may be those of a newer program


def migrations(area: str) -> list[tuple[int, str]]:
    """(number, file) of every migration of an area, in order."""
    if area not in _listed:
        folder = os.path.join(os.path.dirname(__file__), "migrations", area)
        names = sorted(name for name in os.listdir(folder) if name.endswith(".sql"))
        _listed[area] = [(int(name.split("_", 1)[0]), os.path.join(folder, name)) for name in names]
    return _listed[area]


def newest(area: str) -> int:
    return migrations(area)[-1][0]


def check(meta: dict[str, str], area: str, where: str) -> bool:
    """Is the schema complete for this program? Raises if it needs a newer program."""
    if int(meta.get(f"{area}.needs", "0")) > newest(area):
        raise StoreUnreachable(
            f"the store {where} needs a newer Nightlatch (its schema is {meta[f'{area}.needs']}, this program "
            f"knows {newest(area)}): upgrade this one"
        )
    return int(meta.get(f"{area}.schema", "0")) >= newest(area)


def areas(meta: dict[str, str]) -> set[str]:
    """The areas that exist: store, ledger."""
    return {key.removesuffix(".schema") for key in meta if key.endswith(".schema")}


def apply(meta: dict[str, str], area: str, execute: Callable[[str, dict[str, str]], object]) -> None:
    """Bring an area up to date. Runs inside the caller's transaction, under the caller's write lock."""
    done = int(meta.get(f"{area}.schema", "0"))
    for number, path in migrations(area):
        if number > done:
            with open(path, encoding="utf-8") as file:
                for statement in statements(file.read()):
                    execute(statement, {})
    set_meta = (
        "INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    )
    execute(set_meta, {"key": f"{area}.schema", "value": str(max(done, newest(area)))})
    for name, text in _first_facts(area).items():
        if f"{area}.{name}" not in meta:
            execute(set_meta, {"key": f"{area}.{name}", "value": text})


def _first_facts(area: str) -> dict[str, str]:
    """The facts to record for a new area: its id; for a ledger also the time zone in which it counts days."""
    from ..system import identity, zone

    return {"id": identity.new_id()} | ({"zone": zone.name()} if area == "ledger" else {})


def for_sqlite(sql: str) -> str:
    """Uncomment what only SQLite understands: /* sqlite: WITHOUT ROWID */."""
    return sql.replace(_SQLITE, "").replace("*/", "").strip()


def is_for_sqlite(sql: str) -> bool:
    """Is the whole statement for SQLite alone?"""
    return sql.startswith(_SQLITE)


def statements(script: str) -> list[str]:
    """The statements of a migration: none has a semicolon inside."""
    lines = [line for line in script.splitlines() if not line.lstrip().startswith("--")]
    return [statement.strip() for statement in "\n".join(lines).split(";") if statement.strip()]


def filled(sql: str, values: dict[str, str]) -> str:
    """The statement with its values filled in, for a person to run elsewhere."""
    for name, text in values.items():
        sql = sql.replace(f":{name}", "'" + text.replace("'", "''") + "'")
    return sql
