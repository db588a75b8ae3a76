"""What has to be there before a command of a page or a help is pasted, and how each is expected to end.

0 is expected of everything that is not named here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tests.support.pasting.house import TOML, House
from tests.support.programs import until

# Commands that work only inside a run or under a lease, and are pasted there.
WITHIN = {
    r"^nightlatch (progress|spend) ": "run inside",
    r"^nightlatch (publish|push) ": "lock inside",
    r"^nightlatch --store git\+origin push ": "--store git+origin lock inside",
}

STORIES_WITHIN = {"socket.md": "run inside"}  # pages whose blocks are what a run's command does

# Why an example of a help is not pasted: a help has no place for a remark.
NOT_PASTED = {
    "nightlatch service install": "it needs a systemd or launchd that starts services for this user",
    "nightlatch doctor --prove /srv/www/report.html": "twenty seconds; tests/e2e/test_prove.py has it",
    "nightlatch --store postgresql://app@db/jobs doctor --prove": "twenty seconds; tests/e2e/test_prove.py has it",
    "nightlatch agent run": "it needs an account at the vendor; tests/e2e/test_agents.py has it",
    "nightlatch agent attach": "it needs a launch in doubt; tests/e2e/test_agents.py has it",
    "nightlatch agent cancel": "it needs an agent at work; tests/e2e/test_agents.py has it",
    "nightlatch batch drafts": "it needs an account at the vendor; tests/e2e/test_agents_batches.py has it",
    "OTEL_EXPORTER_OTLP_ENDPOINT=": "it needs a receiver of traces",
    "nightlatch demo": "eight seconds; `make demo` is part of every build",
}

# What ends with another exit code than 0, and why.
CODES = {
    "curl -fsS -d @42.json https://example.org/posts": 6,  # there is no such host here; it is listed in --not-done
    "nightlatch resolve 7k3f": 76,  # it needs a decision, and says so
    "nightlatch resolve cvqr5navxm31": 76,
    "nightlatch alerts test webhook": 1,  # nothing listens
    "nightlatch service status": 1,  # it is not installed, and says so
    "nightlatch usage articles --usual": 64,  # nothing has changed
    "nightlatch promote articles      # supervised → unattended: three approved runs": 77,  # one was
    '[[ $status = 2* ]] || exec nightlatch fail --http "$status" --retry-after "$after"': 75,  # nothing listens
}


def code(command: str) -> int:
    if command in CODES:
        return CODES[command]
    whole = re.sub(r" \\\n\s+", " ", command.partition("    #")[0]).strip()
    return next((found for end, found in CODES.items() if whole == end or (end[0] != "n" and whole.endswith(end))), 0)


def within(command: str) -> str:
    return next((how for pattern, how in WITHIN.items() if re.search(pattern, command)), "")


def mark(command: str) -> str:
    return next((why for begin, why in NOT_PASTED.items() if command.startswith(begin)), "")


# ── what is there before ──


def failed(house: House) -> None:
    house.run("nightlatch run bad --key $RANDOM -- sh -c 'exit 3'", ok=(3,))
    house.ids |= {"7k3f": _newest(house, "bad"), "9qz2": _newest(house, "bad")}


def repaired(house: House) -> None:
    """A run that failed, and whose next attempt succeeds."""
    house.run("nightlatch run bad --key $RANDOM -- sh -c 'test $NIGHTLATCH_ATTEMPT -gt 1 || exit 3'", ok=(3,))
    house.ids["7k3f"] = _newest(house, "bad")


def in_doubt(house: House) -> None:
    """Its warden is killed: nobody knows what it did."""
    house.run("nightlatch run crawl --key $RANDOM -- sh -c 'kill -9 $PPID'", ok=(125,))
    house.ids |= {"7k3f": _newest(house, "crawl"), "cvqr5navxm31": _newest(house, "crawl")}


def effect_in_doubt(house: House) -> None:
    house.run("nightlatch once invoice/2026-117 -- false; nightlatch once invoice/2026-118 -- false", ok=(76,))


def set_aside(house: House) -> None:
    """Of a store of its own, if the batch is done already."""
    house.environment["NIGHTLATCH_STORE"] = f"sqlite:///{house.home}/aside.db"
    house.run("nightlatch batch posts posts.jsonl --key '{site}/{slug}' -- sh -c 'exit 64'", ok=(1,))


def at_work(house: House) -> None:
    house.start("nightlatch run articles -- sleep 300")
    until(lambda: house.run("nightlatch runs --job articles --status running --json"))
    house.ids["7k3f"] = _newest(house, "articles")


def job_ran(house: House) -> None:
    house.configure()
    house.run("nightlatch run articles")


def job_failed(house: House) -> None:
    house.run("nightlatch run articles -- false", ok=(1,))


def waits_for_approval(house: House) -> None:
    house.configure(TOML.replace("0 2 * * *", "every 1s").replace("manual", "supervised") + _PUBLISHES)
    until(lambda: house.run("nightlatch tick; nightlatch runs --job articles --status waiting --json"))
    house.ids["7k3f"] = _newest(house, "articles")


def a_night_passes(house: House) -> None:
    """The job that was promoted is due."""
    house.configure(house.toml.replace("0 2 * * *", "every 1s"))
    until(lambda: house.run("nightlatch tick; nightlatch runs --job articles --status waiting --json"))


def paused(house: House) -> None:
    job_ran(house)
    house.run("nightlatch pause articles")


def supervised(house: House) -> None:
    job_ran(house)
    house.run("nightlatch promote articles")


def configured(house: House) -> None:
    house.configure()


def once_run(house: House) -> None:
    if not (house.home / ".local" / "state").exists():
        house.run("nightlatch run hello -- echo hello")


def both_stores(house: House) -> None:
    """This user's, and one at the remote."""
    for store in ("", "--store git+origin "):
        house.run(f"nightlatch {store}run hello -- echo hello")


