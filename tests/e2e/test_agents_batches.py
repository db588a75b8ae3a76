"""Many agents at once, and agents of nightlatch.toml: the item's key is the launch's."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import AGENTS, PROVIDERS, agent, begin
from tests.support.programs import environment, kill_all, nightlatch, start, until
from tests.support.runs import one
from tests.support.vendor import managed
from tests.support.vendor.managed import ManagedVendor, Work

ITEMS = 4


@pytest.fixture
def vendor() -> Iterator[ManagedVendor]:
    with ManagedVendor() as made:
        yield made


@pytest.fixture
def items(tmp_path: Path) -> Path:
    path = tmp_path / "posts.jsonl"
    path.write_text("".join(json.dumps({"slug": f"p{n}", "title": f"night {n}"}) + "\n" for n in range(ITEMS)))
    return path


def batch(items: Path, *more: str) -> list[str]:
    return [
        "batch", "posts", str(items), "--key", "{slug}", "--provider", "google", "--agent", AGENTS["google"],
        "--input", "write about {title}", "--set", "every=200ms", "--set", "priced_as=gemini-3.1-pro-preview", *more,
    ]  # fmt: skip


def test_the_batch_at_2_in_the_morning_whose_third_session_timed_out(
    sqlite_url: str, vendor: ManagedVendor, items: Path
):
    vendor.work = Work(polls=1)
    launched = vendor._make

    def make(kind: str, body: dict[str, object]) -> managed.Agent:
        made = launched(kind, body)
        if "night 2" in str(body["input"]):
            made.work = Work(polls=0)
        return made

    vendor._make = make  # type: ignore[method-assign]
    done = nightlatch(sqlite_url, *batch(items, "--timeout", "6s"), env=vendor.environment())
    assert done.returncode == 1, done.stderr
    assert len(vendor.working()) == ITEMS and not vendor.at_work()  # the third was really ended
    vendor._make = launched  # type: ignore[method-assign]
    done = nightlatch(sqlite_url, *batch(items, "--timeout", "30s"), env=vendor.environment())
    assert done.returncode == 0, done.stderr
    assert len(vendor.working()) == ITEMS + 1  # the others were done
    assert one(sqlite_url, "posts")["usage"]["tokens"] > 0
    assert sorted(vendor.launches().values()) == [1] * (ITEMS + 1)


def test_a_batch_that_was_killed_reattaches_to_its_agents(sqlite_url: str, vendor: ManagedVendor, items: Path):
    vendor.work = Work(polls=0)
    first = start(sqlite_url, *batch(items, "-j", "2"), env=vendor.environment())
    until(lambda: len([a for a in vendor.working() if a.polls]) == 2)
    kill_all(sqlite_url)
    first.wait()
    for made in vendor.working():
        made.work = Work(polls=1)
    vendor.work = Work(polls=1)
    done = nightlatch(sqlite_url, *batch(items, "-j", "2"), env=vendor.environment())
    assert done.returncode == 0, done.stderr
    assert len(vendor.working()) == ITEMS and set(vendor.launches().values()) == {1}


def test_the_agents_of_a_batch_that_is_cancelled_are_ended(sqlite_url: str, vendor: ManagedVendor, items: Path):
    vendor.work = Work(polls=0)
    first = start(sqlite_url, *batch(items, "-j", "3"), env=vendor.environment())
    until(lambda: len([a for a in vendor.working() if a.polls]) == 3)
    assert nightlatch(sqlite_url, "cancel", one(sqlite_url, "posts")["run"]).returncode == 0
    first.communicate(timeout=60)
    assert not vendor.at_work()


def test_an_agent_of_nightlatch_toml(sqlite_url: str, vendor: ManagedVendor, tmp_path: Path, items: Path):
    (tmp_path / "prompt.md").write_text("the whole prompt")
    (tmp_path / "nightlatch.toml").write_text(
        """
[jobs.article]
timeout = "1m"
workspace = "scratch"
publish = ["answer.md=out.md"]
agent = { provider = "anthropic", agent = "agent_1", input = "@prompt.md", environment_id = "env_1", every = "200ms" }

