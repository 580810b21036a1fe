"""The rules of exchange on searches with minimum charges, compared with all plans."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.exact.chains import Chain, state_chain
from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths.held_labels import find_pareto_set
from optplan.solvers.paths.search import Effort

#: Most plans that are looked at one by one.
_MOST_PLANS = 4000


def _time(draw: st.DrawFn, scale_s: float, *, varies: bool) -> dict[str, Any]:
    if varies and draw(st.booleans()):
        return {"form": "log-normal", "mean_s": scale_s, "sd_s": 0.4 * scale_s}
    return {"form": "constant", "value_s": scale_s * draw(st.sampled_from([0.0, 1.0, 2.5]))}


@st.composite
def charged_searches(draw: st.DrawFn) -> RubberBandInstance:
    """Draw searches of several short stages on few instances, each charged longer than most stages last."""
    varies, trials, stages = draw(st.sampled_from([False, False, True])), draw(st.integers(2, 5)), []
    for _ in range(draw(st.integers(3, 5))):
        stages.append({"trials": trials, "iterations": draw(st.sampled_from([1, 2, 5, 12]))})
        trials = draw(st.integers(max(1, trials - 1), trials))
    table = draw(st.sampled_from([{1: 10, 2: 6}, {1: 5, 2: 4, 3: 4.5}, {1: 9, 3: 3.1}, {1: 10, 2: 5.2, 4: 2.7}]))
    cloud = {
        "gpus_per_instance": draw(st.sampled_from([1, 1, 2])),
        "price_usd_per_hour": 3.6,
        "minimum_charge_s": draw(st.sampled_from([10, 20, 40, 100])),
        "provision_s": _time(draw, 10.0, varies=varies),
        "initialise_s": _time(draw, 15.0, varies=varies),
        "data_gb": draw(st.sampled_from([0, 10])),
        "data_price_usd_per_gb": 0.0001,
        "most_instances": draw(st.integers(3, 6)),
    }
    training = {"seconds_per_iteration": table, "start_s": _time(draw, 4.0, varies=varies)}
    made = {"experiment": {"form": "stages", "stages": stages}, "training": training, "cloud": cloud}
    return RubberBandInstance.parse({**made, "mode": draw(st.sampled_from(["any", "fair"])), "deadline_s": 1e6})


def _list_paths(chain: Chain) -> IntArray:
    graph = chain.graph
    layers = [np.arange(own.start, own.stop) for own in map(graph.options, range(graph.num_layers))]
    assume(math.prod(own.size for own in layers) <= _MOST_PLANS)
    return np.stack([grid.ravel() for grid in np.meshgrid(*layers, indexing="ij")], axis=1)


def _cost(chain: Chain, paths: IntArray) -> tuple[FloatArray, FloatArray]:
    assert chain.charges is not None
    sums = chain.graph.follow(paths)
    return sums.used, sums.value + chain.charges.settle(paths)[0]


@pytest.mark.slow
@pytest.mark.slow
@given(instance=charged_searches())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_rules_lose_no_best_plan(instance: RubberBandInstance) -> None:
    """At the time of every plan, some plan that keeps the rules costs no more than all that are no slower."""
    chain = state_chain(instance, 0)
    assume(chain.charges is not None)
    seconds, usd = _cost(chain, _list_paths(chain))
    found = find_pareto_set(chain.graph, Effort(), chain.charges)
    for within_s in np.unique(seconds):
        least = usd[seconds <= within_s * (1 + 1e-9)].min()
        own = found.value[found.used <= within_s * (1 + 1e-9)].min()
        assert own == pytest.approx(least, rel=1e-9)


@given(instance=charged_searches())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_needed_sizes_bound_the_others(instance: RubberBandInstance) -> None:
    """Charges left aside, no path through any option costs less than what needed sizes alone say, nor than the best."""
    graph = state_chain(instance, 0).graph
    assume(graph.even)
    paths = graph.best_paths(np.zeros(1))
    for multiplier in (0.0, 0.1, 1.0, 10.0) * (paths.value / paths.used):
        through = graph.find_costs_through((1.0, float(multiplier)))
        assert np.all(graph.bound_costs_through((1.0, float(multiplier))) <= through * (1 + 1e-12))
        best = graph.best_paths(np.array([multiplier])).weigh(np.array([multiplier]))
        assert through.min() == pytest.approx(best[0], rel=1e-12)
