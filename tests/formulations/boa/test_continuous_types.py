"""Problem (7): several GPU types at real widths, with and without quotas, by mixed plans and a cone program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.errors import InfeasibleError, UnsupportedError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.costs import describe
from optplan.formulations.boa.exact.feasibility import least_budget
from optplan.formulations.boa.exact.layered_paths import solve_layered_paths, state_graphs
from optplan.formulations.boa.exact.linked_limits import solve_linked_paths
from optplan.formulations.boa.judge.duality import dual_bound
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.models.conic import solve_conic
from optplan.formulations.boa.study.frontiers import build_frontier
from optplan.progress import Stopwatch
from optplan.solvers.paths.frontier import LayeredPoint
from optplan.solvers.paths.frontier import build_frontier as build_path_frontier
from optplan.solving import solve

REQUEST = SolveRequest()
Solver = Callable[[BoaInstance, SolveRequest], Answer[BoaSolution]]
#: Those that take tables with quotas; closed forms are for the cone program alone.
ON_TABLES = (solve_linked_paths, solve_conic)
#: Relative accuracy of what comes out of an interior-point method.
ACCURACY = 1e-6

pytestmark = pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")

T4_TABLE = {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.6]}
V100_TABLE = {"form": "table", "gpus": [1], "speedup": [1.5]}
A100_TABLE = {"form": "table", "gpus": [1, 2], "speedup": [4.0, 6.0]}
ROOT = {"form": "power", "exponent": 0.5}
#: Solvers with a curve that they take.
ON_CURVES = [(solve_linked_paths, T4_TABLE), (solve_conic, T4_TABLE), (solve_conic, ROOT)]


def make(speedup: dict[str, Any], gpu_types: dict[str, Any], budget: str, **fields: object) -> BoaInstance:
    """Make one class with one arrival an hour and one epoch of one GPU-hour."""
    job_class = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": speedup} | fields
    return BoaInstance.parse(
        {"classes": {"a": job_class}, "gpu_types": gpu_types, "budget": budget, "problem": "continuous"}
    )


def price(usd: float, quota: float | None = None) -> dict[str, float]:
    """Describe a type."""
    return {"price_usd_per_hour": usd} | ({} if quota is None else {"quota_gpus": quota})


def tables(budget: str, *, t4: float | None = None, a100: float | None = None, v100: bool = False) -> BoaInstance:
    """Make a class with tables on T4 and A100, and V100 where asked, with quotas of T4 and A100.

    Points (usd, hours): T4 (1, 1) and (1.25, 0.625); A100 at 8 usd (2, 0.25) and (2.667, 0.167); V100 at 3 usd
    (2, 0.667), which is off the hull of the union.
    """
    speedup, gpu_types = {"t4": T4_TABLE, "a100": A100_TABLE}, {"t4": price(1.0, t4), "a100": price(8.0, a100)}
    if v100:
        speedup, gpu_types = speedup | {"v100": V100_TABLE}, gpu_types | {"v100": price(3.0)}
    return make(speedup, gpu_types, budget)


def held(answer: Answer[BoaSolution]) -> dict[tuple[str, float], float]:
    """Return the fraction of class a's jobs by what they hold in the one epoch, traces left out."""
    assert answer.solution is not None
    found: dict[tuple[str, float], float] = {}
    for branch in answer.solution.branches["a"]:
        assert branch.gpu_types is not None
        key = (branch.gpu_types[0], float(branch.widths[0]))
        found[key] = found.get(key, 0.0) + branch.fraction
    return {key: fraction for key, fraction in found.items() if fraction > ACCURACY}


def count_extra(answer: Answer[BoaSolution]) -> int:
    """Count branches beyond one per class."""
    assert answer.solution is not None
    return sum(len(branches) - 1 for branches in answer.solution.branches.values())


