"""The judge: hand figures, every constraint family, and what must hold for all instances."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from optplan.contracts import Evaluation, PathCosts
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Policy, Problem
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.formulations.boa.judge.duality import dual_bound, path_costs
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.judge.following import speeds_along
from optplan.instances.generators import random_boa
from optplan.instances.library import build_named
from optplan.schema import FloatArray
from optplan.speedup import AmdahlSpeedup, PowerSpeedup, Speedup, TableSpeedup, lower_left_hull, speed_on_hull
from optplan.units import Amount, BudgetUnit

SEEDS = st.integers(0, 10_000)


def named(name: str) -> BoaInstance:
    """Return a BOA instance of the library."""
    instance = build_named(name)
    assert isinstance(instance, BoaInstance)
    return instance


def rows(**widths: list[float]) -> BoaSolution:
    """Return the pure plan with these widths by class."""
    return plan_of(widths)


def plan_of(widths: Mapping[str, ArrayLike]) -> BoaSolution:
    """Return the pure plan with these widths by class."""
    return BoaSolution(branches={name: (Branch(widths=np.array(row, dtype=float)),) for name, row in widths.items()})


def random_rows(instance: BoaInstance, seed: int) -> BoaSolution:
    """Return a random pure plan."""
    rng = np.random.default_rng(seed)
    return plan_of({n: rng.choice(instance.allowed_widths(n), c.num_epochs) for n, c in instance.classes.items()})


def test_one_table_by_hand() -> None:
    """One job an hour of one GPU-hour on two GPUs: 1 / 1.6 h = 2250 s, and 2 * 0.625 = 1.25 GPUs."""
    judged = evaluate(named("boa-one-table"), rows(job=[2]))
    assert judged.objective == pytest.approx(2250.0, rel=1e-14)
    assert judged.consumption == {"budget": pytest.approx(1.25, rel=1e-14)}
    assert all(check.holds for check in judged.checks)
    assert judged.measures["classes.job.gpus"] == pytest.approx(1.25, rel=1e-14)


def test_two_epochs_by_hand() -> None:
    """(1, 1): 3 h + 1 h + one start of 0.05 h = 4.05 h = 14580 s on one GPU, so 4.05 GPUs."""
    judged = evaluate(named("boa-two-epochs"), rows(job=[1, 1]))
    assert judged.objective == pytest.approx(14580.0, rel=1e-14)
    assert judged.measures["gpus"] == pytest.approx(4.05, rel=1e-14)
    assert judged.measures["gpus_running"] == pytest.approx(4.0, rel=1e-14)
    assert judged.measures["gpus_rescaling"] == pytest.approx(0.05, rel=1e-14)


def rescaling_instance(problem: Problem = Problem.RESCALING, policy: Policy = Policy.PURE) -> BoaInstance:
    """Return one class of three epochs of 1, 2 and 4 hours, s(k) = k, starts and changes of 36 s = 0.01 h."""
    job_class = JobClass(
        arrival_rate_per_hour=2.0,
        epoch_size_gpu_hours=np.array([1.0, 2.0, 4.0]),
        speedup={"gpu": PowerSpeedup(exponent=np.array(1.0))},
        rescale_s=36.0,
        widths=Widths(max=8),
    )
    budget = Amount(100.0, BudgetUnit.GPU)
    classes = {"job": job_class}
    return BoaInstance(classes=classes, gpu_types={"gpu": GpuType()}, budget=budget, problem=problem, policy=policy)


def test_pauses_are_counted_where_the_width_changes() -> None:
    """Widths (2, 2, 8): the start pays at 2 GPUs, the change before epoch 3 at the new width, 8.

    Time: 1/2 + 2/2 + 4/8 = 2 h running and 2 * 0.01 h pausing. GPU-hours of a job: 7 running (s(k) = k keeps the size),
    0.01 * (2 + 8) = 0.1 pausing; two jobs an hour make 14 and 0.2 GPUs.
    """
    judged = evaluate(rescaling_instance(), rows(job=[2, 2, 8]))
    assert judged.objective == pytest.approx(2.02 * 3600.0, rel=1e-14)
    assert judged.measures["gpus_running"] == pytest.approx(14.0, rel=1e-14)
    assert judged.measures["gpus_rescaling"] == pytest.approx(0.2, rel=1e-14)
    assert judged.measures["width_changes_per_job"] == 1.0
    assert judged.measures["rescales_per_job"] == 2.0


def test_every_change_pays_however_short_the_way_back() -> None:
    """Widths (1, 2, 1) pause three times, at 1, 2 and 1 GPUs: 3 * 0.01 h, and 0.04 GPU-hours a job."""
    judged = evaluate(rescaling_instance(), rows(job=[1, 2, 1]))
    assert judged.objective == pytest.approx((1 + 1 + 4 + 0.03) * 3600.0, rel=1e-14)
    assert judged.measures["gpus_rescaling"] == pytest.approx(2 * 0.04, rel=1e-14)


@pytest.mark.parametrize(
    ("nodes", "widths", "gpus", "waits"),
    [
        ({}, [2, 2, 8], 0.2, 2),  # 0.01 h * 2 jobs an hour * (2 new; then 6 new, and 2 that are held meanwhile)
        ({"gpus_per_node": 4}, [2, 2, 8], 0.28, 2),  # 4 new; 8 new and 2 held
        ({"gpus_per_node": 4, "whole_nodes": True}, [2, 2, 8], 0.24, 2),  # 4 new; 4 new and 4 held
        ({}, [8, 2, 2], 0.16, 1),  # 8 new; who shrinks waits for nothing
    ],
)
def test_starts_of_nodes_by_hand(nodes: dict[str, int], widths: list[float], gpus: float, waits: int) -> None:
    """Nodes of 36 s: what is paid until new ones are there, and for how long a job waits; budget and times stay."""
    fields = dict(nodes)
    whole = {"whole_nodes": True} if fields.pop("whole_nodes", None) else {}
    slow, quick = (
        rescaling_instance().replace(gpu_types={"gpu": GpuType(start_s=start_s, **fields)}, **whole)  # type: ignore[arg-type]
        for start_s in (36.0, 0.0)
    )
    judged, at_once = (evaluate(instance, rows(job=widths)) for instance in (slow, quick))
    assert judged.measures["gpus_starting"] == pytest.approx(gpus, rel=1e-14)
    assert judged.measures["starting_s_per_job"] == pytest.approx(36.0 * waits, rel=1e-14)
    assert (judged.objective, judged.consumption) == (at_once.objective, at_once.consumption)
    assert not {name for name in at_once.measures if "starting" in name}


def test_starts_of_nodes_of_two_types_have_a_price() -> None:
    """Two a at $1 take 36 s, then two b at $3 take 72 s while a are held: 2 * (0.02 + 0.02 * (6 + 2)) $ an hour."""
    job_class = rescaling_instance().classes["job"]
    curves = dict.fromkeys("ab", job_class.speedup["gpu"])
    types = {
        "a": GpuType(price_usd_per_hour=1.0, start_s=36.0),
        "b": GpuType(price_usd_per_hour=3.0, start_s="72s"),
    }
    instance = rescaling_instance().replace(classes={"job": job_class.replace(speedup=curves)}, gpu_types=types)
    branch = Branch(widths=np.full(3, 2.0), gpu_types=("a", "b", "b"))
    judged = evaluate(instance, BoaSolution(branches={"job": (branch,)}))
    assert judged.measures["starting_usd_per_hour"] == pytest.approx(2 * (0.02 + 0.02 * 8), rel=1e-14)
    assert judged.measures["starting_s_per_job"] == pytest.approx(108.0, rel=1e-14)


@pytest.mark.parametrize("problem", [Problem.WHOLE, Problem.CONTINUOUS])
def test_pauses_are_free_in_the_other_problems(problem: Problem) -> None:
    """The rescale time is data of the third problem only."""
    judged = evaluate(rescaling_instance(problem=problem), rows(job=[2, 2, 8]))
    assert judged.objective == pytest.approx(2.0 * 3600.0, rel=1e-14)
    assert judged.measures["gpus_rescaling"] == 0.0
    assert judged.measures["width_changes_per_job"] == 1.0


def test_a_mixture_is_the_mean_of_its_branches() -> None:
    """A quarter of the jobs at (1, 1, 1), 7.01 h, and three at (8, 8, 8), 7/8 + 0.01 h: 1.7525 + 0.66375 h."""
    branches = (Branch(fraction=0.25, widths=np.full(3, 1.0)), Branch(fraction=0.75, widths=np.full(3, 8.0)))
    judged = evaluate(rescaling_instance(policy=Policy.MIXED), BoaSolution(branches={"job": branches}))
    assert judged.objective == pytest.approx(2.41625 * 3600.0, rel=1e-14)
    # 2 jobs an hour of 7 GPU-hours; pauses of 0.01 h at 1 and at 8 GPUs: 2 * (7 + 0.01 * (0.25 * 1 + 0.75 * 8)).
    assert judged.measures["gpus"] == pytest.approx(14.125, rel=1e-14)


def test_weights_normalise() -> None:
    """Weighted means divide by the weighted rate: equal weights of any size are no weights at all.

    Classes of 1 and 3 jobs an hour that take 1 h and 2 h: mean (1 + 6) / 4 = 1.75 h; with weight 3 on the first
    (3 * 1 + 6) / (3 + 3) = 1.5 h.
    """

    def instance(first: float, second: float) -> BoaInstance:
        def job_class(rate: float, hours: float, weight: float) -> JobClass:
            return JobClass(
                arrival_rate_per_hour=rate,
                epoch_size_gpu_hours=np.array([hours]),
                speedup={"gpu": TableSpeedup(gpus=np.array([1]), speedup=np.array([1.0]))},
                weight=weight,
            )

        classes = {"a": job_class(1.0, 1.0, first), "b": job_class(3.0, 2.0, second)}
        return BoaInstance(classes=classes, gpu_types={"gpu": GpuType()})

    plan = rows(a=[1], b=[1])
    for weight in (1.0, 7.0):
        assert evaluate(instance(weight, weight), plan).objective == pytest.approx(1.75 * 3600.0, rel=1e-14)
    judged = evaluate(instance(3.0, 1.0), plan)
    assert judged.objective == pytest.approx(1.5 * 3600.0, rel=1e-14)
    assert judged.measures["weighted_mean_jct_s"] == judged.objective
    assert judged.measures["mean_jct_s"] == pytest.approx(1.75 * 3600.0, rel=1e-14)
    assert judged.consumption["budget"] == pytest.approx(7.0, rel=1e-14)  # weights are no GPUs


@given(seed=SEEDS)
def test_measures_of_the_classes_add_up(seed: int) -> None:
    """GPUs add up; mean completion times do so with the arrival rates."""
    instance = random_boa(classes=3, epochs=4, widths=6, seed=seed)
    measures = evaluate(instance, random_rows(instance, seed)).measures
    gpus = sum(measures[f"classes.{name}.gpus"] for name in instance.classes)
    assert gpus == pytest.approx(measures["gpus"], rel=1e-12)
    assert measures["gpus_running"] + measures["gpus_rescaling"] == pytest.approx(measures["gpus"], rel=1e-12)
    mean = sum(c.arrival_rate_per_hour * measures[f"classes.{n}.mean_jct_s"] for n, c in instance.classes.items())
    assert mean / instance.total_rate_per_hour == pytest.approx(measures["mean_jct_s"], rel=1e-12)


def broken(instance: BoaInstance, solution: BoaSolution) -> dict[str, str]:
    """Return the families that do not hold, with the index of the member."""
    return {check.family: check.index for check in evaluate(instance, solution).checks if not check.holds}


def mixture(*fractions: float) -> BoaSolution:
    """Return branches of two epochs on one GPU with these fractions."""
    return BoaSolution(branches={"job": tuple(Branch(fraction=f, widths=np.ones(2)) for f in fractions)})


@pytest.mark.parametrize(
    ("solution", "family", "index"),
    [
        (BoaSolution(branches={}), "every-class", "job"),
        (rows(job=[1, 1], extra=[1, 1]), "every-class", "extra"),
        (rows(job=[1]), "row-length", "job[1]"),
        (rows(job=[1, 1, 1]), "row-length", "job[1]"),
        (BoaSolution(branches={"job": (Branch(widths=np.ones((1, 2))),)}), "row-length", "job[1]"),
        (rows(job=[1, 17]), "allowed-width", "job[1] epoch 2"),
        (rows(job=[0, 1]), "allowed-width", "job[1] epoch 1"),
        (rows(job=[1.5, 1]), "allowed-width", "job[1] epoch 1"),
        (rows(job=[-1, 1]), "allowed-width", "job[1] epoch 1"),
        (mixture(0.5), "fraction-sum", "job"),
        (BoaSolution(branches={"job": ()}), "fraction-sum", "job"),
        (rows(job=[16, 16]), "budget", ""),
    ],
)
def test_every_family_is_reported_under_its_name(solution: BoaSolution, family: str, index: str) -> None:
    """With the class, branch and epoch where it is broken; a plan too broken to evaluate has no objective."""
    instance = named("boa-two-epochs").replace(policy=Policy.MIXED)
    assert broken(instance, solution) == {family: index}
    assert np.isnan(evaluate(instance, solution).objective) == (family != "budget")


def test_a_pure_plan_has_one_branch() -> None:
    """Two branches of one half each are a mixed plan, even when they are the same."""
    instance = named("boa-two-epochs")
    assert broken(instance, mixture(0.5, 0.5)) == {"one-path": "job"}
    assert broken(instance.replace(policy=Policy.MIXED), mixture(0.5, 0.5)) == {}


def test_fractions_add_up_to_within_rounding() -> None:
    """Ten times 0.1 is not exactly 1; a missing millionth is missed."""
    instance = named("boa-two-epochs").replace(policy=Policy.MIXED)
    assert broken(instance, mixture(*[0.1] * 10)) == {}
    assert broken(instance, mixture(0.5, 0.499999)) == {"fraction-sum": "job"}


@pytest.mark.parametrize(("budget", "kept"), [(4.05, True), (4.05 * (1 - 5e-10), True), (4.05 * (1 - 2e-9), False)])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_a_plan_exactly_at_the_budget_keeps_it(budget: float, kept: bool, scale: float) -> None:
    """The tolerance is relative: the same verdict for tiny and for huge loads."""
    instance = named("boa-two-epochs")
    faster = instance.classes["job"].replace(arrival_rate_per_hour=scale)
    instance = instance.replace(classes={"job": faster}, budget=Amount(budget * scale, BudgetUnit.GPU))
    assert (broken(instance, rows(job=[1, 1])) == {}) is kept


def test_without_a_budget_there_is_nothing_to_exceed() -> None:
    """The consumption is reported all the same."""
    judged = evaluate(named("boa-two-epochs").replace(budget=None), rows(job=[16, 16]))
    assert "budget" not in {check.family for check in judged.checks}
    assert judged.consumption["budget"] > 4.0


def test_the_continuous_problem_takes_real_widths_up_to_rounding() -> None:
    """From the least to the largest width of the hull; a width outside by 1e-10 is moved to its end."""
    instance = named("boa-one-table").replace(problem=Problem.CONTINUOUS, budget=None)
    # Between 1 and 2 GPUs the hull is linear in k: s(1.5) = 1.3, and 1.5 / 1.3 GPUs.
    judged = evaluate(instance, rows(job=[1.5]))
    assert judged.objective == pytest.approx(3600.0 / 1.3, rel=1e-14)
    assert judged.consumption["budget"] == pytest.approx(1.5 / 1.3, rel=1e-14)
    for width in (1.0 - 1e-10, 4.0 + 4e-10):
        assert evaluate(instance, rows(job=[width])).objective == pytest.approx(3600.0 / (1 + (width > 2)), rel=1e-9)
    for width in (0.99, 4.01):
        assert broken(instance, rows(job=[width])) == {"allowed-width": "job[1] epoch 1"}


def test_real_widths_end_where_the_hull_ends() -> None:
    """A table that falls: 4 GPUs are slower than 2, and no mixture uses them; the message says 1 to 2."""
    job_class = JobClass(
        arrival_rate_per_hour=1.0,
        epoch_size_gpu_hours=np.array([1.0]),
        speedup={"gpu": TableSpeedup(gpus=np.array([1, 2, 4]), speedup=np.array([1.0, 1.6, 1.5]))},
    )
    instance = BoaInstance(classes={"job": job_class}, gpu_types={"gpu": GpuType()}, problem=Problem.WHOLE)
    assert broken(instance, rows(job=[4])) == {}
    with pytest.warns(UserWarning, match="raises the speedup at 4 GPUs"):
        instance = instance.replace(problem=Problem.CONTINUOUS)
    (wrong,) = [check for check in evaluate(instance, rows(job=[4])).checks if not check.holds]
    assert wrong.message == "widths must lie between the ends of the hull (1 to 2)"
    assert (wrong.left, wrong.right) == (4.0, 2.0)


def total(costs: list[PathCosts], solution: BoaSolution) -> tuple[float, float]:
    """Add up value and consumption along a pure plan's paths, step by step."""
    value = consumption = 0.0
    for c in costs:
        widths = solution.branches[c.name][0].widths
        for layer, width in enumerate(widths):
            column = c.labels.index(f"{width:g}")
            value += c.run_value[layer, column]
            consumption += c.run_consumption[0, layer, column]
            if layer == 0 or width != widths[layer - 1]:
                value += c.enter_value[0, layer, column]
                consumption += c.enter_consumption[0, 0, layer, column]
    return value, consumption


