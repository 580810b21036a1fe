"""Spending a budget that counts whole nodes: the best rows of all brackets, the longest training first.

What nodes take is not the sum of what brackets take: trials of several brackets share nodes. So choices of rows for the
wider brackets are kept by the GPUs that they hold in each round, and none is dropped because another one spends less.
All GPUs of a round, divided by those of a node and rounded up, are a bound on its nodes, with which the longest row of
the narrowest bracket is looked up. Complete choices are then taken by decreasing training, and their nodes counted; the
first one that keeps the budget is the best.

Where sizes and node divide one another in a row (1, 2, 4 GPUs on nodes of 8), the bound is the number of nodes. Then
for whole eta there is no need for eta^(K-1) p_min / gcd(P, p_min) trials or more above the published ones on P GPUs,
because so many hold as much in all rounds as P / gcd(P, p_min) eta^(K-1) trials on p_min GPUs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.result import Termination
from optplan.formulations.seer.exact.rows import BracketRows, SpendProblem
from optplan.formulations.seer.laws.rounds import divide_evenly
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

#: Most choices of rows of all brackets but the narrowest, and most complete choices whose nodes are counted.
MOST_CHOICES = 400_000
MOST_COUNTED = 100_000
#: Trainings nearer than this, relative to the budget, are ties.
_TIE = 1e-12
_BETWEEN_LOOKS = 500


@dataclass(frozen=True, eq=False)
class NodeChoice:
    """The best row of every bracket where whole nodes are paid."""

    rows: tuple[int, ...]
    most: float | None  # GPU-minutes that no choice trains for more than; None where the search ended before it knew
    choices: int  # how many were kept, and how many had their nodes counted
    stopped_by: Termination | None  # what ended the search before it was complete


@dataclass(frozen=True, eq=False)
class _Choices:
    """Choices of rows for some brackets, with the published rows of the others."""

    gpus: IntArray  # (L, K) held in each round
    trials: IntArray  # (L,) started above the published ones
    rows: IntArray  # (L, brackets) the rows, of the widest bracket first

    def take(self, chosen: IntArray) -> _Choices:
        """Return some of the choices."""
        return _Choices(self.gpus[chosen], self.trials[chosen], self.rows[chosen])


def choose_rows_on_nodes(problem: SpendProblem, eta: float, stopwatch: Stopwatch) -> NodeChoice:
    """Choose the best row of every bracket where the budget counts whole nodes."""
    narrowest, *others = problem.brackets
    assert problem.gpus_per_node is not None
    evenly = divide_evenly(problem.gpus_per_node, [each.gpus for each in problem.brackets])
    published = np.sum([_hold(each)[0] for each in problem.brackets], axis=0)
    choices = _Choices(published[None, :], np.zeros(1, dtype=np.int64), np.zeros((1, 0), dtype=np.int64))
    stopped_by = None
    for each in reversed(others):
        if stopwatch.expired:
            stopped_by, size = Termination.TIME_LIMIT, 1
        else:
            size = _count_needed(each, narrowest, eta, problem.rounds) if evenly else each.size
            if size * len(choices.trials) > MOST_CHOICES:
                stopped_by, size = Termination.WORK_LIMIT, max(1, MOST_CHOICES // len(choices.trials))
        choices = _extend(problem, choices, each, min(size, each.size))
    return _take_longest(problem, choices, stopwatch, stopped_by)


def _hold(rows: BracketRows) -> IntArray:
    """Return (M, K) GPUs that the rows of a bracket hold in each round."""
    return round(rows.gpus) * rows.trials


def _count_needed(rows: BracketRows, narrowest: BracketRows, eta: float, rounds: int) -> int:
    """Return how many rows of a wider bracket can be needed where sizes divide one another."""
    if eta != round(eta):
        return rows.size
    least = round(narrowest.gpus)
    needed: int = least // math.gcd(least, round(rows.gpus)) * round(eta) ** (rounds - 1)
    return min(rows.size, needed)


def _extend(problem: SpendProblem, choices: _Choices, rows: BracketRows, size: int) -> _Choices:
    """Join every choice with each of the first rows of a bracket that the bound on nodes lets pass."""
    held = _hold(rows)[:size] - _hold(rows)[0]
    gpus = (choices.gpus[:, None, :] + held[None, :, :]).reshape(-1, held.shape[1])
    mine, theirs = np.divmod(np.arange(len(gpus)), size)
    fits = np.flatnonzero(_may_fit(problem, gpus))
    trials = choices.trials[mine] + rows.trials[theirs, 0] - rows.trials[0, 0]
    return _Choices(gpus, trials, np.concatenate([choices.rows[mine], theirs[:, None]], axis=1)).take(fits)


def _may_fit(problem: SpendProblem, gpus: IntArray) -> NDArray[np.bool_]:
    """Return (L,) whether as many GPUs in each round keep the limits, if they fill their nodes."""
    per_node = problem.gpus_per_node or 1
    paid = per_node * -(-gpus // per_node) @ problem.round_minutes
    return (paid <= problem.listed_gpu_min) & (gpus[:, 0] <= problem.listed_gpus)


def _find_longest(problem: SpendProblem, choices: _Choices, narrowest: BracketRows) -> IntArray:
    """Return (L,) the longest row of the narrowest bracket with which each choice may fit."""
    held = _hold(narrowest) - _hold(narrowest)[0]
    least = np.zeros(len(choices.trials), dtype=np.int64)
    most = np.full(len(choices.trials), narrowest.size, dtype=np.int64)
    while (most - least > 1).any():
        middle = (least + most) // 2
        fits = _may_fit(problem, choices.gpus + held[middle])
        least, most = np.where(fits, middle, least), np.where(fits, most, middle)
    return least


def _take_longest(
    problem: SpendProblem, choices: _Choices, stopwatch: Stopwatch, stopped_by: Termination | None
) -> NodeChoice:
    """Look at complete choices by decreasing training until one keeps the budget, and at those that tie with it."""
    narrowest = problem.brackets[0]
    complete, tie = stopped_by is None, _TIE * problem.budget_gpu_min
    kept = len(choices.trials)
    most: float | None = None
    best: tuple[float, tuple[float, int, tuple[int, ...]], tuple[int, ...]] | None = None
    counted = 0
    for training, choice, row in _list_by_training(problem, choices):
        if best is not None and training < best[0] - tie:
            break
        if counted >= MOST_COUNTED or (counted % _BETWEEN_LOOKS == _BETWEEN_LOOKS - 1 and stopwatch.expired):
            if best is None:  # what has not been looked at trains for no longer
                most = training if most is None else most
                stopped_by = Termination.TIME_LIMIT if stopwatch.expired else Termination.WORK_LIMIT
            break
        counted += 1
        rows = (row, *choices.rows[choice][::-1].tolist())
        paid, held = problem.paid_gpu_min(rows), problem.held_gpus(rows)
        if most is None and paid <= problem.listed_gpu_min and held <= problem.listed_gpus:
            most = training  # what exceeds a limit by no more than rounding errors may count as keeping it
        if paid <= problem.most_gpu_min and held <= problem.most_gpus:
            last = sum(float(each.last_round_gpu_min[one]) for each, one in zip(problem.brackets, rows, strict=True))
            trials = int(choices.trials[choice] + narrowest.trials[row, 0])
            key = (round(last / tie) if tie else last, trials, rows[::-1])
            if best is None or key > best[1]:
                best = (training if best is None else best[0], key, rows)
    rows = (0,) * len(problem.brackets) if best is None else best[2]
    return NodeChoice(rows, most if complete else None, kept + counted, stopped_by)


def _list_by_training(problem: SpendProblem, choices: _Choices) -> Iterator[tuple[float, int, int]]:
    """List complete choices by decreasing training: GPU-minutes, choice, row of the narrowest bracket."""
    narrowest = problem.brackets[0]
    held = _hold(narrowest) - _hold(narrowest)[0]
    minutes: FloatArray = problem.minutes[1]  # of each round, without its pause
    longest = _find_longest(problem, choices, narrowest)
    trained: FloatArray = (choices.gpus + held[longest]) @ minutes
    waiting: list[tuple[float, int, int]] = []  # what comes after a choice that has been listed
    for choice in np.argsort(-trained, kind="stable").tolist():
        while waiting and -waiting[0][0] >= trained[choice]:
            yield _next(waiting, held @ minutes)
        heapq.heappush(waiting, (-float(trained[choice]), choice, int(longest[choice])))
    while waiting:
        yield _next(waiting, held @ minutes)


def _next(waiting: list[tuple[float, int, int]], trained: FloatArray) -> tuple[float, int, int]:
    """Take the longest training that waits; the next shorter row with the same choice takes its place."""
    minus, choice, row = waiting[0]
    if row:
        shorter = minus + float(trained[row] - trained[row - 1])
        heapq.heapreplace(waiting, (shorter, choice, row - 1))
    else:
        heapq.heappop(waiting)
    return -minus, choice, row
