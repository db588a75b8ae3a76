"""nightlatch.toml: which one counts, what it says, and every mistake in it at once."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from nightlatch.config import lines, place
from nightlatch.config.examples import EXAMPLES
from nightlatch.config.jobs import KEYS
from nightlatch.config.load import Config, load
from nightlatch.config.settings import SETTINGS
from nightlatch.core import batch, options
from nightlatch.core.job import Job
from nightlatch.core.options import FILE, RUN
from nightlatch.core.target import Command, Each, Function
from nightlatch.errors import BadConfig
from nightlatch.runtime.supervisor.run.spending import of_all_jobs
from nightlatch.system.storage import absolute_store


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with no file above it that counts, and no word from outside."""
    for name in (place.ENV, "NIGHTLATCH_RUN", "NIGHTLATCH_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    (tmp_path / "site").mkdir()
    monkeypatch.chdir(tmp_path / "site")
    place.choose(None)
    return tmp_path / "site"


def write(text: str, path: str = "nightlatch.toml") -> str:
    Path(path).write_text(text)
    return os.path.abspath(path)


def read(text: str, host: str = "air") -> Config:
    return load(write(text), host=host)


def job(text: str, host: str = "air") -> Job:
    return read(f"[jobs.night]\n{text}", host).job("night")


def mistakes(text: str) -> list[str]:
    with pytest.raises(BadConfig) as found:
        read(text)
    assert found.value.exit_code == 78
    lines = str(found.value).splitlines()
    return lines if len(lines) == 1 else lines[1:]


# ── which file counts ──


def test_the_nearest_file_counts_then_the_users(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.find() == "" == place.store()
    users = nowhere.parent / "config" / "nightlatch" / "nightlatch.toml"
    users.parent.mkdir(parents=True)
    users.write_text("")
    assert place.find() == str(users)
    above = write("", str(nowhere.parent / "nightlatch.toml"))
    assert place.find() == above
    here = write("")
    assert place.find() == here
    Path("deep/down").mkdir(parents=True)
    monkeypatch.chdir("deep/down")
    assert place.find() == here


def test_a_named_file_goes_before_the_nearest_and_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    write("")
    other, third = write("", "other.toml"), write("", "third.toml")
    monkeypatch.setenv(place.ENV, other)
    assert place.find() == other
    place.choose("third.toml")
    assert place.find() == third
    place.choose("gone.toml")
    with pytest.raises(BadConfig, match=r"--config names .*gone\.toml, and there is no such file"):
        place.find()


def test_a_file_that_is_found_anyway_need_not_be_named(nowhere: Path) -> None:
    here, other = write(""), write("", "other.toml")
    for named, found in ((here, True), ("nightlatch.toml", True), (other, False), (None, False)):
        place.choose(named)
        assert place.is_found_unnamed() == found
    place.choose(None)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[jobs.a]\ncommand = "x"\n[jobs.a]\n', "toml:3: there are two [jobs.a]: give one of them another name"),
        ("[jobs.a]\nschedule = 0 2 * * *\n", 'Text needs quotes, as in timeout = "30m"'),
        ("[jobs.a b]\n", "Names have letters, digits, - and _, as in [jobs.my-job]"),
        ('[jobs.a]\ncommand = ["x", "@none"]\n', "which cannot be read (No such file or directory). Write @@none"),
    ],
)
def test_what_is_not_toml_says_what_to_write(text: str, what: str) -> None:
    write(text)
    with pytest.raises(BadConfig, match=re.escape(what)):
        load(place.require())


def test_inside_a_run_the_runs_own_file_counts_and_none_that_an_agent_has_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write('store = "sqlite:///agents.db"')
    monkeypatch.setenv("NIGHTLATCH_RUN", "7k3f")
    assert place.find() == "" == place.store()
    own = write('store = "sqlite:////own.db"', "own.toml")
    monkeypatch.setenv(place.ENV, own)
    assert (place.find(), place.store()) == (own, "sqlite:////own.db")


