"""What a run publishes to: a file, a folder or an object that is replaced (`replace_target`), or a branch that it
pushes to (`push_target`).

Each target can say what is about to land there (`describe`), make it land (`land`), and tell whether it has
landed (`landed`). What `describe` returns is journaled before the write, so that a successor can ask `landed` about it.
"""

from __future__ import annotations

from ....core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...shared.leases.lease import Lease

    Facts = dict[str, str]


# What `landed` returns; "" if the content has not landed.
IN_PLACE = "there"
REPLACED = "replaced since"  # it landed, and another write replaced it


@value(frozen=True, kw_only=True)
class CommandFolder:
    """A folder that is used like a workspace: one of the command's, or a staged copy."""

    path: str
    commit: str = ""
    guard: str = ""  # as in `Workspace`, if the folder is in one


@value(frozen=True, kw_only=True)
class Publisher:
    """The run that publishes."""

    lease: Lease
    run: str
    job: str
    done: tuple[str, str] | None  # the key that may be settled in one step with a push
    attempt: int = 0  # the attempt whose result is published; 0: the command publishes a part of its work

    @property
    def trailers(self) -> dict[str, str]:
        """Trailers in addition to the lease's. Only the push that completes an attempt names it: so other machines know
        that the attempt is complete."""
        return {"Nightlatch-Run": self.run} | ({"Nightlatch-Attempt": str(self.attempt)} if self.attempt else {})
