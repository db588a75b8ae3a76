"""Marks of one store's holders: the token says which came later."""

from __future__ import annotations

from nightlatch.core.model import Mark

STORE = "5" * 32


def mark(token: int, name: str = "job", *, grant: str = "", store: str = STORE) -> Mark:
    return Mark(store=store, name=name, token=token, grant=grant or f"{token:032d}")
