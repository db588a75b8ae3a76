"""Every kind of journal entry is one row: its name, the sentence that people read, and its fields on each chain.

An entry of a kind that is on both chains is whole on the run's chain, and the job's chain has a link to it. Only kinds
and fields that are declared here can be written. Fields may be added; a renamed field stays readable under its old name
(`chain.unpack`), since entries are kept as they were written.
"""

from __future__ import annotations

from ..core.effects import BEGUN, DONE, FAILED, IN_DOUBT, SET_ASIDE
from ..core.units import METERED, UNITS
from .chain import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ROWS: dict[str, EntryKind] = {}

RUN, JOB, STEPS = "run", "job", "steps"  # chains
ITEMS, EFFECT = "items", "effect"  # what an entry may be about, besides a run

# SQL condition for rare entries. The index `journal_rare` is used only if this implies its condition.
RARE = " AND ".join(
    f"kind <> '{kind}'"
    for kind in (
        "progress", "usage", "opened", "started", "ended", "steps", "effect", "effect-begun", "effect-done",
        "step-begun", "step-done", "input", "workspace", "publishing", "published", "batch", "lent",
    )
)  # fmt: skip

_LINK = "run seq head"  # on a job's chain: a run, and the head of its chain at that time
_DECIDED = f"{_LINK} was status reason by cancel"


class EntryKind(str):
    """The name of a kind, and its declaration."""

    fields: dict[str, frozenset[str]]  # by the chain that entries of this kind may be on
    sentence: str
    evidence: str  # the rows that the audit checks against such entries: RUN, ITEMS, EFFECT; "": none
    often: bool  # views may show several in a row as one

    def __new__(cls, name: str, sentence: str, *, evidence: str = "", often: bool = False, **fields: str) -> EntryKind:
        """A sentence has facts in braces. [this {first}|or {this}] shows the first part whose facts are all there;
        [fact? this] shows the part only if there is such a fact."""
        kind = super().__new__(cls, name)
        kind.fields = {chain: frozenset(names.split()) for chain, names in fields.items()}
        kind.sentence, kind.evidence, kind.often = sentence, evidence, often
        ROWS[name] = kind
        return kind

    @property
    def is_link(self) -> bool:
        """Does an entry on a job's chain only point to one on a run's?"""
        return RUN in self.fields and JOB in self.fields

    def describe(self, facts: Mapping[str, str]) -> str:
        """The sentence; a required fact that is missing becomes an ellipsis."""
        text, *optional = self.sentence.split("[")
        found = [_filled(text, facts, "…")]
        for part in optional:
            choices, _, rest = part.partition("]")
            filled = (_filled(choice, facts) for choice in choices.split("|"))
            found += [next((choice for choice in filled if choice), ""), _filled(rest, facts, "…")]
        return "".join(found)


def body(kind: str, chain: str, facts: Mapping[str, object]) -> str:
    """The text of an entry's facts; `ValueError` if the kind, or a field of it, is not declared for such a chain."""
    declared = ROWS.get(kind)
    fields = declared.fields.get(chain) if declared else None
    if fields is None:
        raise ValueError(f"{kind!r} is not a kind of entry on a {chain}'s chain: declare it in ledger/kinds.py")
    if not facts.keys() <= fields:
        unknown = ", ".join(sorted(facts.keys() - fields))
        raise ValueError(
            f"the kind {kind!r} has no field {unknown} on a {chain}'s chain: declare it in ledger/kinds.py"
        )
    return pack(facts)


def evidence_for(*of: str) -> frozenset[str]:
    """The kinds of entries that the audit checks these rows against."""
    return frozenset(str(kind) for kind in ROWS.values() if kind.evidence in of)


def _filled(text: str, facts: Mapping[str, str], missing: str = "") -> str:
    """The text with its facts; "" if one is absent and `missing` does not replace it."""
    needed, conditional, rest = text.partition("? ")
    if conditional and not facts.get(needed):
        return ""
    first, *parts = (rest if conditional else text).split("{")
    found = [first]
    for part in parts:
        name, _, after = part.partition("}")
        fact = facts.get(name) or missing
        if not fact:
            return ""
        found += [fact, after]
    return "".join(found)


# ── a run and its attempts ──

