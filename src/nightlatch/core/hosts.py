"""Machines by the names that people write."""

from __future__ import annotations


def same(written: str, host: str) -> bool:
    """Does `written` name this host, in full or without its domain?"""
    return written.lower() in (host.lower(), host.lower().partition(".")[0])


def turn(hosts: tuple[str, ...], host: str) -> int | None:
    """The host's position in a job's list of hosts, from 0; None if it may not run the job."""
    if not hosts:
        return 0
    return next((place for place, written in enumerate(hosts) if same(written, host)), None)
