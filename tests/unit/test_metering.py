"""What a call may cost, has cost, and may have cost: tables and properties, in whole billionths."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nightlatch.core.metering import price
from nightlatch.core.metering.call import AMPLE, BURST, LEAST, SPEED, Call, fit, in_doubt, unlowered
from nightlatch.core.metering.price import Price
from nightlatch.gateway.prices import Prices

OPUS = Price(
    model="opus",
    rates={"input": ((0, 4 * 10**9),), "output": ((0, 20 * 10**9),), "cache_read": ((0, 2 * 10**8),)},
)
LONG = Price(
    model="long", rates={"input": ((0, 10**9), (200_000, 2 * 10**9)), "output": ((0, 10**9), (200_000, 3 * 10**9))}
)


# ── prices ──


@pytest.mark.parametrize(
    ("counts", "usd"),
    [
        ({"input": 1000}, 4_000_000),
        ({"input": 1000, "output": 10}, 4_200_000),
        ({"cache_read": 1000}, 200_000),
        ({"cache_write": 1000}, 4_000_000),  # no rate of its own: as input
        ({"cache_write_1h": 1000}, 4_000_000),
        ({"web_search": 3}, 0),
    ],
)
def test_a_cost_is_the_sum_of_its_kinds(counts, usd):
    assert sum(OPUS.cost(counts).values()) == usd


def test_a_long_context_has_its_own_price_for_all_of_it():
    assert LONG.cost({"input": 200_000, "output": 1000}) == {"input": 200_000_000, "output": 1_000_000}
    assert LONG.cost({"input": 200_001, "output": 1000}) == {"input": 400_002_000, "output": 3_000_000}
    assert LONG.cost({"input": 1, "cache_read": 200_000, "output": 1}) == {
        "input": 2000,
        "cache_read": 400_000_000,
        "output": 3000,
    }
    assert LONG.dearest("output") == 3 * 10**9


def test_listed_prices_are_what_genai_prices_charges():
    from genai_prices import Usage, calc_price

    prices = Prices({}, None)
    prices.load()
    for vendor, model in (("anthropic", "claude-opus-5-5"), ("openai", "gpt-5.4"), ("google", "gemini-3.6-flash"),
                          ("anthropic", "claude-haiku-4-5"), ("openai", "gpt-5.4-mini")):  # fmt: skip
        for total in (1000, 300_000):
            usage = Usage(input_tokens=total, cache_read_tokens=100, output_tokens=777)
            charged = Fraction(calc_price(usage, model, provider_id=vendor).total_price) * 10**9
            (found,) = prices.find(vendor, model)
            ours = sum(found.cost({"input": total - 100, "cache_read": 100, "output": 777}).values())
            assert abs(ours - charged) <= 1, (model, total)


def test_a_tier_without_a_price_is_not_priced_as_another():
    prices = Prices({"gpt-5.4:ultrafast": {"input": 99, "output": 99}}, None)
    prices.load()
    assert prices.find("openai", "gpt-5.4", "flex")[0].rate("input") < prices.find("openai", "gpt-5.4")[0].rate("input")
    assert prices.find("openai", "gpt-5.4", "priority")[0].rate("input") > prices.find("openai", "gpt-5.4")[0].rate(
        "input"
    )
    assert prices.find("openai", "gpt-5.4", "ultrafast")[0].rate("input") == 99 * 10**9
    assert prices.find("anthropic", "claude-opus-5-5", "fast") == []
    assert len(prices.find("openai", "gpt-5.4", "auto")) > 1  # any of them may be charged


def test_a_ceiling_is_for_models_that_have_no_price():
    prices = Prices({}, {"input": 30, "output": 150})
    prices.load()
    assert prices.find("openai", "nobody-knows-it")[0].rate("output") == 150 * 10**9
    assert prices.find("anthropic", "claude-opus-5-5")[0].rate("output") == 20 * 10**9


# ── bounds ──


def call(**more: int | None) -> Call:
    return Call(**{"input": 3000, "input_rate": 8 * 10**9, "output": 128_000, "output_rate": 20 * 10**9, **more})  # type: ignore[arg-type]


def test_output_is_lowered_to_a_quarter_of_the_rest():
    left = 2 * 10**9
    assert fit(call(), {"usd": left}) == left // 4 * 10**6 // (20 * 10**9) == 25_000
    assert fit(call(output=9000), {"usd": left}) == 9000
    assert fit(call(output=None, highest=128_000), {"usd": left}) == 25_000


def test_output_is_not_lowered_below_what_is_ample_while_that_can_be_paid():
    left = 24_000_000 + AMPLE * 20_000  # pays the input and so much output, and not more
    assert fit(call(), {"usd": left}) == AMPLE
    assert fit(call(), {"usd": left - 20_000}) == AMPLE - 1
    assert fit(call(), {"usd": 24_000_000 + LEAST * 20_000}) == LEAST
    assert fit(call(), {"usd": 24_000_000 + LEAST * 20_000 - 1}) is None


def test_a_thinking_budget_is_never_cut_into():
    asked = call(lowest=LEAST + 30_000)
    assert fit(asked, {"usd": 2 * 10**9}) == 31_024
    assert fit(asked, {"usd": 24_000_000 + 31_000 * 20_000}) is None


@pytest.mark.parametrize(
    ("left", "output"),
    [
        ({"tokens": 200_000}, 50_000),
        ({"tokens": 3000 + 20_000}, AMPLE),
        ({"tokens": 3000 + 1024}, 1024),
        ({"tokens": 3000 + 1023}, None),
        ({"calls": 1}, 128_000),
        ({"calls": 0}, None),
        ({}, 128_000),
    ],
)
def test_other_units_bound_it_too(left, output):
    assert fit(call(), left) == output


def test_what_costs_nothing_is_never_refused_for_money():
    free = call(input_rate=0, output_rate=0)
    assert fit(free, {"usd": -5}) == 128_000
    assert fit(call(input_rate=0, output_rate=0, fee=1), {"usd": 0}) is None


CALLS = st.builds(
    Call,
    input=st.integers(0, 10**6),
    input_rate=st.integers(0, 10**11),
    output=st.none() | st.integers(0, 200_000),
    output_rate=st.integers(0, 10**12),
    lowest=st.integers(0, 70_000),
    highest=st.integers(1, 200_000),
    times=st.integers(1, 8),
    fee=st.integers(0, 10**9),
    extra=st.integers(0, 10**5),
)
LEFT = st.fixed_dictionaries(
    {}, optional={"usd": st.integers(-(10**9), 10**13), "tokens": st.integers(-5, 10**7), "calls": st.integers(0, 5)}
)


@given(CALLS, LEFT)
@example(call(input=30_000, output=2000), {"usd": 265_000_000})  # its input takes more than three quarters of the rest
@example(call(input=30_000, output=2000), {"tokens": 31_500})
def test_what_fits_is_within_what_is_left(asked, left):
    output = fit(asked, left)
    if output is None:
        return
    assert 0 <= output <= asked.wanted
    bound = asked.bound(output)
    free = not (asked.fixed or asked.output_rate)
    assert all(bound[unit] <= rest for unit, rest in left.items() if not (free and unit == "usd"))


@given(CALLS, LEFT)
def test_what_the_gateway_grants_by_itself_is_what_fits_as_it_is(asked, left):
    bound = unlowered(asked, left)
    assert bound in (None, asked.bound(asked.wanted))
    if min(left.values(), default=0) >= 0:  # what costs nothing and finds less than nothing goes to the supervisor
        assert (bound is not None) == (fit(asked, left) == asked.wanted)


@given(CALLS, LEFT, st.integers(0, 10**12))
def test_what_fits_now_fits_when_there_is_more(asked, left, more):
    if fit(asked, left) is not None:
        assert fit(asked, {unit: rest + more for unit, rest in left.items()}) is not None


# ── doubt ──


@given(CALLS, st.integers(0, 200_000), st.floats(0, 10**5), st.none() | st.integers(0, 10**12))
def test_doubt_is_within_what_was_held_and_grows_with_time(asked, output, seconds, known):
    def doubt(after: float) -> int:
        return in_doubt(fixed=asked.fixed, output_rate=asked.output_rate * asked.times, output=output,
                        most=asked.bound(output)["usd"], seconds=after, known=known)  # fmt: skip

    assert doubt(seconds) <= doubt(seconds + 1) <= asked.bound(output)["usd"]
    if known is None:
        made = min(output, BURST + int(SPEED * seconds))
        assert doubt(seconds) >= asked.fixed + asked.output_rate * asked.times * made // 10**6


@given(st.dictionaries(st.sampled_from(price.INPUTS + price.OUTPUTS), st.integers(0, 10**6)), st.integers(0, 10**5))
def test_the_dearest_price_covers_every_way_that_tokens_can_be_charged(counts, spare):
    listed = Price(
        model="m", rates={kind: ((0, 10**9 + n), (200_000, 2 * 10**9 + n)) for n, kind in enumerate(price.INPUTS)}
        | {kind: ((0, 5 * 10**9), (200_000, 6 * 10**9)) for kind in price.OUTPUTS},
    )  # fmt: skip
    read = sum(counts.get(kind, 0) for kind in price.INPUTS)
    made = sum(counts.get(kind, 0) for kind in price.OUTPUTS)
    bound = Call(input=read + spare, input_rate=listed.dearest(*price.INPUTS), output=made,
                 output_rate=listed.dearest(*price.OUTPUTS)).bound(made)  # fmt: skip
    assert sum(listed.cost(counts).values()) <= bound["usd"] + len(counts)  # each kind is rounded to the nearest


@pytest.mark.parametrize(
    ("model", "usd"), [("gpt-4o-search-preview", 0.05), ("gpt-5-search-api", 0.01), ("gpt-5.4", 0.01)]
)
def test_a_search_without_a_listed_price_costs_what_the_dearest_does(model, usd):
    prices = Prices({}, None)
    prices.load()
    assert prices.find("openai", model)[0].cost({"web_search": 1}) == {"web_search": usd * 10**9}