@given(seed=SEEDS, problem=st.sampled_from([Problem.WHOLE, Problem.RESCALING]), weighted=st.booleans())
def test_path_costs_add_up_to_the_evaluation(seed: int, problem: Problem, weighted: bool) -> None:
    """What certificates are checked against and what plans are judged by is the same problem."""
    instance = random_boa(classes=2, epochs=5, widths=5, seed=seed, problem=problem)
    if weighted:
        first = next(iter(instance.classes))
        classes = {**instance.classes, first: instance.classes[first].replace(weight=3.0)}
        instance = instance.replace(classes=classes)
    solution = random_rows(instance, seed)
    judged = evaluate(instance, solution)
    value, consumption = total(path_costs(instance), solution)
    assert value == pytest.approx(judged.objective, rel=1e-12)
    assert consumption == pytest.approx(judged.consumption["budget"], rel=1e-12)


@given(seed=SEEDS, scale=st.sampled_from([1e-9, 1e-3, 1e3, 1e9]))
def test_scaling_time_scales_seconds_and_leaves_gpus(seed: int, scale: float) -> None:
    """Sizes and pauses times c, arrival rates over c: the same GPUs, completion times times c."""
    instance = random_boa(classes=2, epochs=3, widths=4, seed=seed)
    scaled = instance.replace(
        classes={
            name: c.replace(
                epoch_size_gpu_hours=c.epoch_size_gpu_hours * scale,
                arrival_rate_per_hour=c.arrival_rate_per_hour / scale,
                rescale_s=c.rescale_s * scale,
            )
            for name, c in instance.classes.items()
        }
    )
    solution = random_rows(instance, seed)
    before, after = evaluate(instance, solution), evaluate(scaled, solution)
    assert after.objective == pytest.approx(before.objective * scale, rel=1e-12)
    assert after.consumption["budget"] == pytest.approx(before.consumption["budget"], rel=1e-12)
    assert [check.holds for check in after.checks] == [check.holds for check in before.checks]
    mu = before.objective / before.consumption["budget"]
    bound = dual_bound(instance, {"budget": mu}) * scale
    size = (before.objective + 2.0 * mu * instance.budget_amount()) * scale
    assert dual_bound(scaled, {"budget": mu * scale}) == pytest.approx(bound, abs=1e-12 * size)


