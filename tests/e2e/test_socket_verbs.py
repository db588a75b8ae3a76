"""A verb of the socket is one method: it is reached, and it is listed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from nightlatch.runtime.supervisor.dry_run import _DryRun
from nightlatch.runtime.supervisor.socket import verbs
from nightlatch.runtime.supervisor.socket.listener import Listener
from nightlatch.runtime.supervisor.socket.step_verbs import StepVerbs
from tests.support.programs import python

SUPERVISOR = """
import sys
from nightlatch.cli.main import main
from nightlatch.runtime.supervisor.socket.listener import Listener

Listener.do_wave_back = lambda self, request: {"waved": request["to"]}
main(sys.argv[1:])
"""

COMMAND = """
import json, os, socket
with socket.socket(socket.AF_UNIX) as line:
    line.connect(os.environ["NIGHTLATCH_SOCKET"])
    for request in ({"do": "wave-back", "to": "shore"}, {"do": "wave_back"}, {"do": "close"}, {"do": ["wave-back"]}):
        line.sendall(json.dumps({"grant": os.environ["NIGHTLATCH_GRANT"], **request}).encode() + b"\\n")
        print(line.makefile().readline(), end="")
"""


def test_one_that_is_made_up_is_reached_by_its_method_and_named_to_whoever_mistypes_it(sqlite_url: str) -> None:
    words = ("run", "job", "--timeout", "1m", "--", sys.executable, "-c", COMMAND)
    with python(sqlite_url, SUPERVISOR, *words, stderr=subprocess.DEVNULL) as running:
        waved, *refused = map(json.loads, running.communicate(timeout=60)[0].splitlines())
    assert waved == {"ok": True, "waved": "shore"}
    mistyped, close, listed = (answer["error"] for answer in refused)
    assert "'wave_back'; use one of" in mistyped and ", wave-back" in mistyped and "progress" in mistyped
    assert "give the `run`" in close
    assert listed == mistyped.replace("'wave_back'", "['wave-back']")


def test_the_documentation_has_each_of_them() -> None:
    page = (Path(__file__).parents[2] / "docs" / "socket.md").read_text()
    for verb in _names(Listener, StepVerbs):
        assert f'"do": "{verb}"' in page, verb


def test_a_dry_run_answers_what_a_run_does() -> None:
    later = {"effect-probed", "effect-ended", "moved"}  # said of what a dry-run does not begin
    assert _names(_DryRun) == _names(Listener, StepVerbs) - later


def _names(*handlers: type) -> set[str]:
    return set(verbs.names(*map(object.__new__, handlers)))
