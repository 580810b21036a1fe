"""The line where a limit ends: plans and least consumptions an ulp to either side of it, limits of nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import BoundProof, Result, Solution, Status, Termination
from optplan.errors import InfeasibleError
from optplan.formulations import formulation_of
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.costs import describe
from optplan.formulations.boa.judge.duality import dual_bound
from optplan.instances.generators import random_boa
from optplan.solvers.paths import column_generation
from optplan.solving import explain, frontier, solve
from optplan.units import Amount, BudgetUnit
from optplan.verification import verify

from .any_instance import draw_instance

CASES = Path(__file__).parents[2] / "cases"
POLICIES = ("pure", "mixed")


def read_case(name: str, **changes: object) -> BoaInstance:
    """Return an input that broke something once."""
    return BoaInstance.parse(json.loads((CASES / f"{name}.json").read_text()) | changes)


def solvers_of(instance: BoaInstance, *, exact: bool = True) -> list[str]:
    """Return the solvers that take an instance."""
    told = describe(instance)
    entries = formulation_of(instance).solvers
    return [entry.name for entry in entries if entry.refusal(instance, told) is None and (entry.exact or not exact)]


def solve_by_all(instance: BoaInstance) -> dict[str, Result[Solution]]:
    """Solve by every exact solver; what is returned has passed the judge."""
    return {name: solve(instance, solver=name, time_limit_s=60.0) for name in solvers_of(instance)}


@pytest.mark.parametrize(
    ("name", "objectives"),
    [
        # The plan's use is the budget times 1 + 1e-9, but for an ulp.
        ("budget-an-ulp-below-a-plan", {"pure": 1220.0, "mixed": 1220.0}),
        ("budget-an-ulp-below-a-plan-2", {"pure": 225.0, "mixed": 225.0}),
        # The least consumption is an ulp above the budget.
        ("budget-an-ulp-below-the-least", {"pure": 5546.935, "mixed": 5546.935}),
    ],
)
@pytest.mark.parametrize("policy", POLICIES)
def test_an_ulp_at_the_line_is_within_the_limit(name: str, objectives: dict[str, float], policy: str) -> None:
    """Every exact solver finds the plan on the line, nothing is called infeasible, and nothing fails the judge."""
    instance = read_case(name, policy=policy)
    for solver, result in solve_by_all(instance).items():
        assert result.objective == pytest.approx(objectives[policy], rel=1e-6), solver
        assert result.bound is not None
        assert result.bound <= objectives[policy] * (1 + 1e-6), solver
        assert verify(instance, result).nothing_wrong


@pytest.mark.parametrize(
    ("name", "objective", "tight"),
    [
        # Every class has one width that fits exactly; budget, quota and floor all leave no other plan.
        ("limits-exactly-tight", 7779.28, {"budget", "quota.a", "floor.c0"}),
        ("limits-exactly-tight-2", 3479.58, {"budget", "quota.a", "due.c1", "floor.c2"}),
        # The budget is the least beside the floor: its multiplier is lost in rounding, and a floor's would be better.
        ("least-budget-of-a-floor", 4454.059015, {"budget", "quota.a", "due.c0", "floor.c1"}),
    ],
)
def test_limits_that_are_all_exactly_tight_have_an_answer(name: str, objective: float, tight: set[str]) -> None:
    """Where limits leave next to no plan, prices are multipliers of the best bound, or say that less is infeasible."""
    instance = read_case(name)
    result = solve(instance)
    assert result.objective == pytest.approx(objective, rel=1e-9)
    assert set(result.shadow_prices) == tight
    assert verify(instance, result).ok


@pytest.mark.parametrize("policy", POLICIES)
def test_an_engine_that_cannot_tell_leaves_an_answer(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no method of HiGHS settles a linear program, the search ends with what is proven, as at other limits."""
    monkeypatch.setattr(column_generation, "_UNSETTLED", ("kOptimal", "kInfeasible", "kUnknown"))
    instance = read_case("remedies-of-pure-plans", policy=policy).replace(budget="30usd/hour")
    instance = instance.replace(
        classes={name: each.replace(most_mean_jct_s=5e4) for name, each in instance.classes.items()}
    )
    result = solve(instance)
    assert result.termination is Termination.WORK_LIMIT
    assert result.bound is not None
    assert verify(instance, result).ok


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_that_nothing_less_is_feasible_is_proven() -> None:
    """Over 60 random instances with many limits no claim rests on trust; other weights prove no such end."""
    proven = 0
    for seed in range(60):
        instance = draw_instance(seed)
        result = solve(instance)
        assert verify(instance, result).ok, seed
        for limit, price in result.shadow_prices.items():
            if price.less is not None or len(instance.limit_names) == 1:
                continue
            proven += 1
            # The limit's own least alone, without the others, is less than it, or one of them is superfluous.
            forged = {name: 0.5 if name == limit else weight for name, weight in price.less_multipliers.items()}
            claims = dict(result.shadow_prices) | {limit: price.replace(less_multipliers=forged)}
            assert not verify(instance, result.replace(shadow_prices=claims)).nothing_wrong, (seed, limit)
    assert proven > 5


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1000),
    ulps=st.integers(-3, 3),
    line=st.sampled_from([1.0, 1.0 - 1e-9, 1.0 / (1.0 + 1e-9), 1.0 + 1e-12]),
    policy=st.sampled_from(POLICIES),
)
def test_budgets_around_the_line_never_fail(seed: int, ulps: int, line: float, policy: str) -> None:
    """With a budget an ulp or two from a plan's use, or from 1e-9 below it, two engines agree and the judge does."""
    instance = random_boa(classes=2, epochs=2, widths=3, seed=seed).replace(policy=policy)
    used = 1.3 * sum(c.arrival_rate_per_hour * c.size_gpu_hours for c in instance.classes.values())
    plan = solve(instance.replace(budget=Amount(used, instance.budget_unit), policy="pure"), solver="layered-paths")
    if plan.solution is None:
        return
    budget = plan.measures["gpus"] * line
    for _ in range(abs(ulps)):
        budget = math.nextafter(budget, math.copysign(math.inf, ulps))
    asked = instance.replace(budget=Amount(budget, instance.budget_unit))
    found = [solve(asked, solver=solver) for solver in ("layered-paths", "linked-paths", "highs")]
    assert all(result.status is Status.OPTIMAL for result in found)
    values = [result.objective for result in found if result.objective is not None]
    assert values[:2] == pytest.approx([values[0]] * 2, rel=1e-6)
    # The general engine has a tolerance of its own, which may be less.
    assert values[2] >= values[0] * (1 - 1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_width_of_a_million_is_solved(policy: str) -> None:
    """A plan at the least budget whose neighbour is 2.9e-9 dearer and 125,000 times quicker: what is proven is said."""
    instance = read_case("width-of-a-million", policy=policy)
    for solver, result in solve_by_all(instance).items():
        assert verify(instance, result).nothing_wrong
        if policy == "pure":
            assert result.objective == pytest.approx(43447.46, abs=0.01), solver
            assert result.status is Status.OPTIMAL


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@pytest.mark.parametrize("quota", [0.0, 1e-300, 1e-15, 1e-14, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7])
@pytest.mark.parametrize("kind", ["pure", "mixed", "continuous"])
def test_quotas_of_next_to_nothing(quota: float, kind: str) -> None:
    """1.1 GPU-hours on the slow type take 1.1 hours; a share of the quick one changes that by less than its quota."""
    data = json.loads((CASES / "tiny-quota.json").read_text())
    data["gpu_types"]["b"]["quota_gpus"] = quota
    changes = {"problem": "continuous", "policy": "mixed"} if kind == "continuous" else {"policy": kind}
    instance = BoaInstance.parse(data | changes)
    found = solve_by_all(instance)
    assert len(found) >= 2
    for solver, result in found.items():
        assert result.status is Status.OPTIMAL, solver
        assert result.objective == pytest.approx(3960.0, rel=1e-6), solver
    own = found["linked-paths"]
    assert verify(instance, own).ok
    # A job on the quick type takes a third of the time: 0.1 GPU-hours moved there save 240 s on 0.0333 GPUs.
    assert own.shadow_prices["quota.b"].more == pytest.approx(7200.0, rel=1e-6)


def quotas_of_nothing(seed: int, problem: str, policy: str, *, without: bool) -> BoaInstance:
    """Return a random instance on three types, two of them with a quota of nothing, or without these two."""
    rng = np.random.default_rng(seed)
    closed = [["b"], ["c"], ["b", "c"]][seed % 3]
    classes = {}
    for number in range(int(rng.integers(1, 4))):
        curves = {
            kind: {"form": "table", "gpus": [1, 2], "speedup": [f, f * 1.7]}
            for kind, f in zip("abc", rng.uniform(0.5, 4.0, 3).tolist(), strict=True)
            if not (without and kind in closed)
        }
        classes[f"class{number}"] = {
            "arrival_rate_per_hour": float(rng.uniform(0.5, 2.0)),
            "epoch_size_gpu_hours": rng.uniform(0.2, 2.0, int(rng.integers(1, 4))).tolist(),
            "speedup": curves,
            "rescale_s": 120.0,
            "type_change_s": 60.0,
        }
    gpu_types = {kind: {"price_usd_per_hour": price} for kind, price in zip("abc", (1.0, 2.0, 3.0), strict=True)}
    gpu_types["a"]["quota_gpus"] = float(rng.uniform(1.0, 6.0))
    for kind in closed:
        gpu_types[kind]["quota_gpus"] = 1.0 if without else 0.0
    budget = f"{float(rng.uniform(2.0, 12.0))!r}usd/hour"
    fields = {"classes": classes, "gpu_types": gpu_types, "budget": budget, "problem": problem, "policy": policy}
    return BoaInstance.parse({"formulation": "boa"} | fields)


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@pytest.mark.parametrize(
    ("problem", "policy"), [("rescaling", "pure"), ("whole", "pure"), ("rescaling", "mixed"), ("continuous", "mixed")]
)
def test_a_quota_of_nothing_takes_its_type_away(problem: str, policy: str) -> None:
    """Over 40 instances the answer is that without the types, and all that is claimed is proven with them."""
    seen = set()
    for seed in range(40):
        instance = quotas_of_nothing(seed, problem, policy, without=False)
        result = solve(instance)
        expected = solve(quotas_of_nothing(seed, problem, policy, without=True))
        seen.add(result.status)
        assert result.status is expected.status
        if expected.objective is None:
            assert verify(instance, result).nothing_wrong
        else:
            assert result.objective == pytest.approx(expected.objective, rel=1e-9)
            assert verify(instance, result).ok
    assert seen == {Status.OPTIMAL, Status.INFEASIBLE}


def test_a_class_that_needs_a_type_with_a_quota_of_nothing_is_infeasible() -> None:
    """The only type, and none of it: one GPU-hour an hour needs a quota of one GPU."""
    curve = {"form": "table", "gpus": [1], "speedup": [1.0]}
    job_class = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"a": curve}}
    fields = {"classes": {"c": job_class}, "gpu_types": {"a": {"quota_gpus": 0}}, "budget": "5gpu", "problem": "whole"}
    instance = BoaInstance.parse({"formulation": "boa"} | fields)
    for solver, result in solve_by_all(instance).items():
        assert result.status is Status.INFEASIBLE, solver
        assert result.infeasibility is not None
        least = {each.limit: each.least_feasible for each in result.infeasibility.relaxations}
        assert least == {"quota.a": pytest.approx(1.0)}
        assert "a quota of a of at least 1 GPUs (given: 0)" in result.infeasibility.reason
        assert verify(instance, result).nothing_wrong


