"""Every registered solver on small instances with known optima: run, verified and compared."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import block_diag

from optplan.contracts import BoundProof, Instance, PathCosts, Sense, Status, Termination
from optplan.contracts.parts import load
from optplan.contracts.registry import Formulation, SolverEntry
from optplan.formulations import formulation_of, formulations
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.formulations.boa.judge.duality import path_costs
from optplan.formulations.rubberband.data.allocations import explain_refusal
from optplan.formulations.rubberband.data.experiment import Stage
from optplan.formulations.rubberband.data.instance import (
    AllocationRule,
    RubberBandInstance,
    RubberBandSolution,
    StageAllocation,
)
from optplan.formulations.rubberband.judge.evaluation import evaluate
from optplan.formulations.seer.data.instance import Bracket, SeerInstance, SeerSolution
from optplan.formulations.seer.judge.evaluation import evaluate as evaluate_search
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.judge.evaluation import evaluate as evaluate_fleet
from optplan.formulations.throughputs.data import ThroughputsInstance
from optplan.instances.generators import random_boa
from optplan.instances.library import build_named
from optplan.schema import FloatArray
from optplan.solving import build_plan, model, solve
from optplan.speedup import PowerSpeedup, TableSpeedup
from optplan.units import Amount, BudgetUnit
from optplan.verification import verify

#: Relative tolerance between an exact solver's objective and the known one: the gap that is asked for.
TOLERANCE = 1e-6

#: The same for plans, in which real widths become whole ones. Where jobs are divided among types at real widths, the
#: objective is flat around the optimum, so widths are known to the square root of the gap only; a plan shows that.
PLAN_TOLERANCE = 2 * TOLERANCE**0.5


@dataclass(frozen=True)
class Case:
    """An instance and its optimum; None: there is no plan within its limits."""

    name: str
    instance: Instance
    optimum: float | None


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
            instance = _typed(changes | {"problem": problem.value, "policy": policy.value})
            yield Case(f"{name}-{problem}-{policy}", instance, _look_at_every_plan(instance))
        instance = _typed(changes | {"problem": "continuous", "policy": "mixed"})
        yield Case(f"{name}-continuous", instance, _look_at_every_plan(instance))
    yield from _limited_cases(one)
    yield Case("square-roots", _square_roots(), 1800.0)
    for name, changes in TYPED_INFEASIBLE.items():
        for policy in Policy:
            yield Case(f"{name}-{policy}", _typed(changes | {"policy": policy.value}), None)


def _limited_cases(one: BoaInstance) -> Iterator[Case]:
    """Yield cases of whole nodes, of due dates, of floors, and of a limit on the GPUs at once with room to spare."""
    for problem, policy in itertools.product((Problem.WHOLE, Problem.RESCALING), Policy):
        asked = {"problem": problem.value, "policy": policy.value}
        instance = _typed(WHOLE_NODES | asked)
        yield Case(f"whole-nodes-{problem}-{policy}", instance, _look_at_every_plan(instance))
        instance = _due(asked)
        yield Case(f"due-dates-{problem}-{policy}", instance, _look_at_every_plan(instance))
        instance = _floored(asked)
        yield Case(f"floors-{problem}-{policy}", instance, _look_at_every_plan(instance))
    # With room for a thousand GPUs at once the plan is that without the limit.
    room = {"most_gpus": {"gpus": 1000, "probability": 0.5}}
    for name, changes in (TYPED | {"whole-nodes": WHOLE_NODES}).items():
        instance = _typed(changes | room)
        yield Case(f"{name}-most-gpus", instance, _look_at_every_plan(instance))
    yield Case("due-dates-most-gpus", _due(room), _look_at_every_plan(_due(room)))
    yield Case("floors-most-gpus", _floored(room), _look_at_every_plan(_floored(room)))
    yield Case("one-table-most-gpus", one.replace(**room), 2250.0)
    yield Case("one-table-most-gpus-infeasible", _with(one, 0.99, **room), None)


def _due(changes: dict[str, Any]) -> BoaInstance:
    """Have the jobs of one class end within two hours on average, which costs the other class time."""
    instance = _typed(changes)
    bert = instance.classes["bert"].replace(most_mean_jct_s=7200.0)
    return instance.replace(classes=dict(instance.classes) | {"bert": bert})


def _floored(changes: dict[str, Any]) -> BoaInstance:
    """Have the jobs of one class run on more GPUs on average than is best for all."""
    instance = _typed(changes)
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


def _typed(changes: dict[str, Any]) -> BoaInstance:
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


def rubberband_cases() -> Iterator[Case]:
    """Yield RubberBand's cases: the textbook search, and tiny ones whose every plan is judged here."""
    textbook = build_named("rubberband-two-stages")
    yield Case("two-stages", textbook, 0.38)  # two instances, then one: 2 x 100 + 180 s of a tenth of a cent
    for number, (name, changes) in enumerate(SEARCHES.items()):
        modes = (
            AllocationRule
            if changes.get("cloud", {}).get("billing") or "experiment" in changes
            else [list(AllocationRule)[number % 2]]
        )
        for mode in modes:
            asked = changes | {"mode": mode.value}
            figures = _judge_every_plan(_search(asked))
            yield from _search_cases(f"{name}-{mode}", asked, figures)
    for name in ("plain", "per-function", "side-by-side"):
        yield from _confident_cases(name, SEARCHES[name] | {"confidence": 0.9})
    yield from _both_confident_cases()


