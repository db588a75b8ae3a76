"""Things that are declared in one place: each test adds a made-up one there, as a line of text in a copy of the
source, and finds it everywhere it must appear."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nightlatch
from nightlatch.core.job import Job
from nightlatch.core.target import Command
from nightlatch.ledger import open_for
from nightlatch.runtime.shared.job import definition
from tests.support.programs import environment
from tests.support.programs import nightlatch as command

ROOT = Path(__file__).parents[2]


class Copy:
    """The source with lines added, and programs that import it."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store = folder / "copy", store
        for part in ("src/nightlatch", "docs"):
            shutil.copytree(ROOT / part, self.folder / part, ignore=shutil.ignore_patterns("__pycache__"))

    def add(self, file: str, before: str, line: str) -> None:
        path = self.folder / "src" / "nightlatch" / file
        text = path.read_text()
        assert text.count(before) == 1, f"{before!r} is not once in {file}"
        path.write_text(text.replace(before, line + before))

    def migrate(self, name: str, sql: str) -> None:
        folder = self.folder / "src" / "nightlatch" / "database" / "migrations" / "ledger"
        newest = max(int(path.name[:3]) for path in folder.glob("*.sql"))
        (folder / f"{newest + 1:03}_{name}.sql").write_text(sql)

    def python(self, program: str) -> str:
        env = environment(self.store, PYTHONPATH=str(self.folder / "src"))
        done = subprocess.run([sys.executable, "-c", program], env=env, text=True, capture_output=True, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *words: str, code: int = 0) -> str:
        env = environment(self.store, PYTHONPATH=str(self.folder / "src"))
        done = subprocess.run([sys.executable, "-m", "nightlatch", *words], env=env, text=True, capture_output=True)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def docs(self) -> str:
        self.python("import runpy; runpy.run_path('docs/generate.py', run_name='__main__')")
        return (self.folder / "docs" / "commands.md").read_text()


@pytest.fixture
def copy(tmp_path, sqlite_url) -> Copy:
    return Copy(tmp_path, sqlite_url)


OPTION = """    colour: str = options.text("a made-up one", metavar="HUE", choices=("red", "blue"))
"""

WITH_OPTION = """
import inspect, json, nightlatch
from nightlatch.core.job import Job, unpack
from nightlatch.core.target import Command
print("colour" in inspect.signature(nightlatch.run).parameters, "colour" in inspect.signature(nightlatch.job).parameters)
print(nightlatch.run("x", "true", colour="red").status)
for wrong in (lambda: nightlatch.run("x", "true", colour="grey"), lambda: nightlatch.job(colour="grey")(print)):
    try:
        wrong()
    except nightlatch.Error as error:
        print(error.field, error.exit_code, error)
red = Job(name="x", target=Command(words=("true",)), colour="red")
print(unpack(json.loads(json.dumps(red.pack()))).colour, "colour='red'" in red.definition())
"""


def test_an_option_is_one_row(copy):
    """Adding one took eight places: the parser, the command's job, the class, its check, and of `@job` signature,
    check and flags, and the signature of `run()`."""
    copy.add("core/job.py", "    cwd: str = options.text", OPTION)
    assert "--colour HUE       a made-up one" in copy.command("run", "--help")
    assert "--colour HUE       a made-up one" in copy.docs()
    assert "\n    colour: str | None\n" in (copy.folder / "src/nightlatch/core/keywords.py").read_text()
    assert "status=succeeded" in copy.command("run", "x", "--colour", "blue", "--", "true")
    assert "--colour 'grey' is not known: use one of red, blue" in copy.command(
        "run", "x", "--colour", "grey", "--", "true", code=64
    )
    assert copy.python(WITH_OPTION).splitlines() == [
        "True True",
        "succeeded",
        "colour 64 colour 'grey' is not known: use one of red, blue",
        "colour 64 the job print: colour 'grey' is not known: use one of red, blue",
        "red True",
    ]


def test_an_exit_code_is_one_row(copy):
    """Adding one took four: the error or the status, the docs' table, and the words of each command that ends with it."""
    copy.add("exits.py", "OURS = Exit(", 'MELTED = Exit(119, "melted", "run", lock="the lock has melted")\n')
    assert "\n  119      melted\n" in copy.command("run", "--help")
    assert "\n  119      the lock has melted\n" in copy.command("lock", "--help")
    assert "119" not in copy.command("batch", "--help")
    page = copy.docs()
    assert "\n| 119 | melted |\n" in page and "\n  119      the lock has melted\n" in page


SCHEME = """    Scheme("memo:", example="memo:NAME", connect=_memo, ledger=OF_EACH_MACHINE),
"""

