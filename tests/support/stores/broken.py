"""What broken stores have in common; `BROKEN` has each with the topic of the suite that has to notice."""

from __future__ import annotations

from nightlatch.testing import stores
from tests.support.stores.page_store import Page, PageStore

BROKEN: dict[type[PageStore], type[stores.StoreCase]] = {}


def caught_by(topic: type[stores.StoreCase]):
    def note(store: type[PageStore]) -> type[PageStore]:
        BROKEN[store] = topic
        return store

    return note


class Unchecked(PageStore):
    """No verb checks whose grant it is."""

    def _mine(self, page: Page, name: str, grant: str) -> Page:
        lease: Page = page["leases"].setdefault(name, self._new_lease())
        return lease
