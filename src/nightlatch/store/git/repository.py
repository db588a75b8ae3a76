"""A remote's refs, read and moved through a bare repository of our own on this machine.

That repository is a cache and a workbench: objects are made in it to be pushed, and kept in it so that only
what is new has to be fetched. Everything in it may be lost; what counts stands at the remote.
"""

from __future__ import annotations

import os

from ...core.passwords import hide_password
from ...core.value import value
from ...errors import StoreUnreachable
from ...system import clock, durable, program
from . import git_errors, objects
from .names import ROOT
from .objects import Commit, Pack, read_commit
from .remote import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .remote import Remote


_OID = 40  # characters of an object id
_LOCAL = 20.0  # seconds for a git that talks to no remote
_REFUSALS = 5  # how often a refusal that moved nothing is tried again: two pushes that met in the server's lock
_MANY = 500  # refs that are fetched by name; of more, all are fetched
_LOOSE = 12  # files in one of the 256 folders of loose objects, so about 3,000 in all, before we tidy up


@value(frozen=True, kw_only=True)
class Move:
    """One ref from where it was seen ("": it was not there) to a new object ("": to be deleted)."""

    ref: str
    old: str
    new: str


class Moved(Exception):
    """A ref stood elsewhere, so nothing was moved. `unsure`: an earlier try without an answer may have been."""

    def __init__(self, *, unsure: bool) -> None:
        super().__init__()
        self.unsure = unsure


class PushRefused(Exception):
    """The server takes no such push, and nothing was moved."""