#: 3 trials of 4 iterations, the best of them for 8 more, on instances of two GPUs and a tenth of a cent a second.
SEARCH: dict[str, Any] = {
    "experiment": {"form": "stages", "stages": [{"trials": 3, "iterations": 4}, {"trials": 1, "iterations": 8}]},
    "training": {"seconds_per_iteration": {"1": 10.0, "2": 6.0}},
    "cloud": {
        "gpus_per_instance": 2,
        "price_usd_per_hour": 3.6,
        "minimum_charge_s": 0.0,
        "provision_s": 3.0,
        "initialise_s": 5.0,
    },
}
NOISY = {"form": "log-normal", "mean_s": 5.0, "sd_s": 2.0}
HYPERBAND = {"form": "hyperband", "most_iterations": 2, "eta": 2}
#: What every solver is tried on: changes of :data:`SEARCH`.
SEARCHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "minimum-charges": {"cloud": {"minimum_charge_s": 150.0, "provision_s": 0.0, "initialise_s": 0.0}},
    "noise": {
        "training": {"iteration_noise": {"form": "normal", "sd_s": 1.0}, "start_s": 2.0},
        "cloud": {"initialise_s": NOISY},
    },
    "data": {"cloud": {"data_gb": 5.0, "data_price_usd_per_gb": 0.01}},
    "least-gpus": {"training": {"seconds_per_iteration": {"2": 6.0, "4": 3.5}, "least_gpus": 2}},
    "dear": {"cloud": {"price_usd_per_hour": 3.6e6}},
    "in-sequence": {"experiment": HYPERBAND, "cloud": {"minimum_charge_s": 30.0}},
    "per-function": {"cloud": {"billing": "per-function", "data_gb": 2.0, "data_price_usd_per_gb": 0.01}},
    "side-by-side": {"experiment": HYPERBAND | {"order": "side-by-side"}},
    "side-by-side-per-function": {
        "experiment": HYPERBAND | {"order": "side-by-side"},
        "cloud": {"billing": "per-function"},
    },
}


def _search(changes: dict[str, Any]) -> RubberBandInstance:
    """Make the tiny search with some fields changed, those of training and cloud one by one."""
    parts = {part: SEARCH[part] | changes.get(part, {}) for part in ("training", "cloud")}
    return RubberBandInstance.parse({"formulation": "rubberband"} | SEARCH | changes | parts)


def _judge_every_plan(instance: RubberBandInstance) -> FloatArray:
    """Return (N, 2) time and cost of every plan: any GPUs that a stage may get, on as many instances or more.

    The time is the one that the deadline is compared with.
    """
    chains = [list(itertools.product(*_list_allocations(instance, chain))) for chain in instance.brackets]
    figures = []
    for plan in itertools.product(*chains):
        judged = evaluate(instance, RubberBandSolution(brackets=plan))
        assert all(check.holds for check in judged.checks)
        figures.append((judged.consumption["deadline"], judged.objective))
    return np.array(figures)


