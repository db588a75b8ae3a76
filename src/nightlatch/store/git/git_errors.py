"""git's error messages, turned into one line that says what to type."""

from __future__ import annotations

import os

from ...errors import StoreUnreachable

OLDEST_GIT = (2, 24)  # the first version with the protocol and atomic pushes used here

# A part of the message of git, ssh or the server → what is wrong, and what to do. {url}: the remote; {folder}: the
# local copy; {place}: the one of these that failed; {line}: the line of the message with that part.
_ADVICE: tuple[tuple[tuple[str, ...], str], ...] = (
    # First: if the disk is full, git names the object that it could not write, as if that were damaged.
    (
        ("No space left", "Disk quota exceeded"),
        "the disk of {place} is full ({line}). Free some space there; nothing was changed",
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
        "git may not access {url} ({line}). Nightlatch never asks for a password: give git a credential helper or an "
        "ssh key that works without a prompt, until this works: GIT_TERMINAL_PROMPT=0 git ls-remote {url}",
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
        "there is no git repository at {url} ({line}). Check the URL with: git ls-remote {url}; or make one on its "
        "host with: git init --bare PATH",
    ),
    (
        ("does not support --atomic",),
        "the server of {url} does not support atomic pushes, so it cannot keep Nightlatch's store. Use another one: "
        "--store postgresql://…, or a repository on another server",
    ),
    (
        ("object file", "loose object", "packfile", "bad object", "corrupt"),
        "the local copy in {folder} is damaged ({line}). It is only a cache, so remove it: rm -rf {folder}",
    ),
    (
        (".lock': File exists",),
        "a git process died at {url} and left a lock file ({line}). If no git is running there, remove that file",
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
        "{url} cannot be reached ({line}). Check the network; this command shows the same error: git ls-remote {url}",
    ),
)


def unreachable(url: str, folder: str, message: str) -> StoreUnreachable:
    for signs, advice in _ADVICE:
        sign = next((sign for sign in signs if sign in message), None)
        if sign:
            at_remote = any(sign in line and line.startswith("remote: ") for line in message.splitlines())
            place = url if at_remote else folder
            return StoreUnreachable(advice.format(url=url, folder=folder, place=place, line=line_with(sign, message)))
    return StoreUnreachable(f"git failed with {url} ({line_with('', message)}). Try it by hand: git ls-remote {url}")


def is_full(message: str) -> bool:
    """Is a disk full, here or at the remote? Then the push was not refused; it could not be stored."""
    return any(sign in message for sign in _ADVICE[0][0])


def line_with(sign: str, message: str) -> str:
    """The one line of git's message that matters, without its prefix."""
    lines = [line.strip() for line in message.splitlines() if line.strip() and sign in line]
    line = lines[0] if lines else "it printed nothing"
    for prefix in ("remote: ", "fatal: ", "error: ", "! "):
        line = line.removeprefix(prefix)
    return line.rstrip(".").strip()


def no_git(error: Exception) -> StoreUnreachable:
    if isinstance(error, FileNotFoundError):
        return StoreUnreachable(
            f"git is not installed (looked in {os.environ.get('PATH', os.defpath)}), and the store is a git remote: "
            f"install git {'.'.join(map(str, OLDEST_GIT))} or newer"
        )
    return StoreUnreachable(f"git cannot be run: {error}")
