"""The object gate on a real S3 server: lost replies, careless stores, what is kept."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightlatch import gates
from nightlatch.errors import GateUnreachable, StaleToken, UsageError
from nightlatch.gates import objects
from nightlatch.system import identity
from tests.support import programs
from tests.support.marks import mark
from tests.support.servers import blobs, s3


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3.server() as endpoint:
        yield endpoint


@pytest.fixture
def url(endpoint: str) -> str:
    return f"s3://bucket/{identity.new_id()}/report.html?endpoint={endpoint}"


def payloads(gate: objects.Object) -> set[str]:
    import obstore

    store, *_ = gate._bucket._open()
    return {found["path"] for found in obstore.list(store, f"{gate._key}.releases").collect()}


def test_a_swap_whose_reply_is_lost_counts_once(url, monkeypatch):
    gate = gates.Object(url)
    gate.seal(mark(1), "me")
    before, _ = gate._cell.read()
    swap = gate._bucket.swap
    calls = []

    def lost(*given):
        calls.append(swap(*given))
        if len(calls) == 1:
            raise GateUnreachable("the reply was lost")
        return calls[-1]

    monkeypatch.setattr(gate._bucket, "swap", lost)
    gate.write(mark(1), b"one")
    assert calls == [True]
    after, _ = gate._cell.read()
    assert (after.seq, len(after.kept)) == (before.seq + 1, 1)


def test_a_rollback_and_a_seal_whose_replies_are_lost_happen_once(url, monkeypatch):
    gate = gates.Object(url)
    first, *_ = (gate.write(mark(1), content) for content in (b"one", b"two", b"three"))
    swap = gate._bucket.swap

    def lost(*given):
        monkeypatch.setattr(gate._bucket, "swap", swap)
        swap(*given)
        raise GateUnreachable("the reply was lost")

    monkeypatch.setattr(gate._bucket, "swap", lost)
    assert gate.rollback(mark(1)) != first
    assert gate.read() == b"two"
    monkeypatch.setattr(gate._bucket, "swap", lost)
    assert gate.seal(mark(2), "me") == mark(1)


def test_a_refusal_that_answers_our_own_repetition_is_no_refusal(url, monkeypatch):
    """The client sent it twice, since the first reply was lost: the second one gets 412."""
    gate = gates.Object(url)
    gate.seal(mark(1), "me")
    swap = gate._bucket.swap
    monkeypatch.setattr(gate._bucket, "swap", lambda *given: (swap(*given), swap(*given))[1])
    gate.write(mark(1), b"one")
    assert gate.read() == b"one"
    assert len(gate._cell.read()[0].kept) == 1


def test_a_write_that_landed_and_was_overtaken_before_its_reply_is_no_second_write(url, monkeypatch):
    gate, other = gates.Object(url), gates.Object(url)
    gate.seal(mark(1), "me")
    swap = gate._bucket.swap

    def overtaken(*given):
        monkeypatch.setattr(gate._bucket, "swap", swap)
        assert swap(*given)
        other.write(mark(1), b"two")
        return False

    monkeypatch.setattr(gate._bucket, "swap", overtaken)
    gate.write(mark(1), b"one")
    assert gate.read() == b"two", "the first write was repeated over the second"


def test_a_store_that_ignores_conditions_is_refused_before_anything_is_published():
    with s3.careless_server() as (endpoint, held):
        gate = gates.Object(f"s3://bucket/report.html?endpoint={endpoint}")
        with pytest.raises(GateUnreachable, match="ignores the conditions"):
            gate.seal(mark(1), "me")
        assert not any(name.endswith(".nightlatch") for name in held)


def test_the_newest_payloads_stay_and_a_rollback_goes_back(url):
    gate = gates.Object(url, keep=2)
    _, second, third = (gate.write(mark(1), content) for content in (b"one", b"two", b"three"))
    assert payloads(gate) == {second, third}
    assert gate.rollback(mark(1)) == second
    assert gate.read() == b"two"
    with pytest.raises(UsageError, match="no release before"):
        gate.rollback(mark(1))


@pytest.mark.parametrize("keep", [2, 5])
def test_a_rollback_never_returns_to_a_release_that_was_rejected(url, keep):
    gate = gates.Object(url, keep=keep)
    one = gate.write(mark(1), b"one")
    gate.write(mark(2), b"two")
    gate.rollback(mark(3))
    gate.write(mark(4), b"three")
    assert gates.Object(url).rollback(mark(5)) == one
    assert gate.read() == b"one"
    with pytest.raises(UsageError, match="no release before"):
        gate.rollback(mark(6))


def test_a_refused_payload_is_removed_and_the_refusal_recorded(url):
    gate = gates.Object(url)
    old = gates.Object(url)
    gate.seal(mark(1), "old")
    swap = old._bucket.put

    def takeover_during_the_upload(*given):
        swap(*given)
        gate.seal(mark(2), "new")

    old._bucket.put = takeover_during_the_upload  # type: ignore[method-assign]
    with pytest.raises(StaleToken):
        old.write(mark(1), b"stale")
    assert payloads(gate) == set()
    assert [(r.offered, r.current) for r in gate.refusals()] == [(1, 2)]
    for _ in range(20):
        with pytest.raises(StaleToken):
            old.seal(mark(1), "late")
    assert len(gate.refusals()) == 16


def test_an_endpoint_from_the_environment_is_written_into_the_url(endpoint, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    gate = gates.Object("s3://bucket/from-environment")
    gate.write(mark(1), b"one")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    again = gates.open(gate.url)
    assert isinstance(again, gates.Object)
    assert again.read() == b"one"


def test_a_pointer_that_is_not_ours_lets_nobody_in(url):
    gate = gates.Object(url)
    gate._bucket.put(f"{gate._key}.nightlatch", b'{"mine": 1}', "text/plain")
    with pytest.raises(GateUnreachable, match="damaged"):
        gate.seal(mark(1), "me")


@pytest.mark.parametrize("url", ["s3://bucket", "s3://bucket/", "s3://bucket/a/", "az://account/box", "s3://b/k?key=1"])
def test_what_names_no_object_is_said(url):
    with pytest.raises(UsageError):
        gates.Object(url)


def test_a_missing_bucket_is_said(endpoint):
    with pytest.raises(GateUnreachable, match="s3://nobucket does not exist"):
        gates.Object(f"s3://nobucket/key?endpoint={endpoint}").seal(mark(1), "me")


def test_a_missing_extra_says_what_to_type(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(UsageError, match=r"-m pip install 'obstore>=0.12'"):
        gates.Object(url).seal(mark(1), "me")


def test_publish_takes_an_object_for_its_target(url, sqlite_url, tmp_path):
    for content in ("one", "two"):
        (tmp_path / "new").write_text(content)
        words = ["lock", "job", "--", *programs.NIGHTLATCH, "publish", str(tmp_path / "new"), url]
        done = programs.nightlatch(sqlite_url, *words)
        assert done.returncode == 0, done.stderr
    assert gates.Object(url).read() == b"two"
    back = programs.nightlatch(sqlite_url, "lock", "job", "--", *programs.NIGHTLATCH, "publish", "--rollback", url)
    assert back.returncode == 0, back.stderr
    assert gates.Object(url).read() == b"one"
    shown = programs.nightlatch(sqlite_url, "gate", "show", url)
    assert "mark     job  token" in shown.stdout
    folder = programs.nightlatch(
        sqlite_url, "lock", "job", "--", *programs.NIGHTLATCH, "publish", str(Path.cwd()), url
    )  # fmt: skip
    assert folder.returncode == 64


@pytest.mark.parametrize("given", ["option", "environment"])
@pytest.mark.parametrize(
    ("url", "at", "variable", "path"),
    [
        ("az://devaccount/box/report", "/devaccount", "AZURE_STORAGE_ENDPOINT", "/devaccount/box/report"),
        ("gs://bucket/report", "", "GOOGLE_BASE_URL", "/bucket/report"),
    ],
)
def test_azure_and_google_take_an_endpoint_as_s3_does(monkeypatch, given, url, at, variable, path):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
    with blobs.server() as (endpoint, held):
        if given == "environment":
            monkeypatch.setenv(variable, endpoint + at)
        named = url if given == "environment" else f"{url}?endpoint={endpoint}{at}"
        gate = gates.Object(named)
        assert gate.url == f"{url}?endpoint={endpoint}{at}", "which every machine can open"
        gate.write(mark(1), b"one")
        gate.seal(mark(2), "new")
        with pytest.raises(StaleToken):
            gates.open(gate.url).write(mark(1), b"stale")  # type: ignore[attr-defined]
        assert gate.read() == b"one" and f"{path}.nightlatch" in held


def test_a_region_is_for_s3_only():
    with pytest.raises(UsageError, match="endpoint=URL"):
        gates.Object("gs://bucket/report?region=north")


def test_an_overtaken_holder_does_not_write_where_the_marks_were_removed(url):
    gate, newer = gates.Object(url), gates.Object(url)
    gate.seal(mark(1), "me")
    newer.seal(mark(2), "you")
    newer._bucket.discard(newer._cell._path)  # a lifecycle rule, or a person
    with pytest.raises(GateUnreachable, match="gone"):
        gate.write(mark(1), b"stale")
    assert gate.key() == ""
    gates.Object(url).write(mark(3), b"new")
    with pytest.raises(StaleToken):
        gate.write(mark(1), b"stale")
