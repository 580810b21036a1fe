"""What GPUs cost where some are committed: by hand, and by looking at every number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.laws.demand import Demand, Tariff, make_bill

#: 0 to 4 GPUs in use for a fifth of the time each: 2 on average.
UNIFORM = Demand(np.full((1, 5), 0.2))


def tariff(**fields: object) -> Tariff:
    """Return that of a type with these fields, at 10 US dollars an hour on demand."""
    return Tariff.of(GpuType.model_validate({"price_usd_per_hour": 10.0} | fields))


def test_the_number_is_a_quantile() -> None:
    """More than 2 GPUs are in use for 40 % of the time and more than 1 for 60 %: at half the price 2 are committed.

    They cost 1 at all hours, and 3 or 4 in use leave 1 and 2 on demand: 0.2 + 0.4.
    """
    bill = make_bill(tariff(commitments={"year": {"discount": 0.5}}), UNIFORM)
    assert bill.gpus == {"year": 2.0}
    assert (bill.committed, bill.on_demand, bill.spot) == pytest.approx((1.0, 0.6, 0.0))
    same = make_bill(tariff(commitments={"year": {"price_usd_per_hour": 5.0}}), UNIFORM)
    assert same.gpus == bill.gpus
    assert same.total == pytest.approx(1.6)


def test_terms_stack_up_to_their_quantiles() -> None:
    """At a discount of 90 % 4 would be committed, 1 may be; at 50 % the second is worth it, the third is not."""
    terms = {"year": {"discount": 0.5}, "three": {"discount": 0.9, "most_gpus": 1}}
    bill = make_bill(tariff(commitments=terms), UNIFORM)
    assert bill.gpus == {"year": 1.0, "three": 1.0}
    assert bill.total == pytest.approx(0.1 + 0.5 + 0.6)
    few = {"year": {"discount": 0.5, "most_gpus": 1}}
    assert make_bill(tariff(commitments=few), UNIFORM).gpus == {"year": 1.0}


def test_shares_divide_the_committed_gpus() -> None:
    """Half at a discount of 30 % and half at 70 % are all at 50 %."""
    terms = {"year": {"discount": 0.3, "share": 0.5}, "three": {"discount": 0.7, "share": 0.5}}
    bill = make_bill(tariff(commitments=terms), UNIFORM)
    assert bill.gpus == {"year": 1.0, "three": 1.0}
    assert bill.total == pytest.approx(1.6)


def test_spot_takes_its_share_of_what_is_in_use() -> None:
    """With none committed at a discount of nothing, half of 2 GPUs on average costs a fifth: 1 + 0.2."""
    spot = {"discount": 0.8, "share": 0.5}
    bill = make_bill(tariff(commitments={"year": {"discount": 0.0}}, spot_market=spot), UNIFORM)
    assert bill.gpus == {"year": 0.0}
    assert (bill.on_demand, bill.spot) == pytest.approx((1.0, 0.2))


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.floats(0.01, 1.0), min_size=2, max_size=12),
    discounts=st.tuples(st.floats(0.0, 0.99), st.floats(0.0, 0.99)),
    most=st.sampled_from([None, 1, 3]),
    spot=st.sampled_from([None, {"discount": 0.3, "share": 0.4}, {"discount": 0.9, "share": 1.0}]),
)
def test_no_number_is_better(
    weights: list[float], discounts: tuple[float, float], most: int | None, spot: dict[str, float] | None
) -> None:
    """The bill is the least of all numbers, no less than the least price of GPUs in use, and falls with discounts."""
    demand = Demand(np.array([weights]) / sum(weights))
    low, high = sorted(discounts)
    totals = []
    for discount in (low, high):
        terms = {"year": {"discount": discount}, "three": {"discount": high, "most_gpus": most}}
        fields = {"commitments": terms} | ({} if spot is None else {"spot_market": spot})
        kind = GpuType.model_validate(fields)
        bill = make_bill(Tariff.of(kind), demand)
        each = [make_bill(Tariff.of(kind), demand, float(number)).total for number in range(len(weights) + 1)]
        assert bill.total == pytest.approx(min(each), rel=2e-9)
        assert bill.total >= kind.least_price * demand.mean * (1.0 - 1e-9)
        totals.append(bill.total)
    assert totals[1] <= totals[0] * (1.0 + 2e-9)
