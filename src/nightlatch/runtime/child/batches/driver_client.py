"""The way from a batch's driver to its supervisor: one request, one answer."""

from __future__ import annotations

from typing import Any

from ....errors import Error, Stop
from ...shared import client as tell


class Refused(Exception):
    """The supervisor does not record any more: nothing may be started."""


class Line:
    def __init__(self) -> None:
        self._line = tell.Line()

    def ask(self, **request: Any) -> dict[str, Any]:
        try:
            return tell.judged(self._line.ask(request))
        except OSError as error:
            raise Refused(str(tell.unheard(error))) from error
        except (Error, Stop) as refused:
            raise Refused(str(refused)) from refused
