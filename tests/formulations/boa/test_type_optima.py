"""Several GPU types: the exact solvers against every plan, and what must hold for any instance."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import block_diag

from optplan.contracts import BoundProof, Result, Solution, Status
from optplan.errors import InfeasibleError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem
from optplan.formulations.boa.exact.feasibility import least_budget
from optplan.formulations.boa.judge.duality import dual_bound
from optplan.schema import FloatArray
from optplan.solving import build_plan, frontier, solve
from optplan.speedup import TableSpeedup
from optplan.units import Amount, BudgetUnit
from optplan.verification import verify

Data = dict[str, Any]


def draw_instance(
    seed: int, *, types: int = 2, epochs: int = 2, looseness: float = 1.5, changes: bool = False, **fields: object
) -> BoaInstance:
    """Draw an instance: 2 classes, up to 3 types with noisy speeds and prices, a budget in money above the least one.

    Parameters
    ----------
    seed
        Of everything random.
    types, epochs
        How many of them.
    looseness
        The budget as a multiple of the least one.
    changes
        Whether leaving a type costs extra.
    fields
        Top-level fields of the instance.
    """
    rng = np.random.default_rng(seed)
    names = ("t4", "v100", "a100")[:types]
    power = {name: 2.0**number for number, name in enumerate(names)}
    gpu_types = {name: {"price_usd_per_hour": 0.5 * power[name] * rng.uniform(0.8, 1.8)} for name in names}
    classes: dict[str, Data] = {}
    for name in ("bert", "yolo"):
        widths = np.array([1, 2, 4])[: int(rng.integers(2, 4))]
        classes[name] = {
            "arrival_rate_per_hour": rng.uniform(0.5, 2.0),
            "epoch_size_gpu_hours": rng.uniform(0.5, 4.0, epochs).tolist(),
            "speedup": {
                gpu_type: {
                    "form": "table",
                    "gpus": widths.tolist(),
                    "speedup": (power[gpu_type] * widths ** rng.uniform(0.3, 1.0, (epochs, 1))).tolist(),
                }
                for gpu_type in names
            },
            "rescale_s": rng.uniform(0.0, 600.0),
            "rescale_s_on": {names[-1]: rng.uniform(0.0, 900.0)},
            "weight": float(rng.choice([1.0, 2.0])),
        }
        if changes:
            classes[name] |= {
                "type_change_s": rng.uniform(0.0, 900.0),
                "type_change_s_from": {names[-1]: {names[0]: rng.uniform(0.0, 100.0)}},
            }
    data = {"formulation": "boa", "classes": classes, "gpu_types": gpu_types, "budget": "1usd/hour"}
    return loosened(BoaInstance.parse(data | fields), looseness)


def loosened(instance: BoaInstance, looseness: float) -> BoaInstance:
    """Return the instance with a multiple of the least budget."""
    return instance.replace(budget=Amount(least_budget(instance)[0] * looseness, instance.budget_unit))


def with_quotas(instance: BoaInstance, tightness: float) -> BoaInstance:
    """Return the instance with quotas of a multiple of what is used without any."""
    used = solve(instance.replace(policy=Policy.MIXED)).measures
    quotas = {name: tightness * used[f"gpus.{name}"] for name in instance.gpu_types}
    return instance.replace(
        gpu_types={
            name: gpu_type.replace(quota_gpus=quotas[name] or None) for name, gpu_type in instance.gpu_types.items()
        }
    )


def every_path(instance: BoaInstance, name: str) -> tuple[FloatArray, FloatArray]:
    """Return value (N,) and consumptions (N, L) of every path of a class, from the data alone."""
    job_class = instance.classes[name]
    pairs = [
        (gpu_type, int(width), np.atleast_2d(curve.speedup)[:, column])
        for gpu_type, curve in job_class.speedup.items()
        if isinstance(curve, TableSpeedup)
        for column, width in enumerate(curve.gpus.tolist())
    ]
    pauses = instance.problem is Problem.RESCALING
    total_weight = sum(c.weight * c.arrival_rate_per_hour for c in instance.classes.values())
    money = instance.budget_unit is BudgetUnit.USD_PER_HOUR
    values, uses = [], []
    for path in itertools.product(pairs, repeat=job_class.num_epochs):
        hours, gpu_hours = 0.0, dict.fromkeys(instance.gpu_types, 0.0)
        for epoch, (gpu_type, width, speeds) in enumerate(path):
            takes = job_class.epoch_size_gpu_hours[epoch] / speeds[min(epoch, len(speeds) - 1)]
            if pauses and (epoch == 0 or path[epoch - 1][:2] != (gpu_type, width)):
                takes += job_class.rescale_s_on.get(gpu_type, job_class.rescale_s) / 3600.0
                left = path[epoch - 1][0] if epoch else gpu_type
                if left != gpu_type:
                    table = job_class.type_change_s_from.get(left, {})
                    takes += table.get(gpu_type, job_class.type_change_s) / 3600.0
            hours += takes
            gpu_hours[gpu_type] += width * takes
        rate = job_class.arrival_rate_per_hour
        values.append(3600.0 * job_class.weight * rate * hours / total_weight)
        prices = {t: (terms.price_usd_per_hour or 1.0) if money else 1.0 for t, terms in instance.gpu_types.items()}
        cost = sum(prices[t] * used for t, used in gpu_hours.items())
        uses.append([rate * cost, *(rate * gpu_hours[t] for t in instance.quotas)])
    return np.array(values), np.array(uses)


def best_of_all(instance: BoaInstance) -> float:
    """Return the best objective of all plans, or of their mixtures by an LP; infinity where there is none."""
    per_class = [every_path(instance, name) for name in instance.classes]
    amounts = np.array(list(instance.limits.values()))
    if instance.policy is Policy.MIXED:
        values, uses = (np.concatenate(parts) for parts in zip(*per_class, strict=True))
        program = linprog(
            values,
            A_ub=(uses / amounts).T,
            b_ub=np.ones(amounts.size),
            A_eq=block_diag([np.ones((1, v.size)) for v, _ in per_class]),
            b_eq=np.ones(len(per_class)),
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        return float(program.fun) if program.status == 0 else math.inf
    value, use = np.zeros(1), np.zeros((1, amounts.size))
    for more_value, more_use in per_class:
        value = (value[:, None] + more_value).ravel()
        use = (use[:, None] + more_use).reshape(-1, amounts.size)
    return float(value[(use <= amounts * (1.0 + 1e-9)).all(axis=1)].min(initial=math.inf))


def require_optimum(instance: BoaInstance, result: Result[Solution]) -> None:
    """Hold a result against the best of all plans, and have the judge look at it."""
    best = best_of_all(instance)
    assert verify(instance, result).failures == ()
    if math.isinf(best):
        assert result.objective is None
        assert result.status is not Status.OPTIMAL
    else:
        assert result.status is Status.OPTIMAL
        assert result.objective == pytest.approx(best, rel=1e-8)
        assert build_plan(instance, result).objective == pytest.approx(best, rel=1e-8)


SEEDS = st.integers(0, 10_000)
LOOSENESS = st.sampled_from([1.0, 1.05, 1.3, 2.0, 10.0])


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("problem", [Problem.WHOLE, Problem.RESCALING])
@pytest.mark.parametrize("epochs", [1, 2])
def test_layered_paths_reach_the_best_of_all_plans(problem: Problem, policy: Policy, epochs: int) -> None:
    """Two classes on two types, at budgets from the least one to plenty; whole plans by looking, mixtures by an LP."""
    proofs = set()
    for seed, looseness in itertools.product(range(5), (1.0, 1.05, 1.3, 2.0)):
        instance = draw_instance(seed, epochs=epochs, looseness=looseness, problem=problem.value, policy=policy.value)
        result = solve(instance, solver="layered-paths", gap=0.0)
        require_optimum(instance, result)
        proofs.add(result.bound_proof)
    assert (BoundProof.ENUMERATED in proofs) == (policy is Policy.PURE)


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("changes", [False, True])
def test_limits_and_changes_reach_the_best_of_all_plans(policy: Policy, changes: bool) -> None:
    """With quotas below what is used without any, and where leaving a type costs extra."""
    for seed, tightness in itertools.product(range(5), (0.6, 0.8, 1.0)):
        instance = draw_instance(seed, looseness=1.6, changes=changes, policy=policy.value)
        instance = with_quotas(instance, tightness)
        require_optimum(instance, solve(instance, gap=0.0))


@settings(max_examples=25)
@given(seed=SEEDS, looseness=LOOSENESS, problem=st.sampled_from(["whole", "rescaling"]), policy=st.sampled_from(Policy))
def test_three_types_reach_the_best_of_all_plans(seed: int, looseness: float, problem: str, policy: Policy) -> None:
    """Whatever is drawn."""
    instance = draw_instance(seed, types=3, looseness=looseness, problem=problem, policy=policy.value)
    require_optimum(instance, solve(instance, gap=0.0))


# What must hold for any instance


def objective(instance: BoaInstance) -> float:
    """Return the optimum, or infinity where there is no plan."""
    found = solve(instance, gap=0.0).objective
    return math.inf if found is None else found


def without(instance: BoaInstance, gpu_type: str) -> BoaInstance:
    """Return the instance without a type."""

    def kept(named: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in named.items() if name != gpu_type}

    classes = {
        name: c.replace(
            speedup=kept(dict(c.speedup)),
            rescale_s_on=kept(dict(c.rescale_s_on)),
            type_change_s_from={left: kept(dict(to)) for left, to in kept(dict(c.type_change_s_from)).items()},
        )
        for name, c in instance.classes.items()
    }
    return instance.replace(classes=classes, gpu_types=kept(dict(instance.gpu_types)))


PROPERTY = settings(max_examples=25)
POLICIES = st.sampled_from(["pure", "mixed"])


@PROPERTY
@given(seed=SEEDS, looseness=LOOSENESS, changes=st.booleans(), policy=POLICIES, left=st.sampled_from(["v100", "a100"]))
def test_one_more_gpu_type_never_hurts(seed: int, looseness: float, changes: bool, policy: str, left: str) -> None:
    """What can be planned without a type can be planned with it."""
    instance = draw_instance(seed, types=3, looseness=looseness, changes=changes, policy=policy)
    assert objective(instance) <= objective(without(instance, left)) * (1 + 1e-9)


@PROPERTY
@given(
    seed=SEEDS,
    tightness=st.floats(0.3, 1.1),
    more=st.floats(1.0, 2.0),
    changes=st.booleans(),
    policy=POLICIES,
    raised=st.sampled_from(["t4", "a100"]),
)
def test_a_higher_cap_never_hurts(
    seed: int, tightness: float, more: float, changes: bool, policy: str, raised: str
) -> None:
    """What keeps a quota keeps a higher one, and none."""
    instance = draw_instance(seed, types=2, looseness=1.6, changes=changes, policy=policy)
    names = list(instance.gpu_types)
    instance = with_quotas(instance, tightness)
    name = names[0] if raised == "t4" else names[-1]
    quota = instance.gpu_types[name].quota_gpus
    assume(quota is not None)
    assert quota is not None
    found = [
        objective(
            instance.replace(
                gpu_types=dict(instance.gpu_types) | {name: instance.gpu_types[name].replace(quota_gpus=cap)}
            )
        )
        for cap in (quota, quota * more, None)
    ]
    assert found[1] <= found[0] * (1 + 1e-9)
    assert found[2] <= found[1] * (1 + 1e-9)


@PROPERTY
@given(
    seed=SEEDS,
    looseness=LOOSENESS,
    policy=POLICIES,
    dearer=st.floats(1.0, 2.0),
    slower=st.floats(0.5, 1.0),
    spot=st.booleans(),
)
def test_a_dominated_type_is_never_needed(
    seed: int, looseness: float, policy: str, dearer: float, slower: float, spot: bool
) -> None:
    """A type that is no cheaper and no faster than another changes nothing; nor does one that is interrupted, too."""
    instance = draw_instance(seed, looseness=looseness, policy=policy)
    data = instance.to_json_data()
    price = data["gpu_types"]["t4"]["price_usd_per_hour"]
    data["gpu_types"]["worse"] = {"price_usd_per_hour": price * dearer}
    if spot:
        data["gpu_types"]["worse"]["spot"] = {"interruptions_per_gpu_hour": 0.05, "restart_s": 600.0}
    for job_class in data["classes"].values():
        curve = job_class["speedup"]["t4"]
        job_class["speedup"]["worse"] = curve | {"speedup": (slower * np.array(curve["speedup"])).tolist()}
    assert objective(BoaInstance.parse(data)) == pytest.approx(objective(instance), rel=1e-9)


@PROPERTY
@given(seed=SEEDS, looseness=LOOSENESS, problem=st.sampled_from(["whole", "rescaling"]), policy=POLICIES)
def test_equal_types_give_the_answer_of_one(seed: int, looseness: float, problem: str, policy: str) -> None:
    """Objective and shadow price; that of one type is counted by the GPU, that of two by the dollar."""
    alone = draw_instance(seed, types=1, looseness=looseness, problem=problem, policy=policy)
    price = alone.gpu_types["t4"].price_usd_per_hour
    assert price is not None
    data = alone.to_json_data() | {"budget": f"{alone.budget_amount() * price!r}usd/hour"}
    alone = BoaInstance.parse(data)
    data["gpu_types"]["twin"] = data["gpu_types"]["t4"]
    for job_class in data["classes"].values():
        job_class["speedup"]["twin"] = job_class["speedup"]["t4"]
        job_class["rescale_s_on"] = dict.fromkeys(("t4", "twin"), job_class["rescale_s_on"]["t4"])
    one, two = (solve(each, gap=0.0) for each in (alone, BoaInstance.parse(data)))
    assert two.objective == pytest.approx(one.objective, rel=1e-9)
    assert one.shadow_prices["budget"].unit == "s of mean JCT per GPU"
    assert two.shadow_prices["budget"].unit == "s of mean JCT per usd/hour"
    for by_gpu, by_dollar in (
        (one.shadow_prices["budget"].more, two.shadow_prices["budget"].more),
        (one.shadow_prices["budget"].less, two.shadow_prices["budget"].less),
    ):
        assert (by_gpu is None) == (by_dollar is None)
        if by_gpu is not None and by_dollar is not None:
            assert by_dollar * price == pytest.approx(by_gpu, rel=1e-6, abs=1e-9 * (one.objective or 0.0))


@PROPERTY
@given(seed=SEEDS, tightness=st.floats(0.5, 1.1), parts=st.floats(0.1, 0.9))
def test_quotas_of_equal_types_add_up(seed: int, tightness: float, parts: float) -> None:
    """A mixed plan may share its jobs out: two equal types with parts of a quota are one with the whole of it."""
    alone = draw_instance(seed, types=1, looseness=1.5, policy="mixed")
    used = solve(alone).measures["gpus"]
    data = alone.to_json_data()
    quota = tightness * used
    data["gpu_types"]["t4"]["quota_gpus"] = quota
    one = BoaInstance.parse(data)
    data["gpu_types"]["t4"]["quota_gpus"] = quota * parts
    data["gpu_types"]["twin"] = data["gpu_types"]["t4"] | {"quota_gpus": quota * (1.0 - parts)}
    for job_class in data["classes"].values():
        job_class["speedup"]["twin"] = job_class["speedup"]["t4"]
        job_class["rescale_s_on"] = dict.fromkeys(("t4", "twin"), job_class["rescale_s_on"]["t4"])
    two = BoaInstance.parse(data)
    assert objective(two) == pytest.approx(objective(one), rel=1e-8)


@PROPERTY
@given(
    seed=SEEDS, looseness=LOOSENESS, changes=st.booleans(), policy=POLICIES, tightness=st.sampled_from([None, 0.7, 1.0])
)
def test_names_and_order_of_types_do_not_matter(
    seed: int, looseness: float, changes: bool, policy: str, tightness: float | None
) -> None:
    """Renaming and reversing types changes objective and bound by rounding only."""
    instance = draw_instance(seed, types=3, looseness=looseness, changes=changes, policy=policy)
    if tightness is not None:
        instance = with_quotas(instance, tightness)

    def turn(named: dict[str, Any]) -> dict[str, Any]:
        return {f"new {name}": value for name, value in reversed(named.items())}

    data = instance.to_json_data()
    data["gpu_types"] = turn(data["gpu_types"])
    for job_class in data["classes"].values():
        for field in ("speedup", "rescale_s_on", "type_change_s_from"):
            job_class[field] = turn(job_class.get(field, {}))
        job_class["type_change_s_from"] = {left: turn(to) for left, to in job_class["type_change_s_from"].items()}
    before, after = (solve(each, gap=0.0) for each in (instance, BoaInstance.parse(data)))
    assert after.status is before.status
    assert (after.objective is None) == (before.objective is None)
    if before.objective is not None:
        assert after.objective == pytest.approx(before.objective, rel=1e-9)
        assert after.bound == pytest.approx(before.bound, rel=1e-8)


@PROPERTY
@given(seed=SEEDS, policy=POLICIES, changes=st.booleans())
def test_budgets_by_the_hour_day_and_month_are_one(seed: int, policy: str, changes: bool) -> None:
    """24 hours a day, 730 hours a month; certificates and prices count dollars per hour in any case."""
    instance = draw_instance(seed, policy=policy, changes=changes)
    per_hour = instance.budget_amount()
    found = [
        solve(instance.replace(budget=Amount(per_hour * hours, unit)), gap=0.0)
        for hours, unit in (
            (1.0, BudgetUnit.USD_PER_HOUR),
            (24.0, BudgetUnit.USD_PER_DAY),
            (730.0, BudgetUnit.USD_PER_MONTH),
        )
    ]
    for other in found[1:]:
        assert other.objective == pytest.approx(found[0].objective, rel=1e-9)
        assert other.bound == pytest.approx(found[0].bound, rel=1e-8)
        assert other.shadow_prices["budget"].unit == found[0].shadow_prices["budget"].unit


@pytest.mark.parametrize("changes", [False, True])
def test_the_frontier_within_quotas_has_all_of_its_breakpoints(changes: bool) -> None:
    """At any budget the look-up is what solving says, with its proof; the inverse leads back; the curve is convex."""
    for seed in range(2):
        instance = with_quotas(draw_instance(seed, changes=changes), 1.1).replace(policy=Policy.MIXED)
        line = frontier(instance)
        assert line.exact_between
        slopes = np.diff(line.objectives) / np.diff(line.budgets)
        assert (slopes < 0.0).all()
        assert (np.diff(slopes) > -1e-6 * abs(slopes[0])).all()
        rng = np.random.default_rng(seed)
        drawn = rng.uniform(line.budgets[0], line.budgets[-1], 2)
        for budget in (line.budgets[len(line.budgets) // 2], line.budgets[0], 1.1 * line.budgets[-1], *drawn):
            point = line.at(float(budget))
            solved = solve(instance.replace(budget=Amount(float(budget), instance.budget_unit)))
            assert point.objective == pytest.approx(solved.objective, rel=1e-9)
            assert point.certificate is not None
            again = instance.replace(budget=Amount(float(budget), instance.budget_unit))
            assert dual_bound(again, dict(point.certificate.multipliers)) == pytest.approx(point.objective, rel=1e-9)
            price = solved.shadow_prices["budget"]
            assert point.shadow_price.more == pytest.approx(price.more, rel=1e-5, abs=1e-9)
        for budget in drawn.tolist():
            assert line.budget_for(line.at(budget).objective).budget == pytest.approx(budget, rel=1e-7)


def test_a_frontier_within_quotas_hears_its_time_limit() -> None:
    """Without any time there are its two ends; queries between them are solved, and come to the same."""
    instance = with_quotas(draw_instance(1), 1.1)
    whole, ends = frontier(instance), frontier(instance, time_limit_s=1e-9)
    assert not ends.exact_between
    assert ends.budgets.tolist() == pytest.approx([whole.budgets[0], whole.budgets[-1]])
    middle = float(ends.budgets.mean())
    assert ends.at(middle).objective == pytest.approx(whole.at(middle).objective, rel=1e-9)
    real = frontier(instance.replace(problem="continuous"), time_limit_s=1e-9)
    assert (len(real.budgets), real.exact_between) == (2, False)
    with pytest.raises(UsageError, match="time_limit_s: got -1; seconds above zero are needed"):
        frontier(instance, time_limit_s=-1)


def test_no_frontier_where_no_budget_helps() -> None:
    """Quotas of all types that no plan keeps are told as such."""
    instance = with_quotas(draw_instance(2), 0.3)
    with pytest.raises(InfeasibleError, match="quota"):
        frontier(instance)