def require_proven(instance: BoaInstance, answer: Answer[BoaSolution]) -> float:
    """Check an answer by the judge alone and return its objective."""
    assert answer.status is Status.OPTIMAL
    assert answer.termination is Termination.COMPLETED
    assert answer.bound_proof is BoundProof.LAGRANGIAN
    assert answer.solution is not None
    evaluation = evaluate(instance, answer.solution)
    assert [check for check in evaluation.checks if not check.holds] == []
    assert answer.objective == pytest.approx(evaluation.objective, rel=1e-12)
    (certificate,) = answer.certificates
    assert set(certificate.multipliers) == set(instance.limit_names)
    assert certificate.bound == pytest.approx(dual_bound(instance, certificate.multipliers), rel=1e-9)
    assert answer.bound is not None
    assert answer.bound <= evaluation.objective * (1.0 + 1e-12)
    assert answer.bound >= evaluation.objective * (1.0 - ACCURACY)
    return evaluation.objective


@pytest.mark.parametrize("solve", [solve_layered_paths, *ON_TABLES])
def test_the_union_hull_by_hand(solve: Solver) -> None:
    """1.625 usd is halfway between (1.25, 0.625) and (2, 0.25): half the jobs on 2 T4, half on 1 A100; 0.4375 h."""
    instance = tables("1.625usd/hour")
    answer = solve(instance, REQUEST)
    assert require_proven(instance, answer) == pytest.approx(0.4375 * 3600, rel=ACCURACY)
    assert held(answer) == pytest.approx({("t4", 2.0): 0.5, ("a100", 1.0): 0.5}, abs=1e-5)
    if answer.shadow_prices:
        # (0.625 - 0.25) / (2 - 1.25) hours per usd.
        assert answer.shadow_prices["budget"].more == pytest.approx(1800.0, rel=1e-5)


@pytest.mark.parametrize("solve", ON_TABLES)
def test_with_quotas_the_union_hull_is_wrong(solve: Solver) -> None:
    """What the quotas leave runs on V100, although that is off the hull of the union.

    Per job T4 takes 1.25 GPUs (2 of them), A100 0.25 (one). Quotas 0.5 and 0.05: 0.2 of the jobs run on A100, 0.4 on
    2 T4 and the rest on V100: 0.2 * 0.25 + 0.4 * 0.625 + 0.4 * 2 / 3 = 0.5667 h.
    """
    instance = tables("10usd/hour", t4=0.5, a100=0.05, v100=True)
    answer = solve(instance, REQUEST)
    assert require_proven(instance, answer) == pytest.approx((0.05 + 0.25 + 0.8 / 3.0) * 3600, rel=ACCURACY)
    assert held(answer) == pytest.approx({("t4", 2.0): 0.4, ("a100", 1.0): 0.2, ("v100", 1.0): 0.4}, abs=1e-5)
    if answer.shadow_prices:
        prices = {limit: found.more for limit, found in answer.shadow_prices.items()}
        # An A100 more takes 4 jobs an hour from V100: 4 * (2/3 - 1/4) h; a T4 more 0.8 jobs: 0.8 * (2/3 - 0.625) h.
        expected = {"budget": 0.0, "quota.t4": 0.1 / 3.0 * 3600, "quota.a100": 5.0 / 3.0 * 3600}
        assert prices == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_the_union_hull_alone_would_be_infeasible() -> None:
    """Without V100 the same quotas cannot be kept, and the answer says what would do."""
    answer = solve_linked_paths(tables("10usd/hour", t4=0.5, a100=0.05), REQUEST)
    assert answer.status is Status.INFEASIBLE
    assert answer.infeasibility is not None
    # T4 alone takes what A100 leaves: 0.8 jobs on 1 GPU each; A100 takes what T4 leaves: 0.5 jobs on 0.25 GPUs.
    least = {relaxation.limit: relaxation.least_feasible for relaxation in answer.infeasibility.relaxations}
    assert least == pytest.approx({"quota.t4": 0.8, "quota.a100": 0.125})


def test_real_widths_with_a_quota_by_hand() -> None:
    """S = k^0.5 on both types: a fraction p with GPU-time u takes p^2 / u, best divided 1 / (u + v) for u and v.

    With a quota u = 1 at 1 usd, and v at 2 usd, a budget b leaves v = (b - u) / 2: at 3 usd v = 1 and half an hour. The
    derivative of 1 / (u + (b - u) / 2) by u and by b is -0.5 / 4 h.
    """
    instance = make(
        {"cheap": ROOT, "dear": ROOT}, {"cheap": price(1.0, 1.0), "dear": price(2.0)}, "3usd/hour", widths={"max": 64}
    )
    answer = solve_conic(instance, REQUEST)
    assert require_proven(instance, answer) == pytest.approx(1800.0, rel=ACCURACY)
    for found in answer.shadow_prices.values():
        assert found.more == pytest.approx(450.0, rel=1e-3)


