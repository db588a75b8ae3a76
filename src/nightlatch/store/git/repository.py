"""A remote's refs, read and moved through a bare local repository.

That repository is a cache: objects are made in it to be pushed, and kept in it so that only new ones are fetched.
Everything in it may be lost; what counts is at the remote.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from ...core.passwords import hide_password
from ...core.value import value
from ...errors import StoreUnreachable
from ...system import clock, durable, program
from . import git_errors, objects
from .names import ROOT
from .objects import Commit, NewObjects, read_commit
from .remote import Remote, environment

_OID = 40  # characters of an object id
_TIMEOUT = 20.0  # seconds for a git command, unless its caller sets a timeout for the remote
_MAX_PUSHES = 5  # tries of a push that is refused although no ref has moved, as when another push holds a lock there
_MAX_NAMED = 500  # up to this many refs are fetched by name; all are fetched if more would make the command too long
_MAX_LOOSE = 12  # files in one of the 256 folders of loose objects; so we tidy up at about 3,000 in all


@value(frozen=True, kw_only=True)
class RefMove:
    """Move one ref from where it was seen ("": it did not exist) to a new object ("": delete it)."""

    ref: str
    old: str
    new: str


class Moved(Exception):
    """A ref was not where it was expected, so nothing moved. `unsure`: an earlier, unanswered try may have moved it."""

    def __init__(self, *, unsure: bool) -> None:
        super().__init__()
        self.unsure = unsure


class PushRefused(Exception):
    """The server refuses this push, and nothing was moved."""


class Repository:
    def __init__(self, remote: Remote, folder: str) -> None:
        self.remote = remote
        self.shown = hide_password(remote.url)
        self.folder = os.path.join(folder, "git")
        self._env: dict[str, str] = {}

    def look(self, *patterns: str, timeout: float) -> dict[str, str]:
        """The refs at the remote: ref → object id."""
        # The older protocol answers in one exchange; the newer one saves nothing, since git does not send the patterns.
        out = self.git(
            "-c", "protocol.version=0", "ls-remote", "--refs", "--", self.remote.url, *patterns, timeout=timeout
        )
        oids = {ref: oid for oid, _, ref in (line.partition("\t") for line in out.decode().splitlines())}
        if any(len(oid) != _OID for oid in oids.values()):
            raise StoreUnreachable(
                f"{self.shown} names its objects by SHA-256, which Nightlatch does not support yet. Keep the leases in "
                f"another repository: git init --bare --object-format=sha1 PATH"
            )
        return oids

    def commits(self, oids: Mapping[str, str], *, timeout: float) -> dict[str, Commit]:
        """The commits `oids` that refs were seen to point at; one whose ref has moved on since may be missing."""
        found = self.commits_here(oids)
        absent = [ref for ref in oids if ref not in found]
        if absent:
            self.fetch(absent if len(absent) <= _MAX_NAMED else [f"{ROOT}*"], timeout=timeout)
            found |= self.commits_here({ref: oids[ref] for ref in absent})
        return found

    def fetch(self, refs: Iterable[str], *, timeout: float) -> None:
        """Fetch what the refs point at. The local repository keeps the refs too, so git fetches only new objects."""
        words = ("fetch", "--quiet", "--no-tags", "--no-auto-gc", "--no-recurse-submodules", "--", self.remote.url)
        try:
            code, _, message = self.try_git(*words, *(f"+{ref}:{ref}" for ref in refs), timeout=timeout)
        except program.Unfinished as error:
            raise self.unreachable(str(error)) from error
        # Another process may be fetching the same ref right now (then the objects are here), or the ref was deleted.
        if code and "cannot lock ref" not in message and "couldn't find remote ref" not in message:
            raise self.unreachable(message)

    def read(self, *names: str) -> list[tuple[str, str, bytes] | None]:
        """Objects in the local repository by id or `id:path`, as (id, kind, content); None: not here."""
        rest = self.git("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode())
        found: list[tuple[str, str, bytes] | None] = []
        for _ in names:
            head, _, rest = rest.partition(b"\n")
            words = head.decode().split(" ")
            if len(words) != 3 or not words[2].isdigit():
                found.append(None)  # git printed "… missing"
                continue
            size = int(words[2])
            found.append((words[0], words[1], rest[:size]))
            rest = rest[size + 1 :]
        return found

    def write(self, new_objects: NewObjects) -> None:
        self._ready()
        try:
            new_objects.write(os.path.join(self.folder, "objects"))
        except OSError as error:
            raise self.unreachable(str(error)) from error

    def swap(self, moves: Sequence[RefMove], *, timeout: float) -> None:
        """Move all refs or none, each only from where it was seen: raises `Moved` if one is elsewhere.

        If the reply is lost, looks whether the refs moved. Raises `StoreUnreachable` if that fails too: then they may
        have moved. Raises `PushRefused` if the server refuses the push.
        """
        unsure = False
        for _ in range(_MAX_PUSHES):
            answered, message = self._push(moves, timeout)
            if answered and not message:
                return
            unsure = unsure or not answered
            try:
                refs = [move.ref for move in moves] if len(moves) <= _MAX_NAMED else [f"{ROOT}*"]
                oids = self.look(*refs, timeout=timeout)
            except StoreUnreachable as error:
                raise self.unreachable(message) from error
            if all(oids.get(move.ref, "") == move.new for move in moves):
                return  # the push landed; only its reply was lost
            if any(oids.get(move.ref, "") != move.old for move in moves):
                raise Moved(unsure=unsure)
            if not answered or git_errors.is_full(message):
                raise self.unreachable(message)
            if not any(sign in message for sign in ("failed to update ref", "cannot lock ref", "stale info")):
                raise PushRefused(git_errors.line_with("", message))
            clock.sleep(0.02)
        raise self.unreachable(message)

    def delete(self, refs: Iterable[str]) -> None:
        """Delete refs without comparing; some of them may not exist."""
        names = set(refs)
        # Without names, `look` would return every ref.
        there = names & self.look(*names, timeout=_TIMEOUT).keys() if names else ()
        if there:
            self.git("push", "--quiet", "--no-verify", "--", self.remote.url, *(f":{ref}" for ref in there))

    def _push(self, moves: Sequence[RefMove], timeout: float) -> tuple[bool, str]:
        """Returns (whether the server answered, why it refused the push)."""
        words = ["push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--no-recurse-submodules"]
        if len(moves) > 1:
            words.append("--atomic")
        words += [f"--force-with-lease={move.ref}:{move.old}" for move in moves]
        try:
            code, out, message = self.try_git(
                *words, "--", self.remote.url, *(f"{move.new}:{move.ref}" for move in moves), timeout=timeout
            )
        except program.Unfinished as error:
            return False, str(error)
        return verdict(code, out.decode(errors="replace"), message, [move.ref for move in moves])

    def commits_here(self, oids: Mapping[str, str]) -> dict[str, Commit]:
        """Those of the commits that are in the local repository."""
        found: dict[str, Commit] = {}
        for ref, oid in oids.items():
            content = objects.read(os.path.join(self.folder, "objects"), oid, "commit")
            if content is not None:
                found[ref] = read_commit(oid, content)
        packed = [ref for ref in oids if ref not in found]
        entries = self.read(*(oids[ref] for ref in packed)) if packed else []
        return found | {
            ref: read_commit(entry[0], entry[2])
            for ref, entry in zip(packed, entries, strict=True)
            if entry and entry[1] == "commit"
        }

    def tidy(self) -> None:
        """Remove objects that were made here and have been replaced since, once there are many."""
        try:
            many = len(os.listdir(os.path.join(self.folder, "objects", "17"))) > _MAX_LOOSE
        except OSError:
            return
        if not many:
            return
        try:
            # Another process may not have pushed its younger objects yet.
            self.try_git("gc", "--quiet", "--prune=1.hour.ago", timeout=_TIMEOUT * 3)
        except program.Unfinished:
            pass  # the objects only cost disk space; the next release tries again

    def git(self, *words: str, stdin: bytes = b"", timeout: float = _TIMEOUT) -> bytes:
        """What git printed. Raises StoreUnreachable if it failed."""
        try:
            code, out, message = self.try_git(*words, stdin=stdin, timeout=timeout)
        except program.Unfinished as error:
            raise self.unreachable(str(error)) from error
        if code:
            raise self.unreachable(message)
        return out

    def try_git(self, *words: str, stdin: bytes = b"", timeout: float) -> tuple[int, bytes, str]:
        env = self._ready()
        config = ["-c", f"include.path={self.remote.config}"] if self.remote.config else []
        code, out, err = _run(["git", *config, *words], env, stdin, timeout)
        return code, out, err.decode(errors="replace")

    def unreachable(self, message: str) -> StoreUnreachable:
        return git_errors.unreachable(self.shown, self.folder, message)

    def _ready(self) -> dict[str, str]:
        """The environment for git in the local repository, which is made if it does not exist."""
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
        """Make the local repository under another name, then rename it: two processes that make it at once would block
        each other by git's locks."""
        check_version()
        durable.private_folder(os.path.dirname(self.folder))
        temporary = f"{self.folder}.{os.urandom(8).hex()}"
        code, _, message = _run(
            ["git", "init", "--quiet", "--bare", "--template=", temporary], {**env, "GIT_DIR": temporary}, b"", _TIMEOUT
        )
        if code:
            raise self.unreachable(message.decode(errors="replace"))
        try:
            os.rename(temporary, self.folder)
        except OSError:
            import shutil

            shutil.rmtree(temporary)
            if not os.path.isdir(self.folder):  # otherwise another process was faster
                raise


