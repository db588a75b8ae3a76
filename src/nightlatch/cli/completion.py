"""nightlatch completion"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.printable import printable
from ..errors import Error
from ..observe import stages
from .arguments import Argument, Parser, parser_of
from .main import COMMANDS
from .reading import open_reader

Candidate = tuple[str, str]  # (word, its description)

_PURPOSE = """\
Print a script that completes commands, options and their values, jobs, runs and leases in your shell. It asks
`nightlatch` each time, so it is always up to date.

bash    in ~/.bashrc:                    eval "$(nightlatch completion bash)"
zsh     in ~/.zshrc, after compinit:     eval "$(nightlatch completion zsh)"
fish    in ~/.config/fish/config.fish:   nightlatch completion fish | source"""

_EXAMPLES = """\
  eval "$(nightlatch completion bash)"
  nightlatch completion fish > nightlatch.fish"""

SCRIPTS = {
    "bash": """\
_nightlatch() {
    local IFS=$'\\n'
    COMPREPLY=($(nightlatch completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
}
complete -o default -F _nightlatch nightlatch
""",
    "zsh": """\
_nightlatch() {
    local -a found
    local word what
    while IFS=$'\\t' read -r word what; do
        found+=("${word//:/\\\\:}:$what")
    done < <(nightlatch completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#found )); then _describe -V nightlatch found; else _files; fi
}
compdef _nightlatch nightlatch
""",
    "fish": """\
function __nightlatch_words
    set -l words (commandline -opc) (commandline -ct)
    nightlatch completion words -- $words[2..-1] 2>/dev/null
end
complete -c nightlatch -k -a '(__nightlatch_words)'
""",
}

_RUNS_OFFERED = 20  # the newest runs that are offered


def main(argv: list[str]) -> int:
    parser = Parser("completion", _PURPOSE, _EXAMPLES)
    shells = tuple(SCRIPTS) if argv[:1] != ["words"] else ("words",)  # `words` is hidden: only the scripts call it
    parser.add_argument("shell", metavar="SHELL", choices=shells, help="bash, zsh or fish")
    parser.add_argument("words", metavar="WORD", nargs="*", hidden=True)
    args = parser.parse_args(argv[: argv.index("--")] if "--" in argv else argv)
    if args.shell != "words":
        print(SCRIPTS[args.shell], end="")
        return 0
    *before, prefix = argv[argv.index("--") + 1 :] or [""] if "--" in argv else [""]
    for word, what in candidates(before, prefix):
        print(f"{word}\t{printable(what)}")
    return 0


def candidates(before: list[str], prefix: str) -> list[Candidate]:
    """Words that begin with `prefix` and may follow `before`; none where only a file or free text can follow."""
    return [(word, what) for word, what in _all_candidates(before, prefix) if word.startswith(prefix)]


def _all_candidates(before: list[str], prefix: str) -> Iterator[Candidate]:
    words = [word for at, word in enumerate(before) if not (word in _GLOBALS or (at and before[at - 1] in _GLOBALS))]
    if not words or words == ["help"]:
        yield from COMMANDS.items()
        return
    command, *rest = words
    if command not in COMMANDS or "--" in rest:
        return
    arguments = parser_of(command).arguments
    options = {one.name: one for one in arguments if not one.positional and not one.hidden}
    option_before = options.get(rest[-1]) if rest else None
    if option_before and not option_before.flag:
        yield from _values(option_before, command)
    elif prefix.startswith("-"):
        yield from ((one.name, one.help) for one in options.values())
    else:
        yield from _positional([one for one in arguments if one.positional], options, command, rest)


def _positional(
    positionals: list[Argument], options: dict[str, Argument], command: str, rest: list[str]
) -> Iterator[Candidate]:
    taken = 0
    for at, word in enumerate(rest):
        before = options.get(rest[at - 1]) if at else None
        taken += not word.startswith("-") and (before is None or before.flag)
    if taken < len(positionals):
        yield from _values(positionals[taken], command)
    elif positionals and positionals[-1].many:
        yield from _values(positionals[-1], command)


def _values(argument: Argument, command: str) -> Iterator[Candidate]:
    if argument.choices:
        yield from ((word, "") for word in argument.choices)
    else:
        try:
            yield from _names(_SOURCES.get((command, argument.metavar)) or _SOURCES.get(("", argument.metavar), ""))
        except Error:
            return  # without a store that can be reached, there is nothing to offer


def _names(kinds: str) -> Iterator[Candidate]:
    if not kinds:
        return
    reader = open_reader(None)
    if "runs" in kinds:
        for run in reader.ledger.history.runs(limit=_RUNS_OFFERED):
            yield run.id, f"{run.job} {run.key}, {run.status}"
    if "jobs" in kinds:
        jobs = dict.fromkeys(stages.configured(), "a job of nightlatch.toml")
        for run in reader.ledger.history.runs(limit=10 * _RUNS_OFFERED):
            jobs.setdefault(run.job, f"last run {run.status}")
        yield from jobs.items()
    if "leases" in kinds:
        for record in reader.store.records():
            yield record.name, f"held by {record.holder}" if record.grant else "free"


_GLOBALS = ("--store", "--config")  # options that may come before the command too
_SOURCES = {  # (command or "" for any, metavar) → the kinds of names that complete it
    ("", "RUN"): "runs jobs",
    ("", "RUN|JOB"): "runs jobs",
    ("resolve", "WHAT"): "runs jobs",
    ("runs", "NAME"): "jobs",
    ("", "JOB"): "jobs",
    ("run", "NAME"): "jobs",
    ("batch", "NAME"): "jobs",
    ("resolve", "NAME"): "jobs",
    ("lock", "NAME"): "leases",
    ("lease", "NAME"): "leases",
}
