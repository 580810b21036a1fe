"""Plans of searches: timed stages worked out by hand, bills that add up to what the judge says, segments to execute."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Billing, BoundProof, Result, Status, Termination
from optplan.contracts.conditions import AllEnded, IterationsDone, Promoted, Selection, Started
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.judge.evaluation import evaluate
from optplan.formulations.rubberband.planning import RubberBandPlan, SearchStage, build_plan

#: 4 trials of 10 iterations, the best for 30 more; 10, 6, 4 s on 1, 2, 4 GPUs; a tenth of a cent a second.
TWO_STAGES: dict[str, Any] = {
    "formulation": "rubberband",
    "name": "two-stages",
    "experiment": {"form": "stages", "stages": [{"trials": 4, "iterations": 10}, {"trials": 1, "iterations": 30}]},
    "training": {"seconds_per_iteration": {"1": 10.0, "2": 6.0, "4": 4.0}},
    "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6},
    "deadline_s": 1000.0,
}


def build(cloud: dict[str, Any] | None = None, **changes: Any) -> RubberBandInstance:  # noqa: ANN401 - plain data
    """Return the search of two stages with some fields changed."""
    return RubberBandInstance.parse(TWO_STAGES | changes | {"cloud": TWO_STAGES["cloud"] | (cloud or {})})


def planned(instance: RubberBandInstance, *chains: list[tuple[int, int]]) -> RubberBandPlan:
    """Return the plan of one chain of (instances, GPUs) for each bracket."""
    data = {"brackets": [[{"instances": m, "gpus": a} for m, a in chain] for chain in chains]}
    solution = RubberBandSolution.parse(data)
    return build_plan(instance, result_of(instance, solution))


def result_of(instance: RubberBandInstance, solution: RubberBandSolution | None) -> Result[RubberBandSolution]:
    """Return a result that has the solution."""
    status = Status.UNKNOWN if solution is None else Status.FEASIBLE
    return Result[RubberBandSolution](
        formulation="rubberband",
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        solver="by-hand",
        engine="optplan",
        engine_version="0",
        optplan_version="0",
        status=status,
        termination=Termination.COMPLETED,
        objective=None if solution is None else evaluate(instance, solution).objective,
        objective_unit=instance.objective_unit,
        gap_target=1e-6,
        bound_proof=BoundProof.NONE,
        solution=solution,
    )


def times(stage: SearchStage) -> tuple[float, float, float]:
    """Return when a stage begins, trains and ends."""
    return stage.expected.start_s, stage.expected.start_s + stage.expected.pause_s, stage.end_s


def counts(stage: SearchStage) -> tuple[int, int, int]:
    """Return instances held, added and released."""
    return stage.nodes, stage.added, stage.released


def test_the_textbook_plan() -> None:
    """Two instances, then one: 10 x 10 s and 30 x 6 s, and 2 x 100 + 180 instance-seconds of a tenth of a cent."""
    plan = planned(build(), [(2, 4), (1, 2)])
    first, second = plan.segments
    assert (times(first), times(second)) == ((0.0, 0.0, 100.0), (100.0, 100.0, 280.0))
    assert (counts(first), counts(second)) == ((2, 2, 0), (1, 0, 1))
    assert (first.gpus, first.at_once) == (1, 4)
    assert (second.gpus, second.at_once) == (2, 1)
    assert (first.kept, first.checkpoints, first.moves) == (1, 1, 0)
    assert (second.kept, second.checkpoints) == (1, 1)
    assert plan.paid_until_end_of(first) == pytest.approx(0.20)
    assert plan.paid_until_end_of(second) == pytest.approx(0.38)
    assert plan.totals()["cost_usd"] == pytest.approx(0.38)
    assert sum(stage.minimum_charge_usd for stage in plan.segments) == 0.0
    assert plan.objective == plan.expected["expected_usd"] == plan.totals()["cost_usd"]
    assert plan.resources["gpu"].billing is Billing.NODES


def test_growing_takes_time_that_is_paid() -> None:
    """One instance, then two more: a request of 20 s, and 30 s to get them ready, while the first one is paid for.

    Four trials on two GPUs: two waves of 100 s. Growth at the start: 20 s that nobody pays for, 30 s of one instance;
    later: 50 s of the one held and 30 s of the new one. One trial on four GPUs: 120 s of two instances.
    """
    plan = planned(build(cloud={"provision_s": 20.0, "initialise_s": 30.0}), [(1, 2), (2, 4)])
    first, second = plan.segments
    assert (times(first), times(second)) == ((0.0, 50.0, 250.0), (250.0, 300.0, 420.0))
    assert [stage.growth_usd for stage in plan.segments] == pytest.approx([0.030, 0.080])
    assert [stage.training_usd for stage in plan.segments] == pytest.approx([0.200, 0.240])
    assert plan.totals()["cost_usd"] == pytest.approx(0.55)
    assert (counts(first), counts(second)) == ((1, 1, 0), (2, 1, 0))


def test_minimum_charges_are_apart() -> None:
    """Two instances for 100 s, one for 180 s more, at least 150 s each: the one that goes is charged for 50 s more."""
    plan = planned(build(cloud={"minimum_charge_s": 150.0}), [(2, 4), (1, 2)])
    assert sum(stage.minimum_charge_usd for stage in plan.segments) == pytest.approx(0.05)
    assert plan.totals()["cost_usd"] == pytest.approx(0.43)
    assert plan.paid_until_end_of(plan.segments[-1]) == pytest.approx(0.38)
    assert [stage.minimum_charge_usd for stage in plan.segments] == pytest.approx([0.05, 0.0])


def test_functions_are_paid_while_trials_run() -> None:
    """40 x 10 + 30 x 6 x 2 = 760 GPU-seconds of half a tenth of a cent, whatever is held; new instances load data."""
    cloud = {"billing": "per-function", "data_gb": 10.0, "data_price_usd_per_gb": 0.01}
    plan = planned(build(cloud=cloud), [(3, 4), (1, 2)])
    assert [stage.training_usd for stage in plan.segments] == pytest.approx([0.20, 0.18])
    assert [stage.growth_usd for stage in plan.segments] == pytest.approx([0.30, 0.0])
    assert (plan.resources["gpu"].billing, sum(stage.minimum_charge_usd for stage in plan.segments)) == (
        Billing.GPUS,
        0.0,
    )


def test_brackets_side_by_side_begin_together() -> None:
    """Hyperband of 4 iterations and eta 2: 4, 2 and 1 trials; 2 and 1; 3. Each has its cluster and its own clock."""
    experiment = {"form": "hyperband", "most_iterations": 4, "eta": 2, "order": "side-by-side"}
    instance = build(experiment=experiment)
    assert [[(s.trials, s.iterations) for s in chain] for chain in instance.brackets] == [
        [(4, 1), (2, 1), (1, 2)],
        [(2, 2), (1, 2)],
        [(3, 4)],
    ]
    plan = planned(instance, [(2, 4), (1, 2), (1, 2)], [(1, 2), (1, 2)], [(2, 3)])
    assert [(s.bracket, s.stage, s.expected.start_s, s.end_s) for s in plan.segments] == [
        (1, 1, 0.0, 10.0),
        (1, 2, 10.0, 20.0),
        (1, 3, 20.0, 32.0),
        (2, 1, 0.0, 20.0),
        (2, 2, 20.0, 32.0),
        (3, 1, 0.0, 40.0),
    ]
    assert [stage.kept for stage in plan.segments] == [2, 1, 1, 1, 1, 1]
    # 2 x 10 + 10 + 12, 32 and 2 x 40 instance-seconds, each instance for at least 60 s
    assert [plan.paid_until_end_of(s) for s in plan.segments if s.stage == 1] == pytest.approx([0.02, 0.02, 0.08])
    # short of the 60 s: 50 and 28 s in the first bracket, 28 s in the second, 2 x 20 s in the third
    assert sum(stage.minimum_charge_usd for stage in plan.segments) == pytest.approx(0.146)
    assert {s.pool for s in plan.segments} == {"bracket-1", "bracket-2", "bracket-3"}
    assert [s.enter for s in plan.segments if s.stage == 1] == [Started()] * 3


def test_brackets_in_sequence_begin_anew_on_the_same_cluster() -> None:
    """After a bracket's last stage one trial is kept; the next one's trials come from nowhere, so that none moves."""
    experiment = {"form": "hyperband", "most_iterations": 4, "eta": 2}
    plan = planned(build(experiment=experiment), [(2, 4), (2, 4), (1, 2), (1, 2), (1, 2), (2, 3)])
    assert [stage.kept for stage in plan.segments] == [2, 1, 1, 1, 1, 1]
    assert [stage.moves for stage in plan.segments] == [0, 2, 0, 0, 1, 0]
    assert [counts(stage) for stage in plan.segments] == [
        (2, 2, 0),
        (2, 0, 0),
        (1, 0, 1),
        (1, 0, 0),
        (1, 0, 0),
        (2, 1, 0),
    ]
    assert plan.segments[-1].end_s == plan.expected["expected_s"]
    assert [unit.members for unit in plan.units] == [4, 2, 3]
    assert plan.segments[3].enter == AllEnded(segments=("b1-s3",))
    assert plan.segments[5].exit == IterationsDone(iterations=4)


@pytest.mark.parametrize(
    ("chain", "moves"),
    [
        ([(2, 8), (2, 4), (1, 2)], [0, 0, 0]),  # 1 GPU each; a single instance is enough only for those of one
        ([(2, 8), (1, 4), (1, 2)], [0, 2, 0]),  # 4 go on, 2 on each instance at worst
        ([(3, 8), (2, 4), (2, 2)], [0, 0, 0]),  # the third instance was idle
        ([(2, 8), (2, 8), (1, 4)], [0, 4, 1]),  # 2 GPUs each from the second stage on, and then one on each instance
        ([(1, 4), (2, 4), (2, 2)], [0, 4, 0]),  # those that waited for their turn begin anew
        ([(16, 64), (8, 32), (4, 16)], [0, 0, 0]),  # trials that own two instances each keep them
    ],
)
def test_moves_are_those_that_cannot_be_avoided(chain: list[tuple[int, int]], moves: list[int]) -> None:
    """8 trials, then 4, then 2, on instances of 4 GPUs."""
    stages = [{"trials": trials, "iterations": 10} for trials in (8, 4, 2)]
    training = {"seconds_per_iteration": {"1": 10.0, "2": 6.0, "4": 4.0, "8": 3.0}}
    experiment = {"form": "stages", "stages": stages}
    plan = planned(build(cloud={"gpus_per_instance": 4}, experiment=experiment, training=training), chain)
    assert [stage.moves for stage in plan.segments] == moves


def test_segments_say_who_holds_what_and_until_when() -> None:
    """Four trials, the best two, the best one; a trial counts its iterations from its own beginning."""
    stages = [{"trials": 4, "iterations": 10}, {"trials": 2, "iterations": 10}, {"trials": 1, "iterations": 30}]
    cloud = {"instance_type": "p3.8xlarge", "provision_s": 5.0, "price_source": "a list", "price_date": "2021-11"}
    plan = planned(build(cloud=cloud, experiment={"form": "stages", "stages": stages}), [(2, 4), (2, 4), (1, 2)])
    assert [(each.nodes, each.members, each.gpus) for each in plan.segments] == [(2, 4, 1), (2, 2, 2), (1, 1, 2)]
    assert [each.enter for each in plan.segments] == [
        Started(),
        Promoted(of=(Selection(segment="b1-s1", top=2),)),
        Promoted(of=(Selection(segment="b1-s2", top=1),)),
    ]
    assert [each.exit for each in plan.segments] == [IterationsDone(iterations=n) for n in (10, 20, 50)]
    assert [(each.expected.pause_s, each.expected.seconds) for each in plan.segments] == [(5, 105), (0, 60), (0, 180)]
    # 2 instances of 2 GPUs for 100 s; the request, of 5 s, is not paid
    assert plan.segments[0].expected.gpu_hours == pytest.approx(4 * 100 / 3600)
    assert {each.unit for each in plan.segments} == {plan.units[0].id}
    assert plan.limits["deadline"].amount == 1000.0
    assert plan.prices["p3.8xlarge"] == pytest.approx(1.8)
    resource = plan.resources["p3.8xlarge"]
    assert (resource.price_source, resource.price_date) == ("a list", "2021-11")


@settings(max_examples=60, deadline=None)
@given(
    held=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=3, max_size=3),
    provision_s=st.sampled_from([0.0, 7.0]),
    deviation_s=st.sampled_from([0.0, 3.0]),
    minimum_s=st.sampled_from([0.0, 60.0, 400.0]),
    billing=st.sampled_from(["per-instance", "per-function"]),
)
def test_the_bill_and_the_clock_add_up(
    held: list[tuple[int, int]], provision_s: float, deviation_s: float, minimum_s: float, billing: str
) -> None:
    """Training, growth and minimum charges are the judge's expected cost, and the last stage ends when he says."""
    stages = [{"trials": 5, "iterations": 4}, {"trials": 3, "iterations": 8}, {"trials": 1, "iterations": 20}]
    latency = {"form": "normal", "mean_s": 20.0, "sd_s": deviation_s} if deviation_s else 20.0
    cloud = {
        "provision_s": provision_s,
        "initialise_s": latency,
        "minimum_charge_s": minimum_s,
        "billing": billing,
        "data_gb": 2.0,
        "data_price_usd_per_gb": 0.01,
    }
    instance = build(cloud=cloud, experiment={"form": "stages", "stages": stages})
    chain = []
    for (spare, factor), stage in zip(held, stages, strict=True):
        gpus = stage["trials"] * (4 if factor == 3 else factor)
        spanned = stage["trials"] * max(1, gpus // stage["trials"] // 2)
        chain.append((spanned + spare, gpus))
    plan = planned(instance, chain)
    paid = math.fsum(stage.training_usd + stage.growth_usd for stage in plan.segments) + sum(
        stage.minimum_charge_usd for stage in plan.segments
    )
    assert paid == pytest.approx(plan.totals()["cost_usd"])
    assert plan.totals()["cost_usd"] == pytest.approx(plan.expected["expected_usd"])
    totals = plan.totals()
    assert totals["time_s"] == pytest.approx(plan.segments[-1].end_s) == pytest.approx(plan.expected["expected_s"])
    assert totals["gpu_hours"] == pytest.approx(plan.expected["held_gpu_hours"])
    assert totals["busy_gpu_hours"] == pytest.approx(plan.expected["busy_gpu_hours"])
    for before, after in zip(plan.segments, plan.segments[1:], strict=False):
        assert after.expected.start_s == before.end_s
        assert after.nodes == before.nodes + after.added - after.released