MEMO = """
from ..database.sqlite import SqliteDatabase
from . import url
from .sql import SqlStore

def connect(where):
    folder = url.folder_of(where)
    return SqlStore(where, SqliteDatabase(f"{folder}/memo.db", "store"), folder)
"""


def test_a_store_is_one_scheme_and_one_module(copy, tmp_path, monkeypatch):
    """There were fifteen tests for a scheme, in eight files."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    (copy.folder / "src/nightlatch/store/memo.py").write_text(MEMO)
    copy.add(
        "store/url.py", "SCHEMES = (", "def _memo(url):\n    from .memo import connect\n\n    return connect(url)\n"
    )
    copy.add("store/url.py", '    Scheme("git+"', SCHEME)
    assert "sqlite:////path/to/file, memo:NAME, git+origin or postgresql://" in " ".join(copy.command("--help").split())
    assert "Use sqlite:////path/to/file, memo:NAME, git+origin or" in copy.command(
        "lock", "--store=x", "x", "--", "true", code=64
    )
    assert "status=succeeded" in copy.command("--store=memo:a", "run", "x", "--key", "k", "--", "true")
    assert "status=skipped" in copy.command("--store=memo:a", "run", "x", "--key", "k", "--", "true")
    assert "status=succeeded" in copy.command("--store=memo:b", "run", "x", "--key", "k", "--", "true")
    assert "nothing needs you" in copy.command("--store=memo:a")
    assert "each machine records its own runs" in copy.command("--store=memo:c")
    assert "memo:a (id " in copy.command("--store=memo:a", "doctor")
    (ledger,) = {path.name for path in (tmp_path / "home").rglob("ledger.db")}
    assert ledger and not list(tmp_path.rglob("*-ledger.db"))


def test_nobody_else_looks_at_a_stores_scheme():
    """Gates have URLs of their own, and `--publish` and a workspace name branches."""
    elsewhere = {
        "gates",
        "runtime/supervisor/publishing/replace_target.py",
        "runtime/child/batches/item_workspaces.py",
        "observe/gate_views.py",
        "cli/prove_places.py",
    }
    for path in (ROOT / "src" / "nightlatch").rglob("*.py"):
        name = str(path.relative_to(ROOT / "src" / "nightlatch"))
        if name == "store/url.py" or name in elsewhere or name.split("/", maxsplit=1)[0] in elsewhere:
            continue
        for test in ('startswith("sqlite:', 'startswith("git+', 'startswith(("postgres', "startswith(dsn.SCHEMES)"):
            assert test not in path.read_text(), f"{name} has {test}: ask store/url.py"


KIND = """    GateKind("memo", module="memo", name="Memo", published_to=True),
"""

MEMO_GATE = """
from .file import File

class Memo(File):
    def __init__(self, url, keep=0):
        super().__init__(url.removeprefix("memo://"))
        self.url = url

    @classmethod
    def from_url(cls, url):
        return cls(url)
"""


def test_a_gate_is_one_registration_and_one_module(copy, tmp_path):
    (copy.folder / "src/nightlatch/gates/memo.py").write_text(MEMO_GATE)
    copy.add("gates/__init__.py", '    GateKind("git", module', KIND)
    memo = f"memo://{tmp_path}/memo"
    assert (
        copy.python(f"from nightlatch import gates; print(gates.Memo({memo!r}).url == gates.at({memo!r}).url)")
        == "True\n"
    )
    run = ("run", "x", "--workspace", "scratch", "--publish", f"out={memo}", "--", "sh", "-c", "echo one > out")
    assert "status=succeeded" in copy.command(*run)
    assert (tmp_path / "memo").read_text() == "one\n"
    (tmp_path / "two").write_text("two")
    inside = f"{sys.executable} -m nightlatch publish {tmp_path}/two {memo}"
    copy.command("lock", "x", "--gate", memo, "--", "sh", "-c", inside)
    assert (tmp_path / "memo").read_text() == "two"
    shown = copy.command("gate", "show", memo)
    assert f"gate     {memo}" in shown and "mark     x  token" in shown


WHISTLE = """
from .arguments import Parser

def main(argv):
    args = Parser("whistle", "Whistle a tune.", "  nightlatch whistle").parse_args(argv)
    print("a tune")
    return 0
