"""RubberBand's and SEER's instances with known optima."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

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
from optplan.instances.library import build_named
from optplan.schema import FloatArray

from .known_optima import Case

#: What returns (N, 2) time and cost of every plan of a search: found once, and where tests are listed not at all.
Figures = Callable[[], FloatArray]


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
            figures = cache(partial(_judge_every_plan, _search(asked)))
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
    name: str, changes: dict[str, Any], figures: Figures, limits: tuple[int, ...] = (0, 1), too_small: float = 0.9
) -> Iterator[Case]:
    """Yield the search with limits on time (0) and on cost (1) between what two plans need, and with too small ones.

    ``too_small`` is a part of what plans need at least.
    """
    for limit in limits:
        for kind, part in (("", None), ("-infeasible", too_small)):
            amount = partial(_choose_amount, figures, limit, part)
            yield Case(
                f"{name}-{'budget' if limit else 'deadline'}{kind}",
                partial(_limit, changes, limit, amount),
                partial(_find_least, figures, limit, amount) if part is None else None,
                like=_limit(changes, limit, lambda: 1.0),
            )


def _choose_amount(figures: Figures, limit: int, part: float | None) -> float:
    """Choose an amount between what two plans need, or a part of what plans need at least."""
    amounts = np.unique(figures()[:, limit])
    third = amounts.size // 3
    return float(amounts[third : third + 2].mean()) if part is None else part * float(amounts[0])


def _limit(changes: dict[str, Any], limit: int, amount: Callable[[], float]) -> RubberBandInstance:
    """Return the search with a limit."""
    asked = {"deadline_s": amount()} if limit == 0 else {"objective": "time", "budget": f"{amount()!r}usd"}
    return _search(changes | asked)


def _find_least(figures: Figures, limit: int, amount: Callable[[], float]) -> float:
    """Return the least of what is not limited of the plans within the limit."""
    return float(figures()[figures()[:, limit] <= amount(), 1 - limit].min())


def _confident_cases(name: str, changes: dict[str, Any]) -> Iterator[Case]:
    """Yield the search, with noise, within a deadline that is kept in nine of ten cases."""
    noise = {"iteration_noise": {"form": "normal", "sd_s": 1.0}}
    changes = changes | {"training": noise, "cloud": changes.get("cloud", {}) | {"initialise_s": NOISY}}
    figures = cache(partial(_judge_every_plan, _search(changes)))
    # Only what is too little for the means is proven to be.
    yield from _search_cases(f"{name}-confident", changes, figures, limits=(0,), too_small=0.6)


def _both_confident_cases() -> Iterator[Case]:
    """Yield a search with noise within a deadline and a budget that are both kept in eight of ten cases."""
    noise = {"iteration_noise": {"form": "normal", "sd_s": 1.0}}
    changes = {"training": noise, "confidence": 0.8, "deadline_s": 120.0, "budget": "0.17usd"}
    for objective in ("cost", "time"):
        asked = _search(changes | {"objective": objective})
        yield Case(f"both-confident-{objective}", asked, partial(_find_least_within, asked))
    yield Case("both-confident-infeasible", _search(changes | {"budget": "0.1usd"}), None)


def _find_least_within(asked: RubberBandInstance) -> float:
    """Return the least objective of all plans of one bracket that keep the limits, which some do and some do not."""
    choices = itertools.product(*_list_allocations(asked, asked.brackets[0]))
    judged = [evaluate(asked, RubberBandSolution(brackets=(plan,))) for plan in choices]
    within = [one.objective for one in judged if all(check.holds for check in one.checks)]
    assert 0 < len(within) < len(judged)
    return min(within)


def seer_cases() -> Iterator[Case]:
    """Yield SEER's cases: the example of the paper, and small searches whose every choice is judged here."""
    example = build_named("seer-paper-example")
    assert isinstance(example, SeerInstance)
    yield Case("paper-example", example, 80.0)  # 56 units of 10/7 GPU-minutes, all of which can be spent
    # One trial of a minute fits, and 1.9 GPU-minutes pay no second one on one GPU.
    yield Case("one-trial", example.replace(deadline_min=1.0, budget="1.9gpu-min"), 1.0)
    for name, changes in BRACKETED.items():
        instance = example.replace(**changes)
        yield Case(name, instance, partial(_judge_every_choice, instance))
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
