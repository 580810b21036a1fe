"""Spending the whole budget: the best rows of all brackets, by labels that are never dominated.

A multiple-choice knapsack by dominance (Nemhauser and Ullmann, "Discrete dynamic programming and capital allocation",
Management Science 15, 1969). A label is a choice of rows for some brackets. Brackets are taken from the widest to the
narrowest; a label is dropped when another one spends no more, holds no more GPUs where these are limited, and is at
least as good in every respect that counts, in the order in which it counts. The narrowest bracket fills what is left by
one look-up, because its longer rows are better in every respect.

For whole eta and whole GPUs one more argument bounds the rows of all brackets but the narrowest: eta^(K-1) more trials
of P GPUs hold, take, train and finish exactly as much as P/p_min times as many on p_min GPUs, which are more trials. So
where P/p_min is whole, no best choice has eta^(K-1) trials or more above the published ones in any other bracket; in
general p_min / gcd(P, p_min) times that.

What a label stands for is what the proof is made of: per bracket the undominated pairs of what is spent and what is
trained are written down, and whoever joins them with all rows anew finds nothing that they do not cover
(:func:`certify_rows`). Which of several equally long trainings is chosen is not proven.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from typing import Literal

import numpy as np

from optplan.contracts.instance import Sense
from optplan.contracts.result import Answer, BoundProof, SolveRequest, Termination, closes_gap
from optplan.formulations.seer.data.brackets import SHORTFALL
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.exact.answers import (
    answer_with,
    certify_rows,
    infeasible_answer,
    training_of,
)
from optplan.formulations.seer.exact.rows import (
    BracketRows,
    Choices,
    ChosenRows,
    SpendProblem,
    choose_rows_on_nodes,
    count_needed,
    list_rows,
)
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

#: Amounts nearer than this, relative to the budget, are ties.
TIE = 1e-12
#: Most pairs of label and row that are looked at for one bracket. Real GPUs and an eta that is no ratio of small
#: numbers may have more; then the rest of the budget is so finely divided that hardly any of it stays unused.
MOST_PAIRS = 500_000


#: Columns of the amounts of choices, above the published rows, as of :attr:`BracketRows.gains`. Where the cluster has
#: no limit, nothing is looked at of what is held.
_SPENT, _HELD, _TRAINED, _LAST, _STARTED = range(5)
_Room = tuple[float, float]  # what may be taken and held above the published rows


def solve_spend_exact(instance: SeerInstance, request: SolveRequest) -> Answer[SeerSolution]:
    """Spend the budget as well as whole trials can, ties included; where time or work ends first, with it as bound."""
    published = instance.brackets
    if published is None:
        return infeasible_answer(instance)
    request.stopwatch.emit("rows", bound=instance.budget_gpu_min)
    problem = list_rows(instance, published)
    on_nodes = problem.gpus_per_node is not None
    if on_nodes:
        chosen = choose_rows_on_nodes(problem, instance.eta, request.stopwatch)
    else:
        problem = _cut_rows(instance, problem)
        chosen = choose_rows(problem, request.stopwatch)
    solution = problem.write(chosen.rows)
    bound, certificate = None, None
    if chosen.most is not None and problem.complete:
        objective = training_of(instance, solution)
        bound = max(objective, chosen.most)
        if request.certify and bound < instance.budget_gpu_min * (1.0 - SHORTFALL):
            certificate = certify_rows(instance, chosen.pairs, bound)
        closes = closes_gap(objective, instance.budget_gpu_min, request.gap, Sense.MAXIMISE)
        if certificate is None and closes and not on_nodes:
            bound = None  # the budget as bound does, and can be checked
    return answer_with(
        instance,
        request,
        solution,
        bound=bound,
        proof=certificate or BoundProof.SEARCHED,
        termination=chosen.stopped_by or (Termination.COMPLETED if problem.complete else Termination.WORK_LIMIT),
        counters=chosen.counters | {"rows": float(sum(each.size for each in problem.brackets))},
    )


def choose_rows(problem: SpendProblem, stopwatch: Stopwatch) -> ChosenRows:
    """Choose the best row of every bracket."""
    *wider, narrowest = reversed(problem.brackets)
    published = (0,) * len(problem.brackets)
    spent, held = problem.use(published)
    room, most_room = ((gpu_min - spent, gpus - held) for gpu_min, gpus in (problem.kept, problem.listed))
    tie = TIE * problem.budget_gpu_min
    labels = Choices.before(np.zeros(5))
    count, stopped_by, pairs = 0, None, []
    for rows in wider:
        expired = stopwatch.expired
        labels, cut = _extend(labels, rows.take(slice(1)) if expired else rows, most_room, tie)
        if expired:
            stopped_by = Termination.TIME_LIMIT
        elif cut:
            stopped_by = stopped_by or Termination.WORK_LIMIT
        count += len(labels.rows)
        columns = [_SPENT, _HELD, _TRAINED] if math.isfinite(problem.cluster_gpus) else [_SPENT, _TRAINED]
        pairs.append(labels.amounts[:, columns].T)
    # What exceeds the budget by no more than rounding errors may count as keeping it, and is bounded; it is not chosen.
    most = problem.training_of(published) + float(_fill(labels, narrowest, most_room).amounts[:, _TRAINED].max())
    complete = _fill(labels, narrowest, room)
    best = complete.rows[_rank(_settle(complete, tie)).argmax()]
    most_trained = None if stopped_by else most
    return ChosenRows(tuple(best[::-1].tolist()), most_trained, {"labels": float(count + 1)}, stopped_by, tuple(pairs))


def _count_fitting(labels: Choices, rows: BracketRows, room: _Room) -> IntArray:
    """Return (L,) how many rows of a bracket, from the published one on, fit with each label."""
    counts = (
        np.searchsorted(rows.gains[:, column], most - labels.amounts[:, column], side="right")
        for column, most in zip((_SPENT, _HELD), room, strict=True)
    )
    return np.minimum(*counts)


def _fill(labels: Choices, narrowest: BracketRows, room: _Room) -> Choices:
    """Give each label that fits the longest row of the narrowest bracket that still does."""
    fitting = np.flatnonzero((labels.amounts[:, [_SPENT, _HELD]] <= np.maximum(room, 0.0)).all(axis=1))
    longest = np.maximum(_count_fitting(labels.take(fitting), narrowest, room) - 1, 0)
    return labels.join(narrowest.gains, fitting, longest)


def _cut_rows(instance: SeerInstance, problem: SpendProblem) -> SpendProblem:
    """Leave out the rows that no best choice has, by the argument of the module's docstring."""
    if not instance.whole_gpus:
        return problem
    first, *wider = problem.brackets
    cut = (each.take(slice(count_needed(each, first, instance.eta, problem.rounds))) for each in wider)
    return replace(problem, brackets=(first, *cut))