OPENED = EntryKind(
    "opened", "opened[ in run {parent}][ for {slot}][ on {host}]", evidence=RUN,
    run="job key slot command definition host parent", job=_LINK,
)  # fmt: skip
STARTED = EntryKind(
    "started", "attempt {attempt} started[ on {host}] (token {token})[command? , with another command]", evidence=RUN,
    run="attempt token grant holder host command definition bounds program program_size program_time program_version"
    " commit nightlatch start hidden trace",
)  # fmt: skip
LOST = EntryKind(
    "lost", "attempt {attempt} was lost: its holder {holder} is gone[; the run is {status}]", evidence=RUN,
    run="attempt token holder steps status by_token by_grant", job=f"{_LINK} attempt token holder",
)  # fmt: skip
ENDED = EntryKind(
    "ended",
    "attempt {attempt} ended: {status}[ ({reason})|, exit code {exit_code}][, after {elapsed}]"
    "[; the next one is due at {again_at}][doubt? ; it may have acted, and nobody knows]"
    "[held? ; nothing has left the workspace: it waits for an approval]",
    evidence=RUN, run="attempt status exit_code reason elapsed again_at doubt tries steps held",
    job=f"{_LINK} attempt status",
)  # fmt: skip
BEGUN_ELSEWHERE = EntryKind(
    "begun-elsewhere",
    "attempt {attempt} was begun on {host} (token {token}), which has not reported its end",
    run="attempt host token", job="run attempt host token",
)  # fmt: skip
INPUT = EntryKind("input", "its input is {path}", run="path sha256")
WORKSPACE = EntryKind("workspace", "its workspace is {path}[, at commit {commit}]", run="path commit")
EXCEPTION = EntryKind("exception", "it reported a failure[: {reason}]", run="reason traceback")
LENT = EntryKind("lent", "a process of the run records its steps itself", run="")
PROGRESS = EntryKind(
    "progress", "progress: {done}[ of {total}][ ({message})]", evidence=RUN, often=True, run="done total message"
)
USAGE = EntryKind(
    "usage",
    "used" + "".join(f"[ {unit}={{{unit}}}]" for unit in UNITS) + "[ for {item}][, model {model}]",
    evidence=RUN, often=True, run=" ".join(UNITS) + " model kind source item tag agent id call began ended",
)  # fmt: skip
NOTED = EntryKind(
    "noted", "it reported" + "".join(f"[ {unit}={{{unit}}}]" for unit in METERED) + ", which the gateway has counted",
    run=" ".join(METERED),
)  # fmt: skip

# ── what people decide about a run, and observers find ──

SLEPT = EntryKind("slept", "{host} slept for {elapsed}", job="host elapsed until")

OPENED_AGAIN = EntryKind("opened-again", "opened again[ on {host}]; it was {was} before", job=f"{_DECIDED} host")
CANCEL_REQUESTED = EntryKind("cancel-requested", "{by} requested its end", job="run by")
BUDGET = EntryKind("budget", "{by} set its budget to {caps}", job="run caps by")
CANCELLED = EntryKind("cancelled", "{by} cancelled it", job=_DECIDED)
RESOLVED = EntryKind("resolved", "{by} resolved it as {status}", job=_DECIDED)
RESOLVED_ELSEWHERE = EntryKind(
    "resolved-elsewhere", "{by} decided about {key}, which another machine began: {outcome}", job="key outcome by"
)
RETRIED = EntryKind("retried", "{by} allowed another attempt", job=f"{_DECIDED} attempt")
HELD = EntryKind("held", "it waits for an approval, and is not begun before", job=f"{_DECIDED} held")
APPROVED = EntryKind("approved", "{by} approved it", job=f"{_DECIDED} approved")
NOT_ALLOWED = EntryKind(
    "not-allowed", "refused: a run asked for `nightlatch {what}`, which only a person may use", job="what run by"
)
ACKNOWLEDGED = EntryKind("acknowledged", "{by} has seen it", job="run attempt by")
NEEDS_ATTENTION = EntryKind("needs-attention", "needs your attention: {reason}", job=_DECIDED)
UNSEALED = EntryKind("unsealed", "not taken over by {by}: {reason}", job="run reason by")
REFUSED = EntryKind(
    "refused",
    "refused[: {what}], by attempt {attempt} with token {token}[; a newer holder has token {stands}][. {reason}]",
    job="run attempt what token stands reason",
)  # fmt: skip
USUAL = EntryKind("usual", "{by} accepted the new level of {what} as the usual one", job="what by run")
PLAN = EntryKind(
    "plan", "a dry-run for the key {key}: {status}[ ({reason})]",
    job="key status exit_code reason effects steps elapsed left_out",
)  # fmt: skip
CUT = EntryKind("cut", "{by} removed what was older than the retention", job="runs by before seq hash links")

# ── a job's slots ──

DEFINED = EntryKind("defined", "another definition is in force[, by {by}]: {definition}", job="definition was by")
PAUSED = EntryKind("paused", "{by} paused it[ until {until}][: {reason}]", job="by until reason")
UNPAUSED = EntryKind("unpaused", "{by} ended the pause", job="by")
SLOT_SKIPPED = EntryKind("slot-skipped", "{by} skipped the slot {slot}", job="slot by")
SET_BACK = EntryKind("set-back", "its slots go on from {to}, not from {was}: the clock was ahead", job="was to era by")
STRUCK = EntryKind("struck", "{slots} slots beyond {time} do not count: the clock was ahead", job="time era slots")

