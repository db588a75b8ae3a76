"""What the supervisor's threads tell the warden at the same time arrives whole."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, threading
from nightlatch.core.tenure import Tenure
from nightlatch.system.warden import Warden

LONG = Tenure(start=0.0, ttl=1e18)
guard, over = Warden("0" * 24), threading.Event()

def renew():
    while not over.is_set():
        guard.keep(LONG)

threads = [threading.Thread(target=renew) for _ in range(2)]
for thread in threads:
    thread.start()
guard.start(["true"], {**os.environ, **{f"LONG_{number}": "x" * 50_000 for number in range(20)}}, grace=1.0)
print(type(guard.report(60)).__name__, guard.report(60))
over.set()
for thread in threads:
    thread.join()
guard.dismiss()
"""


def test_a_renewal_does_not_get_in_between_a_command_and_its_long_environment():
    done = subprocess.run([sys.executable, "-c", PROGRAM], text=True, capture_output=True, timeout=60)
    assert done.stdout == "Started Ended(status=0, why='', left=0, started=True, stands_by=False)\n", done.stderr