def test_a_file_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write('store = "sqlite:///theirs.db"')
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.stat(path).st_uid + 1)
    with pytest.raises(BadConfig, match="belongs to another user"):
        place.store()


def test_a_file_that_everybody_can_write_to_is_refused() -> None:
    os.chmod(write(""), 0o666)
    with pytest.raises(BadConfig, match="chmod o-w"):
        place.find()


def test_a_store_means_the_same_from_every_folder(nowhere: Path) -> None:
    assert absolute_store("sqlite:///leases.db", "/srv") == "sqlite:////srv/leases.db"
    assert absolute_store("git+origin", "/srv/site") == "git+origin@/srv/site"
    for whole in ("sqlite:////abs.db", "sqlite:///~/x.db", "git+https://host/x", "git+file:///x.git",
                  "git+user@host:x", "postgresql://h/d"):  # fmt: skip
        assert absolute_store(whole, "/srv") == whole
    write('store = "sqlite:///leases.db"\n[jobs.broken]')
    assert place.store() == f"sqlite:///{nowhere}/leases.db", "a mistake elsewhere is not every command's business"


# ── what it says ──


def test_every_key_of_a_job_has_an_example_that_is_right() -> None:
    assert set(EXAMPLES) == set(KEYS)
    needs = {
        "tz": ["schedule"], "late": ["schedule"], "jitter": ["schedule"], "args": ["python"], "stall": ["progress"],
        "budget": ["meter"], "publish": ["workspace"], "format": ["items"], "jobs": ["items"], "key": ["items"],
        "fail_fast": ["items"], "max_failures": ["items"], "shell": ["items"],
    }  # fmt: skip
    Path("prompts").mkdir()
    write("Write", "prompts/article.md")
    for key, example in EXAMPLES.items():
        others = [EXAMPLES[other] for other in needs.get(key, [])]
        target = [] if {"python", "command", "agent"} & {key, *needs.get(key, [])} else ["command = 'true'"]
        job("\n".join([example, *others, *target]))


def test_a_job_has_the_names_of_run_and_what_a_schedule_needs() -> None:
    flags = {row.name for row in options.rows(Job, RUN).values()}
    in_file = {row.name for row in options.rows(Job, FILE).values()}
    assert flags - in_file == {"key", "slot", "again", "new"}
    assert in_file - flags >= {"schedule", "overlap", "catch_up", "late", "jitter", "hosts", "tags", "env_file"}
    assert set(KEYS) - in_file - {"command", "python", "agent", "args", "items"} == {
        name for name in options.rows(batch.Batch) if name not in in_file and name != "retry_failed"
    }


def test_a_list_is_words_a_text_a_line_and_a_file_is_read_and_counts(nowhere: Path) -> None:
    write("Write an article", "prompt.md")
    words = job('command = ["claude", "-p", "@prompt.md", "@@scope/x"]')
    assert words.command == ["claude", "-p", "Write an article", "@scope/x"]
    assert re.fullmatch(r"claude -p @prompt.md @@scope/x \(@prompt.md sha256 [0-9a-f]{12}\)", words.target.shown)
    assert job("command = 'a | b'").command == ["sh", "-c", "a | b"]
    write("set -e; work", "night.sh")
    assert job('command = "@night.sh"').command == ["sh", "-c", "set -e; work"]
    write("Write two articles", "prompt.md")
    assert job('command = ["claude", "-p", "@prompt.md", "@@scope/x"]').definition() != words.definition()


def test_defaults_count_where_a_job_says_nothing_and_env_and_tags_are_joined() -> None:
    config = read(
        '[defaults]\ntimeout = "2h"\ntz = "UTC"\nenv = { A = "1", B = "1" }\n'
        "[jobs.one]\ncommand = 'x'\nenv.B = '2'\n[jobs.two]\ncommand = 'x'\ntimeout = 'none'\nschedule = '@daily'"
    )
    assert (config.jobs["one"].timeout, config.jobs["two"].timeout) == (7200, None)
    assert dict(config.jobs["one"].env) == {"A": "1", "B": "2"}
    assert (config.jobs["one"].tz, config.jobs["two"].tz) == ("", "UTC")


