"""What is measured for the claims of the paper on SEER; tasks, settings and policies are those of ``seer_tasks``."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from suites.learning_curves import load_scaling
from suites.search_clock import SearchOutcome
from suites.theory import evaluate_theorem2

from claims.record import Part, Scope
from claims.seer_tasks import (
    ETA,
    LEAST_EPOCHS,
    PAUSE_S,
    SETTINGS,
    TASKS,
    TRAINED,
    Searched,
    Setting,
    informed,
    list_rivals,
    load_task,
    others_of,
    past_runs,
    plan,
    run_searches,
    seer,
)
from optplan.formulations.seer.data.instance import Bracket, SeerInstance, SeerSolution

#: Of SEER and E-Grid, and of everything else, whose searches take longer.
_SEEDS, _RIVAL_SEEDS, _BOHB_SEEDS = 100, 24, 6
#: The shortest round that the paper's plans have, in epochs (13 trials at 8x30).
PRINTED = 2.0
_QUICK = 4

Rows = dict[str, Any]


def _seeds(scope: Scope, count: int = _SEEDS) -> range:
    return range(_QUICK if scope.quick else count)


def _settings(scope: Scope) -> dict[str, Setting]:
    return {"16x30": SETTINGS["16x30"]} if scope.quick else SETTINGS


def measure_tasks(_: Scope) -> Rows:
    """Tell of each task how far its configurations differ, and how well early ranks foretell late ones."""
    told = {}
    for name in TASKS:
        curves, worst = load_task(name)
        mean = curves.accuracy.mean(axis=1)
        last, best = mean[:, -1], mean.max(axis=1)
        reached = (mean >= 0.98 * best[:, None]).argmax(axis=1) + 1
        good = last >= np.quantile(last, 0.75)
        told[name] = {
            "configurations": len(last),
            "runs": len(curves.seeds),
            "epochs": int(mean.shape[1]),
            "quantiles": [round(float(each), 3) for each in np.quantile(last, (0, 0.25, 0.5, 0.75, 1))],
            "worst": round(worst, 4),
            "epochs to 98 %, of the best quarter: least, most": [int(reached[good].min()), int(reached[good].max())],
            "ranks": {str(mark): round(_correlate(mean[:, mark - 1], last), 3) for mark in (1, 2, 4, 8, 16)},
            "within a point": int((last >= last.max() - 0.01).sum()),
            "sha256": hashlib.sha256(np.ascontiguousarray(curves.accuracy).tobytes()).hexdigest()[:12],
        }
    return told


def _correlate(left: np.ndarray, right: np.ndarray) -> float:
    """Return Spearman's rank correlation; ties have the order of the table."""
    ranks = [each.argsort(kind="stable").argsort(kind="stable") for each in (left, right)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def measure_plans(_: Scope) -> Rows:
    """Return the published plans of the paper's settings, without pauses, for shortest rounds of one and two epochs."""
    plans: Rows = {}
    for name, setting in SETTINGS.items():
        for epochs in (1.0, PRINTED):
            instance = setting.instance(epochs, pause_s=0.0)
            solution = plan(instance)
            if solution is not None:
                plans.setdefault(name, {})[f"{epochs:g}"] = _tell_plan(instance, solution)
    example = SeerInstance.parse(
        {"formulation": "seer", "name": "x", "deadline_min": 10, "budget": "80gpu-min", "eta": 2, "resize_s": 0}
    )
    found, chosen = example.brackets, plan(example)
    if found is None or chosen is None:
        return plans
    plans["example"] = {"ratio": found.ratio, "levels": found.levels} | _tell_plan(example, chosen)
    small = [
        setting.instance(1.0, pause_s=0.0) for setting in (Setting(600, 1, most_gpus=4), Setting(60, 10, most_gpus=4))
    ]
    plans["small"] = [
        _tell_plan(each.replace(budget="100gpu-min"), solution)
        for each in small
        if (solution := plan(each.replace(budget="100gpu-min"))) is not None
    ]
    return plans


def _tell_plan(instance: SeerInstance, solution: SeerSolution) -> Rows:
    eta, minutes = instance.eta, [solution.round_min * instance.eta**k for k in range(solution.rounds)]
    trained = sum(
        each.gpus * sum(n * lasts for n, lasts in zip(each.trials, minutes, strict=True)) for each in solution.brackets
    )
    return {
        "rounds": solution.rounds,
        "round_min": round(solution.round_min, 4),
        "minutes": round(solution.round_min * (eta**solution.rounds - 1) / (eta - 1), 4),
        "brackets": [[each.gpus, each.trials[0]] for each in solution.brackets],
        "trials": sum(each.trials[0] for each in solution.brackets),
        "trained": round(trained, 2),
        "budget": instance.budget_gpu_min,
    }


def measure_sweep(task: str, marks: Sequence[float], pause_s: float, scope: Scope) -> Rows:
    """Measure SEER as published with these shortest rounds, in epochs."""
    told: Rows = {}
    for name, setting in SETTINGS.items():
        for epochs in marks:
            search = seer(setting, epochs, pause_s=pause_s)
            found = search and run_searches(task, setting, search, _seeds(scope), pause_s=pause_s)
            if found:
                told.setdefault(name, {})[f"{epochs:g}"] = found.row()
    return told


#: What is compared with rivals: each task's own place in Tables 2 to 4, at all values of what they leave to their user;
#: the small budgets and the large deadline of section 7, as printed; and Figure 4.
_OWN = {
    "digits-mlp": ("4x15",),
    "digits-cnn": ("16x60", "16x15", "16x30", "8x30", "32x30", "64x30"),
    "teacher": ("16x60",),
    "license-chars": ("16x120",),
    "digits-masks": ("16x180",),
}
_EVERYWHERE = ("4x15", "8x30", "16x240")


def measure_rivals(task: str, scope: Scope) -> Rows:
    """Measure every rival as printed (first) and at its other settings, and what SEER gains, seed by seed."""
    told: Rows = {}
    for name in dict.fromkeys((*_OWN[task], *_EVERYWHERE)):
        setting = SETTINGS[name]
        search = seer(setting, PRINTED)
        ours = search and run_searches(task, setting, search, _seeds(scope))
        for policy, variants in list_rivals(task, setting).items():
            quick = policy in {"random", "e-hyperband", "e-grid"}
            count = _SEEDS if quick else _BOHB_SEEDS if policy == "bohb" else _RIVAL_SEEDS
            for variant, rival in variants.items() if name in _OWN[task] else list(variants.items())[:1]:
                found = run_searches(task, setting, rival, _seeds(scope, count))
                if found is None:
                    continue
                row = found.row() | {"searches": len(found.accuracy)}
                if ours:
                    row |= _compare(ours, found)
                if policy == "asha":
                    row["late"] = round(_share_of_late(found.outcomes, setting.deadline_min), 3)
                told.setdefault(name, {}).setdefault(policy, {})[variant] = row
    return told


def _compare(ours: Searched, theirs: Searched) -> dict[str, float]:
    gains = np.subtract(ours.accuracy[: len(theirs.accuracy)], theirs.accuracy)
    return {
        "gain": round(float(gains.mean()), 5),
        "gain_error": round(float(gains.std(ddof=1)) / math.sqrt(len(gains)), 5),
    }


def _share_of_late(outcomes: Sequence[SearchOutcome], deadline_min: float) -> float:
    """Return which part of the last fifth's GPU-minutes trials held that began in it."""
    late = total = 0.0
    since = 0.8 * deadline_min
    for outcome in outcomes:
        begun: dict[int, float] = {}
        for each in outcome.stretches:
            begun[each.trial] = min(begun.get(each.trial, math.inf), each.start_min)
        for each in outcome.stretches:
            held = each.gpus * max(0.0, each.stop_min - max(each.start_min, since))
            total += held
            late += held if begun[each.trial] >= since else 0.0
    return late / total if total else 0.0


def measure_informed(task: str, scope: Scope) -> Rows:
    """Measure SEER informed by the runs of other tasks, its shortest round one epoch."""
    told: Rows = {}
    for name, setting in _settings(scope).items():
        search, chosen = informed(setting, others_of(task))
        row: Rows = run_searches_or_fail(task, setting, search, _seeds(scope)).row()
        row |= {
            "rounds": chosen.rounds,
            "round_min": round(chosen.round_min, 3),
            "brackets": [[each.gpus, each.trials[0]] for each in chosen.brackets],
        }
        told[name] = row
    return told


def measure_two_rounds(scope: Scope) -> Rows:
    """Measure SEER as published with the longest shortest round that leaves it two rounds."""
    told: Rows = {}
    for task in TASKS:
        for name, setting in SETTINGS.items():
            search = seer(setting, two_rounds_epochs(setting))
            if search is not None:
                found = run_searches_or_fail(task, setting, search, _seeds(scope))
                told.setdefault(task, {})[name] = found.row()
    return told


def measure_paces(scope: Scope) -> Rows:
    """Measure informed SEER with other spreads of the pace, on the tasks on which the spread was chosen."""
    told: Rows = {}
    for task in TASKS[len(TRAINED) :]:
        for name in ("16x30",) if scope.quick else ("8x30",):
            for spread in (1.0, 2.0, 8.0):
                search, _ = informed(SETTINGS[name], others_of(task), pace_spread=spread)
                row = run_searches_or_fail(task, SETTINGS[name], search, _seeds(scope)).row()
                told.setdefault(task, {}).setdefault(name, {})[f"{spread:g}"] = row["accuracy"]
    return told


def run_searches_or_fail(task: str, setting: Setting, search: Any, seeds: range) -> Searched:  # noqa: ANN401 - a policy
    """Run a policy that can do with what there is."""
    found = run_searches(task, setting, search, seeds)
    if found is None:
        message = f"nothing can be run on {setting.name}"
        raise RuntimeError(message)
    return found


def two_rounds_epochs(setting: Setting) -> float:
    """Return the shortest round with which SEER just has two rounds until the deadline, in epochs; more leave one."""
    return 0.99 * (setting.deadline_min - PAUSE_S / 60.0) / (1.0 + ETA) / setting.epoch_min


def measure_winners(scope: Scope) -> Rows:
    """Where the trials that SEER returns began, as published, and how many trials changed their GPUs."""
    told: Rows = {}
    for task in TRAINED:
        for name, setting in SETTINGS.items():
            search, chosen = seer(setting, PRINTED), plan(setting.instance(PRINTED))
            if search is None or chosen is None or len(chosen.brackets) < 2:
                continue
            found = run_searches_or_fail(task, setting, search, _seeds(scope))
            told.setdefault(task, {})[name] = {
                "started": {f"{each.gpus:g}": each.trials[0] for each in chosen.brackets},
                "won": _count_winners(found.outcomes, chosen.brackets),
                "moved": _share_moved(found.outcomes),
            }
    return told


def _count_winners(outcomes: Sequence[SearchOutcome], brackets: Sequence[Bracket]) -> dict[str, float]:
    counts = dict.fromkeys((f"{each.gpus:g}" for each in brackets), 0)
    for outcome in outcomes:
        number = outcome.configurations.index(outcome.configuration)
        first = min((each for each in outcome.stretches if each.trial == number), key=lambda each: each.start_min)
        counts[f"{first.gpus}"] += 1
    return {gpus: round(count / len(outcomes), 3) for gpus, count in counts.items()}


def _share_moved(outcomes: Sequence[SearchOutcome]) -> dict[str, float]:
    """Return the share of the trials that went on which changed their GPUs, and of the winners."""
    moved = went_on = winners = 0
    for outcome in outcomes:
        winner = outcome.configurations.index(outcome.configuration)
        ordered = sorted(outcome.stretches, key=lambda each: (each.trial, each.start_min))
        for trial, stretches in groupby(ordered, key=lambda each: each.trial):
            widths = [each.gpus for each in stretches]
            went_on += len(widths) > 1
            moved += len(set(widths)) > 1
            winners += trial == winner and len(set(widths)) > 1
    return {"of those that go on": round(moved / max(1, went_on), 3), "of winners": round(winners / len(outcomes), 3)}


def measure_figure1(scope: Scope) -> Rows:
    """Measure what ASHA, HyperSched and SEER hold in 10 minutes with 80 GPU-minutes."""
    setting = dataclasses.replace(Setting(10, 8), most_gpus=4)
    searches = {
        policy: next(iter(list_rivals("digits-cnn", setting)[policy].values())) for policy in ("asha", "hypersched")
    }
    found = seer(setting, 1.0)
    if found is not None:
        searches["seer"] = found
    told = {}
    for name, search in searches.items():
        outcomes = run_searches_or_fail("digits-cnn", setting, search, _seeds(scope, _RIVAL_SEEDS)).outcomes
        held = [sum(s.gpus * (s.stop_min - s.start_min) for s in each.stretches) for each in outcomes]
        told[name] = {
            "paid": round(float(np.mean([each.spent_gpu_min for each in outcomes])), 2),
            "held": round(float(np.mean(held)), 2),
            "most": round(float(np.mean([_most_at_once(each) for each in outcomes])), 2),
        }
    return told


def _most_at_once(outcome: SearchOutcome) -> int:
    """Return the most GPUs that are held at once."""
    starts = [each.start_min for each in outcome.stretches]
    return max(sum(s.gpus for s in outcome.stretches if s.start_min <= at < s.stop_min - 1e-9) for at in starts)


def measure_theorem(_: Scope) -> Rows:
    """Whether the condition of Theorem 2 holds for the published plans, with each task's own curves as prior."""
    told: Rows = {}
    for task in TRAINED:
        for name, setting in SETTINGS.items():
            prior = past_runs([task], setting.epoch_min, 1.0)
            found = evaluate_theorem2(setting.instance(PRINTED, pause_s=0.0, objective="quality", prior=prior))
            readings = {"printed": found.printed, "corrected": found.corrected}
            told.setdefault(task, {})[name] = {
                key: round(each.term.condition, 2) for key, each in readings.items() if each.terms
            }
    return told


def measure_scaling(_: Scope) -> Rows:
    """How much faster a trial is on several GPUs, as HyperSched measured."""
    return {f"{gpus}": round(load_scaling("resnet18-cifar10").of(gpus), 3) for gpus in (1, 2, 4, 8)}


PARTS: Mapping[str, Part] = {
    "tasks": Part(measure_tasks),
    "scaling": Part(measure_scaling),
    "plans": Part(measure_plans),
    **{f"sweep, {task}": Part(partial(measure_sweep, task, LEAST_EPOCHS, PAUSE_S), seed=0) for task in TASKS},
    **{f"no pauses, {task}": Part(partial(measure_sweep, task, (1.0, PRINTED), 0.0), seed=0) for task in TASKS},
    "winners": Part(measure_winners, seed=0),
    "figure 1": Part(measure_figure1, seed=0),
    "theorem 2": Part(measure_theorem),
    **{f"informed, {task}": Part(partial(measure_informed, task), seed=0) for task in TASKS},
    "two rounds": Part(measure_two_rounds, seed=0),
    "paces": Part(measure_paces, seed=0),
    **{f"rivals, {task}": Part(partial(measure_rivals, task), seed=0) for task in TRAINED},
}
