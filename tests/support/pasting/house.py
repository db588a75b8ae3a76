"""A home that has what the documents take for granted: a clone of a blog, scripts, an agent, people's tools.

Placeholders that cannot be made true are replaced when a command is pasted, and no others: see `stand_ins`.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.pasting.pages import of_cron

TOML = """\
[alerts.webhook]
url = "http://127.0.0.1:9/"

[jobs.articles]
schedule = "0 2 * * *"
command = "./articles.sh"
timeout = "1h"
stage = "manual"
"""

_POSTS = '{"site": "example.org", "slug": "hello", "title": "Hello"}\n{"site": "example.org", "slug": "tides", "title": "Tides"}\n'

# Scripts of the blog, each as short as it can be and do what its page says of it.
SCRIPTS = {
    "articles.sh": "echo one article written",
    "write.sh": 'mkdir -p posts; echo "# Tides" > "posts/$NIGHTLATCH_KEY.md"',
    "write": "date >> article.md; git add article.md",
    "report.sh": "echo report | tee page.html out.html data; mkdir -p build; echo index > build/index.html",
    "crawl.sh": "mkdir -p out; echo page > out/page",
    "post.sh": 'echo "posted $1"',
    "post": 'echo "posted $1"',
    "write-post": 'echo "written $1"',
    "send": 'echo "sent $1" >> sent',
    "was-sent": 'grep -q "$1" sent',
    "send-invoice": 'echo "sent $1"',
    "send-invoice.sh": "echo sent",
    "was-it-sent.sh": "exit 1",
    "is-posted": "exit 1",
    "deploy": 'echo "deployed $1"',
    "build.sh": "echo '<h1>built</h1>'",
    "build-reports.sh": "echo built",
    "every-minute.sh": "echo built",
    "report": "echo '<h1>report</h1>'",
    "feed": "echo '<rss/>'",
    "charge": 'echo "charged under $2"',
    "report.py": "print(1)",
    "one-step": "true",
}

# Programs on PATH that stand for others: the agent, and what needs a desktop, a mailbox or another machine.
PROGRAMS = {
    "claude": 'mkdir -p posts drafts; echo "# $2" > page.md; cp page.md posts/next.md; echo \'{"result": "done"}\'',
    "convert": 'cp "$1" "$4"',
    "notify-send": "true",
    "mail": "cat > /dev/null",
    "ssh": "cat > /dev/null",
    "crontab": 'echo "0 2 * * * cd $HOME/blog && ./articles.sh"',
    "less": "cat > /dev/null",
    "socat": 'exec python "$HOME/socat.py" "$4"',
    "editor": "true",
}


_SOCAT = """\
import socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1].partition(":")[2])
line.sendall(sys.stdin.buffer.read())
line.shutdown(socket.SHUT_WR)
while part := line.recv(4096):
    sys.stdout.buffer.write(part)
