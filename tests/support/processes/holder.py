"""A process that holds a lease and writes through a gate under it.

python -m tests.support.processes.holder GATE CONTENT WHEN

WHEN: at once   the gate is sealed with the acquire; then it writes, releases, and prints token, grant and store
      stopped   the gate is registered and sealed, and the process stops itself; when it goes on it writes with the
                mark it had then, as one that checked its lease before the stop
exit code: 0 written, 73 refused
"""

from __future__ import annotations

import os
import signal
import sys

import nightlatch
from nightlatch import gates
from nightlatch.errors import StaleToken
from tests.support.targets import write


def main() -> None:
    url, content, when = sys.argv[1:]
    gate = gates.open(url)
    if when == "at once":
        with nightlatch.lease("job", gates=[gate]) as lease:
            write(gate, lease, content)
            print(lease.token, lease.grant, lease.store.id)
        return
    lease = nightlatch.lease("job", ttl="60s").acquire()
    lease.use(gate)
    mark = lease.mark
    lease.store.renew("job", lease.grant, 0.5)  # its last one: it is stopped before the next
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        write(gate, mark, content)
    except StaleToken:
        os._exit(73)
    os._exit(0)


if __name__ == "__main__":
    main()
