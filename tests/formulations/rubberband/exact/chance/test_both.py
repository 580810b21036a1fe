"""A deadline and a budget that are both kept with a probability: against every plan, by hand, and forged proofs."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from optplan.contracts.result import Result, Status
from optplan.errors import DataError
from optplan.formulations.rubberband.data.instance import Objective, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.judge.evaluation import evaluate
from optplan.formulations.rubberband.laws.both import both_chance
from optplan.formulations.rubberband.laws.sampling import sample_plan
from optplan.schema import FloatArray
from optplan.solving import solve
from optplan.verification import verify

from ...conftest import ListPlans

#: Random searches that are compared with all their plans; 1,000 take some 20 minutes.
SEARCHES = 4


def _make(**changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
    """Make the two stages of docs/rubberband.md with noise: 280 s cost 0.38 usd, 240 s 0.42, and 180 s 0.48."""
    stages = [{"trials": 4, "iterations": 10}, {"trials": 1, "iterations": 30}]
    fields: dict[str, Any] = {
        "experiment": {"form": "stages", "stages": stages},
        "training": {"seconds_per_iteration": {1: 10, 2: 6, 4: 4}, "iteration_noise": NOISE},
        "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6, "minimum_charge_s": 0, "most_instances": 8},
        "deadline_s": 300,
        "budget": "0.41usd",
        "confidence": 0.95,
    }
    return RubberBandInstance.parse({**fields, **changes})


NOISE = {"form": "normal", "sd_fraction": 0.1}


def _draw(seed: int) -> RubberBandInstance:
    """Draw a tiny search with noise; half of them have minimum charges, and all sorts of delays."""
    rng = random.Random(seed)
    count = rng.choice([1, 2, 2, 3])
    trials = sorted((rng.randint(1, 4) for _ in range(count)), reverse=True)
    pace, start = {"form": "normal", "sd_fraction": rng.choice([0.05, 0.15])}, {"form": "log-normal"}
    delays = {"form": "empirical", "values_s": [5, 10, 30]}
    return RubberBandInstance.parse(
        {
            "experiment": {
                "form": "stages",
                "stages": [{"trials": n, "iterations": rng.randint(1, 8)} for n in trials],
            },
            "training": {
                "seconds_per_iteration": {1: 10, 2: 6, 4: 4},
                "iteration_noise": rng.choice([NOISE, {"form": "log-normal", "sd_fraction": 0.3}]),
                "trial_noise": rng.choice([None, pace]),
                "start_s": rng.choice([0, 5, start | {"mean_s": 5, "sd_s": 3}]),
            },
            "cloud": {
                "gpus_per_instance": 2,
                "price_usd_per_hour": 3.6,
                "minimum_charge_s": rng.choice([0, 0, 30, 60]),
                "most_instances": rng.choice([2, 3]) if count == 3 else rng.choice([2, 3, 4]),
                "provision_s": rng.choice([0, 10, delays]),
                "initialise_s": rng.choice([5, 20, {"form": "normal", "mean_s": 20, "sd_s": 3}]),
                "data_gb": rng.choice([0, 1]),
                "data_price_usd_per_gb": 0.01,
            },
            "objective": rng.choice(["cost", "time"]),
            "confidence": rng.choice([0.3, 0.6, 0.9, 0.97]),
        }
    )


def _find_chances(instance: RubberBandInstance, plans: list[RubberBandSolution]) -> FloatArray:
    """Return how likely each plan keeps both limits, as finely as it is decided."""
    limits = [instance.limits[name] * (1.0 + 1e-9) for name in ("deadline", "budget")]
    chances = []
    for plan in plans:
        held, gpus = zip(*((one.instances, one.gpus) for one in plan.brackets[0]), strict=True)
        rough = both_chance(instance, held, gpus, *limits, cells=1 << 16)
        near = abs(rough - (instance.confidence or 0.0)) < 0.02
        chances.append(both_chance(instance, held, gpus, *limits) if near else rough)
    return np.array(chances)


@pytest.mark.parametrize("seed", range(1, 1 + SEARCHES))
def test_the_best_of_all_plans_that_keep_both(seed: int, list_every_plan: ListPlans) -> None:
    """Of all plans the best that keeps both often enough; none where none does; proven either way."""
    instance, rng = _draw(seed), random.Random(-seed - 1)
    plans = list_every_plan(instance)
    measured = [evaluate(instance, plan).measures for plan in plans]
    seconds, usd = (np.array([one[name] for one in measured]) for name in ("expected_s", "expected_usd"))
    near = rng.randrange(len(plans))
    deadline_s, budget = float(seconds[near] * rng.uniform(0.9, 1.3)), f"{usd[near] * rng.uniform(0.9, 1.3):.9f}usd"
    asked = instance.replace(deadline_s=deadline_s, budget=budget)
    within = _find_chances(asked, plans) >= (asked.confidence or 0.0) - 1e-6
    result = solve(asked, gap=0.0)
    assert verify(asked, result).nothing_wrong
    if not within.any():
        assert result.status is Status.INFEASIBLE
        return
    best = (usd if asked.objective is Objective.COST else seconds)[within].min()
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(best, rel=1e-9)


def test_a_budget_that_either_limit_alone_would_keep_may_not_be_kept_with_the_other() -> None:
    """Within 300 s with 0.95 a plan of 0.38 usd does; the budget of 0.41 usd is kept by it, too, but not both so often.

    What is late is dear as well, so that both are kept more often than if they had nothing to do with one another.
    """
    alone = solve(_make(budget=None))
    assert alone.objective == pytest.approx(0.385, abs=0.005)
    both = solve(_make(confidence=0.9))
    kept, late, dear = (
        both.measures[name] for name in ("kept_probability", "on_time_probability", "within_budget_probability")
    )
    assert late * dear < kept <= min(late, dear)
    assert kept >= 0.9


def test_sampling_confirms_it() -> None:
    """Of 20,000 sampled runs as many keep both as the judge says, within 4 standard errors."""
    instance = _make(confidence=0.7, budget="0.39usd", deadline_s=290)
    result = solve(instance)
    assert result.solution is not None
    samples = sample_plan(instance, result.solution, samples=20_000, seed=2)
    share = float(np.mean((samples.completion_s <= 290.0) & (samples.cost_usd <= 0.39)))
    chance = result.measures["kept_probability"]
    assert abs(share - chance) <= 4.0 * math.sqrt(chance * (1.0 - chance) / samples.size)


@pytest.mark.parametrize("objective", ["cost", "time"])
def test_more_confidence_never_helps(objective: str) -> None:
    """The optimum rises with the probability, until no plan reaches it."""
    best = [solve(_make(objective=objective, confidence=p, budget="0.5usd")).objective for p in (0.1, 0.5, 0.9, 0.999)]
    found = [one if one is not None else math.inf for one in best]
    assert found == sorted(found)
    assert found[0] < math.inf


def test_the_fastest_within_a_budget_alone() -> None:
    """Without a deadline the budget alone is kept with the probability, however long it takes."""
    result = solve(_make(objective="time", deadline_s=None, budget="0.5usd"))
    assert result.status is Status.OPTIMAL
    assert result.measures["kept_probability"] == result.measures["within_budget_probability"] >= 0.95
    assert "on_time_probability" not in result.measures


def test_what_helps_is_said_with_the_likeliest_plan() -> None:
    """More money helps within 290 s, as much as is said; no deadline helps 0.39 usd."""
    instance = _make(deadline_s=290, budget="0.39usd")
    result = solve(instance)
    claim = result.infeasibility
    assert claim is not None
    assert [one.limit for one in claim.relaxations] == ["budget"]
    assert [one.limit for one in claim.hopeless] == ["deadline"]
    assert claim.reason.startswith(
        "no plan keeps the deadline of 290 s and the budget of 0.39 usd with a probability of 0.95; the likeliest plan "
    )
    least = claim.relaxations[0].least_feasible
    assert solve(instance.replace(budget=f"{1.002 * least}usd")).status is Status.OPTIMAL
    assert solve(instance.replace(budget=f"{0.998 * least}usd")).status is Status.INFEASIBLE
    assert verify(instance, result).nothing_wrong


def test_without_noise_the_means_decide() -> None:
    """Where nothing varies, every confidence asks for what the limits ask without one."""
    training = {"seconds_per_iteration": {1: 10, 2: 6, 4: 4}}
    result = solve(_make(training=training))
    assert result.objective == pytest.approx(0.38)
    assert "kept_probability" not in result.measures


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cloud": {"billing": "per-function"}}, "how likely that is kept is not known for cloud.billing per-function"),
        (
            {"experiment": {"form": "hyperband", "most_iterations": 3, "eta": 3, "order": "side-by-side"}},
            "how likely that is kept is not known for brackets side by side",
        ),
    ],
    ids=["per-function", "side-by-side"],
)
def test_what_has_no_such_probability_is_refused(changes: dict[str, Any], message: str) -> None:
    """Where costs are no sum of the durations that times are, the error says so, and what to change."""
    changes = (
        {name: {**_make().to_json_data()[name], **change} for name, change in changes.items()}
        if ("cloud" in changes)
        else changes
    )
    with pytest.raises(DataError, match=message):
        _make(**changes)


def _change(result: Result[Any], **changes: Any) -> Result[Any]:  # noqa: ANN401 - of any kind
    (certificate,) = result.certificates
    bound = changes.get("bound", result.bound)
    return result.replace(certificates=(certificate.replace(**changes),), bound=bound)


@pytest.mark.parametrize(
    "changes",
    [{"rule": "rubberband-charges"}, {"content": {"points": 1}}, {"content": {"points": True}}, {"content": {}}],
    ids=str,
)
def test_forged_proofs_are_refused(changes: dict[str, Any]) -> None:
    """Other rules prove nothing here, and grids have points."""
    instance = _make(confidence=0.9)
    result = solve(instance)
    assert verify(instance, result).nothing_wrong
    assert not verify(instance, _change(result, **changes)).nothing_wrong


def test_a_bound_beyond_the_optimum_is_refuted_by_a_plan() -> None:
    """A proof that 0.1 % more is needed, or that nothing is enough, finds the plan that is."""
    instance = _make(confidence=0.9)
    result = solve(instance)
    assert result.objective is not None
    assert not verify(instance, _change(result, bound=1.001 * result.objective)).nothing_wrong
    refused = solve(_make(deadline_s=290, budget="0.39usd"))
    claimed = instance.replace(deadline_s=400, budget="0.6usd")
    assert not verify(claimed, refused.replace(instance_hash=claimed.content_hash())).nothing_wrong
