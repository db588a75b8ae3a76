"""Ledgers with runs in them, and what somebody could do to one behind its back."""

from __future__ import annotations

from nightlatch.core.model import Holder
from nightlatch.ledger.audit import AuditResult
from nightlatch.ledger.chain import link
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.records import RunRow
from nightlatch.ledger.writer import Writer

ME = Holder(incarnation="i", user="ann", host="here")
OTHER = Holder(incarnation="j", user="bob", host="there", pid=7)
CHAIN = "job:job"


def begun(book: Ledger, token: int = 1, *, key: str = "k", job: str = "job", holder: Holder = ME) -> Writer:
    run = book.open_run(job, key, command="true", host="here")
    return book.seal(run.id, token=token, grant=f"grant-{token}", holder=holder)


def night(book: Ledger, key: str = "k", *, job: str = "job", ends: bool = True) -> RunRow:
    """A run with entries 1 (opened), 2 (started), 3 to 7 (said) and, if it ends, 8 (ended)."""
    writer = begun(book, key=key, job=job)
    for number in range(5):
        writer.event("said", number=number)
    return writer.finish("succeeded") if ends else writer._fence.look()


def tamper(book: Ledger, sql: str, **values: object) -> None:
    with book._tables.database.transaction() as execute:
        execute(book._tables.sql(sql), **values)


def first(verdict: AuditResult) -> tuple[str, int]:
    return verdict.breaks[0].chain, verdict.breaks[0].seq


def rewritten(book: Ledger, chain: str) -> None:
    """Recompute a chain from its second entry on, as its owner could."""
    entries = book._tables.read(
        "SELECT seq, at, kind, body, hash FROM {prefix}journal WHERE chain = :chain ORDER BY seq", chain=chain
    )
    before = entries[0][4]
    for seq, at, kind, body, _ in entries[1:]:
        before = link(before, chain, seq, at, kind, body)
        tamper(book, "UPDATE {prefix}journal SET hash = :hash WHERE chain = :chain AND seq = :seq", hash=before,
               chain=chain, seq=seq)  # fmt: skip
    tamper(book, "UPDATE {prefix}run SET head = :hash WHERE id = :chain", hash=before, chain=chain)
    tamper(book, "UPDATE {prefix}chain SET head = :hash WHERE name = :chain", hash=before, chain=chain)
    for run, anchor in book._tables.read("SELECT id, anchor FROM {prefix}run"):
        name, seq, _ = anchor.rsplit(":", 2)
        if name == chain:
            sql = "SELECT hash FROM {prefix}journal WHERE chain = :chain AND seq = :seq"
            hash_ = book._tables.read(sql, chain=chain, seq=int(seq))[0][0]
            tamper(book, "UPDATE {prefix}run SET anchor = :anchor WHERE id = :run", anchor=f"{name}:{seq}:{hash_}",
                   run=run)  # fmt: skip
