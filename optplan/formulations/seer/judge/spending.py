"""What no search can do: take less than one trial, or train for longer than multipliers or lists of pairs allow.

For multipliers mu of the budget and nu of the deadline, no search that keeps both trains for more than

    sup over all searches of (training - mu spent - nu time) + mu B + nu T

GPU-minutes. Spending is training and pausing, and what nodes have besides where the budget counts them, so with
mu >= 1 the supremum is that of no search at all, zero, and the bound mu B + nu T; with less, longer searches gain
without end. The best choice is mu = 1 and nu = 0: the budget. Of an expected final loss nothing is proven.

The rule ``seer-rows`` proves more, by lists of pairs that cover all choices of trials.

Rounds and brackets are the published ones; a *row* of a bracket is a number of trials for each round that the family
``halving`` allows, no less than published. Brackets are taken from the widest to the narrowest. For each but the
narrowest the certificate lists pairs (spent, trained), above what the published rows of the brackets so far take. A
pair *covers* a choice of rows that spends no less and trains for no longer. Checked is that

1. every pair of the list before (at first: nothing spent, nothing trained), joined with every row of the bracket, is
   over the budget or covered by a pair of the bracket's own list;
2. no pair of the last list, with the longest row of the narrowest bracket that the budget still pays, trains for longer
   than the claim, and some pair as long.

By induction every choice that keeps the budget is covered. A pair that no choice stands behind can only make it harder
to pass 2, so nothing in a list has to be true. Rows are listed here, from the rule of the evaluator, and not read.

For whole eta and whole GPUs there is no need for rows of P GPUs of eta^(K-1) p_min / gcd(P, p_min) trials or more above
the published ones: so many trials train in all rounds in exact proportions, and P / gcd(P, p_min) eta^(K-1) trials on
p_min GPUs take, and train for, exactly as much.

Where ``most_gpus_held`` limits the cluster, a row also holds GPUs, most of them in the first round. The lists then have
what is held, too, and a line covers only what holds no less; keeping the budget then means to keep both.

What is claimed is the training and nothing else: which of equally long searches is the answer is not. The deadline and
that somebody reaches the last round are not looked at, which allows more searches than there are. *Margins.* A search
keeps the budget when it exceeds it by no more than a relative 1e-9; covering allows for rounding of 2^-32 in all,
relative to budget and claim; so what is proven is the claim times 1 + 1e-9. Whoever made the lists may have looked a
little further, up to a relative 2e-9 beyond the budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optplan.contracts.judgement import RefutedError
from optplan.contracts.proofs import unpack_integers
from optplan.contracts.result import BoundProof, TreeCertificate
from optplan.formulations.seer.data.brackets import SearchBrackets, SizedBracket, paid_gpus
from optplan.formulations.seer.data.instance import BUDGET, DEADLINE, Objective, SeerInstance
from optplan.formulations.seer.judge.evaluation import TOLERANCE
from optplan.formulations.seer.judge.node_spending import RULE as NODES_RULE
from optplan.formulations.seer.judge.node_spending import check_nodes, count_needed, list_trials
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray


def dual_bound(
    instance: SeerInstance,
    multipliers: dict[str, float],
    stopwatch: Stopwatch | None = None,  # noqa: ARG001 - at once
) -> float:
    """Return the GPU-minutes that no search can train for; infinite where the budget's multiplier is below one."""
    if instance.objective is Objective.QUALITY:
        return -math.inf
    if multipliers[BUDGET] < 1.0:
        return math.inf
    return multipliers[BUDGET] * instance.budget_gpu_min + multipliers[DEADLINE] * instance.deadline_min


def least_consumption(
    instance: SeerInstance,
    weights: FloatArray,
    stopwatch: Stopwatch | None = None,  # noqa: ARG001 - at once
) -> dict[str, float]:
    """Return the least weighted consumption, (2,) as the limits: one trial, the shortest round, p_min GPUs."""
    gpu_min = paid_gpus(instance.nodes_paid, instance.least_gpus, 1) * instance.least_round_min
    return {"one trial": float(weights[0] * gpu_min + weights[1] * instance.least_round_min)}


def list_proofs(instance: SeerInstance) -> frozenset[BoundProof]:
    """Return the kinds of certificate that prove anything: the budget bounds training, and says nothing of a loss."""
    if instance.objective is Objective.QUALITY:
        return frozenset()
    return frozenset({BoundProof.LAGRANGIAN, BoundProof.TREE})


