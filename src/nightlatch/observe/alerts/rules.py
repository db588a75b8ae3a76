"""What alerts are sent for: one row each. A rule needs no setting; `mute` turns one off, for all jobs or for one."""

from __future__ import annotations

from ...core import statuses
from ...core.value import value

RULES: dict[str, Rule] = {}

RUNS = "runs"  # the subject of problems with how a job's runs end


@value(frozen=True, kw_only=True)
class Rule:
    name: str
    rank: int  # 0 is the most urgent; of a storm, the ten most urgent alerts are shown
    title: str  # of the message; it follows the job's name
    help: str
    at_once: bool = False  # send it at the first occurrence, whatever `after` says


def _rule(name: str, rank: int, title: str, help: str, *, at_once: bool = False) -> str:
    RULES[name] = Rule(name=name, rank=rank, title=title, help=help, at_once=at_once)
    return name


IN_DOUBT = _rule("in-doubt", 0, "is in doubt", "a run or an effect may have acted, and nobody knows", at_once=True)
ATTENTION = _rule("needs-attention", 0, "needs your attention", "a run waits for a person", at_once=True)
STORE_AWAY = _rule("store-away", 0, "store unreachable", "the store did not answer twice, a minute apart", at_once=True)
LAPSED = _rule("lapsed", 1, "has lapsed", "a run's holder is gone, and nobody has taken over", at_once=True)
FAILED = _rule("failed", 1, "failed", "a run failed, and no other try follows")
TIMED_OUT = _rule("timed-out", 1, "timed out", "a run was ended by its timeout")
STALLED = _rule("stalled", 1, "stalled", "a run was ended because its progress did not advance")
OVER_BUDGET = _rule("over-budget", 1, "is over its budget", "a run was ended by its budget")
LOST = _rule("lost", 1, "was lost", "a run's holder died or lost its lease, and no other try follows")
OVERDUE = _rule("overdue", 2, "is overdue", "a slot or a try was due, and nobody has begun it", at_once=True)
DEMOTED = _rule("demoted", 2, "was demoted", "failures have lowered its stage", at_once=True)
APPROVAL = _rule("approval", 2, "waits for your approval", "a run holds its writes until a person approves them",
                 at_once=True)  # fmt: skip
EXPIRES = _rule("expires", 2, "will expire in an hour", "what waits for an approval is about to expire", at_once=True)
BUDGET_80 = _rule("budget-80", 3, "has used 80 % of its budget", "a day's or month's cap is nearly used", at_once=True)
CHANGED = _rule("changed", 3, "has left its usual level", "money, tokens, time or items: `usage JOB --changes`",
                at_once=True)  # fmt: skip
REFUSED = _rule("refused", 4, "stale write refused", "a holder that was overtaken tried to write", at_once=True)
UNDELIVERED = _rule("undelivered", 2, "alert undelivered", "a message could not be delivered", at_once=True)
REMINDER = _rule("reminder", 3, "is still wrong",
                 "an alert was sent, and the problem persists: repeated every `remind`", at_once=True)  # fmt: skip
RECOVERED = _rule("recovered", 5, "recovered", "an alert was sent, and the problem is over", at_once=True)
DIGEST = _rule("digest", 5, "the night", "the morning report, at `digest`", at_once=True)
TEST = _rule("test", 5, "test", "`nightlatch alerts test`", at_once=True)

OF_STATUS = {  # a run's status → its rule
    statuses.FAILED: FAILED,
    statuses.TIMED_OUT: TIMED_OUT,
    statuses.STALLED: STALLED,
    statuses.OVER_BUDGET: OVER_BUDGET,
    statuses.LOST: LOST,
    statuses.IN_DOUBT: IN_DOUBT,
    statuses.NEEDS_ATTENTION: ATTENTION,
}
# Kinds of journal entries that each become an alert.
OF_KIND = {
    "refused": REFUSED,
    "demoted": DEMOTED,
    "held": APPROVAL,
    "effect-in-doubt": IN_DOUBT,
    "needs-attention": ATTENTION,
}
# A person's decision ends a problem without a message: the person knows.
DECIDED = ("resolved", "cancelled", "effect-resolved", "retried", "approved")
