"""What `nightlatch doctor` checks of a store in a git remote."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

from ...errors import Error
from ...system import clock, identity
from . import names
from .objects import NewObjects
from .repository import Moved, PushRefused, RefMove, Repository, check_version
from .store import connect

Finding = tuple[str, str, str, str]  # (level, subject, what was found, what to do)
_TIMEOUT = 30.0  # seconds
_MANY_REFS = 5_000
_RACERS = 4


def findings(where: str) -> Iterator[Finding]:
    """Takes no lease: pushes only to `@doctor` refs, which exist for this check."""
    yield "ok", "git", f"{check_version()}", ""
    repository = connect(where).repository
    started = time.perf_counter()
    oids = repository.look(timeout=_TIMEOUT)
    took = time.perf_counter() - started
    yield "ok", "remote", f"{repository.shown} answers in {took * 1000:.0f} ms", ""
    if len(oids) > _MANY_REFS:
        yield (
            "warn",
            "refs",
            f"{len(oids)} refs: every request transfers all their names",
            "keep the leases in a small repository for them alone: --store git+URL",
        )
    yield _check_comparing(repository, oids.get(names.ROOT + "@doctor", ""))
    path = repository.remote.url.removeprefix("file://")
    if os.path.isdir(path):
        yield _check_flushing(
            repository.git("--git-dir", path, "config", "--default", "", "core.fsync").decode().strip(), path
        )


def _check_comparing(repository: Repository, old: str) -> Finding:
    """Does the server compare before it swaps? Of several pushes from the same old value, exactly one may land."""
    ref, new_objects = names.ROOT + "@doctor", NewObjects()
    commits = [new_objects.commit(f"doctor\n\n{identity.new_id()}", at=clock.wall()).oid for _ in range(_RACERS)]
    repository.write(new_objects)
    outcomes: list[object] = []

    def push(new: str) -> None:
        try:
            # A second ref, to check that both move or neither.
            moves = [RefMove(ref=ref, old=old, new=new), RefMove(ref=f"{ref}-{new[:4]}", old="", new=new)]
            repository.swap(moves, timeout=_TIMEOUT)
            outcomes.append(new)
        except (Error, Moved, PushRefused) as error:
            outcomes.append(error)

    racers = [threading.Thread(target=push, args=(new,)) for new in commits]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    repository.delete(f"{ref}-{new[:4]}" for new in commits)
    landed = [outcome for outcome in outcomes if isinstance(outcome, str)]
    if len(landed) > 1:
        return (
            "fail",
            "comparing",
            f"{len(landed)} of {_RACERS} simultaneous pushes landed, and only one may",
            "this server cannot keep leases: use another one, or --store postgresql://…",
        )
    refusal = next((error for error in outcomes if isinstance(error, Error | PushRefused)), None)
    if not landed and refusal:
        return "fail", "writing", str(refusal), f"allow pushes to {names.ROOT}* at {repository.shown}"
    return (
        "ok",
        "comparing",
        f"one of {_RACERS} simultaneous pushes landed: compare-and-swap works, for several refs too",
        "",
    )


def _check_flushing(setting: str, path: str) -> Finding:
    if "all" in setting or "objects" in setting:
        return "ok", "durability", f"core.fsync = {setting}: a push is on the disk before it is acknowledged", ""
    return (
        "warn",
        "durability",
        "git does not flush single objects to the disk by default: a power failure there can lose the last done keys",
        f"git --git-dir {path} config core.fsync all",
    )