"""


def test_a_command_is_one_row_and_one_module(copy):
    (copy.folder / "src/nightlatch/cli/whistle.py").write_text(WHISTLE)
    copy.add("cli/main.py", '    "key": "print an idempotency', '    "whistle": "whistle a tune",\n')
    assert copy.command("whistle") == "a tune\n"
    assert " whistle whistle a tune " in " ".join(copy.command("--help").split())
    shown = copy.command("whistle", "--help")
    assert "Whistle a tune." in shown and "--store URL" in shown and "\n  64 " in shown
    assert f"\n## whistle\n\nWhistle a tune.\n\n```text\n{shown.strip()}\n```\n" in copy.docs()
    assert "did you mean 'whistle'?" in copy.command("wistle", code=64)


PAGES = """ALTER TABLE run ADD COLUMN pages BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN pages BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tally ADD COLUMN pages BIGINT NOT NULL DEFAULT 0
"""


def test_a_budgets_unit_is_one_row_and_its_columns(copy):
    """There were about 14 places in 11 files."""
    copy.migrate("pages", PAGES)
    copy.add("core/units.py", '    "units": Unit(', '    "pages": Unit(),\n')
    copy.add("core/units.py", "    units: float = 0.0", "    pages: float = 0\n")
    assert "in usd, tokens, calls, pages, units." in copy.command("spend", "--help")
    inside = f"{sys.executable} -m nightlatch spend pages=7 usd=0.5"
    done = copy.command(
        "run", "x", "--key", "k", "--budget", "pages=10,pages/day=10", "--meter", "report", "--", "sh", "-c", inside
    )
    assert "status=succeeded" in done and " usd=0.5 pages=7 " in done
    over = copy.command(
        "run", "x", "--key", "l", "--budget", "pages/day=10", "--meter", "report", "--", "sh", "-c", inside, code=121
    )
    assert "status=over-budget" in over and "pages/day" in over
    shown = copy.command("show", "x")
    assert "used $0.50, 7 pages" in shown and "usage     usd=0.5 pages=7" in shown
    assert " pages " in copy.command("usage") and '"pages": 14' in copy.command("usage", "--json")
    assert "calls, pages, units, for a run" in copy.command("run", "x", "--budget", "leaves=1", "--", "true", code=64)
    assert (
        copy.python("import nightlatch; print(nightlatch.run('y', 'true', budget={'pages': 1}, meter='report').status)")
        == "succeeded\n"
    )
    copy.command("audit", "verify")


WITH_COLUMN = """
from nightlatch.ledger import open_for
from nightlatch.ledger.nested import _ROW
from nightlatch.ledger.records import RUN, RunRow
from nightlatch.ledger.snapshot import Snapshot
book = open_for({store!r})
(before,) = book.history.runs(job="x")
print(repr(before.colour), "colour" in _ROW.tail)
with book._tables.database.transaction() as execute:
    made = RunRow(id="made", job="y", key="k", created=1.0, changed=1.0, colour="red")
    execute(book._tables.sql(RUN.put), **RUN.by_column(made))
print(book.run("made") == made, book.find("y", "k").colour, Snapshot(book._tables).runs["made"]["colour"])
"""


def test_a_column_of_run_is_one_field_and_one_line_of_sql(copy):
    copy.command("run", "x", "--", "true")  # a ledger that has no such column yet
    copy.migrate("colour", "ALTER TABLE run ADD COLUMN colour TEXT NOT NULL DEFAULT ''\n")
    copy.add("ledger/records.py", "    parent: str = ", '    colour: str = ""\n')
    copy.command("run", "x", "--", "true")
    copy.command("audit", "verify")
    assert (
        copy.python(WITH_COLUMN.format(store=copy.store).replace("(before,)", "before, *_"))
        == "'' True\nTrue red red\n"
    )


WITH_STATUS = """
from nightlatch.core import statuses
from nightlatch.ledger import open_for
from nightlatch.core.model import Holder
book = open_for({store!r})
run = book.open_run("x", "k", command="true", host="here")
writer = book.seal(run.id, token=1, grant="g", holder=Holder(incarnation="i", user="ann", host="here"))
print(writer.finish("melted", reason="too hot").status, statuses.exit_code("melted"))
"""


def test_a_status_is_one_row(copy):
    row = 'MELTED = _row("melted", _AGAIN, exits.STALLED)\n'
    copy.add("core/statuses.py", "CANCELLED = _row(", row)
    assert copy.python(WITH_STATUS.format(store=copy.store)) == "melted 122\n"
    assert "melted" in copy.command("runs", "--help") and "melted" in copy.docs()
    assert copy.command("runs", "--status", "melted").startswith("  melted  x")
    assert "melted" in copy.command() and "too hot" in copy.command()
    shown = copy.command("show", "x")
    assert ": melted\n" in shown and "attempt 1 ended: melted (too hot)" in shown and "nightlatch retry " in shown
    copy.command("audit", "verify")
    assert "status=succeeded" in copy.command("run", "x", "--key", "k", "--", "true"), "another attempt may follow"


WITH_KIND = """
from nightlatch.core.model import Holder
from nightlatch.ledger import kinds, open_for
book = open_for({store!r})
run = book.open_run("x", "k", command="true", host="here")
writer = book.seal(run.id, token=1, grant="g", holder=Holder(incarnation="i", user="ann", host="here"))
writer.event(kinds.WHISTLED, tune="a\x1b[31m reel", times=3)
book.journal.note("x", kinds.WHISTLED, run=run.id, tune="a jig")
for wrong in (lambda: writer.event(kinds.WHISTLED, colour="red"), lambda: writer.event("hummed")):
    try:
        wrong()
    except ValueError as error:
        print(error)
