from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination, TreeCertificate
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.exact.both_limits import solve_held_distributions
from optplan.formulations.rubberband.judge.completion import on_time_probability
from optplan.formulations.rubberband.judge.evaluation import evaluate
from optplan.formulations.rubberband.judge.trees import check_tree
from optplan.formulations.rubberband.laws.sampling import sample_plan
from optplan.progress import Stopwatch
from optplan.schema import FloatArray

from ...conftest import ListPlans


def _make(**changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
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
            "provision_s": {"form": "empirical", "values_s": [5, 10, 30]},
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


def _cost_all(instance: RubberBandInstance, plans: list[RubberBandSolution]) -> FloatArray:
    return np.array([evaluate(instance, plan).measures["expected_usd"] for plan in plans])


def _check(instance: RubberBandInstance, certificate: object) -> None:
    assert isinstance(certificate, TreeCertificate)
    check_tree(instance, certificate, Stopwatch())


def _solve(instance: RubberBandInstance) -> Answer[RubberBandSolution]:
    return solve_held_distributions(instance, SolveRequest(gap=1e-6))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mode": "fair"},
        {"cloud": {"billing": "per-function", "data_gb": 1, "data_price_usd_per_gb": 0.01}},
        {"cloud": {"minimum_charge_s": 120}},
        {
            "experiment": {"form": "hyperband", "most_iterations": 3, "eta": 3, "order": "side-by-side"},
            "cloud": {"most_instances": 1},
        },
    ],
    ids=["per-instance", "fair", "per-function", "minimum-charge", "side-by-side"],
)
def test_finds_the_cheapest_of_all_plans_that_are_on_time(changes: dict[str, Any], list_every_plan: ListPlans) -> None:
    """Of all plans that keep the deadline with the wanted probability, exactly evaluated, the solver's is cheapest."""
    instance = _make(**changes)
    plans = list_every_plan(instance)
    usd = _cost_all(instance, plans)
    for deadline_s in (80.0, 100.0, 150.0):
        chances = np.array([on_time_probability(instance, plan, deadline_s) for plan in plans])
        for confidence in (0.5, 0.95):
            asked = instance.replace(deadline_s=deadline_s, confidence=confidence)
            answer = _solve(asked)
            if answer.solution is None:
                assert chances.max() < confidence
                assert answer.status is Status.INFEASIBLE
                _check(asked, answer.infeasibility.certificate if answer.infeasibility else None)
                continue
            assert answer.status is Status.OPTIMAL
            assert answer.bound_proof is BoundProof.TREE
            assert on_time_probability(instance, answer.solution, deadline_s) >= confidence - 1e-6
            assert answer.objective == pytest.approx(usd[chances >= confidence].min(), rel=1e-9)
            _check(asked, answer.certificates[0])


def test_more_confidence_costs_more() -> None:
    """The optimum rises with the probability and falls with the deadline."""
    costs = [_solve(_make(confidence=confidence)).objective or 0.0 for confidence in (0.05, 0.5, 0.9, 0.999)]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]
    later = [_solve(_make(deadline_s=deadline_s)).objective or 0.0 for deadline_s in (125.0, 150.0, 400.0)]
    assert later == sorted(later, reverse=True)
    assert later[0] > later[-1]


def test_refuses_what_no_plan_can_keep(list_every_plan: ListPlans) -> None:
    """Below a time before which no plan is likely enough to be complete, the answer says so, and that time."""
    instance = _make(deadline_s=60.0, confidence=0.99)
    answer = _solve(instance)
    assert answer.status is Status.INFEASIBLE
    assert answer.infeasibility is not None
    relaxation = answer.infeasibility.relaxations[0]
    least_s = relaxation.least_feasible
    reason = f"no plan completes within {least_s:,.6g} s with a probability of 0.99; the deadline is 60 s"
    assert answer.infeasibility.reason == reason
    _check(instance, answer.infeasibility.certificate)
    _check(instance, relaxation.certificate)
    assert max(on_time_probability(instance, plan, least_s * 0.999) for plan in list_every_plan(instance)) < 0.99
    assert _solve(instance.replace(deadline_s=1.02 * least_s)).status is Status.OPTIMAL


def test_without_noise_the_expected_time_decides(list_every_plan: ListPlans) -> None:
    """Where nothing varies, every confidence asks the same, and the bound has its certificates."""
    changes: dict[str, Any] = {
        "training": {"iteration_noise": None, "start_s": 5},
        "cloud": {"provision_s": 10, "initialise_s": 20},
    }
    answer = _solve(_make(**changes))
    plans = list_every_plan(_make(**changes))
    usd = _cost_all(_make(**changes), plans)
    times = np.array([evaluate(_make(**changes), plan).measures["expected_s"] for plan in plans])
    assert answer.objective == pytest.approx(usd[times <= 150.0].min())
    assert answer.certificates
    assert answer.status is Status.OPTIMAL


class _EndingStopwatch(Stopwatch):
    """Expires once it has been looked at so often."""

    looks = 0

    @property
    def expired(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("looks", [0, 30, 100, 300])
def test_stops_in_time_with_a_bound(looks: int) -> None:
    """Wherever time runs out, what is known by then holds, and the bound has its certificate."""
    stopwatch = _EndingStopwatch()
    stopwatch.looks = looks
    answer = solve_held_distributions(_make(), SolveRequest(stopwatch=stopwatch))
    assert answer.termination is Termination.TIME_LIMIT
    assert (answer.bound is None) == (looks == 0)
    if answer.bound is not None:
        assert answer.bound <= (_solve(_make()).objective or 0.0)
        _check(_make(), answer.certificates[0])


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_sampling_confirms_the_chance(confidence: float) -> None:
    """20,000 simulated runs keep the deadline as often as the evaluator says, and so at least as often as asked."""
    instance = _make(confidence=confidence, deadline_s=170.0)
    found = solve_held_distributions(instance, SolveRequest())
    assert found.solution is not None
    share = sample_plan(instance, found.solution, samples=20_000, seed=1).chance_within(170.0)
    error = np.sqrt(share.value * (1.0 - share.value) / 20_000) + 1e-4
    assert abs(share.value - on_time_probability(instance, found.solution, 170.0)) <= 4.0 * error
    assert share.value >= confidence - 4.0 * error
