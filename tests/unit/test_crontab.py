"""A crontab as jobs: each line becomes one, or says why not."""

from __future__ import annotations

import datetime
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nightlatch.config import crontab
from nightlatch.config.load import load
from nightlatch.core.target import Command
from nightlatch.scheduler.scheduled import Scheduled


def line(text: str, **more: Any) -> crontab.CrontabLine:
    *_, last = crontab.read(text, **{"home": "/home/ann", "folder": "/home/ann"} | more)
    return last


@pytest.mark.parametrize(
    ("text", "name", "keys"),
    [
        ("0 2 * * * ./night.sh", "night", {"schedule": "0 2 * * *", "command": "./night.sh", "timeout": "none"}),
        ("@daily /opt/Back-Up.py -v", "back-up", {"schedule": "@daily", "command": "/opt/Back-Up.py -v"}),
        ("0 2 * * * flock -n /tmp/l ./a.sh 'b c' | tee d", "a", {"command": "./a.sh 'b c' | tee d", "overlap": None}),
        ("0 2 * * * flock -xn /tmp/l -c 'a | b'", "a", {"command": "a | b", "overlap": None}),
        ("0 2 * * * /usr/bin/flock /tmp/l ./a.sh", "a", {"command": "./a.sh", "overlap": "queue"}),
        ("0 2 * * * flock -w 5 /tmp/l ./a.sh", "flock", {"command": "flock -w 5 /tmp/l ./a.sh", "overlap": None}),
        ("0 2 * * * timeout 90 ./a.sh", "a", {"command": "./a.sh", "timeout": "90s"}),
        ("0 2 * * * timeout -k 5 1.5h ./a.sh", "a", {"command": "./a.sh", "timeout": "1.5h", "grace": "5s"}),
        ("0 2 * * * timeout -s INT 90 ./a.sh", "timeout", {"command": "timeout -s INT 90 ./a.sh", "timeout": "none"}),
        ("0 2 * * * flock -n l timeout 5m ./a.sh", "a", {"command": "./a.sh", "timeout": "5m"}),
        ("0 2 * * * timeout 5m flock -n l ./a.sh", "a", {"command": "./a.sh", "timeout": "5m"}),
        ("0 2 * * * date +\\%F", "date", {"command": "date +%F"}),
        ("0 2 * * * mail ann%Hi%two words", "mail", {"command": "printf '%s\\n' Hi 'two words' | { mail ann\n}"}),
        ("CRON_TZ=Asia/Tokyo\n0 2 * * * x", "x", {"tz": "Asia/Tokyo", "env": None}),
        ('A = "b c"\nSHELL=/bin/bash\n0 2 * * * x', "x", {"env": {"A": "b c"}, "command": ["/bin/bash", "-c", "x"]}),
        ("HOME=/srv\n0 2 * * * x", "x", {"cwd": "/srv"}),
        ("MAILTO=ann\n0 2 * * * x >/dev/null", "x", {"env": None, "command": "x >/dev/null"}),
        (
            "*/15 * * * * nightlatch run art --slot '0 2 * * *' --retries=2 --env A=b --env C=d --keep-awake --held-ok -- "
            "npx @scope/x 'two words'",
            "art",
            {
                "schedule": "0 2 * * *", "retries": 2, "env": {"A": "b", "C": "d"}, "keep_awake": True, "timeout": "1h",
                "command": ["npx", "@@scope/x", "two words"],
            },
        ),
        ("0 2 * * * nightlatch run art --key k -- x", "nightlatch", {"command": "nightlatch run art --key k -- x"}),
    ],
)  # fmt: skip
def test_a_line_becomes_a_job(text: str, name: str, keys: dict[str, Any], tmp_path: Path) -> None:
    found = line(text)
    assert (found.name, found.why_not) == (name, "")
    assert {key: found.keys.get(key) for key in keys} == keys
    file = tmp_path / "nightlatch.toml"
    file.write_text("\n".join(crontab.toml(found)))
    made = load(str(file)).job(name)
    assert isinstance(made.target, Command)
    if isinstance(found.keys["command"], str):
        assert made.command == ["sh", "-c", found.keys["command"]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@reboot ./start.sh", "@reboot is not a time"),
        ("61 * * * * x", "Bad minute"),
        ("0 2 * * *", "it has no command"),
    ],
)
def test_a_line_that_is_not_a_job_is_a_comment_that_says_why(text: str, why: str) -> None:
    found = line(text)
    assert why in found.why_not
    assert tomllib.loads("\n".join(crontab.toml(found))) == {}


def test_a_system_crontab_names_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "ann")
    assert "runs as root" in line("0 2 * * * root /sbin/x", system=True).why_not
    assert line("0 2 * * * ann /sbin/x", system=True).keys["command"] == "/sbin/x"


def test_a_job_runs_where_cron_ran_it_and_names_are_not_used_twice() -> None:
    assert "cwd" not in line("0 2 * * * x").keys
    assert line("0 2 * * * x", folder="/srv").keys["cwd"] == "/home/ann"
    found = crontab.read("0 2 * * * a.sh\n0 3 * * * a.sh -v\n0 4 * * * b/a.sh\n", home="", folder="")
    assert [one.name for one in found] == ["a", "a-2", "a-3"]


def test_jobs_that_a_crontab_starts_too_are_found(tmp_path: Path) -> None:
    file = tmp_path / "nightlatch.toml"
    file.write_text('[jobs.a]\ncommand = "./a.sh x"\n[jobs.b]\ncommand = "./b.sh"\n[jobs.c]\ncommand = "./c.sh"\n')
    there = "# 1 * * * * ./c.sh\n0 2 * * * flock -n l ./a.sh x\n*/5 * * * * cd /x && nightlatch run b >/dev/null\n"
    assert crontab.jobs_still_in(load(str(file)).jobs, there) == {
        "a": "0 2 * * * flock -n l ./a.sh x",
        "b": "*/5 * * * * cd /x && nightlatch run b >/dev/null",
    }


def test_cronie_124_lines_in_utc_run_on_the_night_when_the_machines_clock_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CRON_TZ=UTC on a machine in London: there the lines between 01:00 and 01:59 UTC never ran that night."""
    monkeypatch.setenv("TZ", "Europe/London")
    times = ["59 0", "0 1", "1 1", "30 1", "59 1", "0 2"]
    text = "CRON_TZ=UTC\n" + "\n".join(f"{time} * * * job-{place}" for place, time in enumerate(times))
    file = tmp_path / "nightlatch.toml"
    file.write_text("\n".join(part for one in crontab.read(text, home="/", folder="/") for part in crontab.toml(one)))
    midnight = round(datetime.datetime(2022, 10, 30, tzinfo=datetime.UTC).timestamp())
    jobs = [Scheduled(job, "") for job in load(str(file)).jobs.values()]
    assert [(one.next(midnight) - midnight) / 60 for one in jobs] == [59, 60, 61, 90, 119, 120]
