"""A run with a budget: its calls to models go through the gateway, and what they cost never passes it."""

from __future__ import annotations

import sys

import pytest

from tests.support.budgets import spent
from tests.support.programs import nightlatch
from tests.support.vendor import Plan, Vendor

ANTHROPIC = """
import anthropic, sys
client = anthropic.Anthropic()
for _ in range(int(sys.argv[1])):
    ask = dict(model="claude-opus-5-5", max_tokens=2000, messages=[{"role": "user", "content": "Say good night"}])
    if sys.argv[2] == "json":
        message = client.messages.create(**ask)
    else:
        with client.messages.stream(**ask) as stream:
            message = stream.get_final_message()
    print(message.content[0].text, message.usage.output_tokens)
"""


@pytest.mark.parametrize("how", ["json", "sse"])
def test_what_a_run_used_is_what_the_vendor_charged(sqlite_url, how):
    with Vendor(plan=lambda _: Plan(output=300, cache_read=10, cache_write=7, cache_write_1h=5)) as vendor:
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=2", "--",
                          sys.executable, "-c", ANTHROPIC, "3", how, env=vendor.environment)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("night night night") == 3
        found = spent(sqlite_url, "night")
        assert found.usd == vendor.charged > 0
        assert (found.calls, found.doubt, found.held) == (3, 0, 0)


def test_a_call_that_the_budget_cannot_pay_is_refused_and_the_run_is_over_budget(sqlite_url):
    with Vendor(plan=lambda _: Plan(output=2000)) as vendor:
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=0.2", "--",
                          sys.executable, "-c", ANTHROPIC, "50", "json", env=vendor.environment)  # fmt: skip
        assert done.returncode == 121, done.stderr
        assert "billing_error" in done.stderr + done.stdout
        found = spent(sqlite_url, "night")
        assert 0.2e9 * 0.9 <= vendor.charged == found.usd <= 0.2e9
        assert (found.status, found.held) == ("over-budget", 0)
        assert "the budget usd=0.2 is spent" in found.reason
        assert len([one for one in vendor.calls]) == found.calls  # a refusal stops the client: no call after it