def test_without_quotas_real_widths_use_the_cheaper_of_equal_types() -> None:
    """S = k^0.5 on both: 3 usd buy 3 GPUs of time at 1 usd, so 9 at a time, and a third of an hour."""
    instance = make(
        {"cheap": ROOT, "dear": ROOT}, {"cheap": price(1.0), "dear": price(2.0)}, "3usd/hour", widths={"max": 64}
    )
    answer = solve_conic(instance, REQUEST)
    assert require_proven(instance, answer) == pytest.approx(1200.0, rel=ACCURACY)
    ((gpu_type, width),) = held(answer)
    assert gpu_type == "cheap"
    assert width == pytest.approx(9.0, rel=1e-4)


def test_where_a_type_gives_way_to_another_one_row_is_divided() -> None:
    """Between what a class uses on the one type and on the other at the same multiplier, its jobs are divided.

    On cheap at 1 usd s = k^0.5: u usd and 1 / u hours, u up to 4 (16 GPUs). On dear at 4 usd s = k: 16 GPUs are
    (4, 1/16). The line from there touches 1 / u where 1 / u = 1/16 + (4 - u) / u^2: u^2 - 32 u + 64 = 0.
    """
    curves = {"cheap": ROOT, "dear": {"form": "amdahl", "serial_fraction": 0.0}}
    instance = make(curves, {"cheap": price(1.0), "dear": price(4.0)}, "3usd/hour", widths={"max": 16})
    answer = solve_conic(instance, REQUEST)
    touching = 16.0 - 192.0**0.5  # 2.1436
    share = (3.0 - touching) / (4.0 - touching)
    expected = (1.0 - share) / touching + share / 16.0
    assert require_proven(instance, answer) == pytest.approx(expected * 3600, rel=1e-8)
    rounded = {(name, round(width, 2)): fraction for (name, width), fraction in held(answer).items()}
    assert rounded == pytest.approx({("cheap", round(touching**2, 2)): 1.0 - share, ("dear", 16.0): share}, rel=1e-4)
    assert answer.shadow_prices["budget"].less == pytest.approx(3600.0 / touching**2, rel=1e-4)
    assert answer.shadow_prices["budget"].more == pytest.approx(3600.0 / touching**2, rel=1e-4)


@pytest.mark.parametrize(("solve", "curve"), ON_CURVES)
def test_one_type_with_a_quota_has_the_lesser_limit(solve: Solver, curve: dict[str, object]) -> None:
    """With one type a quota below the budget is the budget; its price is the budget's, which is none."""
    instance = make({"t4": curve}, {"t4": {"quota_gpus": 1.1}}, "1.2gpu", widths={"max": 2})
    alone = make({"t4": curve}, {"t4": {}}, "1.1gpu", widths={"max": 2})
    answer = solve(instance, REQUEST)
    assert require_proven(instance, answer) == pytest.approx(solve(alone, REQUEST).objective, rel=ACCURACY)
    if solve is solve_linked_paths:
        # 0.4 of the jobs on 2 GPUs hold 1.1 GPUs for 0.85 h: one real width.
        assert answer.solution is not None
        (branch,) = answer.solution.branches["a"]
        assert branch.widths == pytest.approx([1.1 / 0.85], rel=1e-9)
    if answer.shadow_prices:
        assert answer.shadow_prices["budget"].more == pytest.approx(0.0, abs=0.1)
        assert answer.shadow_prices["quota.t4"].more > 1000.0