def test_frontier_and_explanation_with_a_quota_of_nothing() -> None:
    """Both are those without the type; points of the frontier are proven with it."""
    budget = Amount(9.0, BudgetUnit.USD_PER_HOUR)
    instance = quotas_of_nothing(3, "rescaling", "pure", without=False).replace(budget=budget)
    other = quotas_of_nothing(3, "rescaling", "pure", without=True).replace(budget=instance.budget)
    line, expected = frontier(instance), frontier(other)
    assert line.instance_hash == instance.content_hash()
    assert line.objectives == pytest.approx(expected.objectives, rel=1e-9)
    point = line.at(9.0)
    assert point.certificate is not None
    assert dual_bound(instance, dict(point.certificate.multipliers)) == pytest.approx(point.objective, rel=1e-9)
    assert explain(instance, solve(instance)).choices


def test_no_frontier_where_the_only_type_has_a_quota_of_nothing() -> None:
    """It says how much of it would do, 0.7 x 26, without a bound that an ample budget drowns in rounding."""
    speedup = {"a": {"form": "amdahl", "serial_fraction": 0.5}}
    job_class = {"arrival_rate_per_hour": 0.7, "epoch_size_gpu_hours": [12.0, 14.0], "speedup": speedup}
    types = {"a": {"price_usd_per_hour": 1.0, "quota_gpus": 0.0}}
    fields = {"classes": {"c": job_class | {"widths": {"max": 16}}}, "gpu_types": types}
    instance = BoaInstance.parse({"formulation": "boa", **fields})
    message = r"no plan that keeps the budget and all quotas; .* a quota of a of at least 18\.2 GPUs \(given: 0\)"
    with pytest.raises(InfeasibleError, match=message):
        frontier(instance)


@pytest.mark.parametrize("problem", ["continuous", "whole"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_price_that_is_lost_in_rounding_proves_nothing(problem: str, policy: str) -> None:
    """At the least budget, the first step saves 0.8 h for 4e-9 GPUs: pure plans are listed, others not proven."""
    if problem == "continuous" and policy == "pure":
        return
    curve = {"form": "table", "gpus": [1, 5], "speedup": [1.0, 5.0 * (1 - 4e-9)]}
    job_class = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"a": curve}}
    fields = {"classes": {"c": job_class}, "gpu_types": {"a": {}}, "budget": "1gpu", "problem": problem}
    instance = BoaInstance.parse({"formulation": "boa", "policy": policy} | fields)
    for solver, result in solve_by_all(instance).items():
        assert verify(instance, result).nothing_wrong, solver
    own = solve(instance)
    assert own.status is (Status.OPTIMAL if policy == "pure" else Status.FEASIBLE)
    if policy == "pure":
        assert own.objective == pytest.approx(3600.0)
        assert own.bound_proof is BoundProof.TREE
