"""GPUs in use at once: hand figures, and the judge's recursion against the solvers' transform."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Result, Solution
from optplan.errors import DataError
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Problem
from optplan.formulations.boa.data.job_classes import ArrivalPattern, JobClass, Widths
from optplan.formulations.boa.exact.peak import demand as forecasting
from optplan.formulations.boa.judge import following as judging
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.instances.generators import random_boa
from optplan.instances.library import build_named
from optplan.solving import build_plan, solve
from optplan.speedup import PowerSpeedup, TableSpeedup
from optplan.verification import verify

#: All jobs of a day come in its first hour.
AT_ONCE = [24.0, *[0.0] * 23]

#: More GPUs do not help.
FLAT = TableSpeedup(gpus=np.array([1, 2, 3]), speedup=np.array([1.0, 1.0, 1.0]))


def one_class(
    width: int = 1, pattern: ArrivalPattern | None = None, **fields: object
) -> tuple[BoaInstance, BoaSolution]:
    """Return a job an hour that holds so many GPUs for an hour, and that plan."""
    job = JobClass(arrival_rate_per_hour=1.0, epoch_size_gpu_hours=[1.0], speedup={"t4": FLAT}, arrivals=pattern)
    given = {"gpu_types": {"t4": GpuType()}, "budget": "9gpu", **fields}
    plan = BoaSolution(branches={"job": (Branch(widths=np.array([width], dtype=float)),)})
    return BoaInstance.parse({"classes": {"job": job}, "problem": Problem.WHOLE, **given}), plan


@pytest.mark.parametrize("find", [judging.find_demand, forecasting.find_demand])
def test_jobs_of_one_gpu_are_poisson(find: object) -> None:
    """A job an hour for an hour: P(0) = P(1) = 1/e, P(U > 1) = 1 - 2/e, and 3 GPUs are enough for 98 % of the time."""
    demand = find(*one_class())  # type: ignore[operator]
    assert demand.chances[0, :2] == pytest.approx([1 / math.e] * 2, rel=1e-12)
    assert demand.over(1) == pytest.approx(1 - 2 / math.e, rel=1e-12)
    assert (demand.quantile(0.95), demand.mean) == (3.0, pytest.approx(1.0))


@pytest.mark.parametrize("find", [judging.find_demand, forecasting.find_demand])
def test_wide_jobs_move_in_steps(find: object) -> None:
    """The same jobs on 3 GPUs: P(3) = 1/e and no other number below 6."""
    chances = find(*one_class(3)).chances[0]  # type: ignore[operator]
    assert chances[:6] == pytest.approx([1 / math.e, 0, 0, 1 / math.e, 0, 0], abs=1e-11)


@pytest.mark.parametrize("find", [judging.find_demand, forecasting.find_demand])
def test_clumps_by_hand(find: object) -> None:
    """Dispersion 3 goes on with chance 1/2, half a clump an hour: P(1) = P(0) / 4, P(2) = P(0) (1/8 + 1/32)."""
    pattern = ArrivalPattern(hourly=[1.0] * 24, dispersion=3.0)
    demand = find(*one_class(pattern=pattern))  # type: ignore[operator]
    none = math.exp(-0.5)
    assert demand.chances[7, :3] == pytest.approx([none, 0.25 * none, none * (1 / 8 + 1 / 32)], rel=1e-12)
    numbers = np.arange(demand.chances.shape[1])
    assert demand.mean == pytest.approx(1.0)
    assert demand.any_time @ (numbers - 1.0) ** 2 == pytest.approx(3.0)  # variance over mean is the dispersion


@pytest.mark.parametrize("find", [judging.find_demand, forecasting.find_demand])
def test_the_day_by_hand(find: object) -> None:
    """24 jobs in the first hour, each for an hour: 12 on average at 0:30 and 1:30, then none; 18 are enough there."""
    demand = find(*one_class(pattern=ArrivalPattern(hourly=AT_ONCE)))  # type: ignore[operator]
    means = demand.chances @ np.arange(demand.chances.shape[1])
    assert means == pytest.approx([12.0, 12.0, *[0.0] * 22], abs=1e-9)
    assert demand.busiest(0.95) == 18.0  # P(Poisson(12) <= 17) = .937, <= 18 = .963
    assert demand.quantile(0.5) == 0.0


def test_phases_are_seen_when_they_happen() -> None:
    """An hour on 1 GPU, then an hour on 2: at 1:30 twelve jobs are in each phase, at 2:30 twelve in the second only."""
    instance, _ = one_class(pattern=ArrivalPattern(hourly=AT_ONCE))
    job = instance.classes["job"].replace(epoch_size_gpu_hours=[1.0, 1.0], speedup={"t4": FLAT})
    plan = BoaSolution(branches={"job": (Branch(widths=np.array([1.0, 2.0])),)})
    demand = judging.find_demand(instance.replace(classes={"job": job}), plan)
    means = demand.chances @ np.arange(demand.chances.shape[1])
    assert means[:4] == pytest.approx([12.0, 36.0, 24.0, 0.0], abs=1e-9)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), problem=st.sampled_from(list(Problem)))
def test_recursion_and_transform_agree(seed: int, problem: Problem) -> None:
    """Two statements of the stays and two ways to sum give the same chances, and the mean that the evaluator has."""
    rng = np.random.default_rng(seed)
    instance = random_boa(seed=seed, classes=2, epochs=4, widths=8, problem=problem)
    patterns = {
        name: ArrivalPattern(hourly=rng.random(24), dispersion=1 + 4 * rng.random()) for name in instance.classes
    }
    classes = {name: each.replace(arrivals=patterns[name]) for name, each in instance.classes.items()}
    instance = instance.replace(classes=classes)
    result = solve(instance, check=False)
    if result.solution is None:
        return
    for steady in (False, True):
        one, other = (m.find_demand(instance, result.solution, steady=steady) for m in (judging, forecasting))
        assert one.chances == pytest.approx(other.chances, abs=1e-12)
        assert one.chances.sum(axis=1) == pytest.approx(np.ones(len(one.chances)), rel=1e-9)
        assert one.mean == pytest.approx(result.measures["gpus"], rel=1e-6)


def test_types_are_told_apart() -> None:
    """With several types every figure is there for each and for all of them, and the judge finds the same."""
    instance = build_named("boa-newtrace-types")
    assert isinstance(instance, BoaInstance)
    result = solve(instance, check=False)
    assert {"steady_p95", *(f"steady_p95.{gpu_type}" for gpu_type in instance.gpu_types)} <= set(result.demand)
    solution = result.solution
    assert isinstance(solution, BoaSolution)
    assert judging.judge_demand(instance, solution, []) == pytest.approx(result.demand)


def test_many_gpus_are_counted_in_larger_cells() -> None:
    """100,000 jobs at once: cells of several GPUs, and quantiles of the normal law within a cell."""
    instance, plan = one_class()
    job = instance.classes["job"].replace(arrival_rate_per_hour=100_000.0)
    instance = instance.replace(classes={"job": job})
    one, other = (m.find_demand(instance, plan) for m in (judging, forecasting))
    assert one.unit == other.unit > 1
    assert one.quantile(0.95) == other.quantile(0.95)
    assert abs(one.quantile(0.95) - (100_000 + 1.645 * 100_000**0.5)) <= 2 * one.unit
    assert one.mean == pytest.approx(100_000, rel=1e-9)


def test_forged_figures_are_refused() -> None:
    """A changed figure, and one of a name that there is not, fail the check; a result without any passes."""
    instance, _ = one_class(budget="2gpu")
    result: Result[Solution] = solve(instance)
    assert result.demand == {"steady_p50": 1.0, "steady_p95": 3.0, "steady_p99": 4.0}
    for more in ({"steady_p95": 4.0}, {"p96": 3.0}, {"over_x": 0.0}, {"steady_p95.v100": 1.0}):
        forged = result.replace(demand={**result.demand, **more})
        families = {check.family for check in verify(instance, forged).failures}
        assert families == {"demand"}
    failures = verify(instance, result.replace(demand={"steady_p50": 1.0})).failures
    assert {check.index for check in failures} == {"steady_p95", "steady_p99"}
    assert not verify(instance, result.replace(demand={})).failures
    assert not verify(instance, result.replace(demand={**result.demand, "steady_over_1": 1 - 2 / math.e})).failures


def test_the_plan_has_the_same_figures() -> None:
    """A plan says how many GPUs it has in use at once."""
    instance, _ = one_class(budget="2gpu")
    result = solve(instance)
    assert build_plan(instance, result).demand == result.demand


def test_a_cap_is_a_rule_of_the_instance() -> None:
    """P(U > 1) = .264 breaks a cap of 1 GPU for 80 % of the time, and keeps one for 70 %."""
    for probability, kept in ((0.8, False), (0.7, True)):
        instance, plan = one_class(most_gpus={"gpus": 1, "probability": probability})
        (check,) = [each for each in evaluate(instance, plan).checks if each.family == "most-gpus"]
        assert check.holds is kept
        assert check.left == pytest.approx(1 - 2 / math.e)


def test_whole_nodes_are_paid_whole() -> None:
    """3 GPUs on nodes of 2 pay for 4, one for 2: 4 and 2 GPUs on average, and at once."""
    for width, paid in ((3, 4.0), (1, 2.0), (2, 2.0)):
        instance, plan = one_class(width, gpu_types={"t4": {"gpus_per_node": 2}}, whole_nodes=True)
        judged = evaluate(instance, plan)
        assert judged.consumption["budget"] == pytest.approx(paid)
        assert judging.find_demand(instance, plan).chances[0, int(paid)] == pytest.approx(1 / math.e)


def test_whole_nodes_are_planned_for_exactly() -> None:
    """k^.5, a GPU-hour, nodes of 4: paid GPUs are 4 up to a width of 4, so none narrower is worth it."""
    job = JobClass(
        arrival_rate_per_hour=1.0,
        epoch_size_gpu_hours=[1.0],
        speedup={"t4": PowerSpeedup(exponent=0.5)},
        widths=Widths(max=8),
    )
    instance = BoaInstance(
        classes={"job": job},
        gpu_types={"t4": GpuType(gpus_per_node=4)},
        problem="whole",
        budget="2gpu",
        whole_nodes=True,
    )
    result = solve(instance)
    assert result.status == "optimal"
    assert isinstance(result.solution, BoaSolution)
    # 4 / sqrt(4) = 2 GPUs at a width of 4; any width from 5 to 8 pays 8 / sqrt(8) = 2.83 or more.
    assert result.solution.branches["job"][0].widths.tolist() == [4.0]
    assert result.objective == pytest.approx(1800.0)
    assert solve(instance, solver="enumeration").objective == pytest.approx(1800.0)
    free = solve(instance.replace(whole_nodes=False))
    assert free.objective == pytest.approx(1800.0)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), node=st.integers(1, 4))
def test_whole_nodes_agree_with_enumeration(seed: int, node: int) -> None:
    """On tiny instances the proven optimum is that of looking at every plan, and never below that without the rule."""
    instance = random_boa(seed=seed, classes=2, epochs=2, widths=3)
    types = {name: each.replace(gpus_per_node=node) for name, each in instance.gpu_types.items()}
    whole = instance.replace(gpu_types=types, whole_nodes=True)
    one, every, free = solve(whole), solve(whole, solver="enumeration"), solve(instance)
    assert (one.objective is None) == (every.objective is None)
    if one.objective is not None and every.objective is not None and free.objective is not None:
        assert one.objective == pytest.approx(every.objective, rel=1e-6)
        assert free.objective <= one.objective * (1 + 1e-6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"whole_nodes": True}, r"gpu_types.t4.gpus_per_node: is missing; whole_nodes needs it"),
        ({"most_gpus": {"gpus": 0}}, r"most_gpus.gpus: got 0"),
        ({"most_gpus": {"gpus": 5, "probability": 1}}, r"most_gpus.probability: got 1"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, object], message: str) -> None:
    """Errors name the field and what is allowed."""
    with pytest.raises(DataError, match=message):
        one_class(1, None, **fields)


@pytest.mark.parametrize(
    ("hourly", "message"),
    [([1.0] * 23, "23 numbers; 24 are needed"), ([0.0] * 24, "no hour has arrivals"), ([-1.0] * 24, "not below zero")],
)
def test_patterns_have_a_day(hourly: list[float], message: str) -> None:
    """A pattern is 24 rates, not all of them zero."""
    with pytest.raises(DataError, match=message):
        ArrivalPattern(hourly=hourly)


def test_old_instances_keep_their_ids() -> None:
    """Fields that came later do not change the hash of instances without them, and ``false`` is the default."""
    instance = build_named("boa-newtrace")
    assert isinstance(instance, BoaInstance)
    assert instance.content_hash().startswith("96986ccb")
    assert instance.replace(whole_nodes=False).content_hash() == instance.content_hash()
    assert instance.replace(most_gpus={"gpus": 200}).content_hash() != instance.content_hash()
