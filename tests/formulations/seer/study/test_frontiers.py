"""What other budgets and deadlines buy of quality, and which limit may vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optplan.contracts import SolveRequest
from optplan.errors import UnsupportedError, UsageError
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.study.frontiers import STEPS, build_pareto
from optplan.progress import Stopwatch
from optplan.solving import pareto

MakeInstance = Callable[..., SeerInstance]

PRIOR: dict[str, Any] = {
    "form": "parametric",
    "start_loss": 1.0,
    "terminal_low_loss": 0.0,
    "terminal_high_loss": 1.0,
    "rate_low_per_min": 0.1,
    "rate_high_per_min": 1.0,
    "scaling": {"gpus": [1, 2, 4], "speedup": [1.0, 1.8, 3.0]},
    "samples": 500,
    "choice_samples": 100,
}


@pytest.fixture
def informed(make_instance: MakeInstance) -> SeerInstance:
    """Return a small search with a prior."""
    return make_instance(objective="quality", prior=PRIOR, budget="30gpu-min")


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "unit"), [("budget", "GPU-min"), ("deadline", "min")])
def test_more_of_a_limit_buys_less_loss(informed: SeerInstance, limit: str, unit: str) -> None:
    """Each point keeps the amount that it was chosen for and the other limit, has its interval, beats all before."""
    found = pareto(informed, limit=limit)
    assert (found.limit_name, found.limit_unit, found.objective_unit) == (limit, unit, "loss")
    assert not found.exact
    assert 3 <= len(found.points) <= len(STEPS)
    objectives = [point.objective for point in found.points]
    assert objectives == sorted(set(objectives), reverse=True)
    limits = [point.limit for point in found.points]
    assert limits == sorted(set(limits))
    for point in found.points:
        assert point.bound is None
        assert point.low is not None
        assert point.high is not None
        assert point.low < point.objective < point.high
        amount = point.measures["budget_gpu_min" if limit == "budget" else "deadline_min"]
        assert point.limit <= amount * (1 + 1e-9)
        changed = {"budget": f"{amount}gpu-min"} if limit == "budget" else {"deadline_min": amount}
        assert isinstance(point.solution, SeerSolution)
        judged = evaluate(informed.replace(**changed), point.solution)
        assert all(check.holds for check in judged.checks)
        assert judged.objective == pytest.approx(point.objective, rel=1e-9)


def test_the_budget_is_the_usual_limit(informed: SeerInstance) -> None:
    """Of both objectives."""
    stopped = SolveRequest(stopwatch=Stopwatch(0.0))
    assert build_pareto(informed, stopped).limit_name == "budget"
    assert build_pareto(informed.replace(objective="spend"), stopped).limit_name == "budget"


def test_amounts_too_large_to_be_sampled_are_left_out(make_instance: MakeInstance) -> None:
    """Four times a budget whose published plan has more than 1,250 trials."""
    prior = PRIOR | {"samples": 10, "choice_samples": 10}
    instance = make_instance(objective="quality", prior=prior, deadline_min=1, budget="4000gpu-min", most_gpus=1)
    found = pareto(instance)
    assert found.points[-1].limit == pytest.approx(4000.0)


def test_out_of_time_there_are_fewer_points(informed: SeerInstance) -> None:
    """What was known by then: nothing."""
    assert build_pareto(informed, SolveRequest(stopwatch=Stopwatch(0.0))).points == ()


def test_limits_that_cannot_vary_are_refused(informed: SeerInstance) -> None:
    """Unknown ones by name; spending does not depend on the deadline alone."""
    with pytest.raises(UsageError, match=r"^limit: got 'time'; '.*' has budget and deadline$"):
        pareto(informed, limit="time")
    with pytest.raises(UnsupportedError, match=r"^the frontier of the objective spend is by budget; that of quality"):
        pareto(informed.replace(objective="spend"), limit="deadline")
