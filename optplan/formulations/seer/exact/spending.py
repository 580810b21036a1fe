"""Spending the whole budget: the best rows of all brackets, by labels that are never dominated.

A label is a choice of rows for some brackets. Brackets are taken from the widest to the narrowest; a label is dropped
when another one spends no more and is at least as good in every respect that counts, in the order in which it counts.
The narrowest bracket fills what is left by one look-up, because its longer rows are better in every respect.

For whole eta and whole GPUs one more argument bounds the rows of all brackets but the narrowest: eta^(K-1) more trials
of P GPUs take, train and finish exactly as much as P/p_min times as many on p_min GPUs, which are more trials. So where
P/p_min is whole, no best choice has eta^(K-1) trials or more above the published ones in any other bracket; in general
p_min / gcd(P, p_min) times that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.contracts.result import Answer, SolveRequest, Termination
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.exact.answers import answer_with
from optplan.formulations.seer.exact.feasibility import infeasible_answer
from optplan.formulations.seer.exact.rows import BracketRows, SpendProblem, list_rows
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

#: Amounts nearer than this, relative to the budget, are ties.
TIE = 1e-12
#: Most pairs of label and row that are looked at for one bracket. Real GPUs and an eta that is no ratio of small
#: numbers may have more; then the rest of the budget is so finely divided that hardly any of it stays unused.
MOST_PAIRS = 500_000


@dataclass(frozen=True, eq=False)
class _Labels:
    """Choices of rows for some brackets, relative to the published rows.

    Parameters
    ----------
    spent, training, last, trials
        (L,) What is spent, trained, trained in the last round, and started, above the published.
    rows
        (L, brackets) The rows, of the widest bracket first.
    """

    spent: FloatArray
    training: FloatArray
    last: FloatArray
    trials: IntArray
    rows: IntArray

    def take(self, chosen: IntArray) -> _Labels:
        """Return some of the labels."""
        return _Labels(
            self.spent[chosen], self.training[chosen], self.last[chosen], self.trials[chosen], self.rows[chosen]
        )

    def join(self, rows: BracketRows, mine: IntArray, theirs: IntArray) -> _Labels:
        """Return some of the labels, each with a row of another bracket."""
        return _Labels(
            self.spent[mine] + (rows.spent_gpu_min[theirs] - rows.spent_gpu_min[0]),
            self.training[mine] + (rows.training_gpu_min[theirs] - rows.training_gpu_min[0]),
            self.last[mine] + (rows.last_round_gpu_min[theirs] - rows.last_round_gpu_min[0]),
            self.trials[mine] + (rows.trials[theirs, 0] - rows.trials[0, 0]),
            np.concatenate([self.rows[mine], theirs[:, None]], axis=1),
        )


def solve_spend_exact(instance: SeerInstance, request: SolveRequest) -> Answer[SeerSolution]:
    """Spend the budget as well as whole trials can, in SEER's rounds and brackets.

    Parameters
    ----------
    instance
        The problem.
    request
        Time limit and gap.

    Returns
    -------
    Answer
        Optimal, ties included, with the objective as bound; where the time or the work ends first, a good choice with
        the budget as bound.
    """
    published = instance.brackets
    if published is None:
        return infeasible_answer(instance)
    request.stopwatch.emit("rows", bound=instance.budget_gpu_min)
    problem = list_rows(instance, published)
    reduced = _cut_rows(instance, problem)
    rows, labels, stopped_by = choose_rows(reduced, request.stopwatch)
    termination = Termination.COMPLETED if stopped_by is None else stopped_by
    if termination is Termination.COMPLETED and not reduced.complete:
        termination = Termination.WORK_LIMIT
    return answer_with(
        instance,
        request,
        problem.write(rows),
        bound=problem.training_of(rows) if termination is Termination.COMPLETED else None,
        termination=termination,
        counters={"labels": float(labels), "rows": float(sum(each.size for each in reduced.brackets))},
    )


def choose_rows(problem: SpendProblem, stopwatch: Stopwatch) -> tuple[tuple[int, ...], int, Termination | None]:
    """Choose the best row of every bracket.

    Parameters
    ----------
    problem
        Rows and budget.
    stopwatch
        For its time limit.

    Returns
    -------
    rows : tuple of int
        By bracket.
    labels : int
        How many were kept in all.
    stopped_by : Termination or None
        What ended the search before it was complete.
    """
    *wider, narrowest = reversed(problem.brackets)
    spare = problem.most_gpu_min - sum(float(each.spent_gpu_min[0]) for each in problem.brackets)
    tie = TIE * problem.budget_gpu_min
    none = np.zeros(1)
    labels = _Labels(none, none, none, np.zeros(1, dtype=np.int64), np.zeros((1, 0), dtype=np.int64))
    count, stopped_by = 0, None
    for rows in wider:
        expired = stopwatch.expired
        labels, cut = _extend(labels, _first_rows(rows, 1) if expired else rows, spare, tie)
        if expired:
            stopped_by = Termination.TIME_LIMIT
        elif cut:
            stopped_by = stopped_by or Termination.WORK_LIMIT
        count += labels.spent.size
    extra = narrowest.spent_gpu_min - narrowest.spent_gpu_min[0]
    longest = np.maximum(np.searchsorted(extra, spare - labels.spent, side="right") - 1, 0)
    complete = labels.join(narrowest, np.arange(labels.spent.size), longest)
    best = complete.rows[_rank(complete, tie).argmax()]
    return tuple(best[::-1].tolist()), count + 1, stopped_by


def _cut_rows(instance: SeerInstance, problem: SpendProblem) -> SpendProblem:
    """Leave out the rows that no best choice has, by the argument of the module's docstring."""
    gpus = [each.gpus for each in problem.brackets]
    if not instance.whole_gpus or instance.eta != round(instance.eta) or len(gpus) == 1:
        return problem
    period, least = round(instance.eta) ** (problem.rounds - 1), round(gpus[0])
    most = [least // math.gcd(least, round(each)) * period for each in gpus[1:]]
    cut = [_first_rows(each, number) for each, number in zip(problem.brackets[1:], most, strict=True)]
    return SpendProblem(
        problem.rounds, problem.round_min, problem.budget_gpu_min, (problem.brackets[0], *cut), problem.complete
    )


def _first_rows(rows: BracketRows, number: int) -> BracketRows:
    if rows.size <= number:
        return rows
    return BracketRows(
        rows.gpus,
        rows.trials[:number],
        rows.spent_gpu_min[:number],
        rows.training_gpu_min[:number],
        rows.last_round_gpu_min[:number],
    )


def _extend(labels: _Labels, rows: BracketRows, spare: float, tie: float) -> tuple[_Labels, bool]:
    """Join every label with every row that still fits, and drop what is dominated; say whether some were left out."""
    extra = rows.spent_gpu_min - rows.spent_gpu_min[0]
    fitting = np.maximum(np.searchsorted(extra, spare - labels.spent, side="right"), 1)
    cut = int(fitting.sum()) > MOST_PAIRS
    if cut:
        labels = labels.take(np.arange(min(labels.spent.size, MOST_PAIRS // 4)))
        fitting = np.minimum(fitting[: labels.spent.size], MOST_PAIRS // labels.spent.size)
    mine = np.repeat(np.arange(labels.spent.size), fitting)
    theirs = np.arange(mine.size) - np.repeat(np.cumsum(fitting) - fitting, fitting)
    joined = labels.join(rows, mine, theirs)
    rank, spent = _rank(joined, tie), _number_ties(joined.spent, tie)
    order = np.lexsort((-rank, spent))
    best = np.maximum.accumulate(rank[order])
    return joined.take(order[rank[order] == best]), cut


def _rank(labels: _Labels, tie: float) -> IntArray:
    """Return by (L,) number how good labels are: by training, last round, trials, then rows from the widest on."""
    columns = (*labels.rows.T[::-1], labels.trials, _number_ties(labels.last, tie), _number_ties(labels.training, tie))
    rank = np.empty(labels.spent.size, dtype=np.int64)
    rank[np.lexsort(columns)] = np.arange(rank.size)
    return rank


def _number_ties(amounts: FloatArray, tie: float) -> IntArray:
    """Return (L,) numbers that order amounts, the same for amounts that are ties."""
    order = np.argsort(amounts, kind="stable")
    numbers = np.empty(amounts.size, dtype=np.int64)
    numbers[order] = np.cumsum(np.diff(amounts[order], prepend=amounts[order[0]]) > tie)
    return numbers
