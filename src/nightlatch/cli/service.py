"""nightlatch service"""

from __future__ import annotations

import os
import sys
import time

from ..config import place
from ..config.load import load
from ..config.mistakes import shown
from ..core.printable import printable
from ..errors import BadConfig, ServiceTrouble, UsageError
from ..store import url
from ..system import services
from ..system.services import Service
from .arguments import Parser
from .json_out import print_json

_PURPOSE = """\
Run `nightlatch serve` from login on (from boot on, if lingering is enabled), as a systemd user unit or, on macOS, a
launchd agent. Prints the files it writes.

install    write the service with this shell's PATH and store, start it, and wait until it reports that it is serving;
           otherwise print the end of its log. Repeat this when PATH has changed or Nightlatch has moved
uninstall  stop and remove it; active runs continue
status     is it installed, is it running, and what is the last line of its log?"""

_EXAMPLES = """\
  nightlatch service install
  nightlatch service status
  nightlatch service uninstall"""

_VERBS = ("install", "uninstall", "status")
_KEPT_VARIABLES = ("PATH", url.ENV, "SSH_AUTH_SOCK", "LANG", "TZ")  # variables of this shell that the service gets
_PATIENCE = 30.0  # seconds in which the service must begin to serve
_SERVING = "serving "  # in the first line that `nightlatch serve` prints
_LOG_LINES = 10  # lines of the service's log


def main(argv: list[str]) -> int:
    parser = Parser("service", _PURPOSE, _EXAMPLES)
    parser.add_argument("verb", metavar="VERB", choices=list(_VERBS), help="install, uninstall or status")
    parser.add_flag("--json", "status: print one JSON object")
    args = parser.parse_args(argv)
    if args.verb != "install" and not place.find():
        raise BadConfig("which service? Change to the folder of its nightlatch.toml, or name the file: --config FILE")
    service = services.of(place.require())
    if args.verb == "status":
        return _status(service, args.json)
    if not services.is_there():
        raise UsageError(
            "this machine has no systemd and no launchd: start `nightlatch serve` as your system starts programs"
        )
    return _install(service, args.store) if args.verb == "install" else _uninstall(service)


def _install(service: Service, store: str | None) -> int:
    config = load(service.config)  # raises if the file is invalid: the service could not start
    environment = {name: os.environ[name] for name in _KEPT_VARIABLES if os.environ.get(name)}
    if store:
        environment[url.ENV] = store
    service.write(environment)
    print(f"wrote {shown(service.file)}:")
    for line in service.text(environment).decode().splitlines():
        print(printable(f"  {line}"))
    since = time.time() - 1
    service.start()
    if warning := service.warning():
        print(f"nightlatch: {warning}", file=sys.stderr)
    if services.wait_for_log(service, _SERVING, since, _PATIENCE):
        last = next(line for line in service.log(since, 50) if _SERVING in line)
        print(printable(f"{service.name} runs: {last.removeprefix('nightlatch: ')}"))
        return 0
    print(f"nightlatch: {service.name} does not serve its {len(config.jobs)} jobs; its log ends with:", file=sys.stderr)
    for line in service.log(since, _LOG_LINES) or ["(nothing)"]:
        print(printable(f"  {line}"), file=sys.stderr)
    return 69


def _uninstall(service: Service) -> int:
    if not os.path.exists(service.file):
        print(f"{service.name} is not installed")
        return 0
    try:
        service.stop()
    except ServiceTrouble as trouble:
        service.remove()
        raise ServiceTrouble(
            f"{service.name} is removed and will not start again, but it may still run: end that process. {trouble}"
        ) from None
    service.remove()
    print(f"{service.name} is stopped and removed; active runs continue")
    return 0


def _status(service: Service, as_json: bool) -> int:
    installed = os.path.exists(service.file)
    active = installed and service.is_active()
    log = service.log(time.time() - 86400, _LOG_LINES) if installed else []
    if as_json:
        print_json({"version": 1, "service": service.name, "config": service.config, "file": service.file,
                    "installed": installed, "active": active, "log": log})  # fmt: skip
    else:
        state = "runs" if active else "is installed but does not run" if installed else "is not installed"
        print(f"{service.name} {state}" + ("" if installed else ": nightlatch service install"))
        for line in log:
            print(printable(f"  {line}"))
    if installed and (warning := service.warning()):
        print(f"nightlatch: {warning}", file=sys.stderr)
    return 0 if active else 1