def test_what_a_machine_has_of_its_own_does_not_change_what_the_job_is() -> None:
    text = "command = 'x'\ncwd = 'a'\nenv.A = '1'\n[jobs.night.on.air]\ncommand = ['y']\ncwd = 'b'\nenv.B = '2'"
    here, there = job(text, "AIR.local"), job(text, "mini")
    assert (here.command, here.cwd, dict(here.env)) == (["y"], "b", {"A": "1", "B": "2"})
    assert (there.command, there.cwd, dict(there.env)) == (["sh", "-c", "x"], "a", {"A": "1"})
    assert here.definition() == there.definition() == job("command = 'x'\ncwd = 'a'\nenv.A = '1'").definition()


def test_a_definition_has_the_zone_and_paths_as_they_are_written(nowhere: Path) -> None:
    text = (
        '[jobs.night]\nschedule = "0 2 * * *"\ncommand = "x"\ncwd = "sub"\njitter = "5m"\nhosts = ["air"]\ntags.a = "b"'
    )
    first = read(text).job("night")
    os.mkdir("../moved")
    assert load(write(text, "../moved/nightlatch.toml")).job("night").definition() == first.definition()
    assert str(nowhere) not in first.definition()
    for same in ('jitter = "5m"', 'hosts = ["air"]', 'tags.a = "b"'):
        assert read(text.replace(same, "")).job("night").definition() == first.definition(), same
    for other in ('cwd = "sub"', '"0 2 * * *"'):
        assert (
            read(text.replace(other, "cwd = 'else'" if "cwd" in other else '"@daily"')).job("night").definition()
            != first.definition()
        )
    assert read('timezone = "UTC"\n' + text).job("night").definition() != first.definition()


def test_a_python_function_with_its_arguments(nowhere: Path) -> None:
    target = job('python = "nightly:main"\nargs = { n = 3 }').target
    assert isinstance(target, Function)
    assert (target.where, target.arguments, target.path) == (
        "nightly:main",
        '{"args": [], "kwargs": {"n": 3}}',
        (str(nowhere),),
    )
    write("", "nightly.py")
    by_file = job('python = "nightly.py:main"\nargs = ["a"]')
    assert isinstance(by_file.target, Function) and by_file.target.where == f"{nowhere}/nightly.py:main"
    assert str(nowhere) not in by_file.definition()


def test_items_make_a_batch() -> None:
    made = job(
        'items = "posts.jsonl"\nkey = "{slug}"\njobs = 4\ncommand = ["./write", "{slug}"]\nschedule = "@daily"\ntimeout = "5m"'
    )
    assert isinstance(made.target, Each)
    found = batch.unpack(made.target)
    assert (found.items, found.key, found.jobs, found.timeout, found.command) == (
        "posts.jsonl",
        "{slug}",
        4,
        300,
        ["./write", "{slug}"],
    )
    assert (made.schedule, made.timeout, made.lost) == (("@daily",), None, "again")
    line = job("items = 'x'\ncommand = 'echo {} | wc'").target
    assert isinstance(line, Each) and batch.unpack(line).shell and batch.unpack(line).command == ["echo {} | wc"]


def test_a_change_of_the_file_or_of_one_that_it_names_is_seen() -> None:
    write("a", "prompt.md")
    config = read('[jobs.night]\ncommand = ["x", "@prompt.md"]')
    assert not config.changed
    write("other", "prompt.md")
    assert config.changed
    config = read('[jobs.night]\ncommand = ["x", "@prompt.md"]')
    os.remove("prompt.md")
    assert config.changed


