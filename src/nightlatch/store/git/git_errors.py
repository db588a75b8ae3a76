"""What git says when something is wrong, as one line that tells a person what to type."""

from __future__ import annotations

import os

from ...errors import StoreUnreachable

OLDEST_GIT = (2, 24)  # the first with protocol and atomic pushes as they are used here

# what git, ssh or the server says → what is wrong, and what to do; {url} is the remote, {said} git's own line
_ADVICE: tuple[tuple[tuple[str, ...], str], ...] = (
    # First, since git names the object that it could not write, as it does when one is damaged.
    (
        ("No space left", "Disk quota exceeded"),
        "the disk of {place} is full ({said}). Free some space there; nothing was changed",
    ),
    (
        (
            "could not read Username",
            "could not read Password",
            "Authentication failed",
            "Permission denied (",
            "returned error: 401",
            "returned error: 403",
            "terminal prompts disabled",
        ),
        "git has no right to {url} ({said}). Nightlatch never asks for a password: give git a credential helper or "
        "an ssh key that works without asking, until this does: GIT_TERMINAL_PROMPT=0 git ls-remote {url}",
    ),
    (
        ("Host key verification failed",),
        "ssh does not know the host of {url} yet. Connect once by hand and accept its key: git ls-remote {url}",
    ),
    (
        ("dubious ownership",),
        "{url} belongs to another user, and git refuses it. Allow it: git config --global --add safe.directory PATH",
    ),
    (
        (
            "does not appear to be a git repository",
            "repository not found",
            "not found",
            "does not exist",
            "returned error: 404",
        ),
        "there is no git repository at {url} ({said}). Check the URL with: git ls-remote {url}; or make one on its "
        "host with: git init --bare PATH",
    ),
    (
        ("does not support --atomic",),
        "the server of {url} takes no atomic pushes, so it cannot keep Nightlatch's store. Use another one: "
        "--store postgresql://…, or a repository on another server",
    ),
    (
        ("object file", "loose object", "packfile", "bad object", "corrupt"),
        "the local copy in {folder} is damaged ({said}). Nothing in it is needed: rm -rf {folder}",
    ),
    (
        (".lock': File exists",),
        "a git process has died at {url} and left a lock ({said}). If no git runs there, remove that file",
    ),
    (
        (
            "Could not resolve host",
            "Couldn't connect",
            "Connection refused",
            "Connection timed out",
            "Network is unreachable",
            "No route to host",
            "gave no answer",
            "unable to access",
            "hung up",
        ),
        "{url} cannot be reached ({said}). Check the network; this shows the same: git ls-remote {url}",
    ),
)


def unreachable(url: str, folder: str, said: str) -> StoreUnreachable:
    for signs, advice in _ADVICE:
        sign = next((sign for sign in signs if sign in said), None)
        if sign:
            place = url if any(sign in line and line.startswith("remote: ") for line in said.splitlines()) else folder
            return StoreUnreachable(advice.format(url=url, folder=folder, place=place, said=line_with(sign, said)))
    return StoreUnreachable(f"git failed with {url} ({line_with('', said)}). Try it by hand: git ls-remote {url}")


def is_full(said: str) -> bool:
    """Is a disk full, here or there? Then a push was not refused, but could not be kept."""
    return any(sign in said for sign in _ADVICE[0][0])


def line_with(sign: str, said: str) -> str:
    """The one line of what git said that matters, without its ornaments."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and sign in line]
    line = lines[0] if lines else "it said nothing"
    for ornament in ("remote: ", "fatal: ", "error: ", "! "):
        line = line.removeprefix(ornament)
    return line.rstrip(".").strip()


def no_git(error: Exception) -> StoreUnreachable:
    if isinstance(error, FileNotFoundError):
        return StoreUnreachable(
            f"git is not installed (looked in {os.environ.get('PATH', os.defpath)}), and the store is a git remote: "
            f"install git {'.'.join(map(str, OLDEST_GIT))} or newer"
        )
    return StoreUnreachable(f"git cannot be run: {error}")
