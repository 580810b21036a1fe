"""Plans: their segments add up to what they promise, and real widths become whole ones for fractions of the jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import BoundProof, Result, Status, Termination
from optplan.contracts.conditions import Arrived, EpochsDone
from optplan.contracts.plan import span
from optplan.errors import DataError, UsageError
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Policy, Problem
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.judge.following import speeds_along
from optplan.formulations.boa.planning import BoaPlan, build_plan, choose_way
from optplan.instances.files import read_instance, read_plan, write_json
from optplan.instances.generators import random_boa
from optplan.solving import build_plan as build_any_plan
from optplan.solving import explain, solve
from optplan.speedup import AmdahlSpeedup, PowerSpeedup, Speedup, TableSpeedup
from optplan.units import Amount, BudgetUnit

SEEDS = st.integers(0, 10_000)


def result_of(instance: BoaInstance, solution: BoaSolution) -> Result[BoaSolution]:
    """Wrap decisions as a result without a bound."""
    judged = evaluate(instance, solution)
    return Result[BoaSolution](
        formulation="boa",
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        solver="by hand",
        engine="none",
        engine_version="0",
        optplan_version="0",
        status=Status.FEASIBLE,
        termination=Termination.COMPLETED,
        objective=judged.objective,
        objective_unit="s",
        gap_target=0.0,
        bound_proof=BoundProof.NONE,
        solution=solution,
    )


def hand_instance(curve: Speedup, problem: Problem = Problem.RESCALING) -> BoaInstance:
    """Return one class of three epochs of 1, 2 and 4 hours, two jobs an hour, pauses of 36 s = 0.01 h."""
    job_class = JobClass(
        arrival_rate_per_hour=2.0,
        epoch_size_gpu_hours=np.array([1.0, 2.0, 4.0]),
        speedup={"t4": curve},
        rescale_s=36.0,
        widths=Widths(max=8),
    )
    price = GpuType(price_usd_per_hour=0.5, price_source="price list", price_date="2025-01-01")
    budget = Amount(200.0, BudgetUnit.GPU)
    return BoaInstance(name="hand", classes={"job": job_class}, gpu_types={"t4": price}, budget=budget, problem=problem)


def test_segments_by_hand() -> None:
    """Widths (2, 2, 8) with s(k) = k: start on 2 GPUs for 0.01 + 0.5 + 1 h, then on 8 for 0.01 + 0.5 h."""
    instance = hand_instance(PowerSpeedup(exponent=np.array(1.0)))
    plan = build_plan(
        instance, result_of(instance, BoaSolution(branches={"job": (Branch(widths=np.array([2, 2, 8.0])),)}))
    )
    start, resize = plan.segments
    assert (start.enter, start.exit, start.gpus) == (Arrived(), EpochsDone(epochs=2), 2)
    assert (resize.enter, resize.exit) == (EpochsDone(epochs=2), EpochsDone(epochs=3))
    assert (resize.gpus, resize.resource, resize.unit, resize.share) == (8, "t4", "job", 1.0)
    assert start.expected.seconds == pytest.approx(1.51 * 3600.0, rel=1e-14)
    assert resize.expected.seconds == pytest.approx(0.51 * 3600.0, rel=1e-14)
    assert resize.expected.start_s == pytest.approx(1.51 * 3600.0, rel=1e-14)
    assert start.expected.pause_s == pytest.approx(36.0, rel=1e-14)
    assert (start.expected.gpu_hours, resize.expected.gpu_hours) == pytest.approx((3.02, 4.08), rel=1e-14)
    assert start.expected.cost_usd == pytest.approx(1.51, rel=1e-14)  # 50 cents a GPU-hour
    assert plan.width_table["job"][0].gpus.tolist() == [2, 2, 8]
    assert plan.objective == pytest.approx(2.02 * 3600.0, rel=1e-14)


def random_solution(instance: BoaInstance, seed: int) -> BoaSolution:
    """Return random widths of the kind that the problem has; mixed plans of two branches."""
    rng = np.random.default_rng(seed)
    branches: dict[str, tuple[Branch, ...]] = {}
    for name, job_class in instance.classes.items():
        allowed = instance.allowed_widths(name)
        shape = (2, job_class.num_epochs)
        if instance.problem is Problem.CONTINUOUS:
            rows = rng.uniform(allowed[0], _largest_on_hull(instance, name), shape)
        else:
            rows = rng.choice(allowed, shape).astype(float)
        share = float(rng.uniform(0.1, 0.9))
        branches[name] = (Branch(widths=rows[0]),)
        if instance.policy is Policy.MIXED:
            branches[name] = (Branch(fraction=share, widths=rows[0]), Branch(fraction=1.0 - share, widths=rows[1]))
    return BoaSolution(branches=branches)


def _largest_on_hull(instance: BoaInstance, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the width of the largest speed in each epoch: there the hull ends."""
    allowed, epochs = instance.allowed_widths(name), instance.classes[name].num_epochs
    return np.broadcast_to(allowed[instance.speeds(name).argmax(axis=1)], epochs)


