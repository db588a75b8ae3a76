"""End an agent by its recorded handle, when its driver hangs or is dead. A separate process does it: a
supervisor must not import adapters, which may be the user's own."""

from __future__ import annotations

import json
import subprocess
import sys

from ....ledger.agents import AgentRow

_CONFIRM_TIMEOUT = 10.0  # seconds for the vendor to confirm the end


class Canceller:
    """The process that ends an agent. It is started at once; `wait_for_end` waits for it."""

    def __init__(self, row: AgentRow, environment: dict[str, str], cwd: str) -> None:
        self.row = row
        request = {"provider": row.provider, "fields": row.fields, "handle": row.handle, "within": _CONFIRM_TIMEOUT}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nightlatch.agents.cancel"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=cwd or None,
            text=True,
            start_new_session=True,  # a Ctrl-C that ends the run must not end this process too
        )
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request))
        self._process.stdin.close()
        self._process.stdin = None

    def wait_for_end(self) -> tuple[str, str]:
        """(status, note) as the vendor reports them; status "": the vendor did not confirm the end in time."""
        try:
            out, _ = self._process.communicate(timeout=_CONFIRM_TIMEOUT + 2.0)
            found = json.loads(out)
            return str(found["status"]), str(found["note"])
        except (subprocess.TimeoutExpired, ValueError, KeyError) as error:
            self._process.kill()
            self._process.communicate()
            return "", f"the process that should end it failed: {type(error).__name__}"
