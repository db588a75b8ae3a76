"""`python -P -m nightlatch.agents.cancel`: end an agent by its handle, for a supervisor whose driver hangs or is dead.

Reads JSON (provider, fields, handle, within) and prints the result as JSON: status "" if the vendor did not confirm the
end in time.
"""

from __future__ import annotations

import json
import sys

from ..errors import Error
from ..system import clock
from .ending import end
from .providers import load


def main() -> None:
    request = json.load(sys.stdin)
    try:
        adapter = load(request["provider"], json.loads(request["fields"] or "{}"))
        state, trouble = end(adapter, request["handle"], clock.now() + request["within"])
    except Error as error:
        state, trouble = None, str(error)
    json.dump({"status": state.status if state else "", "note": trouble}, sys.stdout)


if __name__ == "__main__":
    main()
