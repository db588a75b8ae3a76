"""Run a suite without pytest: every test of a class; what failed is yielded."""

from __future__ import annotations

import time
import traceback
import unittest
from collections.abc import Iterator

from ..core.value import value


@value(frozen=True, kw_only=True)
class Failure:
    topic: str  # the class that the test is in
    test: str
    error: BaseException
    seconds: float

    def __str__(self) -> str:
        trace = "".join(traceback.format_exception(self.error))
        return f"{self.topic}.{self.test} failed after {self.seconds:.1f} s:\n{trace}"


def run(suite: type) -> Iterator[Failure]:
    """Run every test of the suite, each on a new instance; yields the failures as they happen.

    A test that does not apply (it raises `unittest.SkipTest`) is not a failure.
    """
    for test in [name for name in dir(suite) if name.startswith("test_")]:
        case = suite()
        started = time.monotonic()
        try:
            getattr(case, "setup_method", _nothing)()
            try:
                getattr(case, test)()
            finally:
                getattr(case, "teardown_method", _nothing)()
        except unittest.SkipTest:
            pass
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  LeaseLost is not an Exception
            yield Failure(topic=_topic(suite, test), test=test, error=error, seconds=time.monotonic() - started)


def _topic(suite: type, test: str) -> str:
    return next(cls.__name__ for cls in suite.__mro__ if test in vars(cls))


def _nothing() -> None:
    pass
