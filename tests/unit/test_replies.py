"""An error that crosses the socket arrives as what it was: class, words, fields and exit code."""

from __future__ import annotations

import inspect
import json

import pytest

from nightlatch import errors
from nightlatch.core.model import Holder, KnownGrants, Mark, Record
from nightlatch.core.value import replace
from nightlatch.errors import Error, Stop
from nightlatch.ledger import open_for
from nightlatch.runtime.shared.replies import as_error, refusal

HOLDER = Holder(incarnation="i", user="ann", host="here", pid=7)
RECORD = Record(
    name="job", token=5, grant="-", holder=HOLDER, ttl=60.0, since=1.0, until=61.0, left=None, version="v"
)  # fmt: skip
MARK = Mark(store="s", name="job", token=5, grant="-")


@pytest.mark.parametrize("kind", errors.kinds().values(), ids=errors.kinds())
def test_every_class_arrives_with_its_words_fields_and_exit_code(kind, sqlite_url):
    run = replace(open_for(sqlite_url).open_run("job", "k", host="here"), grant="-")
    samples = {
        "message": "words",
        "lines": ("one", "two"),
        "record": RECORD,
        "offered": MARK,
        "current": None,
        "reason": "expired",
        "run": run,
    }
    wanted = inspect.signature(kind.__init__).parameters if "__init__" in _own(kind) else ("self", "message")
    given = {name: samples.get(name, "plain") for name in wanted if name != "self"}
    error = kind(given.pop("message"), **given) if "message" in given else kind(**given)
    arrived = as_error(json.loads(json.dumps(refusal(error))))
    assert type(arrived) is kind
    assert (str(arrived), arrived.exit_code, vars(arrived)) == (str(error), error.exit_code, vars(error))


def test_a_class_from_elsewhere_arrives_as_the_nearest_one_here():
    class Special(errors.StoreUnreachable):
        exit_code = 70

    arrived = as_error(refusal(Special("words")))
    assert type(arrived) is errors.StoreUnreachable and arrived.exit_code == 70


def test_one_that_this_side_does_not_know_is_an_error_with_its_exit_code():
    arrived = as_error({"ok": False, "error": "words", "exit_code": 99, "class": "Newer"})
    assert type(arrived) is Error and arrived.exit_code == 99


def test_a_grant_is_not_told():
    known = KnownGrants(grants=frozenset({"secret-1"}), floor=0)
    record = replace(RECORD, grant="secret-2", known=known)
    reply = json.dumps(refusal(errors.Busy("held", record)))
    assert "secret" not in reply
    arrived = as_error(json.loads(reply))
    assert isinstance(arrived, errors.Busy) and arrived.record and arrived.record.holder == HOLDER


def _own(kind: type[Error] | type[Stop]) -> set[str]:
    return {name for base in kind.__mro__ if base.__module__ == errors.__name__ for name in vars(base)}
