"""SEER and the baselines of its section 6.3 on the virtual clock: random, grid, Hyperband, ASHA, HyperSched.

Where the section leaves something open, the function says what was assumed. ASHA is Li et al., "A system for massively
parallel hyperparameter tuning"; HyperSched is Liaw et al., "HyperSched: dynamic resource reallocation for model
development on a deadline", whose published scheduler fixes what its text leaves open (how rungs are checked, when no
new trial starts, when GPUs are handed on). SEER is Algorithm 1 with the brackets of any of its solvers.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import numpy as np

from optplan.errors import InfeasibleError, UsageError
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.published.policy import SeerPolicy
from suites.search_clock import TOLERANCE, SearchClock, SearchOutcome, SearchSetting, Trial


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
    plans, longest_min = _size_brackets(setting, eta, least_round_min, least_gpus)
    gpus = min(most_gpus, math.floor(setting.budget_gpu_min / (longest_min * _weigh(plans)) * (1 + TOLERANCE)))
    clock = SearchClock(setting)
    draw = setting.draw(rng)
    owner: dict[int, Bracket] = {}
    for sizes, shares in plans:
        bracket = Bracket(sizes, shares)
        bracket.waiting = [clock.add(configuration) for configuration in islice(draw, sizes[0])]
        owner |= {trial.number: bracket for trial in bracket.waiting}
        _train_all(bracket, clock, gpus, longest_min)
    while (ended := clock.wait()) is not None:
        bracket = owner[ended.number]
        bracket.end(ended, clock)
        _train_all(bracket, clock, gpus, longest_min)
    return clock.finish()


def _train_all(bracket: Bracket, clock: SearchClock, gpus: int, longest_min: float) -> None:
    """Let all trials that wait in a bracket train until the end of its stage."""
    before = bracket.shares[bracket.stage - 1] if bracket.stage else 0.0
    bracket.training, waiting, bracket.waiting = bracket.training + len(bracket.waiting), bracket.waiting, []
    for trial in waiting:
        clock.train(trial, gpus, minutes=longest_min * (bracket.shares[bracket.stage] - before))


#: Of a bracket of Hyperband: trials of each stage, and the share of the most training that they have had at its end.
Stages: TypeAlias = tuple[tuple[int, ...], tuple[float, ...]]


def plan_brackets(most_rounds: int, eta: float) -> list[Stages]:
    """Return the stages of Hyperband's brackets, the one with most trials first."""
    plans = []
    for rounds in range(most_rounds, -1, -1):
        first = math.ceil((most_rounds + 1) / (rounds + 1) * eta**rounds - TOLERANCE)
        sizes = tuple(max(1, math.floor(first * eta**-stage + TOLERANCE)) for stage in range(rounds + 1))
        plans.append((sizes, tuple(eta ** (stage - rounds) for stage in range(rounds + 1))))
    return plans


@dataclass
class Bracket:
    """One run of successive halving: what is to be started, what trains, and what has come back."""

    sizes: tuple[int, ...]
    shares: tuple[float, ...]
    stage: int = 0
    #: Configurations of the first stage that are still to be drawn.
    undrawn: int = 0
    waiting: list[Trial] = field(default_factory=list)
    training: int = 0
    ended: list[Trial] = field(default_factory=list)

    def end(self, trial: Trial, clock: SearchClock) -> None:
        """Take a trial back; the best ones wait for the next stage once this one is complete."""
        self.training -= 1
        self.ended.append(trial)
        self.advance(clock)

    def advance(self, clock: SearchClock) -> None:
        """Begin the next stage if this one is complete."""
        if self.undrawn or self.waiting or self.training or self.stage + 1 == len(self.sizes):
            return
        ranked = sorted(self.ended, key=clock.merit, reverse=True)
        self.stage += 1
        self.waiting, self.ended = ranked[: self.sizes[self.stage]], []


def _size_brackets(
    setting: SearchSetting, eta: float, least_round_min: float, least_gpus: int
) -> tuple[list[Stages], float]:
    """Return the brackets, and the largest R in minutes that fits."""
    most = math.floor(math.log(setting.deadline_min / least_round_min, eta) + TOLERANCE)
    for rounds in range(most, -1, -1):
        plans = plan_brackets(rounds, eta)
        paid = setting.budget_gpu_min / (least_gpus * _weigh(plans))
        longest = min(setting.deadline_min, paid, least_round_min * eta ** (rounds + 1))
        if longest >= least_round_min * eta**rounds * (1 - TOLERANCE):
            return plans, longest
    message = f"one trial on {least_gpus} GPUs for {least_round_min:g} min does not fit"
    raise InfeasibleError(
        f"{message} {setting.deadline_min:g} min and {setting.budget_gpu_min:g} GPU-minutes; raise them"
    )


def _weigh(plans: Sequence[Stages]) -> float:
    """Return what all brackets cost with one GPU a trial, in units of R."""
    total = 0.0
    for sizes, shares in plans:
        for trials, reached, passed in zip(sizes, shares, (0.0, *shares), strict=False):
            total += trials * (reached - passed)
    return total