def verdict(code: int, out: str, message: str, refs: Sequence[str]) -> tuple[bool, str]:
    """What `git push --porcelain` reports of these refs: (whether the server answered, why it refused)."""
    answers = {}
    for line in out.splitlines():
        flag, _, rest = line.partition("\t")
        names, _, summary = rest.partition("\t")
        answers[names.rpartition(":")[2]] = flag, summary
    answers_of_refs = [answers.get(ref, ("", "")) for ref in refs]
    if code == 0 and all(flag in (" ", "+", "*", "=", "-") for flag, _ in answers_of_refs):
        return True, ""
    refusals = [summary for flag, summary in answers_of_refs if flag == "!"]
    if refusals and not any("remote failure" in summary for summary in refusals):
        return True, "\n".join([*refusals, message])
    return False, message


def check_version() -> str:
    """git's version, as it prints it; raises if it is too old."""
    _, out, _ = _run(["git", "version"], environment(), b"", _TIMEOUT)
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
    """The variable with the user's ssh command and BatchMode; {} for a program named by GIT_SSH, which may not know
    that option."""
    ssh = env.get("GIT_SSH_COMMAND", "")
    if not ssh:
        words = ["-c", f"include.path={config}"] if config else []
        _, out, _ = _run(["git", *words, "config", "core.sshCommand"], env, b"", _TIMEOUT)
        ssh = out.decode().strip()
    if not ssh and "GIT_SSH" in env:
        return {}
    return {"GIT_SSH_COMMAND": f"{ssh or 'ssh'} -o BatchMode=yes"}
