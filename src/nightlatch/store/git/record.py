"""A lease and a job's row as the message of a commit: one `field=value` a line, readable with `git show`."""

from __future__ import annotations

from ...core.model import Begun, Holder, KnownGrants, Record
from ...core.row import Cursor
from ...core.value import value
from ...system import identity

_HOLDER = "holder."
_BEGUN = "begun="


@value(frozen=True, kw_only=True)
class StoredLease:
    """A lease as its ref keeps it."""

    token: int
    previous: int = 0  # the token before this one
    grant: str = ""
    holder: str = ""  # packed
    ttl: float = 0.0
    since: float
    until: float
    gates: tuple[str, ...] = ()
    past: str = ""  # recent grants, as `KnownGrants` reads them
    begun: tuple[Begun, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Is nothing but its token worth keeping?"""
        return not (self.grant or self.gates or self.begun)

    def message(self, name: str) -> str:
        holder = Holder.unpack(self.holder)
        lines = [
            f"{name}: token {self.token}, " + (f"held by {holder}" if self.grant else "free"),
            "",
            f"name={name}",
            f"token={self.token}",
            f"previous={self.previous}",
            f"grant={self.grant}",
            f"ttl={self.ttl}",
            f"since={self.since:.3f}",
            f"until={self.until:.3f}",
            *([f"past={self.past}"] if self.past else ()),
            *(f"gate={escape(gate)}" for gate in self.gates),
            *(f"{_BEGUN}{_begun_line(entry)}" for entry in self.begun),
            *(f"{_HOLDER}{line}" for line in self.holder.split("\n") if line),
            _nonce(),
        ]
        return "\n".join(lines)

    def record(self, name: str, version: str) -> Record:
        return Record(
            name=name,
            token=self.token,
            grant=self.grant,
            holder=Holder.unpack(self.holder),
            ttl=self.ttl,
            since=self.since,
            until=self.until,
            left=None,  # there is no shared clock: a challenger watches whether the record changes
            version=version,
            known=KnownGrants.read(self.past),
            begun=self.begun,
        )


def read_lease(message: str) -> StoredLease:
    fields, lines = _fields(message)
    return StoredLease(
        token=int(fields["token"]),
        previous=int(fields["previous"]),
        grant=fields["grant"],
        holder="\n".join(line.removeprefix(_HOLDER) for line in lines if line.startswith(_HOLDER)),
        ttl=float(fields["ttl"]),
        since=float(fields["since"]),
        until=float(fields["until"]),
        gates=tuple(unescape(line.removeprefix("gate=")) for line in lines if line.startswith("gate=")),
        past=fields.get("past", ""),
        begun=tuple(_read_begun(line.removeprefix(_BEGUN)) for line in lines if line.startswith(_BEGUN)),
    )


def _begun_line(entry: Begun) -> str:
    return "\t".join(map(escape, (entry.key, str(entry.attempt), entry.host, str(entry.token), f"{entry.at:.3f}")))


def _read_begun(line: str) -> Begun:
    key, attempt, host, token, at = map(unescape, line.split("\t")[:5])
    return Begun(key=key, attempt=int(attempt), host=host, token=int(token), at=float(at))


def row_message(row: Cursor) -> str:
    lines = [
        f"row of {row.job}",
        "",
        f"job={escape(row.job)}",
        f"id={row.id}",
        f"slot={round(row.slot * 1000)}",
        f"wake={round(row.wake * 1000)}",
        f"body={escape(row.body)}",
        _nonce(),
    ]
    return "\n".join(lines)


def read_row(message: str) -> Cursor:
    fields, _ = _fields(message)
    return Cursor(
        job=unescape(fields["job"]),
        id=fields["id"],
        slot=int(fields["slot"]) / 1000,
        wake=int(fields["wake"]) / 1000,
        body=unescape(fields["body"]),
    )


def keys_message() -> str:
    return f"done keys\n\n{_nonce()}"


def floor_message(token: int) -> str:
    return f"floor of the tokens of leases that have no ref\n\nfloor={token}\n{_nonce()}"


def read_floor(message: str) -> int:
    return int(_fields(message)[0]["floor"])


def store_message(store_id: str) -> str:
    return f"store\n\nid={store_id}"


def read_store(message: str) -> str:
    return _fields(message)[0]["id"]


def escape(text: str) -> str:
    """The text as one line without tabs."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def unescape(text: str) -> str:
    if "\\" not in text:
        return text
    pieces = iter(text.split("\\\\"))
    return "\\".join(piece.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r") for piece in pieces)


def _fields(message: str) -> tuple[dict[str, str], list[str]]:
    lines = message.split("\n")
    return dict(line.split("=", 1) for line in lines if "=" in line), lines


def _nonce() -> str:
    # Without a nonce a renewal could make the same object again, and a push that changes nothing is not compared.
    return f"nonce={identity.new_id()}"
