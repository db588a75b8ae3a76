"""Whoever has the lock can be found, so that nobody waits for ever for a process that is stopped."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from nightlatch.system.filelock import FairLock
from nightlatch.system.process import start_of
from tests.programs import until


def test_the_holder_of_the_lock_is_named_and_nobody_when_it_is_free(tmp_path: Path) -> None:
    path = f"{tmp_path}/lock"
    first, second = FairLock(path), FairLock(path)
    me = (os.getpid(), start_of(os.getpid()))
    assert first.acquire(1)
    assert first.holder() == second.holder() == me
    waiting = threading.Thread(target=second.acquire, args=(30,))
    waiting.start()
    first.release()
    waiting.join()
    assert first.holder() == me
    second.release()
    assert first.holder() is None


def test_one_that_gave_up_waiting_leaves_the_lock_to_others_and_no_name_in_it(tmp_path: Path) -> None:
    path = f"{tmp_path}/lock"
    first, impatient, third = FairLock(path), FairLock(path), FairLock(path)
    assert first.acquire(1)
    assert not impatient.acquire(0.01)
    first.release()
    assert third.acquire(10)
    third.release()
    until(lambda: third.holder() is None)
