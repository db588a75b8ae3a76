"""A folder that only the newest holder can replace: immutable releases, and one link that is switched."""

from __future__ import annotations

import os
import stat

from ..core import checks, fence
from ..errors import UsageError
from ..system import durable, treecopy
from . import marks, releases
from .bearer import sealed_mark
from .on_disk import OnDisk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.model import Mark
    from ..core.protocols import Bearer

KEEP = 5  # how many releases to keep

_BEFORE = "before."  # the link before.RELEASE points to the release that was live when RELEASE was published ...
_NONE = "none"  # ... or to this name, if none was


class Folder(OnDisk):
    """The folder at `path`, replaced as a whole.

    `path` is a symbolic link to one of `PATH.releases/TOKEN-NUMBER/`; each release is copied and
    flushed before the link is switched to it, and never changed afterwards. `keep` of them stay: those that
    rollbacks lead to, then the newest. Modes (under the umask), times and symbolic links are copied as they are;
    owners are not.

    A reader that opens two files by `path` may get them from two releases: let it resolve the link once
    (`cd -P`). The marks are in `.NAME.nightlatch/`, which a file gate of the same path shares.
    """

    SCHEME = "folder"
    takes_folders = keeps_releases = True

    def __init__(self, path: str | os.PathLike[str], *, keep: int = KEEP) -> None:
        # The last part is not resolved, since it is the link to switch.
        parent, name = os.path.split(os.path.abspath(checks.path(path, "the path of a folder")))
        if not name:
            raise UsageError(f"{os.fspath(path)} cannot be switched to another folder: name one below it")
        super().__init__(os.path.join(os.path.realpath(parent), name))
        self.releases = f"{self.path}.releases"
        self._keep = keep
        self._pending = os.path.join(self._marks.folder, "switch")  # the new link, until it is renamed to `path`

    def publish(
        self, bearer: Bearer | Mark, source: str | os.PathLike[str] | int, *, adopt: bool = False, digest: str = ""
    ) -> str:
        """Copy the folder `source`, a path or an open folder, to a new release, and switch to it.

        Returns the new release. `adopt` takes over a plain folder at `path` as the previous release; then, for a moment
        between two renames, `path` does not exist. `digest` is remembered with the mark.
        """
        source = source if isinstance(source, int) else os.path.realpath(source)
        if not os.path.isdir(source):
            raise UsageError(f"{source} is not a folder; a file is published to a file")
        if _contains(source, self._marks.parent):
            raise UsageError(f"{self.path} is inside {source}: publish to a path outside the folder that is published")
        self._check_link(adopt)
        mark, by = sealed_mark(self, bearer)
        with self._marks.explain_errors():
            os.makedirs(self.releases, exist_ok=True)
            self._sweep_releases()
        unfinished = os.path.join(self.releases, marks.new_name())
        try:
            with self._marks.explain_errors():
                treecopy.copy(source, unfinished)
            with self._marks.locked():
                self._marks.admit(mark, by)
                aside = self._put_aside_unfinished()
                before = self._adopt_plain() if adopt else ""
                self._check_link(False)
                before = before or self.current()
                release = f"{mark.token}-{self._next_number()}"
                self._remember(release, before)
                self._make_link(release, self._pending)
                os.rename(unfinished, os.path.join(self.releases, release))
                durable.fsync_folder(self.releases)
                self._marks.note_landing(mark, digest, release)
                self._switch(self._pending)
                aside += self._put_aside(self._surplus(release))
        except BaseException:
            treecopy.remove(unfinished)
            raise
        with self._marks.explain_errors():
            for path in aside:
                treecopy.remove(path)
        return release

    def rollback(self, bearer: Bearer | Mark) -> str:
        """Switch to the release that was live when the current one was published; returns its name. A stale holder
        is refused, as in `publish`."""
        self._check_link(False)
        mark, by = sealed_mark(self, bearer)
        with self._marks.locked():
            self._marks.admit(mark, by)
            aside = self._put_aside_unfinished()
            current = self.current()
            before = releases.live_before(current, *self._history())
            if not before:
                raise UsageError(f"{self.path} has no release before {current or 'the first one'} to go back to")
            link = self._marks.new_path()
            self._make_link(before, link)
            self._marks.note_landing(mark, fence.BACK, before)
            self._switch(link)
        with self._marks.explain_errors():
            for path in aside:
                treecopy.remove(path)
        return before

    def release(self) -> str:
        """The live release, as `publish` returned it."""
        return self.current()

    def current(self) -> str:
        """The release that the link points to; "" if there is none."""
        try:
            return os.path.basename(os.readlink(self.path))
        except FileNotFoundError:
            return ""

    def _check_link(self, adopt: bool) -> None:
        """Raise unless `path` is free, is a link that Nightlatch made or, with `adopt`, is a plain folder."""
        try:
            mode = os.lstat(self.path).st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"{self.path} cannot be replaced: {error.strerror}") from error
        if stat.S_ISLNK(mode):
            points_to = os.readlink(self.path)
            if os.path.dirname(points_to) != os.path.basename(self.releases):
                raise UsageError(
                    f"{self.path} is a link to {points_to}, which Nightlatch did not make. Publish to where it points, "
                    f"or remove the link first"
                )
        elif not stat.S_ISDIR(mode):
            raise UsageError(f"{self.path} is a file: publish a file to it, or name a folder")
        elif not adopt:
            raise UsageError(
                f"{self.path} is a plain folder, and a folder cannot be switched in one step; a link can. Take it over "
                f"as the first release with --adopt, or move it away: mv {self.path} {self.path}.before"
            )

    def _adopt_plain(self) -> str:
        """Turn a plain folder at `path` into a release; "" if there is none."""
        if os.path.islink(self.path) or not os.path.isdir(self.path):
            return ""
        release = f"0-{self._next_number()}"
        os.rename(self.path, os.path.join(self.releases, release))
        return release

    def _remember(self, release: str, before: str) -> None:
        """Record, durably and before the switch, what a rollback from `release` returns to."""
        link = self._marks.new_path()
        os.symlink(before or _NONE, link)
        os.replace(link, os.path.join(self._marks.folder, f"{_BEFORE}{release}"))
        durable.fsync_folder(self._marks.folder)

    def _history(self) -> tuple[list[str], dict[str, str]]:
        """The releases, the oldest first, and the release that was live before each."""
        links = [name for name in os.listdir(self._marks.folder) if name.startswith(_BEFORE)]
        history = {name.removeprefix(_BEFORE): os.readlink(os.path.join(self._marks.folder, name)) for name in links}
        return [name for _, name in self._releases_by_number()], history

    def _surplus(self, release: str) -> list[str]:
        """The releases to remove, now that `release` is live. This removes their `before.` links already."""
        names, history = self._history()
        stay = releases.to_keep(release, names, history, self._keep)
        for name in history.keys() - stay:
            os.unlink(os.path.join(self._marks.folder, f"{_BEFORE}{name}"))
        return [name for name in names if name not in stay]

    def _make_link(self, release: str, path: str) -> None:
        os.symlink(os.path.join(os.path.basename(self.releases), release), path)

    def _switch(self, link: str) -> None:
        os.replace(link, self.path)
        durable.fsync_folder(self._marks.parent)

    def _put_aside_unfinished(self) -> list[str]:
        """Rename the release of a publisher that was killed before its switch, so that no rollback finds it.

        Returns the paths to remove.
        """
        try:
            release = os.path.basename(os.readlink(self._pending))
        except FileNotFoundError:
            return []
        found = os.path.isdir(os.path.join(self.releases, release)) and release != self.current()
        aside = self._put_aside([release] if found else [])
        os.unlink(self._pending)
        return aside

    def _put_aside(self, unneeded: Iterable[str]) -> list[str]:
        """Inside the lock: rename releases; returns the paths to remove once it is free, since removing takes long."""
        aside = []
        for release in unneeded:
            aside.append(os.path.join(self.releases, marks.new_name()))
            os.rename(os.path.join(self.releases, release), aside[-1])
        return aside

    def _next_number(self) -> int:
        return max((number for number, _ in self._releases_by_number()), default=0) + 1

    def _releases_by_number(self) -> list[tuple[int, str]]:
        """(number, release), the oldest first. The number counts publishes under all leases."""
        found = []
        for name in os.listdir(self.releases) if os.path.isdir(self.releases) else ():
            token, _, number = name.partition("-")
            if token.isdecimal() and number.isdecimal():
                found.append((int(number), name))
        return sorted(found)

    def _sweep_releases(self) -> None:
        for name in os.listdir(self.releases):
            if marks.is_abandoned(name):
                treecopy.remove(os.path.join(self.releases, name))


def _contains(folder: str | int, path: str) -> bool:
    """Is `path` the folder itself, or below it?"""
    itself = os.stat(folder)
    while True:
        if os.path.exists(path) and os.path.samestat(os.stat(path), itself):
            return True
        if path == os.path.dirname(path):
            return False
        path = os.path.dirname(path)
