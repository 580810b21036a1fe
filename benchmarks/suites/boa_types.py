"""The suite of BOA beyond one type and one limit: types, quotas, due dates, floors, and what decides by re-solving."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterator
from functools import partial

from optplan.errors import DataWarning
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem
from optplan.instances.files import read_instance
from optplan.lab.benchmarks.best_known import Row, measure_solve
from optplan.solving import analyse_sensitivity, explain, solve
from optplan.units import Amount, BudgetUnit
from suites.boa import ENGINE_LIMIT_S, compare_rows, measure_frontier, name_with_budget
from suites.rows import timed

#: Budgets, in US dollars an hour, at which the instances of several types are solved.
_BUDGETS_USD = {
    "boa-newtrace-types": (40, 45, 60, 90),
    "boa-newtrace-quotas": (45, 90, 75, 110),
    "boa-gavel": (75, 90),
}
#: Seconds that a change of GPU type takes more: the paper's cold start less its warm one (5.4).
_TYPE_CHANGE_S = 100.0
#: What classes are promised, by field: what it is called, and by instance and budget what is kept there:
#: seconds until a job is complete, or GPUs.
_PROMISES: dict[str, tuple[str, tuple[tuple[str, str, dict[str, float]], ...]]] = {
    "most_mean_jct_s": (
        "due",
        (
            ("boa-newtrace", "100gpu", {"bert": 1500.0}),
            ("boa-newtrace", "120gpu", {"bert": 1300.0, "imagenet": 20000.0, "yolov3": 8000.0}),
            ("boa-newtrace-types", "60usd/hour", {"imagenet": 13000.0}),
        ),
    ),
    "least_mean_gpus": (
        "floors",
        (
            ("boa-newtrace", "100gpu", {"bert": 22.0, "imagenet": 30.0}),
            ("boa-newtrace-types", "60usd/hour", {"imagenet": 20.0}),
        ),
    ),
}
#: Made-up instances of many types with a quota each: types, classes, seeds, and seconds for a solve.
_MANY_TYPES = ((6, 5, (1, 2), 20.0), (8, 5, (1, 2, 3, 7, 23), 30.0), (12, 5, (1, 2), 60.0), (3, 50, (1, 2), 30.0))
_EPOCHS, _WIDTHS = 20, 16
_SAMPLES = 200
#: Seconds for each re-solve of an explanation.
_RESOLVE_LIMIT_S = 1.0


def run(*, quick: bool, full: bool) -> Iterator[Row]:
    """Measure every row of the suite.

    Quick takes one budget for each instance, no slow rival and no re-solving with quotas; full takes slow rivals at
    every budget.
    """
    solve(read_instance("boa-two-classes", BoaInstance))  # loads every module, so that no row pays for imports
    for name, budgets_usd in _BUDGETS_USD.items():
        trace = read_instance(name, BoaInstance)
        for position, usd in enumerate(budgets_usd[:1] if quick else budgets_usd):
            instance = trace.replace(budget=Amount(float(usd), BudgetUnit.USD_PER_HOUR))
            yield from _budget_rows(instance, slow=full or (position == 1 and not quick))
        yield measure_frontier(trace, name)
    changing = _with_type_changes(read_instance("boa-newtrace-types", BoaInstance))
    yield from _budget_rows(changing, slow=not quick)
    for field, (word, kept) in _PROMISES.items():
        for position, (name, budget, limits) in enumerate(kept[:1] if quick else kept):
            promised = _promise(read_instance(name, BoaInstance), budget, field, word, limits)
            yield from _budget_rows(promised, slow=full or (position == 0 and not quick))
    for types, classes, seeds, limit_s in _MANY_TYPES[:1] if quick else _MANY_TYPES:
        for seed in seeds[:1] if quick else seeds:
            instance = make_many_types(types, classes, seed)
            yield measure_solve(instance, name_with_budget(instance), "auto", time_limit_s=limit_s)
    yield from _continuous_rows(read_instance("boa-newtrace-types", BoaInstance))
    yield from _continuous_rows(read_instance("boa-newtrace-quotas", BoaInstance))
    yield from _decision_rows(read_instance("boa-newtrace", BoaInstance), samples=20 if quick else _SAMPLES)
    if not quick:
        yield from _decision_rows(read_instance("boa-newtrace-quotas", BoaInstance), samples=_SAMPLES)


def make_many_types(types: int, classes: int, seed: int) -> BoaInstance:
    """Make up classes that all run on all of some GPU types, each type but the slowest with a quota that binds.

    Faster types cost about what they are worth. Sizes are log-normal, speedups fall off with the width, less so in
    later epochs, and all quotas together hold half of the load. Pure plans are asked for, at three quarters of the
    dollars that the load takes on the slowest type.
    """
    draw = random.Random(seed)
    speeds = [1.0, *sorted(draw.uniform(1.2, 6.0) for _ in range(types - 1))]
    prices = [0.5 * speed ** draw.uniform(0.8, 1.1) for speed in speeds]
    made, load = {}, 0.0
    for number in range(classes):
        size = math.exp(draw.gauss(0.0, 1.5))
        rate = 20.0 / classes / size * draw.uniform(0.5, 1.5)
        sizes = [size / _EPOCHS * draw.uniform(0.97, 1.03) for _ in range(_EPOCHS)]
        load += rate * sum(sizes)
        made[f"c{number}"] = {
            "arrival_rate_per_hour": rate,
            "epoch_size_gpu_hours": sizes,
            "speedup": {f"t{place}": _draw_table(draw, place, speed) for place, speed in enumerate(speeds)},
            "rescale_s": draw.uniform(15.0, 250.0),
            "weight": 1.0,
        }
    kinds: dict[str, dict[str, float | str]] = {
        f"t{place}": {"price_usd_per_hour": round(price, 4), "price_source": "made up"}
        for place, price in enumerate(prices)
    }
    for place, speed in enumerate(speeds[1:], start=1):
        kinds[f"t{place}"]["quota_gpus"] = max(0.5, round(0.5 * load / speed / (types - 1), 2))
    name = f"{types}-types-{classes}-classes-{seed}"
    fields = {"name": name, "formulation": "boa", "classes": made, "gpu_types": kinds, "policy": "pure"}
    return BoaInstance.parse(fields | {"problem": "rescaling", "budget": f"{0.75 * load:.4f}usd/hour"})


def _draw_table(draw: random.Random, place: int, speed: float) -> dict[str, object]:
    """Draw what a class gains by GPUs of a type, by epoch and width; one of the slowest type is the unit."""
    own, falls = speed ** draw.uniform(0.5, 1.2), draw.uniform(0.6, 0.95)
    rows = []
    for epoch in range(_EPOCHS):
        exponent = falls - 0.15 * (1.0 - epoch / _EPOCHS)
        row = []
        for width in range(1, _WIDTHS + 1):
            is_unit = place == 0 and width == 1
            row.append(1.0 if is_unit else own * width**exponent * draw.uniform(0.98, 1.02))
        rows.append(row)
    return {"form": "table", "gpus": list(range(1, _WIDTHS + 1)), "speedup": rows}


def _budget_rows(instance: BoaInstance, *, slow: bool) -> Iterator[Row]:
    """Measure pure and mixed plans, and HiGHS on the same two problems where it is asked for."""
    for policy in Policy:
        asked = instance.replace(policy=policy)
        label = f"{name_with_budget(asked)}-{policy.value}"
        exact = measure_solve(asked, label, "auto", time_limit_s=ENGINE_LIMIT_S)
        yield exact
        if slow:
            yield compare_rows(measure_solve(asked, label, "highs", time_limit_s=ENGINE_LIMIT_S), exact)
    if not instance.quotas and exact.solver == "layered-paths":
        pure = instance.replace(policy=Policy.PURE)
        yield measure_solve(pure, f"{name_with_budget(pure)}-pure", "fixed-width")


def _with_type_changes(instance: BoaInstance) -> BoaInstance:
    classes = {name: c.replace(type_change_s=_TYPE_CHANGE_S) for name, c in instance.classes.items()}
    return instance.replace(name=f"{instance.name}-changes", classes=classes)


def _promise(instance: BoaInstance, budget: str, field: str, word: str, limits: dict[str, float]) -> BoaInstance:
    classes = {name: c.replace(**{field: limits.get(name)}) for name, c in instance.classes.items()}
    return instance.replace(name=f"{instance.name}-{len(limits)}-{word}", classes=classes, budget=budget)


def _continuous_rows(instance: BoaInstance) -> Iterator[Row]:
    """Measure problem (7), beside its statement as a convex program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # measured tables enter by their hulls: that is the problem here
        asked = instance.replace(problem=Problem.CONTINUOUS)
    label = f"{name_with_budget(asked)}-continuous"
    exact = measure_solve(asked, label, "auto")
    yield exact
    yield compare_rows(measure_solve(asked, label, "conic", time_limit_s=ENGINE_LIMIT_S), exact)


def _decision_rows(instance: BoaInstance, *, samples: int) -> Iterator[Row]:
    """Measure what re-solving every neighbour takes, and sampling wrong estimates."""
    result = solve(instance)
    label = name_with_budget(instance)
    explanation, seconds, peak = timed(partial(explain, instance, result, time_limit_s=_RESOLVE_LIMIT_S))
    forced = sum(len(choice.alternatives) for choice in explanation.choices)
    told = {"alternatives": float(forced)}
    yield Row(instance=label, solver="explain", status="completed", seconds=seconds, peak_mb=peak, extra={**told})
    act = partial(analyse_sensitivity, instance, result, {"speedup": 0.1}, samples=samples)
    found, seconds, peak = timed(act)
    plan = found.plans[0]
    regret = 0.0 if plan.best_objective is None else float((plan.objective / plan.best_objective).mean()) - 1.0
    told = {"samples": float(samples), "regret": regret}
    name = "explain --wrong"
    yield Row(instance=label, solver=name, status="completed", seconds=seconds, peak_mb=peak, extra={**told})
