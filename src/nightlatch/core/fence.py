"""The one rule of every gate: which mark may pass, given the marks that the gate keeps."""

from __future__ import annotations

import time

from ..errors import Forgotten, GateUnreachable, OtherStore, StaleToken
from . import advice
from .model import KnownGrants, Mark
from .value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@value(frozen=True, kw_only=True)
class KeptMark:
    """A mark that a gate keeps, with its holder and time, which a refusal reports."""

    mark: Mark
    by: str  # the holder, in one line
    at: float  # wall clock


@value(frozen=True, kw_only=True)
class Landing:
    """A write that a gate let through: its holder's mark, and the sha256 that the writer named."""

    mark: Mark
    digest: str  # "": the writer named none; BACK: the write restored an earlier release
    at: float  # wall clock


BACK = "rollback"  # in place of a landing's digest

LANDINGS = 32  # each target keeps this many of its newest landings


@value(frozen=True, kw_only=True)
class Refusal:
    """One refused write or seal, which wrote nothing."""

    at: float  # wall clock
    name: str  # the lease
    offered: int  # the token that was refused
    grant: str
    store: str
    current: int  # the token in the gate's mark; 0 if that mark is another store's
    by: str  # the refused holder, in one line

    def pack(self) -> str:
        fields = (f"{self.at:.3f}", self.name, self.offered, self.grant, self.store, self.current, self.by)
        return "\t".join(map(str, fields)) + "\n"

    @classmethod
    def unpack(cls, line: str) -> Refusal:
        at, name, offered, grant, store, current, by = line.split("\t", 6)
        return cls(at=float(at), name=name, offered=int(offered), grant=grant, store=store, current=int(current), by=by)

    @classmethod
    def of(cls, refused: StaleToken, by: str, now: float) -> Refusal:
        offered, current = refused.offered, refused.current
        if not offered or not current:
            raise ValueError(f"a refusal needs the mark that was offered and the mark of the gate: {refused}")
        return cls(
            at=now,
            name=offered.name,
            offered=offered.token,
            grant=offered.grant,
            store=offered.store,
            current=current.token if current.store == offered.store else 0,
            by=" ".join(by.split()),
        )


def kept(mark: Mark, by: str, now: float) -> KeptMark:
    """The mark as a gate keeps it."""
    return KeptMark(mark=mark, by=" ".join(by.split()), at=now)


def adopted(marks: Mapping[str, KeptMark], store: str) -> tuple[dict[str, KeptMark], int]:
    """(the marks, all re-keyed to this store with their tokens kept; how many were another store's)"""
    foreign = sum(one.mark.store != store for one in marks.values())
    return {n: replace(one, mark=replace(one.mark, store=store, grant="")) for n, one in marks.items()}, foreign


def admit(gate: str, standing: Mapping[str, KeptMark], offered: Mark, known: KnownGrants | None = None) -> bool:
    """Let a holder with the mark `offered` write, or raise `StaleToken` or `OtherStore`. Returns whether the gate's
    mark has to be raised first; False: the gate already has exactly this mark.

    `standing` is every mark of the gate by lease name. Two jobs on one target do not fence each other. The tokens of
    two stores cannot be compared, so the second store is refused whatever its token.

    `known` is passed when a gate is sealed: raises `Forgotten` if the store cannot explain the gate's mark. That mark
    then stays, as the only evidence that the store has forgotten grants.
    """
    for name, kept in standing.items():
        if kept.mark.store != offered.store:
            raise OtherStore(
                f"{gate} is fenced from another store: {name} (token {kept.mark.token}) by {kept.by} since "
                f"{_time(kept.at)} has store id {kept.mark.store[:8]}, yours has {offered.store[:8]}. The machines "
                f"do not share one store: give both the same --store; or, if this one replaces it for good: "
                f"{advice.command('gate', 'adopt', gate)}",
                offered=offered,
                current=kept.mark,
            )
    mine = standing.get(offered.name)
    if mine is None or offered.token > mine.mark.token:
        if mine and known and not known.explains(mine.mark):
            raise forgotten(gate, offered, mine.mark, f"{mine.by} since {_time(mine.at)}")
        return True
    if (offered.token, offered.grant) == (mine.mark.token, mine.mark.grant):
        return False
    raise StaleToken(
        f"{gate} refused {offered.name} with token {offered.token}: it has token {mine.mark.token} of {mine.by} "
        f"since {_time(mine.at)}. Nothing was written. A newer holder has taken over; stop this one",
        offered=offered,
        current=mine.mark,
    )


def check_not_gone(gate: str, standing: Mapping[str, KeptMark], offered: Mark, sealed: set[str]) -> None:
    """Raise `GateUnreachable` if this gate was sealed under the same grant (one of `sealed`), and the lease has no mark
    there any more: the gate looks new, and whether a newer holder has sealed it since, nobody can tell."""
    if offered.grant in sealed and offered.name not in standing:
        raise GateUnreachable(
            f"the mark of {offered.name} at {gate} is gone: somebody has removed it, and perhaps a newer holder's. "
            f"Nothing was written. Start again: a new holder seals it"
        )


def forgotten(gate: str, offered: Mark, current: Mark, by: str = "a holder") -> Forgotten:
    return Forgotten(
        f"{gate} was sealed by {by} under {offered.name}, with token {current.token}, and the store knows nothing of "
        f"that grant: it was restored from an older backup, or lost writes in a failover, and may have forgotten done "
        f"keys and gates too. Nothing was written. Check what was done since; then: "
        f"{advice.command('lease', 'raise', offered.name, '--above', str(current.token))}, and start it again with "
        f"every gate named",
        offered=offered,
        current=current,
    )


def pack(standing: Mapping[str, KeptMark], landings: Iterable[Landing] = ()) -> str:
    """Marks as text: one a line, fields separated by tabs, the same in a file, a blob and an object.

    A line whose first field is empty is a landing; its last field is the lease's name and the digest.
    """
    lines = [(one.mark.name, one.mark, one.at, one.by) for _, one in sorted(standing.items())]
    lines += [("", landing.mark, landing.at, f"{landing.mark.name} {landing.digest}") for landing in landings]
    return "".join(
        "\t".join((first, str(mark.token), mark.grant, mark.store, f"{at:.3f}", last)) + "\n"
        for first, mark, at, last in lines
    )


def unpack(text: str) -> dict[str, KeptMark]:
    """The marks in a packed text, by lease name."""
    return {mark.name: KeptMark(mark=mark, by=by, at=at) for name, mark, at, by in _lines(text) if name}


def landings(text: str) -> tuple[Landing, ...]:
    """The landings in a packed text, the oldest first."""
    found = []
    for first, mark, at, last in _lines(text):
        if not first:
            name, digest = last.split(" ")
            found.append(Landing(mark=replace(mark, name=name), digest=digest, at=at))
    return tuple(found)


def _lines(text: str) -> Iterator[tuple[str, Mark, float, str]]:
    for line in text.splitlines():
        name, token, grant, store, at, last = line.split("\t", 5)
        yield name, Mark(store=store, name=name, token=int(token), grant=grant), float(at), last


def _time(wall: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))
