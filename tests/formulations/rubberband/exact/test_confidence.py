"""Limits that are kept with a probability: against every plan, by hand, and what is said where none is found."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from optplan.contracts.result import BoundProof, SolveRequest, Status, Termination
from optplan.errors import DataError, UsageError
from optplan.formulations.rubberband.data.instance import Objective, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.exact.confidence import solve_with_confidence
from optplan.formulations.rubberband.judge.evaluation import evaluate, on_time_probability
from optplan.formulations.rubberband.laws.confidence import joint_chance
from optplan.formulations.rubberband.laws.sampling import sample_plan
from optplan.progress import Stopwatch
from optplan.reporting.rubberband.words import say_how_good
from optplan.schema import FloatArray
from optplan.solving import solve
from optplan.verification import verify

from ..conftest import ListPlans

#: Random searches that are compared with all their plans; of 300 the best plan was found wherever there was one.
SEARCHES = 6
NOISE = {"form": "normal", "sd_fraction": 0.1}
DELAYS = {"form": "empirical", "values_s": [5, 10, 30]}


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


def _make_small(**changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
    """Make two stages with noise, starts and delays of all sorts, and up to three instances."""
    fields: dict[str, Any] = {
        "experiment": {"form": "stages", "stages": [{"trials": 3, "iterations": 4}, {"trials": 1, "iterations": 8}]},
        "training": {
            "seconds_per_iteration": {1: 10, 2: 6, 4: 4},
            "iteration_noise": {"form": "normal", "sd_fraction": 0.15},
            "start_s": {"form": "log-normal", "mean_s": 5, "sd_s": 3},
        },
        "cloud": {
            "gpus_per_instance": 2,
            "price_usd_per_hour": 3.6,
            "provision_s": DELAYS,
            "initialise_s": {"form": "normal", "mean_s": 20, "sd_s": 3},
            "most_instances": 3,
        },
        "deadline_s": 150.0,
        "confidence": 0.9,
    }
    for name, change in changes.items():
        nested = isinstance(change, dict) and "form" not in change
        fields[name] = {**fields[name], **change} if nested else change
    return RubberBandInstance.parse(fields)


def _draw(seed: int) -> RubberBandInstance:
    """Draw a tiny search with noise; half of them have minimum charges, and all sorts of delays."""
    rng = random.Random(seed)
    count = rng.choice([1, 2, 2, 3])
    trials = sorted((rng.randint(1, 4) for _ in range(count)), reverse=True)
    pace, start = {"form": "normal", "sd_fraction": rng.choice([0.05, 0.15])}, {"form": "log-normal"}
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
                "provision_s": rng.choice([0, 10, DELAYS]),
                "initialise_s": rng.choice([5, 20, {"form": "normal", "mean_s": 20, "sd_s": 3}]),
                "data_gb": rng.choice([0, 1]),
                "data_price_usd_per_gb": 0.01,
            },
            "objective": rng.choice(["cost", "time"]),
            "confidence": rng.choice([0.3, 0.6, 0.9, 0.97]),
        }
    )


def _find_chances(instance: RubberBandInstance, plans: list[RubberBandSolution]) -> FloatArray:
    """Return how likely each plan keeps all limits, as finely as it is decided."""
    limits = [instance.limits.get(name, math.inf) * (1.0 + 1e-9) for name in ("deadline", "budget")]
    chances = []
    for plan in plans:
        held, gpus = zip(*((one.instances, one.gpus) for one in plan.brackets[0]), strict=True)
        rough = joint_chance(instance, held, gpus, *limits, cells=1 << 16)
        near = abs(rough - (instance.confidence or 0.0)) < 0.02
        chances.append(joint_chance(instance, held, gpus, *limits) if near else rough)
    return np.array(chances)


@pytest.mark.parametrize("seed", range(1, 1 + SEARCHES))
def test_the_best_of_all_plans_that_keep_the_limits(seed: int, list_every_plan: ListPlans) -> None:
    """A deadline, a budget or both: the best plan of all that keep them is found, and no bound lies above it."""
    instance, rng = _draw(seed), random.Random(-seed - 1)
    plans = list_every_plan(instance)
    measured = [evaluate(instance, plan).measures for plan in plans]
    seconds, usd = (np.array([one[name] for one in measured]) for name in ("expected_s", "expected_usd"))
    near = rng.randrange(len(plans))
    deadline_s, budget = float(seconds[near] * rng.uniform(0.9, 1.3)), f"{usd[near] * rng.uniform(0.9, 1.3):.9f}usd"
    for changes in (
        {"deadline_s": deadline_s, "objective": "cost"},
        {"budget": budget, "objective": "time"},
        {"deadline_s": deadline_s, "budget": budget},
    ):
        asked = instance.replace(**changes)
        within = _find_chances(asked, plans) >= (asked.confidence or 0.0) - 1e-6
        best = (usd if asked.objective is Objective.COST else seconds)[within].min(initial=math.inf)
        result = solve(asked)
        assert verify(asked, result).ok
        if result.objective is None:
            assert best == math.inf
            assert (result.status is Status.INFEASIBLE) == (result.infeasibility is not None)
            continue
        assert result.objective == pytest.approx(best, rel=1e-9)
        assert result.bound is None or result.bound <= best * (1.0 + 1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "fair"},
        {"cloud": {"billing": "per-function", "data_gb": 1, "data_price_usd_per_gb": 0.01}},
        {"cloud": {"minimum_charge_s": 120}},
        {
            "experiment": {"form": "hyperband", "most_iterations": 3, "eta": 3, "order": "side-by-side"},
            "cloud": {"most_instances": 1},
        },
    ],
    ids=["fair", "per-function", "minimum-charge", "side-by-side"],
)
def test_finds_the_cheapest_of_all_plans_that_are_on_time(changes: dict[str, Any], list_every_plan: ListPlans) -> None:
    """Of all plans that keep the deadline with the wanted probability, exactly evaluated, the cheapest is found."""
    instance = _make_small(**changes)
    plans = list_every_plan(instance)
    usd = np.array([evaluate(instance.replace(confidence=None), plan).objective for plan in plans])
    deadlines_s = (80.0, 100.0, 150.0)
    each = np.array([[on_time_probability(instance, plan, deadline_s) for deadline_s in deadlines_s] for plan in plans])
    for deadline_s, chances in zip(deadlines_s, each.T, strict=True):
        for confidence in (0.5, 0.95):
            asked = instance.replace(deadline_s=deadline_s, confidence=confidence)
            best = usd[chances >= confidence - 1e-6].min(initial=math.inf)
            result = solve(asked)
            assert verify(asked, result).ok
            assert (math.inf if result.objective is None else result.objective) == pytest.approx(best, rel=1e-9)
            assert result.bound is None or result.bound <= best * (1.0 + 1e-9)


def test_a_limit_that_costs_nothing_is_proven_to() -> None:
    """Within 400 s the cheapest plan of all, of 0.38 usd, is on time often enough: the bound of the means proves it."""
    result = solve(_make(deadline_s=400, budget=None))
    assert (result.status, result.bound_proof) == (Status.OPTIMAL, BoundProof.LAGRANGIAN)
    assert result.warnings == ()


def test_what_is_not_proven_is_said() -> None:
    """A plan above the bound of the means is feasible, and a sentence says what is open."""
    instance = _make_small(confidence=0.95)
    result = solve(instance)
    assert result.status is Status.FEASIBLE
    assert result.bound is not None
    assert result.warnings == (
        "found by bisection among the plans best for the means: that none is better is not proven",
    )
    assert verify(instance, result).ok


def test_where_durations_vary_too_much_nothing_is_claimed() -> None:
    """A request's deviation is 0.72 of its mean; of a limit kept in three of ten runs the mean may be any multiple."""
    instance = _make_small(confidence=0.3)
    result = solve(instance)
    assert (result.status, result.bound, result.bound_proof) == (Status.FEASIBLE, None, BoundProof.NONE)
    assert result.certificates == ()
    late = solve(instance.replace(deadline_s=50.0))
    assert (late.status, late.bound) == (Status.UNKNOWN, None)
    assert verify(instance, result).ok


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