RULE = "seer-rows"
#: What covering allows for rounding in all brackets together, relative to the budget and to the claim.
ROUNDING = 2.0**-32
#: Units of the lists by what covering allows for in one bracket.
_UNITS = 2.0
#: Most pairs of a bracket's list.
_MOST_PAIRS = 200_000
#: Pairs joined with rows at once.
_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Pairs:
    """GPU-minutes spent and trained, GPUs held, (L,) each, above the published rows; by increasing spending."""

    spent: FloatArray
    trained: FloatArray
    held: FloatArray


@dataclass(frozen=True)
class _Room:
    """What a choice may take and hold above the published rows."""

    gpu_min: float
    gpus: float

    def count(self, covered: Pairs, rows: Pairs) -> IntArray:
        """Return how many rows fit with each covered choice; longer rows take and hold more."""
        by_budget = np.searchsorted(rows.spent, self.gpu_min - covered.spent, side="right")
        return np.minimum(by_budget, np.searchsorted(rows.held, self.gpus - covered.held, side="right"))


def check_tree(instance: SeerInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Raise unless a certificate of the rule ``seer-rows``, or ``seer-nodes`` for paid nodes, proves its bound.

    Its content is ``pairs``, for each bracket but the narrowest, from the widest on, two packed lists of whole numbers
    (:mod:`optplan.contracts.proofs`): spent in units of budget * 2^-33 / brackets, trained in units of bound * 2^-33 /
    brackets. Of the rule ``seer-nodes``: nothing.
    """
    published = instance.brackets
    if certificate.rule == NODES_RULE:
        check_nodes(instance, certificate, stopwatch)
        return
    if certificate.rule != RULE:
        message = f"there is no rule {certificate.rule[:80]!r} for this formulation; there are {RULE!r}, {NODES_RULE!r}"
        raise RefutedError(message)
    if instance.objective is not Objective.SPEND or published is None or certificate.limit:
        raise RefutedError(f"the rule {RULE!r} is about the training of feasible instances")
    if instance.nodes_paid is not None:
        raise RefutedError(f"the rule {RULE!r} is about GPUs held; where nodes are paid there is {NODES_RULE!r}")
    bound = certificate.bound
    if bound is None or not bound > 0.0:
        raise RefutedError("a bound in GPU-minutes above zero is needed")
    minutes = _list_minutes(instance, published)
    floor = [each.gpus * (minutes @ np.array(each.trials, dtype=np.float64)) for each in published.brackets]
    published_min = math.fsum(float(each[0]) for each in floor)
    cluster = math.inf if instance.most_gpus_held is None else instance.most_gpus_held
    published_gpus = math.fsum(each.gpus * each.trials[0] for each in published.brackets)
    room, most_room = (
        _Room(instance.budget_gpu_min * (1.0 + slack) - published_min, cluster * (1.0 + slack) - published_gpus)
        for slack in (TOLERANCE + ROUNDING, 2.0 * TOLERANCE)
    )
    limits = [instance.budget_gpu_min, bound] + ([] if math.isinf(cluster) else [cluster])
    margins = np.array(limits) * ROUNDING / len(published.brackets)
    narrowest, *wider = published.brackets
    covered = Pairs(np.zeros(1), np.zeros(1), np.zeros(1))
    lists = _read_lists(certificate, len(wider), margins / _UNITS)
    for bracket, listed in zip(reversed(wider), lists, strict=True):
        needed = min(count_needed(instance, bracket, published.rounds), 1.0 + room.gpus / bracket.gpus)
        rows = list_rows(instance, bracket, room.gpu_min, most=needed)
        _check_joins(covered, rows, listed, room, margins, stopwatch)
        covered = listed
    rows = list_rows(instance, narrowest, most_room.gpu_min, most=1.0 + most_room.gpus / narrowest.gpus)
    trained_min = math.fsum(float(each[1]) for each in floor)
    most = trained_min + _train_longest(covered, rows, room)
    if not most <= bound * (1.0 + TOLERANCE):
        message = f"searches within the budget may train for {most!r} GPU-minutes, more than the bound {bound!r}"
        raise RefutedError(message)
    if not trained_min + _train_longest(covered, rows, most_room) >= bound * (1.0 - TOLERANCE):
        message = f"nothing in the lists trains for as long as the bound {bound!r} says, but for {most!r} GPU-minutes"
        raise RefutedError(message)


def list_rows(instance: SeerInstance, bracket: SizedBracket, spare: float, *, most: float = math.inf) -> Pairs:
    """List a bracket's rows from the published one on, by spending and training above it, up to ``spare``."""
    assert instance.brackets is not None
    minutes = _list_minutes(instance, instance.brackets)
    trials = list_trials(instance.eta, bracket, minutes[0], spare, most)
    grown = bracket.gpus * (trials - trials[0]).astype(np.float64)
    spent, trained = grown @ minutes[0], grown @ minutes[1]
    fits = slice(int(np.searchsorted(spent, spare, side="right")))
    held = grown[:, 0] if instance.most_gpus_held is not None else np.zeros(len(grown))
    return Pairs(spent[fits], trained[fits], held[fits])


def _train_longest(covered: Pairs, rows: Pairs, room: _Room) -> float:
    """Return the longest training of any pair with the longest row that still fits."""
    longest = room.count(covered, rows) - 1
    trained = np.where(longest >= 0, covered.trained + rows.trained[longest], -math.inf)
    return float(trained.max())


def _list_minutes(instance: SeerInstance, published: SearchBrackets) -> FloatArray:
    """Return (2, K) minutes of each round, with its pause and without."""
    training = np.array([published.round_min * instance.eta**k for k in range(published.rounds)])
    pauses = np.array([instance.resize_min if k else 0.0 for k in range(published.rounds)])
    return np.array([training + pauses, training])


def _read_lists(certificate: TreeCertificate, brackets: int, units: FloatArray) -> Iterator[Pairs]:
    """Read the lists of all brackets but the narrowest, one at a time."""
    content = certificate.content
    lists = content.get("pairs")
    if set(content) != {"pairs"} or not isinstance(lists, list) or len(lists) != brackets:
        raise RefutedError(f"its content must be 'pairs', with a list for each of {brackets} brackets")
    for each in lists:
        if not isinstance(each, list) or len(each) != len(units):
            what = "two parts, what is spent and" if len(units) == 2 else "three parts, what is spent, held and"
            raise RefutedError(f"each list must have {what} what is trained")
        try:
            spent, *held, trained = (unpack_integers(part, _MOST_PAIRS) for part in each)
        except ValueError as error:
            raise RefutedError(str(error)) from None
        if any(part.size != spent.size for part in (*held, trained)) or not spent.size:
            raise RefutedError("each list needs pairs: as many amounts spent as trained, at least one")
        order = np.argsort(spent, kind="stable")
        if held:
            yield Pairs(spent[order] * units[0], trained[order] * units[1], held[0][order] * units[2])
        else:
            # Whoever spends more may as well train for as long as the best of those who spend less.
            trained = np.maximum.accumulate(trained[order]) * units[1]
            yield Pairs(spent[order] * units[0], trained, np.zeros(spent.size))


def _check_joins(
    covered: Pairs, rows: Pairs, listed: Pairs, room: _Room, margins: FloatArray, stopwatch: Stopwatch
) -> None:
    """Check that whatever a covered choice and a row amount to within the budget is covered by a listed pair."""
    fitting = room.count(covered, rows)
    ends = np.cumsum(fitting)
    start = 0
    # Where GPUs are limited, every join is compared with every line.
    at_once = _AT_ONCE if len(margins) == 2 else max(1, 8 * _AT_ONCE // listed.spent.size)
    while start < ends[-1]:
        stopwatch.require()
        join = np.arange(start, min(start + at_once, int(ends[-1])))
        pair = np.searchsorted(ends, join, side="right")
        row = join - (ends - fitting)[pair]
        spent = covered.spent[pair] + rows.spent[row]
        if len(margins) == 2:
            place = np.searchsorted(listed.spent, spent + margins[0], side="right") - 1
            reached = np.where(place >= 0, listed.trained[place], -math.inf)
        else:
            held = covered.held[pair] + rows.held[row]
            takes_less = listed.spent <= spent[:, None] + margins[0]
            takes_less &= listed.held <= held[:, None] + margins[2]
            reached = np.where(takes_less, listed.trained, -math.inf).max(axis=1)
        short = covered.trained[pair] + rows.trained[row] - margins[1] > reached
        if short.any():
            raise RefutedError(
                f"no listed pair covers a choice that spends {spent[short][0]:.9g} and trains for "
                f"{(covered.trained[pair] + rows.trained[row])[short][0]:.9g} GPU-minutes above the published rows"
            )
        start += join.size
