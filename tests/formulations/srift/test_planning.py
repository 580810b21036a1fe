"""Plans of fleets: VMs with their ranks and batches worked out by hand, bills that add up, actions to execute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan import solving
from optplan.contracts import Binding, BoundProof, Explanation, Result, Status, Termination
from optplan.errors import DataError, UsageError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.planning import SriftPlan, build_plan

MakeInstance = Callable[..., SriftInstance]


def fleet(*groups: tuple[str, int, int]) -> SriftSolution:
    """Return the fleet of some (type, count, batch)."""
    return SriftSolution(groups=tuple(VmGroup(type=name, count=count, batch=batch) for name, count, batch in groups))


def result_of(instance: SriftInstance, solution: SriftSolution | None) -> Result[SriftSolution]:
    """Return a result that has the solution."""
    return Result[SriftSolution](
        formulation="srift",
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        solver="by-hand",
        engine="optplan",
        engine_version="0",
        optplan_version="0",
        status=Status.UNKNOWN if solution is None else Status.FEASIBLE,
        termination=Termination.COMPLETED,
        objective=None if solution is None else evaluate(instance, solution).objective,
        objective_unit=instance.objective_unit,
        gap_target=1e-6,
        bound_proof=BoundProof.NONE,
        solution=solution,
    )


#: 16 ms on each: 16 samples on each of the 2 fast GPUs, 4 on each of the 8 slow ones.
BALANCED = fleet(("big", 1, 32), ("small", 8, 4))


def test_ranks_batches_and_the_bill(make_instance: MakeInstance) -> None:
    """16 ms an iteration, 1.6 s in all at 7.2 + 8 x 0.9 = 14.4 usd/h: 0.64 cents, half of it for the large VM."""
    instance = make_instance(deadline_s=10.0, budget="1usd")
    plan = build_plan(instance, result_of(instance, BALANCED))
    big, small = plan.fleet
    assert (big.first_rank, big.last_rank, small.first_rank, small.last_rank) == (0, 1, 2, 9)
    assert (big.batch_per_vm, big.batch_per_rank, small.batch_per_vm, small.batch_per_rank) == (32, 16, 4, 4)
    assert (plan.world_size, plan.global_batch, plan.iterations) == (10, 64, 100)
    assert (plan.iteration_s, plan.training_s) == pytest.approx((0.016, 1.6))
    assert (plan.price_usd_per_hour, plan.total_usd) == pytest.approx((14.4, 0.0064))
    assert (big.cost_usd, small.cost_usd) == pytest.approx((0.0032, 0.0032))
    assert {name: (limit.amount, limit.unit, limit.binding) for name, limit in plan.limits.items()} == {
        "deadline": (10.0, "s", Binding.HARD),
        "budget": (1.0, "usd", Binding.HARD),
    }


def test_every_sample_weighs_the_same(make_instance: MakeInstance) -> None:
    """Averaging over 10 ranks gives a rank's mean loss a tenth: 16 of 64 samples need 2.5 times that, 4 need 0.625."""
    plan = build_plan(make_instance(), result_of(make_instance(), BALANCED))
    assert [vms.loss_weight for vms in plan.fleet] == [2.5, 0.625]
    even = build_plan(make_instance(), result_of(make_instance(), fleet(("small", 8, 8))))
    assert even.fleet[0].loss_weight == 1.0


def test_running_vms_are_kept(make_instance: MakeInstance) -> None:
    """3 of 8 small VMs run: 5 start, so that the group grows; where all run, nothing starts and nobody waits."""
    small = {"running": 3, "available": 8}
    big = {"gpu": "fast", "gpus": 2, "price_usd_per_hour": 7.2, "running": 1}
    instance = make_instance(types={"big": big, "small": small}, launch_s=30.0, launch_billed=True)
    plan = build_plan(instance, result_of(instance, BALANCED))
    assert [(vms.kept, vms.started) for vms in plan.fleet] == [(1, 0), (3, 5)]
    assert [each.nodes for each in plan.segments] == [1, 8]
    assert {each.expected.pause_s for each in plan.segments} == {30.0}  # the large VM waits for the small ones
    assert plan.launch_billed
    all_run = make_instance(types={"small": {"running": 8, "available": 8}}, launch_s=30.0)
    kept = build_plan(all_run, result_of(all_run, fleet(("small", 8, 8))))
    assert (kept.launch_s, kept.segments[0].expected.pause_s) == (0.0, 0.0)