@pytest.mark.parametrize("budget", [None, "0.39usd"])
def test_sampling_confirms_it(budget: str | None) -> None:
    """Of 20,000 sampled runs as many keep the limits as the judge says, within 4 standard errors."""
    instance = _make(confidence=0.7, budget=budget, deadline_s=290)
    result = solve(instance)
    assert result.solution is not None
    samples = sample_plan(instance, result.solution, samples=20_000, seed=2)
    kept = (samples.completion_s <= 290.0) & (samples.cost_usd <= (0.39 if budget else math.inf))
    chance = result.measures["kept_probability" if budget else "on_time_probability"]
    assert chance >= 0.7
    assert abs(float(np.mean(kept)) - chance) <= 4.0 * math.sqrt(chance * (1.0 - chance) / samples.size) + 1e-4


@pytest.mark.parametrize("changes", [{"objective": "cost"}, {"objective": "time"}, {"budget": None}], ids=str)
def test_more_confidence_never_helps(changes: dict[str, Any]) -> None:
    """The objective rises with the probability, until no plan is found."""
    changes = {"budget": "0.5usd"} | changes
    best = [solve(_make(confidence=p, **changes)).objective for p in (0.1, 0.5, 0.9, 0.999)]
    found = [one if one is not None else math.inf for one in best]
    assert found == sorted(found)
    assert found[0] < math.inf


