"""Machines by the names that people write."""

from __future__ import annotations


def same(written: str, host: str) -> bool:
    """Whether a name is a machine's: in full, or without its domain."""
    return written.lower() in (host.lower(), host.lower().partition(".")[0])


def turn(hosts: tuple[str, ...], host: str) -> int | None:
    """The place of a machine among those that may run a job, from 0; None if it may not."""
    if not hosts:
        return 0
    return next((place for place, written in enumerate(hosts) if same(written, host)), None)
