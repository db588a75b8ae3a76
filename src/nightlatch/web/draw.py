"""Templates: rendered on the server with autoescape; reported text is made printable first."""

from __future__ import annotations

import os

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..core import advice
from ..core.printable import printable
from ..observe import figures
from . import svg, words
from .words import Calendar

FOLDER = os.path.dirname(os.path.abspath(__file__))


def made_printable(value: object) -> object:
    """Applied to every `{{ }}`: reported text may have control, bidi and zero-width characters."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def command_button(command: str) -> Markup:
    """A button that shows a command and copies it: what to type for the same in a shell."""
    return Markup(
        '<button type="button" class="command-button" data-command="{0}" title="Copy: the same in a shell">'
        "<span>{0}</span></button>"
    ).format(printable(command))


def environment() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(os.path.join(FOLDER, "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=made_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters["verbatim"] = _verbatim
    templates.filters["lines"] = _lines
    templates.globals.update(
        icon=svg.icon, meter=svg.meter, spark=svg.spark, command_button=command_button, look=words.look,
        money=figures.money, count=figures.count, span=figures.span, about=figures.about, emphasis=words.emphasis,
        story_line=story_line, short=words.short, hash_of=words.hash_of, tail_of=words.tail_of,
        used=words.used, command=advice.command, number_word=figures.number_word, short_tokens=words.with_short_tokens,
    )  # fmt: skip
    return templates


def moment(calendar: Calendar, at: float, text: str = "") -> Markup:
    """A clock time, with the exact moment as its title."""
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        calendar.iso(at), calendar.exact(at), text or calendar.clock(at)
    )


def story_line(text: str) -> Markup:
    """A sentence of what happened, its first words in bold."""
    shown = words.with_short_tokens(words.short(text, 600))
    first, _, rest = shown.partition(" ")
    for word in rest.split(" ")[: 2 if first == "To" else 1]:
        if first.startswith("To") or word.isdecimal():
            first, rest = f"{first} {word}", rest[len(word) + 1 :]
    return Markup("<b>{}</b> {}").format(first, rest)


def _lines(text: str) -> Markup:
    """The text with its line breaks; each line must be printable already."""
    return Markup("\n").join(text.split("\n"))


def _verbatim(text: str) -> Markup:
    """A form's hidden value, byte for byte: it must come back unchanged."""
    return Markup("{}").format(text)
