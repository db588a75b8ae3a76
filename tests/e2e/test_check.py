"""nightlatch init, check and service, as somebody uses them who begins."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nightlatch.config.load import load
from nightlatch.system.services import Launchd, Systemd
from tests.support.programs import NIGHTLATCH, environment, said, until

Done = subprocess.CompletedProcess[str]

CRONTAB = """#!/bin/sh
[ "$1" = -l ] || exit 9
[ -f "$HOME/crontab" ] || { echo "no crontab for you" >&2; exit 1; }
cat "$HOME/crontab"
"""
# Does what a user's systemd would do with the unit, and writes down what it was asked for.
SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$HOME/systemctl.log"
for unit; do :; done
case "$2" in
  restart)
    file="$HOME/.config/systemd/user/$unit"
    line=$(sed -n 's/^ExecStart=//p' "$file")
    eval "set -- $line"
    setsid "$@" > "$HOME/journal" 2>&1 &
    echo $! > "$HOME/pid" ;;
  disable) kill "$(cat "$HOME/pid")" ;;
  is-active) kill -0 "$(cat "$HOME/pid")" 2>/dev/null ;;
esac
"""
JOURNALCTL = '#!/bin/sh\ncat "$HOME/journal" 2>/dev/null\n'
LOGINCTL = "#!/bin/sh\necho Linger=no\n"