def another_remote(house: House) -> None:
    house.run(f"git init -q --bare {house.srv}/git/other.git; git remote set-url origin {house.srv}/git/other.git")
    house.run("git push -q origin main")


def tables(house: House) -> None:
    house.run(
        "psql -qh db -U owner site -c 'CREATE TABLE IF NOT EXISTS articles (); CREATE TABLE IF NOT EXISTS authors ()'"
    )


def no_file(house: House) -> None:
    (house.blog / "nightlatch.toml").unlink(missing_ok=True)


def jobs_folder(house: House) -> None:
    house.configure()
    (house.home / "jobs").mkdir(exist_ok=True)
    (house.home / "jobs" / "nightlatch.toml").write_text(TOML.replace("./articles.sh", "true"))


def gated(house: House) -> None:
    house.run("nightlatch lock reports -- nightlatch publish new.html /srv/www/report.html".replace(
        "/srv/", f"{house.srv}/"))  # fmt: skip


def released_twice(house: House) -> None:
    for _ in range(2):
        house.run(f"nightlatch lock inside -- nightlatch publish drafts {house.srv}/www/site")


def planned(house: House) -> None:
    from tests.support.pasting.pages import ROOT

    page = (ROOT / "docs" / "steps.md").read_text()
    (house.blog / "nightly.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))


def planned_posts(house: House) -> None:
    (house.blog / "plan.py").write_text(
        'import nightlatch\n@nightlatch.job(name="posts", key="{a}")\ndef posts(a): pass\n'
    )
    house.run("python -c 'import plan; plan.posts.run(1); plan.posts.dry_run(1)'")


_PUBLISHES = 'workspace = "git"\npublish = ["git"]\n'
_NEEDS: list[tuple[str, str, Callable[[House], None]]] = [  # (page or help, command, what comes before it)
    ("ack", "ack articles", job_failed),
    ("retry|budgets.md|schedules.md", "retry 7k3f", repaired),
    ("resolve|runs.md", r"resolve (7k3f|cvqr5navxm31)", in_doubt),
    ("agents.md", "resolve agent", no_file),
    ("resolve|once", "resolve invoice", effect_in_doubt),
    ("resolve|batch", "resolve .*--batch posts", set_aside),
    ("cancel", "cancel ", at_work),
    ("approve", "approve ", waits_for_approval),
    ("stages.md|README.md", "approve ", a_night_passes),
    ("unpause", "unpause", paused),
    ("demote", "demote", supervised),
    ("init|schedules.md|README.md", "nightlatch init", no_file),
    ("serve|tick", "~/jobs|nightlatch tick", jobs_folder),
    ("gate", "gate (show|adopt|forget) /srv", gated),
    ("publish", "--rollback", released_twice),
    ("steps.md", "dry_run", planned),
    ("show", "show posts", planned_posts),
    ("show", "show invoice", effect_in_doubt),
    ("push", "--done", another_remote),
    ("where-the-gate-goes.md|gate", "gate install postgres", tables),
    ("installing.md", "service uninstall", configured),
    ("installing.md|store", "store (remove|show)", both_stores),
    ("audit|metrics|metrics.md|agents.md", "", once_run),
    ("", "7k3f|9qz2", failed),
    ("stages.md|README.md|schedules.md|run", "nightlatch run articles( |$)", configured),
    ("alerts", "test", job_ran),
    ("check|serve|service|alerts", "", configured),
    ("", r"(show|logs|usage|approve|promote|pause|slots|ack|demote) (-\w )?articles", job_ran),
]


def prepare(house: House, name: str, command: str) -> None:
    for number, (page, pattern, what) in enumerate(_NEEDS):
        if re.fullmatch(page or ".*", name) and re.search(pattern, command):
            if page or number not in house.prepared:  # of what is the same for all pages, once is enough
                house.prepared.add(number)
                what(house)
            return


def _newest(house: House, job: str) -> str:
    return str(json.loads(house.run(f"nightlatch runs --job {job} --json").splitlines()[0])["run"])
