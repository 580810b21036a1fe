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
from dataclasses import dataclass, fields, replace

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


@dataclass(frozen=True)
class _Room:
    """What may be taken and held above the published rows."""

    gpu_min: float
    gpus: float

    @property
    def is_limited(self) -> bool:
        return math.isfinite(self.gpus)

    def count(self, labels: _Labels, rows: BracketRows) -> IntArray:
        """Return (L,) how many rows of a bracket, from the published one on, fit with each label."""
        minutes = rows.spent_gpu_min - rows.spent_gpu_min[0]
        by_budget = np.searchsorted(minutes, self.gpu_min - labels.spent, side="right")
        gpus = rows.held_gpus - rows.held_gpus[0]
        return np.minimum(by_budget, np.searchsorted(gpus, self.gpus - labels.held, side="right"))


@dataclass(frozen=True, eq=False)
class _Labels:
    """Choices of rows for some brackets, relative to the published rows."""

    #: (L,) What is spent, held at first, trained, trained in the last round, and started, above the published. Where
    #: the cluster has no limit, nothing is held.
    spent: FloatArray
    held: FloatArray
    training: FloatArray
    last: FloatArray
    trials: IntArray
    rows: IntArray  # (L, brackets) the rows, of the widest bracket first

    def take(self, chosen: IntArray) -> _Labels:
        return _Labels(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def settle(self, tie: float) -> _Labels:
        """Return the labels with amounts that tie made equal: the least that is spent, the most that is trained."""
        return replace(
            self,
            spent=_settle(self.spent, tie, up=False),
            training=_settle(self.training, tie, up=True),
            last=_settle(self.last, tie, up=True),
        )

    def join(self, rows: BracketRows, mine: IntArray, theirs: IntArray) -> _Labels:
        return _Labels(
            self.spent[mine] + (rows.spent_gpu_min[theirs] - rows.spent_gpu_min[0]),
            self.held[mine] + (rows.held_gpus[theirs] - rows.held_gpus[0]),
            self.training[mine] + (rows.training_gpu_min[theirs] - rows.training_gpu_min[0]),
            self.last[mine] + (rows.last_round_gpu_min[theirs] - rows.last_round_gpu_min[0]),
            self.trials[mine] + (rows.trials[theirs, 0] - rows.trials[0, 0]),
            np.concatenate([self.rows[mine], theirs[:, None]], axis=1),
        )


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
    published = sum(float(each.spent_gpu_min[0]) for each in problem.brackets)
    held = sum(float(each.held_gpus[0]) for each in problem.brackets)
    room = _Room(problem.most_gpu_min - published, problem.most_gpus - held)
    most_room = _Room(problem.listed_gpu_min - published, problem.listed_gpus - held)
    tie = TIE * problem.budget_gpu_min
    none = np.zeros(1)
    labels = _Labels(none, none, none, none, np.zeros(1, dtype=np.int64), np.zeros((1, 0), dtype=np.int64))
    count, stopped_by, pairs = 0, None, []
    for rows in wider:
        expired = stopwatch.expired
        labels, cut = _extend(labels, rows.take(slice(1)) if expired else rows, most_room, tie)
        if expired:
            stopped_by = Termination.TIME_LIMIT
        elif cut:
            stopped_by = stopped_by or Termination.WORK_LIMIT
        count += labels.spent.size
        held_too = [labels.held] if most_room.is_limited else []
        pairs.append(np.array([labels.spent, *held_too, labels.training]))
    # What exceeds the budget by no more than rounding errors may count as keeping it, and is bounded; it is not chosen.
    most = problem.training_of((0,) * len(problem.brackets)) + float(_fill(labels, narrowest, most_room).training.max())
    complete = _fill(labels, narrowest, room)
    best = complete.rows[_rank(complete.settle(tie)).argmax()]
    most_trained = None if stopped_by else most
    return ChosenRows(tuple(best[::-1].tolist()), most_trained, {"labels": float(count + 1)}, stopped_by, tuple(pairs))


def _fill(labels: _Labels, narrowest: BracketRows, room: _Room) -> _Labels:
    """Give each label that fits the longest row of the narrowest bracket that still does."""
    fitting = np.flatnonzero((labels.spent <= max(0.0, room.gpu_min)) & (labels.held <= max(0.0, room.gpus)))
    longest = np.maximum(room.count(labels.take(fitting), narrowest) - 1, 0)
    return labels.join(narrowest, fitting, longest)


def _cut_rows(instance: SeerInstance, problem: SpendProblem) -> SpendProblem:
    """Leave out the rows that no best choice has, by the argument of the module's docstring."""
    if not instance.whole_gpus:
        return problem
    first, *wider = problem.brackets
    cut = (each.take(slice(count_needed(each, first, instance.eta, problem.rounds))) for each in wider)
    return replace(problem, brackets=(first, *cut))


def _extend(labels: _Labels, rows: BracketRows, room: _Room, tie: float) -> tuple[_Labels, bool]:
    """Join every label with every row that still fits, and drop what is dominated; say whether some were left out."""
    fitting = np.maximum(room.count(labels, rows), 1)
    cut = int(fitting.sum()) > MOST_PAIRS
    if cut:
        labels = labels.take(np.arange(min(labels.spent.size, MOST_PAIRS // 4)))
        fitting = np.minimum(fitting[: labels.spent.size], MOST_PAIRS // labels.spent.size)
    mine = np.repeat(np.arange(labels.spent.size), fitting)
    theirs = np.arange(mine.size) - np.repeat(np.cumsum(fitting) - fitting, fitting)
    joined = labels.join(rows, mine, theirs).settle(tie)
    rank = _rank(joined)
    if room.is_limited:
        return joined.take(_list_undominated(joined, rank)), cut
    order = np.lexsort((-rank, joined.spent))
    best = np.maximum.accumulate(rank[order])
    return joined.take(order[rank[order] == best]), cut


def _list_undominated(labels: _Labels, rank: IntArray) -> IntArray:
    """List the labels, by what they spend, than which none of a better rank spends and holds as little."""
    kept: list[int] = []
    spent: list[float] = []  # of those that hold least for what they spend, with `held` decreasing
    held: list[float] = []
    for label in np.argsort(-rank, kind="stable").tolist():
        mine, gpus = float(labels.spent[label]), float(labels.held[label])
        place = bisect_right(spent, mine)
        if place and held[place - 1] <= gpus:
            continue
        kept.append(label)
        end = place
        while end < len(held) and held[end] >= gpus:
            end += 1
        place -= bool(place and spent[place - 1] == mine)
        spent[place:end], held[place:end] = [mine], [gpus]
    chosen = np.array(kept)
    return chosen[np.argsort(labels.spent[chosen], kind="stable")]


def _rank(labels: _Labels) -> IntArray:
    """Return by (L,) number how good labels are: by training, last round, trials, then rows from the widest on."""
    columns = (*labels.rows.T[::-1], labels.trials, labels.last, labels.training)
    rank = np.empty(labels.spent.size, dtype=np.int64)
    rank[np.lexsort(columns)] = np.arange(rank.size)
    return rank


def _settle(amounts: FloatArray, tie: float, *, up: bool) -> FloatArray:
    """Return (L,) amounts in which all that tie are the same, the most or the least of them."""
    order = np.argsort(amounts, kind="stable")
    ordered = amounts[order]
    number = np.cumsum(np.diff(ordered, prepend=ordered[0]) > tie)
    ends = np.append(np.flatnonzero(np.diff(number)), number.size - 1) if up else np.searchsorted(number, number)
    settled = np.empty_like(amounts)
    settled[order] = ordered[ends[number]] if up else ordered[ends]
    return settled
