"""`nightlatch serve` as a service of this user: a systemd user unit, or a launchd agent on macOS.

Stopping the service must not end its process group: runs go on while the daemon is restarted or upgraded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence

from ..errors import ServiceTrouble
from . import identity, program
from .durable import replace
from .storage import state_folder, user_folder

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9]+")
_TIMEOUT = 60.0
_NO_SESSION = (
    "systemd has no session of this user: log in as this user, not by su or sudo; or let cron start it: "
    "@reboot cd FOLDER && nightlatch serve, where FOLDER has nightlatch.toml"
)


class Service:
    """The service for one nightlatch.toml; each file has its own service."""

    def __init__(self, config: str) -> None:
        folder = os.path.dirname(config)
        site = _NOT_IN_A_NAME.sub("-", os.path.basename(folder)).strip("-").lower() or "root"
        self.name = f"nightlatch-{site}-{hashlib.sha256(config.encode()).hexdigest()[:6]}"
        self.config, self.folder = config, folder
        self.words = [sys.executable, "-P", "-m", "nightlatch", "serve", "--config", config]

    @property
    def file(self) -> str:
        raise NotImplementedError

    def text(self, environment: dict[str, str]) -> bytes:
        """The content of `file`, for the service manager."""
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def is_active(self) -> bool:
        raise NotImplementedError

    def log(self, since: float, lines: int) -> list[str]:
        """The last `lines` lines that it has logged since the time `since`."""
        raise NotImplementedError

    def warning(self) -> str:
        """Why it may not be running when it should, and what to do; "" if there is no such reason."""
        return ""

    def path(self) -> str:
        """The PATH that the installed service has; "" if it is not installed."""
        raise NotImplementedError

    def remove(self) -> None:
        """Remove its files, so that it is not started again."""
        os.remove(self.file)

    def write(self, environment: dict[str, str]) -> None:
        os.makedirs(os.path.dirname(self.file), exist_ok=True)
        replace(self.file, self.text(environment), mode=0o600)  # the store's URL may have a password


class Systemd(Service):
    @property
    def file(self) -> str:
        return os.path.join(user_folder("XDG_CONFIG_HOME", "~/.config"), "systemd", "user", f"{self.name}.service")

    def text(self, environment: dict[str, str]) -> bytes:
        variables = "".join(f"Environment={_quoted(f'{name}={text}')}\n" for name, text in environment.items())
        return (
            f"[Unit]\n"
            f"Description=Nightlatch: the jobs of {_escape_specifiers(self.config)}\n"
            f"\n"
            f"[Service]\n"
            f"ExecStart={' '.join(_quoted(word).replace('$', '$$') for word in self.words)}\n"
            f"WorkingDirectory={_escape_specifiers(self.folder)}\n"
            f"{variables}"
            f"# Runs have sessions of their own and go on when the daemon is stopped.\n"
            f"KillMode=process\n"
            f"Restart=always\n"
            f"RestartSec=5\n"
            f"\n"
            f"[Install]\n"
            f"WantedBy=default.target\n"
        ).encode()

    def start(self) -> None:
        _run_checked(["systemctl", "--user", "daemon-reload"])
        _run_checked(["systemctl", "--user", "enable", f"{self.name}.service"])
        _run_checked(["systemctl", "--user", "restart", f"{self.name}.service"])

    def stop(self) -> None:
        _run_checked(["systemctl", "--user", "disable", "--now", f"{self.name}.service"])

    def remove(self) -> None:
        super().remove()
        with contextlib.suppress(FileNotFoundError):  # `disable` has removed it, if systemd could be reached
            os.remove(os.path.join(os.path.dirname(self.file), "default.target.wants", f"{self.name}.service"))

    def is_active(self) -> bool:
        return _run(["systemctl", "--user", "is-active", "--quiet", f"{self.name}.service"])[0] == 0

    def log(self, since: float, lines: int) -> list[str]:
        unit = f"{self.name}.service"
        words = ["journalctl", "--user", "-u", unit, "--since", f"@{since:.0f}", "-n", str(lines), "-o", "cat"]
        return _run(words)[1].splitlines()[-lines:]

    def warning(self) -> str:
        user = identity.user()
        code, out = _run(["loginctl", "show-user", user, "--property=Linger"])
        if code or "=yes" in out:
            return ""
        return f"it runs only while you are logged in; to run it from boot on: loginctl enable-linger {user}"

    def path(self) -> str:
        try:
            with open(self.file, encoding="utf-8") as file:
                found = re.search(r'^Environment="PATH=(.*)"$', file.read(), re.M)
        except OSError:
            return ""
        return found[1].replace("%%", "%").replace('\\"', '"').replace("\\\\", "\\") if found else ""


class Launchd(Service):
    @property
    def label(self) -> str:
        return f"dev.nightlatch.{self.name.removeprefix('nightlatch-')}"

    @property
    def file(self) -> str:
        return os.path.expanduser(f"~/Library/LaunchAgents/{self.label}.plist")

    @property
    def log_file(self) -> str:
        return os.path.join(state_folder(), f"{self.name}.log")

    def text(self, environment: dict[str, str]) -> bytes:
        import plistlib

        facts = {
            "Label": self.label,
            "ProgramArguments": self.words,
            "WorkingDirectory": self.folder,
            "EnvironmentVariables": environment,
            "RunAtLoad": True,
            "KeepAlive": True,
            "AbandonProcessGroup": True,  # runs go on when the daemon is stopped
            "ProcessType": "Standard",  # macOS slows down Background processes
            "StandardOutPath": self.log_file,
            "StandardErrorPath": self.log_file,
        }
        return plistlib.dumps(facts)

    def start(self) -> None:
        os.makedirs(os.path.dirname(self.log_file), exist_ok=True)
        _run(["launchctl", "bootout", f"{self._domain}/{self.label}"])  # an earlier installation
        _run_checked(["launchctl", "bootstrap", self._domain, self.file])

    def stop(self) -> None:
        _run_checked(["launchctl", "bootout", f"{self._domain}/{self.label}"])

    def is_active(self) -> bool:
        code, out = _run(["launchctl", "print", f"{self._domain}/{self.label}"])
        return code == 0 and "state = running" in out

    def log(self, since: float, lines: int) -> list[str]:
        try:
            if os.stat(self.log_file).st_mtime < since:
                return []
            with open(self.log_file, encoding="utf-8", errors="replace") as file:
                return file.read().splitlines()[-lines:]
        except OSError:
            return []

    def path(self) -> str:
        import plistlib

        try:
            with open(self.file, "rb") as file:
                return str(plistlib.load(file).get("EnvironmentVariables", {}).get("PATH", ""))
        except (OSError, plistlib.InvalidFileException):
            return ""

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"


def of(config: str) -> Service:
    """The service for a nightlatch.toml, whether it is installed or not."""
    return Launchd(config) if sys.platform == "darwin" else Systemd(config)


def is_there() -> bool:
    """Does this machine have a service manager that we know?"""
    return shutil.which("launchctl" if sys.platform == "darwin" else "systemctl") is not None


def wait_for_log(service: Service, text: str, since: float, timeout: float) -> bool:
    """Wait until a line of the service's log contains `text`; False if none does before the timeout."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        if any(text in line for line in service.log(since, 50)):
            return True
        time.sleep(0.2)
    return False


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{_escape_specifiers(escaped)}"'


def _escape_specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _run(words: Sequence[str]) -> tuple[int, str]:
    try:
        code, out, err = program.run(words, env=os.environ, timeout=_TIMEOUT)
    except (OSError, program.Unfinished) as error:
        return 127, str(error)
    return code, (out + err).decode(errors="replace").strip()


def _run_checked(words: Sequence[str]) -> None:
    code, output = _run(words)
    if code:
        hint = f". {_NO_SESSION}" if "connect to bus" in output else ""
        raise ServiceTrouble(f"`{' '.join(words)}` failed: {output or f'exit code {code}'}{hint}")
