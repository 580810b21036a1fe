"""Informed SEER: the plan with the least expected final loss under a prior, sought by sampling.

The paper says that an algorithm that knows how trials converge and scale could do better than one that does not, and
leaves it (end of section 4). Here it is a sample average approximation (Kleywegt, Shapiro, Homem-de-Mello, "The sample
average approximation method for stochastic discrete optimization", SIAM J. Optimization 12, 2002) by local search over
a family of plans:

1. Many plans are tried on a few of the choice samples, the better ones on more and more of them.
2. The best few, and the published plan, are improved step by step: a plan is left for the first of its neighbours
   that is better on the same samples.
3. The best of all on all choice samples is judged on fresh ones, next to the published plan. Where its gain is not
   above zero there (lower end of the 95 % confidence interval of the paired difference), the published plan is the
   answer.

All plans meet the same trials, so their differences are known far better than their losses. It is a heuristic
without a bound: nothing is proven of other plans, and choosing on samples favours plans to which these were kind. Fresh
samples say how good the choice is all the same.

The plans among which informed SEER chooses: numbers of rounds, lengths, numbers of GPUs, and numbers of trials.

A plan of the family has

- at most :data:`~optplan.formulations.seer.data.instance.MOST_SAMPLED_ROUNDS` rounds, the first of them between the
  shortest one allowed and the one with which the last round ends at the deadline;
- brackets of p_min, p_min nu, p_min nu^2, ... and p_max GPUs a trial, without those that are no faster under the prior
  than a narrower one;
- any number of trials N in each, of which floor(N / eta^(k-1)) train in round k: as many as the budget pays and the
  cluster has room for, no more than the search space has or can be sampled, and at least one to the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, permutations

import numpy as np

from optplan.contracts.result import Answer, SolveRequest, Termination
from optplan.formulations.seer.data.brackets import ROUNDING, floor_loosely
from optplan.formulations.seer.data.instance import (
    MOST_SAMPLED_ROUNDS,
    MOST_SAMPLED_TRIALS,
    Bracket,
    SeerInstance,
    SeerSolution,
)
from optplan.formulations.seer.data.prior import ParametricPrior, TablePrior
from optplan.formulations.seer.data.search_space import count_configurations
from optplan.formulations.seer.exact.answers import answer_with, infeasible_answer
from optplan.formulations.seer.laws.expectation import (
    ChoiceSamples,
    Search,
    estimate_mean,
    require_prior,
    sample_report,
)
from optplan.progress import Stopwatch
from optplan.schema import FloatArray

#: Ratio of neighbouring lengths of the first round, and most lengths for each number of rounds.
_STEP, _MOST_LENGTHS = 2.0**0.5, 16
#: Shares of the budget that the narrower of two brackets gets at first; with many widths only the middle one is tried.
_SHARES, _FEW_WIDTHS = (0.5, 0.25, 0.75), 4
#: Parts of its trials that a bracket gains or loses in a step, one trial at least.
_COARSE, _FINE = 4, 32
#: Most brackets of different widths.
_MOST_WIDTHS = 16


@dataclass(frozen=True)
class Candidate:
    """A plan of the family."""

    #: K and t_1.
    rounds: int
    round_min: float
    trials: tuple[int, ...]  # N of each width of the family, from the narrowest; zeros where there is no bracket


class Family:
    """The plans of an instance that informed SEER looks at; of its prior only the scaling counts."""

    def __init__(self, instance: SeerInstance, prior: ParametricPrior | TablePrior) -> None:
        self._instance = instance
        self._budget = instance.budget_gpu_min * (1.0 + ROUNDING)
        most = math.inf if instance.most_gpus_held is None else instance.most_gpus_held
        self._cluster_gpus = most * (1.0 + ROUNDING)
        #: GPUs of a trial, ascending.
        self.widths = _list_widths(instance, prior)
        self._most_trials = min(MOST_SAMPLED_TRIALS, count_configurations(instance.search_space) or MOST_SAMPLED_TRIALS)
        self._unit_costs = lru_cache(maxsize=256)(self._list_unit_costs)

    def list_first(self) -> list[Candidate]:
        """List what is tried first: for all lengths of rounds, one width, two, and all of them."""
        numbers = range(len(self.widths))
        divisions = [{width: 1.0} for width in numbers]
        for one, other in combinations(numbers, 2):
            shares = _SHARES if len(numbers) <= _FEW_WIDTHS else _SHARES[:1]
            divisions += [{one: share, other: 1.0 - share} for share in shares]
        if len(numbers) > 2:
            divisions.append(dict.fromkeys(numbers, 1.0 / len(numbers)))
        plans = (
            self._fill(rounds, round_min, [division.get(width, 0.0) for width in numbers])
            for rounds in range(1, MOST_SAMPLED_ROUNDS + 1)
            for round_min in self._list_lengths(rounds)
            for division in divisions
        )
        return list(filter(None, plans))

    def list_neighbours(self, candidate: Candidate) -> Iterator[Candidate | None]:
        """List the plans next to one: other lengths or numbers of rounds, other trials, budget moved elsewhere.

        None stands for those that the limits do not allow.
        """
        rounds, round_min, trials = candidate.rounds, candidate.round_min, candidate.trials
        costs = self._unit_costs(rounds, round_min)
        shares = [gpus * float(costs[number]) for gpus, number in zip(self.widths, trials, strict=True)]
        for step in (_STEP**0.25, _STEP):
            for length in (round_min * step, round_min / step):
                yield self._refill(rounds, length, shares)
        for number in (rounds - 1, rounds + 1):
            if 1 <= number <= MOST_SAMPLED_ROUNDS:
                yield self._refill(number, round_min * self._stretch(rounds) / self._stretch(number), shares)
        for width, number in enumerate(trials):
            small, large = max(1, number // _FINE), max(1, number // _COARSE)
            for step in dict.fromkeys((large, -large, small, -small)):
                yield self._lengthen(rounds, (*trials[:width], number + step, *trials[width + 1 :]))
        for giver, taker in permutations(range(len(trials)), 2):
            given = trials[giver]
            for less in sorted({max(1, given // _FINE), max(1, given // _COARSE), given}) if given else ():
                yield self._move(candidate, costs, giver, taker, less)

    def find(self, solution: SeerSolution) -> Candidate | None:
        """Return the plan of the family that a solution is; None if there is none."""
        trials = [0] * len(self.widths)
        for bracket in solution.brackets:
            known = [n for n, gpus in enumerate(self.widths) if abs(gpus - bracket.gpus) <= ROUNDING * gpus]
            if not known:
                return None
            trials[known[0]] = bracket.trials[0]
        if solution.rounds > MOST_SAMPLED_ROUNDS:
            return None
        return self._check(Candidate(solution.rounds, solution.round_min, tuple(trials)))

    def write(self, candidate: Candidate) -> SeerSolution:
        """Write a plan as a solution."""
        eta = self._instance.eta
        brackets = tuple(
            Bracket(gpus=gpus, trials=tuple(floor_loosely(number / eta**k) for k in range(candidate.rounds)))
            for gpus, number in zip(self.widths, candidate.trials, strict=True)
            if number
        )
        return SeerSolution(round_min=candidate.round_min, rounds=candidate.rounds, brackets=brackets)

    def _stretch(self, rounds: int) -> float:
        """Return by how many times all rounds together are longer than the first."""
        return float(sum(self._instance.eta**number for number in range(rounds)))

    def _longest(self, rounds: int) -> float:
        """Return the longest first round with which the last one ends at the deadline."""
        return (self._instance.deadline_min - (rounds - 1) * self._instance.resize_min) / self._stretch(rounds)

    def _list_lengths(self, rounds: int) -> list[float]:
        """List lengths of the first round, from the longest on."""
        least, longest = self._instance.least_round_min, self._longest(rounds)
        if longest < least:
            return []
        octaves = math.log(longest / least) / math.log(_STEP)
        count = min(_MOST_LENGTHS, math.ceil(octaves - ROUNDING) + 1)
        return np.geomspace(longest, least, count).tolist() if count > 1 else [longest]

    def _list_unit_costs(self, rounds: int, round_min: float) -> FloatArray:
        """Return what 0, 1, 2, ... trials on one GPU take in all rounds, as many as the budget may pay."""
        eta, pause = self._instance.eta, self._instance.resize_min
        most = min(float(self._most_trials), self._budget / (self.widths[0] * round_min))
        numbers = np.arange(math.floor(most) + 1)
        costs = np.zeros(numbers.size)
        for k in range(rounds):
            minutes = round_min * eta**k + (pause if k else 0.0)
            costs += minutes * np.floor(numbers * (1.0 + ROUNDING) / eta**k)
        return costs

    def _refill(self, rounds: int, round_min: float, shares: Sequence[float]) -> Candidate | None:
        """Return the plan of other rounds that divides the budget alike, if they are allowed."""
        least = self._instance.least_round_min
        length = min(max(round_min, least), self._longest(rounds))
        return self._fill(rounds, length, shares) if length >= least else None

    def _fill(self, rounds: int, round_min: float, shares: Sequence[float]) -> Candidate | None:
        """Divide the budget by shares; what is left over goes to the brackets that have any, the narrowest first."""
        costs, total = self._unit_costs(rounds, round_min), sum(shares)
        trials = [
            min(self._count(costs, gpus, self._budget * share / total), self._fit(gpus, share / total)) if share else 0
            for gpus, share in zip(self.widths, shares, strict=True)
        ]
        for number, share in enumerate(shares):
            if share:
                self._grow(costs, trials, number)
        return self._check(Candidate(rounds, round_min, tuple(trials)))

    def _lengthen(self, rounds: int, trials: tuple[int, ...]) -> Candidate | None:
        """Return the plan of these trials whose rounds are as long as deadline and budget allow, if there is one."""
        if min(trials) < 0 or sum(trials) > self._most_trials:
            return None
        eta, pause = self._instance.eta, self._instance.resize_min
        units = pauses = 0.0  # GPU-minutes of training by the length of the first round; and of pausing
        for k in range(rounds):
            pairs = zip(self.widths, trials, strict=True)
            gpus = sum(width * floor_loosely(number / eta**k) for width, number in pairs)
            units += eta**k * gpus
            pauses += gpus * (pause if k else 0.0)
        if not units:
            return None
        round_min = min(self._longest(rounds), (self._instance.budget_gpu_min - pauses) / units)
        allowed = round_min >= self._instance.least_round_min
        return self._check(Candidate(rounds, round_min, trials)) if allowed else None

    def _move(self, candidate: Candidate, costs: FloatArray, giver: int, taker: int, less: int) -> Candidate | None:
        """Take some trials from one bracket, and give another as many as the budget then pays."""
        trials = list(candidate.trials)
        trials[giver] -= less
        self._grow(costs, trials, taker)
        if trials[taker] == candidate.trials[taker]:
            return None
        self._grow(costs, trials, giver)
        return self._check(Candidate(candidate.rounds, candidate.round_min, tuple(trials)))

    def _grow(self, costs: FloatArray, trials: list[int], number: int) -> None:
        """Give a bracket as many trials as the rest of the budget pays."""
        others = [gpus * float(costs[n]) for gpus, n in zip(self.widths, trials, strict=True)]
        left = self._budget - sum(others) + others[number]
        held = sum(gpus * trials[n] for n, gpus in enumerate(self.widths) if n != number)
        room = self._most_trials - sum(trials) + trials[number]
        room = min(room, self._fit(self.widths[number], 1.0, held))
        trials[number] = max(trials[number], min(room, self._count(costs, self.widths[number], left)))

    def _fit(self, gpus: float, share: float, held: float = 0.0) -> int:
        """Return how many trials a share of the cluster has room for, beside others."""
        left = (self._cluster_gpus * share - held) / gpus
        return math.floor(min(left, self._most_trials))

    @staticmethod
    def _count(costs: FloatArray, gpus: float, amount: float) -> int:
        return max(0, int(np.searchsorted(costs, amount / gpus, side="right")) - 1)

    def _check(self, candidate: Candidate) -> Candidate | None:
        """Return a candidate of which a trial is trained to the end, within the limits."""
        costs = self._unit_costs(candidate.rounds, candidate.round_min)
        if max(candidate.trials) >= costs.size or sum(candidate.trials) > self._most_trials:
            return None
        spent = sum(gpus * float(costs[n]) for gpus, n in zip(self.widths, candidate.trials, strict=True))
        last = max(candidate.trials) * (1.0 + ROUNDING) >= self._instance.eta ** (candidate.rounds - 1)
        held = sum(gpus * number for gpus, number in zip(self.widths, candidate.trials, strict=True))
        return candidate if last and spent <= self._budget and held <= self._cluster_gpus else None


def _list_widths(instance: SeerInstance, prior: ParametricPrior | TablePrior) -> tuple[float, ...]:
    """List the GPUs that a bracket may give a trial: each faster than all narrower ones."""
    most = math.inf if instance.most_gpus is None else instance.most_gpus
    most = min(most, math.inf if instance.most_gpus_held is None else instance.most_gpus_held * (1.0 + ROUNDING))
    payable = min(most, instance.budget_gpu_min * (1.0 + ROUNDING) / instance.least_round_min)
    listed = [instance.least_gpus]
    if instance.nu > 1.0:
        listed += [instance.least_gpus * instance.nu**power for power in range(1, _MOST_WIDTHS)]
    if instance.most_gpus is not None:
        listed.append(instance.most_gpus)
    if instance.whole_gpus:
        listed = [float(floor_loosely(each)) for each in listed]
    widths: list[float] = []
    for each in sorted(set(listed)):
        if each <= payable and (not widths or prior.scaling.of(each) > prior.scaling.of(widths[-1]) * (1.0 + ROUNDING)):
            widths.append(each)
    return tuple(widths)


#: How many plans are kept of those tried, and on how many samples, at most, those that are kept are tried next.
_NARROWING = ((48, 500), (8, 500))
#: Samples on which everything is tried first: at least so many, and more while the work stays small.
_FEWEST, _FIRST = 40, 200
#: Trials trained for a round, over all samples, that the first pass and the whole search may take.
_FIRST_WORK, _MOST_WORK = 15_000_000.0, 100_000_000.0


def solve_informed(
    instance: SeerInstance, request: SolveRequest, *, most_work: float = _MOST_WORK
) -> Answer[SeerSolution]:
    """Look for the plan with the least expected final loss; return the published one where none is better."""
    uninformed = instance.published
    if uninformed is None:
        return infeasible_answer(instance)
    search = _PlanSearch(instance, request.stopwatch, most_work)
    chosen = search.choose(uninformed)
    searches = [Search.of(instance, each) for each in (chosen, uninformed)]
    losses, uninformed_losses = sample_report(require_prior(instance), searches)
    gain = estimate_mean(uninformed_losses - losses)
    figures = f"{gain.mean:.4g} of loss", f"(95 % interval {gain.low:.4g} to {gain.high:.4g})"
    if chosen != uninformed and gain.low > 0.0:
        note = f"the prior buys {figures[0]} over the published plan {figures[1]}"
    else:
        found = "no plan that was looked at is better on the choice samples"
        if chosen != uninformed:
            found = f"the best plan found gains {' '.join(figures)}"
        note = f"the prior buys nothing that sampling can tell from zero: {found}; this is the published plan"
        chosen, losses = uninformed, uninformed_losses
    return answer_with(
        instance,
        request,
        chosen,
        loss=estimate_mean(losses).mean,
        notes=(note,),
        termination=search.stopped_by or Termination.COMPLETED,
        counters={"plans": float(search.plans), "rounds_of_trials": search.work},
    )


@dataclass
class _PlanSearch:
    """The search on the choice samples, and what it has taken so far."""

    instance: SeerInstance
    stopwatch: Stopwatch  # for its time limit
    most_work: float  # trials trained for a round, over all samples, after which it ends
    plans: int = 0
    #: Trials trained for a round, over all samples.
    work: float = 0.0
    stopped_by: Termination | None = None
    _known: dict[tuple[Candidate, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """List what there is to choose from; samples are drawn as they are needed."""
        prior = require_prior(self.instance)
        self._samples = ChoiceSamples(prior)
        self._family = Family(self.instance, prior)

    def choose(self, uninformed: SeerSolution) -> SeerSolution:
        """Return the best plan found, the published one among them."""
        everything = self._samples.size
        first = self._family.list_first()
        known = self._family.find(uninformed)
        if known is not None:
            first.append(known)
        best = self._narrow(list(dict.fromkeys(first)))
        if known is not None and known not in best:
            best.append(known)
        improved = [self._improve(each, min(_NARROWING[0][1], everything)) for each in best]
        finalists = self._rank(list(dict.fromkeys(improved)), everything)[:1]
        polished = [self._improve(each, everything) for each in finalists]
        if not polished:
            return uninformed
        losses = self._samples.losses_of(Search.of(self.instance, uninformed), everything)
        return self._family.write(polished[0]) if self._loss(polished[0], everything) < losses.mean() else uninformed

    def _narrow(self, plans: list[Candidate]) -> list[Candidate]:
        """Keep the best of some plans, on few samples at first."""
        total = sum(self._weigh(plan) for plan in plans)
        samples = int(min(_FIRST, max(_FEWEST, _FIRST_WORK / max(1.0, total)), self._samples.size))
        step = max(1, round(total * samples / (2 * _FIRST_WORK)))
        plans = plans[::step]
        for kept, more in _NARROWING:
            plans = self._rank(plans, samples)[:kept]
            samples = min(more, self._samples.size)
        return plans

    def _rank(self, plans: Sequence[Candidate], samples: int) -> list[Candidate]:
        """Order plans by their loss in the first samples, the best first; those that there is no time for are last."""
        losses = {}
        for number, plan in enumerate(plans):
            if self._stops():
                break
            losses[plan] = self._loss(plan, samples)
            if number % 64 == 0:
                self.stopwatch.emit("plans", objective=min(losses.values()))
        return sorted(losses, key=lambda plan: losses[plan]) if losses else list(plans)

    def _improve(self, plan: Candidate, samples: int) -> Candidate:
        """Go to the first better neighbour, again and again."""
        best = self._loss(plan, samples)
        improved = True
        while improved and not self._stops():
            improved = False
            for other in filter(None, self._family.list_neighbours(plan)):
                if self._stops():
                    break
                loss = self._loss(other, samples)
                if loss < best:
                    plan, best, improved = other, loss, True
                    self.stopwatch.emit("plans", objective=best)
                    break
        return plan

    def _loss(self, plan: Candidate, samples: int) -> float:
        found = self._known.get((plan, samples))
        if found is None:
            losses = self._samples.losses_of(Search.of(self.instance, self._family.write(plan)), samples)
            found = self._known[plan, samples] = float(losses.mean())
            self.plans += 1
            self.work += samples * self._weigh(plan)
        return found

    def _weigh(self, plan: Candidate) -> float:
        return sum(plan.trials) * sum(self.instance.eta**-k for k in range(plan.rounds))

    def _stops(self) -> bool:
        if self.stopwatch.expired:
            self.stopped_by = Termination.TIME_LIMIT
        elif self.work > self.most_work:
            self.stopped_by = self.stopped_by or Termination.WORK_LIMIT
        return self.stopped_by is not None
