"""The verdict in a sentence, for a night and for a run: the terminal, the pages and alerts begin with it.

Pure: from plain values to text; facts that are not known are left out. A reported text becomes one printable line
here; a front end that writes HTML still has to escape it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core import statuses
from ..core.printable import shortened
from ..core.value import value
from . import figures
from .figures import count, money, number_word, ordinal, percent, span

Clock = Callable[[float], str]  # a moment as 02:51, in the ledger's time zone

CALM, DECIDE, ALARM = "calm", "decide", "alarm"  # green, amber, red

LAPSED = "lapsed"
ENOUGH_RUNS = 12  # runs that the history must have before anything is called usual
ENOUGH_REPORTS = 3  # reports of progress that are needed to forecast the end of a run
USUAL_WITHIN = 0.15  # a cost that differs from the usual one by at most this share still counts as usual
_NEARLY_ALL = 0.8  # a job with at least this share of a rise has "nearly all" of it
_LONGEST = 200  # characters; a longer reported text is cut


@value(frozen=True, kw_only=True)
class Headline:
    sentence: str  # enough for a reader in a hurry
    reasons: str = ""  # a second, smaller paragraph
    tone: str = CALM


# ── the night ──


@value(frozen=True, kw_only=True)
class Night:
    """What the ledger knows about the time since last evening."""

    slots: int = 0  # slots that were due
    slots_ran: int = 0
    ended: int = 0  # runs that ended; shown only if no slots were due
    well: int = 0  # runs that succeeded
    need_you: int = 0
    alarming: int = 0  # how many of these need more than an approval: failed runs, runs in doubt and so on
    usd: float = 0.0
    usual_usd: float | None = None  # None: too little history
    weekday: str = ""  # such as Sunday
    risen_job: str = ""  # the job with the largest part of the rise
    risen_share: float = 0.0  # that job's part, 0 to 1
    refused: int = 0
    journal_intact: bool | None = None  # None: not verified
    journal_broken_at: str = ""  # such as: entry 812 of articles


def night(facts: Night) -> Headline:
    """The headline of the page, mail or digest about a night."""
    broken = facts.journal_intact is False
    first = [f"The journal is broken at {_text(facts.journal_broken_at) or 'an unknown entry'}."] if broken else []
    return Headline(
        sentence=" ".join([*first, _ran(facts), _needs(facts.need_you)]),
        reasons=" ".join(
            filter(None, [_used(facts), _refused(facts.refused), "The journal is intact." * bool(facts.journal_intact)])
        ),
        tone=ALARM if broken or facts.alarming else DECIDE if facts.need_you else CALM,
    )


def night_in_short(facts: Night) -> list[str]:
    """The first line on the terminal, in parts; the most important first."""
    need = {0: "nothing needs you", 1: "1 thing needs you"}.get(facts.need_you, f"{facts.need_you} things need you")
    parts = [f"{_ran(facts).removesuffix('.')}, {need}"]
    if facts.journal_intact is False:
        parts.insert(0, f"the journal is broken at {_text(facts.journal_broken_at) or 'an unknown entry'}")
    if facts.usd:
        usual = f", usually {money(facts.usual_usd)}" if facts.usual_usd is not None else ""
        parts.append(f"{money(facts.usd)}{usual}")
    if facts.refused:
        parts.append(f"{count(facts.refused)} stale write{'s' if facts.refused > 1 else ''} refused")
    return parts


def _ran(facts: Night) -> str:
    if facts.slots:
        if facts.slots_ran >= facts.slots:
            return "The only slot ran." if facts.slots == 1 else f"All {count(facts.slots)} slots ran."
        return f"{count(facts.slots_ran)} of {count(facts.slots)} slots ran."
    if not facts.ended:
        return "Nothing ran."
    if facts.ended == 1:
        return "The only run succeeded." if facts.well else "The only run did not succeed."
    if facts.well == facts.ended:
        return f"All {count(facts.ended)} runs succeeded."
    return f"{count(facts.well) if facts.well else 'None'} of {count(facts.ended)} runs succeeded."


def _needs(number: int) -> str:
    if not number:
        return "Nothing needs you."
    return f"{number_word(number).capitalize()} thing{'s need' if number > 1 else ' needs'} you."


def _used(facts: Night) -> str:
    if not facts.usd:
        return ""
    used, day = f"{money(facts.usd)} was used", f"{facts.weekday} night".strip()
    if not facts.usual_usd:
        return f"{used}."
    change = facts.usd / facts.usual_usd - 1
    if abs(change) <= USUAL_WITHIN:
        return f"{used}, as on other {day}s."
    if change > 1:
        text = f"{used}, {figures.times(facts.usd / facts.usual_usd)} what a usual {day} takes"
    else:
        text = f"{used}, {percent(abs(change))} {'more' if change > 0 else 'less'} than on a usual {day}"
    if change > 0 and facts.risen_job and facts.risen_share >= 0.5:
        part = "nearly all" if facts.risen_share >= _NEARLY_ALL else "most"
        text += f", {part} of the rise by {_text(facts.risen_job)}"
    return f"{text}."


def _refused(number: int) -> str:
    if not number:
        return ""
    many = number > 1
    writes = f"{number_word(number).capitalize()} stale write{'s were' if many else ' was'} refused"
    return f"{writes}; nothing landed twice."


# ── one run ──


@value(frozen=True, kw_only=True)
class RunFacts:
    """What a run's sentence is made of; unknown facts keep their default."""

    status: str
    now: float
    attempt: int = 0
    tries: int = 0  # how many tries are allowed; 0: not known
    started: float | None = None
    ended: float | None = None
    again_at: float | None = None  # when the next try is due
    elapsed: float = 0.0
    exit_code: int | None = None
    reason: str = ""
    last_line: str = ""  # of its output
    done: int = 0
    total: int = 0
    reports: int = 0  # of progress
    usd: float = 0.0
    budget_usd: float | None = None
    timeout: float | None = None
    stall: float | None = None
    landed_on: str = ""  # a branch, a folder, an object
    effect: str = ""  # the key of an effect in doubt
    writes_held: int = 0  # waiting for an approval
    host: str = ""
    by: str = ""  # the person who cancelled it


