"""Kinds of journal entries that only tests write."""

from __future__ import annotations

from nightlatch.ledger.kinds import EntryKind

SAID = EntryKind("said", "said", run="number text nul half yes none é", job="what")
ONE = EntryKind("one", "one", run="")
TWO = EntryKind("two", "two", run="")
