"""`nightlatch serve` and `nightlatch tick`: look, start, sleep until the next due time; read nightlatch.toml again
when it changes. Any number of these processes may work on one store."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..core import advice, statuses
from ..core.job import Job
from ..core.row import NEVER
from ..errors import BadConfig, StoreUnreachable
from ..ledger import open_for
from ..runtime.shared.job import definition
from ..store import url
from ..system import clock, identity, storage
from .clocks import Clocks
from .scheduled import Scheduled
from .scheduler import Scheduler
from .served import Served
from .side_process import SideProcess
from .starter import Starter

_RELOAD = 2.0  # seconds between two looks at nightlatch.toml
_RETRY = 5.0  # seconds between two tries while the store cannot be reached


class Server:
    """One machine's scheduler, with its processes. `load` reads nightlatch.toml: a `Config`, or raises BadConfig."""

    def __init__(self, load: Callable[[], Any], store: str | None, say: Callable[[str], None]) -> None:
        self._load, self._say = load, say
        self._by_file = not (store or os.environ.get(url.ENV))  # does nightlatch.toml name the store?
        self.moved = False  # nightlatch.toml names another store now: the caller must serve anew
        self._where = storage.absolute_store(url.resolve(store), os.getcwd())
        self._store = url.connect(self._where)
        self._ledger = open_for(self._where)
        self._config = load()
        self._starter = Starter(self._where, self._store.folder)
        self._scheduler = Scheduler(
            self._store,
            self._ledger,
            host=identity.host(),
            at_once=self._config.at_once,
            clocks=Clocks(),
            new_id=identity.new_id,
            start=self._starter.start,
            say=say,
        )
        self._scheduler.shared = url.ledger_of(self._where) != url.BESIDE  # a file beside the store is one machine's
        self._served = Served(self._store.folder, self._config.path)
        self._scheduler.served = self._served.definitions
        self._scheduler.remember_served = self._remember_served
        self._stop = 0
        self._unreachable = False
        self._apply_config()

    def serve(self, side_processes: Sequence[SideProcess] = ()) -> int:
        """Schedule until a termination signal. Runs go on; only process 1, whose end kills them, ends them first."""
        for process in side_processes:
            process.start_if_wanted()
        wake_fd = self._listen()
        self._starter.preload()
        if not self._served.is_alone():
            self._say("another `nightlatch serve` of this file runs on this machine too: safe, but not needed")
        self._say(self.summary())
        looked_at_file = clock.now()
        ended: list[tuple[str, int]] = []
        while not self._stop:
            if clock.now() - looked_at_file > _RELOAD:
                looked_at_file = clock.now()
                changed = self._reload()
                if self.moved:
                    break
                for process in side_processes:
                    process.restart_if_dead(self._say)
                    if changed:
                        process.start_if_wanted()
            pause = self._look(ended)
            ended = self._wait(pause, wake_fd)
        if os.getpid() == 1 and not self.moved:
            self._starter.signal_all(signal.SIGTERM)
            self._stop = 0  # or `_wait` would not wait
            while self._starter.busy:
                self._wait(1.0, wake_fd)
        self._starter.close()
        for process in side_processes:
            process.close()
        return 0

    def tick(self, *, detach: bool) -> int:
        """Do what is due now, and wait for it unless `detach`. Returns the worst exit code of what was started."""
        wake_fd = self._listen()
        worst = 0
        self._scheduler.look()
        self._remember_served()
        while self._starter.busy and not (detach and not self._starter.has_open_orders):
            ended = self._wait(1.0, wake_fd)
            worst = worst or max([code for _, code in ended], default=0)
            if ended and self._scheduler.short_of_room:
                self._scheduler.start_waiting(())
            if self._stop:
                self._starter.signal_all(self._stop)
                self._stop = 0
        self._starter.close()
        return worst

    def summary(self) -> str:
        """What will be done next, in a sentence."""
        now = clock.wall()  # not the store's clock: the store may be unreachable
        due = sorted((one.next(now), name) for name, one in self._scheduler.jobs.items())
        upcoming = [f"{name} at {_local(at)}" for at, name in due[:3] if at < NEVER]
        jobs = f"{len(due)} job{'' if len(due) == 1 else 's'}"
        return f"serving {jobs} on {self._store.url}; next: {', '.join(upcoming) or 'nothing, no job has a schedule'}"

    # ── nightlatch.toml ──

    def _apply_config(self) -> None:
        self._scheduler.at_once = self._config.at_once
        self._starter.config = self._config
        jobs: dict[str, Job] = self._config.jobs
        removed = self._served.removed(jobs)
        self._scheduler.serve({name: Scheduled(job, definition(job)) for name, job in jobs.items()}, removed)

    def _reload(self) -> bool:
        """Read nightlatch.toml again if it was edited. Returns whether a new version was put into force. That
        happens when two looks in a row have found the same version."""
        if not self._config.changed:
            self._config_error = ""
            return False
        try:
            config = self._load()
        except BadConfig as error:
            if str(error) != self._config_error:
                self._say(
                    f"nightlatch.toml changed and cannot be used, so the previous version stays in force: {error}"
                )
            self._config_error = str(error)
            return False
        self._config_error = ""
        if config.stamps != self._new_stamps:  # an editor may still be writing, and may only have emptied the file
            self._new_stamps = config.stamps
            return False
        before, self._config = self._config, config
        if self._by_file and config.store != before.store:
            # Machines that share the new store would start our jobs' slots too.
            self._say("nightlatch.toml names another store: serving anew. Active runs continue in the previous store")
            self.moved = True
            return False
        self._apply_config()
        self._say(f"read nightlatch.toml again: {self.summary()}")
        return True

    _config_error = ""
    _new_stamps: object = None  # of a version that is put into force if they are the same at the next look

    # ── one round ──

    def _look(self, ended: list[tuple[str, int]]) -> float:
        """Look once; returns the seconds until the next look. `ended`: the runs that have ended since the last one."""
        try:
            jobs = [what.partition(" ")[0] for what, _ in ended]
            pause = self._scheduler.start_waiting(jobs) if jobs else self._scheduler.look()
            self._remember_served()
        except StoreUnreachable as error:
            if not self._unreachable:
                self._say(f"nothing is started while the store cannot be reached, and slots wait: {error}")
            self._unreachable = True
            self._store.close()
            return _RETRY
        if self._unreachable:
            self._say("the store answers again")
        self._unreachable = False
        return pause

    def _remember_served(self) -> None:
        self._served.remember(self._scheduler.jobs)

    def _wait(self, seconds: float, wake_fd: int) -> list[tuple[str, int]]:
        """Wait, in slices, for that long or until a run has ended and makes room. Returns the ended runs."""
        until = clock.now() + seconds
        while not self._stop and (left := until - clock.now()) > 0:
            watched = [fd for fd in (wake_fd, self._starter.fileno()) if fd >= 0]
            ready, _, _ = select.select(watched, [], [], min(left, clock.SLICE))
            if wake_fd in ready:
                os.read(wake_fd, 4096)
            ended = self._starter.ended()
            for what, code in ended:
                self._say(self._sentence(what, code))
            if ended:
                return ended
        return []

    def _sentence(self, what: str, code: int) -> str:
        """What became of a start, from the ledger: the exit code alone does not show that a plan is held."""
        job, _, key = what.partition(" ")
        try:
            run = self._ledger.find(job, key) if key else None
        except StoreUnreachable:
            run = None
        if run is None:
            return f"{what or 'a run'}: ended, exit code {code}"
        if run.held is not None:
            return f"{what}: needs your approval: {advice.command('approve', job)}"
        if run.status == statuses.WAITING and run.due:
            return f"{what}: tries again at {_local(run.due)}"
        return f"{what}: {run.status}" + (f", exit code {code}" if code else "")

    def _listen(self) -> int:
        """Handle termination signals; returns a descriptor that is readable when one has come."""
        wake_fd, end = os.pipe()
        os.set_blocking(end, False)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, self._on_signal)
        return wake_fd

    def _on_signal(self, signum: int, _: object) -> None:
        self._stop = signum


def _local(at: float) -> str:
    return time.strftime("%a %H:%M:%S" if at % 60 else "%a %H:%M", time.localtime(at))
