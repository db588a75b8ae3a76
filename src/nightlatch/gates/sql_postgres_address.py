"""The URL of a database as it is registered: enough for any machine to reach it, and no password."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from ..core.passwords import without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Parameters that say where the database is and how to get in; the others only concern the user's session.
_PLACE = ("hostaddr", "sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs", "gssencmode")


def registered(url: str) -> str:
    """Without a password, and with the scheme `postgresql`."""
    return f"postgresql://{without_password(url).partition('://')[2]}"


def of_parameters(parameters: Mapping[str, str], user: str, database: str) -> str:
    """From a connection's parameters. Several hosts, or a socket's folder, go into the query."""
    options = {name: parameters[name] for name in ("host", "port", *_PLACE) if parameters.get(name)}
    host = options.get("host", "")
    where = ""
    if host and "," not in host and not host.startswith("/"):
        options.pop("host")
        port = options.pop("port", "")
        where = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    query = "?" + urlencode(options, quote_via=quote, safe="/,") if options else ""
    return f"postgresql://{quote(user, safe='')}@{where}/{quote(database, safe='')}{query}"
