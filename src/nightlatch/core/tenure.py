"""How long a confirmed grant may be relied on: one place for every fraction of a TTL."""

from __future__ import annotations

from .value import value

MINIMUM_TTL = 1.0  # seconds: room for several renewals


@value(frozen=True, kw_only=True)
class Tenure:
    """One confirmation of a grant.

    `start` is the time BEFORE the request was sent, so the time that network and store took is already counted: the
    store's own expiry can only be later than `deadline`.
    """

    start: float
    ttl: float

    @property
    def renew_at(self) -> float:
        return self.start + self.ttl / 3

    @property
    def freeze_at(self) -> float:
        """Without a renewal by then, the work is frozen; a later renewal thaws it."""
        return self.start + self.ttl * 0.8

    @property
    def end_at(self) -> float:
        """Without a renewal by then, the lease counts as lost and the work is ended."""
        return self.start + self.ttl * 0.9

    @property
    def deadline(self) -> float:
        """From then on another may hold the lease, so nothing of the work may be left."""
        return self.start + self.ttl

    @property
    def retry_every(self) -> float:
        return min(1.0, self.ttl / 12)


def request_timeout(ttl: float) -> float:
    """How long one request to the store may take, so that several fit between renewal and freeze."""
    return ttl / 6