def _list_allocations(instance: RubberBandInstance, chain: tuple[Stage, ...]) -> list[list[StageAllocation]]:
    """List what each stage may get, up to as many instances as any of them can use."""
    widest = instance.training.largest_gpus or 1
    needed = [
        {gpus: _count_instances(instance, stage, gpus) for gpus in range(1, widest * stage.trials + 1)}
        for stage in chain
    ]
    most = max(count for by_gpus in needed for count in by_gpus.values())
    return [
        [
            StageAllocation(instances=held, gpus=gpus)
            for gpus, count in by_gpus.items()
            for held in range(max(count, 1), most + 1 if count else 0)
        ]
        for by_gpus in needed
    ]


def _count_instances(instance: RubberBandInstance, stage: Stage, gpus: int) -> int:
    """Count the instances that an allocation needs; none where it is not allowed."""
    if explain_refusal(instance, stage, gpus):
        return 0
    size, least = instance.cloud.gpus_per_instance, instance.training.least_gpus
    running = min(stage.trials, gpus // least)
    each = max(gpus // stage.trials, least)
    return running * -(-each // size) if each > size else -(-running // (size // each))


def _search_cases(
    name: str, changes: dict[str, Any], figures: FloatArray, limits: tuple[int, ...] = (0, 1), too_small: float = 0.9
) -> Iterator[Case]:
    """Yield the search with limits on time (0) and on cost (1) between what two plans need, and with too small ones.

    ``too_small`` is a part of what plans need at least.
    """
    for limit in limits:
        objective = 1 - limit
        amounts = np.unique(figures[:, limit])
        between = float(amounts[amounts.size // 3 : amounts.size // 3 + 2].mean())
        for kind, amount in (("", between), ("-infeasible", too_small * float(amounts[0]))):
            asked = {"deadline_s": amount} if limit == 0 else {"objective": "time", "budget": f"{amount!r}usd"}
            within = figures[figures[:, limit] <= amount, objective]
            optimum = float(within.min()) if within.size else None
            yield Case(f"{name}-{'budget' if limit else 'deadline'}{kind}", _search(changes | asked), optimum)


def _confident_cases(name: str, changes: dict[str, Any]) -> Iterator[Case]:
    """Yield the search, with noise, within a deadline that is kept in nine of ten cases."""
    noise = {"iteration_noise": {"form": "normal", "sd_s": 1.0}}
    changes = changes | {"training": noise, "cloud": changes.get("cloud", {}) | {"initialise_s": NOISY}}
    figures = _judge_every_plan(_search(changes))
    # Only what is too little for the means is proven to be.
    yield from _search_cases(f"{name}-confident", changes, figures, limits=(0,), too_small=0.6)


def _both_confident_cases() -> Iterator[Case]:
    """Yield a search with noise within a deadline and a budget that are both kept in eight of ten cases."""
    noise = {"iteration_noise": {"form": "normal", "sd_s": 1.0}}
    changes = {"training": noise, "confidence": 0.8, "deadline_s": 120.0, "budget": "0.17usd"}
    for objective in ("cost", "time"):
        asked = _search(changes | {"objective": objective})
        choices = itertools.product(*_list_allocations(asked, asked.brackets[0]))
        judged = [evaluate(asked, RubberBandSolution(brackets=(plan,))) for plan in choices]
        within = [one.objective for one in judged if all(check.holds for check in one.checks)]
        assert 0 < len(within) < len(judged)
        yield Case(f"both-confident-{objective}", asked, min(within))
    yield Case("both-confident-infeasible", _search(changes | {"budget": "0.1usd"}), None)


def seer_cases() -> Iterator[Case]:
    """Yield SEER's cases: the example of the paper, and small searches whose every choice is judged here."""
    example = build_named("seer-paper-example")
    assert isinstance(example, SeerInstance)
    yield Case("paper-example", example, 80.0)  # 56 units of 10/7 GPU-minutes, all of which can be spent
    # One trial of a minute fits, and 1.9 GPU-minutes pay no second one on one GPU.
    yield Case("one-trial", example.replace(deadline_min=1.0, budget="1.9gpu-min"), 1.0)
    for name, changes in BRACKETED.items():
        instance = example.replace(**changes)
        yield Case(name, instance, _judge_every_choice(instance))
    yield Case("deadline-infeasible", example.replace(deadline_min=0.9), None)
    yield Case("budget-infeasible", example.replace(budget="0.9gpu-min"), None)
    yield Case("money-infeasible", example.replace(budget="0.05usd", price_usd_per_gpu_hour=3.6), None)
    informed = example.replace(objective="quality", prior=AT_ONCE)
    for name, trials in (("one", 1), ("twelve", 12)):
        instance = informed.replace(deadline_min=1.0 + (trials > 1), budget=f"{trials}.5gpu-min")
        best = SeerSolution(round_min=1.0, rounds=1, brackets=(Bracket(gpus=1.0, trials=(trials,)),))
        yield Case(f"informed-{name}", instance, evaluate_search(instance, best).objective)
    yield Case("informed-deadline-infeasible", informed.replace(deadline_min=0.9), None)
    yield Case("informed-budget-infeasible", informed.replace(budget="0.9gpu-min"), None)


#: Trials that have reached their end after any round. A trial takes a GPU-minute at least, and in each sample the first
#: of more trials are those of fewer, so no plan is better than the one with the most trials, each for a minute.
AT_ONCE: dict[str, Any] = {
    "form": "parametric",
    "start_loss": 1.0,
    "terminal_low_loss": 0.1,
    "terminal_high_loss": 0.9,
    "rate_low_per_min": 1e4,
    "rate_high_per_min": 1e4,
    "scaling": {"gpus": [1, 2], "speedup": [1.0, 1.5]},
}
#: What every solver of SEER is tried on: changes of the paper's example. Each leaves a part of the budget unused.
BRACKETED: dict[str, dict[str, Any]] = {
    "pauses": {"resize_s": 6.0},
    "threes": {"budget": "47gpu-min", "eta": 3.0},
    "wide": {"budget": "95gpu-min", "least_gpus": 2.0, "most_gpus": 4.0},
    "odd-eta": {"budget": "61gpu-min", "eta": 2.5, "nu": 1.5},
    "money": {"budget": "3.1usd", "price_usd_per_gpu_hour": 3.6, "least_round_min": 1.7},
    "nodes": {"budget_counts": "nodes", "gpus_per_node": 4},
    "uneven-nodes": {"budget": "95gpu-min", "budget_counts": "nodes", "gpus_per_node": 3},
}


def _judge_every_choice(instance: SeerInstance) -> float:
    """Return the most GPU-minutes of training of all sizes of all brackets that the judge finds no fault with."""
    published = instance.brackets
    assert published is not None
    eta, rounds = instance.eta, published.rounds
    lists = []
    for bracket in published.brackets:
        trial_gpu_min = bracket.gpus * published.round_min
        most = bracket.trials[0] + int(instance.budget_gpu_min / trial_gpu_min)
        sizes = {bracket.size, *(n * eta**k for k in range(rounds) for n in range(most + 1))}
        rows = {tuple(int(size * (1 + 1e-12) / eta**k) for k in range(rounds)) for size in sizes if size <= most}
        lists.append([row for row in rows if all(map(operator.ge, row, bracket.trials))])
    reached = []
    for choice in itertools.product(*lists):
        brackets = [Bracket(gpus=b.gpus, trials=t) for b, t in zip(published.brackets, choice, strict=True) if t[0]]
        solution = SeerSolution(round_min=published.round_min, rounds=rounds, brackets=tuple(brackets))
        judged = evaluate_search(instance, solution)
        if all(check.holds for check in judged.checks):
            reached.append(judged.objective)
    return max(reached)


def srift_cases() -> Iterator[Case]:
    """Yield Srift's cases: published choices, and small offers whose every fleet is judged here."""
    for name, optimum in (("srift-case2", 3.2106), ("srift-case3", 2.7388)):  # US dollars, of the calibration
        instance = build_named(name)
        assert isinstance(instance, SriftInstance)
        known = evaluate_fleet(instance, PUBLISHED_FLEETS[name]).objective
        assert known == pytest.approx(optimum, rel=1e-4)
        yield Case(name, instance, known)
    for name, changes in FLEETS.items():
        figures = _judge_every_fleet(_fleet_instance(changes))  # (fleets, 2): seconds and US dollars
        for objective, asked in enumerate(("time", "cost")):
            limit = 1 - objective
            plain = _fleet_instance(changes | {"objective": asked})
            yield Case(f"{name}-{asked}", plain, float(figures[:, objective].min()))
            best = figures[figures[:, objective].argmin(), limit]
            less = figures[figures[:, limit] < best * (1 - 1e-6)]
            amount = float(less[:, limit].max())  # the nearest that excludes the best one; met exactly
            instance = plain.replace(**({"budget": f"{amount!r}usd"} if limit else {"deadline_s": amount}))
            yield Case(f"{name}-{asked}-limited", instance, float(less[:, objective].min()))
    for name, changes in FLEETS_INFEASIBLE.items():
        instance = _fleet_instance(changes)
        assert not _judge_every_fleet(instance).size
        yield Case(f"{name}-infeasible", instance, None)


#: The paper's choices in cases 2 and 3 (5.2).
PUBLISHED_FLEETS = {
    name: SriftSolution(groups=tuple(VmGroup(type=vm, count=n, batch=batch) for vm, n, batch in groups))
    for name, groups in {
        "srift-case2": [("g4dn.8xlarge", 8, 128)],
        "srift-case3": [("p3.8xlarge", 4, 1024), ("g3.8xlarge", 8, 128), ("g4dn.8xlarge", 8, 128)],
    }.items()
}
_SPOT_VM: dict[str, Any] = {"spot": True, "interruptions_per_hour": 4.0}
_LOST: dict[str, Any] = {"interruptions": {"checkpoint_every_s": 5.0, "checkpoint_s": 0.5, "restart_s": 20.0}}
#: What every solver of Srift is tried on: changes of the offer in :func:`_fleet_instance`.
FLEETS: dict[str, dict[str, Any]] = {
    "offer": {},
    "any-batches": {"one_batch_per_type": False},
    "one-type": {"mixed": False, "types": {"big": {}, "small": {"available": 8}}},
    "running": {"types": {"big": {"running": 1}, "small": {}}, "launch_s": 3.0, "launch_billed": True},
    "interruptions": {"types": {"big": {}, "small": _SPOT_VM}} | _LOST,
    "any-batches-all": {
        "types": {"big": _SPOT_VM, "small": {"running": 1}},
        "launch_s": 3.0,
        "one_batch_per_type": False,
    }
    | _LOST,
}
FLEETS_INFEASIBLE: dict[str, dict[str, Any]] = {
    "deadline": {"deadline_s": 1.0},
    "budget": {"budget": "0.001usd"},
    "both-limits": {"deadline_s": 17.0, "budget": "0.021usd"},
    "availability": {"global_batch": 48},
    "batch": {"global_batch": 25},
    "any-batches-deadline": {"deadline_s": 1.0, "one_batch_per_type": False},
    "running": {"deadline_s": 1.0, "types": {"big": {"running": 1}, "small": {}}},
    "interruptions": {"deadline_s": 1.0, "types": {"big": {}, "small": _SPOT_VM}} | _LOST,
}


def _fleet_instance(changes: dict[str, Any]) -> SriftInstance:
    """Return an offer of a big VM (two GPUs) and four small ones for a batch of 16, with some changes."""
    big = {"gpu": "fast", "gpus": 2, "price_usd_per_hour": 3.0, "network_gbit_per_s": 10, "available": 1}
    small = {"gpu": "slow", "price_usd_per_hour": 0.7, "network_gbit_per_s": 5, "available": 4}
    offered = {"big": big | {"batches": [4, 8, 12]}, "small": small | {"batches": [1, 2, 4]}}
    changed = changes.get("types", {})
    devices = {"fast": (0.01, 0.02), "slow": (0.02, 0.05)}
    fields: dict[str, Any] = {
        "job": {
            "layers": {"gradient_bytes": [4e6, 1e6, 2e7], "ready": [0.2, 0.6, 1.0]},
            "devices": {
                name: {"batches": [1, 8], "forward_s": [a, a + 7 * b / 3], "backward_s": [2 * a, 2 * a + 14 * b / 3]}
                for name, (a, b) in devices.items()
            },
        },
        "global_batch": 16,
        "iterations": 100,
    }
    types = {"types": {name: vm | changed.get(name, {}) for name, vm in offered.items()}}
    return SriftInstance.parse({"formulation": "srift", "name": "offer", **fields, **changes, **types})


def _judge_every_fleet(instance: SriftInstance) -> FloatArray:
    """Return (fleets, 2) time and cost of all fleets that the judge finds no fault with."""
    cells = [(name, batch) for name, choices in instance.batches_of.items() for batch in choices]
    most = [min(instance.global_batch // batch, instance.types[name].available or 0) for name, batch in cells]
    figures = []
    for counts in itertools.product(*(range(number + 1) for number in most)):
        chosen = [(cell, n) for cell, n in zip(cells, counts, strict=True) if n]
        if sum(batch * n for (_, batch), n in chosen) != instance.global_batch:
            continue
        groups = tuple(VmGroup(type=name, count=n, batch=batch) for (name, batch), n in chosen)
        judged = evaluate_fleet(instance, SriftSolution(groups=groups))
        if all(check.holds for check in judged.checks):
            figures.append([judged.consumption["deadline"], judged.consumption["budget"]])
    return np.array(figures)


def throughputs_cases() -> Iterator[Case]:
    """Yield jobs with measured speeds: 10, 18 and 30 samples a second on 1, 2 and 4 VMs at a dollar an hour."""
    for name, changes, optimum in (
        ("cheapest", {}, 10.0),  # 360,000 samples at 10 a second: ten hours
        ("cheapest-in-time", {"deadline_s": 20_000}, 20 * 2 / 3.6),  # two VMs for 20,000 s, exactly
        ("fastest", {"objective": "time"}, 12_000.0),
        ("fastest-within", {"objective": "time", "budget": "12usd"}, 20_000.0),
        ("between", {"deadline_s": 15_000, "interpolate": True}, 15 * 3 / 3.6),  # three VMs: 24 a second
        ("too-late", {"deadline_s": 11_999}, None),
        ("too-dear", {"budget": "9.99usd"}, None),
        ("both", {"deadline_s": 15_000, "budget": "11usd"}, None),
    ):
        speeds = {1: 10, 2: 18, 4: 30}
        fields: dict[str, Any] = {
            "name": name,
            "samples": 360_000,
            "types": {"vm": {"price_usd_per_hour": 1}},
            "measurements": [{"type": "vm", "vms": vms, "samples_per_s": speed} for vms, speed in speeds.items()],
        }
        yield Case(name, ThroughputsInstance(**fields | changes), optimum)


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "boa": boa_cases,
    "rubberband": rubberband_cases,
    "seer": seer_cases,
    "srift": srift_cases,
    "throughputs": throughputs_cases,
}


@cache
def cases_of(formulation: str) -> tuple[Case, ...]:
    """Return a formulation's cases, which are made once: every plan of many of them is judged for that."""
    return tuple(CASES[formulation]()) if formulation in CASES else ()


def model_cases() -> Iterator[Case]:
    """Yield every case of every formulation that a declarative model states."""
    for formulation in CASES:
        for case in cases_of(formulation):
            asked = getattr(case.instance, "confidence", None) or getattr(case.instance, "most_gpus", None)
            sampled = getattr(case.instance, "objective", "") == "quality"
            nothing = isinstance(case.instance, SeerInstance) and case.instance.brackets is None
            if not (asked or sampled or nothing):
                yield case


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


def _size_and_kind(entry: SolverEntry, instance: Instance) -> bool:
    """Whether an instance is of the kind and size that a solver takes, installed or not, and of its features."""
    asked = formulation_of(instance).describe(instance)
    fits = entry.max_cells is None or asked.cells <= entry.max_cells
    able = asked.features <= entry.features and not (entry.supports and load(entry.supports)(instance))
    return fits and able and asked.problem in entry.problems and asked.policy in entry.policies


PAIRS = [
    (formulation, entry, case)
    for formulation in formulations().values()
    for case in cases_of(formulation.name)
    for entry in formulation.solvers
    if _size_and_kind(entry, case.instance)
]


def skip_if_missing(formulation: Formulation, entry: SolverEntry) -> None:
    """Skip by name what cannot run here."""
    if not entry.available():
        pytest.skip(f"solver {entry.name} of {formulation.name}: package {entry.needs} is not installed")


@pytest.mark.parametrize(
    ("formulation", "entry", "case"), PAIRS, ids=[f"{f.name}-{entry.name}-{case.name}" for f, entry, case in PAIRS]
)
def test_solvers_reach_known_optima(formulation: Formulation, entry: SolverEntry, case: Case) -> None:
    """Exact solvers to the gap asked for, with a bound that proves it; heuristics never beyond; all of it verified."""
    skip_if_missing(formulation, entry)
    # The limit is no hurry, but leave: the eager mode stops after 50 ms unless told otherwise.
    result = solve(case.instance, solver=entry.name, gap=TOLERANCE, seed=1, time_limit_s=600.0)
    assert verify(case.instance, result).nothing_wrong
    assert result.solver == entry.name
    assert result.termination is Termination.COMPLETED
    if case.optimum is None:
        assert result.status is Status.INFEASIBLE
        assert result.infeasibility is not None
        assert result.infeasibility.relaxations or not case.instance.limits
        return
    optimum, sign = abs(case.optimum), 1.0 if case.instance.sense is Sense.MINIMISE else -1.0
    assert result.bound is None or sign * (result.bound - case.optimum) <= TOLERANCE * optimum
    if BoundProof.ENGINE in entry.proofs and result.status is not Status.OPTIMAL:
        # An engine's model may leave out a part of the costs; it says so, and its bound holds for the rest.
        assert any("so its bound is without them" in warning for warning in result.warnings)
        assert result.objective is None or result.objective >= case.optimum * (1 - 1e-9)
    elif entry.exact:
        assert result.status is Status.OPTIMAL
        assert result.bound_proof in entry.proofs
        assert result.objective == pytest.approx(case.optimum, rel=2 * TOLERANCE)
        assert result.bound is not None
        features = formulation.describe(case.instance).features
        planned = PLAN_TOLERANCE if "real-widths" in features else 2 * TOLERANCE
        assert build_plan(case.instance, result).objective == pytest.approx(case.optimum, rel=planned)
    elif result.objective is not None:
        assert result.status is Status.FEASIBLE or result.bound_proof in entry.proofs
        assert sign * (result.objective - case.optimum) >= -1e-9 * optimum
    again = solve(case.instance, solver=entry.name, gap=TOLERANCE, seed=1, time_limit_s=600.0)
    assert again.objective == result.objective
    assert again.solution == result.solution


@pytest.mark.parametrize("formulation", formulations().values(), ids=lambda f: f.name)
def test_every_solver_has_cases(formulation: Formulation) -> None:
    """A new formulation or solver brings instances with known optima; a feasible and an infeasible one at least."""
    for entry in formulation.solvers:
        optima = [case.optimum for f, e, case in PAIRS if (f, e) == (formulation, entry)]
        assert None in optima, f"no infeasible case for {entry.name} of {formulation.name}"
        assert any(optimum is not None for optimum in optima), f"no case for {entry.name} of {formulation.name}"


@pytest.mark.parametrize("formulation", formulations().values(), ids=lambda f: f.name)
def test_every_feature_has_cases(formulation: Formulation) -> None:
    """What a solver says it can do beyond the plain instances is tried."""
    needed = [(entry, formulation.describe(c.instance).features) for f, entry, c in PAIRS if f is formulation]
    for entry in formulation.solvers:
        # A solver of one limit alone takes no instance without it.
        own = {"most-gpus"} if entry.name == "capped-paths" else set()
        tried = [features - own for other, features in needed if other is entry]
        assert frozenset() in tried, f"no plain case for {entry.name} of {formulation.name}"
        for feature in sorted(entry.features - own):
            assert any(feature in features for features in tried), f"no case of {feature} for {entry.name}"


INFEASIBLE = [
    (formulation, case)
    for formulation in formulations().values()
    for case in {case.name: case for f, _, case in PAIRS if f is formulation and case.optimum is None}.values()
    if len([entry for f, entry, one in PAIRS if f is formulation and one is case]) > 1
]


@pytest.mark.parametrize(("formulation", "case"), INFEASIBLE, ids=[case.name for _, case in INFEASIBLE])
def test_all_solvers_give_the_same_reason(formulation: Formulation, case: Case) -> None:
    """Why there is no plan, and what would help, does not depend on who was asked.

    Only how much is enough for a pure plan within several limits some engines leave open: they never ask for more.
    """
    said = {
        entry.name: solve(case.instance, solver=entry.name).infeasibility
        for entry in formulation.solvers
        if _size_and_kind(entry, case.instance) and entry.available()
    }
    assert len(said) > 1
    known = [one for one in said.values() if one is not None and all(each.enough for each in one.relaxations)]
    assert len(set(known or said.values())) == 1, said
    for one in said.values() if known else ():
        assert one is not None
        assert (one.hopeless, one.factor) == (known[0].hopeless, known[0].factor)
        assert [each.limit for each in one.relaxations] == [each.limit for each in known[0].relaxations]
        for own, best in zip(one.relaxations, known[0].relaxations, strict=True):
            assert best.enough is not None
            assert own.enough in (None, best.enough)
            assert own.least_feasible <= best.enough * (1.0 + TOLERANCE), said


def test_limits_that_only_mixed_plans_keep_are_infeasible_for_pure_ones() -> None:
    """A load of 6 GPUs, and quotas of 4 and 3: no whole class fits one type, and half of it on each does.

    Whoever is asked says that there is no pure plan, proves it, and says which quotas would do and that mixed plans
    keep these; and so they do.
    """
    curve = {"form": "table", "gpus": [1], "speedup": [1.0]}
    changes = {
        "classes": {
            "bert": {
                "arrival_rate_per_hour": 1.0,
                "epoch_size_gpu_hours": [6.0],
                "speedup": {"t4": curve, "a100": curve},
            }
        },
        "gpu_types": {"t4": T4 | {"quota_gpus": 4.0}, "a100": A100 | {"quota_gpus": 3.0}},
        "budget": "100usd/hour",
    }
    pure = _typed(changes)
    formulation = formulation_of(pure)
    asked = [entry for entry in formulation.solvers if _size_and_kind(entry, pure) and entry.available()]
    assert len(asked) > 1
    for entry in asked:
        result = solve(pure, solver=entry.name)
        assert (result.status, result.termination) == (Status.INFEASIBLE, Termination.COMPLETED)
        assert result.infeasibility is not None
        assert "although mixed plans do (policy mixed)" in result.infeasibility.reason, entry.name
        least = {each.limit: each.least_feasible for each in result.infeasibility.relaxations}
        assert least == {"quota.t4": pytest.approx(6.0), "quota.a100": pytest.approx(6.0)}
        assert [each.limit for each in result.infeasibility.hopeless] == ["budget"]
        assert verify(pure, result).ok
    mixed = solve(pure.replace(policy=Policy.MIXED))
    assert mixed.status is Status.OPTIMAL
    assert mixed.objective == pytest.approx(6 * 3600.0)


@pytest.mark.parametrize("case", list(model_cases()), ids=operator.attrgetter("name"))
def test_declarative_model_has_the_known_optimum(case: Case) -> None:
    """The model that users hold has the optimum of the exact solvers; a relaxation bounds it and finds a plan."""
    is_real = getattr(case.instance, "problem", "") == Problem.CONTINUOUS
    stated = model(case.instance, engine="cvxpy" if is_real else "pyomo")
    result = stated.solve()
    if case.optimum is None:
        assert result.status is Status.INFEASIBLE
        assert result.infeasibility is not None
        return
    assert result.objective is not None
    assert result.bound is not None
    known = case.optimum
    if not stated.leaves_out:
        assert result.objective == pytest.approx(known, rel=TOLERANCE)
        return
    least, most = (result.bound, result.objective)
    if case.instance.sense is Sense.MAXIMISE:
        least, most = most, least
    assert least <= known * (1 + TOLERANCE)
    assert most >= known * (1 - TOLERANCE)
