"""A new nightlatch.toml, for a person to edit."""

from __future__ import annotations

from collections.abc import Iterable

_HEAD = """\
# Jobs for `nightlatch serve`. After an edit: nightlatch check
# Every key: docs/schedules.md of Nightlatch, or `nightlatch run --help`. Paths start at this file.

{store}
timezone = "{zone}"
# at_once = {at_once}                        # how many runs this machine has at a time

# [defaults]                         # for every job that does not say otherwise
# timeout = "1h"
"""

_STORE_LINE = 'store = "{store}"                # machines that share it together run each slot once'

_NO_STORE_LINES = """\
# store = "git+origin"               # so that several machines together run each slot once; without it a file of
                                     # this user on this machine: {default}"""

_EXAMPLE = """
[jobs.hello]
schedule = "every 1m"                # or "0 2 * * *", "@daily", or a list of those; without it by hand only
command = "echo good morning"        # a string is run by the shell, a list is a program with its arguments
timeout = "5m"
# stage = "manual"                   # without it a job runs unattended from its first slot; with it, it has to earn
                                     # that: nightlatch run hello, then nightlatch promote hello

# [jobs.articles]
# schedule = "0 2 * * *"
# command = ["claude", "-p", "@prompts/article.md"]     # @file: its content; changing the file changes the job
# workspace = "git"                  # in a fresh clone
# publish = ["git"]                  # pushed when it has succeeded, once
# stage = "manual"                   # by hand first; then supervised: what it makes waits for `nightlatch approve
                                     # articles`; then unattended. One stage up: nightlatch promote articles
# overlap = "skip"                   # if the last run is still at work; or "queue", "cancel"
# catch_up = "one"                   # one run for all slots that were missed in sleep; or "none"
# late = "6h"                        # a slot that is older than this is not run
"""


def new(*, store: str, default: str, zone: str, at_once: int, jobs: Iterable[str] = ()) -> str:
    """The text of the file. `store`: the store to name; "": none. `jobs`: tables of jobs, instead of an example."""
    shown = _STORE_LINE.format(store=store) if store else _NO_STORE_LINES.format(default=default)
    head = _HEAD.format(store=shown, zone=zone, at_once=at_once)
    tables = "\n".join(jobs)
    return f"{head}\n{tables}\n" if tables else head + _EXAMPLE
