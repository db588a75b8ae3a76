"""`nightlatch demo --pages`: its commands are about its own night, not the user's store, and nothing of it is left."""

from __future__ import annotations

import re
import signal
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.programs import start


def test_the_commands_of_the_demo_are_for_its_own_store_which_ctrl_c_removes(sqlite_url):
    demo = start(sqlite_url, "demo", "--pages", "--print")
    assert demo.stdout and demo.stderr
    address = urlsplit(demo.stdout.readline().strip())
    assert "until Ctrl-C" in next(line for line in demo.stderr if "the pages are at" in line)
    connection = HTTPConnection(address.netloc, timeout=30)
    connection.request("GET", address.path)
    opened = connection.getresponse()
    opened.read()
    cookie = opened.getheader("Set-Cookie", "").partition(";")[0]
    connection.request("GET", address.path.partition("open/")[0], headers={"Cookie": cookie})
    shown = connection.getresponse().read().decode()
    connection.close()
    commands = re.findall(r'data-command="nightlatch ([^"]*)"', shown)
    stores = {re.match(r"--store sqlite:///(\S*)/demo.db \w", command) for command in commands}
    assert len(commands) == 4 and None not in stores
    folder = Path(re.findall(r"sqlite:///(\S*)/demo.db", commands[0])[0])
    assert folder.exists()
    demo.send_signal(signal.SIGINT)
    assert demo.wait(60) == 0
    assert not folder.exists()
    demo.stdout.close()
    demo.stderr.close()
