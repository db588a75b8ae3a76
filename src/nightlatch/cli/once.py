"""nightlatch once"""

from __future__ import annotations

import sys

from ..core import duration, effects
from ..core.printable import printable
from ..errors import Busy, InDoubt, UsageError
from ..system import printing
from .arguments import Namespace, Parser, split_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..runtime.supervisor.effects.once import EffectOutcome

_PURPOSE = """\
Do something to the outside world once: post, pay, send, deploy.

Records the intent, runs the command, and records the outcome. If the key is already done, on any machine that
shares the store, the command is not run; its recorded output (the first 4096 bytes, secrets removed) is printed
again.

Exit code 0 of the command means done. A code listed in --not-done proves that nothing was done: it may be tried
again. Anything else (another code, a timeout, a kill, a crash of the machine) leaves it in doubt: the command may
have acted, so it is not repeated automatically. Then a probe decides, or you do: `nightlatch resolve KEY done`,
or failed (it was not done), or again.

--probe CMD checks: exit code 0 means done, 1 not done, anything else unknown. "Done" is believed at once. "Not
done" is believed only after --timeout (plus up to 10s for the command to end) and --settle: until then a request
may still be in a server's queue although its client is gone. So choose a --timeout that fits the work, and a --wait
longer than --timeout and --settle together: then `once` does not end in doubt, but waits until the probe can decide,
and says so; Ctrl-C ends the wait at once (exit 76). After a crash, --settle starts when the old command
is found to be gone.

The command gets NIGHTLATCH_KEY, and NIGHTLATCH_IDEMPOTENCY_KEY to pass to an API that accepts one; it is the same
at every try."""

_EXAMPLES = """\
  nightlatch once invoice/2026-117 -- ./send-invoice 2026-117
  nightlatch once post/42 --not-done 6,7 --timeout 30s --wait 2m --probe './is-posted 42' -- \\
    curl -fsS -d @42.json https://example.org/posts
  nightlatch once charge/9 -- sh -c './charge --idempotency-key "$NIGHTLATCH_IDEMPOTENCY_KEY"'
  nightlatch once deploy/v3 --input @build.sha256 --timeout 5m -- ./deploy v3
  nightlatch resolve invoice/2026-118 done                   # it was in doubt: say that it was done"""


def main(argv: list[str]) -> int:
    ours, command = split_command(argv)
    parser = Parser("once", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch once KEY [options] -- CMD …"
    parser.add_argument("key", metavar="KEY", help="names the work, not the time or the attempt")
    parser.add_argument(
        "--scope",
        metavar="NAME",
        default=effects.STORE_WIDE,
        help="where the key is unique (default: in the whole store)",
    )
    parser.add_argument("--probe", metavar="CMD", help="checks whether it was done; split into words, no shell")
    parser.add_argument("--not-done", metavar="CODES", default="", help="exit codes that prove that nothing was done")
    parser.add_argument(
        "--input",
        metavar="TEXT|@FILE",
        empty=True,
        help="recorded with the key; the same key with another input is refused (65)",
    )
    parser.add_argument(
        "--timeout", metavar="TIME", default="10m", help="end it after this long; it is then in doubt (default 10m)"
    )
    parser.add_argument(
        "--settle",
        metavar="TIME",
        default="10s",
        help="how long after the command's timeout a server may still act (default 10s)",
    )
    parser.add_argument(
        "--wait",
        metavar="TIME",
        default="0s",
        help="how long to wait while another process does it, or for the probe (default 0s)",
    )
    parser.add_flag("--json", "print the outcome as JSON; CMD's output goes to stderr")
    args = parser.parse_args(ours)
    if not command:
        raise UsageError("no command given: nightlatch once KEY -- CMD …")
    if args.json:
        return _print_json_outcome(args, command)
    return _print_outcome(_do(args, command))


def _do(args: Namespace, command: list[str]) -> EffectOutcome:
    from ..runtime.shared import client
    from ..runtime.supervisor.effects.once import OnceRequest, once

    if args.timeout.strip() in ("0", "0s", "none"):
        raise UsageError(f"--timeout {args.timeout}: write how long the command may take, as in 30s or 10m")
    timeout = duration.parse(args.timeout, what="--timeout")
    request = OnceRequest(
        key=args.key,
        command=command,
        scope=args.scope,
        probe=_probe_words(args.probe) if args.probe is not None else (),
        not_done=effects.codes(args.not_done),
        input=_fingerprint(args.input) if args.input is not None else "",
        timeout=timeout,
        settling=duration.parse(args.settle, what="--settle"),
        wait=duration.parse(args.wait, what="--wait"),
    )
    client.check_may_act()
    return once(request, store=args.store, screen=2 if args.json else 1)


def _probe_words(line: str) -> tuple[str, ...]:
    import shlex

    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"--probe {line!r}: {error}") from None
    if not words:
        raise UsageError("--probe is empty: name a command")
    import shutil

    if not shutil.which(words[0]):  # fail now, not when the probe is needed
        raise UsageError(f"--probe {line!r}: there is no command {words[0]}, or it is not executable (chmod +x)")
    return words


def _fingerprint(text: str) -> str:
    from ..core.keys import key

    if not text.startswith("@"):
        return key("input", text.encode(errors="surrogateescape"))
    try:
        with open(text[1:], "rb") as file:
            return key("input", file.read())
    except OSError as error:
        raise UsageError(f"--input {text}: {error.strerror}") from error


def _print_outcome(outcome: EffectOutcome) -> int:
    if outcome.status == "skipped":
        printing.verbatim(outcome.result)
        print(printable(outcome.message), file=sys.stderr)
    elif outcome.message:
        print(f"nightlatch: {outcome.message}", file=sys.stderr)
    return outcome.exit_code


def _print_json_outcome(args: Namespace, command: list[str]) -> int:
    """Print one object, even if the effect is in doubt or another process is doing it: a program reads this."""
    from .json_out import print_json

    facts: dict[str, object] = {"version": 1, "key": args.key, "scope": args.scope}
    try:
        outcome = _do(args, command)
    except (InDoubt, Busy) as error:
        status = "in-doubt" if isinstance(error, InDoubt) else "busy"
        print_json(facts | {"status": status, "exit_code": error.exit_code, "reason": str(error), "result": ""})
        return error.exit_code
    attempt = outcome.effect.attempt if outcome.effect else None
    reason = outcome.message if outcome.status != "skipped" else ""
    print_json(
        facts
        | {
            "status": outcome.status,
            "exit_code": outcome.exit_code,
            "reason": reason,
            "result": outcome.result,
            "attempt": attempt,
        }
    )
    return outcome.exit_code
