"""The suite of SEER: how it spends its budget, and every search policy on recorded learning curves (figure 4).

Every policy meets the same seeds: a seed draws the configurations and chooses one of the recorded runs of each. The
accuracy of a search is what validation shows of the trial that it returns.

Informed SEER plans with a prior, and is no oracle: ``seer-informed`` knows the runs of the *other* seeds of the table,
not those that its search will meet, nor which configuration is which; ``seer-misinformed`` knows another table, in
which all learning rates are ten times lower.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import cast

import numpy as np

from optplan.errors import InfeasibleError
from optplan.formulations.seer.data.instance import BudgetCounts, Objective, SeerInstance, SeerSolution
from optplan.formulations.seer.data.prior import TablePrior
from optplan.formulations.seer.data.search_space import Choices
from optplan.lab.benchmarks.best_known import Row, measure_solve, peak_mb, reset_peak
from optplan.parallel import spread
from optplan.schema import FloatArray
from optplan.solving import solve
from suites.bohb import run_bohb
from suites.learning_curves import load_curves, load_scaling
from suites.rivals import run_asha, run_grid, run_hyperband, run_hypersched, run_random, run_seer
from suites.search_clock import SearchOutcome, SearchSetting

CURVES, SCALING = "digits", "resnet18-cifar10"
#: What the misinformed know instead.
OTHER_CURVES = "digits-low-rates"
#: Loss of one of ten classes before training.
_START_LOSS = 0.9
#: Minutes, and GPUs that the budget pays until then: deadlines at 16 GPUs (figure 4a), budgets at 30 min (figure 4b).
GRID = ((15, 16), (30, 16), (60, 16), (30, 8), (30, 32))
_SEEDS, _QUICK_SEEDS = 60, 3
#: As in the paper: one in four goes on, and at most four GPUs a trial; a resize pauses for a quarter of a minute.
_ETA, _MOST_GPUS, _RESIZE_S = 4.0, 4, 15.0
_GPUS_PER_NODE = 8
#: What the others are compared with, seed by seed.
_REFERENCE = "seer"


@dataclass(frozen=True)
class Cell:
    """One deadline and one budget.

    There are the brackets of Algorithm 1, those that spend the budget, the plan for a prior that knows all recorded
    runs but the one met, by that run, and the plan for a prior that knows other curves.
    """

    instance: SeerInstance
    published: SeerSolution
    spent: SeerSolution
    informed: dict[int, SeerSolution]
    misinformed: SeerSolution


def run(*, quick: bool, full: bool) -> Iterator[Row]:
    """Measure every row of the suite.

    Quick takes one deadline and few seeds, in this process; full takes four times as many seeds.
    """
    solve(make_instance(*GRID[0]))  # loads every module, so that no row pays for imports
    seeds = range(_QUICK_SEEDS if quick else _SEEDS * (4 if full else 1))
    for deadline, gpus in GRID[1:2] if quick else GRID:
        instance = make_instance(deadline, gpus)
        for solver in ("published-seer", "auto"):
            yield measure_solve(instance, instance.name, solver)
        for limited in _limit(instance, gpus):
            for solver in ("published-seer", "auto"):
                yield measure_solve(limited, limited.name, solver)
        yield _measure_informed(instance)
        cell = _make_cell(instance, seeds)
        yield from _policy_rows(cell, seeds, processes=1 if quick else os.cpu_count() or 1)


def make_instance(deadline_min: float, gpus: float) -> SeerInstance:
    """Make the instance of one deadline and the budget that pays so many GPUs until then (section 6.5)."""
    return SeerInstance.parse(
        {
            "name": f"seer-{deadline_min:g}min-{gpus:g}x{deadline_min:g}",
            "formulation": "seer",
            "deadline_min": deadline_min,
            "budget": f"{deadline_min * gpus:g}gpu-min",
            "eta": _ETA,
            "most_gpus": _MOST_GPUS,
            "resize_s": _RESIZE_S,
        }
    )


def _limit(instance: SeerInstance, gpus: float) -> Iterator[SeerInstance]:
    """Make the same search on a cluster of as many GPUs as the budget pays all the time, and on whole nodes."""
    nodes = {"gpus_per_node": _GPUS_PER_NODE, "budget_counts": BudgetCounts.NODES}
    yield instance.replace(name=f"{instance.name}@held", most_gpus_held=gpus)
    yield instance.replace(name=f"{instance.name}@nodes", **nodes)
    yield instance.replace(name=f"{instance.name}@held-nodes", most_gpus_held=gpus, **nodes)


def inform(instance: SeerInstance, name: str, *, without: int | None = None) -> SeerInstance:
    """Give an instance curves, but for the seed it must not know, as prior; the objective is the expected loss."""
    curves = _load_once(name)
    known = np.concatenate([curves.of_seed(seed) for seed in curves.seeds if seed != without])
    prior = TablePrior(start_loss=_START_LOSS, accuracies=known, scaling=load_scaling(SCALING))
    # How many configurations there are limits the trials of a plan.
    space = {"configuration": Choices(values=tuple(range(len(_load_once(CURVES).configurations))))}
    return instance.replace(objective=Objective.QUALITY, prior=prior, search_space=space)


def _measure_informed(instance: SeerInstance) -> Row:
    """Measure the choice of an informed plan, and what it gains over the published one in expectation."""
    told = inform(instance, CURVES, without=_load_once(CURVES).seeds[0])
    measures = ("uninformed_loss", "gain_loss", "gain_low_loss", "gain_high_loss")
    unit: dict[str, float | str] = {"objective_unit": told.objective_unit}
    return measure_solve(told, instance.name, "informed", extra=unit, measures=measures)


def _make_cell(instance: SeerInstance, seeds: Sequence[int]) -> Cell:
    def plan(asked: SeerInstance, solver: str = "auto") -> SeerSolution:
        return cast(SeerSolution, solve(asked, solver=solver).solution)

    return Cell(
        instance,
        published=plan(instance, "published-seer"),
        spent=plan(instance),
        informed={run: plan(inform(instance, CURVES, without=run)) for run in {_choose_run(seed) for seed in seeds}},
        misinformed=plan(inform(instance, OTHER_CURVES)),
    )


_load_once = cache(load_curves)
Search = Callable[[SearchSetting, np.random.Generator], SearchOutcome]

#: Every policy, for a cell and the recorded run that is met.
_POLICIES: dict[str, Callable[[Cell, int], Search]] = {
    "seer": lambda cell, _: partial(run_seer, instance=cell.instance, solution=cell.published),
    "seer-spent": lambda cell, _: partial(run_seer, instance=cell.instance, solution=cell.spent),
    "seer-informed": lambda cell, run: partial(run_seer, instance=cell.instance, solution=cell.informed[run]),
    "seer-misinformed": lambda cell, _: partial(run_seer, instance=cell.instance, solution=cell.misinformed),
    "hyperband": lambda *_: partial(run_hyperband, eta=_ETA, most_gpus=_MOST_GPUS),
    "grid": lambda *_: partial(run_grid, most_gpus=_MOST_GPUS),
    "random": lambda *_: run_random,
    "asha": lambda *_: partial(run_asha, eta=_ETA),
    "hypersched": lambda *_: partial(run_hypersched, eta=_ETA),
    "bohb": lambda *_: partial(run_bohb, eta=_ETA, levels=_load_once(CURVES).levels),
}


def list_policies() -> list[str]:
    """List the policies that can run: BOHB needs an extra."""
    return [name for name in _POLICIES if name != "bohb" or find_spec("statsmodels") is not None]


def search_once(cell: Cell, policy: str, seed: int) -> SearchOutcome:
    """Run one policy with one seed, which draws the configurations and the recorded run of each."""
    instance, run_seed = cell.instance, _choose_run(seed)
    setting = SearchSetting(
        values=_load_once(CURVES).of_seed(run_seed),
        scaling=load_scaling(SCALING).of,
        deadline_min=instance.deadline_min,
        budget_gpu_min=instance.budget_gpu_min,
        resize_min=instance.resize_min,
    )
    search = _POLICIES[policy](cell, run_seed)
    return search(setting, np.random.default_rng(np.random.SeedSequence((seed, 0))))


def _choose_run(seed: int) -> int:
    """Return which of the recorded runs of each configuration a seed meets."""
    recorded = _load_once(CURVES).seeds
    return recorded[seed % len(recorded)]


def _search_all(cell: Cell, policy: str, seeds: Sequence[int]) -> list[SearchOutcome | None]:
    """Run a policy with every seed; None where it cannot do with so little."""
    outcomes: list[SearchOutcome | None] = []
    for seed in seeds:
        try:
            outcomes.append(search_once(cell, policy, seed))
        except InfeasibleError:
            outcomes.append(None)
    return outcomes


def _policy_rows(cell: Cell, seeds: Sequence[int], *, processes: int) -> Iterator[Row]:
    """Measure every policy over all seeds; the processes share the seeds."""
    reference: FloatArray | None = None
    for policy in list_policies():
        reset_peak()
        start = time.perf_counter()
        outcomes = _share(cell, policy, seeds, processes)
        seconds = time.perf_counter() - start
        if any(outcome is None for outcome in outcomes):
            yield _row(cell, policy, "infeasible", seconds, {})
            continue
        found = [outcome for outcome in outcomes if outcome is not None]
        accuracy = np.array([outcome.value for outcome in found])
        if policy == _REFERENCE:
            reference = accuracy
        yield _row(cell, policy, "completed", seconds / len(seeds), _tell(found, accuracy, reference))


def _share(cell: Cell, policy: str, seeds: Sequence[int], processes: int) -> list[SearchOutcome | None]:
    parts = {number: seeds[number::processes] for number in range(processes)}
    shared = dict(spread(partial(_search_all, cell, policy), parts, processes))
    by_seed = {
        seed: outcome for number, part in parts.items() for seed, outcome in zip(part, shared[number], strict=True)
    }
    return [by_seed[seed] for seed in seeds]


def _tell(found: Sequence[SearchOutcome], accuracy: FloatArray, reference: FloatArray | None) -> dict[str, float | str]:
    """Return mean and standard error of the accuracy, and of its difference to the reference, seed by seed."""
    told: dict[str, float | str] = {
        "seeds": float(len(found)),
        "accuracy": float(np.nanmean(accuracy)),
        "accuracy_standard_error": _standard_error(accuracy),
        "without_an_epoch": float(np.isnan(accuracy).sum()),
        "trials": float(np.mean([outcome.trials for outcome in found])),
        "gpu_min": float(np.mean([outcome.spent_gpu_min for outcome in found])),
        "held": float(np.mean([outcome.held for outcome in found])),
    }
    if reference is not None:
        difference = accuracy - reference
        told |= {"gain": float(np.nanmean(difference)), "gain_standard_error": _standard_error(difference)}
    return told


def _standard_error(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.std(ddof=1) / math.sqrt(known.size)) if known.size > 1 else 0.0


def _row(cell: Cell, policy: str, status: str, seconds: float, extra: dict[str, float | str]) -> Row:
    return Row(
        instance=cell.instance.name,
        solver=policy,
        status=status,
        seconds=seconds,
        peak_mb=peak_mb(),
        extra=extra,
    )
