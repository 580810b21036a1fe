"""BOA's instances with known optima: hand figures, and tiny ones whose every plan is looked at here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_diag

from optplan.contracts import PathCosts
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.formulations.boa.judge.duality import path_costs
from optplan.instances.generators import random_boa
from optplan.instances.library import build_named
from optplan.schema import FloatArray
from optplan.speedup import PowerSpeedup, TableSpeedup
from optplan.units import Amount, BudgetUnit

from .known_optima import Case


def boa_cases() -> Iterator[Case]:
    """Yield BOA's cases: hand figures, and tiny instances whose every plan is looked at here."""
    one, two = _named("boa-one-table"), _named("boa-two-epochs")
    yield Case("one-table", one, 2250.0)  # 1 / 1.6 h on two GPUs
    yield Case("two-epochs", two, 14580.0)  # (1, 1): 3 + 1 + 0.05 h
    # The points (GPUs, seconds) of the table are (1, 3600), (1.25, 2250), (2, 1800): at 1.1 GPUs 3600 - 0.1 * 5400, at
    # 1.5 GPUs 2250 - 0.25 * 600, and from 2 GPUs on 1800.
    for gpus, optimum in ((1.0, 3600.0), (1.1, 3060.0), (1.5, 2100.0), (2.0, 1800.0), (50.0, 1800.0)):
        for problem, policy in ((Problem.CONTINUOUS, Policy.PURE), (Problem.WHOLE, Policy.MIXED)):
            yield Case(f"one-table-{problem}-{gpus:g}", _with(one, gpus, problem=problem, policy=policy), optimum)
    for gpus, optimum in ((1.0, 3600.0), (1.1, 3600.0), (1.5, 2250.0), (50.0, 1800.0)):
        yield Case(f"one-table-pure-{gpus:g}", _with(one, gpus), optimum)
    # s(k) = k^0.5 and a job of one GPU-hour an hour: k / k^0.5 = b, so the time is 1 / b; 1800 s for two GPUs.
    yield Case("square-root", _square_root(2.0), 1800.0)
    yield Case("square-root-widest", _square_root(9.0), 450.0)  # at most 64 GPUs: 1 / 8 h
    yield Case("one-table-infeasible", _with(one, 0.99), None)
    yield Case("two-epochs-infeasible", _with(two, 4.04), None)
    yield Case("two-epochs-infeasible-mixed", _with(two, 4.04, policy=Policy.MIXED), None)
    yield Case("square-root-infeasible", _square_root(0.9), None)
    for seed, (problem, policy) in enumerate(itertools.product(Problem, Policy)):
        if (problem, policy) != (Problem.CONTINUOUS, Policy.MIXED):
            instance = random_boa(classes=2, epochs=3, widths=3, seed=seed, noise=0.0, problem=problem, policy=policy)
            yield Case(f"random-{problem}-{policy}", instance, _look_at_every_plan(instance))
    for scale in (1e-6, 1e6):
        for policy in Policy:
            instance = _scaled(random_boa(classes=2, epochs=3, widths=3, seed=8, policy=policy), scale)
            yield Case(f"scaled-{scale:g}-{policy}", instance, _look_at_every_plan(instance))
    # Tables that fall and that are convex: widths off the hull can be optimal.
    for problem, policy in itertools.product((Problem.WHOLE, Problem.RESCALING), Policy):
        instance = _odd_tables(problem, policy)
        yield Case(f"odd-tables-{problem}-{policy}", instance, _look_at_every_plan(instance))
    for name, changes in TYPED.items():
        for problem, policy in itertools.product((Problem.WHOLE, Problem.RESCALING), Policy):
            instance = make_typed(changes | {"problem": problem.value, "policy": policy.value})
            yield Case(f"{name}-{problem}-{policy}", instance, _look_at_every_plan(instance))
        instance = make_typed(changes | {"problem": "continuous", "policy": "mixed"})
        yield Case(f"{name}-continuous", instance, _look_at_every_plan(instance))
    yield from _limited_cases(one)
    yield Case("square-roots", _square_roots(), 1800.0)
    for name, changes in TYPED_INFEASIBLE.items():
        for policy in Policy:
            yield Case(f"{name}-{policy}", make_typed(changes | {"policy": policy.value}), None)


