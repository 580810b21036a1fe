"""Algorithm 2 (section 4.3): walk down from a warm start, one stage at a time, by marginal benefit.

A plan is one rung per stage, each on the stage's own ladder of allocations. What a plan takes and costs is whatever the
predictor says: the sampled simulator as in the paper, or the exact evaluator. Where the printed text leaves a choice,
this is what is done:

- The best candidate is the one with the largest benefit (1). A candidate that costs less and is no slower has no finite
  benefit and comes first; of several such ones that which saves most, and of equal ones that of the earliest stage. A
  candidate that does not cost less comes last, whatever the sign of the quotient.
- The walk ends when the best candidate does not cost less, to within a relative 1e-9, or breaks the deadline. It does
  not try the second best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optplan.formulations.rubberband.exact.bracket_choice import PricedChain
from optplan.progress import Stopwatch
from optplan.schema import IntArray
from optplan.solvers.limits import LIMIT_TOLERANCE

#: A candidate whose cost is lower by less than this, relatively, is no improvement (the paper's delta).
LEAST_SAVING = 1e-9


#: One rung per stage.
Rungs = tuple[int, ...]
Predictor = Callable[[Rungs], PricedChain]


@dataclass(frozen=True, eq=False)
class Ladder:
    """The allocations (A,) that a stage steps through, from the least to the largest."""

    gpus: IntArray
    instances: IntArray

    def below(self, instances: int, gpus: int) -> Ladder:
        """Return the ladder that ends with an allocation on some instances, above all rungs that fit on them."""
        fits = self.instances <= instances
        rows = np.flatnonzero(fits & ~((self.instances == instances) & (self.gpus >= gpus)))
        return Ladder(np.append(self.gpus[rows], gpus), np.append(self.instances[rows], instances))


def walk_down(
    start: Rungs, predict: Predictor, deadline_s: float, stopwatch: Stopwatch, *, skip: bool = False
) -> PricedChain:
    """Run the loop of Algorithm 2 from a warm start that keeps the deadline, and return the last plan accepted.

    Each is cheaper by the predictor than every one before it, and within the deadline. With ``skip`` candidates that
    break the deadline are passed over; as printed, the walk ends when the best one does.
    """
    most_s = deadline_s * (1.0 + LIMIT_TOLERANCE)
    best, now = start, predict(start)
    while not stopwatch.expired:
        candidates = list_candidates(best)
        predictions = [predict(candidate) for candidate in candidates]
        if skip:
            kept = [number for number, each in enumerate(predictions) if each.seconds <= most_s]
            candidates, predictions = [candidates[number] for number in kept], [predictions[number] for number in kept]
        if not candidates:
            return now
        chosen = max(range(len(candidates)), key=lambda number: benefit(now, predictions[number]))
        if not saves(now, predictions[chosen]) or predictions[chosen].seconds > most_s:
            return now
        best, now = candidates[chosen], predictions[chosen]
        stopwatch.emit("greedy steps", objective=now.usd)
    return now


def list_candidates(rungs: Rungs) -> list[Rungs]:
    """List the plans that differ from one by a rung down in one stage, by stage; at the foot there is none."""
    return [(*rungs[:stage], rung - 1, *rungs[stage + 1 :]) for stage, rung in enumerate(rungs) if rung > 0]


def saves(now: PricedChain, candidate: PricedChain) -> bool:
    """Whether a candidate costs less than the plan it comes from."""
    return candidate.usd < now.usd * (1.0 - LEAST_SAVING)


def benefit(now: PricedChain, candidate: PricedChain) -> tuple[int, float]:
    """Return the cost-marginal benefit (1) of a candidate, in an order of its own: rank and amount.

    Rank 2 costs less and is no slower, 1 costs less and is slower, 0 saves nothing. The amount is dollars saved, in
    rank 1 per second lost.
    """
    saved, lost = now.usd - candidate.usd, candidate.seconds - now.seconds
    if not saves(now, candidate):
        return 0, saved
    return (1, saved / lost) if lost > 0.0 else (2, saved)