#: HyperSched: results that a trial gives between two changes of its GPUs, and how much further it must get by one.
_RECHARGE_RESULTS = 5
_WORTHWHILE = 1.1


def run_asha(
    setting: SearchSetting, rng: np.random.Generator, *, eta: float = 4.0, least_epochs: float = 1.0
) -> SearchOutcome:
    """Promote trials rung by rung as GPUs fall free, one GPU a trial.

    A free GPU goes on with the best trial that is among the best 1/eta of its rung, of the highest rung that has one;
    where there is none, it tries a new configuration. The last rung is what one GPU passes until the deadline.
    """
    gpus = setting.cluster_gpus
    clock = SearchClock(setting)
    draw = setting.draw(rng)
    marks = _place_rungs(least_epochs, setting.most_epochs, eta)
    rungs: list[list[Trial]] = [[] for _ in marks]
    promoted: list[set[int]] = [set() for _ in marks]
    level: dict[int, int] = {}

    def choose() -> tuple[Trial, int] | None:
        for rung in range(len(marks) - 2, -1, -1):
            best = sorted(rungs[rung], key=clock.merit, reverse=True)[: math.floor(len(rungs[rung]) / eta)]
            for trial in best:
                if trial.number not in promoted[rung]:
                    promoted[rung].add(trial.number)
                    return trial, rung + 1
        configuration = next(draw, None)
        return None if configuration is None else (clock.add(configuration), 0)

    free, ended = gpus, None
    while True:
        while free and (chosen := choose()) is not None:
            trial, rung = chosen
            level[trial.number] = rung
            clock.train(trial, 1, epochs=marks[rung])
            free -= 1
        ended = clock.wait()
        if ended is None:
            return clock.finish(cluster_gpus=gpus)
        free += 1
        rungs[level[ended.number]].append(ended)


@dataclass
class _Rung:
    """What was seen of trials when they first passed a mark, and which of them wait there."""

    mark_epochs: float
    seen: dict[int, float] = field(default_factory=dict)
    paused: list[Trial] = field(default_factory=list)
    ranked: list[float] = field(default_factory=list)

    def see(self, trial: Trial, merit: float) -> float:
        """Return what a trial showed when it first passed the mark, which is now if it never did."""
        if trial.number not in self.seen:
            self.seen[trial.number] = merit
            insort(self.ranked, merit)
        return self.seen[trial.number]

    def cutoff(self, eta: float) -> float:
        """Return the quantile that a trial has to reach; minus infinity while there is nothing to compare with."""
        if len(self.ranked) < 2:
            return -math.inf
        below, share = divmod((1 - 1 / eta) * (len(self.ranked) - 1), 1.0)
        low, high = self.ranked[int(below)], self.ranked[min(int(below) + 1, len(self.ranked) - 1)]
        return high if low == high else low + share * (high - low) if math.isfinite(low) else low


class _HyperSched:
    """One run of HyperSched."""

    def __init__(self, setting: SearchSetting, rng: np.random.Generator, eta: float, least_epochs: float) -> None:
        self.setting, self.eta = setting, eta
        self.gpus = setting.cluster_gpus
        self.clock = SearchClock(setting)
        self.draw = setting.draw(rng)
        marks = _place_rungs(least_epochs, setting.most_epochs, eta)
        self.rungs = [_Rung(mark) for mark in reversed(marks)]
        #: Trials that train, with the results that each still gives before its GPUs may change.
        self.recharge: dict[int, int] = {}
        self.training: dict[int, Trial] = {}
        self.free = self.gpus
        self.trained_min: dict[int, float] = {}

    def run(self) -> SearchOutcome:
        """Run until the deadline."""
        self.fill()
        while (trial := self.clock.wait()) is not None:
            held = trial.last_gpus
            self.trained_min[trial.number] = self.trained_min.get(trial.number, 0.0) + (
                self.clock.now_min - trial.since_min
            )
            self.free += held
            if self.check(trial):
                self.recharge[trial.number] -= 1
                self.go_on(trial, self.resize(trial, held))
            else:
                del self.training[trial.number], self.recharge[trial.number]
            self.fill()
        return self.clock.finish(cluster_gpus=self.gpus)

    def merit(self, trial: Trial) -> float:
        value = self.clock.value(trial)
        return -math.inf if math.isnan(value) else value

    def check(self, trial: Trial) -> bool:
        """Whether a trial may go on; one that is below the cutoff of any rung that it has passed waits there."""
        for rung in self.rungs:
            passed = trial.epochs >= rung.mark_epochs
            if passed and rung.see(trial, self.merit(trial)) < rung.cutoff(self.eta):
                rung.paused.append(trial)
                return False
        return True

    def fill(self) -> None:
        """Give free GPUs to waiting trials that deserve it, and to new ones, unless it is too late for that."""
        while self.free and not self.is_late():
            trial = self.promote()
            if trial is None:
                configuration = next(self.draw, None)
                if configuration is None:
                    return
                trial = self.clock.add(configuration)
            self.training[trial.number], self.recharge[trial.number] = trial, _RECHARGE_RESULTS
            self.go_on(trial, 1)

    def is_late(self) -> bool:
        """Whether a new trial could not catch up: it would have less than eta times the longest training so far."""
        longest = max(self.trained_min.values(), default=0.0) * self.eta
        return self.clock.left_min < min(longest, self.setting.deadline_min)

    def promote(self) -> Trial | None:
        """Return the best waiting trial of the highest rung whose cutoff it has come to meet."""
        for rung in self.rungs:
            cutoff = rung.cutoff(self.eta)
            for trial in sorted(rung.paused, key=lambda one: (-rung.seen[one.number], one.number)):
                if rung.seen[trial.number] >= cutoff:
                    rung.paused.remove(trial)
                    return trial
        return None

    def resize(self, trial: Trial, held: int) -> int:
        """Return the GPUs that a trial goes on with: its share, if that changes enough and can be had."""
        if self.recharge[trial.number] >= 0:
            return held
        share = self.share_out()[trial.number]
        if share == held:
            return held
        if share > held:
            pace, left = self.clock.pace, self.clock.left_min
            further = pace(share) * (left - self.setting.resize_min)
            if share > self.free or not further > _WORTHWHILE * pace(held) * left:
                return held
        self.recharge[trial.number] = _RECHARGE_RESULTS
        return share

    def share_out(self) -> dict[int, int]:
        """Share all GPUs evenly among the trials that train; what is left over goes to the best."""
        ranked = sorted(self.training.values(), key=lambda one: (-self.merit(one), one.number))
        each, over = divmod(self.gpus, len(ranked))
        return {trial.number: each + (place < over) for place, trial in enumerate(ranked)}

    def go_on(self, trial: Trial, gpus: int) -> None:
        self.free -= gpus
        self.clock.train(trial, gpus, epochs=math.floor(trial.epochs + 1e-6) + 1.0)


