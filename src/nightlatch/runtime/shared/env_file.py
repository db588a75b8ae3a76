"""A job's environment: its `env`, and its `env_file`, whose values are secrets, whatever their names."""

from __future__ import annotations

import os

from ...errors import BadConfig
from ...system import redaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.job import Job


def variables(job: Job) -> dict[str, str]:
    """What the command gets besides the inherited environment; read anew at each start."""
    if not job.env_file:
        return dict(job.env)
    secrets = dict(_read(job.env_file))
    secret_names = [*redaction.named_secrets(os.environ), *secrets]
    return {**secrets, **dict(job.env), redaction.ENV: " ".join(dict.fromkeys(secret_names))}


def _read(path: str) -> Iterator[tuple[str, str]]:
    """Read lines NAME=VALUE. `export` before a name, quotes, blank lines and comments are allowed, as in a shell."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"env_file {path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        name, value = name.rstrip(), value.strip()
        if not equals or not name.isidentifier() or name.startswith("NIGHTLATCH_"):
            raise BadConfig(f"{path}:{number}: write NAME=VALUE; names that begin with NIGHTLATCH_ are reserved")
        if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
            value = value[1:-1]
        yield name, value
