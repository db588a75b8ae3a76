"""Every command, with hostile text in every field that it may show: not one byte of it plays with the terminal."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
from pathlib import Path

import pytest

from nightlatch.cli.main import COMMANDS
from nightlatch.cli.main import run as cli
from nightlatch.core.model import Holder
from nightlatch.ledger import location, open_for
from nightlatch.ledger.agents import AgentRow
from nightlatch.store import url
from nightlatch.system import clock
from tests.support.programs import NIGHTLATCH, environment, nightlatch

BAD = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x08\r\n!INJECTED \udcff"
STORED = BAD.replace("\udcff", "")  # a database has no half characters
# Columns by which rows are found: with other text in them nothing would be shown at all.
FOUND_BY = {"id", "run", "status", "chain", "seq", "hash", "head", "anchor", "digest", "scope", "parent", "grant_id",
            "kind", "body", "holder", "name", "value"}  # fmt: skip


def poison(file: str) -> None:
    """Put it into every column of text, also those that come later."""
    with sqlite3.connect(file) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
                if column == "holder":
                    sql = f"UPDATE {table} SET holder = replace(holder, 'user=', ?) WHERE holder <> ''"
                    connection.execute(sql, ("user=" + STORED.replace("\n", " "),))
                elif column == "body":
                    body = STORED.replace("\n", "\\n")
                    connection.execute(f"UPDATE {table} SET body = body || ?", (f"{body}\n{body}={body}",))
                elif kind == "TEXT" and column not in FOUND_BY and table not in ("identity", "meta"):
                    unique = column in ("key", "job") and table == "run"
                    sql = f"UPDATE {table} SET {column} = {column} || ?" + (" || rowid" if unique else "")
                    connection.execute(f"{sql} WHERE {column} <> '' AND {column} NOT LIKE 'lost'", (STORED,))


@pytest.fixture
def hostile(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A store in which everything that can be shown is hostile text; returns the names to show it by."""
    (tmp_path / "items").write_text("one\n")
    script = 'nightlatch progress 1/2 x; printf "$1"; exit 3'.replace("nightlatch", " ".join(map(repr, NIGHTLATCH)))
    nightlatch(sqlite_url, "run", "a", "--key", "k", "--", "sh", "-c", script, "sh", r"\033[2Jx\n")
    nightlatch(sqlite_url, "batch", "b", str(tmp_path / "items"), "--key", "{}", "--lost", "doubt", "--",
               "sh", "-c", "kill -9 $$")  # fmt: skip
    nightlatch(sqlite_url, "once", "post", "--", "false")
    target = tmp_path / f"out{BAD}"
    nightlatch(sqlite_url, "lock", "g", "--gate", str(target), "--", "true", env={"LOGNAME": BAD})
    store = url.connect(sqlite_url)
    store.acquire("held", "grant", Holder(incarnation="i", user=STORED, host=STORED), 3600)
    file, ledger = location.files(sqlite_url)
    run = nightlatch(sqlite_url, "runs", "--job", "a", "--json").stdout.split('"run": "')[1][:12]
    row = AgentRow(job="a", launch="agent/k/1", run=run, provider="command", agent="x", handle="h", status="running",
                   note="x", page="x", began=clock.wall(), changed=clock.wall())  # fmt: skip
    open_for(sqlite_url).agents.put(row, "me")
    with sqlite3.connect(ledger) as connection:
        connection.execute("INSERT INTO alert (id, transport, rule, job, run, at, detail, message) "
                           "VALUES ('x', 'x', 'x', 'a', ?, ?, 'x', '')", (run, clock.wall()))  # fmt: skip
    for one in (file, ledger):
        poison(one)
    config = tmp_path / "nightlatch.toml"
    config.write_text(f'[jobs.staged]\ncommand = ["echo", {json.dumps(STORED)}]\nstage = "manual"\n')
    monkeypatch.setenv("NIGHTLATCH_CONFIG", str(config))
    monkeypatch.setenv("NIGHTLATCH_STORE", sqlite_url)
    monkeypatch.setenv("LOGNAME", BAD)
    for name in ("COLUMNS", "NIGHTLATCH_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return {"run": run, "target": str(target), "items": str(tmp_path / "items")}


WALK: dict[str, list[list[str]]] = {
    "run": [["held", "--", "true"], [BAD, "--", "true"], ["r", "--key", BAD, "--", "sh", "-c", "exit 4"]],
    "batch": [["held", "{items}", "--key", "{}", "--", "true"], ["b", BAD, "--key", "{}", "--", "true"],
              ["b", "{items}", "--key", "{}", "--", BAD]],
    "agent": [["list"], ["list", "--all", "--json"], ["list", "--provider", BAD], ["show", f"h{STORED}"],
              ["show", f"h{STORED}", "--json"], ["show", BAD], ["cancel", BAD], ["attach", "{run}", BAD],
              ["attach", BAD, BAD], ["run", "a", "--provider", BAD, "--input", BAD],
              ["run", "a", "--provider", "command", "--input", f"@{BAD}"], [BAD]],
    "once": [["post", "--", "true"], ["post", "--json", "--", "true"], [BAD, "--", "true"],
             ["n", "--probe", BAD, "--", "true"], ["other", "--", BAD]],
    "init": [["--from-crontab", BAD], ["--config", "{target}"], [BAD]],
    "check": [["--config", BAD], ["--config", "{items}"], [BAD]],
    "service": [["status", "--config", BAD], [BAD]],
    "serve": [["--config", BAD], [BAD]],
    "tick": [["--config", BAD], [BAD]],
    "slots": [[], ["--json"], [BAD]],
    "pause": [[BAD], ["held", "--until", BAD]],
    "unpause": [[BAD]],
    "budget": [[BAD], ["held", BAD]],
    "progress": [[BAD]],
    "spend": [[BAD]],
    "fail": [[BAD]],
    "status": [[], ["--json"]],
    "runs": [[], ["--json"], ["--job", BAD]],
    "show": [["{run}"], ["{run}", "--json"], [BAD]],
    "logs": [["{run}"], [BAD]],
    "alerts": [[], ["--json"], ["test"], ["test", BAD], [BAD]],
    "metrics": [[], [BAD]],
    "traces": [["{run}"], ["{run}", "--json"], [BAD], ["send", BAD]],
    "usage": [[], ["--json"], ["--by", BAD]],
    "approve": [["{run}"], ["a"], [BAD], ["{run}", "--json", "--yes"]],
    "ack": [["{run}"], ["{run}", "--json"], ["--all"], [BAD]],
    "cancel": [["{run}"], [BAD]],
    "retry": [["{run}", "--json"], ["{run}"], [BAD]],
    "resolve": [["{run}"], ["post"], ["post", "done"], [BAD], ["one", "--batch", BAD], ["{run}", BAD]],
    "promote": [["staged"], [BAD], ["staged", "--force", "--json", "--reason", BAD], ["staged", "--force"]],
    "demote": [["staged"], [BAD], ["staged", "--json", "--reason", BAD]],
    "lock": [["held", "--", "true"], [BAD, "--", "true"], ["l", "--gate", "{target}", "--", BAD]],
    "lease": [["show", "held"], ["list"], ["list", "--json"], ["show", "held", "--json"], ["show", BAD], ["show", "g"],
              ["acquire", "held"], ["renew", "held", "--grant", BAD], ["release", "held", "--grant", BAD]],
    "publish": [[BAD, BAD]],
    "push": [[BAD]],
    "gate": [["show", "{target}"], ["show", "{target}", "--json"], ["show", BAD], ["adopt", "{target}"],
             ["forget", "{target}", "--lease", "g"], ["forget", BAD, "--lease", BAD]],
    "audit": [["verify"], ["verify", "--json"], ["head"], ["head", "--json"], ["verify", "--head", BAD],
              ["verify", "--heads", BAD]],
    "prune": [["--dry-run"], ["--dry-run", "--json"], ["--keep", BAD]],
    "key": [[BAD]],
    "doctor": [[]],
    "open": [["--revoke"], [BAD]],
    "store": [["show"], ["show", "--json"], ["remove"], [BAD]],
    "migrate": [[], [BAD]],
    "completion": [["bash"], [BAD]],
    "demo": [["--help"], [BAD]],  # it shows nothing but its own
}  # fmt: skip


def test_every_command_is_walked() -> None:
    assert WALK.keys() == COMMANDS.keys()


@pytest.mark.parametrize("command", WALK)
def test_no_byte_from_elsewhere_reaches_the_terminal_as_it_is(hostile, command, capfdbinary):
    for words in WALK[command]:
        asked = [word.format(**hostile) if word.startswith("{") and word != "{}" else word for word in words]
        for shown in _said([command, *asked], capfdbinary):
            text = shown.decode()  # it is UTF-8 as well
            assert [letter for letter in text if not letter.isprintable() and letter != "\n"] == [], (words, text)
            assert not any(line.startswith("!INJECTED") for line in text.splitlines()), (words, text)


def _said(words: list[str], captured: pytest.CaptureFixture[bytes]) -> tuple[bytes, bytes]:
    """Commands that start processes are started themselves."""
    if words[0] in ("run", "batch", "once", "lock", "doctor"):
        done = subprocess.run([*NIGHTLATCH, *words], env=os.environ, capture_output=True, timeout=60)
        return done.stdout, done.stderr
    captured.readouterr()
    cli(words)
    found = captured.readouterr()
    return found.out, found.err


@pytest.mark.parametrize(
    "words",
    [[BAD], ["--store", BAD, "runs"], [f"--{BAD}"], ["show", f"--{BAD}"]],
    ids=["command", "store", "option", "its"],
)
def test_what_a_user_types_is_not_obeyed_either(hostile, words):
    done = subprocess.run([*NIGHTLATCH, *words], capture_output=True, timeout=60)
    assert done.returncode != 0
    assert done.stderr.decode().strip().isprintable()


def test_a_traceback_is_printable_too(hostile):
    program = """if True:
        from nightlatch.cli import main as m
        def fault(argv, _): raise ValueError(argv[0])
        m._dispatch = fault
        m.main()"""
    for debug in ("", "1"):
        env = {**os.environ, "NIGHTLATCH_DEBUG": debug}
        done = subprocess.run([NIGHTLATCH[0], "-c", program, BAD], env=env, capture_output=True, timeout=60)
        text = done.stderr.decode()
        assert "ValueError" in text and [c for c in text if not c.isprintable() and c != "\n"] == []


def test_our_own_colours_are_there_and_no_others(hostile):
    ours, theirs = pty.openpty()
    env = environment(os.environ["NIGHTLATCH_STORE"], TERM="xterm")
    subprocess.run(NIGHTLATCH, env=env, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "\x1b[1m" in shown and "\x1b[2J" not in shown and "\x1b]" not in shown


def test_what_once_printed_is_replayed_to_a_program_and_not_to_a_terminal(sqlite_url: str) -> None:
    words = ("once", "k", "--", "printf", "%b", r"a\033[2J\tb\n")
    assert nightlatch(sqlite_url, *words).stdout == nightlatch(sqlite_url, *words).stdout == "a\x1b[2J\tb\n"
    ours, theirs = pty.openpty()
    subprocess.run(
        [*NIGHTLATCH, *words], env=environment(sqlite_url), stdout=theirs, stderr=subprocess.DEVNULL, check=True
    )
    os.close(theirs)
    assert b"\x1b" not in os.read(ours, 65536)
    os.close(ours)


def test_a_user_name_that_is_not_utf8_breaks_nothing(any_store: str) -> None:
    env = {"LOGNAME": "\udcff\udcfe"}
    done = nightlatch(any_store, "run", "a", "--key", "k", "--", "true", env=env)
    assert done.returncode == 0, done.stderr
    assert nightlatch(any_store, "lock", "l", "--", "true", env=env).returncode == 0
    shown = nightlatch(any_store, "lease", "show", "l", env=env)
    assert shown.returncode == 0 and "\\udcff" in shown.stdout, shown.stderr