@pytest.mark.parametrize("curve", [T4_TABLE, ROOT])
def test_interruptions_count_in_time_and_in_money(curve: dict[str, object]) -> None:
    """One spot GPU that is interrupted once an hour and loses 6 minutes each time takes and holds 1 / 0.9 as long."""
    spot = {"interruptions_per_gpu_hour": 1.0, "restart_s": 360.0}
    instance = make({"t4": curve}, {"t4": {"spot": spot}}, "2gpu", widths={"only": [1]})
    answers = [solve(instance, REQUEST) for solve in (solve_layered_paths, *ON_TABLES)]
    for answer in answers:
        assert require_proven(instance, answer) == pytest.approx(4000.0)
        assert answer.solution is not None
        assert evaluate(instance, answer.solution).consumption["budget"] == pytest.approx(1.0 / 0.9)


def test_equal_types_give_the_homogeneous_answer() -> None:
    """Which of two equal types a job runs on does not matter, with closed forms and with tables."""
    for solver, curve in (*ON_CURVES, (solve_layered_paths, T4_TABLE)):
        one = make({"a": curve}, {"a": price(2.0)}, "2.3usd/hour", widths={"max": 2})
        two = make({"a": curve, "b": curve}, {"a": price(2.0), "b": price(2.0)}, "2.3usd/hour", widths={"max": 2})
        accuracy = 1e-8 if solver is solve_conic else 1e-12
        assert solver(two, REQUEST).objective == pytest.approx(solver(one, REQUEST).objective, rel=accuracy)


@pytest.mark.parametrize(("solve", "curve"), ON_CURVES)
def test_the_least_limits_are_enough(solve: Solver, curve: dict[str, object]) -> None:
    """At the least budget there is a plan; a little below there is none, and the reason is the same for all."""
    instance = make({"a": curve, "b": curve}, {"a": price(2.0), "b": price(3.0, 0.3)}, "2usd/hour", widths={"max": 2})
    answer = solve(instance, REQUEST)
    assert answer.solution is not None
    assert all(check.holds for check in evaluate(instance, answer.solution).checks)
    assert answer.objective == pytest.approx(3600.0, rel=ACCURACY)
    less = solve(instance.replace(budget="1.999usd/hour"), REQUEST)
    assert less.status is Status.INFEASIBLE
    assert less.infeasibility is not None
    assert "a budget of at least 2 usd/hour (given: 1.999)" in less.infeasibility.reason


def test_at_the_least_budget_nothing_less_is_feasible() -> None:
    """The price on the lesser side is None; that of more is the first slope: d(1 / u) / du = -1 at u = 1 GPU."""
    instance = make({"a": ROOT, "b": ROOT}, {"a": price(1.0), "b": price(1.5)}, "1usd/hour", widths={"max": 9})
    answer = solve_conic(instance, REQUEST)
    assert require_proven(instance, answer) == pytest.approx(3600.0)
    assert answer.shadow_prices["budget"].less is None
    assert answer.shadow_prices["budget"].more == pytest.approx(3600.0, rel=1e-2)
    below = solve_conic(instance.replace(budget="0.9usd/hour"), REQUEST)
    assert below.infeasibility is not None
    assert "is 1 usd/hour (a 1); the budget is 0.9" in below.infeasibility.reason


def test_more_than_enough_has_no_price() -> None:
    """At 3 GPUs' time nothing is left to gain with at most 9 GPUs a job."""
    instance = make({"a": ROOT, "b": ROOT}, {"a": price(1.0), "b": price(1.5)}, "5usd/hour", widths={"max": 9})
    answer = solve_conic(instance, REQUEST)
    assert require_proven(instance, answer) == pytest.approx(1200.0)
    assert (answer.shadow_prices["budget"].less, answer.shadow_prices["budget"].more) == (0.0, 0.0)


def _curve(draw: st.DrawFn, epochs: int, forms: list[str], first: list[float]) -> dict[str, object]:
    """Draw a speedup; tables may fall, and be superlinear, from one of some first entries on."""
    form = draw(st.sampled_from(forms))

    def listed(choices: list[float], count: int) -> list[float]:
        return draw(st.lists(st.sampled_from(choices), min_size=count, max_size=count))

    if form == "table":
        speeds = [listed(first, 1) + listed([0.5, 1.0, 1.6, 2.4, 5.0], 2) for _ in range(epochs)]
        return {"form": form, "gpus": [1, 2, 4], "speedup": speeds}
    parameter = "serial_fraction" if form == "amdahl" else "exponent"
    return {"form": form, parameter: listed([0.0, 0.1, 0.4, 0.8, 1.0], epochs)}


