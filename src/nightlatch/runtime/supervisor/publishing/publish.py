"""Publishing what a run made, once: intent, write through the gate, outcome; and recovery by a successor.

The intents of all targets are journaled before the first write. A successor, after it has sealed the gates, checks
each target for the intended content and adopts it; so after a crash between the publish and the verdict nothing is
published twice. The branch is pushed last: when the commit has landed, so has everything else. If the store is in the
same repository, the done key lands in the same push.
"""

from __future__ import annotations

from itertools import permutations

from ....errors import Conflict, NothingToPublish, StaleToken, UsageError
from ....ledger import kinds
from .push_target import PushTarget
from .replace_target import ReplaceTarget
from .targets import REPLACED, Publisher
from .workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ....core.model import Begun
    from ....core.protocols import Gate
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from .clone import Source
    from .targets import CommandFolder, Facts

    Target = ReplaceTarget | PushTarget


class Publication:
    """What is to be published where. Made before the lease is acquired, since its gates are sealed with the lease."""

    def __init__(self, targets: Iterable[str], source: Source | None) -> None:
        texts = list(targets)
        replaced = [ReplaceTarget(text) for text in texts if text != "git"]
        pushed = [PushTarget(source)] if "git" in texts and source else []
        self.targets: list[Target] = [*replaced, *pushed]
        urls = [target.gate.url for target in self.targets]
        if len(set(urls)) < len(urls):
            raise UsageError(
                "two --publish have the same target, and the second would replace the first: name different targets"
            )
        for inner, outer in permutations([getattr(target.gate, "path", "") for target in replaced], 2):
            if outer and inner.startswith(f"{outer}/"):
                raise UsageError(
                    f"--publish: {inner} is inside {outer}, which another --publish replaces as a whole. Make it part "
                    f"of what is published there, or choose a path outside"
                )
        self.settled = False  # the key was settled in one push with the result
        # This attempt's commit is on the branch, or that is unknown: other machines must check the branch before they
        # do the work again.
        self.may_have_pushed = False

    @property
    def gates(self) -> list[Gate]:
        """The gates to seal with the lease: from then on no earlier attempt can publish."""
        return [target.gate for target in self.targets]

    def publish(self, workspace: Workspace, writer: Writer, publisher: Publisher) -> None:
        """Make everything land. Raises at the first target that fails; what landed before stays."""
        self.land_targets(self.targets, workspace, writer, publisher)

    def land_targets(
        self, targets: Sequence[Target], workspace: Workspace, writer: Writer, publisher: Publisher,
        staging: CommandFolder | None = None,
    ) -> None:  # fmt: skip
        self.may_have_pushed = any(isinstance(target, PushTarget) for target in targets)
        try:
            landed = land(targets, workspace, writer, publisher, staging=staging)
        except (Conflict, UsageError, NothingToPublish):
            self.may_have_pushed = False  # nothing was pushed: the branch, which comes last, refused or was not reached
            raise
        for target, facts, _ in landed:
            self.settled = (
                isinstance(target, PushTarget) and publisher.done is not None and facts["commit"] != facts["base"]
            )

    def adopt(self, other: Begun, fresh: Workspace, writer: Writer, publisher: Publisher) -> bool:
        """Has an attempt on another machine, whose journal is not here, published everything? Then record that. Its
        commit on the branch proves it, since the branch comes last."""
        target = self.targets[-1] if self.targets else None
        if not isinstance(target, PushTarget) or not target.has_result_of(other, publisher, fresh):
            return False
        writer.event(kinds.PUBLISHED, attempt=other.attempt, target=target.gate.url, adopted=True)
        return True

    def recover(self, ledger: Ledger, fresh: Workspace, writer: Writer, publisher: Publisher) -> str:
        """Finish what an earlier attempt began to publish. Returns how it was published; "" if the work has to be done.

        If everything has landed, it is adopted, even where another write has replaced it since. If a part is missing,
        and the earlier workspace is here and unchanged, that part is published from there, unless something newer has
        landed at its targets. Otherwise the work is done again.
        """
        intents, outcomes = earlier_intents(ledger, writer.run.id)
        if any(target.gate.url not in intents for target in self.targets):
            return ""
        missing, replaced_note = [], ""
        for target in self.targets:
            url = target.gate.url
            if outcomes.get(url) == kinds.PUBLISHED:
                continue
            how = target.landed(intents[url], fresh)
            if not how:
                missing.append(target)
                continue
            replaced = how == REPLACED
            replaced_note = f", {how}" if replaced else replaced_note
            writer.event(
                kinds.PUBLISHED, attempt=intents[url]["attempt"], target=url, adopted=True, replaced=replaced or None
            )
        earlier = intents[self.targets[-1].gate.url]["attempt"]
        if not missing:
            return f"published by attempt {earlier}{replaced_note}"
        paths = {intents[target.gate.url]["workspace"] for target in missing}
        overtaken = any(target.overtaken(intents[target.gate.url]) for target in missing)
        if kinds.NOT_PUBLISHED in outcomes.values() or len(paths) > 1 or overtaken:
            return ""
        old = Workspace.left_at(*paths)
        if old is None:
            return ""
        try:
            if not all(target.intact(intents[target.gate.url], old) for target in missing):
                return ""
            self.land_targets(missing, old, writer, publisher)
            old.remove()
        finally:
            old.close()
        return f"the work of attempt {earlier}, published by attempt {writer.run.attempt}"