def _limited_cases(one: BoaInstance) -> Iterator[Case]:
    """Yield cases of whole nodes, of due dates, of floors, and of a limit on the GPUs at once with room to spare."""
    for problem, policy in itertools.product((Problem.WHOLE, Problem.RESCALING), Policy):
        asked = {"problem": problem.value, "policy": policy.value}
        instance = make_typed(WHOLE_NODES | asked)
        yield Case(f"whole-nodes-{problem}-{policy}", instance, _look_at_every_plan(instance))
        instance = _due(asked)
        yield Case(f"due-dates-{problem}-{policy}", instance, _look_at_every_plan(instance))
        instance = _floored(asked)
        yield Case(f"floors-{problem}-{policy}", instance, _look_at_every_plan(instance))
    # With room for a thousand GPUs at once the plan is that without the limit.
    room = {"most_gpus": {"gpus": 1000, "probability": 0.5}}
    for name, changes in (TYPED | {"whole-nodes": WHOLE_NODES}).items():
        instance = make_typed(changes | room)
        yield Case(f"{name}-most-gpus", instance, _look_at_every_plan(instance))
    yield Case("due-dates-most-gpus", _due(room), _look_at_every_plan(_due(room)))
    yield Case("floors-most-gpus", _floored(room), _look_at_every_plan(_floored(room)))
    yield Case("one-table-most-gpus", one.replace(**room), 2250.0)
    yield Case("one-table-most-gpus-infeasible", _with(one, 0.99, **room), None)
    # At the price on demand nothing is worth committing, and the plan is that without commitments.
    for name, changes in (TYPED | {"whole-nodes": WHOLE_NODES}).items():
        instance = _commit(make_typed(changes))
        yield Case(f"{name}-commitments", instance, _look_at_every_plan(instance))
    yield Case("due-dates-commitments", _commit(_due({})), _look_at_every_plan(_due({})))
    yield Case("floors-commitments", _commit(_floored({})), _look_at_every_plan(_floored({})))
    yield Case("one-table-commitments", _commit(one), 2250.0)
    yield Case("one-table-commitments-infeasible", _commit(_with(one, 0.99)), None)


def _commit(instance: BoaInstance) -> BoaInstance:
    """Let GPUs of all types be committed at the price on demand."""
    term = {"commitments": {"1-year": {"discount": 0.0}}}
    return instance.replace(gpu_types={name: kind.replace(**term) for name, kind in instance.gpu_types.items()})


def _due(changes: dict[str, Any]) -> BoaInstance:
    """Have the jobs of one class end within two hours on average, which costs the other class time."""
    instance = make_typed(changes)
    bert = instance.classes["bert"].replace(most_mean_jct_s=7200.0)
    return instance.replace(classes=dict(instance.classes) | {"bert": bert})


def _floored(changes: dict[str, Any]) -> BoaInstance:
    """Have the jobs of one class run on more GPUs on average than is best for all."""
    instance = make_typed(changes)
    bert = instance.classes["bert"].replace(least_mean_gpus=3.2)
    return instance.replace(classes=dict(instance.classes) | {"bert": bert})