class Repository:
    def __init__(self, remote: Remote, folder: str) -> None:
        self.remote = remote
        self.shown = hide_password(remote.url)
        self.folder = os.path.join(folder, "git")
        self._env: dict[str, str] = {}

    def look(self, *patterns: str, timeout: float) -> dict[str, str]:
        """Where the refs stand now, at the remote: ref → object id."""
        # The older protocol answers in one exchange; the newer one saves nothing, since it is not told the patterns.
        out = self.git(
            "-c", "protocol.version=0", "ls-remote", "--refs", "--", self.remote.url, *patterns, timeout=timeout
        )
        stands = {ref: oid for oid, _, ref in (line.partition("\t") for line in out.decode().splitlines())}
        if any(len(oid) != _OID for oid in stands.values()):
            raise StoreUnreachable(
                f"{self.shown} names its objects by SHA-256, which Nightlatch does not speak yet. Keep the leases in "
                f"another repository: git init --bare --object-format=sha1 PATH"
            )
        return stands

    def commits(self, stands: Mapping[str, str], *, timeout: float) -> dict[str, Commit]:
        """The commits that refs were seen to point at; one whose ref has moved on since may be missing."""
        found = self.commits_here(stands)
        absent = [ref for ref in stands if ref not in found]
        if absent:
            # A line of words has an end.
            self.fetch(absent if len(absent) <= _MANY else [f"{ROOT}*"], timeout=timeout)
            found |= self.commits_here({ref: stands[ref] for ref in absent})
        return found

    def fetch(self, refs: Iterable[str], *, timeout: float) -> None:
        """Bring over what the refs point at. They are kept here too: git then asks only for what is new."""
        words = ("fetch", "--quiet", "--no-tags", "--no-auto-gc", "--no-recurse-submodules", "--", self.remote.url)
        try:
            code, _, said = self.try_git(*words, *(f"+{ref}:{ref}" for ref in refs), timeout=timeout)
        except program.Unfinished as error:
            raise self.unreachable(str(error)) from error
        # Another process may keep the same ref in this moment (the objects are here then), or it was deleted there.
        if code and "cannot lock ref" not in said and "couldn't find remote ref" not in said:
            raise self.unreachable(said)

    def read(self, *names: str) -> list[tuple[str, str, bytes] | None]:
        """Objects of our own repository by id or `id:path`, as (id, kind, content); None: not here."""
        rest = self.git("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode())
        found: list[tuple[str, str, bytes] | None] = []
        for _ in names:
            head, _, rest = rest.partition(b"\n")
            words = head.decode().split(" ")
            if len(words) != 3 or not words[2].isdigit():
                found.append(None)  # "… missing"
                continue
            size = int(words[2])
            found.append((words[0], words[1], rest[:size]))
            rest = rest[size + 1 :]
        return found

    def write(self, pack: Pack) -> None:
        self._ready()
        try:
            pack.write(os.path.join(self.folder, "objects"))
        except OSError as error:
            raise self.unreachable(str(error)) from error

    def swap(self, moves: Sequence[Move], *, timeout: float) -> None:
        """Move all refs or none, each only from where it was seen: `Moved` if one stands elsewhere.

        A reply that was lost is settled by looking. Raises `StoreUnreachable` when that cannot be done either:
        then it may have happened. `PushRefused`: the server does not want it.
        """
        unsure = False
        for _ in range(_REFUSALS):
            answered, said = self._push(moves, timeout)
            if answered and not said:
                return
            unsure = unsure or not answered
            try:
                refs = [move.ref for move in moves] if len(moves) <= _MANY else [f"{ROOT}*"]
                stands = self.look(*refs, timeout=timeout)
            except StoreUnreachable as error:
                raise self.unreachable(said) from error
            if all(stands.get(move.ref, "") == move.new for move in moves):
                return  # it did happen; only the reply was lost
            if any(stands.get(move.ref, "") != move.old for move in moves):
                raise Moved(unsure=unsure)
            if not answered or git_errors.is_full(said):
                raise self.unreachable(said)
            if "failed to update ref" not in said and "cannot lock ref" not in said and "stale info" not in said:
                raise PushRefused(git_errors.line_with("", said))
            clock.sleep(0.02)
        raise self.unreachable(said)

    def delete(self, refs: Iterable[str]) -> None:
        """Take refs away that nobody compares; those that are not there, too."""
        there = self.look(*refs, timeout=_LOCAL)
        if there:
            self.git("push", "--quiet", "--no-verify", "--", self.remote.url, *(f":{ref}" for ref in there))

    def _push(self, moves: Sequence[Move], timeout: float) -> tuple[bool, str]:
        """(was there an answer, what stood against it)"""
        words = ["push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--no-recurse-submodules"]
        if len(moves) > 1:
            words.append("--atomic")
        words += [f"--force-with-lease={move.ref}:{move.old}" for move in moves]
        try:
            code, out, said = self.try_git(
                *words, "--", self.remote.url, *(f"{move.new}:{move.ref}" for move in moves), timeout=timeout
            )
        except program.Unfinished as error:
            return False, str(error)
        return verdict(code, out.decode(errors="replace"), said, [move.ref for move in moves])

    def commits_here(self, stands: Mapping[str, str]) -> dict[str, Commit]:
        """Those of them that are in our own repository."""
        found: dict[str, Commit] = {}
        for ref, oid in stands.items():
            content = objects.read(os.path.join(self.folder, "objects"), oid, "commit")
            if content is not None:
                found[ref] = read_commit(oid, content)
        packed = [ref for ref in stands if ref not in found]
        there = self.read(*(stands[ref] for ref in packed)) if packed else []
        return found | {
            ref: read_commit(one[0], one[2])
            for ref, one in zip(packed, there, strict=True)
            if one and one[1] == "commit"
        }

    def tidy(self) -> None:
        """Now and then throw away what was made here and has been replaced since."""
        try:
            many = len(os.listdir(os.path.join(self.folder, "objects", "17"))) > _LOOSE
        except OSError:
            return
        if not many:
            return
        try:
            # Younger objects may be another process's, made and not pushed yet.
            self.try_git("gc", "--quiet", "--prune=1.hour.ago", timeout=_LOCAL * 3)
        except program.Unfinished:
            pass  # it costs room on the disk, no more; the next one tries again

    def git(self, *words: str, stdin: bytes = b"", timeout: float = _LOCAL) -> bytes:
        """What git printed; anything but success is StoreUnreachable."""
        try:
            code, out, said = self.try_git(*words, stdin=stdin, timeout=timeout)
        except program.Unfinished as error:
            raise self.unreachable(str(error)) from error
        if code:
            raise self.unreachable(said)
        return out

    def try_git(self, *words: str, stdin: bytes = b"", timeout: float) -> tuple[int, bytes, str]:
        env = self._ready()
        config = ["-c", f"include.path={self.remote.config}"] if self.remote.config else []
        code, out, err = _run(["git", *config, *words], env, stdin, timeout)
        return code, out, err.decode(errors="replace")

    def unreachable(self, said: str) -> StoreUnreachable:
        return git_errors.unreachable(self.shown, self.folder, said)

    def _ready(self) -> dict[str, str]:
        """The environment for a git in our repository, which is made if it is not there."""
        if self._env and os.path.isdir(self.folder):
            return self._env
        env = {**environment(), "GIT_DIR": self.folder}
        if self.remote.url.startswith("ssh:") or "://" not in self.remote.url:
            env |= _ssh_that_never_asks(env, self.remote.config)
        if not os.path.isdir(self.folder):
            self._make(env)
        self._env = env
        return env

    def _make(self, env: Mapping[str, str]) -> None:
        """Aside, and then in its place with one rename: two that begin at once would meet in git's locks."""
        check_version()
        durable.private_folder(os.path.dirname(self.folder))
        aside = f"{self.folder}.{os.urandom(8).hex()}"
        code, _, said = _run(
            ["git", "init", "--quiet", "--bare", "--template=", aside], {**env, "GIT_DIR": aside}, b"", _LOCAL
        )
        if code:
            raise self.unreachable(said.decode(errors="replace"))
        try:
            os.rename(aside, self.folder)
        except OSError:
            import shutil

            shutil.rmtree(aside)
            if not os.path.isdir(self.folder):  # else somebody else was faster
                raise


def verdict(code: int, out: str, said: str, refs: Sequence[str]) -> tuple[bool, str]:
    """What `git push --porcelain` tells of these refs: (was there an answer, what stood against it)."""
    answers = {}
    for line in out.splitlines():
        flag, _, rest = line.partition("\t")
        names, _, summary = rest.partition("\t")
        answers[names.rpartition(":")[2]] = flag, summary
    told = [answers.get(ref, ("", "")) for ref in refs]
    if code == 0 and all(flag in (" ", "+", "*", "=", "-") for flag, _ in told):
        return True, ""
    refusals = [summary for flag, summary in told if flag == "!"]
    if refusals and not any("remote failure" in summary for summary in refusals):
        return True, "\n".join([*refusals, said])
    return False, said


def check_version() -> str:
    """git's version, in its own words; raises if it is too old for this."""
    _, out, _ = _run(["git", "version"], environment(), b"", _LOCAL)
    text = out.decode().strip().removeprefix("git version ")
    numbers = [int(word) for word in text.split(".")[:2] if word.isdigit()]
    if tuple(numbers) < git_errors.OLDEST_GIT:
        wanted = ".".join(map(str, git_errors.OLDEST_GIT))
        raise StoreUnreachable(f"git {text} is too old to keep leases: install git {wanted} or newer")
    return text


def _run(argv: list[str], env: Mapping[str, str], stdin: bytes, timeout: float) -> tuple[int, bytes, bytes]:
    try:
        return program.run(argv, env=env, stdin=stdin, timeout=timeout)
    except OSError as error:
        raise git_errors.no_git(error) from error


def _ssh_that_never_asks(env: Mapping[str, str], config: str) -> dict[str, str]:
    """The user's own ssh command with one option more; a program named by GIT_SSH may not know that option."""
    ssh = env.get("GIT_SSH_COMMAND", "")
    if not ssh:
        words = ["-c", f"include.path={config}"] if config else []
        _, out, _ = _run(["git", *words, "config", "core.sshCommand"], env, b"", _LOCAL)
        ssh = out.decode().strip()
    if not ssh and "GIT_SSH" in env:
        return {}
    return {"GIT_SSH_COMMAND": f"{ssh or 'ssh'} -o BatchMode=yes"}
