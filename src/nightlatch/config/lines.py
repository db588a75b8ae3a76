"""The line of each key in a TOML file, which tomllib does not report. The file must be valid TOML."""

from __future__ import annotations


def find(text: str) -> dict[tuple[str, ...], int]:
    """The line of each table and key by its path. Keys of an inline table are on the line of that table."""
    found: dict[tuple[str, ...], int] = {}
    scanner = _Scanner(text)
    table: tuple[str, ...] = ()
    while scanner.skip_blank():
        line = scanner.line
        if scanner.take("["):
            double = scanner.take("[")
            table = scanner.path("]")
            scanner.at += 1 + double
            found.setdefault(table, line)
        else:
            path = table + scanner.path("=")
            scanner.at += 1
            for length in range(len(table) + 1, len(path) + 1):  # a.b = 1 also defines the table a
                found.setdefault(path[:length], line)
            scanner.skip_value()
    return found


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self._line, self._counted = 1, 0  # `_line` is the line of the position `_counted`

    @property
    def line(self) -> int:
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def take(self, sign: str) -> bool:
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def skip_blank(self) -> bool:
        """Skip spaces and comments; False at the end of the text."""
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                self.skip_comment()
            elif self.text[self.at].isspace():
                self.at += 1
            else:
                return True
        return False

    def skip_comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def path(self, end: str) -> tuple[str, ...]:
        """Read a dotted key, up to the character `end`."""
        parts = [""]
        while self.text[self.at] != end:
            sign = self.text[self.at]
            if sign in "\"'":
                begin = self.at
                self.skip_string()
                parts[-1] = self.text[begin + 1 : self.at - 1]
                continue
            if sign == ".":
                parts.append("")
            elif not sign.isspace():
                parts[-1] += sign
            self.at += 1
        return tuple(parts)

    def skip_value(self) -> None:
        depth = 0
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign in "\"'":
                self.skip_string()
                continue
            if sign == "#":
                self.skip_comment()
                continue
            if sign == "\n" and not depth:
                return
            depth += (sign in "[{") - (sign in "]}")
            self.at += 1

    def skip_string(self) -> None:
        quote = self.text[self.at]
        mark = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(mark)
        while not self.text.startswith(mark, self.at):
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(mark)
        while len(mark) == 3 and self.take(quote):
            pass  # up to two quotes of the string itself may precede the three that end it
