"""What is left of a budget, in the vendor's unit: dollars, tokens or output tokens."""

from __future__ import annotations

from ..errors import OverBudget, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .prices import Tariff
    from .seam import Adapter


def limits(adapter: Adapter, tariff: Tariff, model: str, allowance: Mapping[str, float]) -> dict[str, Any]:
    """The `usd` and `tokens` of an `Ask`: the caps that the vendor itself can enforce. Raises if such a cap cannot be
    computed: without it the agent must not be launched."""
    for unit, amount in allowance.items():
        if amount <= 0:
            raise OverBudget(f"nothing is left of the budget in {unit}: nothing is launched")
    usd, tokens = allowance.get("usd"), allowance.get("tokens")
    enforced: dict[str, Any] = {}
    if usd is not None and "usd" in adapter.budgets:
        enforced["usd"] = usd
    elif usd is not None and adapter.budgets:
        affordable = tariff.tokens(model, usd, output="output" in adapter.budgets)
        if affordable is None:
            raise UsageError(
                f"there is no price for {model}, so a budget in usd cannot be given to the vendor. Name the model that "
                f"it uses (--set priced_as=MODEL), or state a price in [prices] of nightlatch.toml"
            )
        tokens = affordable if tokens is None else min(tokens, affordable)
    if tokens is not None and {"tokens", "output"} & set(adapter.budgets):
        if tokens < 1:
            raise OverBudget("what is left of the budget does not pay for a token: nothing is launched")
        enforced["tokens"] = int(tokens)
    return enforced
