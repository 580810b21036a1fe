"""Informed SEER: the plan with the least expected final loss under a prior, sought by sampling.

The paper says that an algorithm that knows how trials converge and scale could do better than one that does not, and
leaves it (end of section 4). Here it is a sample average approximation (Kleywegt, Shapiro, Homem-de-Mello, "The sample
average approximation method for stochastic discrete optimization", SIAM J. Optimization 12, 2002) by local search over
a family of plans (:mod:`optplan.formulations.seer.exact.family`):

1. Many plans are tried on a few of the choice samples, the better ones on more and more of them.
2. The best few, and the published plan, are improved step by step: a plan is left for the first of its neighbours
   that is better on the same samples.
3. The best of all on all choice samples is judged on fresh ones, next to the published plan. Where its gain is not
   above zero there (lower end of the 95 % confidence interval of the paired difference), the published plan is the
   answer.

All plans meet the same trials, so their differences are known far better than their losses. It is a heuristic
without a bound: nothing is proven of other plans, and choosing on samples favours plans to which these were kind. Fresh
samples say how good the choice is all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from optplan.contracts.result import Answer, SolveRequest, Termination
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.exact.answers import answer_with, infeasible_answer
from optplan.formulations.seer.exact.family import Candidate, Family
from optplan.formulations.seer.laws.expectation import (
    ChoiceSamples,
    Search,
    estimate_mean,
    require_prior,
    sample_report,
)
from optplan.progress import Stopwatch

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
