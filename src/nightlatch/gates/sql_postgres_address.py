"""The URL of a database as it is registered: enough for any machine to reach it, and no password."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from ..core.passwords import without_password

# Parameters that other machines need to connect; the rest only concern the user's session.
_TO_CONNECT = ("hostaddr", "sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs", "gssencmode")


def registered(url: str) -> str:
    """The URL without a password, and with the scheme `postgresql`."""
    return f"postgresql://{without_password(url).partition('://')[2]}"


def of_parameters(parameters: Mapping[str, str], user: str, database: str) -> str:
    """The URL for a connection's parameters. Several hosts, or a socket's folder, go into its query."""
    options = {name: parameters[name] for name in ("host", "port", *_TO_CONNECT) if parameters.get(name)}
    host = options.get("host", "")
    host_and_port = ""
    if host and "," not in host and not host.startswith("/"):
        options.pop("host")
        port = options.pop("port", "")
        host_and_port = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    query = "?" + urlencode(options, quote_via=quote, safe="/,") if options else ""
    return f"postgresql://{quote(user, safe='')}@{host_and_port}/{quote(database, safe='')}{query}"
