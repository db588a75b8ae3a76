"""Pictures as SVG text. Lengths that come from data are attributes in per cent: they need no inline style and fit any
width. A `kind` is a class of the style sheet, most often a colour: ok, bad, wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

_BEFORE_THE_GAP, _AFTER_THE_GAP = 86.0, 94.0  # per cent of a track
_LEAST = 0.45  # per cent of a track, so that a run of one second is visible
_SHIELD = (
    '<path class="shield" d="M0-8.5l7 2.4v4.2c0 4-2.9 7-7 8.6-4.1-1.6-7-4.6-7-8.6v-4.2z"/>'
    '<path class="shield-x" d="M-2.4-2.9l4.8 4.8m0-4.8l-4.8 4.8"/>'
)
_QUESTION = (
    '<circle class="q" r="8.5"/><path class="q-t" d="M-2.1-2c.1-2.9 4.3-2.7 4.3.1 0 1.7-2.1 1.7-2.1 3.2M.1 4.3v.1"/>'
)
_DIAMOND = '<path class="m {kind}" d="M0-5L5 0 0 5-5 0z"/>'
_CHEVRON = '<path class="m {kind}" d="M-3-4l4 4-4 4"/>'


def icon(name: str, kind: str = "", label: str = "") -> Markup:
    """A symbol of the sheet in base.html. Without a label, screen readers skip it: the text beside it says the same."""
    about = Markup('role="img" aria-label="{}"').format(label) if label else Markup('aria-hidden="true"')
    return Markup('<svg class="i {}" {}><use href="#{}"/></svg>').format(f"s-{kind}" if kind else "", about, name)


def meter(part: float, kind: str = "", pace: float | None = None, label: str = "") -> Markup:
    """How much of a bound is used, as a share. `pace`: the share at the end, if the pace stays the same."""
    ahead = Markup('<rect class="pace" width="{}" height="6"/>').format(_percent(pace)) if pace else ""
    return Markup(
        '<svg class="meter" role="img" aria-label="{}"><rect class="bed" width="100%" height="6"/>{}'
        '<rect class="fill {}" width="{}" height="6"/></svg>'
    ).format(label, ahead, kind, _percent(part))


def spark(values: Sequence[float], *, over: Iterable[int] = (), label: str = "") -> Markup:
    """A bar for each value. Those in `over` are highlighted; if none is, the last one."""
    if not values:
        return Markup("")
    top, width, marked = max(values) or 1, 100 / len(values), set(over)
    bars = Markup("")
    for index, value in enumerate(values):
        high = max(8, value / top * 100)
        kind = "over" if index in marked else "last" if index == len(values) - 1 and not marked else "dim"
        bars += Markup('<rect class="b {}" x="{:.2f}%" width="{:.2f}%" y="{:.1f}%" height="{:.1f}%"/>').format(
            kind, index * width, width * 0.72, 100 - high, high
        )
    return Markup('<svg class="spark" role="img" aria-label="{}">{}</svg>').format(label, bars)


def strip(runs: Sequence[tuple[str, float]], *, slots: int = 60, label: str = "") -> Markup:
    """The last runs as (kind, share of the longest): one path for each kind, at most `slots` bars, the newest last."""
    paths: dict[str, list[str]] = {}
    first = slots - len(runs)
    for index, (kind, share) in enumerate(runs):
        high = round(max(0.15, min(share, 1.0)) * 20)
        paths.setdefault(kind, []).append(f"M{first + index} 20v-{high}")
    drawn = Markup("").join(
        Markup('<path class="l {}" d="{}"/>').format(kind, "".join(parts)) for kind, parts in paths.items()
    )
    return Markup(
        '<svg class="strip" role="img" aria-label="{}" viewBox="-.5 0 {} 20" preserveAspectRatio="none">{}</svg>'
    ).format(label, slots, drawn)


class Track:
    """One row of a timeline from `begin` to `end`."""

    def __init__(
        self,
        begin: float,
        end: float,
        *,
        now: float | None = None,
        grid: Sequence[float] = (),
        late: float | None = None,
    ) -> None:
        """`late`: the last moment after the end that is still drawn: at the right, after a gap in the scale."""
        self._begin, self._length = begin, max(end - begin, 1.0)
        self._now, self._grid = now, grid
        self._late, self._width = late, 100.0 if late is None else _BEFORE_THE_GAP

    def at(self, moment: float) -> float:
        """The horizontal position of a moment, in per cent."""
        share = (moment - self._begin) / self._length
        if self._late is not None and share > 1:
            end = self._begin + self._length
            far = (moment - end) / max(self._late - end, 1.0)
            return min(_AFTER_THE_GAP + far * (100 - _AFTER_THE_GAP), 100.0)
        return min(max(share * self._width, 0.0), self._width)

    def bar(self, begin: float, end: float, kind: str, title: str, href: str = "", y: int = 9) -> Markup:
        left = self.at(begin)
        width = max(self.at(end) - left, _LEAST)
        rect = Markup('<rect class="b {}" x="{:.2f}%" width="{:.2f}%" y="{}" height="12"/>').format(
            kind, min(left, 100 - _LEAST), width, y
        )
        named = Markup("<title>{}</title>{}").format(title, rect)
        return Markup('<a href="{}">{}</a>').format(href, named) if href else Markup("<g>{}</g>").format(named)

    def link_line(self, begin: float, end: float) -> Markup:
        """A line from an attempt to what it did after its end."""
        return Markup('<line class="link-line" x1="{:.2f}%" x2="{:.2f}%" y1="14" y2="14"/>').format(
            self.at(begin), self.at(end)
        )

    def shield(self, at: float, title: str, href: str = "") -> Markup:
        return self._mark(at, _SHIELD, title, href)

    def question(self, at: float, title: str, href: str = "") -> Markup:
        return self._mark(at, _QUESTION, title, href)

    def diamond(self, at: float, kind: str, title: str) -> Markup:
        return self._mark(at, _DIAMOND.format(kind=escape(kind)), title)

    def chevron(self, at: float, kind: str, title: str) -> Markup:
        return self._mark(at, _CHEVRON.format(kind=escape(kind)), title)

    def call(self, at: float, *, expensive: bool) -> Markup:
        kind, size = (" expensive", 4.6) if expensive else ("", 3.0)
        return Markup(f'<circle class="call{kind}" cx="{self.at(at):.2f}%" cy="14" r="{size}"/>')  # noqa: S704 - ours

    def row(self, label: str, marks: Iterable[Markup]) -> Markup:
        """The grid is drawn once, with the axis, and used by every row."""
        return Markup('<svg class="track" role="group" aria-label="{}"><use href="#grid"/>{}{}</svg>').format(
            label, Markup("").join(marks), self._now_line()
        )

    def _lines(self) -> Markup:
        return Markup("").join(
            Markup('<line class="grid-line" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="100%"/>').format(self.at(moment))
            for moment in self._grid
        )

    def axis(self, labels: Iterable[tuple[float, str]], y: int = 12) -> Markup:
        texts = Markup("").join(
            Markup('<text x="{:.2f}%" y="{}">{}</text>').format(self.at(moment), y, text) for moment, text in labels
        )
        return Markup('<svg aria-hidden="true"><defs><g id="grid">{}</g></defs>{}</svg>').format(self._lines(), texts)

    def machine_row(self, label: str, spans: Iterable[tuple[float, float, bool]]) -> Markup:
        """A machine's row. `spans`: (from, to, was it awake?)."""
        drawn = Markup("").join(
            Markup('<rect class="{}" x="{:.2f}%" width="{:.2f}%" y="{}" height="{}" rx="2.5"/>').format(
                "awake" if up else "asleep", self.at(begin), max(self.at(end) - self.at(begin), 0.2), 0 if up else 0.5,
                6 if up else 5,
            )
            for begin, end, up in spans
        )  # fmt: skip
        return Markup('<svg class="track" role="img" aria-label="{}">{}</svg>').format(label, drawn)

    def _mark(self, at: float, shape: str, title: str, href: str = "") -> Markup:
        named = Markup("<title>{}</title>{}").format(title, Markup(shape))  # noqa: S704 - a shape of ours
        inner = Markup('<a href="{}">{}</a>').format(href, named) if href else named
        return Markup('<svg x="{:.2f}%" y="15" overflow="visible">{}</svg>').format(self.at(at), inner)

    def _now_line(self) -> Markup:
        if self._now is None:
            return Markup("")
        return Markup('<line class="now-line" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="100%"/>').format(
            self.at(self._now)
        )


def _percent(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0) * 100:.1f}%"
