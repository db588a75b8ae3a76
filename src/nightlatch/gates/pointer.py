"""One small object in an object store, changed by compare-and-swap: the marks, and which payload is published."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from ..core import fence
from ..core.fence import KeptMark, Landing, Refusal
from ..core.value import replace, value
from ..errors import GateUnreachable
from ..system import clock, identity
from .bucket import Bucket, Version

PATIENCE = 30.0  # seconds in which a change has to land


@value(frozen=True, kw_only=True)
class Pointer:
    """What the object holds."""

    marks: dict[str, KeptMark]
    seq: int  # counts the changes
    nonce: str  # new with every change: an ETag is the body's hash, and an equal body would pass for the old one
    key: str  # the key of what is published; "" if nothing is yet
    kept: tuple[str, ...]  # the newest releases, the current one among them, the oldest first
    refusals: tuple[Refusal, ...]
    before: dict[str, str]  # for each kept release, the one that was live when it was published; "" if none
    landings: tuple[Landing, ...] = ()  # the last writes that landed, the oldest first

    def pack(self) -> bytes:
        facts = {
            "version": 1,
            "seq": self.seq,
            "nonce": self.nonce,
            "key": self.key,
            "kept": self.kept,
            "before": self.before,
            "marks": fence.pack(self.marks, self.landings),
            "refusals": "".join(refusal.pack() for refusal in self.refusals),
        }
        return json.dumps(facts, indent=1).encode()

    @classmethod
    def unpack(cls, content: bytes) -> Pointer:
        facts = json.loads(content)
        return cls(
            marks=fence.unpack(facts["marks"]),
            landings=fence.landings(facts["marks"]),
            seq=facts["seq"],
            nonce=facts["nonce"],
            key=facts["key"],
            kept=tuple(facts["kept"]),
            before=facts.get("before", {}),
            refusals=tuple(map(Refusal.unpack, facts["refusals"].splitlines())),
        )


EMPTY = Pointer(marks={}, seq=0, nonce="", key="", kept=(), before={}, refusals=())


class Cell:
    """The pointer object at `path` of a bucket; `shown` is its name in messages."""

    def __init__(self, bucket: Bucket, path: str, shown: str) -> None:
        self._bucket = bucket
        self._path = path
        self._shown = shown

    def read(self) -> tuple[Pointer, Version | None]:
        """The pointer, and the version to swap it against; the version is None if there is no such object yet."""
        found = self._bucket.get(self._path)
        if found is None:
            return EMPTY, None
        content, version = found
        try:
            return Pointer.unpack(content), version
        except (ValueError, KeyError, TypeError) as error:
            raise GateUnreachable(
                f"the marks of {self._shown} cannot be read: the object {self._path} is damaged, or not Nightlatch's. "
                f"Nothing was written. Look at it; once no old holder is left, remove it: the next holder seals again"
            ) from error

    def change(self, decide: Callable[[Pointer], Pointer | None]) -> Pointer:
        """Replace the pointer by what `decide` returns for it; returns the new pointer. If the old one changed
        meanwhile, decide again.

        `decide` may raise, or return None: then nothing is changed. Raises `GateUnreachable` if the change did not
        land in time, or nobody can know whether it did.
        """
        sent_nonces: set[str] = set()
        deadline, pause = clock.now() + PATIENCE, 0.01
        while True:
            old, version = self.read()
            if old.nonce in sent_nonces:
                return old  # our change landed: its reply was lost, or a repetition of it was refused
            new = decide(old)
            if new is None:
                return old
            if version is None:
                self._bucket.probe(f"{self._path}.probe-{identity.new_id()}")
            new = replace(new, seq=old.seq + 1, nonce=identity.new_id())
            sent_nonces.add(new.nonce)
            try:
                if self._bucket.swap(self._path, new.pack(), version):
                    return new
            except GateUnreachable:
                if clock.now() > deadline:
                    raise
            if clock.now() > deadline:
                raise GateUnreachable(
                    f"{self._shown} could not be changed in {PATIENCE:.0f} s: others keep changing it. Try again"
                )
            clock.sleep(pause * (1 + os.urandom(1)[0] / 255))
            pause = min(pause * 1.5, 0.5)