@pytest.mark.parametrize("edited", ["nightlatch.toml", "prompt.md"])
def test_a_change_while_the_files_are_read_is_seen(edited: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(*_: object) -> str:
        write("another text", edited)  # after both files are read
        return "Europe/Berlin"

    write("a", "prompt.md")
    monkeypatch.setattr("nightlatch.system.zone.name", edit)
    assert read('[jobs.night]\ncommand = ["x", "@prompt.md"]').changed


def test_settings_at_the_top_and_their_examples() -> None:
    os.makedirs(".venv/bin")
    os.symlink("/bin/sh", ".venv/bin/python")
    text = "\n".join(row.example for row in SETTINGS)
    found = read(text)
    assert {row.name for row in SETTINGS} == found.settings.keys()
    assert (found.at_once, found.timezone) == (4, "Europe/Berlin")
    assert read("").interpreter.endswith("site/.venv/bin/python")


# ── what is wrong with it ──

WRONG = """\
store = 5
timezon = "Europe/Berlin"
[keep]
x = 1
[defaults]
timeout = 30
[jobs.articles]
schedul = "0 2 * * *"
overlap = "allow"
command = [
  "claude",   # a ] in a comment
  \"\"\"x
  ]\"\"\",
  "@nofile"
]
budget = { usd = 2 }
[jobs."b c"]
jitter = "soon"
schedule = "61 * * * *"
command = "x"
[jobs.d]
schedule = "every 1m"
jitter = "5m"
command = "x"
stall = "5m"
[jobs.e]
items = "x"
workspace = "git"
command = "y"
max_failures = "some"
[jobs.f]
on.host.timeout = "5m"
command = "y"
[jobs.g]
agent = "claude"
"""


def test_all_mistakes_are_listed_at_once_with_line_nearest_name_and_example() -> None:
    found = mistakes(WRONG)
    wanted = [
        (1, 'Example: store = "git+origin"'),
        (2, "did you mean timezone?"),
        (3, "reserved"),
        (6, 'Example: timeout = "30m"'),
        (8, "did you mean schedule?"),
        (9, "two runs of a job would write at once"),
        (10, "write @@nofile"),
        (17, "cannot be a name"),
        (18, 'Example: jitter = "5m"'),
        (19, "Bad minute"),
        (23, "must be less than the 1m between two slots"),
        (25, 'add progress = "report"'),
        (28, "is not for a batch"),
        (30, 'Example: max_failures = "10%"'),
        (32, "there are command, cwd, env, env_file"),
        (35, "write a table with provider, agent and input"),
    ]
    assert [line.split(": ")[0] for line in found] == [f"nightlatch.toml:{line}" for line, _ in wanted]
    for line, (_, what) in zip(found, wanted, strict=True):
        assert what.lower() in line.lower(), line


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("store = \n", "nightlatch.toml:1: Invalid value"),
        ("a = 1\nb = [1,", "nightlatch.toml:2:"),
        ("jobs = 1", "jobs must be tables"),
        ("at_once = 0", "1 or more. Example: at_once = 4"),
        ('timezone = "Mars/Base"', "not known here"),
        ('interpreter = "gone"', "not a program that you can start"),
        ("[jobs.x]\ncommand = 'a'\npython = 'b:c'", "has command and python"),
        ("[jobs.x]\ncommand = 'a'\nargs = []", "are those of a Python function"),
        ("[jobs.x]\npython = 'main'", "write module:function"),
        ("[jobs.x]\npython = 'gone.py:main'", "there is no file gone.py"),
        ("[jobs.x]\npython = 'a:b'\nargs = [2026-11-17]", "write it as a string"),
        ("[jobs.x]\npython = 'a:b'\nitems = 'x'", "use command"),
        ("[jobs.x]\ncommand = []", "a list of words"),
        ("[jobs.x]\ncommand = 'a'\nkey = 'k'", 'add items = "posts.jsonl"'),
        ("[jobs.x]\ncommand = 'a'\nschedule = '@daily'\ntz = 'Mars/Base'", "nightlatch.toml:4: the time zone"),
        (
            "store = 'git+https://h/x'\n[jobs.x]\ncommand = 'a'\nschedule = '@daily'",
            "nightlatch.toml:1: timezone is missing",
        ),
    ],
)
def test_a_mistake_says_what_to_write(text: str, what: str) -> None:
    assert what in mistakes(text)[0]


