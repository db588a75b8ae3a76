"""A job is declared once: how its options are read, named in errors, packed and hashed."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import pytest

import nightlatch
from nightlatch.cli import batch as batch_command
from nightlatch.cli import run as run_command
from nightlatch.cli.arguments import Parser
from nightlatch.core import options
from nightlatch.core.batch import Batch
from nightlatch.core.job import Job, unpack
from nightlatch.core.options import BATCH, CALL, DECORATOR, FILE, RUN, as_flag, as_keyword
from nightlatch.core.target import Command, Function
from nightlatch.core.value import replace
from nightlatch.errors import BadOption
from nightlatch.runtime.shared.job import definition

COMMAND = Command(words=("sh", "-c", "true"))
FUNCTION = Function(where="nightly:articles", arguments='{"args": ["é"], "kwargs": {}}', path=("/a",), interpreter="py")

# One value of each option that is not its default, as Python writes it.
EVERY: dict[str, Any] = {
    "key": "k", "slot": "0 2 * * *", "tz": "Europe/Berlin", "ttl": "30s", "wait": "1m", "timeout": None, "stall": "5m",
    "progress": ["report", "out"], "grace": "1s", "budget": {"usd": 0.1234567, "usd/day": 10}, "meter": "output",
    "env": {"A": "b=c", "B": ""}, "cwd": "there", "workspace": "git:/srv/site.git#main", "publish": ["git", "a=b"],
    "input": ["one", "two\udc80"], "require": ["test -f a"], "ensure": ["test -f b"], "ping": "https://example.org/x",
    "lost": "again", "keep_awake": True, "retries": 2, "backoff": "1s", "again": True,
    "new": True, "pass_store": True, "schedule": ["0 2 * * *", "every 45m"], "overlap": "queue", "catch_up": "none",
    "late": "2h", "jitter": "5m", "hosts": ["air", "mini"], "tags": {"site": "example.org"}, "version": ["claude", "--version"], "env_file": ".env",
    "stage": "supervised", "hold": "start", "expires": "1d", "promote_after": [2, 5],
}  # fmt: skip
IN_CODE = [field for field, row in options.rows(Job).items() if CALL in row.where]


def job(target: Command | Function = COMMAND, where: str = "", **given: Any) -> Job:
    return Job(name="night", target=target, **options.read(Job, given, where, as_keyword))


def test_this_test_knows_every_option():
    assert EVERY.keys() == options.rows(Job).keys()


@pytest.mark.parametrize("target", [COMMAND, FUNCTION])
def test_a_job_packs_and_unpacks_as_json(target):
    packed = replace(job(target, **EVERY), due="d", missed=3, since="s", defined_as="x")
    assert unpack(json.loads(json.dumps(packed.pack()))) == packed
    assert unpack(json.loads(json.dumps(job(target).pack()))) == job(target)


def test_what_another_version_has_packed_is_refused_and_not_half_read():
    packed = job().pack() | {"options": {"colour": "red"}}
    with pytest.raises(nightlatch.Error, match="packed by another version"):
        unpack(packed)


def test_what_only_a_schedule_needs_is_valid_in_the_file_alone():
    only = [field for field, row in options.rows(Job).items() if row.where == (FILE,)]
    assert only == [
        "schedule",
        "overlap",
        "catch_up",
        "late",
        "jitter",
        "hosts",
        "stage",
        "hold",
        "expires",
        "promote_after",
        "tags",
        "version",
        "env_file",
    ]
    assert [field for field in IN_CODE if FILE not in options.rows(Job)[field].where] == ["key", "slot", "again", "new"]
    with pytest.raises(BadOption, match="two runs of a job would write at once"):
        job(overlap="allow")


@pytest.mark.parametrize("field", IN_CODE)
def test_python_and_the_command_line_take_every_option_of_the_table(field):
    row = options.rows(Job)[field]
    assert (RUN in row.where, CALL in row.where) == (True, True)
    assert field in inspect.signature(nightlatch.run).parameters
    assert (field in inspect.signature(nightlatch.job).parameters) == (DECORATOR in row.where)
    value = EVERY[field]
    words = [] if row.flag else ["none"] if value is None else [str(value)]
    if isinstance(value, dict):
        words = [",".join(f"{name}={amount}" for name, amount in value.items())]
    if field == "env":
        words = [f"{name}={text}" for name, text in value.items()]
    elif isinstance(value, list):
        words = value
    written = [as_flag(field)] if row.flag else [f"{as_flag(field)}={word}" for word in words]
    parser = Parser("run", "")
    parser.add_options(run_command.OPTIONS.values())
    given: dict[str, Any] = parser.parse_args(written).given_values(run_command.OPTIONS)
    assert given.keys() == {field}
    assert job(where=RUN, **given) == job(**{field: value})


def test_each_front_end_names_a_field_its_own_way():
    def in_file(field: str, value: str = "") -> str:
        return f'{field} = "{value}"' if value else f"nightlatch.toml:12 {field}"

    for name, called, advice in (
        (as_flag, "--stall", "--progress report"),
        (as_keyword, "stall", 'progress="report"'),
        (in_file, "nightlatch.toml:12 stall", 'progress = "report"'),
    ):
        with pytest.raises(BadOption, match=f"^{re.escape(called)} 'soon' is not understood") as error:
            options.read(Job, {"stall": "soon"}, CALL, name)
        assert error.value.field == "stall"
        with pytest.raises(BadOption, match=re.escape(advice)) as error:
            job(stall="5m").check(name)
        assert error.value.field == "stall"
    assert as_flag("keep_awake") == "--keep-awake"


@pytest.mark.parametrize(
    ("given", "field", "hint"),
    [
        ({"meter": "guess"}, "meter", "use one of gateway, report, output"),
        ({"env": {"NIGHTLATCH_RUN": "x"}}, "env", "another name"),
        ({"env": {"A": 5}}, "env", "pass a string"),
        ({"keep_awake": "yes"}, "keep_awake", "True or False"),
        ({"colour": "red"}, "colour", "has no option 'colour'"),
        ({"time_out": "1h"}, "time_out", "did you mean 'timeout'"),
        ({"wait": ""}, "wait", "is empty"),
        ({"slot": "0 2 * * *", "key": "k"}, "key", "drop key"),
        ({"tz": "UTC"}, "tz", 'add slot="WHEN"'),
        ({"new": True, "key": "k"}, "new", "without a key"),
        ({"ttl": "1ms"}, "ttl", "at least 1s"),
        ({"workspace": "scratch:x"}, "workspace", "neither scratch"),
        ({"publish": "git", "workspace": "scratch"}, "publish", 'add workspace="git"'),
    ],
)
def test_an_error_carries_its_field(given, field, hint):
    with pytest.raises(BadOption, match=re.escape(hint)) as error:
        job(**given).check(as_keyword)
    assert (error.value.field, error.value.exit_code) == (field, 64)


def test_a_batch_reads_its_own_table():
    assert [field for field in options.rows(Batch) if field not in batch_command.OPTIONS] == []
    with pytest.raises(BadOption, match=r"^--max-failures 'some': write a number"):
        Batch(name="b", items="-", command=["x"], max_failures="some").check()
    with pytest.raises(BadOption, match="usd/week=1"):
        options.read(Batch, {"budget": "usd/item=1,usd/week=1"}, BATCH, as_flag)


def test_a_definition_is_the_same_for_every_start_and_on_every_machine():
    """Golden: a changed byte here would make every other machine's job look old."""
    assert definition(job()) == "f862e05b26b76618ce671d95b384dd9631bc491ae346da7d749fd079699a1372"
    some = job(
        FUNCTION, timeout="90s", publish="ü=b", env={"B": "1", "A": "2"}, budget="usd=0.5,usd/day=9", lost="again"
    )
    assert some.definition().split("\n") == [
        "budget=[('usd', 'day', 9.0), ('usd', 'run', 0.5)]",
        "env=['A', 'B']",
        "lost='again'",
        r"publish=('\xfc=b',)",
        "target=('python', 'nightly:articles')",
        "timeout=90.0",
    ]
    whole = job(**EVERY)
    for same in (
        replace(whole, key="other"),
        replace(whole, again=False, new=False),
        replace(whole, env=(("B", "else"), ("A", "secret"))),
        whole.at("2026-11-17T02:00Z"),
    ):
        assert definition(same) == definition(whole)
    assert definition(job(timeout="1h", retries=0)) == definition(job()), "an option at its default says nothing"
    assert definition(job(timeout="60m", budget="usd=2")) == definition(job(timeout="3600s", budget={"usd": 2.0}))