T4: dict[str, Any] = {"price_usd_per_hour": 0.5}
A100: dict[str, Any] = {"price_usd_per_hour": 3.0}
SPOT: dict[str, Any] = {"interruptions_per_gpu_hour": 0.1, "restart_s": 120.0, "lost_work_s": 300.0}
#: What every set of features is tried on: changes of the instance in :func:`_typed`.
TYPED: dict[str, dict[str, Any]] = {
    "types": {},
    "types-of-gpus": {"gpu_types": {"t4": {}, "a100": {}}, "budget": "5gpu"},
    "spot": {"gpu_types": {"t4": T4 | {"spot": SPOT}, "a100": A100 | {"spot": SPOT | {"restart_billed": False}}}},
    "quotas": {
        "gpu_types": {"t4": T4 | {"quota_gpus": 3.5}, "a100": A100 | {"quota_gpus": 1.5}},
        "budget": "7usd/hour",
    },
    "one-quota": {"gpu_types": {"t4": T4 | {"quota_gpus": 6.5}}, "only": "t4", "budget": "8gpu"},
    "type-changes": {"type_change_s": 300.0, "type_change_s_from": {"a100": {"t4": 30.0}}},
    "quotas-type-changes": {
        "gpu_types": {"t4": T4 | {"spot": SPOT, "quota_gpus": 4.5}, "a100": A100 | {"quota_gpus": 1.5}},
        "type_change_s": 300.0,
        "type_change_s_from": {"a100": {"t4": 30.0}},
        "budget": "150usd/day",
    },
}
WHOLE_NODES: dict[str, Any] = {
    "gpu_types": {"t4": T4 | {"gpus_per_node": 2}, "a100": A100 | {"gpus_per_node": 4}},
    "whole_nodes": True,
    "budget": "20usd/hour",
}
#: The load is 6 GPUs of one kind; an A100 does the work of about 4.
TYPED_INFEASIBLE: dict[str, dict[str, Any]] = {
    "types-infeasible": {"budget": "1500usd/month"},
    "one-quota-infeasible": {"gpu_types": {"t4": T4 | {"quota_gpus": 5.0}}, "only": "t4", "budget": "8gpu"},
    "quotas-infeasible": {
        "gpu_types": {"t4": T4 | {"quota_gpus": 3.0}, "a100": A100 | {"quota_gpus": 0.5}},
        "budget": "20usd/hour",
    },
    "quotas-and-budget-infeasible": {
        "gpu_types": {"t4": T4 | {"quota_gpus": 3.0}, "a100": A100 | {"quota_gpus": 0.8}},
        "type_change_s": 300.0,
        "budget": "3.5usd/hour",
    },
}


def make_typed(changes: dict[str, Any]) -> BoaInstance:
    """Make two classes that run on T4 and on A100, of 2 epochs each, with some fields changed.

    Changes of ``type_change_s`` and ``type_change_s_from`` are made in all classes; ``only`` keeps one type.
    """
    gpu_types = changes.get("gpu_types", {"t4": T4, "a100": A100})
    bert: dict[str, Any] = {
        "arrival_rate_per_hour": 1.0,
        "epoch_size_gpu_hours": [2.0, 2.0],
        "speedup": {
            "t4": {"form": "table", "gpus": [1, 2, 4], "speedup": [[1.0, 1.9, 3.4], [1.0, 1.6, 2.2]]},
            "a100": {"form": "table", "gpus": [1, 2], "speedup": [[3.5, 6.0], [4.5, 8.5]]},
        },
        "rescale_s": 120.0,
        "rescale_s_on": {name: 180.0 for name in gpu_types if name == "a100"},
    }
    yolo = bert | {"epoch_size_gpu_hours": [0.5, 0.5], "arrival_rate_per_hour": 2.0, "weight": 2.0}
    classes = {"bert": bert, "yolo": yolo}
    extra = {field: changes[field] for field in ("type_change_s", "type_change_s_from") if field in changes}
    for name, job_class in classes.items():
        speedup = {key: curve for key, curve in job_class["speedup"].items() if key in gpu_types}
        classes[name] = job_class | extra | {"speedup": speedup}
    top = {field: value for field, value in changes.items() if field not in {*extra, "gpu_types", "only"}}
    return BoaInstance.parse(
        {"formulation": "boa", "classes": classes, "gpu_types": gpu_types, "budget": "4.5usd/hour"} | top
    )


def _named(name: str) -> BoaInstance:
    instance = build_named(name)
    assert isinstance(instance, BoaInstance)
    return instance


def _with(instance: BoaInstance, gpus: float, **changes: object) -> BoaInstance:
    return instance.replace(budget=Amount(gpus, BudgetUnit.GPU), **changes)


def _one_class(job_class: JobClass, gpus: float, problem: Problem, policy: Policy) -> BoaInstance:
    return BoaInstance(
        classes={"job": job_class},
        gpu_types={"gpu": GpuType()},
        budget=Amount(gpus, BudgetUnit.GPU),
        problem=problem,
        policy=policy,
    )


def _square_root(gpus: float) -> BoaInstance:
    job_class = JobClass(
        arrival_rate_per_hour=1.0,
        epoch_size_gpu_hours=np.ones(1),
        speedup={"gpu": PowerSpeedup(exponent=np.array(0.5))},
        widths=Widths(max=64),
    )
    return _one_class(job_class, gpus, Problem.CONTINUOUS, Policy.MIXED)


