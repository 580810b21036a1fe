"""The probability that a deadline and a budget are both kept: by hand, by quadrature, and by sampling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution, StageAllocation
from optplan.formulations.rubberband.laws.confidence import joint_chance
from optplan.formulations.rubberband.laws.sampling import sample_plan


def _make(stages: list[tuple[int, int]], **changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
    """Make a search on instances of one GPU for a dollar a second; an iteration takes 10 s on one GPU."""
    fields: dict[str, Any] = {
        "experiment": {"form": "stages", "stages": [{"trials": n, "iterations": x} for n, x in stages]},
        "training": {"seconds_per_iteration": {1: 10}, "trial_noise": {"form": "normal", "sd_fraction": 0.1}},
        "cloud": {"gpus_per_instance": 1, "price_usd_per_hour": 3600, "minimum_charge_s": 0, "most_instances": 9},
    }
    for name, change in changes.items():
        fields[name] = {**fields[name], **change}
    return RubberBandInstance.parse(fields)


def test_one_weight_is_one_dimension() -> None:
    """One instance for one trial of 100 s, deviation 10: who is done within 110 s keeps $110, and vice versa."""
    instance = _make([(1, 10)])
    chances = [
        joint_chance(instance, [1], [1], *limits) for limits in ((110, 200), (200, 110), (110, 110), (math.inf, 110))
    ]
    assert chances == pytest.approx([ndtr(1.0)] * 4, abs=1e-6)


def test_two_stages_are_an_integral() -> None:
    """Two trials on two instances, then one on one: of the first stage's time t, what is left is min(D - t, B - 2 t).

    The larger of two normal times has the distribution function Phi(t)^2; 20,000 midpoints of it are the check.
    """
    instance = _make([(2, 10), (1, 30)])
    for deadline_s, budget_usd in ((410.0, 520.0), (430.0, 505.0), (400.0, 600.0), (math.inf, 500.0)):
        below = (np.arange(20_000) + 0.5) / 20_000
        from scipy.special import ndtri

        first_s = 100.0 + 10.0 * ndtri(np.sqrt(below))
        left_s = np.minimum(deadline_s - first_s, budget_usd - 2.0 * first_s)
        exact = float(ndtr((left_s - 300.0) / 30.0).mean())
        assert joint_chance(instance, [2, 1], [2, 1], deadline_s, budget_usd) == pytest.approx(exact, abs=1e-5)


def test_what_does_not_vary_is_kept_or_not() -> None:
    """Without noise 100 s and $100 are kept exactly at the limits, and data is paid on top."""
    instance = _make([(1, 10)], training={"trial_noise": None}, cloud={"data_gb": 1, "data_price_usd_per_gb": 5})
    assert joint_chance(instance, [1], [1], 100.0, 105.0) == 1.0
    assert joint_chance(instance, [1], [1], 100.0, 104.9) == 0.0
    assert joint_chance(instance, [1], [1], 99.9, 105.0) == 0.0


#: Cases of several weights: instances held, in stages of 4, 3, 2 and 1 trials.
HELD = ([4, 3, 2, 1], [1, 3, 1, 1], [4, 3, 3, 2], [2, 2, 3, 1])


@pytest.mark.parametrize("held", HELD, ids=str)
def test_sampling_agrees(held: list[int]) -> None:
    """Of 40,000 sampled runs as many keep both, within 4 standard errors; a coarser grid changes little."""
    delays = {
        "provision_s": {"form": "log-normal", "mean_s": 10, "sd_s": 5},
        "initialise_s": {"form": "normal", "mean_s": 20, "sd_s": 3},
    }
    instance = _make([(4, 3), (3, 4), (2, 5), (1, 6)], cloud=delays)
    chain = tuple(StageAllocation(instances=m, gpus=min(m, n)) for m, n in zip(held, (4, 3, 2, 1), strict=True))
    gpus = [one.gpus for one in chain]
    samples = sample_plan(instance, RubberBandSolution(brackets=(chain,)), samples=40_000, seed=3)
    deadline_s, budget_usd = float(np.quantile(samples.completion_s, 0.8)), float(np.quantile(samples.cost_usd, 0.75))
    chance = joint_chance(instance, held, gpus, deadline_s, budget_usd)
    share = float(np.mean((samples.completion_s <= deadline_s) & (samples.cost_usd <= budget_usd)))
    assert abs(share - chance) <= 4.0 * math.sqrt(share * (1.0 - share) / samples.size)
    coarser = joint_chance(instance, held, gpus, deadline_s, budget_usd, cells=1 << 18)
    assert chance == pytest.approx(coarser, abs=3e-5)
