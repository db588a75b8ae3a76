"""Usage that the store could not take: kept in a file of the run, and written when the store is back.

What was used is used, whether the store answers or not, and caps count it at once. It is acknowledged when it is on
this machine's disk. A supervisor that dies before the store is back leaves the file to the next attempt.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from _thread import allocate_lock, start_new_thread

from ....core.units import UNITS
from ....errors import Error, Stop, StoreUnreachable, UsageError
from ....system import clock, durable, identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Verb, Writer

_NAME = "unwritten"


class Unwritten:
    """One thread keeps usage here, another writes it to the store."""

    def __init__(self, writer: Writer, folder: str, amounts: dict[str, float]) -> None:
        """`amounts`: the sums of what waits here, changed in place."""
        self._writer, self._path, self._amounts = writer, os.path.join(folder, _NAME), amounts
        self._mutex, self._turn = allocate_lock(), allocate_lock()  # for the fields below; for `write`
        # (line of the file, its amounts, the verb to write)
        self._waiting: list[tuple[str, dict[str, float], Verb]] = []
        self._working = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def keep(self, amounts: dict[str, float], tried: Verb | None) -> None:
        """Put usage on the disk. `tried`: the verb for it that may have landed although its reply was lost."""
        import json

        about = tried.about if tried else {}
        verb = self._writer.used(amounts, about, id=identity.new_id())
        verb.heads = tried.heads if tried else verb.heads
        line = json.dumps({"id": verb.facts["id"], "heads": sorted(verb.heads), "amounts": amounts, "about": about})
        with self._mutex:
            self._append(line)
            self._waiting.append((line, amounts, verb))
            for unit, amount in amounts.items():
                self._amounts[unit] = self._amounts.get(unit, 0.0) + amount
            if not self._working:
                self._working = True
                start_new_thread(self._work, ())

    def write(self) -> None:
        """Write all that waits to the store; raises the error if the store does not take it."""
        with self._turn:
            while self._waiting:
                _, amounts, verb = self._waiting[0]
                self._writer.take(verb)  # without the mutex: it may take long, and more may have to be kept meanwhile
                with self._mutex:
                    del self._waiting[0]
                    for unit, amount in amounts.items():
                        self._amounts[unit] -= amount
                    rest = "".join(f"{line}\n" for line, *_ in self._waiting)
                    durable.replace(self._path, rest.encode()) if rest else os.unlink(self._path)

    def _append(self, line: str) -> None:
        is_new = not os.path.exists(self._path)
        folder = durable.private_folder(os.path.dirname(self._path))
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size, view = os.fstat(fd).st_size, memoryview(line.encode() + b"\n")
            try:
                while view:
                    view = view[os.write(fd, view) :]
                durable.fsync(fd)
            except OSError:
                os.ftruncate(fd, size)  # half a line, not acknowledged, would spoil the next one
                raise
        finally:
            os.close(fd)
        if is_new:
            for made in (folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
                durable.fsync_folder(made)

    def _work(self) -> None:
        while True:
            clock.sleep(clock.SLICE)
            given_up = False
            try:
                self.write()
            except StoreUnreachable:
                continue
            except (Error, Stop, OSError):
                given_up = True  # another holder has the run: the file stays for it
            with self._mutex:
                if given_up or not self._waiting:
                    self._working = False
                    return


def recover(folder: str, ledger: Ledger, writer: Writer) -> None:
    """Write what earlier attempts of the run have kept, unless it landed after all. A damaged file does not stop the
    run: its intact lines count, and the rest is reported."""
    path = os.path.join(folder, _NAME)
    try:
        lines = _lines(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        _complain(f"{path} cannot be read ({error.strerror}): what earlier attempts have used may be missing")
        return
    landed = set()
    for entry in ledger.journal.of_run(writer.run.id):
        landed |= {entry.hash, entry.facts.get("id", "")}
    for line in lines:
        try:
            verb, ids = _verb(writer, line)
        except (ValueError, LookupError, TypeError, AttributeError, UsageError):
            _complain(f"{path} holds a line that is not usage: {line[:200]}")  # torn, so it was not acknowledged
            continue
        if not ids & landed:
            writer.take(verb)
    os.unlink(path)


def _lines(path: str) -> list[str]:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, encoding="utf-8", errors="replace") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", path)
        return file.read().splitlines()


def _verb(writer: Writer, line: str) -> tuple[Verb, set[str]]:
    """The verb of a line, and the ids and hashes that show whether it has landed."""
    import json

    found = json.loads(line)
    amounts = {unit: float(found["amounts"].get(unit, 0)) for unit in UNITS}
    about = {name: str(text) for name, text in found["about"].items()}
    used = {unit: amount for unit, amount in amounts.items() if amount}
    return writer.used(used, about, id=str(found["id"])), {str(found["id"]), *found["heads"]}


def _complain(what: str) -> None:
    print(f"nightlatch: {what}", file=sys.stderr)
