"""The README's story of the two laptops, typed as it is written there: from the wheel, an empty HOME for each, and one
bare remote between them."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from tests.support.pasting.pages import ROOT, blocks, of_cron
from tests.support.programs import until


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs: only what the wheel brings. Its dependencies are those that are here already."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    subprocess.run(["git", "clone", "-q", ROOT, source], check=True)  # without caches; what is not committed comes too
    changed = subprocess.run(
        ["git", "ls-files", "-mo", "--exclude-standard", "src"], cwd=ROOT, text=True, capture_output=True
    )
    for name in changed.stdout.split():
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "wheel", *quiet, "-w", folder, source], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    subprocess.run([*pip, "--python", folder / "env/bin/python", "install", *quiet, wheel], check=True)
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "env" / "bin"


class Laptop:
    def __init__(self, folder: Path, remote: Path, programs: Path) -> None:
        self.home = folder
        folder.mkdir()
        self.environment = {"HOME": str(folder), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "TZ": "UTC"}
        (folder / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")
        self.type(f"git clone -q {remote} ~/blog")

    def type(self, line: str, **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.home,
            env=self.environment | more,
            text=True,
            capture_output=True,
            timeout=120,
        )
        assert "fault of Nightlatch" not in done.stderr, done.stderr
        return done


@pytest.fixture
def laptops(tmp_path: Path, installed: Path) -> tuple[Laptop, Laptop, Path]:
    remote = tmp_path / "blog.git"
    script = 'mkdir -p posts; echo "by $HOME" > "posts/$NIGHTLATCH_KEY.md"; if [ -n "$SLEEPS" ]; then touch "$SLEEPS"; sleep 300; fi'
    subprocess.run(
        ["bash", "-c", f"""
        git init -q -b main seed && cd seed
        printf '#!/bin/sh\\n%s\\n' {shlex.quote(script)} > write.sh && chmod +x write.sh && git add write.sh
        git -c user.name=Ann -c user.email=ann@example.org commit -qm start && git clone -q --bare . {remote}"""],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    return Laptop(tmp_path / "air", remote, installed), Laptop(tmp_path / "mini", remote, installed), remote


def _line() -> str:
    """The crontab's line of the story, as cron runs it."""
    (line,) = [line for block in blocks(ROOT / "README.md") for line in block.commands if "~/blog" in line]
    return of_cron(line)


def _articles(remote: Path) -> list[str]:
    found = subprocess.run(
        ["git", "log", "--format=%s%n%b", "main"], cwd=remote, text=True, capture_output=True, check=True
    )
    return re.findall(r"Nightlatch-Run: (\w+)", found.stdout)


def test_the_first_does_the_nights_work_the_other_finds_it_done_and_both_say_so(laptops):
    air, mini, remote = laptops
    first = air.type(_line())
    assert (first.returncode, first.stdout, first.stderr) == (0, "", ""), "cron would mail nothing"
    assert len(_articles(remote)) == 1
    for laptop in (mini, air):  # and every later firing
        later = laptop.type(_line())
        assert (later.returncode, later.stdout, later.stderr) == (0, "", "")
    assert len(_articles(remote)) == 1
    morning = air.type("cd ~/blog && nightlatch --store git+origin")
    assert morning.returncode == 0 and "articles" in morning.stdout, morning
    other = mini.type("cd ~/blog && nightlatch --store git+origin").stdout
    assert re.search(r"on other machines\n  articles  ended ", other), other
    assert "on other machines" not in morning.stdout, "what it did itself is not shown twice"


def test_one_that_slept_in_the_middle_is_refused_when_it_wakes(laptops, tmp_path):
    """`--ttl 4s` instead of the ten minutes of a git store, so that nobody waits for twelve and a half."""
    air, mini, remote = laptops
    short = _line().replace("nightlatch run articles", "nightlatch run articles --ttl 4s")
    asleep = tmp_path / "asleep"
    sleeper = subprocess.Popen(
        ["bash", "-c", short], cwd=air.home, env=air.environment | {"SLEEPS": str(asleep)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0,
    )  # fmt: skip
    until(asleep.exists)
    pids = [int(pid) for pid in _tree(sleeper.pid)]
    for pid in pids:  # the lid is closed
        _signal(pid, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 90
        while not _articles(remote):  # the other one fires again and again
            fired = mini.type(short)
            assert fired.returncode in (0, 75), fired
            assert time.monotonic() < deadline, fired
        assert len(_articles(remote)) == 1
    finally:
        for pid in reversed(pids):  # and opened
            _signal(pid, signal.SIGCONT)
    said, _ = sleeper.communicate(timeout=60)
    assert sleeper.returncode not in (0, None), said
    assert len(_articles(remote)) == 1, "nothing of it lands"
    content = subprocess.run(
        ["git", "grep", "-h", "by ", "main", "--", "posts"], cwd=remote, text=True, capture_output=True
    )
    assert str(mini.home) in content.stdout and str(air.home) not in content.stdout


def _signal(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass  # a git of it, which has ended meanwhile


def _tree(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found
