"""Where Nightlatch keeps its files: locks and write-ahead logs need a local disk."""

from __future__ import annotations

import os
import sys

FILE_URL = "sqlite:///"  # prefix of the URL of a store in a file

_NETWORK = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "afpfs", "webdav", "9p", "ceph", "glusterfs", "lustre", "gpfs",
        "ocfs2", "gfs2", "beegfs", "davfs", "vboxsf", "vmhgfs", "fuse.sshfs", "fuse.rclone", "fuse.s3fs",
        "fuse.gcsfuse", "fuse.glusterfs", "fuse.davfs2", "fuse.onedriver",
    }
)  # fmt: skip
_SYNCED_FOLDERS = {  # a folder's name → the service that copies it between machines
    "Mobile Documents": "iCloud",
    "iCloudDrive": "iCloud",
    "Dropbox": "Dropbox",
    "OneDrive": "OneDrive",
    "Google Drive": "Google Drive",
    "GoogleDrive": "Google Drive",
}


def state_folder() -> str:
    """This user's folder for Nightlatch's state on this machine."""
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/nightlatch")
    return os.path.join(user_folder("XDG_STATE_HOME", "~/.local/state"), "nightlatch")


def user_folder(variable: str, default: str) -> str:
    """A base folder of this user by the XDG specification, which ignores a relative path in the variable."""
    base = os.environ.get(variable, "")
    return base if os.path.isabs(base) else os.path.expanduser(default)


def folder_for(name: str) -> str:
    """The folder, inside the state folder, for a store that is not a file."""
    import hashlib

    return os.path.join(state_folder(), "stores", hashlib.sha256(name.encode()).hexdigest()[:16])


def not_local(path: str) -> str:
    """Why `path` (with links resolved) is not on a local disk, which locks need; "" if it is on one."""
    for part in path.split(os.sep):
        for name, service in _SYNCED_FOLDERS.items():
            if part == name or part.startswith((f"{name}-", f"{name} ", f"{name} - ")):
                return f"it is in a folder that {service} copies between machines"
    kind = file_system(os.path.dirname(path))
    return f"it is on a network file system ({kind})" if kind in _NETWORK else ""


def file_system(folder: str) -> str:
    """The type of the file system that holds `folder`, as the system names it; "" if unknown."""
    while folder and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if sys.platform != "linux":
        return _file_system_elsewhere(folder)
    device = os.stat(folder).st_dev
    wanted = f" {os.major(device)}:{os.minor(device)} ".encode()
    if _last[:1] != [wanted]:
        _last[:] = [wanted, _mounted_type(wanted)]
    return _last[1].decode()


_last: list[bytes] = []  # the device of the last call, and its type: a store's files are all in one folder


def _mounted_type(device: bytes) -> bytes:
    with open("/proc/self/mountinfo", "rb") as mounts:
        for line in mounts:
            if device in line:
                return line.partition(b" - ")[2].split(b" ", 1)[0]
    return b""  # btrfs subvolumes and the like have separate devices; all of them are local


def _file_system_elsewhere(folder: str) -> str:
    import psutil

    mounts = sorted(psutil.disk_partitions(all=True), key=lambda mount: -len(mount.mountpoint))
    inside = (m.fstype for m in mounts if folder == m.mountpoint or folder.startswith(m.mountpoint.rstrip("/") + "/"))
    return next(inside, "")


def absolute_store(store: str, folder: str) -> str:
    """A store's URL, written in a file in `folder`, in a form that is valid in any folder."""
    path = store.removeprefix(FILE_URL)
    if path != store and not path.startswith(("/", "~")):
        return f"{FILE_URL}{os.path.join(folder, path)}"
    remote = store.removeprefix("git+")
    if remote != store and not set(remote) & set("/:@"):
        return f"git+{remote}@{folder}"
    return store
