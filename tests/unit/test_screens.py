"""What people read, at 80 and 120 columns, as in the golden files beside it: one made-up night at a clock that stands
still. To write them anew after a change that is meant: NIGHTLATCH_GOLDEN=1.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from pathlib import Path

import pytest

from nightlatch import connect
from nightlatch.cli import main
from nightlatch.cli.arguments import parser_of
from nightlatch.cli.main import COMMANDS
from nightlatch.ledger import opening
from nightlatch.system import clock, identity
from nightlatch.web import made_up

GOLDEN = Path(__file__).parent / "golden"
NOW = 1_794_813_120.0
SCREENS = {
    "help": ["--help"],
    "help-run": ["run", "--help"],
    "nightlatch": [],
    "status": ["status", "--since", "24h"],
    "runs": ["runs", "--since", "12h"],
    "show": ["show", "articles"],
    "lease-list": ["lease", "list"],
}


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the night in it."""
    url = f"sqlite:///{tmp_path_factory.mktemp('night')}/nightlatch.db"
    count = itertools.count(1)
    with pytest.MonkeyPatch.context() as still:
        still.setattr(identity, "new_id", lambda: f"{next(count):032x}")
        still.setattr(opening, "new_id", lambda: f"{next(count) * 7919 % 99991:05d}zdkp278")
        still.setattr(clock, "wall", lambda: NOW)
        made_up.make(url)
        holder = made_up._holder("mini")
        for name, ttl in (("reports", 600.0), ("articles", 60.0)):
            connect(url).acquire(name, identity.new_id(), holder, ttl, None)
    return url


@pytest.fixture(autouse=True)
def at_a_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(clock, "wall", lambda: NOW)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_looks_as_it_should(night, screen, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NIGHTLATCH_STORE", night)
    assert main.run(SCREENS[screen]) == 0
    shown = _still(capsys.readouterr().out)
    path = GOLDEN / f"{screen}-{width}.txt"
    if os.environ.get("NIGHTLATCH_GOLDEN"):
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")
    over = [line for line in shown.splitlines() if len(line) > width]
    assert not over, over


def _still(text: str) -> str:
    """What the store's own clock and this machine say: same widths, other figures."""
    text = re.sub(r"\b17\d{11}\b", "1794000000000", text)
    text = re.sub(r"until [^(]* \(in \w+\) unless renewed", "until 07:22:00 (in 9m) unless renewed", text)
    return re.sub(r"head +job:\S+", "head job:…", text)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_for_80_columns_and_has_every_default(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main.run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    for line in shown.splitlines():
        assert len(line) <= 80 or len(max(line.split('" "'), key=len)) > 70, line
    for argument in parser_of(command).arguments:
        if not argument.hidden and argument.default not in (None, "", False, []):
            assert str(argument.default) in argument.help or "(default" in argument.help, (
                f"{command} {argument.name}: {argument.default}"
            )