def run_hypersched(
    setting: SearchSetting, rng: np.random.Generator, *, eta: float = 4.0, least_epochs: float = 1.0
) -> SearchOutcome:
    """Explore with one GPU a trial, stop exploring as the deadline comes near, and hand free GPUs to those that train.

    After every epoch a trial is compared with the rungs that it has passed, with what it showed there first: below the
    best 1/eta it waits. A free GPU goes on with a waiting trial that has come to meet its cutoff, or tries a new
    configuration, unless less time is left than eta times the longest training so far. GPUs are shared evenly among the
    trials that train, and a trial takes a larger share when that gets it a tenth further by the deadline, the pause of
    the resize included, at the earliest after five results.
    """
    return _HyperSched(setting, rng, eta, least_epochs).run()


def _place_rungs(least_epochs: float, most_epochs: float, eta: float) -> list[float]:
    """Return the marks of the rungs: least_epochs times powers of eta, and the most."""
    count = math.floor(math.log(max(1.0, most_epochs / least_epochs), eta) + TOLERANCE)
    marks = [least_epochs * eta**power for power in range(count + 1)]
    return marks if marks[-1] >= most_epochs * (1 - TOLERANCE) else [*marks, most_epochs]


def run_seer(
    setting: SearchSetting, rng: np.random.Generator, *, instance: SeerInstance, solution: SeerSolution
) -> SearchOutcome:
    """Run the rounds and brackets of a solution; the returned trial is the best of the last round.

    Parameters
    ----------
    setting
        What there is; its deadline has to leave room for all rounds.
    rng
        Draws configurations, without repetition.
    instance, solution
        The problem that was solved, and how many trials train in each round.

    Raises
    ------
    UsageError
        When a trial holds a fraction of a GPU, or the rounds end after the deadline.
    """
    places = sum(bracket.trials[0] for bracket in solution.brackets)
    configurations = list(islice(setting.draw(rng), places))
    policy = SeerPolicy(instance, solution, configurations)
    clock = SearchClock(setting)
    trials: dict[int, Trial] = {}
    while (stage := policy.next_stage()) is not None:
        if stage.stop_min > setting.deadline_min * (1 + TOLERANCE):
            message = f"round {stage.number} ends after {stage.stop_min:g} min, and the deadline is"
            raise UsageError(f"{message} {setting.deadline_min:g} min; simulate the instance that was solved")
        for request in stage.requests:
            trial = trials.get(request.trial) or trials.setdefault(request.trial, clock.add(request.configuration))
            pause_min = request.minutes - request.training_min
            if request.gpus != int(request.gpus):
                message = f"a trial on {request.gpus:g} GPUs cannot be simulated; set whole_gpus in the instance"
                raise UsageError(message)
            clock.train(trial, int(request.gpus), minutes=request.minutes, pause_min=pause_min)
        clock.wait_all()
        policy.report({request.trial: -clock.value(trials[request.trial]) for request in stage.requests})
    return clock.finish(best=trials[policy.best])
