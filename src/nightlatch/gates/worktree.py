"""The repository that a push comes from: its tip, the trailers added to it, and rebasing onto a branch that moved."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from ..errors import Conflict, GateUnreachable, UsageError
from ..store import url as store_url
from ..store.git.remote import environment
from ..store.git.repository import Repository
from ..system import program, tree
from . import git_guard

_LOCAL_TIMEOUT = 300.0  # seconds: a rebase of many commits takes long
_OUR_TRAILERS = re.compile(r"^Nightlatch-(Job|Run|Attempt|Token): .*\n?", re.MULTILINE)
_REMOTE_TIMEOUT = 900.0  # seconds: a large push, with the hooks of both sides


class Worktree:
    """The repository in `folder`. Its HEAD is what is pushed."""

    def __init__(self, folder: str, *, config: str = "", guard: str = "") -> None:
        """`config`: a file with settings for the remote, in case `folder` lacks them, as a fresh clone does.
        `guard`: a folder of `git_guard.make`, for a repository whose own settings and hooks are not trusted."""
        self.folder = os.path.abspath(folder)
        self._config = ("-c", f"include.path={config}") if config else ()
        # Unlike the store's git, this one belongs to the holder's process tree, and is killed with it.
        self._env = {**environment(), **{name: os.environ[name] for name in (tree.LINEAGE,) if name in os.environ}}
        self._env.pop(store_url.ENV, None)  # the repository's hooks must not see the store's password
        self._guard = guard
        self._settings = [word for text in git_guard.SETTINGS for word in ("-c", text)] if guard else []
        if guard:
            self._env |= git_guard.environment(self.folder, guard)
        # Nobody is there to use an editor.
        self._env |= {"GIT_EDITOR": "true", "GIT_SEQUENCE_EDITOR": "true"}

    def branch(self) -> str:
        """The branch that is checked out."""
        code, out, _ = self.run("symbolic-ref", "--quiet", "--short", "HEAD")
        if code:
            raise UsageError(f"no branch is checked out in {self.folder}: name one, as in nightlatch push origin main")
        return out

    def tip(self) -> str:
        code, out, err = self.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if code:
            raise UsageError(f"there is no commit to push in {self.folder} ({_last_line(err) or 'HEAD is empty'})")
        return out

    def set_tip(self, commit: str) -> None:
        """Point HEAD to another commit, which has the same files as the tip."""
        code, _, err = self.run("update-ref", "HEAD", commit)
        if code:
            raise GateUnreachable(f"HEAD of {self.folder} could not be set to {commit} ({_last_line(err)})")

    def remove_locks(self) -> None:
        """Remove the lock files of a git that was killed here: they would make every later git fail. Only for a folder
        that nobody else works in."""
        top = os.path.join(self.folder, ".git")
        for folder, folders, files in () if os.path.islink(top) else os.walk(top):
            folders[:] = [name for name in folders if name != "objects"]
            for name in files:
                if name.endswith(".lock"):
                    os.unlink(os.path.join(folder, name))

    def track(self, remote: str, branch: str, commit: str) -> None:
        """Update the remote-tracking branch, as `git push` does for a remote with the usual fetch settings."""
        _, specs, _ = self.run("config", "--get-all", f"remote.{remote}.fetch")
        if f"+refs/heads/*:refs/remotes/{remote}/*" in specs.splitlines():
            self.run("update-ref", "-m", "nightlatch push", f"refs/remotes/{remote}/{branch}", commit)

    def contains(self, ancestor: str, commit: str) -> bool:
        return self.run("merge-base", "--is-ancestor", ancestor, commit)[0] == 0

    def merge_base(self, url: str, ref: str, base: str, tip: str) -> str:
        """The newest commit that `tip` shares with `base`, the remote branch; "" if none. Fetches `base` if needed."""
        code, out, _ = self.run("merge-base", base, tip)
        if code > 1:  # base is not here yet
            self.fetch(url, ref, base)
            code, out, _ = self.run("merge-base", base, tip)
        return out if code == 0 else ""

    def fetch(self, url: str, ref: str, wanted: str) -> None:
        """Fetch the branch, unless the commit `wanted` is here already."""
        if self.run("cat-file", "-e", f"{wanted}^{{commit}}")[0] == 0:
            return
        code, _, err = self.fetch_into(url, ref, timeout=_REMOTE_TIMEOUT)
        if code:
            raise GateUnreachable(f"{ref} of {url} could not be fetched ({_last_line(err)}). Nothing was pushed")

    def fetch_into(self, url: str, ref: str, local_ref: str = "", *, timeout: float) -> tuple[int, str, str]:
        """Fetch one ref, and store it as `local_ref` if that is given; returns what `run` returns."""
        words = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--", url)
        return self.run(*self._config, *words, f"+{ref}:{local_ref}" if local_ref else ref, timeout=timeout)

    def rebase_onto(self, base: str, branch: str) -> str:
        """Rebase our commits onto `base`; returns the new tip. Raises `Conflict`, with everything as it was before.

        If our commits include a merge, `base` is merged instead: a rebase would drop merges, and what only they change.
        """
        before, words = self.tip(), ["-c", "rebase.autoStash=true", "rebase", "--quiet", base]
        if self.run("rev-list", "--merges", "--count", f"{base}..{before}")[1] != "0":
            message = f"Merge what others pushed to {branch}"
            words = ["-c", "merge.autoStash=true", "merge", "--quiet", "--no-ff", "-m", message, base]
        code, out, err = self.run(*words)
        if code == 0:
            return self.tip()
        self.run(words[2], "--abort")
        kept = f"nothing was pushed, and the work is kept in {self.folder} as {before[:12]}. There: "
        then = (
            f"then push it (from a run's workspace, whose own push is off, with git push URL HEAD:{branch}, and then "
            f"nightlatch resolve RUN done)"
        )
        if blocking := _untracked_in_the_way(err):
            raise Conflict(
                f"somebody else's push to {branch} has files that are here too and not tracked by git: "
                f"{', '.join(blocking)}. It needs a person: {kept}move them away or commit them, "
                f"git pull --rebase, {then}"
            )
        files = sorted({line.rpartition(" in ")[2] for line in out.splitlines() if line.startswith("CONFLICT")})
        if not files:
            raise Conflict(
                f"this push cannot be rebased onto somebody else's push to {branch} ({_last_line(err)}). It needs a "
                f"person: {kept}git pull --rebase, {then}"
            )
        raise Conflict(
            f"somebody else's push to {branch} conflicts with this one in {', '.join(files)}. It needs a person: {kept}"
            f"git pull --rebase, resolve, {then}"
        )

    def add_trailers(self, tip: str, trailers: Mapping[str, str]) -> str:
        """Add trailers that say where the tip came from; returns the new commit, which is HEAD then.

        A commit with a signature, or one that others already have, is returned unchanged.
        """
        code, content, err = self.run("cat-file", "commit", tip)
        if code:
            raise UsageError(f"{tip} cannot be read in {self.folder} ({_last_line(err)})")
        head, _, message = content.partition("\n\n")
        if "\ngpgsig" in head or self._is_shared(tip):
            return tip
        new_message = self._with_trailers(message, trailers)
        if new_message.strip() == message.strip():
            return tip
        new_tip = self._write_commit(f"{head}\n\n{new_message}")
        # The files are the same, so the checkout stays valid. Git sets HEAD only if it is still `tip`.
        self.run("update-ref", "-m", "nightlatch push: trailers", "HEAD", new_tip, tip)
        return new_tip

    def _is_shared(self, tip: str) -> bool:
        """Does a remote-tracking branch or a tag contain the commit? Then others may have it."""
        return bool(self.run("for-each-ref", "--count=1", "--contains", tip, "refs/remotes", "refs/tags")[1])

    def _with_trailers(self, message: str, trailers: Mapping[str, str]) -> str:
        """The message with these trailers in place of Nightlatch's earlier ones: a command may reuse the message of a
        commit that another attempt pushed."""
        words = [word for name, text in trailers.items() for word in ("--trailer", f"{name}: {text}")]
        plain = f"{_OUR_TRAILERS.sub('', message).rstrip()}\n"
        code, out, _ = self.run("interpret-trailers", "--no-divider", "--if-missing", "add", *words, stdin=plain)
        return message if code else f"{out}\n"

    def _write_commit(self, commit: str) -> str:
        code, oid, err = self.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=commit)
        if code:
            reason = _last_line(err) or "git says nothing"
            raise GateUnreachable(f"no commit can be written in {self.folder} ({reason}). Nothing was pushed")
        return oid

    def push(self, repository: Repository, words: Sequence[str]) -> tuple[int, str, str]:
        """Push from here; the objects may be here or in the gate's own repository. Returns what `run` returns."""
        env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(repository.folder, "objects")}
        return self.run(
            *self._config, "push", "--porcelain", "--no-follow-tags", *words, timeout=_REMOTE_TIMEOUT, env=env
        )

    def run(
        self, *words: str, stdin: str = "", timeout: float = _LOCAL_TIMEOUT, env: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Run git; returns (exit code, stdout, stderr). Raises `program.Unfinished` after `timeout` seconds."""
        if self._guard:
            git_guard.check(self.folder, self._guard)
        argv = ["git", "-C", self.folder, *self._settings, *words]
        input_bytes = stdin.encode(errors="surrogateescape")  # a commit message may be in any encoding
        try:
            code, out, err = program.run(argv, env={**self._env, **(env or {})}, stdin=input_bytes, timeout=timeout)
        except FileNotFoundError as error:
            raise GateUnreachable("git is not installed: install git 2.24 or newer") from error
        return code, out.decode(errors="surrogateescape").strip("\n"), err.decode(errors="replace")


def _untracked_in_the_way(err: str) -> list[str]:
    """The files that git refuses to overwrite. It lists them, indented, below this line (in English: LC_ALL=C)."""
    _, found, below = err.partition("untracked working tree files would be")
    lines = below.splitlines()[1:] if found else []
    end = next((number for number, line in enumerate(lines) if not line.startswith("\t")), len(lines))
    return [line.strip() for line in lines[:end]]


def _last_line(err: str) -> str:
    lines = [line.strip() for line in err.splitlines() if line.strip() and not line.startswith("hint:")]
    return lines[-1].removeprefix("fatal: ").removeprefix("error: ") if lines else ""
