"""What machines must agree on, as plain values."""

from __future__ import annotations

from ..errors import InDoubt, InputChanged, UsageError
from . import checks
from .value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

_NAME_EXTRA = frozenset("._-/#:@+=,")
_NAME_LENGTH = 200
_UNKNOWN = "?"  # in place of a user or host


def check_name(name: str) -> str:
    """Return `name` if it can name a lease on every store: a file, a table row, a git ref."""
    if not isinstance(name, str):
        raise UsageError(f"{checks.shown(name)} cannot be a name: pass a string, as in 'reports'")
    plain = name.replace("-", "").isascii() and all(c.isalnum() or c in _NAME_EXTRA for c in name)
    if not name or len(name) > _NAME_LENGTH or not plain or name[0] in "-/." or ".." in name or "//" in name:
        raise UsageError(
            f"{name!r} cannot be a name: use 1 to {_NAME_LENGTH} letters, digits and any of "
            f"{''.join(sorted(_NAME_EXTRA))}, beginning with a letter or digit"
        )
    return name


@value(frozen=True, kw_only=True)
class Holder:
    """The incarnation that holds a lease, with everything needed to find out later whether it is still alive."""

    incarnation: str  # random, new at every start of a process
    user: str
    host: str
    pid: int = 0  # 0: not bound to a process, so only the TTL ends it
    start: int = 0  # the process's start time, which tells it from a later process with the same pid
    machine: str = ""
    boot: str = ""
    pidns: str = ""
    timens: str = ""
    lifetime: str = ""  # the file that stays locked while the holder's tree lives
    unproven: str = ""  # processes of the previous holder that could not be proven gone after its TTL

    def __str__(self) -> str:
        return f"{self.user}@{self.host}" + (f" (pid {self.pid})" if self.pid else "")

    def pack(self) -> str:
        """One `field=value` a line: the same text in a table, in a git blob and on a page."""
        return "\n".join([f"{field}={text}" for field, text in self.__dict__.items() if text not in ("", 0, _UNKNOWN)])

    @classmethod
    def unpack(cls, text: str) -> Holder:
        fields = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
        known: dict[str, Any] = {name: fields[name] for name in _NOBODY.__dict__ if name in fields}
        return replace(_NOBODY, **known | {name: int(fields.get(name, 0)) for name in ("pid", "start")})


_NOBODY = Holder(incarnation="", user=_UNKNOWN, host=_UNKNOWN)


@value(frozen=True, kw_only=True)
class KnownGrants:
    """The grants of a lease that its store remembers. A gate's mark of any other grant proves that the store forgot it.

    Kept as one text, the newest grant first: `grant token grant token grant …`. Each token belongs to the grant that
    follows it. A store puts a new grant and the previous token in front, and cuts the text at LENGTH.
    """

    grants: frozenset[str]
    floor: int  # grants up to this token are not remembered: the text was cut, or the token was raised

    LENGTH = 1500  # characters; some thirty grants

    def explains(self, mark: Mark) -> bool:
        """Does the store know where this mark comes from? A mark without a grant was adopted by a person."""
        return not mark.grant or mark.grant in self.grants or mark.token <= self.floor

    @staticmethod
    def remember(past: str, token: int, grant: str) -> str:
        """The text `past` with a new grant in front; `token` is the previous grant's."""
        return f"{grant} {token} {past}"[: KnownGrants.LENGTH]

    @classmethod
    def read(cls, past: str) -> KnownGrants:
        words = past.split(" ")
        if len(past) == cls.LENGTH:
            words[-1] = ""  # the last word may have been cut
        tokens = [int(word) for word in words[1::2] if word]
        whole = bool(words[-1])
        return cls(grants=frozenset(words[::2]) - {""}, floor=0 if whole or not tokens else tokens[-1])


@value(frozen=True, kw_only=True)
class Begun:
    """A key that a holder began to work on, listed with the lease until the work ends or a person resolves it."""

    key: str
    attempt: int = 1
    host: str = ""
    token: int = 0  # of the holder that began it: identifies the entry
    at: float = 0.0  # wall clock

    MOST = 1000  # entries per lease; more are refused, since every renewal writes the whole record
    MOST_OF_KEY = 10  # entries per key: only its newest attempts stay

    @staticmethod
    def add(begun: tuple[Begun, ...], new: Begun) -> tuple[Begun, ...]:
        """The list with `new` at its end. Raises `InDoubt` if the list is full."""
        same = [entry for entry in begun if entry.key == new.key]
        if len(begun) >= Begun.MOST and not same:
            raise InDoubt(
                f"{len(begun)} keys under this lease were begun and have not ended, and the list is full. Decide "
                f"some of them first: nightlatch status lists them"
            )
        dropped = {entry.token for entry in same[: max(len(same) + 1 - Begun.MOST_OF_KEY, 0)]}
        attempt = max([new.attempt, *(entry.attempt + 1 for entry in same)])
        return (*Begun.without(begun, dropped), replace(new, attempt=attempt))

    @staticmethod
    def without(begun: tuple[Begun, ...], tokens: Collection[int]) -> tuple[Begun, ...]:
        return tuple(entry for entry in begun if entry.token not in tokens)


@value(frozen=True, kw_only=True)
class Record:
    """A lease as its store reports it. A record is never deleted: its token must outlive every holder."""

    name: str
    token: int
    grant: str  # "" when nobody holds it
    holder: Holder
    ttl: float  # seconds
    since: float  # wall clock when it was granted, for people
    until: float  # wall clock when it ends unless renewed, for people
    left: float | None  # seconds left by the store's clock; None: the store has no clock to measure it
    version: str  # changes with every grant and every renewal
    known: KnownGrants | None = None  # None: the store does not keep them
    begun: tuple[Begun, ...] = ()  # keys begun under this lease that have not ended, the oldest first


@value(frozen=True, kw_only=True)
class Takeover:
    """Which grant a challenger saw, and why it may take the lease over.

    `proven`: the holder's tree is proven gone, or the challenger watched the grant stay unchanged for longer than its
    TTL. Otherwise the store itself must find the grant expired.
    """

    grant: str
    version: str
    proven: bool


@value(frozen=True, kw_only=True)
class Granted:
    """What an acquire returns."""

    token: int
    previous: int  # the token of the grant before
    gates: tuple[str, ...]  # every gate registered under this name, to be sealed before any work
    known: KnownGrants | None = None  # None: the store does not keep them
    begun: tuple[Begun, ...] = ()  # keys begun by earlier holders that have not ended, the oldest first


@value(frozen=True, kw_only=True)
class Mark:
    """What a gate remembers of a lease's newest holder."""

    store: str
    name: str
    token: int
    grant: str


@value(frozen=True, kw_only=True)
class Done:
    """A key that is settled."""

    scope: str
    key: str
    value: str  # kept with the key for the caller that settled it
    input: str  # fingerprint of its input; "" if there is none
    token: int
    at: float  # wall clock

    def with_input(self, input: str) -> Done:
        """Return this record; raise `InputChanged` if the key was done with other input."""
        if input and self.input and self.input != input:
            raise InputChanged(
                f"the key {self.key} of {self.scope} is done already, with other input. "
                f"Use another key for other work; a key names what is processed"
            )
        return self
