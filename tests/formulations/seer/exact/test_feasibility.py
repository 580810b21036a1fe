"""What is said when no search keeps the limits: the reason, the least that would do, and the proof."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.contracts import Relaxation, SolveRequest, Status
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.seer.exact.answers import infeasible_answer
from optplan.formulations.seer.published.policy import solve_published

MakeInstance = Callable[..., SeerInstance]


def test_too_short_a_deadline(make_instance: MakeInstance) -> None:
    """T < t_min: one trial for two minutes needs just these."""
    instance = make_instance(deadline_min=0.5, least_round_min=2)
    answer = infeasible_answer(instance)
    assert (answer.status, answer.solution, answer.bound) == (Status.INFEASIBLE, None, None)
    assert answer.infeasibility is not None
    assert answer.infeasibility.reason == (
        "one trial for the shortest round (2 min on 1 GPU) needs a deadline of at least 2 min (given: 0.5)"
    )
    assert answer.infeasibility.factor == 4.0
    assert answer.infeasibility.relaxations == (
        Relaxation(
            limit="deadline",
            given=0.5,
            least_feasible=2.0,
            enough=2.0,
            unit="min",
            parts={"one trial": 2.0},
            multipliers={"budget": 0.0, "deadline": 1.0},
        ),
    )


def test_too_small_a_budget_in_its_own_unit(make_instance: MakeInstance) -> None:
    """B < p_min t_min: 2 GPUs for a minute are 1/30 GPU-hour, 0.1 dollars at 3 an hour."""
    instance = make_instance(budget="0.02usd", price_usd_per_gpu_hour=3, least_gpus=2)
    infeasibility = infeasible_answer(instance).infeasibility
    assert infeasibility is not None
    assert infeasibility.reason == (
        "one trial for the shortest round (1 min on 2 GPUs) needs a budget of at least 0.1 usd (given: 0.02)"
    )
    (relaxation,) = infeasibility.relaxations
    assert (relaxation.limit, relaxation.given, relaxation.unit) == ("budget", 0.02, "usd")
    assert relaxation.least_feasible == pytest.approx(0.1)


def test_the_least_that_would_do_does(make_instance: MakeInstance) -> None:
    """What the relaxation says is feasible, and a little less is not."""
    instance = make_instance(budget="0.02usd", price_usd_per_gpu_hour=3, least_gpus=2)
    infeasibility = infeasible_answer(instance).infeasibility
    assert infeasibility is not None
    least = infeasibility.relaxations[0].least_feasible
    for factor, status in ((1.0, Status.FEASIBLE), (0.999, Status.INFEASIBLE)):
        tried = make_instance(budget=f"{least * factor!r}usd", price_usd_per_gpu_hour=3, least_gpus=2)
        answer = solve_published(tried, SolveRequest(gap=0.0))
        assert (answer.status is Status.INFEASIBLE) == (status is Status.INFEASIBLE)


def test_when_both_fall_short_no_single_limit_helps(make_instance: MakeInstance) -> None:
    """The reason names both; the factor is that of the worse one."""
    infeasibility = infeasible_answer(make_instance(deadline_min=0.5, budget="0.1gpu-min")).infeasibility
    assert infeasibility is not None
    assert infeasibility.relaxations == ()
    assert infeasibility.factor == pytest.approx(10.0)
    assert infeasibility.multipliers == {"budget": 1.0, "deadline": 0.0}
    assert infeasibility.reason.endswith(
        "needs a budget of at least 1 gpu-min (given: 0.1) and a deadline of at least 1 min (given: 0.5)"
    )


def test_figures_are_rounded_up(make_instance: MakeInstance) -> None:
    """A millionth of a minute less than a minute and a third is not enough; the figure shown is."""
    instance = make_instance(deadline_min=4 / 3 - 1e-6, least_round_min=4 / 3)
    infeasibility = infeasible_answer(instance).infeasibility
    assert infeasibility is not None
    assert "a deadline of at least 1.33333334 min (given: 1.33333233333)" in infeasibility.reason