@given(seed=SEEDS)
def test_names_and_order_of_classes_do_not_matter(seed: int) -> None:
    """Renaming and reversing changes sums by rounding only."""
    instance = random_boa(classes=3, epochs=3, widths=4, seed=seed)
    solution = random_rows(instance, seed)
    turned = instance.replace(classes={f"new {n}": c for n, c in reversed(instance.classes.items())})
    again = BoaSolution(branches={f"new {n}": b for n, b in solution.branches.items()})
    assert evaluate(turned, again).objective == pytest.approx(evaluate(instance, solution).objective, rel=1e-13)
    bounds = [dual_bound(each, {"budget": 100.0}) for each in (instance, turned)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-10)


def every_evaluation(instance: BoaInstance) -> list[Evaluation]:
    """Evaluate every pure plan of a tiny instance."""
    choices = [
        [(name, row) for row in itertools.product(instance.allowed_widths(name).tolist(), repeat=c.num_epochs)]
        for name, c in instance.classes.items()
    ]
    return [evaluate(instance, plan_of(dict(plan))) for plan in itertools.product(*choices)]


@settings(max_examples=30)
@given(
    seed=SEEDS, mu=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e3, 1e6]), problem=st.sampled_from(["whole", "rescaling"])
)
def test_the_dual_bound_is_the_least_priced_plan(seed: int, mu: float, problem: str) -> None:
    """Min over all plans of value + mu * consumption, less mu * budget; so no plan within the budget beats it."""
    instance = random_boa(classes=2, epochs=2, widths=3, seed=seed, problem=Problem(problem))
    budget = instance.budget_amount()
    plans = every_evaluation(instance)
    priced = min(plan.objective + mu * plan.consumption["budget"] for plan in plans)
    bound = dual_bound(instance, {"budget": mu})
    assert bound + mu * budget == pytest.approx(priced, rel=1e-12)
    within = [plan.objective for plan in plans if plan.consumption["budget"] <= budget]
    assert all(bound <= objective * (1 + 1e-9) for objective in within)


