"""BOA on general engines: they agree with each other, with the evaluator and with hand arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optplan
from optplan.contracts import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.contracts.result import relative_gap
from optplan.errors import EngineError, UnsupportedError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.exact.feasibility import least_budget
from optplan.formulations.boa.judge.duality import dual_bound
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.models.general_engines import solve_cp_sat, solve_enumeration, solve_highs
from optplan.progress import Stopwatch
from optplan.solvers.programs.program import ProgramOutcome
from optplan.units import Amount, BudgetUnit

REQUEST = SolveRequest(gap=1e-9)
Solver = Callable[[BoaInstance, SolveRequest], Answer[BoaSolution]]
PURE: list[Solver] = [solve_highs, solve_cp_sat, solve_enumeration]
MIXED: list[Solver] = [solve_highs]


def two_epochs(policy: str = "pure", budget: str = "4.104gpu") -> BoaInstance:
    """Make the case of two epochs: s1 = k^0.99, s2 = k^0.05, X = (3, 1) h, r = 0.05 h, one arrival an hour."""
    return BoaInstance.parse(
        {
            "name": "two-epochs",
            "classes": {
                "a": {
                    "arrival_rate_per_hour": 1.0,
                    "epoch_size_gpu_hours": [3.0, 1.0],
                    "speedup": {"gpu": {"form": "power", "exponent": [0.99, 0.05]}},
                    "rescale_s": 180.0,
                }
            },
            "gpu_types": {"gpu": {}},
            "widths": {"max": 8},
            "budget": budget,
            "policy": policy,
        }
    )


@st.composite
def tiny_instances(draw: st.DrawFn) -> BoaInstance:
    """Draw one or two classes with ragged tables, rescaling or none, and a budget at or above the least one."""
    problem = draw(st.sampled_from(["whole", "rescaling"]))
    classes = {}
    for name in draw(st.sampled_from([["a"], ["a", "b c"]])):
        epochs = draw(st.integers(1, 3))
        speeds = st.lists(st.sampled_from([0.8, 1.0, 1.5, 1.9, 2.5, 3.5]), min_size=2, max_size=2)
        classes[name] = {
            "arrival_rate_per_hour": draw(st.sampled_from([0.25, 1.0, 3.0])),
            "epoch_size_gpu_hours": draw(st.lists(st.sampled_from([0.1, 1.0, 4.0]), min_size=epochs, max_size=epochs)),
            "speedup": {
                "gpu": {"form": "table", "gpus": [1, 2, 4], "speedup": [[1.0, *draw(speeds)] for _ in range(epochs)]}
            },
            "rescale_s": draw(st.sampled_from([0.0, 60.0, 1800.0])),
            "weight": draw(st.sampled_from([1.0, 5.0])),
        }
    instance = BoaInstance.parse({"classes": classes, "gpu_types": {"gpu": {}}, "problem": problem})
    more = draw(st.sampled_from([1.0, 1.01, 1.2, 1.5, 4.0]))
    return instance.replace(budget=f"{least_budget(instance)[0] * more!r}gpu")


@st.composite
def tiny_typed_instances(draw: st.DrawFn) -> BoaInstance:
    """Draw one or two classes on two or three types, with quotas, interruptions and costs of changing types."""
    names = draw(st.sampled_from([["t4", "a100"], ["t4", "v100", "a100"]]))
    gpu_types: dict[str, dict[str, object]] = {
        name: {"price_usd_per_hour": draw(st.sampled_from([0.5, 1.0, 2.0]))} for name in names
    }
    if draw(st.booleans()):
        gpu_types["a100"]["spot"] = {
            "interruptions_per_gpu_hour": 0.1,
            "restart_s": 600.0,
            "lost_work_s": 1200.0,
            "restart_billed": draw(st.booleans()),
        }
    seconds = st.sampled_from([0.0, 60.0, 1800.0])
    classes = {}
    for name in draw(st.sampled_from([["a"], ["a", "b c"]])):
        epochs = draw(st.integers(1, 3))
        runs_on = names if draw(st.booleans()) else names[:1]
        speed = st.sampled_from([0.8, 1.0, 1.9, 3.5])
        tables = {}
        for h in runs_on:
            speeds = draw(st.lists(speed, min_size=1, max_size=2))
            tables[h] = {"form": "table", "gpus": [1, 2][: len(speeds)], "speedup": speeds}
        classes[name] = {
            "arrival_rate_per_hour": draw(st.sampled_from([0.25, 1.0])),
            "epoch_size_gpu_hours": draw(st.lists(st.sampled_from([0.1, 1.0]), min_size=epochs, max_size=epochs)),
            "speedup": tables,
            "rescale_s": draw(seconds),
            "rescale_s_on": {"a100": draw(seconds)},
            "type_change_s": draw(seconds),
            "type_change_s_from": {"t4": {"a100": draw(seconds)}},
        }
    problem = draw(st.sampled_from(["whole", "rescaling"]))
    return limit_to_some_plan(draw, BoaInstance.parse({"classes": classes, "gpu_types": gpu_types, "problem": problem}))


def limit_to_some_plan(draw: st.DrawFn, instance: BoaInstance) -> BoaInstance:
    """Draw a pure plan, and limits that it keeps exactly or with a tenth to spare."""
    branches: dict[str, tuple[Branch, ...]] = {}
    for name, job_class in instance.classes.items():
        options = instance.options(name)
        some = st.integers(0, options.widths.size - 1)
        taken = np.array(draw(st.lists(some, min_size=job_class.num_epochs, max_size=job_class.num_epochs)))
        types = tuple(options.gpu_types[group] for group in options.group[taken])
        branches[name] = (Branch(widths=options.widths[taken], gpu_types=types),)
    limited = draw(st.lists(st.sampled_from(list(instance.gpu_types)), unique=True))
    measures = evaluate(instance, BoaSolution(branches=branches)).measures
    more = draw(st.sampled_from([1.0, 1.1]))
    gpu_types = {
        name: gpu_type.replace(quota_gpus=max(more * measures[f"gpus.{name}"], 0.01)) if name in limited else gpu_type
        for name, gpu_type in instance.gpu_types.items()
    }
    budget = Amount(more * measures["cost_usd_per_hour"], BudgetUnit.USD_PER_HOUR)
    return instance.replace(gpu_types=gpu_types, budget=budget)


def one_epoch_two_types(policy: str, budget: str = "2usd/hour", **quotas: float) -> BoaInstance:
    """Make one epoch: 1 h on a T4 at $1, 1/4 h on an A100 at $4, one arrival an hour; each job costs $1."""
    return BoaInstance.parse(
        {
            "classes": {
                "a": {
                    "arrival_rate_per_hour": 1.0,
                    "epoch_size_gpu_hours": [1.0],
                    "speedup": {
                        "t4": {"form": "table", "gpus": [1], "speedup": [1.0]},
                        "a100": {"form": "table", "gpus": [1], "speedup": [4.0]},
                    },
                }
            },
            "gpu_types": {
                "t4": {"price_usd_per_hour": 1.0, "quota_gpus": quotas.get("t4")},
                "a100": {"price_usd_per_hour": 4.0, "quota_gpus": quotas.get("a100")},
            },
            "budget": budget,
            "problem": "whole",
            "policy": policy,
        }
    )


def require_sound(instance: BoaInstance, answer: Answer[BoaSolution]) -> float:
    """Check an answer with a solution by the evaluator and return the recomputed objective."""
    assert answer.solution is not None
    evaluation = evaluate(instance, answer.solution)
    assert [check for check in evaluation.checks if not check.holds] == []
    assert answer.objective == pytest.approx(evaluation.objective, rel=1e-12)
    assert answer.bound is not None
    assert answer.bound <= evaluation.objective * (1 + 1e-9)
    return evaluation.objective


@settings(max_examples=25)
@given(instance=tiny_instances())
def test_all_engines_find_the_enumerated_optimum(instance: BoaInstance) -> None:
    """HiGHS, CP-SAT and Pyomo agree with looking at every plan, and so do their bounds."""
    expected = require_sound(instance, solve_enumeration(instance, REQUEST))
    for solver in PURE:
        answer = solver(instance, REQUEST)
        assert require_sound(instance, answer) == pytest.approx(expected, rel=1e-9)
        assert answer.bound == pytest.approx(expected, rel=1e-9)
        assert answer.status is Status.OPTIMAL


@settings(max_examples=25)
@given(instance=tiny_instances())
def test_mixed_plans_reach_the_best_lagrangian_bound(instance: BoaInstance) -> None:
    """Objective and re-derived bound meet, no multiplier gives a better bound, and no pure plan is better."""
    mixed = instance.replace(policy="mixed")
    pure = require_sound(instance, solve_enumeration(instance, REQUEST))
    for solver in MIXED:
        answer = solver(mixed, REQUEST)
        objective = require_sound(mixed, answer)
        assert answer.bound_proof is BoundProof.LAGRANGIAN
        (certificate,) = answer.certificates
        assert certificate.bound is not None
        assert certificate.bound == pytest.approx(dual_bound(mixed, certificate.multipliers), rel=1e-10)
        # Relative to |value| + mu * budget, the scale of the rounding.
        mu = certificate.multipliers["budget"]
        assert objective - certificate.bound <= 1e-9 * (objective + mu * mixed.budget_amount())
        assert objective <= pure * (1 + 1e-9)


@settings(max_examples=25)
@given(instance=tiny_typed_instances())
def test_engines_agree_on_types_quotas_and_interruptions(instance: BoaInstance) -> None:
    """Pure optima are that of enumeration, mixed ones meet their re-derived bound, and the judge finds no fault."""
    expected = require_sound(instance, solve_enumeration(instance, REQUEST))
    for solver in PURE:
        answer = solver(instance, REQUEST)
        assert require_sound(instance, answer) == pytest.approx(expected, rel=1e-9)
        assert answer.bound == pytest.approx(expected, rel=1e-9)
    mixed = instance.replace(policy="mixed")
    for solver in MIXED:
        answer = solver(mixed, REQUEST)
        objective = require_sound(mixed, answer)
        assert objective <= expected * (1 + 1e-9)
        (certificate,) = answer.certificates
        assert certificate.bound is not None
        assert certificate.bound == pytest.approx(dual_bound(mixed, certificate.multipliers), rel=1e-10)
        priced = sum(certificate.multipliers[limit] * amount for limit, amount in mixed.limits.items())
        assert objective - certificate.bound <= 1e-9 * (objective + priced)


def test_a_quota_divides_the_jobs() -> None:
    """An eighth of an A100 runs half of the jobs: 5/8 h on average; one more A100 would be worth 3/4 h / (1/4)."""
    for solver in MIXED:
        answer = solver(one_epoch_two_types("mixed", a100=0.125), REQUEST)
        assert answer.objective == pytest.approx(5 / 8 * 3600)
        assert answer.solution is not None
        shares = {branch.gpu_types: branch.fraction for branch in answer.solution.branches["a"]}
        assert shares == pytest.approx({("t4",): 0.5, ("a100",): 0.5})
        assert answer.certificates[0].multipliers == pytest.approx({"budget": 0.0, "quota.a100": 10800.0})
    for solver in PURE:
        answer = solver(one_epoch_two_types("pure", a100=0.125), REQUEST)
        assert answer.objective == pytest.approx(3600)


def test_quotas_that_leave_one_mixture() -> None:
    """Half of the jobs on each type is all that fits."""
    for solver in MIXED:
        answer = solver(one_epoch_two_types("mixed", t4=0.5, a100=0.125), REQUEST)
        assert answer.objective == pytest.approx(5 / 8 * 3600)


def test_limits_that_only_mixed_plans_keep_are_infeasible_for_pure_ones() -> None:
    """Half of the jobs on each type is all that the quotas allow: no pure plan, which a division into parts proves."""
    for solver in PURE:
        answer = solver(one_epoch_two_types("pure", t4=0.5, a100=0.125), REQUEST)
        assert (answer.status, answer.solution) == (Status.INFEASIBLE, None)
        assert answer.infeasibility is not None
        assert "although mixed plans do (policy mixed)" in answer.infeasibility.reason
        assert answer.infeasibility.certificate is not None


def test_two_epochs_by_hand() -> None:
    """One GPU throughout takes 3 + 1 + 0.05 h and as many GPU-hours; 2 GPUs, then 1, exceed 4.104; a mixture is better.

    2 GPUs, then 1: 3 / 2^0.99 + 0.05 + 1 + 0.05 = 2.61043 h and 2 * 1.56043 + 1.05 = 4.17087 GPUs. The budget lets
    (4.104 - 4.05) / (4.17087 - 4.05) = 0.44677 of the jobs do so: 4.05 - 0.44677 * 1.43957 = 3.40684 h.
    """
    for solver in PURE:
        answer = solver(two_epochs(), REQUEST)
        assert answer.objective == pytest.approx(4.05 * 3600)
        assert answer.bound == pytest.approx(4.05 * 3600)
    for solver in MIXED:
        answer = solver(two_epochs("mixed"), REQUEST)
        assert answer.solution is not None
        assert answer.objective == pytest.approx(3.40684 * 3600, rel=1e-5)
        first, second = answer.solution.branches["a"]
        assert (first.widths.tolist(), second.widths.tolist()) == ([1.0, 1.0], [2.0, 1.0])
        assert second.fraction == pytest.approx(0.44677, rel=1e-4)
        # 1.43957 h less for 0.12087 GPUs more.
        (certificate,) = answer.certificates
        assert certificate.multipliers["budget"] == pytest.approx(3600 * 1.43957 / 0.12087, rel=1e-3)


def test_the_mixed_optimum_is_the_top_of_the_dual_function() -> None:
    """Golden-section search over the multiplier, with the evaluator's own bound, finds the same figure."""
    instance = two_epochs("mixed")
    low, high, ratio = 0.0, 1e6, (5**0.5 - 1) / 2
    for _ in range(120):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if dual_bound(instance, {"budget": left}) < dual_bound(instance, {"budget": right}):
            low = left
        else:
            high = right
    top = dual_bound(instance, {"budget": (low + high) / 2})
    assert solve_highs(instance, REQUEST).objective == pytest.approx(top, rel=1e-9)