def run(facts: RunFacts, at: Clock) -> Headline:
    make = _SENTENCES.get(facts.status)
    sentence = make(facts, at) if make else f"{facts.status.capitalize()}."
    return Headline(sentence=sentence, tone=tone_of(facts.status))


def tone_of(status: str) -> str:
    if status == statuses.WAITING:
        return DECIDE
    return ALARM if status in (*statuses.NEEDS_PERSON, *statuses.FAILURES, LAPSED) else CALM


def expected_end(facts: RunFacts) -> float | None:
    """When the run will be done at its present pace; None: too few reports to tell."""
    if not facts.total or not facts.done or facts.started is None or facts.reports < ENOUGH_REPORTS:
        return None
    return facts.started + (facts.now - facts.started) * facts.total / facts.done


def _pending(facts: RunFacts, at: Clock) -> str:
    return "Waits for its turn."


def _waiting(facts: RunFacts, at: Clock) -> str:
    if facts.writes_held:
        writes = f"{count(facts.writes_held)} write{'s' if facts.writes_held > 1 else ''}"
        return f"Holds {writes} until somebody approves {'them' if facts.writes_held > 1 else 'it'}."
    which = f", {ordinal(facts.attempt + 1)} of {count(facts.tries)}" if facts.tries else ""
    if facts.again_at is None:
        return "Waits for its next try."
    if facts.again_at < facts.now:
        return f"Its next try{which}{',' if which else ''} was due at {at(facts.again_at)} and has not started."
    return f"Tries again at {at(facts.again_at)}{which}."


def _running(facts: RunFacts, at: Clock) -> str:
    end = expected_end(facts)
    progress = f"{count(facts.done)} of {count(facts.total)}" if facts.total else f"{count(facts.done)} done"
    if end is not None:
        cost = f" for {money(facts.usd * facts.total / facts.done)}" if facts.usd else ""
        return f"{progress}, done about {at(end)}{cost}."
    running = f"running for {span(facts.now - facts.started)}" if facts.started else "running"
    if facts.reports or facts.done:
        return f"{progress}, {running}."
    return f"{running.capitalize()}, no progress reported."


def _succeeded(facts: RunFacts, at: Clock) -> str:
    what = f"Landed on {_text(facts.landed_on)}" if facts.landed_on else "Succeeded"
    return f"{what}{_when(facts, at)}{_attempt(facts)}."


