"""SEER's tasks, settings and policies: every search of its claims is run by :func:`run_searches`.

A task is a table of ``curves/`` (``train_curves.py`` trained them): what validation shows of 288 configurations after
each of 128 epochs, in two runs. Two more are the suites' tables of perceptrons with constant rates. A search draws
configurations, meets one of the runs of each, and is worth what validation shows of the trial that it returns; one that
returns a trial without an epoch is worth what the worst configuration shows after the first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from suites.bohb import run_bohb
from suites.learning_curves import LearningCurves, load_curves, load_scaling
from suites.rivals import run_asha, run_grid, run_hyperband, run_hypersched, run_random, run_seer
from suites.search_clock import SearchOutcome, SearchSetting

from optplan.errors import InfeasibleError
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.data.prior import TablePrior
from optplan.schema import FloatArray, freeze
from optplan.solving import solve

FOLDER = Path(__file__).resolve().parent / "curves"
TRAINED = ("digits-mlp", "digits-cnn", "teacher", "license-chars", "digits-masks")
TASKS = (*TRAINED, "digits", "digits-low-rates")
#: Perceptrons on the same images: what is tried on one of them knows none of the others.
ALIKE = ("digits-mlp", "digits", "digits-low-rates")
SCALING = "resnet18-cifar10"
ETA = 4.0
#: Of a resize, where there are pauses: what the docs' benchmark takes.
PAUSE_S = 15.0
#: How many times slower or faster a new task may be than those known.
PACE_SPREAD = 4.0
#: Of a prior's curves.
MOST_EPOCHS = 330
#: Swept, in epochs; the paper's is one to two.
LEAST_EPOCHS = (0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Setting:
    """A deadline in minutes, the GPUs that the budget pays until then, and the most of a trial; epochs in minutes."""

    deadline_min: float
    gpus: int
    most_gpus: int = 4
    epoch_min: float = 1.0

    @property
    def name(self) -> str:
        """Such as ``16x30``, as the paper writes budgets."""
        return f"{self.gpus}x{self.deadline_min:g}"

    def instance(self, least_epochs: float, *, pause_s: float = PAUSE_S, **fields: object) -> SeerInstance:
        """Return the search with this shortest round."""
        told = {
            "name": f"seer-{self.name}",
            "formulation": "seer",
            "deadline_min": self.deadline_min,
            "budget": f"{self.deadline_min * self.gpus:g}gpu-min",
            "eta": ETA,
            "most_gpus": self.most_gpus,
            "least_round_min": least_epochs * self.epoch_min,
            "resize_s": pause_s,
        }
        return SeerInstance.parse(told | fields)


#: Tables 2 to 4 and figure 4; the last two have the epochs for which the paper's t_min is one or two epochs; and more.
SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(15, 4),
        Setting(15, 16),
        Setting(30, 8),
        Setting(30, 16),
        Setting(30, 32),
        Setting(30, 64),
        Setting(60, 16),
        Setting(240, 16),
        Setting(120, 16, most_gpus=8, epoch_min=5.0),
        Setting(180, 16, most_gpus=8, epoch_min=2.5),
    )
}


@cache
def load_task(name: str) -> tuple[LearningCurves, float]:
    """Return the curves of a task, and what the worst configuration shows after an epoch."""
    if name not in TRAINED:
        curves = load_curves(name)
        return curves, float(np.median(curves.accuracy[:, :, 0].min(axis=0)))
    told: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as arrays:
        correct = np.cumsum(arrays["correct_steps"], axis=2, dtype=np.int64)
    names = {each: tuple(values) for each, values in told["hyperparameters"].items()}
    accuracy = freeze(correct / told["validation_examples"])
    curves = LearningCurves(name, names, tuple(told["seeds"]), accuracy, told["source"])
    return curves, told["start"]


def others_of(task: str) -> list[str]:
    """Return the tasks from which one may be planned: all but itself and those that are alike."""
    hidden = ALIKE if task in ALIKE else (task,)
    return [name for name in TASKS if name not in hidden]


def past_runs(tasks: Sequence[str], epoch_min: float, pace_spread: float = PACE_SPREAD) -> TablePrior:
    """Return the runs of some tasks as a prior: a search meets one of them."""
    loaded = [load_task(name)[0] for name in tasks]
    tables = [np.concatenate([_extend(curves.of_seed(seed)) for seed in curves.seeds]) for curves in loaded]
    return TablePrior(
        start_loss=1.0 - float(np.mean([load_task(name)[1] for name in tasks])),
        accuracies=np.concatenate(tables),
        tasks=np.repeat(np.arange(len(tables)), [len(each) for each in tables]),
        pace_spread=pace_spread,
        samples=2_000,
        choice_samples=1_000,
        epoch_min=epoch_min,
        scaling=load_scaling(SCALING),
    )


def _extend(accuracy: FloatArray) -> FloatArray:
    """Return accuracies (C, E) of the epochs that all tables have: a shorter one holds its last."""
    return np.pad(accuracy, ((0, 0), (0, max(0, MOST_EPOCHS - accuracy.shape[1]))), mode="edge")[:, :MOST_EPOCHS]


Search = Callable[[SearchSetting, np.random.Generator], SearchOutcome]


def plan(instance: SeerInstance, solver: str = "published-seer") -> SeerSolution | None:
    """Return what a solver chooses; None where there is nothing."""
    return solve(instance, solver=solver).solution


def seer(
    setting: Setting, least_epochs: float, *, pause_s: float = PAUSE_S, solver: str = "published-seer"
) -> Search | None:
    """Return SEER with this shortest round; None where not even one round fits."""
    instance = setting.instance(least_epochs, pause_s=pause_s)
    solution = plan(instance, solver)
    return None if solution is None else partial(run_seer, instance=instance, solution=solution)


def informed(
    setting: Setting, tasks: Sequence[str], *, pause_s: float = PAUSE_S, pace_spread: float = PACE_SPREAD
) -> tuple[Search, SeerSolution]:
    """Return SEER informed by the runs of other tasks, its shortest round an epoch."""
    prior = past_runs(tasks, setting.epoch_min, pace_spread)
    instance = setting.instance(1.0, pause_s=pause_s, objective="quality", prior=prior)
    solution = plan(instance, "informed")
    if solution is None:
        message = f"no search of {setting.name} fits"
        raise InfeasibleError(message)
    return partial(run_seer, instance=instance, solution=solution), solution


def list_rivals(task: str, setting: Setting) -> dict[str, dict[str, Search]]:
    """Return the rivals, each as section 6.3 has it (first) and at other values of what it leaves to its user."""
    most, levels = setting.most_gpus, load_task(task)[0].levels
    marks = (1.0, 2.0, 4.0, 8.0)
    return {
        "random": {"": run_random},
        "asha": {f"r={r:g}": partial(run_asha, eta=ETA, least_epochs=r) for r in marks},
        "hypersched": {f"r={r:g}": partial(run_hypersched, eta=ETA, least_epochs=r) for r in marks},
        "bohb": {f"r={r:g}": partial(run_bohb, eta=ETA, levels=levels, least_epochs=r) for r in marks[:3:2]},
        "e-hyperband": {
            f"r={r:g}": partial(run_hyperband, eta=ETA, least_round_min=r * setting.epoch_min, most_gpus=most)
            for r in marks
        },
        "e-grid": {f"p={p}": partial(run_grid, most_gpus=p) for p in (most, *(p for p in (1, 2, 4, 8) if p != most))},
    }


@dataclass(frozen=True)
class Searched:
    """What a policy came to over some seeds."""

    accuracy: tuple[float, ...]
    outcomes: tuple[SearchOutcome, ...]

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return float(np.mean(self.accuracy))

    def row(self) -> dict[str, float]:
        """Return mean accuracy, its standard error, trials and GPU-minutes."""
        error = float(np.std(self.accuracy, ddof=1)) / math.sqrt(len(self.accuracy))
        return {
            "accuracy": round(self.mean, 5),
            "error": round(error, 5),
            "trials": round(float(np.mean([each.trials for each in self.outcomes])), 2),
            "spent": round(float(np.mean([each.spent_gpu_min for each in self.outcomes])), 1),
            "held": round(float(np.mean([each.held for each in self.outcomes])), 3),
        }


def run_searches(
    task: str, setting: Setting, search: Search, seeds: Sequence[int], *, pause_s: float = PAUSE_S
) -> Searched | None:
    """Run a policy with every seed, which draws the configurations and the run that is met; None where it cannot."""
    curves, worst = load_task(task)
    outcomes = []
    for seed in seeds:
        told = SearchSetting(
            values=curves.of_seed(curves.seeds[seed % len(curves.seeds)]),
            scaling=load_scaling(SCALING).of,
            deadline_min=setting.deadline_min,
            budget_gpu_min=setting.deadline_min * setting.gpus,
            epoch_min=setting.epoch_min,
            resize_min=pause_s / 60.0,
        )
        try:
            outcomes.append(search(told, np.random.default_rng(np.random.SeedSequence((seed, 0)))))
        except InfeasibleError:
            return None
    values = [worst if math.isnan(each.value) else each.value for each in outcomes]
    return Searched(tuple(values), tuple(outcomes))
