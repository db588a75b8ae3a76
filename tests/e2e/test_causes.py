"""Messages that name the real cause and the cure."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nightlatch.agents import providers
from nightlatch.cli import main
from nightlatch.errors import UsageError
from tests.support import clones
from tests.support.programs import NIGHTLATCH, environment, nightlatch, said
from tests.support.servers import s3
from tests.support.servers.git import git_repository


@pytest.mark.parametrize(
    ("written", "expected"),
    [("1 hour", "1h"), ("90 minutes", "90m"), ("1 h 30 min", "1h30m"), ("2 days", "2d"), ("10 secs", "10s")],
)
def test_a_time_in_words_gets_the_time_to_write(sqlite_url, written, expected):
    assert f"write '{expected}'" in said(nightlatch(sqlite_url, "run", "a", "--timeout", written, "--", "true"), 64)


def test_publishing_into_a_folder_that_is_not_there_is_refused_and_parents_makes_it(sqlite_url, tmp_path):
    (tmp_path / "page").write_text("hello")
    target = tmp_path / "wwww" / "page.html"

    def publish(*more):
        return nightlatch(
            sqlite_url, "lock", "site", "--", *NIGHTLATCH, "publish", "page", str(target), *more, cwd=tmp_path
        )

    refused = publish()
    assert refused.returncode == 64 and "--parents" in refused.stderr and not target.parent.exists()
    assert publish("--parents").returncode == 0 and target.read_text() == "hello"


def test_a_nonsense_retry_after_is_a_plain_retry_and_not_a_permanent_failure(sqlite_url):
    done = nightlatch(sqlite_url, "fail", "--http", "429", "--retry-after", "soonish")
    assert done.returncode == 75 and "soonish" in done.stderr


def test_a_placeholder_that_no_item_has_is_refused_before_the_first_item(sqlite_url, tmp_path):
    (tmp_path / "posts.jsonl").write_text('{"slug": "a", "site": "x"}\n{"slug": "b", "title": "t"}\n')
    words = ("batch", "posts", "posts.jsonl", "--key", "{slug}", "--")
    refused = said(nightlatch(sqlite_url, *words, "touch", "{slugg}", cwd=tmp_path), 64)
    assert "'slugg'" in refused and "did you mean {slug}?" in refused
    assert [path.name for path in tmp_path.iterdir() if path.name in ("a", "b")] == []
    some = nightlatch(sqlite_url, *words, "touch", "{title}", cwd=tmp_path)
    assert some.returncode == 1 and (tmp_path / "t").exists(), "a field that some items have is not a mistake"


def test_a_script_that_is_not_in_an_empty_workspace_is_named_by_its_whole_path(sqlite_url, tmp_path):
    (tmp_path / "report.sh").write_text("#!/bin/sh\necho report > out.html\n")
    (tmp_path / "report.sh").chmod(0o755)
    words = ("run", "report", "--workspace", "scratch", "--publish", f"out.html={tmp_path}/report.html", "--")
    missing = nightlatch(sqlite_url, *words, "./report.sh", cwd=tmp_path)
    assert missing.returncode == 127
    assert f"a scratch workspace is empty, so name it by its whole path, {tmp_path}/report.sh" in missing.stderr
    assert nightlatch(sqlite_url, *words, f"{tmp_path}/report.sh", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("content", "mode", "command", "hint"),
    [
        (b"#!/bin/sh\n", 0o644, "./it.sh", "./it.sh cannot be executed: Permission denied: chmod +x ./it.sh"),
        (b"#!/no/such\n", 0o755, "./it.sh", "./it.sh: not found: its first line names /no/such, which does not exist"),
        (b"#!/bin/sh\r\n", 0o755, "./it.sh", "./it.sh: not found: its lines end as on Windows; convert them: sed -i"),
        (b"", 0o755, "./", "./ cannot be executed: Permission denied: it is a folder"),
        (b"", 0o755, "echo hello", "echo hello: not found: this is one word; write it without quotes, or use sh -c"),
    ],
    ids=["mode", "interpreter", "windows", "folder", "quoted"],
)
def test_a_command_that_cannot_be_executed_says_what_to_change(sqlite_url, tmp_path, content, mode, command, hint):
    (tmp_path / "it.sh").write_bytes(content)
    (tmp_path / "it.sh").chmod(mode)
    failed = nightlatch(sqlite_url, "run", "it", "--", command, cwd=tmp_path)
    assert failed.returncode in (126, 127)
    assert hint in failed.stderr


def test_a_script_that_was_not_pushed_is_missing_in_a_clone_and_the_reason_says_why(sqlite_url, tmp_path):
    remote = git_repository(tmp_path / "remote.git")
    clones.begun(remote, tmp_path / "first")
    checkout = clones.clone(remote, tmp_path / "checkout")
    (checkout / "write.sh").write_text("#!/bin/sh\n")
    words = ("run", "articles", "--workspace", "git", "--", "./write.sh")
    missing = nightlatch(sqlite_url, *words, cwd=checkout)
    why = "./write.sh: not found: the clone has the branch main as the remote has it; commit and push it first. Its wor"
    assert missing.returncode == 127 and why in missing.stderr, missing.stderr
    clones.git(checkout, "add", "write.sh")
    clones.git(checkout, "commit", "--quiet", "-m", "without its mode")
    clones.git(checkout, "push", "--quiet", "origin", "main")
    (checkout / "write.sh").chmod(0o755)
    mode = nightlatch(sqlite_url, *words, cwd=checkout)
    assert mode.returncode == 126 and "chmod +x ./write.sh, then commit and push it. Its workspace" in mode.stderr


def test_an_object_without_credentials_says_what_to_set(sqlite_url, tmp_path):
    (tmp_path / "page").write_text("hello")
    env = {"AWS_METADATA_ENDPOINT": "http://127.0.0.1:9", "HOME": str(tmp_path)}
    without = ("env", *(f"-u{name}" for name in s3.CREDENTIALS))
    words = ("lock", "site", "--", *without, *NIGHTLATCH, "publish", "page", "s3://bucket/page")
    done = nightlatch(sqlite_url, *words, cwd=tmp_path, env=env)
    assert done.returncode == 69 and "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in done.stderr, done.stderr


def test_a_job_goes_on_from_a_time_that_is_over_and_not_from_one_to_come(sqlite_url, tmp_path):
    (tmp_path / "nightlatch.toml").write_text('[jobs.articles]\nschedule = "0 2 * * *"\ncommand = "true"\n')
    assert nightlatch(sqlite_url, "tick", cwd=tmp_path).returncode == 0
    words = ("slots", "articles", "--from")
    refused = said(nightlatch(sqlite_url, *words, "2126-11-18T02:00", cwd=tmp_path, timeout=30), 64)
    assert "is in the future" in refused and "nightlatch pause articles --until" in refused
    assert nightlatch(sqlite_url, *words, "2026-11-01T02:00", cwd=tmp_path).returncode == 0


def test_an_extra_that_is_missing_comes_with_the_line_that_installs_it(sqlite_url):
    hidden = "import sys; sys.modules['prometheus_client'] = None; from nightlatch.cli.main import main; main()"
    assert nightlatch(sqlite_url, "run", "a", "--", "true").returncode == 0
    done = subprocess.run(
        [sys.executable, "-c", hidden, "metrics"], env=environment(sqlite_url), text=True, capture_output=True
    )
    assert said(done, 64).endswith("'prometheus-client>=0.22'\n") and sys.executable in done.stderr


def test_show_knows_effects_and_resolve_knows_jobs(sqlite_url):
    assert nightlatch(sqlite_url, "once", "invoice/1", "--", "false").returncode == 76
    shown = nightlatch(sqlite_url, "show", "invoice/1")
    assert shown.returncode == 0 and "effect invoice/1: in-doubt" in shown.stdout
    assert "nightlatch resolve invoice/1" in shown.stdout
    assert nightlatch(sqlite_url, "run", "crawl", "--", "sh", "-c", "kill -9 $PPID").returncode == 125
    assert nightlatch(sqlite_url, "resolve", "crawl").returncode == 76, "it names the run, and asks"
    assert nightlatch(sqlite_url, "resolve", "crawl", "failed").returncode == 0
    assert "there is nothing to resolve" in said(nightlatch(sqlite_url, "resolve", "crawl", "failed"), 64)


def test_an_item_that_is_given_up_is_set_aside_for_good(sqlite_url, tmp_path):
    (tmp_path / "posts.jsonl").write_text('{"slug": "a"}\n{"slug": "b"}\n{"slug": "c"}\n')
    words = ("batch", "posts", "posts.jsonl", "--key", "{slug}")
    script = ("--", "sh", "-c", 'echo "$0" >> did; test "$0" != a || exit 64; test "$0" != c', "{slug}")
    assert nightlatch(sqlite_url, *words, *script, cwd=tmp_path).returncode == 1
    failing = nightlatch(sqlite_url, "resolve", "c", "give-up", "--batch", "posts")
    assert failing.returncode == 0, f"one that keeps failing can be given up too: {failing.stderr}"
    assert "nothing to resolve" in said(nightlatch(sqlite_url, "resolve", "b", "give-up", "--batch", "posts"), 64)
    assert "give-up --batch posts" in nightlatch(sqlite_url, "resolve", "a").stdout, "it is one of the choices"
    given = nightlatch(sqlite_url, "resolve", "a", "give-up")
    assert given.returncode == 0 and "given-up" in given.stdout
    assert nightlatch(sqlite_url, "status", "--exit-code").returncode in (0, 1)
    assert "resolve a" not in nightlatch(sqlite_url, "status").stdout
    again = nightlatch(sqlite_url, *words, "--retry-failed", *script, cwd=tmp_path)
    assert again.returncode == 0 and (tmp_path / "did").read_text().count("a") == 1, again.stderr
    assert nightlatch(sqlite_url, "resolve", "a", "again", "--batch", "posts").returncode == 0
    assert nightlatch(sqlite_url, *words, *script, cwd=tmp_path).returncode == 1
    assert (tmp_path / "did").read_text().count("a") == 2
    assert nightlatch(sqlite_url, "audit", "verify").returncode == 0
    assert "item of a batch" in said(nightlatch(sqlite_url, "resolve", "posts", "give-up"), 64)


def test_an_untracked_file_in_the_way_of_a_push_is_named_with_its_cure(sqlite_url, tmp_path):
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "remote"], check=True)
    ours = clones.begun(tmp_path / "remote", tmp_path / "ours")
    theirs = clones.clone(tmp_path / "remote", tmp_path / "theirs")
    clones.git(theirs, "reset", "--quiet", "--hard", "origin/main")
    clones.commit(theirs, "notes.md", b"theirs\n")
    clones.git(theirs, "push", "--quiet", "origin", "main")
    clones.commit(ours, "article.md", b"ours\n")
    (ours / "notes.md").write_text("not tracked\n")
    push = ("lock", "site", "--", *NIGHTLATCH, "push", "origin", "main")
    refused = said(nightlatch(sqlite_url, *push, cwd=ours), 76)
    assert "not tracked by git: notes.md." in refused and "move them away or commit them" in refused, refused
    assert (ours / "notes.md").read_text() == "not tracked\n"
    (ours / "notes.md").rename(ours / "mine.md")
    assert nightlatch(sqlite_url, *push, cwd=ours).returncode == 0


def test_a_script_that_starts_its_job_while_it_is_imported_gets_one_line(sqlite_url, tmp_path):
    script = tmp_path / "nightly.py"
    script.write_text(
        "import nightlatch\n@nightlatch.job(key='k')\ndef nightly():\n    pass\nprint(nightly.run().status)\n"
    )
    done = subprocess.run([sys.executable, script], env=environment(sqlite_url), text=True, capture_output=True)
    line = f'put the start below if __name__ == "__main__":, at {script}:5'
    assert done.stdout == "failed\n" and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.splitlines()[0].startswith("nightlatch: nightly is started while")
    assert done.stderr.splitlines()[0].endswith(line) and line in nightlatch(sqlite_url, "show", "nightly").stdout


def test_show_has_the_traceback_of_an_item_that_failed_in_a_map(sqlite_url, tmp_path):
    (tmp_path / "nightly.py").write_text(
        "import nightlatch\ndef send(reader):\n    return 1 / (len(reader) - 3)\n"
        "@nightlatch.job(key='k')\ndef nightly():\n    nightlatch.current().map(send, ['ann', 'bert', 'clara'])\n"
        "if __name__ == '__main__':\n    nightly.run()\n"
    )
    subprocess.run([sys.executable, tmp_path / "nightly.py"], env=environment(sqlite_url), capture_output=True)
    shown = nightlatch(sqlite_url, "show", "nightly").stdout
    assert "item ann:" in shown and "return 1 / (len(reader) - 3)" in shown, shown
    assert shown.count("ZeroDivisionError: division by zero") >= 1 and shown.count("item ann:") == 1, shown
    assert "2/3 send" in shown, "progress counts what is done"


def test_progress_counts_items_that_share_a_key(sqlite_url, tmp_path):
    (tmp_path / "nightly.py").write_text(
        "import nightlatch\n@nightlatch.job(key='k')\ndef nightly():\n"
        "    nightlatch.current().map(len, ['ann', 'ann', 'bert'])\n"
        "if __name__ == '__main__':\n    nightly.run()\n"
    )
    subprocess.run([sys.executable, tmp_path / "nightly.py"], env=environment(sqlite_url), capture_output=True)
    assert "3/3 len" in nightlatch(sqlite_url, "show", "nightly").stdout


def test_a_name_for_a_schedule_is_taken_wherever_a_schedule_is(sqlite_url, tmp_path):
    words = ("--slot", "@daily", "--tz", "UTC", "--", "true")
    assert nightlatch(sqlite_url, "run", "a", *words).returncode == 0
    assert "T00:00Z" in nightlatch(sqlite_url, "runs", "--job", "a").stdout
    assert "@hourly, @daily" in said(nightlatch(sqlite_url, "run", "a", "--slot", "@noon", "--", "true"), 64)
    (tmp_path / "nightlatch.toml").write_text('[jobs.b]\nschedule = ["@weekly", "@hourly"]\ncommand = "true"\n')
    assert nightlatch(sqlite_url, "check", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("resume", "articles"), "did you mean 'unpause'?"),
        (("lease",), "VERB is missing: use one of acquire, renew,"),
        (("completion", "tcsh"), "use one of bash, zsh, fish."),
        (("--store", "/srv/nightly.db", "runs"), "write sqlite:////srv/nightly.db;"),
        (("--store", "sqlite:///srv/nightly.db", "runs"), "Write sqlite:////srv/nightly.db (four slashes)"),
        (("batch", "a", "items.jsonl", "--key", "{slugg}", "--", "true"), "did you mean {slug}? (Plain"),
        (("batch", "a", "items.jsonl", "--key", "{zzz}", "--", "true"), "has slug. (Plain"),
        (("agent", "run", "a", "--provider", "nobody", "--agent", "b", "--input", "c"), "no provider 'nobody'"),
    ],
)
def test_a_slip_gets_the_words_to_type(words, hint, sqlite_url, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NIGHTLATCH_STORE", sqlite_url)
    (tmp_path / "items.jsonl").write_text('{"slug": "a"}\n')
    monkeypatch.chdir(tmp_path)
    assert main.run(list(words)) == 64
    said = capsys.readouterr().err
    assert hint in said and said.count("\n") == 1, said


@pytest.mark.parametrize("provider", ["anthropic", "google", "openai"])
def test_an_agent_without_an_api_key_is_not_launched(provider, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "OPENAI_", "GOOGLE_", "GEMINI_"))]:
        monkeypatch.delenv(name)
    with pytest.raises(UsageError, match="_API_KEY is not set"):
        providers.load(provider, {})


def test_a_run_that_printed_nothing_says_so(sqlite_url):
    assert nightlatch(sqlite_url, "run", "silent", "--", "true").returncode == 0
    logs = nightlatch(sqlite_url, "logs", "silent")
    assert (logs.returncode, logs.stdout) == (0, "") and "has printed nothing" in logs.stderr
