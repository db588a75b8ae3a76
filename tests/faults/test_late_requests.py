"""A client is gone, and its request is still in the server's queue: what a probe does not see may still happen."""

from __future__ import annotations

import os
import signal
import time

from tests.support.programs import alive, children, nightlatch, python, start, state, until
from tests.support.servers.counting import CLIENT


def test_a_client_that_was_ended_and_its_request_served_later(sqlite_url, server):
    bounds = ("--timeout", "1m", "--settle", "0s", "--wait", "3m")
    probe = ("--probe", " ".join([*CLIENT, "probe", server.port, "k"]))
    words = ("once", "k", *bounds, *probe, "--", *CLIENT, "post", server.port, "k")
    server.served.clear()
    first = start(sqlite_url, *words)
    until(lambda: server.queued)
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 76
    second = start(sqlite_url, *words)
    until(lambda: server.looked > 1)
    server.served.set()
    assert second.wait(60) == 0
    assert nightlatch(sqlite_url, *words).returncode == 0
    assert (server.queued, server.effects) == (1, {"k": 1})


POSTING = """
import os, subprocess, nightlatch

def ask(word, timeout=60):
    return subprocess.run([*os.environ["CLIENT"].split(), word, os.environ["PORT"], "k"], timeout=timeout).returncode

@nightlatch.job(key="k")
def posting():
    run = nightlatch.current()
    run.effect("post", do=lambda: ask("post", 4), probe=lambda: not ask("probe"), retry=3, deadline="1m", settle="0s")
"""


def test_an_effect_that_did_not_wait_for_its_reply_and_its_request_served_later(sqlite_url, tmp_path, server):
    (tmp_path / "nightly.py").write_text(POSTING)
    env = {"CLIENT": " ".join(CLIENT), "PORT": server.port, "PYTHONPATH": str(tmp_path)}
    server.served.clear()
    run = python(sqlite_url, "import nightly; print(nightly.posting.run().status)", cwd=tmp_path, env=env)
    until(lambda: server.looked > 1)
    server.served.set()
    said = run.communicate(timeout=60)
    assert said[0].split()[-1:] == ["succeeded"], said
    assert (server.queued, server.effects) == (1, {"k": 1})


def test_a_client_that_outlived_its_supervisor_and_its_deadline_and_its_request_served_later(sqlite_url, server):
    bounds = ("--timeout", "2s", "--settle", "2s")
    probe = ("--probe", " ".join([*CLIENT, "probe", server.port, "k"]))
    words = ("once", "k", *bounds, *probe, "--", *CLIENT, "post", server.port, "k")
    server.served.clear()
    first = start(sqlite_url, *words)
    until(lambda: server.queued)
    (warden,) = children(first.pid)
    (client,) = children(warden)
    first.send_signal(signal.SIGSTOP)
    os.kill(warden, signal.SIGKILL)
    first.kill()
    first.wait()
    time.sleep(2 + 2 + 2 + 0.3)  # its deadline, twice its timeout, and the time to settle after that
    assert alive(client)
    second = start(sqlite_url, *words)
    until(lambda: server.looked)
    assert not alive(client)
    server.served.set()
    said = second.communicate(timeout=60)
    assert second.returncode == 0, said
    assert (server.queued, server.effects) == (1, {"k": 1})


HANGING = """
import os, time, nightlatch

def hang():
    with open("pid", "w") as file:
        file.write(f"{os.getpid()}.")
    time.sleep(600)

@nightlatch.job(key="k")
def hanging():
    nightlatch.current().effect("hang", do=hang, probe=lambda: None, deadline="5s", settle="0s")
"""


def test_an_effect_is_ended_in_its_time_although_its_supervisor_is_stopped(sqlite_url, tmp_path):
    (tmp_path / "nightly.py").write_text(HANGING)
    env = {"PYTHONPATH": str(tmp_path)}
    run = python(sqlite_url, "import nightly; print(nightly.hanging.run().status)", cwd=tmp_path, env=env)
    place = tmp_path / "pid"
    until(lambda: place.exists() and place.read_text().endswith("."))
    child = int(place.read_text()[:-1])
    (supervisor,) = (pid for pid in children(run.pid) if any(child in children(warden) for warden in children(pid)))
    os.kill(supervisor, signal.SIGSTOP)
    until(lambda: state(supervisor) == "T")
    until(lambda: not alive(child))
    os.kill(supervisor, signal.SIGCONT)
    said = run.communicate(timeout=60)
    assert said[0].split()[-1:] == ["stalled"], said
