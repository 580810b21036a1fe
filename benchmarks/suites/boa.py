"""The BOA suite: the paper's trace at thirteen budgets, whole frontiers, and how time grows with size."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from functools import partial

from optplan.errors import DataWarning
from optplan.formulations.boa.data.instance import BoaInstance, Problem
from optplan.instances.files import read_instance
from optplan.instances.generators import random_boa
from optplan.lab.benchmarks.best_known import Row, measure_solve
from optplan.solving import frontier, solve
from optplan.units import Amount, BudgetUnit
from suites.rows import timed

#: Budgets, in GPUs, at which the paper's trace is solved.
BUDGETS_GPUS = (80, 85, 90, 95, 100, 110, 120, 140, 160, 180, 200, 250, 300)
_QUICK_BUDGETS_GPUS = (80, 120, 300)
#: The one budget at which the slow rivals run by default.
SHOWN_BUDGET_GPUS = 120
#: Seconds that a general engine may take on one budget.
ENGINE_LIMIT_S = 60.0
#: Seed of every generated instance.
SEED = 1
#: How often a look-up is repeated to time it.
_LOOK_UPS = 1000


def run(*, quick: bool, full: bool) -> Iterator[Row]:
    """Measure every row of the suite.

    Quick takes small sizes, three budgets and no slow rival; full takes slow rivals at every budget.
    """
    solve(read_instance("boa-two-classes", BoaInstance))  # loads every module, so that no row pays for imports
    yield from _trace_rows(
        read_instance("boa-newtrace", BoaInstance), _QUICK_BUDGETS_GPUS if quick else BUDGETS_GPUS, full=full
    )
    yield from _trace_rows(read_instance("boa-newtrace-tables", BoaInstance), (SHOWN_BUDGET_GPUS,), full=full)
    if not quick and not full:
        yield from _slow_rivals(_with_budget(read_instance("boa-newtrace", BoaInstance), SHOWN_BUDGET_GPUS))
    yield measure_frontier(read_instance("boa-newtrace", BoaInstance), "boa-newtrace")
    yield from _growth_rows(quick=quick)
    # The largest last: memory that they leave behind would count for the rows after them.
    yield from _large_rows(quick=quick)
    for noise in (0.0, 0.02):
        yield from _continuous_rows(20 if quick else 1000, 100 if quick else 1000, widths=64, noise=noise)


def _trace_rows(trace: BoaInstance, budgets_gpus: tuple[int, ...], *, full: bool) -> Iterator[Row]:
    for gpus in budgets_gpus:
        instance = _with_budget(trace, gpus)
        exact = measure_solve(instance, name_with_budget(instance), "layered-paths")
        yield exact
        for rival in ("published-algorithm1", "fixed-width"):
            yield compare_rows(measure_solve(instance, name_with_budget(instance), rival), exact)
        if full:
            yield from _slow_rivals(instance)


def _slow_rivals(instance: BoaInstance) -> Iterator[Row]:
    """Measure HiGHS beside the exact solver in the same minute."""
    exact = measure_solve(instance, name_with_budget(instance), "layered-paths")
    highs = measure_solve(instance, name_with_budget(instance), "highs", time_limit_s=ENGINE_LIMIT_S)
    yield compare_rows(highs, exact)


def _with_budget(instance: BoaInstance, gpus: float) -> BoaInstance:
    return instance.replace(budget=Amount(float(gpus), BudgetUnit.GPU))


def name_with_budget(instance: BoaInstance) -> str:
    """Name an instance with its budget, as rows do."""
    return f"{instance.name}@{instance.budget_amount():g}"


def compare_rows(row: Row, exact: Row) -> Row:
    """Add how a rival compares with the exact solver: its objective and its time, as factors."""
    extra = dict(row.extra)
    if row.objective is not None and exact.objective:
        extra["objective_over_exact"] = row.objective / exact.objective
    extra["seconds_over_exact"] = row.seconds / exact.seconds
    return Row(**{**vars(row), "extra": extra})


def measure_frontier(instance: BoaInstance, label: str) -> Row:
    """Make the whole frontier and time look-ups both ways."""
    line, seconds, peak = timed(partial(frontier, instance))
    middle = float(line.budgets[0] + line.budgets[-1]) / 2
    # Where the frontier is no list of breakpoints, every query is a solve.
    look_ups = _LOOK_UPS if line.exact_between else 1
    start = time.perf_counter()
    for _ in range(look_ups):
        point = line.at(middle)
    at_ms = 1000 * (time.perf_counter() - start) / look_ups
    start = time.perf_counter()
    for _ in range(look_ups):
        line.budget_for(point.objective)
    inverse_ms = 1000 * (time.perf_counter() - start) / look_ups
    return Row(
        instance=f"{label}@frontier",
        solver="frontier",
        status="optimal",
        gap=0.0,
        bound_proof="lagrangian",
        seconds=seconds,
        peak_mb=peak,
        extra={"points": float(line.budgets.size), "look_up_ms": at_ms, "inverse_look_up_ms": inverse_ms},
    )


def _continuous_rows(classes: int, epochs: int, *, widths: int, noise: float) -> Iterator[Row]:
    """Problem (a) with a table of its own for every (class, epoch): one budget, then the whole frontier."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # that noisy tables enter by their hulls is the point here
        instance = random_boa(
            classes=classes, epochs=epochs, widths=widths, seed=SEED, noise=noise, problem=Problem.CONTINUOUS
        )
    name = f"random-boa-continuous-{classes * epochs}x{widths}" + ("-noisy" if noise else "")
    size: dict[str, float | str] = {"pairs": float(classes * epochs), "seed": float(SEED), "noise": noise}
    yield measure_solve(instance, f"{name}@{instance.budget_amount():g}", "layered-paths", extra=size)
    yield measure_frontier(instance, name)


def _large_rows(*, quick: bool) -> Iterator[Row]:
    classes, epochs, widths = (50, 20, 32) if quick else (1000, 100, 128)
    instance = random_boa(classes=classes, epochs=epochs, widths=widths, seed=SEED)
    yield measure_solve(instance, name_with_budget(instance), "layered-paths", extra={"seed": float(SEED)})


def _growth_rows(*, quick: bool) -> Iterator[Row]:
    """Double one dimension at a time from a middle instance, to show how the time grows."""
    base = (4, 8, 16) if quick else (32, 32, 32)
    for dimension, name in enumerate(("classes", "epochs", "widths")):
        for factor in (1, 2, 4) if quick else (1, 2, 4, 8):
            sizes = list(base)
            sizes[dimension] *= factor
            instance = random_boa(classes=sizes[0], epochs=sizes[1], widths=sizes[2], seed=SEED)
            extra: dict[str, float | str] = {"grows": name, "factor": float(factor), "seed": float(SEED)}
            yield measure_solve(instance, name_with_budget(instance), "layered-paths", extra=extra)
