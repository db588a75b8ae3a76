"""The driver's connection to its supervisor: one request, one reply."""

from __future__ import annotations

from typing import Any

from ....errors import Error, Stop
from ...shared.client import Connection, checked, no_reply


class NotRecorded(Exception):
    """The supervisor does not record any more: nothing may be started."""


class DriverClient:
    def __init__(self) -> None:
        self._connection = Connection()

    def ask(self, **request: Any) -> dict[str, Any]:
        try:
            return checked(self._connection.ask(request))
        except OSError as error:
            raise NotRecorded(str(no_reply(error))) from error
        except (Error, Stop) as refused:
            raise NotRecorded(str(refused)) from refused
