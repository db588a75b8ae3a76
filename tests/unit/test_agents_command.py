"""What a launch command proves by its exit code and its reply."""

from __future__ import annotations

import pytest

from nightlatch.agents.command import CommandAdapter
from nightlatch.agents.seam import Ask, NotLaunched, Unclear

ASK = Ask(agent="a", input="go", fields={}, labels={})


def adapter(launch: str) -> CommandAdapter:
    return CommandAdapter({"launch": launch, "poll": "true", "cancel": "true"})


def test_a_launch_that_surely_did_nothing_exits_with_1_and_says_so():
    with pytest.raises(NotLaunched) as refused:
        adapter("""echo '{"launched": false, "later": 7}'; exit 1""").launch(ASK, "")
    assert refused.value.later == 7


@pytest.mark.parametrize(
    "launch",
    [
        """echo '{"launched": false}'; exit 3""",
        """echo '{"launched": false}'; kill -9 $$""",
        """echo '{"launched": false}'""",
        "exit 1",
    ],
)
def test_any_other_failure_of_a_launch_leaves_it_in_doubt(launch):
    with pytest.raises(Unclear):
        adapter(launch).launch(ASK, "")
