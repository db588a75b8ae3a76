"""`--json`: one object a line."""

from __future__ import annotations


def print_json(facts: dict[str, object]) -> None:
    import json

    print(json.dumps(facts))  # ASCII only: control characters that a command reported cannot reach a terminal