@st.composite
def instances(draw: st.DrawFn, forms: tuple[str, ...] = ("table", "amdahl", "power")) -> BoaInstance:
    """Draw up to three types and two classes, with quotas or without, and limits with a little or much to spare."""
    names = draw(st.sampled_from(["t", "tv", "tva"]))
    classes = {}
    first = [0.5, 1.0, 2.4] if len(names) > 1 else [1.0]
    for name in draw(st.sampled_from(["x", "xy"])):
        epochs = draw(st.integers(1, 3))
        runs_on = names if name == "x" else names[:2]
        classes[name] = {
            "arrival_rate_per_hour": draw(st.sampled_from([0.3, 1.0])),
            "epoch_size_gpu_hours": [1.0] * epochs,
            "speedup": {gpu_type: _curve(draw, epochs, list(forms), first) for gpu_type in runs_on},
            "weight": draw(st.sampled_from([1.0, 4.0])),
            "widths": {"only": [1, 2, 4]},
        }
    spot = {"interruptions_per_gpu_hour": 0.5, "restart_s": 300.0, "restart_billed": draw(st.booleans())}
    gpu_types: dict[str, dict[str, Any]] = {
        name: {"price_usd_per_hour": usd} | ({"spot": spot} if draw(st.integers(0, 3)) == 0 else {})
        for name, usd in zip(names, (1.0, 1.7, 2.5), strict=False)
    }
    fields = {"classes": classes, "gpu_types": gpu_types, "budget": "1usd/hour", "problem": "continuous"}
    instance = BoaInstance.parse(fields)
    budget = least_budget(instance)[0] * draw(st.sampled_from([1.02, 1.3, 2.0, 4.0]))
    for name in draw(st.sampled_from([[], [names[0]], list(names)])):
        gpu_types[name]["quota_gpus"] = budget * draw(st.sampled_from([0.2, 0.5, 1.0]))
    return BoaInstance.parse(fields | {"budget": f"{budget!r}usd/hour" if len(names) > 1 else f"{budget!r}gpu"})


@settings(max_examples=60)
@given(instance=instances())
def test_all_solvers_agree(instance: BoaInstance) -> None:
    """Mixed plans of paths and an interior-point method find and prove one optimum; the latter closed forms, too."""
    features = describe(instance).features
    answers = [solve_conic(instance, REQUEST)]
    answers += [] if "real-widths" in features else [solve_linked_paths(instance, REQUEST)]
    answers += [solve_layered_paths(instance, REQUEST)] if features <= {"gpu-types"} else []
    infeasible = {answer.status is Status.INFEASIBLE for answer in answers}
    assert len(infeasible) == 1
    if infeasible == {True}:
        return
    objectives = [require_proven(instance, answer) for answer in answers]
    assert objectives == pytest.approx([objectives[-1]] * len(objectives), rel=2 * ACCURACY)
    assert objectives[1:] == pytest.approx([objectives[-1]] * len(objectives[1:]), rel=1e-9)


@settings(max_examples=60)
@given(instance=instances(forms=("table",)))
def test_at_most_as_many_classes_are_divided_as_limits_bind(instance: BoaInstance) -> None:
    """Without quotas one class at most; with them one more row for each limit that is used up."""
    answer = solve_linked_paths(instance, REQUEST)
    if answer.solution is None:
        return
    used = evaluate(instance, answer.solution).consumption
    binding = [limit for limit, amount in instance.limits.items() if used[limit] >= amount * (1.0 - 1e-9)]
    assert count_extra(answer) <= len(binding)


