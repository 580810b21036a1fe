"""Searches that rent GPUs as they go, and random search: the baselines of SEER's section 6.3.

Where the section leaves something open, the function says what was assumed.
"""

from __future__ import annotations

import math
from itertools import islice

import numpy as np

from optplan.errors import InfeasibleError
from optplan.lab.searches.clock import TOLERANCE, SearchClock, SearchOutcome, SearchSetting, Trial


def run_random(setting: SearchSetting, rng: np.random.Generator) -> SearchOutcome:
    """Train one random configuration on all GPUs that the budget pays until the deadline."""
    gpus = setting.cluster_gpus
    clock = SearchClock(setting)
    trial = clock.add(next(setting.draw(rng)))
    clock.train(trial, gpus, minutes=setting.deadline_min)
    clock.wait_all()
    return clock.finish(cluster_gpus=gpus)


def run_grid(
    setting: SearchSetting, rng: np.random.Generator, *, least_gpus: int = 1, most_gpus: int = 4
) -> SearchOutcome:
    """Explore for half of the time, then train the best trial for the other half.

    As many random configurations as the budget leaves train on ``least_gpus`` each; the best goes on with
    ``most_gpus``.
    """
    half = setting.deadline_min / 2.0
    count = math.floor((setting.budget_gpu_min - most_gpus * half) / (least_gpus * half) * (1 + TOLERANCE))
    if count < 1:
        least = (least_gpus + most_gpus) * half
        message = f"grid search needs {least:g} GPU-minutes for one trial of each half, and the budget is"
        raise InfeasibleError(f"{message} {setting.budget_gpu_min:g}; raise the budget or lower most_gpus")
    clock = SearchClock(setting)
    for configuration in islice(setting.draw(rng), count):
        clock.train(clock.add(configuration), least_gpus, minutes=half)
    clock.wait_all()
    best = max(clock.trials, key=clock.merit)
    clock.train(best, most_gpus, minutes=clock.left_min)
    clock.wait_all()
    return clock.finish()


def run_hyperband(
    setting: SearchSetting,
    rng: np.random.Generator,
    *,
    eta: float = 4.0,
    least_round_min: float = 1.0,
    least_gpus: int = 1,
    most_gpus: int = 4,
) -> SearchOutcome:
    """Run the brackets of Hyperband side by side.

    The most time R of a configuration is the largest that keeps deadline and budget with ``least_gpus`` a trial; then
    every trial gets the most GPUs, up to ``most_gpus``, that the budget still pays (assumed: the paper gives this
    method a most_gpus, but no rule for its use). Trials go on from where they stopped, so that R is their time in all.
    """
    brackets, longest_min = _size_brackets(setting, eta, least_round_min, least_gpus)
    cost = longest_min * _weigh(brackets, eta)
    gpus = min(most_gpus, math.floor(setting.budget_gpu_min / cost * (1 + TOLERANCE)))
    clock = SearchClock(setting)
    draw = setting.draw(rng)
    running: dict[int, list[list[Trial]]] = {}
    owner: dict[int, int] = {}
    for bracket, (first, rounds) in enumerate(brackets):
        trials = [clock.add(configuration) for configuration in islice(draw, first)]
        running[bracket] = [trials, []]
        owner |= {trial.number: bracket for trial in trials}
        for trial in trials:
            clock.train(trial, gpus, minutes=longest_min * eta ** -(rounds - 1))
    done = dict.fromkeys(running, 1)
    while (ended := clock.wait()) is not None:
        bracket = owner[ended.number]
        own, finished = running[bracket]
        finished.append(ended)
        first, rounds = brackets[bracket]
        if len(finished) < len(own) or done[bracket] == rounds:
            continue
        ranked = sorted(own, key=clock.merit, reverse=True)
        kept = ranked[: max(1, min(len(own), math.floor(first * eta ** -done[bracket] + TOLERANCE)))]
        stage = longest_min * (eta ** (done[bracket] - rounds + 1) - eta ** (done[bracket] - rounds))
        running[bracket], done[bracket] = [kept, []], done[bracket] + 1
        for trial in kept:
            clock.train(trial, gpus, minutes=stage)
    return clock.finish()


def _size_brackets(
    setting: SearchSetting, eta: float, least_round_min: float, least_gpus: int
) -> tuple[list[tuple[int, int]], float]:
    """Return (trials at first, rounds) of each bracket, and the largest R in minutes that fits."""
    most = math.floor(math.log(setting.deadline_min / least_round_min, eta) + TOLERANCE)
    for rounds in range(most, -1, -1):
        brackets = [(math.ceil((rounds + 1) / (s + 1) * eta**s - TOLERANCE), s + 1) for s in range(rounds, -1, -1)]
        paid = setting.budget_gpu_min / (least_gpus * _weigh(brackets, eta))
        longest = min(setting.deadline_min, paid, least_round_min * eta ** (rounds + 1))
        if longest >= least_round_min * eta**rounds * (1 - TOLERANCE):
            return brackets, longest
    message = f"one trial on {least_gpus} GPUs for {least_round_min:g} min does not fit"
    raise InfeasibleError(
        f"{message} {setting.deadline_min:g} min and {setting.budget_gpu_min:g} GPU-minutes; raise them"
    )


def _weigh(brackets: list[tuple[int, int]], eta: float) -> float:
    """Return what all brackets cost with one GPU a trial, in units of R."""
    total = 0.0
    for first, rounds in brackets:
        passed = 0.0
        for round_number in range(rounds):
            reached = eta ** (round_number - rounds + 1)
            trials = max(1, math.floor(first * eta**-round_number + TOLERANCE))
            total += trials * (reached - passed)
            passed = reached
    return total