def test_a_definition_changes_with_what_the_job_is():
    fields = [field for field, row in options.rows(Job).items() if row.defines]
    assert set(EVERY) - set(fields) == {
        "key", "again", "new", "jitter", "hosts", "stage", "hold", "expires", "promote_after", "tags", "version", "ping",
    }  # fmt: skip
    found = {definition(job(**{field: EVERY[field]})) for field in fields}
    assert len(found | {definition(job()), definition(job(FUNCTION))}) == len(fields) + 2


def test_a_functions_definition_is_without_machine_and_arguments():
    here = definition(job(FUNCTION))
    moved = replace(FUNCTION, path=("/b",), interpreter="/usr/bin/python3", arguments='{"args": [], "kwargs": {}}')
    assert definition(job(moved)) == here
    script = replace(FUNCTION, where="/home/ann/nightly.py:articles")
    assert definition(job(script)) == definition(job(replace(script, where="/srv/nightly.py:articles")))


def test_a_batchs_definition_has_its_own_options():
    plain = Batch(name="b", items="posts.jsonl", command=["x", "{}"])
    assert len({plain.definition(), replace(plain, jobs=4).definition(), replace(plain, items="-").definition()}) == 3
    assert replace(plain, retry_failed=True, json=True).definition() == plain.definition()