def test_a_wrong_time_zone_hides_no_wrong_schedule() -> None:
    found = mistakes("[jobs.x]\ncommand = 'a'\ntz = 'Mars/Base'\nschedule = '61 * * * *'")
    assert [line.partition(": ")[0].rpartition(":")[2] for line in found] == ["3", "4"], found


def test_machines_that_share_a_store_need_a_zone_only_where_it_counts() -> None:
    shared = "store = 'git+https://h/x'\n[jobs.x]\ncommand = 'a'\nschedule = "
    read(shared + "'every 45m'")
    read(shared + "'@daily'\ntz = 'UTC'")
    read("timezone = 'UTC'\n" + shared + "'@daily'")


def test_a_job_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(BadConfig, match=r"did you mean articles\?"):
        read("[jobs.articles]\ncommand = 'x'").job("article")


def test_keys_are_found_on_their_lines_however_they_are_written() -> None:
    text = 'a.b = 1\n[ "x y" . z ]\nk = """\nq = 1\n"""\nm = [\n 1, # ]\n "]",\n]\nn = { o = 1 }\n[[t]]\nu = \'\'\'\'"\'\'\'\n"v w" = 2\n'
    assert lines.find(text) == {
        ("a",): 1, ("a", "b"): 1, ("x y", "z"): 2, ("x y", "z", "k"): 3, ("x y", "z", "m"): 6, ("x y", "z", "n"): 10,
        ("t",): 11, ("t", "u"): 12, ("t", "v w"): 13,
    }  # fmt: skip
    assert isinstance(job("command = 'x'").target, Command)


VALUES = ["0", "-1", "1.5", "nan", "true", '""', '"x"', '"@"', '"\\u0000"', "[]", "[1]", '[""]', "[[]]", "{}", "{ a = 1 }",
          "{ a = {} }", "2026-11-17", "2026-11-17T02:00:00Z", "9223372036854775808"]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_whatever_a_key_has_it_is_read_or_refused_with_its_line(value: str) -> None:
    """Never with a traceback: the file is a person's."""
    places = [f"{row.name} = {value}" for row in SETTINGS]
    places += [
        f"{name} = {value}" for name in ("defaults", "jobs", "jobs.x", "jobs.x.on", "jobs.x.on.air", "pages", "x")
    ]
    for key in KEYS:
        for rest in ("command = 'x'\nitems = 'y'", "command = 'x'\nschedule = '@daily'"):
            others = "\n".join(line for line in rest.splitlines() if not line.startswith(f"{key} "))
            places.append(f"[jobs.x]\n{others}\n{key} = {value}")
        places += [
            f"[defaults]\n{key} = {value}\n[jobs.x]\ncommand = 'x'",
            f"[jobs.x]\ncommand = 'x'\non.air.{key} = {value}",
        ]
    refused = [message for text in places if (message := refusal(text))]
    assert refused and [one for one in refused if not re.match(r"(\d+ mistakes:\n)?nightlatch\.toml:\d+: ", one)] == []


def refusal(text: str) -> str:
    try:
        read(text)
    except BadConfig as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "caps", ["budget = { 'usd/day' = 2 }", '"bud\\u0067et" = { "usd/day" = 2 }', "[budget]\n'usd/day' = 2"]
)
def test_caps_of_all_jobs_are_found_however_they_are_written(tmp_path: Path, caps: str) -> None:
    """A file that does not have the word is not parsed by every run."""
    file = tmp_path / "nightlatch.toml"
    file.write_text(caps)
    assert [cap.amount for cap in of_all_jobs(str(file))] == [2.0]
    file.write_text("[jobs.a]\ncommand = 'true'\n")
    assert of_all_jobs(str(file)) == ()


def test_a_word_is_found_in_a_long_file_wherever_it_is() -> None:
    for before in range(place._PIECE - 8, place._PIECE + 1):
        path = write("#" * before + "budget" + "#" * place._PIECE * 2)
        assert place.mentions(path, "prices", "budget")
        assert not place.mentions(path, "prices", "alerts")
