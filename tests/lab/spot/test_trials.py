"""Markets from traces, and trials on the part that was not learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from optplan.errors import UsageError
from optplan.lab.spot.replaying import SpotJob, SpotPrices, build_market, region_of, zone_of
from optplan.lab.spot.traces import SpotTrace
from optplan.lab.spot.trials import score, try_policies

if TYPE_CHECKING:
    from tests.lab.spot.conftest import Writer

STEP_S = 3600.0


def test_a_market_of_two_traces() -> None:
    """The shorter trace says how long it is; two of each are wanted, half a tick is a step, and prices are for two."""
    traces = {
        "a": SpotTrace("a", 7200.0, np.array([2, 1, 3]), 3),
        "b": SpotTrace("b", 7200.0, np.array([0, 2]), 2),
    }
    prices: dict[str, float | SpotPrices] = {"a": 1.0, "b": SpotPrices(3600.0, np.array([1.0, 2.0, 3.0]))}
    market = build_market(traces, nodes=2, spot_usd_per_hour=prices, on_demand_usd_per_hour=3.0, finer=2)
    assert market.available.tolist() == [[True, True, False, False], [False, False, True, True]]
    assert market.usd_per_hour.tolist() == [[2.0] * 4, [2.0, 4.0, 6.0, 6.0]]
    assert market.price_usd(1).tolist() == [2.0, 4.0, 6.0]
    assert market.window(1, 3).available.tolist() == [[True, False], [False, True]]


def test_traces_that_do_not_belong_together() -> None:
    """Ticks that differ."""
    traces = {"a": SpotTrace("a", 60.0, np.array([1, 1]), 1), "b": SpotTrace("b", 300.0, np.array([1, 1]), 1)}
    with pytest.raises(UsageError, match="traces: got ticks of 60 s, 300 s"):
        build_market(traces, nodes=1, spot_usd_per_hour={"a": 1.0, "b": 1.0}, on_demand_usd_per_hour=3.0)


def test_zones_of_files() -> None:
    """A file's name begins with the zone, and a zone with its region."""
    assert zone_of("traces/us-east-1a_v100_1.json") == "us-east-1a"
    assert (region_of("us-east-1a"), region_of("ap-northeast-2c"), region_of("here")) == (
        "us-east-1",
        "ap-northeast-2",
        "here",
    )


def test_what_is_learned_from_is_not_replayed(write_market: Writer) -> None:
    """The plan of a market whose first half has spot all the time is the same whatever comes later, and loses there.

    Its second half has none: no policy can pay less than on demand, 1 + 2 hours at $3.
    """
    market = write_market("#" * 10 + "." * 10)
    trials = try_policies(
        SpotJob(2, 6, 1, 1, STEP_S), market, ["on-demand", "planned"], train_share=0.5, trials=4, seed=3
    )
    assert all(10 <= trial.start <= 14 for trial in trials)
    assert [trial.least_usd for trial in trials] == [9.0] * 4
    hindsight, on_demand, planned = score(trials)
    assert (hindsight.ratio, on_demand.ratio, planned.kept) == (1.0, 1.0, 1.0)
    assert planned.cost_usd == 9.0
    assert (on_demand.spot_hours, on_demand.on_demand_hours) == (0.0, 3.0)


def test_sums_by_hand(write_market: Writer) -> None:
    """Starts at 4 or 5 of a market with a spot hour more at 4: the means and the 95 % quantile of the two ratios."""
    market = write_market("#.#.###...")
    job = SpotJob(2, 5, 0, 1, STEP_S)
    trials = try_policies(job, market, ["on-demand"], train_share=0.4, trials=6, seed=0)
    starts = [trial.start for trial in trials]
    assert set(starts) == {4, 5}
    assert [trial.least_usd for trial in trials] == [2.0] * 6
    assert score(trials)[1].ratio == 3.0
