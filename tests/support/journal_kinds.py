"""Kinds of journal entries that only tests write."""

from __future__ import annotations

from nightlatch.ledger.kinds import Kind

SAID = Kind("said", "said", run="number text nul half yes none é", job="what")
ONE = Kind("one", "one", run="")
TWO = Kind("two", "two", run="")