@settings(max_examples=60)
@given(seed=SEEDS, problem=st.sampled_from(list(Problem)), policy=st.sampled_from(list(Policy)))
def test_segments_add_up_to_what_is_expected(seed: int, problem: Problem, policy: Policy) -> None:
    """Whatever the problem, totals follow from the segments and the arrival rates alone."""
    instance = random_boa(classes=2, epochs=4, widths=6, seed=seed, noise=0.0, problem=problem, policy=policy)
    plan = build_plan(instance, result_of(instance, random_solution(instance, seed)))
    for name, total in plan.totals().items():
        assert total == pytest.approx(plan.expected[name], rel=1e-12)
    assert plan.totals()["weighted_mean_jct_s"] == pytest.approx(plan.objective, rel=1e-12)


@given(seed=SEEDS, policy=st.sampled_from(list(Policy)))
def test_whole_widths_go_into_the_table_as_they_are(seed: int, policy: Policy) -> None:
    """Rows and shares are the branches; the objective is the result's."""
    instance = random_boa(classes=2, epochs=3, widths=4, seed=seed, policy=policy)
    solution = random_solution(instance, seed)
    result = result_of(instance, solution)
    plan = build_plan(instance, result)
    assert result.objective == pytest.approx(plan.objective, rel=1e-12)
    for name, branches in solution.branches.items():
        rows = plan.width_table[name]
        assert [row.share for row in rows] == [branch.fraction for branch in branches]
        assert [row.gpus.tolist() for row in rows] == [branch.widths.tolist() for branch in branches]


