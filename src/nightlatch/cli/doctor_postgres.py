"""What `nightlatch doctor` looks at on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

from ..core import duration
from ..database import schema
from ..database.postgres import PostgresDatabase
from ..database.postgres_schema import PATIENCE
from ..system import clock
from .doctor import Finding, fail, ok, warn

_OLDEST_SUPPORTED = 14  # the oldest major version that still gets fixes
_GREATEST_SKEW = 5.0  # seconds between this machine's clock and the server's that cause a warning


def findings(url: str) -> Iterator[Finding]:
    database = PostgresDatabase(url, "store")
    try:
        settings: dict[str, str] = dict(database.read("SELECT name, setting FROM pg_settings"))
        yield _version(settings)
        yield _durability(settings)
        yield _failover(database, settings)
        yield _timeouts(settings)
        yield _clock(database)
        yield _pooler(database)
        meta: dict[str, str] = dict(database.read(f"SELECT key, value FROM {database.prefix}meta"))
        found = f"{meta['store.schema']} in {database.schema} (this program knows {schema.newest('store')})"
        yield ok("schema", found)
    finally:
        database.close()


def _version(settings: dict[str, str]) -> Finding:
    found = f"PostgreSQL {settings['server_version']}"
    if int(settings["server_version_num"]) // 10000 < _OLDEST_SUPPORTED:
        return warn("server", found, f"it no longer gets fixes: upgrade to {_OLDEST_SUPPORTED} or newer")
    return ok("server", found)


def _durability(settings: dict[str, str]) -> Finding:
    for setting, cause in (("fsync", "a power failure"), ("full_page_writes", "a crash of the server's machine")):
        if settings[setting] == "off":
            found = f"{setting} is off: {cause} can destroy the store"
            return fail("durability", found, f"ALTER SYSTEM SET {setting} = on")
    if settings["synchronous_commit"] == "off":
        found = "synchronous_commit is off: a crash of the server forgets grants and done keys"
        return fail("durability", found, "ALTER ROLE <the user in --store> SET synchronous_commit = on")
    return ok("durability", f"every commit is on the disk (synchronous_commit {settings['synchronous_commit']})")


def _failover(database: PostgresDatabase, settings: dict[str, str]) -> Finding:
    if database.read("SELECT pg_is_in_recovery()") == [(True,)]:
        return fail("failover", "this server is a standby: nothing can be written", "name the primary in --store")
    ((standbys,),) = database.read("SELECT count(*) FROM pg_stat_replication")
    waits = settings["synchronous_standby_names"] and settings["synchronous_commit"] != "local"
    if standbys and not waits:
        return warn(
            "failover",
            f"{standbys} standby{'s' if standbys > 1 else ''}, replicated asynchronously: a failover can forget grants "
            "and done keys that were acknowledged",
            "set synchronous_standby_names there, or treat a failover as a restored backup: nightlatch lease raise",
        )
    if standbys:
        return ok("failover", f"commits wait for a standby ({settings['synchronous_standby_names']})")
    return ok("failover", "no standby is seen from here; a managed service may hide its own")


def _timeouts(settings: dict[str, str]) -> Finding:
    short = [
        f"{name} is {duration.show(int(settings[name]) / 1000)}"
        for name in ("statement_timeout", "lock_timeout", "transaction_timeout")
        if 0 < int(settings.get(name, "0")) < PATIENCE * 1000
    ]
    if short:
        cure = "ALTER ROLE <the user in --store> SET <the setting> = 0; Nightlatch has its own time limit"
        return warn("timeouts", " and ".join(short) + ": a verb on a busy server would be cut off", cure)
    idle = int(settings.get("idle_session_timeout", "0"))
    closed = f"; idle connections are closed after {duration.show(idle / 1000)} and opened again" if idle else ""
    return ok("timeouts", f"none that would cut off a verb{closed}")


def _clock(database: PostgresDatabase) -> Finding:
    """The server clock's offset, measured with the fastest of a few replies; the error is half of its round trip."""
    samples = []
    for _ in range(5):
        before = clock.wall()
        ((server,),) = database.read(f"SELECT {database.wall}")
        after = clock.wall()
        samples.append((after - before, server / 1000 - (before + after) / 2))
    round_trip, offset = min(samples)
    found = f"the server's is {abs(offset):.3f} s {'ahead' if offset > 0 else 'behind'} (± {round_trip / 2:.3f} s)"
    if abs(offset) > _GREATEST_SKEW:
        return warn("server clock", found, "leases go by the server's clock alone; set this machine's, for your logs")
    return ok("server clock", found)


def _pooler(database: PostgresDatabase) -> Finding:
    wire = database.connections.dial(clock.now() + PATIENCE)
    try:
        direct = wire.is_direct(clock.now() + PATIENCE)
    finally:
        wire.close()
    if direct:
        return ok("pooler", "none: waiters notice a release at once")
    return ok("pooler", f"there is one: waiters poll every {database.poll_every * 1000:.0f} ms")