def land(
    targets: Sequence[Target],
    place: Workspace | CommandFolder,
    writer: Writer,
    publisher: Publisher,
    by: str | None = None,
    staging: CommandFolder | None = None,
) -> list[tuple[Target, Facts, str]]:
    """Journal the intents of all targets, then make everything land. Returns for each target what was to land, and the
    release or commit that it has become.

    Raises at the first target that fails; what landed before stays. `by`: what requested it, if not the run itself.
    `staging`: where files and folders are taken from instead of `place`.
    """

    def place_of(target: Target) -> Workspace | CommandFolder:
        return staging if staging and isinstance(target, ReplaceTarget) else place

    common = {"attempt": writer.run.attempt, "by": by}
    where = place.path if isinstance(place, Workspace) else None
    described = [(target, target.describe(place_of(target), publisher)) for target in targets]
    for target, facts in described:
        writer.event(kinds.PUBLISHING, **common | {"target": target.gate.url, "workspace": where} | facts)
    done = []
    for target, facts in described:
        url = target.gate.url
        try:
            landed = target.land(place_of(target), facts, publisher)
        except StaleToken:
            raise  # refused: another holder has the run and its journal
        except (Conflict, UsageError, NothingToPublish) as error:
            writer.event(kinds.NOT_PUBLISHED, **common, target=url, reason=error)
            raise
        writer.event(kinds.PUBLISHED, **common, target=url, landed=landed or None)
        done.append((target, facts, landed))
    return done


def earlier_intents(ledger: Ledger, run: str, by: str | None = None) -> tuple[dict[str, Facts], dict[str, str]]:
    """(intents, outcomes), both by target: the newest intent since the run last succeeded, and what became of it."""
    intents: dict[str, Facts] = {}
    outcomes: dict[str, str] = {}
    after = ledger.last_success(run)  # with --again everything is published again
    for entry in ledger.journal.of_run(run):
        facts = entry.facts
        if (
            entry.kind not in (kinds.PUBLISHING, kinds.PUBLISHED, kinds.NOT_PUBLISHED)
            or facts.get("by") != by
            or int(facts["attempt"]) <= after
        ):
            continue
        if entry.kind == kinds.PUBLISHING:
            intents[facts["target"]] = facts
            outcomes.pop(facts["target"], None)
        else:
            outcomes[facts["target"]] = entry.kind
    return intents, outcomes