CURVES: list[Speedup] = [
    PowerSpeedup(exponent=np.array([0.3, 0.8, 0.99])),
    PowerSpeedup(exponent=np.array(0.5)),
    AmdahlSpeedup(serial_fraction=np.array([0.01, 0.3, 1.0])),
    TableSpeedup(gpus=np.array([1, 2, 4, 8]), speedup=np.array([1.0, 1.7, 2.6, 3.4])),
    # Not concave at 2 GPUs, and slower at 8 than at 4: the split uses 1 and 4 GPUs only.
    TableSpeedup(gpus=np.array([1, 2, 4, 8]), speedup=np.array([1.0, 1.1, 2.6, 2.5])),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@pytest.mark.parametrize("curve", CURVES)
@settings(max_examples=25)
@given(position=st.tuples(*[st.floats(0.0, 1.0)] * 3))
def test_real_widths_keep_the_gpu_use_of_every_epoch(curve: Speedup, position: tuple[float, float, float]) -> None:
    """Two whole widths for fractions of the jobs use in each epoch exactly what the real width uses.

    With tables they also take exactly as long; the formulas are a little faster between whole widths than any mixture.
    """
    instance = hand_instance(curve, Problem.CONTINUOUS)
    whole = instance.replace(problem=Problem.WHOLE)
    sizes = instance.classes["job"].epoch_size_gpu_hours
    widths = 1.0 + np.array(position) * (_largest_on_hull(instance, "job") - 1.0)
    plan = build_plan(instance, result_of(instance, BoaSolution(branches={"job": (Branch(widths=widths),)})))
    hours, use = np.zeros(3), np.zeros(3)
    for row in plan.width_table["job"]:
        row_hours = row.share * sizes / speeds_along(whole, "job", row.gpus.astype(float))
        hours += row_hours
        use += row.gpus * row_hours
    real_hours = sizes / speeds_along(instance, "job", widths)
    assert use == pytest.approx(widths * real_hours, rel=1e-9)
    assert np.all(hours >= real_hours * (1 - 1e-9))
    if isinstance(curve, TableSpeedup):
        assert hours == pytest.approx(real_hours, rel=1e-9)


def test_where_more_gpus_use_no_more_the_plan_takes_them() -> None:
    """With s(k) = k every width uses the same GPU-hours, so the mixture is the largest width alone."""
    instance = hand_instance(PowerSpeedup(exponent=np.array(1.0)), Problem.CONTINUOUS)
    solution = BoaSolution(branches={"job": (Branch(widths=np.array([1.0, 3.7, 8.0])),)})
    plan = build_plan(instance, result_of(instance, solution))
    assert [row.gpus.tolist() for row in plan.width_table["job"]] == [[8, 8, 8]]
    assert plan.expected["gpus"] == pytest.approx(14.0, rel=1e-12)


def test_real_widths_by_hand() -> None:
    """A table 1, 1.6, 2 at 1, 2, 4 GPUs; epochs at 1.5, 2 and 3 GPUs.

    At 1.5: s = 1.3, GPU-hours 1.5 / 1.3 = 1.153846 of an hour; between 1 (at 1 GPU) and 1.25 (at 2) that is the share
    0.615385 at 2 GPUs. At 3: s = 1.8, 1.666667 between 1.25 (at 2) and 2 (at 4): 0.555556 at 4 GPUs. So three branches:
    0.555556 of the jobs at (2, 2, 4), 0.059829 at (2, 2, 2), 0.384615 at (1, 2, 2); nobody changes within an epoch.
    """
    curve = TableSpeedup(gpus=np.array([1, 2, 4]), speedup=np.array([1.0, 1.6, 2.0]))
    instance = hand_instance(curve, Problem.CONTINUOUS)
    solution = BoaSolution(branches={"job": (Branch(widths=np.array([1.5, 2.0, 3.0])),)})
    plan = build_plan(instance, result_of(instance, solution))
    rows = {tuple(row.gpus.tolist()): row.share for row in plan.width_table["job"]}
    assert rows == pytest.approx({(2, 2, 4): 5 / 9, (2, 2, 2): 8 / 13 - 5 / 9, (1, 2, 2): 5 / 13}, rel=1e-12)
    assert {span(each)[0] for each in plan.segments} == {0, 1, 2}
    assert all(each.expected.pause_s == 0.0 for each in plan.segments)  # the continuous problem has no pauses


def test_segments_change_at_the_ends_of_epochs_only() -> None:
    """Within an epoch nothing happens: every way covers whole epochs, one after the other."""
    instance = random_boa(classes=1, epochs=6, widths=4, seed=3, problem=Problem.CONTINUOUS, noise=0.0)
    plan = build_plan(instance, result_of(instance, random_solution(instance, 5)))
    (ways,) = plan.ways.values()
    assert len(ways) > 1
    for way in ways:
        spans = [span(each) for each in way]
        assert (spans[0][0], spans[-1][1]) == (0, 6)
        assert [first for first, _ in spans[1:]] == [last for _, last in spans[:-1]]


def test_an_executor_looks_up_what_a_job_holds() -> None:
    """Widths (2, 2, 8): 2 GPUs until two epochs are complete, then 8, also after the last; unknown classes are not."""
    instance = hand_instance(PowerSpeedup(exponent=np.array(1.0)))
    plan = build_plan(
        instance, result_of(instance, BoaSolution(branches={"job": (Branch(widths=np.array([2, 2, 8.0])),)}))
    )
    held = [plan.held_at("job", 0, done) for done in (0, 1, 2, 3, 9)]
    assert [segment.gpus for segment in held if segment is not None] == [2, 2, 8, 8, 8]
    assert plan.held_at("other", 0, 0) is None


@given(cut=st.lists(st.floats(0.001, 1.0), min_size=2, max_size=5), jobs=st.integers(1, 60))
def test_ways_are_dealt_out_without_dice(cut: list[float], jobs: int) -> None:
    """After any number of jobs every way is less than one job per other way from its share."""
    shares = [part / sum(cut) for part in cut]
    dealt = [0] * len(shares)
    for _ in range(jobs):
        dealt[choose_way(shares, dealt)] += 1
    assert sum(dealt) == jobs
    for share, got in zip(shares, dealt, strict=True):
        assert abs(share * jobs - got) < len(shares) - 1 + 1e-9


def test_shares_of_a_quarter_take_every_fourth_job() -> None:
    """Behind by .75 and .25, then .5 and .5 (the first), then .25 and .75, then .0 and ...: a stated rotation."""
    dealt = [0, 0]
    order = []
    for _ in range(8):
        way = choose_way((0.75, 0.25), dealt)
        dealt[way] += 1
        order.append(way)
    assert order == [0, 0, 1, 0, 0, 0, 1, 0]


def test_plans_carry_prices_bound_and_hash() -> None:
    """Everything needed to price a plan, and to find the instance it was made for."""
    instance = hand_instance(PowerSpeedup(exponent=np.array(0.5)))
    result = result_of(instance, BoaSolution(branches={"job": (Branch(widths=np.ones(3)),)}))
    plan = build_plan(instance, result)
    kind = plan.resources["t4"]
    assert (plan.prices["t4"], kind.price_source, kind.price_date) == (0.5, "price list", "2025-01-01")
    assert plan.instance_hash == instance.content_hash()
    assert plan.bound is None
    assert [unit.arrival_rate_per_hour for unit in plan.units] == [2.0]
    free = instance.replace(gpu_types={"t4": GpuType()})
    assert build_plan(free, result_of(free, BoaSolution(branches={"job": (Branch(widths=np.ones(3)),)}))).prices == {}


def test_plans_name_what_nodes_take_to_start() -> None:
    """As the launch of the resource; and at most 0.01 h * 2 jobs * 2 GPUs = 0.04 GPUs and 36 s a job besides."""
    instance = hand_instance(PowerSpeedup(exponent=np.array(0.5))).replace(gpu_types={"t4": GpuType(start_s=36.0)})
    plan = build_plan(instance, result_of(instance, BoaSolution(branches={"job": (Branch(widths=np.full(3, 2.0)),)})))
    assert plan.resources["t4"].launch_s == 36.0
    assert plan.expected["gpus_starting"] == pytest.approx(0.04)
    assert plan.expected["starting_s_per_job"] == pytest.approx(36.0)
    assert plan.totals()["gpus"] == pytest.approx(plan.expected["gpus"])


@pytest.mark.parametrize("problem", list(Problem))
def test_writing_and_reading_is_the_identity(tmp_path: Path, problem: Problem) -> None:
    """Through a file, width table included."""
    instance = random_boa(classes=2, epochs=3, widths=4, noise=0.0, problem=problem)
    plan = build_plan(instance, result_of(instance, random_solution(instance, 1)))
    write_json(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan


def test_plans_of_another_version_are_refused(tmp_path: Path) -> None:
    """The version is looked at before the fields, which another version may have renamed."""
    path = tmp_path / "plan.json"
    path.write_text('{"formulation": "boa", "version": 3, "steps_by_class": {}}', encoding="utf-8")
    with pytest.raises(
        DataError, match=r"plan\.json: version: got 3; understood: 2; use the release of optplan that wrote"
    ):
        read_plan(path)


def test_a_plan_needs_a_solution() -> None:
    """The status says why there is none."""
    instance = hand_instance(PowerSpeedup(exponent=np.array(0.5)))
    result = result_of(instance, BoaSolution(branches={"job": (Branch(widths=np.ones(3)),)}))
    nothing = result.replace(status=Status.UNKNOWN, solution=None, objective=None)
    with pytest.raises(UsageError, match="status unknown"):
        build_plan(instance, nothing)


def test_a_plan_says_why_when_it_is_made_with_an_explanation() -> None:
    """Its reasons are the explanation's choices; that of another result is refused, and none leaves them empty."""
    instance = read_instance("boa-two-classes")
    result = solve(instance)
    explanation = explain(instance, result)
    plan = build_any_plan(instance, result, explanation=explanation)
    assert isinstance(plan, BoaPlan)
    assert plan.reasons == explanation.choices
    assert {choice.subject for choice in plan.reasons} == set(plan.width_table)
    without = build_any_plan(instance, result)
    assert isinstance(without, BoaPlan)
    assert without.reasons == ()
    with pytest.raises(UsageError, match=r"the explanation is not of this result; make it with explain\("):
        build_any_plan(instance, result, explanation=explanation.replace(objective=1.0))
