"""Placeholders: fields of an item, put into a key or into a command's words."""

from __future__ import annotations

import json
import re
from typing import Any

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.\-]*)?\}")
_VARIABLE = {'"': "${_nl%d}", "'": "'\"${_nl%d}\"'"}  # how a variable is written inside these quotes


class BadItem(Exception):
    """An item that cannot be done; says where it was read and what is wrong with it."""

    line, what = 0, ""


class Template:
    """Text with {field} and {} in it; {{ and }} are plain braces. Other braces stay as they are."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: list[tuple[str, str | None]] = []  # (plain text, the field after it or None)
        plain, at = "", 0
        for found in _PLACEHOLDER.finditer(text):
            plain += text[at : found.start()]
            at = found.end()
            if found[0] in ("{{", "}}"):
                plain += found[0][0]
            else:
                self.parts.append((plain, found[1] or ""))
                plain = ""
        self.parts.append((plain + text[at:], None))
        self.fields = [field for _, field in self.parts if field is not None]

    @property
    def placeholders(self) -> list[Template]:
        """A template for each field."""
        return [Template(f"{{{field}}}") for field in self.fields]

    def values(self, content: Any) -> list[str]:
        return [_field(content, field) for field in self.fields]

    def fill(self, values: list[str]) -> str:
        given = iter(values)
        return "".join(plain if field is None else plain + next(given) for plain, field in self.parts)


class CommandTemplate:
    """A command with placeholders. Each word stays one word, whatever an item contains. With `shell`, `sh` gets the
    line, and the values as parameters, so that it never interprets a value, whatever quotes are around the field."""

    def __init__(self, words: list[str], *, shell: bool) -> None:
        self._shell = [] if not shell else ["/bin/sh", "-c", _with_parameters(Template(" ".join(words))), "sh"]
        self._words = Template(" ".join(words)).placeholders if shell else [Template(word) for word in words]
        self.fields = [field for word in self._words for field in word.fields]

    def argv(self, content: Any) -> list[str]:
        argv = self._shell + [word.fill(word.values(content)) for word in self._words]
        if any("\0" in word for word in argv):
            raise BadItem("a NUL character cannot be part of a command")
        if not argv[0]:
            raise BadItem("the name of its program is empty")
        return argv


def _with_parameters(line: Template) -> str:
    """The line with a variable in place of each field, quoted as its surroundings require."""
    written, closers, number = "", [""], 0  # what closes the open quotes and brackets, the innermost last
    for plain, field in line.parts:
        at = 0
        while at < len(plain):
            letter, closing = plain[at], closers[-1]
            if letter == closing:
                closers.pop()
            elif letter == "(" and (closing in ("", ")") or (closing == '"' and plain[at - 1 : at] == "$")):
                closers.append(")")
            elif letter in "'\"" and closing in ("", ")"):
                closers.append(letter)
            at += 2 if letter == "\\" and closing != "'" else 1
        written += plain
        if field is not None:
            number += 1
            written += _VARIABLE.get(closers[-1], '"${_nl%d}"') % number
    # Not $1 itself: inside a shell function that the line defines, $1 is the function's own parameter.
    return "".join(f"_nl{one}=${{{one}}}; " for one in range(1, number + 1)) + written


def _field(content: Any, name: str) -> str:
    """The text of a field; a dot in its name leads into an object. The name "" is the whole item."""
    found = content
    if name:
        if isinstance(content, dict) and name in content:
            found = content[name]
        else:
            for part in name.split("."):
                if not isinstance(found, dict) or part not in found:
                    raise BadItem(f"there is no field {name!r} (plain braces are written {{{{ and }}}})")
                found = found[part]
    if isinstance(found, str):
        return found
    if found is None:
        raise BadItem(f"the field {name!r} is empty (null)")
    return json.dumps(found, ensure_ascii=False, sort_keys=True)