@settings(max_examples=40)
@given(instance=instances(forms=("table",)), data=st.data())
def test_another_type_and_a_higher_limit_never_hurt(instance: BoaInstance, data: st.DataObject) -> None:
    """What was possible still is; and a copy of a type that costs more is of no use without quotas."""
    before = solve_linked_paths(instance, REQUEST).objective
    if before is None:
        return
    first = next(iter(instance.gpu_types))
    usd = instance.prices_in_budget[first]
    factor = data.draw(st.sampled_from([0.8, 1.0, 1.5]))
    if len(instance.gpu_types) > 1:
        copy = instance.gpu_types[first].replace(price_usd_per_hour=usd * factor)
        classes = {
            name: c.replace(speedup=dict(c.speedup) | {"new": c.speedup[first]}) for name, c in instance.classes.items()
        }
        more = instance.replace(gpu_types=dict(instance.gpu_types) | {"new": copy}, classes=classes)
        after = solve_linked_paths(more, REQUEST).objective
        assert after is not None
        assert after <= before * (1.0 + 1e-9)
        if not instance.quotas and factor >= 1.0:
            assert after == pytest.approx(before, rel=1e-9)
    raised = {
        name: t.replace(quota_gpus=None if t.quota_gpus is None else 1.3 * t.quota_gpus)
        for name, t in instance.gpu_types.items()
    }
    after = solve_linked_paths(instance.replace(gpu_types=raised), REQUEST).objective
    assert after is not None
    assert after <= before * (1.0 + 1e-9)


@settings(max_examples=25)
@given(instance=instances(forms=("amdahl", "power")))
def test_prices_are_slopes_of_the_optimum(instance: BoaInstance) -> None:
    """A little more budget gains no more than its price says, a little less loses no less."""
    answer = solve_conic(instance, REQUEST)
    if answer.objective is None:
        return
    found = answer.shadow_prices["budget"]
    amount, step = instance.budget_amount(), 1e-3
    assert instance.budget is not None
    unit = instance.budget.unit.value
    more = solve_conic(instance.replace(budget=f"{amount * (1 + step)!r}{unit}"), REQUEST).objective
    slack = 1e-7 * answer.objective
    assert more is not None
    assert more >= answer.objective - found.more * amount * step - slack
    less = solve_conic(instance.replace(budget=f"{amount * (1 - step)!r}{unit}"), REQUEST).objective
    if less is not None and found.less is not None:
        assert less >= answer.objective + found.less * amount * step - slack


@pytest.mark.parametrize("quota", [None, 1.2])
def test_the_frontier_is_what_solving_says(quota: float | None) -> None:
    """Points, queries between them and inverse queries agree with single solves; the curve is convex."""
    curves = {"cheap": ROOT, "dear": {"form": "amdahl", "serial_fraction": 0.02}}
    instance = make(curves, {"cheap": price(1.0, quota), "dear": price(2.0)}, "2.2usd/hour", widths={"max": 16})
    line = build_frontier(instance)
    assert not line.exact_between
    assert np.all(np.diff(line.budgets) > 0)
    slopes = np.diff(line.objectives) / np.diff(line.budgets)
    assert np.all(slopes < 0)
    assert np.all(np.diff(slopes) > -1e-6 * abs(slopes[0]))
    point, answer = line.at(2.2), solve_conic(instance, REQUEST)
    assert point.objective == pytest.approx(answer.objective, rel=1e-9)
    assert point.certificate.bound == pytest.approx(answer.bound, rel=1e-9)
    assert dual_bound(instance, dict(point.certificate.multipliers)) == pytest.approx(point.objective, rel=1e-7)
    assert line.budget_for(point.objective).budget == pytest.approx(2.2, rel=1e-6)
    solution = line.solution_at(2.2)
    assert isinstance(solution, BoaSolution)
    assert evaluate(instance, solution).objective == pytest.approx(point.objective, rel=1e-9)
    assert line.at(line.budgets[0]).objective == pytest.approx(line.objectives[0], rel=1e-6)
    assert line.at(1000.0).budget == pytest.approx(line.budgets[-1], rel=1e-6)
    assert line.budget_for(1e9).budget == pytest.approx(line.budgets[0], rel=1e-6)
    with pytest.raises(InfeasibleError, match=f"the frontier starts at a budget of {line.budgets[0]:.6g} usd/hour"):
        line.at(0.5)
    with pytest.raises(InfeasibleError, match="no budget brings the mean completion time below"):
        line.budget_for(1.0)


