"""The one place that removes passwords from the URLs of stores, gates and repositories."""

from __future__ import annotations

HIDDEN = "***"

_DATABASES = ("postgresql", "postgres")
_SECRET_OPTIONS = ("password", "secret")


def without_password(url: str) -> str:
    """The URL for records and for commands to type: each machine has its own password."""
    return _redacted(url, "")


def hide_password(url: str) -> str:
    """The URL for people to read, with a placeholder that shows that there is a password."""
    return _redacted(url, HIDDEN)


def _redacted(url: str, placeholder: str) -> str:
    """Works for malformed URLs too: it removes too much rather than leave part of a password."""
    mark = "://" if "://" in url else ":"
    scheme, _, rest = url.partition(mark)
    if not rest:
        return url
    at = _user_ends(scheme, rest)
    login, where = (rest[:at], rest[at:]) if at >= 0 else ("", rest)
    user, colon, _ = login.partition(":")
    kept = f"{user}:{placeholder}" if colon and placeholder else user
    base, question, query = where.partition("?")
    options = [_option(option, placeholder) for option in query.split("&")]
    query = "&".join(option for option in options if option)
    return f"{scheme}{mark}{kept}{base}{question if query or placeholder else ''}{query}"


def _user_ends(scheme: str, rest: str) -> int:
    """The index in `rest` of the @ before the host; -1 if there is none."""
    first = min((place for sign in "/?#" if (place := rest.find(sign)) >= 0), default=len(rest))
    authority = rest[:first]
    database = scheme.rpartition("+")[2] in _DATABASES
    # A path may have an @ too; in a database's URL it more likely follows a password with a / in it.
    at = (rest.partition("?")[0] if database else authority).rfind("@")
    if at < 0 and ":" in authority and not authority.startswith("[") and not authority.rpartition(":")[2].isdecimal():
        at = rest.rfind("@")  # what follows the colon is not a port, so it is a password with a / or ? in it
    return at


def _option(option: str, placeholder: str) -> str:
    name, equals, _ = option.partition("=")
    if equals and any(word in name.lower() for word in _SECRET_OPTIONS):
        return f"{name}={placeholder}" if placeholder else ""
    return option
