"""RunningProgram a foreign program to its end."""

from __future__ import annotations

import os

from nightlatch.system import program


def test_what_a_program_says_just_before_its_end_is_heard(monkeypatch):
    """Between a look at its pipes that found nothing and the look whether it has ended, it may say all it has to."""
    ended = program.RunningProgram._ended

    def when_it_has_ended(self: program.RunningProgram) -> bool:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        return ended(self)

    monkeypatch.setattr(program.RunningProgram, "_ended", when_it_has_ended)
    said = program.run(["sh", "-c", "printf a; sleep 0.2; printf b; printf c >&2"], env={}, timeout=10)
    assert said == (0, b"ab", b"c")


def test_a_program_can_run_beside_something_else():
    beside = program.start(["cat"], env={}, stdin=b"x" * 200_000)
    assert program.run(["true"], env={}, timeout=10)[0] == 0
    assert beside.finish(10) == (0, b"x" * 200_000, b"")
