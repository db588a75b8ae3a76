"""Messages that name the real cause and the cure."""

from __future__ import annotations

import pytest

from tests.support.programs import NIGHTLATCH, nightlatch, said


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1 hour", "1h"), ("90 minutes", "90m"), ("1 h 30 min", "1h30m"), ("2 days", "2d"), ("10 secs", "10s")],
)
def test_a_time_in_words_gets_the_time_to_write(sqlite_url, written, meant):
    assert f"write '{meant}'" in said(nightlatch(sqlite_url, "run", "a", "--timeout", written, "--", "true"), 64)


def test_publishing_into_a_folder_that_is_not_there_is_refused_and_parents_makes_it(sqlite_url, tmp_path):
    (tmp_path / "page").write_text("hello")
    target = tmp_path / "wwww" / "page.html"

    def publish(*more):
        return nightlatch(
            sqlite_url, "lock", "site", "--", *NIGHTLATCH, "publish", "page", str(target), *more, cwd=tmp_path
        )

    refused = publish()
    assert refused.returncode == 64 and "--parents" in refused.stderr and not target.parent.exists()
    assert publish("--parents").returncode == 0 and target.read_text() == "hello"


def test_a_nonsense_retry_after_is_a_plain_retry_and_not_a_permanent_failure(sqlite_url):
    done = nightlatch(sqlite_url, "fail", "--http", "429", "--retry-after", "soonish")
    assert done.returncode == 75 and "soonish" in done.stderr


def test_a_placeholder_that_no_item_has_is_refused_before_the_first_item(sqlite_url, tmp_path):
    (tmp_path / "posts.jsonl").write_text('{"slug": "a", "site": "x"}\n{"slug": "b", "title": "t"}\n')
    words = ("batch", "posts", "posts.jsonl", "--key", "{slug}", "--")
    refused = said(nightlatch(sqlite_url, *words, "touch", "{slugg}", cwd=tmp_path), 64)
    assert "'slugg'" in refused and "did you mean {slug}?" in refused
    assert [path.name for path in tmp_path.iterdir() if path.name in ("a", "b")] == []
    some = nightlatch(sqlite_url, *words, "touch", "{title}", cwd=tmp_path)
    assert some.returncode == 1 and (tmp_path / "t").exists(), "a field that some items have is not a mistake"
