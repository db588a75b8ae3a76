from __future__ import annotations

import pytest

from nightlatch.database import dsn
from nightlatch.database.placeholders import translate
from nightlatch.errors import UsageError
from nightlatch.store.url import folder_of


def test_the_schema_is_ours_and_the_rest_libpqs() -> None:
    assert dsn.split("postgresql://a@h/db") == ("postgresql://a@h/db", "nightlatch")
    assert dsn.split("postgresql://h/db?schema=jobs") == ("postgresql://h/db", "jobs")
    assert dsn.split("postgresql://h/db?sslmode=require&schema=jobs&options=x") == (
        "postgresql://h/db?sslmode=require&options=x",
        "jobs",
    )


@pytest.mark.parametrize("schema", ["", "Jobs", "a-b", "1a", "a;drop", "é", "a" * 64])
def test_a_schema_that_would_need_quotes_is_refused(schema: str) -> None:
    with pytest.raises(UsageError, match="schema"):
        dsn.split(f"postgresql://h/db?schema={schema}")


def test_a_new_password_makes_no_new_store() -> None:
    assert folder_of("postgresql://me:one@h/db") == folder_of("postgresql://me:two@h/db")
    assert folder_of("postgresql://me:one@h/db") != folder_of("postgresql://me:one@h/other")


def test_names_become_numbers_and_casts_stay() -> None:
    assert translate("SELECT :a, :b::text, :a") == (b"SELECT $1, $2::text, $1", ["a", "b"])
