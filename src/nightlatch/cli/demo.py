"""nightlatch demo"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from typing import Any

from ..core import advice
from ..system import process
from .arguments import Parser

_started: list[subprocess.Popen[Any]] = []

_PURPOSE = """\
Show in a few seconds, with real processes, what a gate does: a worker is frozen just before its write, another
takes over and writes, the first one thaws and writes too. With a lock alone the stale write lands; through a gate
it is refused. Then a lease holder is killed with kill -9, and its orphans are gone before the next one gets the
lease.

It uses a temporary store and leaves nothing behind."""

# What both workers do. They check the lease right before the write, as a careful program does.
_WORKER = """
import sys, nightlatch
from nightlatch import gates
worker, path, how = sys.argv[1:]
gate = gates.File(path)
with nightlatch.lease("nightly-report", ttl="2s", wait="30s", gates=[gate] if how == "gate" else []) as lease:
    lease.check()
    mark = lease.mark
    print(lease.token, flush=True)
    sys.stdin.readline()          # Ann is frozen here, between her check and her write
    text = f"report by {worker}\\n".encode()
    if how == "gate":
        gate.write(mark, text)
    else:
        with open(path, "wb") as file:
            file.write(text)
"""


def _pages(*, browse: bool) -> int:
    """Show a made-up night from a temporary store, until Ctrl-C."""
    from ..web import made_up
    from ..web.server import PagesServer
    from .open import show

    with tempfile.TemporaryDirectory(prefix="nightlatch-demo-") as folder:
        store = f"sqlite:///{folder}/demo.db"
        advice.choose(store)  # commands on these pages are for this store, not for the user's
        print("nightlatch: making up a night …", file=sys.stderr, flush=True)
        made_up.make(store)
        server = PagesServer(store)
        return server.run(
            lambda text: print(f"nightlatch: {text}", file=sys.stderr, flush=True),
            ready=lambda port: show(server.access, port, read_only=False, browse=browse),
        )


def main(argv: list[str]) -> int:
    parser = Parser("demo", _PURPOSE, "  nightlatch demo\n  nightlatch demo --pages")
    parser.add_flag("--pages", "show a made-up night in the browser instead")
    parser.add_flag("--print", "with --pages: print the address instead of opening a browser")
    args = parser.parse_args(argv)
    if args.pages:
        return _pages(browse=not args.print)
    with tempfile.TemporaryDirectory(prefix="nightlatch-demo-") as folder:
        os.environ["NIGHTLATCH_STORE"] = f"sqlite:///{folder}/demo.db"
        try:
            with_lock, with_gate = _freeze_worker(folder, "lock"), _freeze_worker(folder, "gate")
            none_left = _kill_holder(folder)
        finally:
            for worker in _started:  # in separate process groups, which Ctrl-C does not reach
                worker.kill()
                worker.wait()
        as_expected = with_lock["file"] == "Ann" and with_gate["file"] == "Ben" and none_left
        _table(with_lock, with_gate)
    well = "Through the gate no stale write landed, and after kill -9 nothing was left running."
    _say(f"\n{well if as_expected else 'This is NOT how it should be.'}")
    return 0 if as_expected else 1


def _freeze_worker(folder: str, how: str) -> dict[str, str]:
    """Freeze one worker just before its write and let another take over; return the outcome."""
    os.mkdir(os.path.join(folder, how))
    path = os.path.join(folder, how, "report.txt")
    _say("With a lock alone:" if how == "lock" else "\nThrough a gate:")
    ann = _worker("Ann", path, how)
    ann_token = _read_line(ann)
    _say(f"  Ann holds the lease (token {ann_token}), has checked it, and is frozen just before her write")
    ann.send_signal(signal.SIGSTOP)
    ben = _worker("Ben", path, how)
    ben_token = _read_line(ben)
    _let_write(ben)
    _say(f"  her lease runs out; Ben takes over (token {ben_token}) and writes: {_content(path)!r}")
    ann.send_signal(signal.SIGCONT)
    output = _let_write(ann)
    refused = "StaleToken" in output
    if refused:
        reason = output.strip().rpartition("StaleToken: ")[2].replace(f"{folder}/", "")
        _say("  Ann thaws and writes too:")
        _say(textwrap.indent(textwrap.fill(reason, 110), "    "))
    else:
        _say("  Ann thaws and writes too: nobody stops her")
    content = _content(path)
    _say(f"  the file says: {content!r}")
    return {
        "written": "refused" if refused else "LANDED",
        "file": content.split()[-1],
        "tokens": f"{ben_token} > {ann_token}",
    }


def _kill_holder(folder: str) -> bool:
    """Kill a holder with a minute left on its lease. True if the next one gets the lease, and the command is gone."""
    pid = os.path.join(folder, "pid")
    _say("\nAnd kill -9, with 60 seconds left on the lease:")
    ann = _lock("--", "sh", "-c", f'(setsid sleep 3600 &); echo "$$" > {pid}.part; mv {pid}.part {pid}; sleep 3600')
    while not os.path.exists(pid):
        time.sleep(0.01)
    command = int(_content(pid))
    began = process.start_of(command) or 0
    ann.kill()
    ann.wait()
    started = time.monotonic()
    ben = _lock("--wait", "30s", "--", "true")
    code, alive = ben.wait(), process.state_of(command, began) in (process.ALIVE, process.STOPPED)
    _say(f"  the next holder was let in after {time.monotonic() - started:.2f} s, and not before every process")
    _say(f"  that Ann's command had started was {'STILL ALIVE' if alive else 'proven gone'}")
    return code == 0 and not alive


def _table(with_lock: dict[str, str], with_gate: dict[str, str]) -> None:
    rows = [
        ("", "a lock alone", "Nightlatch's gate"),
        ("Ann's stale write", with_lock["written"], with_gate["written"]),
        ("the report is by", f"{with_lock['file']} (stale)", f"{with_gate['file']} (fresh)"),
    ]
    _say("")
    for row in rows:
        _say("  " + "".join(f"{cell:<22}" for cell in row).rstrip())


def _worker(name: str, path: str, how: str) -> subprocess.Popen[str]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return _start([sys.executable, "-c", _WORKER, name, path, how], text=True, **pipes)


def _start(words: list[str], **more: Any) -> subprocess.Popen[Any]:
    """Start it in a separate process group: once a group has lost its shell, stopping one process in it makes the
    kernel send SIGHUP to all of them."""
    _started.append(subprocess.Popen(words, process_group=0, **more))
    return _started[-1]


def _read_line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout
    line = worker.stdout.readline().strip()
    if not line:
        raise RuntimeError(worker.communicate()[1])
    return line


def _let_write(worker: subprocess.Popen[str]) -> str:
    """Let the worker write and end; return its stderr."""
    return worker.communicate("\n")[1]


def _lock(*words: str) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-c", "from nightlatch.cli.main import main; main()", "lock", "nightly"]
    return _start([*program, *words])


def _content(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _say(line: str) -> None:
    print(line, flush=True)