"""


class House:
    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder, self.home = folder, folder / "home" / "ann"
        self.blog, self.srv = self.home / "blog", folder / "srv"
        self.bin = self.home / ".local" / "bin"
        self.bin.mkdir(parents=True)
        for place in ("www", "git"):
            (self.srv / place).mkdir(parents=True)
        _script(self.bin / "nightlatch", f'exec {shlex.quote(sys.executable)} -m nightlatch "$@"')
        _script(self.bin / "python", f'exec {shlex.quote(sys.executable)} "$@"')
        for name, text in PROGRAMS.items():
            _script(self.bin / name, text)
        kept = {name: os.environ[name] for name in ("TZ", "LANG", "SYSTEMROOT") if name in os.environ}
        self.environment = kept | {
            "HOME": str(self.home), "PATH": f"{self.bin}:{os.environ['PATH']}", "EDITOR": "editor", "BROWSER": "true",
            "NIGHTLATCH_ALERTS": "off",  # nothing listens there: a sender would try again for days
            "GIT_CONFIG_GLOBAL": str(self.home / ".gitconfig"), "SITE": "example.org", "SLUG": "hello",
        } | variables  # fmt: skip
        self._blog()
        self.ids: dict[str, str] = {}
        self.prepared: set[int] = set()
        self.toml = ""
        self._started: list[subprocess.Popen[bytes]] = []
        (self.home / "socat.py").write_text(_SOCAT)

    def _blog(self) -> None:
        """A clone of a bare remote that is also known by the address which the pages give it."""
        remote = self.srv / "git" / "site.git"
        (self.home / ".gitconfig").write_text(
            "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"
            f'[url "{remote}"]\n\tinsteadOf = ssh://git@example.org/ann/blog.git\n'
            "\tinsteadOf = https://example.org/site.git\n"
        )
        self.run(f"git init -q --bare {remote} && git clone -q {remote} {self.blog} 2>&1", cwd=self.folder)
        for name, text in SCRIPTS.items():
            _script(self.blog / name, text)
        files = {
            "posts.jsonl": _POSTS, "pages.jsonl": _POSTS, "people.csv": "email\nann@example.org\nben@example.org\n",
            "names.txt": "one.png\ntwo.png\n", "one.png": "", "two.png": "", "prompt.md": "Write", "review.md": "Review",
            "digest.md": "Digest", "42.json": "{}", "post.json": "{}", "build.sha256": "9f2c", "data.parquet": "p",
            "out.parquet": "p", "new.html": "new", "out.html": "old", "old-crontab.txt": "0 2 * * * ./articles.sh\n",
        }  # fmt: skip
        for name, text in files.items():
            (self.blog / name).write_text(text)
        for name in ("drafts", "out", "build"):
            (self.blog / name).mkdir()
        (self.blog / "build" / "index.html").write_text("built")
        (self.blog / ".gitignore").write_text("*.part\n")
        self.run("git add -A && git commit -qm start && git push -q origin main")

    def configure(self, text: str = TOML) -> None:
        self.toml = text
        (self.blog / "nightlatch.toml").write_text(text)

    def start(self, line: str) -> None:
        self._started.append(subprocess.Popen(
            ["bash", "-c", line], env=self.environment, cwd=self.blog, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
        ))  # fmt: skip

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.terminate()
            process.wait()

    def run(self, line: str, cwd: Path | None = None, ok: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            ["bash", "-c", line], env=self.environment, cwd=cwd or self.blog, text=True, capture_output=True, timeout=60,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode in ok, f"{line}\nexit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def stand_ins(self, text: str) -> str:
        """What cannot be true here: folders that belong to the system, and ids, which are random."""
        known = {"/srv/": f"{self.srv}/", "/home/ann": str(self.home), "/var/lib/node_exporter": str(self.srv)}
        for word, instead in (known | self.ids).items():
            text = text.replace(word, instead)
        return text

    def paste(self, lines: list[str], within: Callable[[str], str], story: str = "") -> list[tuple[str, int, str]]:
        """(command, exit code, what it printed) of each, in one shell."""
        settings = {}
        script = [f"cd {shlex.quote(str(self.blog))}"]
        shown = self.folder / "shown"
        shown.mkdir(exist_ok=True)
        cron = any(of_cron(line) for line in lines)
        for number, command in enumerate(lines):
            text = self.stand_ins(command)
            name, equals, value = text.partition("=")
            if cron and equals and name.isidentifier():  # a setting of the crontab
                settings[name] = value
                text = "true"
            elif of_cron(text):
                text = f"cd && sh -c {shlex.quote(of_cron(text))}"
            wrapped = self._wrapped(text, number, within(command))
            script.append(f"{{ {wrapped}\n}} > {shown}/{number} 2>&1 ; echo $? > {shown}/{number}.code")
        process = subprocess.Popen(
            [*(["nightlatch", *story.split(), "--"] if story else []), "bash", "-c", "\n".join(script)],
            cwd=self.blog, env=self.environment | settings, process_group=0,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            rest, _ = process.communicate(timeout=100)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        found = []
        for number, command in enumerate(lines):
            code = shown / f"{number}.code"
            printed = (shown / str(number)).read_text(errors="replace") if (shown / str(number)).exists() else rest
            found.append((command, int(code.read_text()) if code.exists() else process.returncode, printed))
        for file in shown.iterdir():
            file.unlink()
        return found

    def _wrapped(self, text: str, number: int, within: str) -> str:
        if _stays(text):
            return f"{sys.executable} -m tests.support.pasting.served {shlex.quote(text)}"
        if "nightlatch approve" in text or ("store remove" in text and "--yes" not in text):
            return f"{sys.executable} -m tests.support.pasting.answered {shlex.quote(text)}"
        if not within:
            return text
        file = self.folder / f"within-{number}"
        file.write_text(text)
        return f"nightlatch {within} -- bash {file}"


def _stays(text: str) -> bool:
    """Does it go on until somebody ends it?"""
    return any(words in text for words in ("nightlatch serve", "nightlatch open")) and "--revoke" not in text


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