@pytest.mark.parametrize("solver", PURE)
def test_a_plan_exactly_at_the_budget_is_found(solver: Solver) -> None:
    """With the budget that 2 GPUs, then 1, need, computed otherwise than the engines do, this plan is the answer."""
    budget = 1.05 + 0.1 + 2 * 3 / 2**0.99
    answer = solver(two_epochs(budget=f"{budget!r}gpu"), REQUEST)
    assert answer.solution is not None
    assert answer.solution.branches["a"][0].widths.tolist() == [2.0, 1.0]


@pytest.mark.parametrize("solver", PURE)
def test_infeasible_is_an_answer(solver: Solver) -> None:
    """Below 4.05 GPUs each engine gives the reason and the least budget."""
    answer = solver(two_epochs(budget="4gpu"), REQUEST)
    assert answer.status is Status.INFEASIBLE
    assert answer.solution is None
    assert answer.infeasibility is not None
    assert "is 4.05 GPUs (a 4.05); the budget is 4" in answer.infeasibility.reason


@pytest.mark.parametrize("solver", [*MIXED, solve_cp_sat])
def test_no_time_leaves_a_bound_and_no_zeros(solver: Solver) -> None:
    """Without an incumbent solution and objective are None, and a bound that is proven is still there."""
    instance = two_epochs(policy="pure" if solver is solve_cp_sat else "mixed")
    answer = solver(instance, SolveRequest(stopwatch=Stopwatch(limit_s=1e-9)))
    assert (answer.status, answer.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert (answer.solution, answer.objective) == (None, None)
    # With eight GPUs in both epochs a job takes 3 / 8^0.99 + 1 / 8^0.05 + 0.05 h; nothing is faster.
    assert answer.bound is not None
    assert 0 <= answer.bound <= (3 / 8**0.99 + 1 / 8**0.05 + 0.05) * 3600 * (1 + 1e-9)


def test_without_a_bound_of_the_engine_that_of_price_zero_is_given() -> None:
    """HiGHS stopped before it had a bound: the fastest plan of all bounds every plan, with a certificate."""
    answer = solve_highs(two_epochs(), SolveRequest(stopwatch=Stopwatch(limit_s=1e-9)))
    assert answer.bound_proof is BoundProof.LAGRANGIAN
    assert answer.bound == pytest.approx((3 / 8**0.99 + 1 / 8**0.05 + 0.05) * 3600)
    assert answer.certificates[0].multipliers == {"budget": 0.0}


@pytest.mark.parametrize("solver", PURE)
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_of_size_and_rate_do_not_matter(solver: Solver, factor: float) -> None:
    """Jobs a million times as long that come a million times as seldom take a million times as long."""
    first = two_epochs(budget="5gpu")
    job_class = first.classes["a"].replace(
        arrival_rate_per_hour=1.0 / factor, epoch_size_gpu_hours=[3.0 * factor, factor], rescale_s=180.0 * factor
    )
    second = solver(first.replace(classes={"a": job_class}), REQUEST)
    assert second.objective == pytest.approx(factor * (solver(first, REQUEST).objective or 0.0), rel=1e-9)
    gap = relative_gap(second.objective, second.bound)
    assert gap is not None
    assert gap <= 1e-9


def test_the_order_and_names_of_classes_do_not_matter() -> None:
    """Two classes the other way round, with other names, have the same optimum."""
    job_class = two_epochs().classes["a"]
    other = job_class.replace(arrival_rate_per_hour=0.5, weight=3.0)
    first = two_epochs(budget="9gpu").replace(classes={"a": job_class, "b": other})
    second = first.replace(classes={"z": other, "c": job_class})
    for solver in PURE:
        expected = solver(first, REQUEST).objective
        assert solver(second, REQUEST).objective == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("policy", ["pure", "mixed"])
def test_the_written_model_has_the_optimum_in_seconds(policy: str, tmp_path: Path) -> None:
    """HiGHS reads the text and finds the mean completion time; columns name class, epoch and width."""
    path = tmp_path / "model.lp"
    text = optplan.model(two_epochs(policy)).write("lp")
    path.write_text(text, encoding="utf-8")
    engine = highspy.Highs()
    engine.setOptionValue("output_flag", False)
    engine.readModel(str(path))
    engine.run()
    expected = solve_highs(two_epochs(policy), REQUEST).objective
    assert engine.getInfo().objective_function_value == pytest.approx(expected, rel=1e-6)
    assert "x_a_2_gpu_8_" in text


def test_an_engine_that_contradicts_the_least_budget_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a plan exists, an engine that finds the problem infeasible has failed."""

    def refuse(*_: object) -> ProgramOutcome:
        return ProgramOutcome(Status.INFEASIBLE, Termination.COMPLETED, engine="HiGHS")

    monkeypatch.setattr("optplan.solvers.programs.highs.run_highs", refuse)
    with pytest.raises(EngineError, match="although there is one"):
        solve_highs(two_epochs(), REQUEST)


def test_enumeration_refuses_what_it_cannot_finish() -> None:
    """Eight widths in ten epochs make 8^10 plans, about a billion."""
    job_class = (
        two_epochs()
        .classes["a"]
        .replace(epoch_size_gpu_hours=np.ones(10), speedup={"gpu": {"form": "power", "exponent": 0.5}})
    )
    with pytest.raises(UnsupportedError, match=r"this problem has 1\.07e\+09"):
        solve_enumeration(two_epochs(budget="99gpu").replace(classes={"a": job_class}), REQUEST)


@pytest.mark.parametrize("solver", PURE)
def test_a_budget_is_needed(solver: Solver) -> None:
    """Without one the call is wrong, and the message says how to give one."""
    with pytest.raises(UsageError, match="has no budget; give one"):
        solver(two_epochs().replace(budget=None), REQUEST)


@pytest.mark.parametrize("problem", ["whole", "rescaling"])
@pytest.mark.parametrize("policy", ["pure", "mixed"])
@pytest.mark.parametrize("solver", ["layered-paths", "highs"])
def test_a_budget_short_by_rounding_is_the_least_one(problem: str, policy: str, solver: str) -> None:
    """Half of the tolerance below the least budget is feasible for every solver, and the proof holds."""
    instance = optplan.read_instance("boa-two-classes").replace(problem=problem, policy=policy)
    assert isinstance(instance, BoaInstance)
    least_gpus, _ = least_budget(instance)
    result = optplan.solve(instance.replace(budget=Amount(least_gpus * (1 - 5e-10), BudgetUnit.GPU)), solver=solver)
    assert result.status is Status.OPTIMAL


def test_a_written_model_with_types_names_them() -> None:
    """Nodes are called by type and width, quotas are rows."""
    text = optplan.model(one_epoch_two_types("pure", a100=0.125)).write("lp")
    assert [name for name in ("x_a_1_t4_1_", "x_a_1_a100_1_", "budget:", "quota_a100_:") if name not in text] == []