def test_the_frontier_of_tables_is_exact_between_its_points() -> None:
    """Two classes of one epoch: every breakpoint is a pure plan, and lines lead from one to the next."""
    line = build_frontier(tables("2usd/hour"))
    assert line.exact_between
    assert line.budgets.tolist() == pytest.approx([1.0, 1.25, 2.0, 8.0 / 3.0])
    assert line.objectives.tolist() == pytest.approx([3600.0, 2250.0, 900.0, 600.0])
    solution = line.solution_at(1.5)
    assert isinstance(solution, BoaSolution)
    assert len(solution.branches["a"]) == 2


def test_the_frontier_of_closed_forms_ends_where_nothing_is_gained() -> None:
    """An epoch with s = 1 takes 1 GPU's time at the least, one with s = k^0.5 4 GPUs' for a quarter of an hour."""
    curve = {"form": "power", "exponent": [0.0, 0.5]}
    line = build_frontier(make({"a": curve}, {"a": {}}, "3gpu", epoch_size_gpu_hours=[1.0, 1.0], widths={"max": 16}))
    assert line.budgets[[0, -1]].tolist() == pytest.approx([2.0, 5.0], rel=1e-9)
    first, last, beyond = (line.at(budget) for budget in (2.0, 5.0, 9.0))
    assert (first.shadow_price.less, last.shadow_price.more) == (None, 0.0)
    assert beyond.budget == pytest.approx(5.0)
    assert (beyond.shadow_price.less, beyond.shadow_price.more) == (0.0, 0.0)
    assert last.objective == pytest.approx(1.25 * 3600, rel=1e-7)


@settings(max_examples=30)
@given(instance=instances(forms=("table",)), share=st.floats(0.0, 1.1))
def test_hulls_of_single_epochs_make_the_frontier_of_paths(instance: BoaInstance, share: float) -> None:
    """Where changes cost nothing, paths of whole classes have the same trade-off, and decisions attain it."""
    free = instance.replace(gpu_types={name: t.replace(quota_gpus=None) for name, t in instance.gpu_types.items()})
    line, paths = build_frontier(free), build_path_frontier(state_graphs(free))
    assert line.budgets[[0, -1]] == pytest.approx(paths.consumption[[0, -1]], rel=1e-9)
    budget = float(line.budgets[0] + share * (line.budgets[-1] - line.budgets[0]))
    point = paths.at(budget)
    assert isinstance(point, LayeredPoint)
    assert line.at(budget).objective == pytest.approx(point.value, rel=1e-9)
    solution = line.solution_at(budget)
    assert isinstance(solution, BoaSolution)
    assert evaluate(free, solution).objective == pytest.approx(point.value, rel=1e-9)


def test_paths_leave_closed_forms_to_the_cone_program() -> None:
    """The message names what is missing; asked for none in particular, the solver is the one that takes them."""
    instance = make({"a": ROOT, "b": ROOT}, {"a": price(1.0), "b": price(1.5)}, "2usd/hour", widths={"max": 9})
    with pytest.raises(UnsupportedError, match="'layered-paths' cannot handle real-widths; solvers that take"):
        solve(instance, solver="layered-paths")
    assert solve(instance).solver == "conic"


@pytest.mark.parametrize(("solve_late", "curve"), ON_CURVES)
def test_out_of_time_the_bound_stands(solve_late: Solver, curve: dict[str, object]) -> None:
    """Stopped at once, an answer has no plan or a valid one, and a bound that holds."""
    types, widths = {"a": price(1.0, 0.4), "b": price(1.5)}, {"max": 9}
    instance = make({"a": curve, "b": curve}, types, "1.6usd/hour", widths=widths)
    best = solve_conic(instance, REQUEST).objective
    stopwatch = Stopwatch(limit_s=1e-9)
    answer = solve_late(instance, SolveRequest(stopwatch=stopwatch))
    assert answer.termination is Termination.TIME_LIMIT
    assert answer.bound is not None
    assert best is not None
    assert answer.bound <= best * (1.0 + 1e-9)
    assert answer.solution is None or all(check.holds for check in evaluate(instance, answer.solution).checks)


@pytest.mark.parametrize("solve", ON_TABLES)
def test_a_budget_is_needed(solve: Solver) -> None:
    """Without one the call is wrong, and the message says how to give one."""
    with pytest.raises(UsageError, match="has no budget; give one"):
        solve(tables("2usd/hour", t4=0.5).replace(budget=None), REQUEST)