def _square_roots() -> BoaInstance:
    """Make a class with s(k) = k^0.5 on types at 1 and 2 usd per hour, a quota of 1 on the first, a budget of 3.

    A fraction p of the jobs on the first type at k GPUs uses u = p k^0.5 of them and takes p / k^0.5 = p^2 / u hours,
    and likewise the others with v: for given u and v the best p makes that 1 / (u + v). So it is best to use the cheap
    ones up, u = 1, and v = (3 - 1) / 2 of the others: half an hour, at p = 1/2 and 4 GPUs of either type.
    """
    one_type = _square_root(2.0)
    return one_type.replace(
        gpu_types={"cheap": GpuType(price_usd_per_hour=1.0, quota_gpus=1.0), "dear": GpuType(price_usd_per_hour=2.0)},
        classes={
            name: job_class.replace(speedup=dict.fromkeys(("cheap", "dear"), job_class.speedup["gpu"]))
            for name, job_class in one_type.classes.items()
        },
        budget=Amount(3.0, BudgetUnit.USD_PER_HOUR),
    )


def _odd_tables(problem: Problem, policy: Policy) -> BoaInstance:
    job_class = JobClass(
        arrival_rate_per_hour=2.0,
        epoch_size_gpu_hours=np.array([1.0, 2.0, 1.0]),
        speedup={
            "gpu": TableSpeedup(
                gpus=np.array([1, 2, 4, 8]),
                speedup=np.array([[1.0, 1.1, 3.0, 2.9], [1.0, 2.4, 2.5, 6.0], [1.0, 0.9, 1.2, 1.2]]),
            )
        },
        rescale_s=120.0,
    )
    return _one_class(job_class, 10.5, problem, policy)


def _scaled(instance: BoaInstance, scale: float) -> BoaInstance:
    """Return the instance with times in another unit: the same GPUs, other seconds."""
    classes = {
        name: c.replace(
            epoch_size_gpu_hours=c.epoch_size_gpu_hours * scale,
            rescale_s=c.rescale_s * scale,
            arrival_rate_per_hour=c.arrival_rate_per_hour / scale,
        )
        for name, c in instance.classes.items()
    }
    return instance.replace(classes=classes)


def _look_at_every_plan(instance: BoaInstance) -> float:
    """Return the best objective of all plans within the limits; of mixtures, by an LP over all paths.

    The continuous problem with tables is the mixed one: a real width is a fraction of the jobs at each of two widths.
    """
    per_class = [_every_path(costs) for costs in path_costs(instance)]
    limits = np.array(list(instance.limits.values())) * (1 + 1e-9)
    if instance.policy is Policy.MIXED or instance.problem is Problem.CONTINUOUS:
        values, uses = np.concatenate([v for v, _ in per_class]), np.concatenate([u for _, u in per_class])
        one = block_diag([np.ones((1, v.size)) for v, _ in per_class])
        program = linprog(values, A_ub=uses.T, b_ub=limits, A_eq=one, b_eq=np.ones(len(per_class)))
        assert program.status == 0
        return float(program.fun)
    value, use = np.zeros(1), np.zeros((1, limits.size))
    for more_value, more_use in per_class:
        value = (value[:, None] + more_value).ravel()
        use = (use[:, None] + more_use).reshape(-1, limits.size)
    return float(value[(use <= limits).all(axis=1)].min())


def _every_path(costs: PathCosts) -> tuple[FloatArray, FloatArray]:
    """Return value (N,) and consumptions (N, L) of every path of a graph."""
    values, uses = [], []
    for path in itertools.product(range(len(costs.labels)), repeat=len(costs.run_value)):
        value, use = 0.0, np.zeros(len(costs.limits))
        for layer, node in enumerate(path):
            value += costs.run_value[layer, node]
            use += costs.run_consumption[:, layer, node]
            left = path[max(0, layer - 1)]
            if layer == 0 or node != left:
                value += costs.enter_value[costs.group[left], layer, node]
                use += costs.enter_consumption[:, costs.group[left], layer, node]
        values.append(value)
        uses.append(use)
    return np.array(values), np.array(uses)