AMDAHL = np.array([0.0, 0.2, 1.0])
POWER = np.array([0.0, 0.6, 1.0])


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@pytest.mark.parametrize(
    ("curve", "largest", "speed"),
    [
        (AmdahlSpeedup(serial_fraction=AMDAHL), 8, lambda k: 1.0 / (AMDAHL + (1.0 - AMDAHL) / k)),
        (AmdahlSpeedup(serial_fraction=np.array(0.05)), 8, lambda k: 1.0 / (0.05 + 0.95 / k)),
        (PowerSpeedup(exponent=POWER), 8, lambda k: k**POWER),
        (PowerSpeedup(exponent=np.array(0.9)), 8, lambda k: k**0.9),
        (
            # The hull ends at 4 GPUs, where the table is fastest.
            TableSpeedup(gpus=np.array([1, 2, 4, 8]), speedup=np.array([1.0, 1.9, 2.5, 2.4])),
            4,
            lambda k: np.interp(k, [1.0, 2.0, 4.0], [1.0, 1.9, 2.5]),
        ),
    ],
)
@pytest.mark.parametrize("mu", [0.0, 1.0, 100.0, 1e4, 1e8])
def test_the_continuous_dual_bound_is_the_least_on_a_fine_grid(
    curve: Speedup, largest: int, speed: Callable[[FloatArray], FloatArray], mu: float
) -> None:
    """Closed forms and hulls against 10,000 real widths in each epoch: never above, and close."""
    sizes = np.array([1.0, 2.0, 3.0])
    job_class = JobClass(
        arrival_rate_per_hour=2.0, epoch_size_gpu_hours=sizes, speedup={"gpu": curve}, widths=Widths(max=8)
    )
    instance = BoaInstance(
        classes={"job": job_class},
        gpu_types={"gpu": GpuType()},
        problem=Problem.CONTINUOUS,
        budget=Amount(20.0, BudgetUnit.GPU),
    )
    k = np.union1d(np.geomspace(1.0, largest, 10_000), [2.0])[:, None]
    hours = sizes / speed(k)
    least = float(((3600.0 + mu * 2.0 * k) * hours).min(axis=0).sum())
    bound = dual_bound(instance, {"budget": mu}) + mu * 20.0
    assert bound <= least * (1 + 1e-12)
    assert bound == pytest.approx(least, rel=1e-7)


@given(
    st.lists(st.floats(0.5, 8.0), min_size=2, max_size=6),
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=2),
)
@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_real_widths_are_read_on_the_hull(speeds: list[float], parts: list[float]) -> None:
    """At vertices, at whole widths below the hull and between widths, the speed is that of the hull."""
    gpus = np.arange(1, len(speeds) + 2)
    table = np.array([[1.0, *speeds]])
    vertices = np.flatnonzero(lower_left_hull(gpus / table, 1.0 / table)[0])
    low, high = float(gpus[vertices[0]]), float(gpus[vertices[-1]])
    widths = np.array([low, high, *(low + part * (high - low) for part in parts), np.round((low + high) / 2)])
    instance = BoaInstance(
        classes={
            "a": JobClass(
                arrival_rate_per_hour=1.0,
                epoch_size_gpu_hours=np.ones(widths.size),
                speedup={"g": TableSpeedup(gpus=gpus, speedup=table[0])},
            )
        },
        gpu_types={"g": GpuType()},
        problem=Problem.CONTINUOUS,
    )
    expected = speed_on_hull(widths, gpus, np.repeat(table, widths.size, axis=0))
    assert speeds_along(instance, "a", widths) == pytest.approx(expected, rel=1e-9)