class Home:
    """An empty HOME, and a folder to begin in."""

    def __init__(self, folder: Path) -> None:
        self.home, self.site, bin = folder / "home", folder / "site", folder / "bin"
        for place in (self.home, self.site, bin):
            place.mkdir()
        for name, text in (
            ("crontab", CRONTAB), ("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL), ("loginctl", LOGINCTL),
        ):  # fmt: skip
            (bin / name).write_text(text)
            (bin / name).chmod(0o755)
        path = f"{bin}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        self.env = environment("", HOME=str(self.home), PATH=path, TZ="Europe/Berlin")
        for name in ("NIGHTLATCH_STORE", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            self.env.pop(name, None)

    def __call__(self, *words: str) -> Done:
        return subprocess.run(
            [*NIGHTLATCH, *words], cwd=self.site, env=self.env, text=True, capture_output=True, timeout=120
        )

    @property
    def file(self) -> Path:
        return self.site / "nightlatch.toml"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize(
    "store",
    ["postgresql://ann@127.0.0.1:1/jobs", "git+http://127.0.0.1:1/jobs.git", "sqlite:////dev/null/jobs/state.db"],
)
def test_a_store_that_does_not_answer_is_found_before_the_night(home: Home, store: str) -> None:
    home.file.write_text(f'store = "{store}"\ntimezone = "UTC"\n[jobs.job]\nschedule = "0 2 * * *"\ncommand = "true"\n')
    for words in (("check",), ("check", "--json")):
        done = home(*words)
        assert (done.returncode, done.stderr.count("\n")) == (69, 1), done.stderr
        assert "job" in done.stdout and "nightlatch serve" not in done.stdout


def test_a_beginner_writes_a_file_and_it_is_right(home: Home) -> None:
    assert (home("check").returncode, "nightlatch init" in home("check").stderr) == (78, True)
    assert home("init").stdout.splitlines()[0] == "wrote nightlatch.toml"
    assert 'timezone = "Europe/Berlin"' in home.file.read_text()
    done = home("check")
    assert done.returncode == 0 and "The file is valid. Start it: nightlatch serve" in done.stdout, done.stderr
    named = home("--config", str(home.file), "check").stdout
    assert f"Start it: nightlatch --config {home.file} serve; at every login: nightlatch --config" in named
    again = home("init")
    assert again.returncode == 64 and "already exists" in again.stderr
    assert "cannot be written" in said(home("--config", "/proc/nightlatch.toml", "init"), 64)


def test_a_beginner_serves_the_example_and_sees_its_first_run(home: Home) -> None:
    """The file as it is written, but for the minute that a test need not wait."""
    home("init")
    home.file.write_text(home.file.read_text().replace("every 1m", "every 1s"))
    log = open(home.home / "serve.log", "w")  # noqa: SIM115
    serving = subprocess.Popen([*NIGHTLATCH, "serve"], cwd=home.site, env=home.env, stderr=log)
    try:
        until(lambda: '"status": "succeeded"' in home("runs", "--json").stdout)
        assert "hello" in home("slots").stdout
        second = subprocess.Popen(
            [*NIGHTLATCH, "serve"], cwd=home.site, env=home.env, stderr=subprocess.PIPE, text=True
        )
        assert second.stderr and "another `nightlatch serve` of this file" in second.stderr.readline()
        second.terminate()
        second.communicate(timeout=60)
        other = home.home / "nightlatch.toml"
        other.write_text(home.file.read_text())
        (line,) = [one for one in home("check", "--config", str(other)).stdout.splitlines() if "also in" in one]
        assert str(home.file) in line
        assert "also in" not in home("check").stdout
    finally:
        serving.terminate()
        assert serving.wait(60) == 0
        log.close()


def test_in_a_clone_the_store_is_its_remote(home: Home) -> None:
    subprocess.run(["git", "init", "-q", home.site], check=True)
    subprocess.run(["git", "-C", home.site, "remote", "add", "origin", "https://example.org/x.git"], check=True)
    home("init")
    assert load(str(home.file)).store == f"git+origin@{home.site}"


def test_everything_that_is_wrong_is_told_at_once(home: Home) -> None:
    home.file.write_text('[jobs.a]\ncommand = "x"\ntime_out = "1h"\n[jobs.b]\nschedule = "61 * * * *"\n')
    done = home("check")
    assert done.returncode == 78
    assert [line.partition(": ")[0] for line in done.stderr.splitlines()[1:]] == [
        "nightlatch.toml:3", "nightlatch.toml:4", "nightlatch.toml:5",
    ]  # fmt: skip


def facts(done: Done) -> dict[str, dict[str, Any]]:
    return {one["job"]: one for one in map(json.loads, done.stdout.splitlines())}


def test_programs_are_looked_for_as_the_service_will(home: Home) -> None:
    (home.site / "night.sh").write_text("#!/bin/sh\n")
    (home.site / "nightly.py").write_text("def main(): pass\n")
    home.file.write_text(
        "[jobs.gone]\ncommand = ['no-such-program']\n[jobs.there]\ncommand = 'A=b sort -u x | wc'\n"
        "[jobs.file]\ncommand = ['./night.sh']\n[jobs.function]\npython = 'nightly:main'\n"
        "[jobs.module]\npython = 'nowhere.at_all:main'\n[jobs.inside]\nworkspace = 'git'\ncommand = ['./in-the-clone']\n"
        "[jobs.shell]\ncommand = 'for i in 1 2; do x; done'\n[jobs.pathed]\ncommand = ['sort']\nenv.PATH = '/nowhere'\n"
        "[jobs.files]\ncommand = ['sort']\ncwd = 'gone'\nenv_file = 'no.env'\nitems = 'no.jsonl'\n"
    )
    found = {name: "; ".join(one["missing"]) for name, one in facts(home("check", "--json")).items()}
    assert "not found on the PATH" in found.pop("gone") and "not found on the PATH" in found.pop("pathed")
    assert "chmod +x" in found.pop("file") and "nowhere.at_all is not found" in found.pop("module")
    assert found.pop("files") == "cwd: there is no gone; env_file: there is no no.env; items: there is no no.jsonl"
    assert set(found.values()) == {""}
    home.file.write_text("store = 'mysql://h/d'\n")
    assert (home("check").returncode, "does not name a store" in home("check").stderr) == (78, True)


def test_a_job_that_the_crontab_starts_too_is_named(home: Home) -> None:
    (home.home / "crontab").write_text("0 2 * * * flock -n lock ./night.sh\n@reboot ./start.sh\n")
    done = home("init", "--from-crontab")
    assert "with 1 job; 1 line became a comment" in done.stdout
    assert "line 2 did not become a job: @reboot is not a time" in done.stdout
    assert "  0 2 * * * flock -n lock ./night.sh" in done.stdout.splitlines()
    assert facts(home("check", "--json"))["night"]["crontab"] == "0 2 * * * flock -n lock ./night.sh"
    assert "your crontab starts it too" in home("check").stdout
    (home.home / "crontab").unlink()
    assert facts(home("check", "--json"))["night"]["crontab"] is None


def test_a_month_with_sleep_is_played_as_a_table(home: Home) -> None:
    home.file.write_text("[jobs.night]\nschedule = '0 2 * * *'\ncommand = 'x'\n[jobs.hand]\ncommand = 'x'\n")
    done = home("check", "--asleep", "23:00-07:00")
    assert done.stdout.splitlines()[1].split()[:5] == ["night", "30", "0", "30", "0"], done.stderr
    assert "not shown, since nothing is due here: hand" in done.stdout


def test_apply_brings_this_files_job_into_force(home: Home) -> None:
    home.file.write_text("[jobs.night]\nschedule = '@yearly'\ncommand = 'x'\n")
    home("tick")
    assert "every job was already in force as in this file" in home("check", "--apply").stdout
    home.file.write_text("[jobs.night]\nschedule = '@yearly'\ncommand = 'y'\n")
    assert "1 job changed" in home("check", "--apply").stdout
    assert "every job was already in force as in this file" in home("check", "--apply").stdout
    home.env["NIGHTLATCH_RUN"] = "7k3f"
    home.env["NIGHTLATCH_CONFIG"] = str(home.file)
    assert home("check", "--apply").returncode == 77


def test_of_two_machines_the_one_with_the_older_file_starts_nothing_until_a_person_says_so(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "remote.git"], check=True)
    homes = []
    for name in ("air", "mini"):
        (tmp_path / name).mkdir()
        homes.append(Home(tmp_path / name))
    air, mini = homes

    def write(home: Home, command: str) -> None:
        home.file.write_text(
            f'store = "git+file://{tmp_path}/remote.git"\ntimezone = "UTC"\n'
            f'[jobs.night]\nschedule = "@yearly"\ncommand = "{command}"\n'
        )

    old = "the definition here is old; nothing is started for it. git pull, or: nightlatch check --apply"
    write(air, "one")
    write(mini, "one")
    assert (air("tick").returncode, mini("tick").returncode) == (0, 0)
    write(air, "two")
    assert old not in air("tick").stderr, "a definition that nobody has seen comes into force"
    assert old in mini("tick").stderr, "the other machine's was in force before"
    assert "this file's version is in force now" in mini("check", "--apply").stdout
    assert old not in mini("tick").stderr
    assert old in air("tick").stderr
    write(air, "one")
    assert old not in air("tick").stderr, "it has pulled"


def test_a_service_is_installed_and_proves_that_it_serves(home: Home) -> None:
    home("init")
    unit = Systemd(str(home.file))
    try:
        done = home("service", "install")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{unit.name} runs: serving 1 job" in done.stdout
        assert "KillMode=process" in done.stdout and "loginctl enable-linger" in done.stderr
        asked = (home.home / "systemctl.log").read_text().splitlines()
        name = f"{unit.name}.service"
        assert asked == ["--user daemon-reload", f"--user enable {name}", f"--user restart {name}"]
        assert json.loads(home("service", "status", "--json").stdout)["active"] is True
        assert home.env["PATH"] in (home.home / ".config/systemd/user" / name).read_text()
    finally:
        home("service", "uninstall")
    pid = int((home.home / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z")
    assert home("service", "status").returncode == 1
    assert not (home.home / ".config/systemd/user" / name).exists()


def test_a_service_is_removed_although_systemd_cannot_be_reached(home: Home) -> None:
    home("init")
    units = home.home / ".config/systemd/user"
    name = f"{Systemd(str(home.file)).name}.service"
    link = units / "default.target.wants" / name
    link.parent.mkdir(parents=True)
    (units / name).write_text("[Service]\n")
    link.symlink_to(units / name)
    (home.home.parent / "bin" / "systemctl").write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2; exit 1\n")
    refused = said(home("service", "uninstall"), 69)
    assert "will not start again, but it may still run" in refused and "log in as this user" in refused
    assert not (units / name).exists() and not link.is_symlink()
    assert "is not installed" in home("service", "uninstall").stdout


def test_a_service_that_does_not_come_up_shows_the_end_of_its_log(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home("init")
    stub = "import nightlatch.cli.service as s; s._PATIENCE = 1.0; from nightlatch.cli.main import main; main()"
    home.file.write_text('store = "sqlite:///here/is/a/file/nightlatch.db"\n' + home.file.read_text())
    (home.site / "here").write_text("not a folder")
    words = [sys.executable, "-c", stub, "service", "install"]
    done = subprocess.run(words, cwd=home.site, env=home.env, text=True, capture_output=True, timeout=120)
    assert done.returncode == 69 and "its log ends with:" in done.stderr, done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    folder = tmp_path / "a % folder with $pace and 'quote'"
    folder.mkdir()
    unit = Systemd(str(folder / "nightlatch.toml"))
    file = tmp_path / f"{unit.name}.service"
    file.write_bytes(
        unit.text({"PATH": f'{folder}/bin:/usr/bin:/we"ird\\', "NIGHTLATCH_STORE": "postgresql://a:100%@h/d"})
    )
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", file], env=env, text=True, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_agent_is_one_that_launchd_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = Launchd(str(tmp_path / "nightlatch.toml"))
    agent.write({"PATH": "/opt/bin:/usr/bin"})
    found = plistlib.loads(Path(agent.file).read_bytes())
    assert found["AbandonProcessGroup"] is True and found["ProcessType"] != "Background"
    assert found["ProgramArguments"][-3:] == ["serve", "--config", str(tmp_path / "nightlatch.toml")]
    assert agent.path() == "/opt/bin:/usr/bin"
    assert agent.file.endswith(f"LaunchAgents/{found['Label']}.plist")
