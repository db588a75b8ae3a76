"""The history of switches: what was shown when a release was published, which is what a rollback returns to.

`names` are the releases that are kept, the oldest first; `history` has for each the one that was shown before it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def before(release: str, names: Sequence[str], history: Mapping[str, str]) -> str:
    """ "" if there was none, or it is not kept. Not in the history (an older program's): the one published before."""
    if release not in names:
        return ""
    at = names.index(release)
    found = history.get(release, names[at - 1] if at else "")
    return found if found in names else ""


def kept(release: str, names: Sequence[str], history: Mapping[str, str], keep: int) -> set[str]:
    """Those that stay when `release` is shown: first what rollbacks lead to, then the newest of the others."""
    chain = [release]
    while earlier := before(chain[-1], names, history):
        chain.append(earlier)
    return {*[*chain, *(name for name in reversed(names) if name not in chain)][:keep]}