[jobs.posts]
items = "posts.jsonl"
key = "{slug}"
jobs = 2
agent = { provider = "openai", agent = "gpt-5.4", input = "write about {title}", every = "200ms" }
"""
    )
    checked = nightlatch(sqlite_url, "check", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    done = nightlatch(sqlite_url, "run", "article", "--key", "k", cwd=tmp_path, env=vendor.environment())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.md").read_text() == "the answer"
    (made,) = vendor.working()
    assert made.body["events"][0]["content"][0]["text"] == "the whole prompt"
    done = nightlatch(sqlite_url, "run", "posts", cwd=tmp_path, env=vendor.environment())
    assert done.returncode == 0, done.stderr
    assert len(vendor.working()) == 1 + ITEMS


def test_from_python_with_handle_and_answer(
    sqlite_url: str, vendor: ManagedVendor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    for name, text in environment(sqlite_url, **vendor.environment()).items():
        monkeypatch.setenv(name, text)
    monkeypatch.chdir(tmp_path)
    from nightlatch import agents

    verdict = agents.run(
        "article", provider="openai", agent="gpt-5.4", input="go", key="k", fields={"every": "200ms"}, timeout="1m"
    )
    (made,) = vendor.working()
    assert (verdict.status, verdict.handle, verdict.answer) == ("succeeded", made.id, "the answer")


# ── budgets ──


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ("anthropic", lambda body: body["budget"]["max_list_cost"]["amount"] == "50"),
        ("google", lambda body: int(body["agent_config"]["max_total_tokens"]) > 1000),
        ("openai", lambda body: body["max_output_tokens"] > 1000),
        ("command", lambda body: body["usd"] == 0.5),
    ],
)
def test_what_is_left_goes_into_the_launch_in_the_vendors_words(sqlite_url, vendor, provider, words):
    done = agent(sqlite_url, vendor, provider, "--budget", "usd=0.5")
    assert done.returncode == 0, done.stderr
    (made,) = vendor.working()
    assert words(made.body), made.body


def test_without_a_price_nothing_is_launched_under_a_budget_in_usd(sqlite_url: str, vendor: ManagedVendor):
    words = ["agent", "run", "a", "--provider", "google", "--agent", "some-agent", "--input", "go", "--budget", "usd=1"]
    done = nightlatch(sqlite_url, *words, env=vendor.environment())
    assert done.returncode == 64 and "priced_as" in done.stderr, done.stderr
    assert not vendor.working()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_it_is_cancelled_before_its_budget_is_passed(sqlite_url: str, vendor: ManagedVendor, provider: str):
    """Over by at most what two polls used: in dollars where the vendor counts them, else in tokens."""
    vendor.work = Work(polls=0, usd=0.1, tokens=10_000)
    in_usd = provider in ("anthropic", "command")
    done = agent(sqlite_url, vendor, provider, "--budget", "usd=1" if in_usd else "tokens=100000")
    assert done.returncode == 121, done.stderr
    run = one(sqlite_url, "article")
    assert run["usage"]["usd"] <= 1.0 + 2 * 0.1 if in_usd else run["usage"]["tokens"] <= 100_000 + 2 * 10_000
    (made,) = vendor.working()
    assert run["usage"]["tokens"] == made.polls * 10_000  # the vendor's last figures
    assert "cancelled for its budget" in run["reason"] and not vendor.at_work()


def test_two_launches_do_not_each_get_the_whole_day(sqlite_url: str, vendor: ManagedVendor):
    vendor.work = Work(polls=0, usd=0.0, tokens=0)
    all_jobs = {"NIGHTLATCH_BUDGET": "usd/day=4"}
    first = begin(sqlite_url, vendor, "command", job="one", variables=all_jobs)
    until(lambda: any(a.polls for a in vendor.working()))
    second = begin(sqlite_url, vendor, "command", job="two", variables=all_jobs)
    until(lambda: len([a for a in vendor.working() if a.polls]) == 2)
    assert [a.body["usd"] for a in vendor.working()] == [1.0, 0.75]  # a quarter of what is left, which is held
    for process in (first, second):
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert not vendor.at_work()
