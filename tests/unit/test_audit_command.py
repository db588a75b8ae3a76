"""`nightlatch audit`: what it prints, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightlatch.cli.main import run as cli
from tests.support.ledgers import night, tamper


def test_audit_says_that_the_journal_is_whole(book, ledger_url, capsys, tmp_path: Path):
    run = night(book)
    assert cli(["audit", "head", "--store", ledger_url]) == 0
    assert capsys.readouterr().out.strip() == run.anchor
    log = tmp_path / "runs.log"
    log.write_text(f"ts=1 job=job run={run.id} status=succeeded head={run.anchor}\n\n")
    assert cli(["audit", "verify", "--heads", str(log), "--head", run.anchor, "--store", ledger_url]) == 0
    assert capsys.readouterr().out == "the journal is intact: 10 entries in 2 chains, 2 kept heads found\n"


def test_audit_names_what_is_broken_and_exits_1(book, ledger_url, capsys):
    run = night(book)
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :run AND seq = 4", run=run.id)
    assert cli(["audit", "verify", "--store", ledger_url]) == 1
    shown = capsys.readouterr()
    assert shown.out == f"entry 4 of {run.id} is missing: it was removed\n" and "1 of its 2 chains" in shown.err
    assert cli(["audit", "verify", "--json", "--store", ledger_url]) == 1
    assert f'"breaks": [{{"chain": "{run.id}", "entry": 4' in capsys.readouterr().out


def test_heads_that_prove_nothing_are_no_success(book, ledger_url, capsys):
    run = night(book)
    book.prune(-5, "ann")
    assert cli(["audit", "verify", "--head", f"{run.id}:8:{run.head}", "--store", ledger_url]) == 1
    assert "newer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [[], ["verify", "--head", "x"], ["verify", "--heads", "/no/such/file"], ["head", "--head", "x"], ["look"]]
)
def test_audit_says_what_is_wrong_with_its_words(ledger_url, capsys, words):
    assert cli(["audit", *words, "--store", ledger_url]) == 64
    assert capsys.readouterr().err.count("\n") == 1
