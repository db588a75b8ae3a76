"""PostgreSQL URLs: `postgresql://user@host:5432/database?schema=nightlatch`."""

from __future__ import annotations

import os

from ..core.passwords import hide_password
from ..errors import UsageError

SCHEMES = ("postgresql://", "postgres://")
SCHEMA = "nightlatch"
PASSWORD = "PGPASSWORD"  # noqa: S105 - libpq's other secrets are in files, which its variables name

_HINT = (
    "write postgresql://user@host:5432/database, with the password in ~/.pgpass or PGPASSWORD; "
    "percent-encode what is not a letter or digit in user and password (@ is %40, / is %2F)"
)


def split(url: str) -> tuple[str, str]:
    """(the URL for libpq, the schema of our tables). `schema` is our own option, not libpq's."""
    base, _, query = url.partition("?")
    options = [option for option in query.split("&") if option]
    schema = next((option.removeprefix("schema=") for option in options if option.startswith("schema=")), SCHEMA)
    if not (schema.isascii() and schema.isidentifier() and schema == schema.lower() and len(schema) < 64):
        raise UsageError(f"schema={schema} is not a valid name: use letters a-z, digits and _, at most 63 of them")
    options = [option for option in options if not option.startswith("schema=")]
    return base + ("?" + "&".join(options) if options else ""), schema


def is_postgres(url: str) -> bool:
    return url.startswith(SCHEMES)


def has_secret(url: str) -> bool:
    """Does the URL itself hold a password?"""
    return hide_password(url) != url


def needs_environment(url: str) -> bool:
    """Does the URL probably need the password that is in the environment?"""
    return is_postgres(url) and bool(os.environ.get(PASSWORD))


def bad(url: str) -> UsageError:
    """The error for a malformed URL. libpq's own message may quote the password, so it is not shown."""
    return UsageError(f"{hide_password(url)!r} is not a PostgreSQL URL: {_HINT}")
