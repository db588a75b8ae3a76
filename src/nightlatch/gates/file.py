"""A file that only the newest holder can replace."""

from __future__ import annotations

import os
import stat

from ..core import checks
from ..errors import UsageError
from ..system import durable
from . import address
from .bearer import sealed_mark
from .on_disk import OnDisk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.model import Mark
    from ..core.protocols import Bearer

_CHUNK = 1 << 20


class File(OnDisk):
    """The file at `path`, replaced as a whole: a reader finds the old content or the new, never a part.

        with nightlatch.lease("report", gates=[out := gates.File("out.html")]) as lease:
            out.write(lease, html)

    A write is durable when it returns. It keeps the mode of the file it replaces, and its owner and
    group where the system allows that; a new file gets the mode of its source (0666 for `write`) under
    the umask. A symbolic link is followed: what it points to is replaced. Hard links to the old file
    keep the old content, and extended attributes are not carried over.

    The marks are kept beside the file in `.NAME.nightlatch/`. A program that writes to the file without the gate is
    not kept out. Only holders on the file's machine seal it, since no other machine can write to it.
    """

    SCHEME = "file"
    takes_folders = keeps_releases = False

    def __init__(self, path: str | os.PathLike[str], *, follow: bool = True) -> None:
        path = checks.path(path, "the path of a file")
        super().__init__(_resolve(path) if follow else path)

    @classmethod
    def from_url(cls, url: str, *, follow: bool = False) -> File:
        """The file at the registered path. Links are not followed by default: if the path has become a link since, old
        holders still go by the marks beside the link, and would replace the link."""
        return cls(address.to_path(url), follow=follow)

    def write(self, bearer: Bearer | Mark, content: bytes | str) -> None:
        """Replace the file's content; text is written as UTF-8. Raises `StaleToken`, and changes nothing, if a newer
        holder has sealed it."""
        self._put(bearer, iter((content.encode() if isinstance(content, str) else content,)), 0o666, "")

    def publish(self, bearer: Bearer | Mark, source: str | os.PathLike[str] | int, *, digest: str = "") -> None:
        """Replace the file with a copy of `source`, a path or an open file. `digest`, the sha256 of `source`, is
        remembered with the mark, so that the next holder can find out whether this publish has landed."""
        try:
            fd = os.dup(source) if isinstance(source, int) else os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"{source} cannot be read: {error.strerror}") from error
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{source} is not a regular file; a folder is published to a folder")
            os.lseek(fd, 0, os.SEEK_SET)
            self._put(bearer, iter(lambda: os.read(fd, _CHUNK), b""), stat.S_IMODE(status.st_mode) & 0o777, digest)
        finally:
            os.close(fd)

    def _put(self, bearer: Bearer | Mark, content: Iterator[bytes], mode: int, digest: str) -> None:
        mark, by = sealed_mark(self, bearer)
        old = self._to_replace()
        temporary = self._marks.new_path()
        try:
            with self._marks.explain_errors():
                inode = _write_new(temporary, content, mode, old)
            with self._marks.locked():
                self._marks.admit(mark, by)
                self._marks.note_landing(mark, digest, inode)
                os.replace(temporary, self.path)
                durable.fsync_folder(self._marks.parent)
        except BaseException:
            durable.remove(temporary)
            raise

    def release(self) -> str:
        """Always "": a file keeps no releases."""
        return ""

    def _to_replace(self) -> os.stat_result | None:
        """The status of the file to replace; None if there is none."""
        try:
            old = os.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"{self.path} cannot be replaced: {error.strerror}") from error
        if stat.S_ISDIR(old.st_mode):
            raise UsageError(f"{self.path} is a folder: publish a folder to it, or name a file in it")
        if not stat.S_ISREG(old.st_mode):
            raise UsageError(f"{self.path} is neither a file nor a folder, and only those can be replaced")
        return old


def _resolve(path: str) -> str:
    """The path with links resolved, but not a folder gate's own link at its end: the marks are beside that link."""
    parent, name = os.path.split(os.path.abspath(path))
    unresolved = os.path.join(os.path.realpath(parent), name)
    is_folder_gate = os.path.islink(unresolved) and os.path.dirname(os.readlink(unresolved)) == f"{name}.releases"
    return unresolved if is_folder_gate else os.path.realpath(path)


def _write_new(path: str, content: Iterator[bytes], mode: int, old: os.stat_result | None) -> str:
    """Write a new file and flush it; returns its inode. The kernel applies the umask when it creates the file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        for chunk in content:
            durable.write_all(fd, chunk)
        new = os.fstat(fd)
        if old:
            _copy_owner_and_mode(fd, new, old)
        durable.fsync(fd)
        return str(new.st_ino)
    finally:
        os.close(fd)


def _copy_owner_and_mode(fd: int, new: os.stat_result, old: os.stat_result) -> None:
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.fchown(fd, old.st_uid if os.geteuid() == 0 else -1, old.st_gid)
        except PermissionError:
            pass  # the new file keeps our owner and group, as with install(1)
        new = os.fstat(fd)
    same_owner = (old.st_uid, old.st_gid) == (new.st_uid, new.st_gid)
    # Set-user-id and set-group-id bits were meant for the old owner and group only.
    os.fchmod(fd, stat.S_IMODE(old.st_mode) & (0o7777 if same_owner else 0o777))
