"""`nightlatch alerts send --follow`, with shorter times: python -m tests.support.alert_daemon STORE FOLDER WEBHOOK"""

from __future__ import annotations

import sys

from nightlatch.database import sqlite
from nightlatch.observe.alerts import away, follow, send
from nightlatch.observe.alerts.settings import AlertSettings
from nightlatch.observe.alerts.transports import http


def main() -> None:
    store, folder, hook = sys.argv[1:]
    send.STORM, send._CLAIM, send._PAUSES = 0.5, 3.0, (0.1, 0.2, 0.4, 0.4, 0.4)
    vars(http)["SECONDS"] = 1.0
    away.APART, follow._STEP, follow._AWAY, follow._ABSENCES = 1.0, 0.1, 0.1, 0.5
    sqlite.PATIENCE = 1.0  # for another program's transaction
    settings = AlertSettings(transports={"hook": {"kind": "webhook", "url": hook}}, group=0.2)
    follow.forever(store, folder, "", lambda: settings, stop=0)


if __name__ == "__main__":
    main()