writer.finish("succeeded")
"""


def test_a_kind_of_journal_entry_is_one_row(copy):
    """It was a text wherever it was written or read, and `show` printed whatever facts it had."""
    row = 'WHISTLED = EntryKind("whistled", "whistled {tune}[, {times} times]", run="tune times", job="run tune")\n'
    copy.add("ledger/kinds.py", "LENT = EntryKind(", row)
    assert copy.python(WITH_KIND.format(store=copy.store)).splitlines() == [
        "the kind 'whistled' has no field colour on a run's chain: declare it in ledger/kinds.py",
        "'hummed' is not a kind of entry on a run's chain: declare it in ledger/kinds.py",
    ]
    shown = copy.command("show", "x")
    assert "  whistled a\\x1b[31m reel, 3 times\n" in shown
    assert "jig" not in shown, "on the job's chain it only links to the run's"
    assert '"kind": "whistled"' in copy.command("show", "x", "--json")
    copy.command("audit", "verify")


def test_every_run_records_its_definition(sqlite_url, tmp_path):
    """The column was there, and nobody wrote it."""
    job = Job(name="x", target=Command(words=("true",)), timeout=60.0)
    command(sqlite_url, "run", "x", "--key", "a", "--timeout", "1m", "--", "true")
    nightlatch.run("x", ["true"], key="b", timeout="60s", store=sqlite_url)
    command(sqlite_url, "run", "x", "--key", "c", "--timeout", "2m", "--", "true")
    (tmp_path / "items").write_text("a\n")
    command(sqlite_url, "batch", "b", str(tmp_path / "items"), "--", "true")
    ledger = open_for(sqlite_url)
    by_key = {run.key: run.definition for run in ledger.history.runs(job="x")}
    assert by_key["a"] == by_key["b"] == definition(job) == hashlib.sha256(job.definition().encode()).hexdigest()
    assert by_key["c"] not in ("", by_key["a"])
    assert [len(run.definition) for run in ledger.history.runs(job="b")] == [64]


def test_an_edited_job_is_in_the_journal_of_its_next_attempt(sqlite_url):
    command(sqlite_url, "run", "x", "--key", "k", "--timeout", "1m", "--", "false")
    command(sqlite_url, "run", "x", "--key", "k", "--timeout", "2m", "--", "false")
    ledger = open_for(sqlite_url)
    (run,) = ledger.history.runs(job="x")
    entries = [
        entry.facts.get("definition") for entry in ledger.journal.of_run(run.id) if entry.kind in ("opened", "started")
    ]
    assert entries[0] and entries[1] is None and entries[2] == run.definition != entries[0]


def test_python_has_the_options_of_the_command_line(sqlite_url, tmp_path):
    """`nightlatch.run()` had 6 of them."""
    script = 'echo "$COLOUR $PWD" >> out; test "$NIGHTLATCH_ATTEMPT" = 2'
    done = nightlatch.run(
        "x", script, key="k", env={"COLOUR": "red"}, workspace="scratch", publish=f"out={tmp_path}/landed", retries=1,
        backoff="10ms", grace="1s", ttl="30s", wait="1s", stall="1m", progress=["report"], lost="doubt", store=sqlite_url,
    )  # fmt: skip
    assert (done.status, done.attempt) == ("succeeded", 2)
    assert (tmp_path / "landed").read_text().startswith("red ")
    assert nightlatch.run("x", "true", key="k", store=sqlite_url).status == "skipped"
    assert nightlatch.run("x", "true", key="k", again=True, store=sqlite_url).status == "succeeded"
    with pytest.raises(nightlatch.Error, match=r"^cwd /nowhere: there is no such folder"):
        nightlatch.run("x", "true", cwd="/nowhere", store=sqlite_url)


def test_the_environments_values_are_not_among_the_words_of_a_process(sqlite_url):
    """A packed job travels in a private file; as flags its values stood in the list of processes."""
    words = 'tr "\\0" " " < /proc/$(grep PPid /proc/$PPID/status | cut -f2)/cmdline'
    done = nightlatch.run("x", f'{words}; test "$TOLD" = hunter2-hunter2', env={"TOLD": "hunter2-hunter2"},
                          store=sqlite_url)  # fmt: skip
    assert done.status == "succeeded"
    (run,) = open_for(sqlite_url).history.runs(job="x")
    shown = command(sqlite_url, "logs", run.id).stdout
    assert "nightlatch run x --packed" in shown and "hunter2" not in shown
