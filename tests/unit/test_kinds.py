"""What may be written into the journal is declared in one place, with the sentence that people read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nightlatch
from nightlatch.ledger import kinds, replay
from nightlatch.ledger.kinds import ROWS, EntryKind
from tests.support.ledgers import begun

SOURCE = Path(nightlatch.__file__).parent
ALL = [kind for kind in ROWS.values() if kind not in ("said", "one", "two")]


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("made-up", {}),
        ("", {}),
        ("two\nlines", {}),
        ("resolved", {"by": "ann"}),
        ("progress", {"done": 1, "colour": "red"}),
    ],
    ids=["kind", "no kind", "two lines", "another chain's", "field"],
)
def test_what_is_not_declared_cannot_be_written_on_a_runs_chain(book, kind, facts):
    writer = begun(book)
    for write in (lambda: writer.event(kind, **facts), lambda: writer.record(kind, [], **facts)):
        with pytest.raises(ValueError, match=r"declare it in ledger/kinds\.py"):
            write()
    assert [entry.kind for entry in book.journal.of_run(writer.run.id)] == ["opened", "started"]
    assert writer.finish("succeeded").status == "succeeded"


@pytest.mark.parametrize(
    ("kind", "facts"),
    [("made-up", {}), ("progress", {"done": 1}), ("refused", {"token": 1, "colour": "red"})],
    ids=["kind", "another chain's", "field"],
)
def test_what_is_not_declared_cannot_be_written_on_a_jobs_chain(book, kind, facts):
    with pytest.raises(ValueError, match=r"declare it in ledger/kinds\.py"):
        book.journal.note("job", kind, **facts)
    assert not list(book.journal.of_job("job")) and not book.journal.verify().breaks


@pytest.mark.parametrize("kind", ALL)
def test_a_sentence_draws_on_fields_that_its_kind_has(kind):
    named = set(re.findall(r"{([^}]*)}|(?:\[|\|)([a-z_]+)\? ", kind.sentence))
    fields = set().union(*kind.fields.values())
    assert {braced or asked for braced, asked in named} <= fields
    assert kind.fields.keys() <= {kinds.RUN, kinds.JOB, kinds.STEPS}
    every = kind.describe({field: "X" for field in fields})
    assert not set("[]{}|…") & set(every) and "? " not in every, every


@pytest.mark.parametrize(
    ("kind", "facts", "sentence"),
    [
        (kinds.STARTED, {"attempt": "2", "host": "air", "token": "1794"}, "attempt 2 started on air (token 1794)"),
        (kinds.ENDED, {"attempt": "1", "status": "failed", "exit_code": "3"}, "attempt 1 ended: failed, exit code 3"),
        (kinds.PUBLISHED, {"target": "file:///a", "attempt": "1"}, "published to file:///a"),
        (kinds.PUBLISHED, {"target": "git+origin#main", "landed": "abc"}, "published to git+origin#main as abc"),
        (
            kinds.REFUSED,
            {"what": "result", "attempt": "1", "token": "3", "stands": "9", "reason": "long"},
            "refused: result, by attempt 1 with token 3; a newer holder has token 9. long",
        ),
        (kinds.REFUSED, {"attempt": "1", "token": "3", "reason": "over"}, "refused, by attempt 1 with token 3. over"),
        (kinds.PROGRESS, {"done": "[{|"}, "progress: [{|"),
        (kinds.INPUT, {}, "its input is …"),
    ],
)
def test_sentences(kind, facts, sentence):
    assert kind.describe(facts) == sentence


def test_no_other_file_names_a_kind_by_its_text():
    """A literal that is misspelt is another kind, and nobody notices before the sentence is missing."""
    calls = r"""(?:\.event|\.append|\.add|\.record|\.note|\.noted|Verb)\((?:[\w.]+, )?"([a-z-]+)["\)]"""
    compared = r"""kind (?:==|!=|<>|in) \(?["']([a-z-]+)["']"""
    for path in SOURCE.rglob("*.py"):
        if path.name != "kinds.py":
            found = {
                name for name in re.findall(f"{calls}|{compared}", path.read_text()) for name in name if name in ROWS
            }
            assert not found, f"{path.relative_to(SOURCE)} writes {found} as text: name the kinds of ledger/kinds.py"


def test_a_kind_is_its_name():
    assert isinstance(kinds.ENDED, EntryKind) and kinds.ENDED == "ended" and ROWS["ended"] is kinds.ENDED


def test_each_kind_that_is_evidence_for_a_run_has_its_rule_in_the_replay():
    assert replay._RULES.keys() == kinds.evidence_for(kinds.RUN)
