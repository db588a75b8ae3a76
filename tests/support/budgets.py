"""What a run has used, by the ledger, in whole billionths: to be compared with what the vendor charged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nightlatch.ledger import open_for
from tests.support.programs import children


@dataclass(frozen=True)
class Spent:
    usd: int  # billionths
    doubt: int  # billionths
    tokens: int
    calls: int
    held: int  # calls that are still in flight
    status: str
    reason: str


def spent(url: str, job: str) -> Spent:
    ledger = open_for(url)
    try:
        run = ledger.newest(job)
        assert run is not None
        used = run.usage
        return Spent(
            usd=round(used.usd * 10**9),
            doubt=round(used.doubt * 10**9),
            tokens=round(used.tokens),
            calls=round(used.calls),
            held=len(ledger.holds.of_run(run)),
            status=run.status,
            reason=run.reason,
        )
    finally:
        ledger.close()


def gateways(supervisor: int) -> list[int]:
    """The gateway's process, while there is one."""

    def is_gateway(pid: int) -> bool:
        try:
            return b"nightlatch.gateway" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    return [pid for pid in children(supervisor) if is_gateway(pid)]