def _failed(facts: RunFacts, at: Clock) -> str:
    only_code = facts.exit_code is not None and facts.reason in ("", f"exit code {facts.exit_code}")
    code = f" with exit code {facts.exit_code}" if only_code else ""
    why = _text(facts.last_line if only_code else facts.reason)
    return f"Failed{_when(facts, at)}{code}{_attempt(facts)}{': ' + why if why else ''}".rstrip(".") + "."


def _timed_out(facts: RunFacts, at: Clock) -> str:
    return f"Not done after {span(facts.timeout or facts.elapsed)}; it was ended."


def _stalled(facts: RunFacts, at: Clock) -> str:
    return f"No progress{f' for {span(facts.stall)}' if facts.stall else ''}; it was ended{_when(facts, at)}."


def _over_budget(facts: RunFacts, at: Clock) -> str:
    if facts.budget_usd:
        return f"Ended at {money(facts.budget_usd)}, its budget."
    return f"Ended by its budget: {_text(facts.reason)}." if facts.reason else "Ended by its budget."


def _in_doubt(facts: RunFacts, at: Clock) -> str:
    if facts.effect:
        return f"Nobody knows whether {_text(facts.effect)} was done."
    why = f": {_text(facts.reason)}" if facts.reason else ""
    return f"Nobody knows whether it was done{why}".rstrip(".") + "."


def _needs_attention(facts: RunFacts, at: Clock) -> str:
    why = _text(facts.reason)
    return (why[:1].upper() + why[1:]).rstrip(".") + "." if why else "It needs your attention."


def _lapsed(facts: RunFacts, at: Clock) -> str:
    host = f" {_text(facts.host)}" if facts.host else ""
    return f"Its holder{host} is gone, and nobody has taken over."


def _lost(facts: RunFacts, at: Clock) -> str:
    why = f": {_text(facts.reason)}" if facts.reason else ""
    return f"Lost{_when(facts, at)}{why}".rstrip(".") + "."


def _cancelled(facts: RunFacts, at: Clock) -> str:
    by = f" by {_text(facts.by)}" if facts.by else ""
    return f"Cancelled{by}{_when(facts, at)}."


def _when(facts: RunFacts, at: Clock) -> str:
    return f" at {at(facts.ended)}" if facts.ended is not None else ""


def _attempt(facts: RunFacts) -> str:
    return f", at the {ordinal(facts.attempt)} attempt" if facts.attempt > 1 else ""


_SENTENCES: dict[str, Callable[[RunFacts, Clock], str]] = {
    statuses.PENDING: _pending,
    statuses.WAITING: _waiting,
    statuses.RUNNING: _running,
    statuses.SUCCEEDED: _succeeded,
    statuses.FAILED: _failed,
    statuses.TIMED_OUT: _timed_out,
    statuses.STALLED: _stalled,
    statuses.OVER_BUDGET: _over_budget,
    statuses.IN_DOUBT: _in_doubt,
    statuses.NEEDS_ATTENTION: _needs_attention,
    LAPSED: _lapsed,
    statuses.LOST: _lost,
    statuses.CANCELLED: _cancelled,
}


# ── a job, and what was used ──


@value(frozen=True, kw_only=True)
class Dearer:
    """A job that costs more than usual."""

    job: str
    factor: float  # how many times the usual cost
    since: str  # Friday, or 3 November


def job(name: str, *, runs: int, well: int, dearer: Dearer | None = None) -> Headline:
    outcome = f"{count(well)} of {count(runs)} runs succeeded" if runs else "no run has ended yet"
    costs = f"; it costs {figures.times(dearer.factor)} the usual since {dearer.since}" if dearer else ""
    return Headline(sentence=f"{_text(name)}: {outcome}{costs}.", tone=DECIDE if dearer or well < runs else CALM)


def usage(usd: float, within: str, *, dearer: Dearer | None = None) -> Headline:
    """As in: $139.42 in 30 days. articles has cost 2.9 × the usual since Friday."""
    first = f"{money(usd)} in {within}." if usd else f"Nothing was used in {within}."
    if not dearer:
        return Headline(sentence=first)
    rise = f"{_text(dearer.job)} has cost {figures.times(dearer.factor)} the usual since {dearer.since}."
    return Headline(sentence=f"{first} {rise}", tone=DECIDE)


def _text(reported: str) -> str:
    return shortened(reported, _LONGEST)