def _extend(labels: Choices, rows: BracketRows, room: _Room, tie: float) -> tuple[Choices, bool]:
    """Join every label with every row that still fits, and drop what is dominated; say whether some were left out."""
    fitting = np.maximum(_count_fitting(labels, rows, room), 1)
    cut = int(fitting.sum()) > MOST_PAIRS
    if cut:
        labels = labels.take(np.arange(min(len(labels.rows), MOST_PAIRS // 4)))
        fitting = np.minimum(fitting[: len(labels.rows)], MOST_PAIRS // len(labels.rows))
    mine = np.repeat(np.arange(len(labels.rows)), fitting)
    theirs = np.arange(mine.size) - np.repeat(np.cumsum(fitting) - fitting, fitting)
    joined = _settle(labels.join(rows.gains, mine, theirs), tie)
    rank, spent = _rank(joined), joined.amounts[:, _SPENT]
    if math.isfinite(room[1]):
        return joined.take(_list_undominated(spent, joined.amounts[:, _HELD], rank)), cut
    order = np.lexsort((-rank, spent))
    best = np.maximum.accumulate(rank[order])
    return joined.take(order[rank[order] == best]), cut


def _list_undominated(spent: FloatArray, held: FloatArray, rank: IntArray) -> IntArray:
    """List the labels, by what they spend, than which none of a better rank spends and holds as little."""
    kept: list[int] = []
    least_spent: list[float] = []  # of those that hold least for what they spend, with what is held decreasing
    least_held: list[float] = []
    for label in np.argsort(-rank, kind="stable").tolist():
        mine, gpus = float(spent[label]), float(held[label])
        place = bisect_right(least_spent, mine)
        if place and least_held[place - 1] <= gpus:
            continue
        kept.append(label)
        end = place
        while end < len(least_held) and least_held[end] >= gpus:
            end += 1
        place -= bool(place and least_spent[place - 1] == mine)
        least_spent[place:end], least_held[place:end] = [mine], [gpus]
    chosen = np.array(kept)
    return chosen[np.argsort(spent[chosen], kind="stable")]


def _rank(labels: Choices) -> IntArray:
    """Return by (L,) number how good labels are: by training, last round, trials, then rows from the widest on."""
    columns = (*labels.rows.T[::-1], *labels.amounts[:, [_STARTED, _LAST, _TRAINED]].T)
    rank = np.empty(len(labels.rows), dtype=np.int64)
    rank[np.lexsort(columns)] = np.arange(rank.size)
    return rank


def _settle(labels: Choices, tie: float) -> Choices:
    """Return the labels with amounts that tie made equal: the least that is spent, the most that is trained."""
    amounts = labels.amounts.copy()
    for column in (_SPENT, _TRAINED, _LAST):
        order = np.argsort(amounts[:, column], kind="stable")
        ordered = amounts[order, column]
        number = np.cumsum(np.diff(ordered, prepend=ordered[0]) > tie)
        side: Literal["left", "right"] = "left" if column == _SPENT else "right"
        ends = np.searchsorted(number, number, side=side) - (column != _SPENT)
        amounts[order, column] = ordered[ends]
    return replace(labels, amounts=amounts)