def test_the_fastest_within_a_budget_alone() -> None:
    """Without a deadline the budget alone is kept with the probability, however long it takes."""
    result = solve(_make(objective="time", deadline_s=None, budget="0.5usd"))
    assert result.status is Status.OPTIMAL
    assert result.measures["kept_probability"] == result.measures["within_budget_probability"] >= 0.95
    assert "on_time_probability" not in result.measures


def test_the_likeliest_plan_is_named_where_none_is_found() -> None:
    """The means may keep 290 s and 0.39 usd, and the likeliest plan keeps both in three of four runs."""
    instance = _make(deadline_s=290, budget="0.39usd")
    result = solve(instance)
    assert (result.status, result.objective) == (Status.UNKNOWN, None)
    assert result.warnings == (
        "the likeliest plan found keeps the deadline of 290 s and the budget of 0.39 usd with a probability of 0.742 "
        "(asked: 0.95); whether another one does better is not known",
    )
    assert verify(instance, result).ok


def test_what_is_too_little_for_the_means_is_infeasible() -> None:
    """No plan costs less than 0.38 usd on average, 160 s are the fastest: both with what noise adds, and what it takes.

    With a deviation of 0.0224 of the mean, and 0.2297 for the confidence, a limit of L leaves L / 0.9949 for the mean.
    """
    instance = _make(deadline_s=290, budget="0.37usd")
    result = solve(instance)
    claim = result.infeasibility
    assert claim is not None
    ((least,), (lost,)) = claim.relaxations, claim.hopeless
    assert (least.limit, lost.limit) == ("budget", "deadline")
    assert 0.38 < least.least_feasible < 0.3865
    assert claim.reason == (
        "no plan keeps the deadline of 290 s and the budget of 0.37 usd with a probability of 0.95; a plan needs a "
        f"budget of {least.least_feasible:.4g} usd at least; no deadline is enough"
    )
    assert verify(instance, result).ok
    assert say_how_good(instance, result) == "That is proven: every plan keeps both limits less often."
    assert solve(instance.replace(budget=f"{0.999 * least.least_feasible}usd")).status is Status.INFEASIBLE
    assert solve(instance.replace(budget=f"{1.001 * least.least_feasible}usd")).status is Status.UNKNOWN
    late = solve(_make(deadline_s=150, budget=None))
    assert late.infeasibility is not None
    assert verify(_make(deadline_s=150, budget=None), late).ok
    assert say_how_good(_make(deadline_s=150, budget=None), late) == "That is proven: every plan keeps it less often."


def test_without_noise_the_means_decide() -> None:
    """Where nothing varies, every confidence asks for what the limits ask without one, and that is proven."""
    training = {"seconds_per_iteration": {1: 10, 2: 6, 4: 4}}
    result = solve(_make(training=training))
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(0.38)
    assert "kept_probability" not in result.measures


def test_a_budget_alone_asks_for_the_other_problem() -> None:
    """Without a deadline there is nothing that the least cost is traded against."""
    with pytest.raises(
        UsageError, match=r"has no deadline; give one, .* what the budget alone buys: --problem fastest"
    ):
        solve(_make(deadline_s=None))


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


class _EndingStopwatch(Stopwatch):
    """Expires once it has been looked at so often."""

    looks = 0

    @property
    def expired(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("looks", [0, 30, 60, 100])
def test_stops_in_time(looks: int) -> None:
    """Wherever time runs out, what is known by then holds: a plan keeps the deadline, and no bound is too high."""
    stopwatch = _EndingStopwatch()
    stopwatch.looks = looks
    answer = solve_with_confidence(_make_small(), SolveRequest(stopwatch=stopwatch))
    assert answer.termination is Termination.TIME_LIMIT
    best = solve(_make_small())
    assert answer.bound is None or answer.bound <= (best.objective or 0.0)
    if answer.solution is not None:
        assert all(check.holds for check in evaluate(_make_small(), answer.solution).checks)
