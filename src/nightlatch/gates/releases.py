"""What a rollback returns to: the release that was live when the current one was published.

`names` are the releases that are kept, the oldest first; `history` maps each to the release that was live before it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def live_before(release: str, names: Sequence[str], history: Mapping[str, str]) -> str:
    """The kept release that was live before `release`, or "". If that is not recorded: the one published before it."""
    if release not in names:
        return ""
    position = names.index(release)
    found = history.get(release, names[position - 1] if position else "")
    return found if found in names else ""


def to_keep(release: str, names: Sequence[str], history: Mapping[str, str], keep: int) -> set[str]:
    """The releases to keep when `release` is live: first those that rollbacks return to, then the newest others."""
    chain = [release]
    while earlier := live_before(chain[-1], names, history):
        chain.append(earlier)
    return {*[*chain, *(name for name in reversed(names) if name not in chain)][:keep]}