def test_groups_of_a_type_share_its_running_vms(make_instance: MakeInstance) -> None:
    """4 run; the first group, of 3, keeps 3 of them and the second the fourth."""
    types = {"small": {"running": 4, "available": 8}}
    instance = make_instance(types=types, one_batch_per_type=False)
    plan = build_plan(instance, result_of(instance, fleet(("small", 3, 16), ("small", 4, 4))))
    assert [(vms.kept, vms.started) for vms in plan.fleet] == [(3, 0), (1, 3)]


def test_what_executors_need_besides(make_instance: MakeInstance) -> None:
    """What to rent, at whose price, and how often to write a checkpoint."""
    small = {
        "instance_type": "g4dn.xlarge",
        "region": "us-east-1",
        "spot": True,
        "interruptions_per_hour": 0.1,
        "price_source": "a list",
        "price_date": "2020-09",
    }
    losses = {"checkpoint_every_s": 60, "checkpoint_s": 1, "restart_s": 30}
    instance = make_instance(types={"small": small}, interruptions=losses)
    plan = build_plan(instance, result_of(instance, fleet(("small", 8, 8))))
    (vms,) = plan.fleet
    assert (vms.instance_type, vms.region, vms.spot, vms.gpu) == ("g4dn.xlarge", "us-east-1", True, "slow")
    assert plan.checkpoints is not None
    assert plan.checkpoints.checkpoint_every_s == 60
    assert (plan.resources["small"].price_source, plan.resources["small"].price_date) == ("a list", "2020-09")
    assert SriftPlan.parse(plan.to_json_data()) == plan


@settings(max_examples=20)
@given(count=st.sampled_from([1, 2, 4, 8]), price=st.floats(0.1, 100.0))
def test_totals_can_be_recomputed(make_instance: MakeInstance, count: int, price: float) -> None:
    """GPU-hours at the price of a GPU are the cost; the groups' parts add up to it."""
    instance = make_instance(types={"small": {"price_usd_per_hour": price}})
    plan = build_plan(instance, result_of(instance, fleet(("small", count, 64 // count))))
    bill = sum(each.expected.gpu_hours * plan.prices[each.resource] for each in plan.segments)
    assert bill == pytest.approx(plan.total_usd) == pytest.approx(plan.expected["cost_usd"])
    assert plan.totals()["time_s"] == pytest.approx(plan.expected["time_s"])
    assert sum(vms.cost_usd for vms in plan.fleet) == pytest.approx(plan.total_usd)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("global_batch", 60, "global_batch: is 60, and the batches of the fleet add up to 64"),
        ("world_size", 9, "world_size: is 9, and the fleet has 10 GPUs"),
        ("iteration_s", 0.0, "iteration_s: got 0.0; input should be greater than 0"),
    ],
)
def test_plans_whose_figures_are_wrong_are_refused(
    make_instance: MakeInstance, field: str, value: float, message: str
) -> None:
    """An executor must not train on another global batch than was planned, nor in no time at all."""
    data: dict[str, Any] = build_plan(make_instance(), result_of(make_instance(), BALANCED)).to_json_data()
    del data["plan_id"]  # which fits the sums as they were
    with pytest.raises(DataError, match=message):
        SriftPlan.parse(data | {field: value})


def test_no_fleet_no_plan(make_instance: MakeInstance) -> None:
    """Without a solution there is nothing to plan; explanations there are none."""
    instance = make_instance()
    with pytest.raises(UsageError, match="status unknown"):
        build_plan(instance, result_of(instance, None))
    result = result_of(instance, BALANCED)
    explanation = Explanation(
        formulation="srift",
        instance_name="x",
        instance_hash=result.instance_hash,
        solver="x",
        objective=result.objective or 0.0,
        objective_unit="usd",
        budget_unit="usd",
        multipliers={},
        choices=(),
    )
    with pytest.raises(UsageError, match="formulation 'srift' has no explanations"):
        solving.build_plan(instance, result, explanation=explanation)
