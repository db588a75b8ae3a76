"""`nightlatch demo --pages`: what it says opens its own night, not the user's store, and nothing of it is left."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.programs import nightlatch, start


def test_the_command_that_demo_prints_opens_its_own_pages_and_ctrl_c_removes_them(sqlite_url):
    demo = start(sqlite_url, "demo", "--pages", "--print")
    assert demo.stdout and demo.stderr
    address = urlsplit(demo.stdout.readline())
    line = next(text for text in demo.stderr if "open them with" in text)
    program, *words = shlex.split(line.rpartition("open them with: ")[2])
    assert (program, words[0]) == ("nightlatch", "--store")
    opened = urlsplit(nightlatch(sqlite_url, *words, "--print").stdout)
    assert (opened.netloc, opened.path.split("/")[1]) == (address.netloc, address.path.split("/")[1])
    folder = Path(words[1].removeprefix("sqlite:///")).parent
    assert folder.exists()
    demo.send_signal(signal.SIGINT)
    assert demo.wait(60) == 0
    assert not folder.exists()
    demo.stdout.close()
    demo.stderr.close()
