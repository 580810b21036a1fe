"""Plans: skewed stages by rank, segments that add up, and what cannot be planned."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import optplan
from optplan.contracts import BoundProof, Result, SolveRequest, Status, Termination
from optplan.contracts.conditions import Elapsed, Promoted, Selection, Started
from optplan.errors import UsageError
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.exact.spending import solve_spend_exact
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.planning import SeerPlan, build_plan
from optplan.formulations.seer.published.policy import solve_published

MakeInstance = Callable[..., SeerInstance]


def result_of(instance: SeerInstance, solver: Callable[..., object] = solve_published) -> Result[SeerSolution]:
    """Return the result of a solver as ``solve`` makes it."""
    answer = solver(instance, SolveRequest())
    solution = getattr(answer, "solution", None)
    return Result[SeerSolution](
        formulation="seer",
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        solver="published-seer",
        engine="optplan",
        engine_version=optplan.__version__,
        optplan_version=optplan.__version__,
        status=Status.FEASIBLE if solution is not None else Status.INFEASIBLE,
        termination=Termination.COMPLETED,
        objective=None if solution is None else evaluate(instance, solution).objective,
        objective_unit=instance.objective_unit,
        sense=instance.sense,
        bound=None if solution is None else instance.budget_gpu_min,
        bound_proof=BoundProof.NONE if solution is None else BoundProof.SEARCHED,
        gap_target=1e-6,
        solution=solution,
        infeasibility=getattr(answer, "infeasibility", None),
    )


def test_the_stages_of_figure_1c(example: SeerInstance) -> None:
    """Section 3.4: 4 trials of 2 GPUs and 8 of 1; the best 2 of 2 and 4 of 1; the best one of 2 and two of 1."""
    plan = build_plan(example, result_of(example))
    groups = [[(each.first_rank, each.last_rank, each.gpus) for each in group] for group in plan.rounds]
    assert groups == [[(1, 4, 2), (5, 12, 1)], [(1, 2, 2), (3, 6, 1)], [(1, 1, 2), (2, 3, 1)]]
    assert [[each.kept for each in group] for group in plan.rounds] == [[2, 4], [1, 2], [1, 2]]
    times = [(group[0].expected.start_s / 60, group[0].end_s / 60) for group in plan.rounds]
    assert times == [pytest.approx(pair) for pair in ((0, 10 / 7), (10 / 7, 30 / 7), (30 / 7, 10))]
    assert [segment.id for segment in plan.segments] == ["r1-g2", "r1-g1", "r2-g2", "r2-g1", "r3-g2", "r3-g1"]
    assert plan.segments[0].enter == Started()
    best = (Selection(segment="r1-g2", top=2), Selection(segment="r1-g1", top=4))
    assert plan.segments[2].enter == plan.segments[3].enter == Promoted(of=best)
    end = plan.segments[3].exit
    assert isinstance(end, Elapsed)
    assert end.seconds == pytest.approx(60 * 30 / 7)
    assert plan.segments[4].label == "round 3, rank 1: 2 GPUs each"
    assert {segment.nodes for segment in plan.segments} == {16, 8, 4}  # GPUs of a round, where nodes are not known
    assert plan.objective == pytest.approx(480 / 7)
    assert plan.bound == 80.0


def test_segments_add_up(make_instance: MakeInstance) -> None:
    """GPU-hours of the segments are what is spent, pauses included; the plan reads back as it was written."""
    space = {"lr": {"form": "choices", "values": [0.1, 0.2]}}
    instance = make_instance(
        deadline_min="1h",
        budget="50usd",
        price_usd_per_gpu_hour=3.0,
        price_source="price list",
        price_date="2024-05-01",
        gpu_type="v100",
        eta=3,
        resize_s=30,
        search_space=space,
    )
    plan = build_plan(instance, result_of(instance, solve_spend_exact))
    totals = plan.totals()
    assert totals["spent_gpu_min"] == pytest.approx(plan.expected["spent_gpu_min"])
    assert totals["cost_usd"] == pytest.approx(plan.expected["cost_usd"])
    assert totals["time_s"] == pytest.approx(60 * plan.expected["duration_min"])
    assert {each.expected.pause_s for each in plan.rounds[0]} == {0.0}
    assert {each.expected.pause_s for group in plan.rounds[1:] for each in group} == {30.0}
    assert plan.prices["v100"] == 3.0
    assert {each.resource for each in plan.segments} == {"v100"}
    assert {name: (limit.amount, limit.unit) for name, limit in plan.limits.items()} == {
        "budget": (50.0, "usd"),
        "deadline": (3600.0, "s"),
    }
    assert plan.search_space == instance.search_space
    assert SeerPlan.parse(plan.to_json_data()) == plan


def test_a_plan_on_whole_nodes_expects_what_executors_count(make_instance: MakeInstance) -> None:
    """Trials hold GPUs for less than the nodes are paid for; segments add up to the former."""
    instance = make_instance(gpus_per_node=4, budget_counts="nodes", price_usd_per_gpu_hour=3.0)
    plan = build_plan(instance, result_of(instance, solve_spend_exact))
    totals = plan.totals()
    assert totals["spent_gpu_min"] == pytest.approx(plan.expected["spent_gpu_min"])
    assert totals["cost_usd"] == pytest.approx(plan.expected["cost_usd"])
    assert plan.expected["spent_gpu_min"] < plan.expected["node_gpu_min"] <= 80.0
    assert plan.rounds[0][0].nodes == 5  # 19 GPUs on nodes of 4


def test_what_cannot_be_planned(make_instance: MakeInstance) -> None:
    """No solution, and fractions of GPUs."""
    with pytest.raises(UsageError, match="status infeasible"):
        build_plan(make_instance(deadline_min=0.5), result_of(make_instance(deadline_min=0.5)))
    real = make_instance(nu=1.5, whole_gpus=False)
    with pytest.raises(UsageError, match=r"^a trial holds 1.5 GPUs, and executors have whole ones; set whole_gpus and"):
        build_plan(real, result_of(real))
