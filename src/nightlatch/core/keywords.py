"""A job's options as Python's keywords, for type checkers only. Made by `make docs` from core/job.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class JobOptions(TypedDict, total=False):
    slot: str | None
    tz: str | None
    ttl: str | None
    wait: str | None
    timeout: str | None
    stall: str | None
    progress: str | Sequence[str]
    grace: str | None
    budget: str | Mapping[str, float] | None
    meter: str | None
    env: Mapping[str, str] | Sequence[str]
    cwd: str | None
    workspace: str | None
    publish: str | Sequence[str]
    input: str | Sequence[str]
    require: str | Sequence[str]
    ensure: str | Sequence[str]
    ping: str | None
    lost: str | None
    pass_store: bool
    keep_awake: bool
    retries: int
    backoff: str | None


class RunOptions(JobOptions, total=False):
    key: str | None
    again: bool
    new: bool