# ── a job's stage ──

STAGED = EntryKind("staged", "{was} → {stage}, by {by}[forced? , forced][: {why}]", job="id stage was by why at forced")
COUNTED = EntryKind(
    "counted", "its end counted[: clean runs as {stage}: {clean}]", job="id status stage clean strikes run"
)

# ── publishing ──

PLANNED = EntryKind(
    "planned", "to be published to {target}, when it is approved",
    run="attempt target workspace from sha256 size commit base over landed definition",
)  # fmt: skip

PUBLISHING = EntryKind(
    "publishing", "publishing to {target}",
    run="attempt by target workspace from sha256 token over commit base run scope key",
)  # fmt: skip
PUBLISHED = EntryKind(
    "published",
    "published to {target}[ as {landed}][adopted? , by attempt {attempt}]"
    "[replaced? , and replaced by another write since]",
    run="attempt by target landed adopted replaced",
)  # fmt: skip
NOT_PUBLISHED = EntryKind("not-published", "not published to {target}: {reason}", run="attempt by target reason")

# ── effects: in the run that does it, and on the chain of its scope ──

EFFECT_OF_RUN = EntryKind("effect", "effect {key}: {status}[ ({reason})][, by a {by}]", run="key status reason by")
_OF_EFFECT = "scope key attempt token status"
EFFECT_BEGUN = EntryKind("effect-begun", "effect {key} begun by {by}", evidence=EFFECT, job=f"{_OF_EFFECT} by command")
_ENDED = f"{_OF_EFFECT} exit_code reason by"
EFFECT_DONE = EntryKind("effect-done", "effect {key} done", evidence=EFFECT, job=_ENDED)
EFFECT_FAILED = EntryKind(
    "effect-failed", "effect {key} failed, surely not done[: {reason}]", evidence=EFFECT, job=_ENDED
)
EFFECT_IN_DOUBT = EntryKind("effect-in-doubt", "effect {key} in doubt[: {reason}]", evidence=EFFECT, job=_ENDED)
EFFECT_ENDED = {DONE: EFFECT_DONE, FAILED: EFFECT_FAILED, IN_DOUBT: EFFECT_IN_DOUBT}  # by its status
EFFECT_RESOLVED = EntryKind(
    "effect-resolved", "effect {key} resolved as {status}, by {by}", evidence=EFFECT, job=_ENDED
)
EFFECT_LEARNED = EntryKind(
    "effect-learned", "effect {key} is {status}, by another machine[: {reason}]", evidence=EFFECT,
    job=f"{_OF_EFFECT} reason",
)  # fmt: skip

# ── agents at a vendor ──

AGENT = EntryKind(
    "agent", "agent {handle} at {provider}: {status}[ ({note})][, {page}]",
    run="handle provider agent status note page item launch",
)  # fmt: skip
AGENT_SEEN = EntryKind(
    "agent-seen", "{by}: agent {handle} at {provider} is {status}[ ({note})]",
    job="run handle provider status note by",
)  # fmt: skip

# ── a batch's items: their keys by their status, one a line ──

BATCH = EntryKind("batch", "a batch; to continue it: {again}", run="again")
BATCH_KEY = EntryKind("batch-key", "its items are known by {key}", job="key")
_STATUSES = (BEGUN, DONE, FAILED, IN_DOUBT, SET_ASIDE)
_KEYS = "".join(f"[ {status}: {{{status}}}.]" for status in _STATUSES)
ITEMS_MOVED = EntryKind("steps", f"items{_KEYS}", evidence=ITEMS, run=" ".join(_STATUSES))
ITEMS_LOST = EntryKind(
    "steps-lost", f"items that a lost attempt had begun{_KEYS}", evidence=ITEMS, run=" ".join(_STATUSES)
)
ITEMS_PUBLISHING = EntryKind("steps-publishing", f"publishing items{_KEYS}", evidence=ITEMS, run=" ".join(_STATUSES))
ITEMS_RESOLVED = EntryKind(
    "steps-resolved", "items resolved as {status}: {keys}", evidence=ITEMS, job="status keys reason"
)

# ── a run's steps, on a separate chain ──

_OF_STEP = "digest tries attempt key reason result"
STEP_BEGUN = EntryKind("step-begun", "step {key} begun", steps=_OF_STEP)
STEP_DONE = EntryKind("step-done", "step {key} done", steps=_OF_STEP)
STEP_FAILED = EntryKind("step-failed", "step {key} failed[: {reason}]", steps=_OF_STEP)
STEP = {BEGUN: STEP_BEGUN, DONE: STEP_DONE, FAILED: STEP_FAILED}  # by the step's status
