"""What each bracket may train, from the published numbers of trials upwards: the choices of the spending problem.

A *row* of a bracket is a number of trials for each round, floor(x / eta^(k-1)) of a size x. Rows change where x passes
a multiple of a power of eta, so the rows from the published one on are counted by these. The problem is to choose a row
of every bracket so that together they keep the budget::

    maximise    sum over i of P_i t_1 sum over k of eta^(k-1) n(i,k)                          (GPU-minutes of training)
    subject to  sum over i of P_i sum over k of (t_1 eta^(k-1) + w [k > 1]) n(i,k) <= B       (family ``budget``)
                sum over i of P_i n(i,1)                                           <= G       (family ``cluster``)

where ``budget`` may count the GPUs of whole nodes instead of the GPUs held, which are no more and list the same rows;

and of equally good choices the one with the most GPU-minutes in the last round; of those the one with the most trials;
of those the one with the longest row of the widest bracket, then of the next.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.result import Termination
from optplan.formulations.seer.data.brackets import ROUNDING, SHORTFALL, SearchBrackets, SizedBracket, minutes_per_trial
from optplan.formulations.seer.data.instance import Bracket, SeerInstance, SeerSolution
from optplan.formulations.seer.laws.rounds import count_nodes, divide_evenly
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

#: Rows of one bracket that are listed; a budget that pays more of them above the published one is rarely meant.
MOST_ROWS = 200_000
#: Numbers of trials, of all rows and rounds of one bracket, that are listed.
_MOST_NUMBERS = 5_000_000
#: Sizes nearer than this, relatively, are the same: trials number up to 1e9, and must be told from one more.
_SAME = 1e-12
#: What a choice may take beyond the budget, relatively, less rounding errors; and what proofs look at, with them.
_SLACK, _LISTED_SLACK = SHORTFALL * (1.0 - 1e-3), SHORTFALL * 1.5


@dataclass(frozen=True, eq=False)
class BracketRows:
    """The rows of one bracket, the published one first; what they take is in GPU-minutes."""

    gpus: float  # of each trial
    trials: IntArray  # (M, K) of each round
    minutes: FloatArray  # (2, K) of each round, with its pause and without

    @cached_property
    def spent_gpu_min(self) -> FloatArray:
        """(M,) With pauses."""
        return np.asarray(self.gpus * (self.trials @ self.minutes[0]), dtype=np.float64)

    @cached_property
    def training_gpu_min(self) -> FloatArray:
        """(M,) Without pauses."""
        return np.asarray(self.gpus * (self.trials @ self.minutes[1]), dtype=np.float64)

    @property
    def last_round_gpu_min(self) -> FloatArray:
        """(M,) Without pauses, in the last round."""
        return np.asarray(self.gpus * self.minutes[1, -1] * self.trials[:, -1], dtype=np.float64)

    def take(self, which: NDArray[np.bool_] | slice) -> BracketRows:
        """Return some of the rows."""
        return replace(self, trials=self.trials[which])

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.trials)

    @property
    def held_gpus(self) -> FloatArray:
        """(M,) GPUs that a row holds in the first round, in which it holds most."""
        return self.gpus * self.trials[:, 0].astype(np.float64)

    @cached_property
    def gains(self) -> FloatArray:
        """(M, 5) More than in the published row: spent, held at first, trained, trained at last, and started."""
        amounts = self.spent_gpu_min, self.held_gpus, self.training_gpu_min, self.last_round_gpu_min, self.trials[:, 0]
        columns: FloatArray = np.column_stack(amounts)
        return columns - columns[:1]


@dataclass(frozen=True, eq=False)
class SpendProblem:
    """The choices of all brackets, and the budget and the cluster that they share."""

    #: K and t_1.
    rounds: int
    round_min: float
    #: B and G; the latter is infinite where there is no such limit.
    budget_gpu_min: float
    cluster_gpus: float
    brackets: tuple[BracketRows, ...]  # by increasing GPUs
    complete: bool  # whether all rows that the budget can pay are listed
    minutes: FloatArray  # (2, K) of each round, with its pause and without
    gpus_per_node: int | None = None  # where the budget counts whole nodes

    @property
    def kept(self) -> tuple[float, float]:
        """What a choice may take, and hold, to keep budget and cluster, however its amounts were added up."""
        return self.budget_gpu_min * (1.0 + _SLACK), self.cluster_gpus * (1.0 + _SLACK)

    @property
    def listed(self) -> tuple[float, float]:
        """What a proof looks at: whatever may count as keeping the limits takes, and holds, less."""
        return self.budget_gpu_min * (1.0 + _LISTED_SLACK), self.cluster_gpus * (1.0 + _LISTED_SLACK)

    def training_of(self, rows: tuple[int, ...]) -> float:
        """Return the GPU-minutes of training of a choice of rows."""
        return float(sum(each.training_gpu_min[row] for each, row in zip(self.brackets, rows, strict=True)))

    def use(self, rows: tuple[int, ...]) -> tuple[float, float]:
        """Return what a choice of rows takes, as the budget counts it, and the GPUs that it holds at first."""
        chosen = list(zip(self.brackets, rows, strict=True))
        held = float(sum(each.held_gpus[row] for each, row in chosen))
        if self.gpus_per_node is None:
            return float(sum(each.spent_gpu_min[row] for each, row in chosen)), held
        numbers = [(each.gpus, each.trials[row].tolist()) for each, row in chosen]
        nodes = [
            count_nodes(self.gpus_per_node, tuple((gpus, trials[k]) for gpus, trials in numbers if trials[k]))
            for k in range(self.rounds)
        ]
        return self.gpus_per_node * float(np.dot(nodes, self.minutes[0])), held

    def write(self, rows: tuple[int, ...]) -> SeerSolution:
        """Write a choice of rows as a solution; brackets without trials are left out."""
        chosen = ((each.gpus, tuple(each.trials[row].tolist())) for each, row in zip(self.brackets, rows, strict=True))
        brackets = tuple(Bracket(gpus=gpus, trials=trials) for gpus, trials in chosen if trials[0])
        return SeerSolution(round_min=self.round_min, rounds=self.rounds, brackets=brackets)


def list_rows(instance: SeerInstance, published: SearchBrackets) -> SpendProblem:
    """List what each bracket may train within the budget."""
    budget = instance.budget_gpu_min
    minutes = _minutes(instance, published)
    least = [bracket.gpus * float(np.dot(minutes[0], bracket.trials)) for bracket in published.brackets]
    spare = max(0.0, budget * (1.0 + _LISTED_SLACK) - sum(least))
    trial_min = minutes_per_trial(instance.parameters, published.rounds, published.round_min)
    cluster = math.inf if instance.most_gpus_held is None else instance.most_gpus_held
    spare_gpus = cluster * (1.0 + _LISTED_SLACK) - sum(each.gpus * each.trials[0] for each in published.brackets)
    brackets, complete = [], True
    for bracket, own in zip(published.brackets, least, strict=True):
        # A row takes more than that of its size without floors, less one trial of each round.
        most_size = ((own + spare) / bracket.gpus + float(minutes[0].sum())) / trial_min
        most_size = min(most_size, bracket.trials[0] + 1.0 + max(0.0, spare_gpus) / bracket.gpus)
        sizes, all_listed = _list_sizes(instance, published, bracket, most_size)
        trials = np.floor(sizes[:, None] * (1.0 + _SAME) / instance.eta ** np.arange(published.rounds))
        trials[0] = bracket.trials
        rows = BracketRows(bracket.gpus, trials.astype(np.int64), minutes)
        fits = rows.spent_gpu_min <= own + spare
        fits &= rows.held_gpus <= rows.held_gpus[0] + spare_gpus
        fits[0] = True
        complete &= all_listed
        brackets.append(rows.take(fits))
    return SpendProblem(
        published.rounds, published.round_min, budget, cluster, tuple(brackets), complete, minutes, instance.nodes_paid
    )


def _minutes(instance: SeerInstance, published: SearchBrackets) -> FloatArray:
    """Return minutes (2, K) of each round, with pauses and without."""
    training = published.round_min * instance.eta ** np.arange(published.rounds)
    return np.array([training + instance.resize_min * (np.arange(published.rounds) > 0), training])


def _list_sizes(
    instance: SeerInstance, published: SearchBrackets, bracket: SizedBracket, most_size: float
) -> tuple[FloatArray, bool]:
    """List the published size and, in increasing order, those above it at which a row changes; and whether all."""
    first = bracket.size * (1.0 + ROUNDING)
    steps = []
    powers = instance.eta ** np.arange(1 if instance.eta == round(instance.eta) else published.rounds)
    complete, most_rows = True, max(1, min(MOST_ROWS, _MOST_NUMBERS // published.rounds))
    for power in powers.tolist():
        start, stop = int(first // power) + 1, int(most_size // power) + 1
        complete &= stop - start < most_rows
        steps.append(np.arange(start, min(stop, start + most_rows)) * power)
    sizes = np.unique(np.concatenate(steps))
    sizes = sizes[sizes > first]
    # Multiples of different powers may be one and the same number, up to rounding.
    apart = np.append(True, sizes[1:] > sizes[:-1] * (1.0 + _SAME))[: sizes.size]
    sizes = sizes[apart]
    return np.append(bracket.size, sizes[:most_rows]), complete and sizes.size <= most_rows


#: Most choices of rows of all brackets but the narrowest, and most complete choices whose nodes are counted.
MOST_CHOICES = 400_000
MOST_COUNTED = 100_000
#: Trainings nearer than this, relative to the budget, are ties.
_TIE = 1e-12
_BETWEEN_LOOKS = 500


@dataclass(frozen=True, eq=False)
class ChosenRows:
    """The best row of every bracket, and what the search for it looked at."""

    rows: tuple[int, ...]
    most: float | None  # GPU-minutes that no choice trains for more than; None where the search ended before it knew
    counters: dict[str, float]  # labels that were kept; on nodes, choices that were kept or had their nodes counted
    stopped_by: Termination | None  # what ended the search before it was complete
    #: Where GPUs held are paid, for all brackets but the narrowest, from the widest on: (2, L) what is spent and
    #: trained above the published rows by the undominated choices for the brackets so far; (3, L) with what is held
    #: between the two, where the cluster has a limit.
    pairs: tuple[FloatArray, ...] = ()


@dataclass(frozen=True, eq=False)
class Choices:
    """Choices of rows for some brackets."""

    amounts: NDArray[Any]  # (L, A) what is known of each
    rows: IntArray  # (L, brackets) the rows, of the widest bracket first

    @classmethod
    def before(cls, amounts: NDArray[Any]) -> Choices:
        """Return the one choice for no bracket, of which (A,) amounts are known."""
        return cls(amounts[None], np.zeros((1, 0), dtype=np.int64))

    def take(self, chosen: IntArray | NDArray[np.bool_]) -> Choices:
        """Return some of the choices."""
        return Choices(self.amounts[chosen], self.rows[chosen])

    def join(self, added: NDArray[Any], mine: IntArray, theirs: IntArray) -> Choices:
        """Join choices with rows of one more bracket, which add (M, A) amounts."""
        rows = np.concatenate([self.rows[mine], theirs[:, None]], axis=1)
        return Choices(self.amounts[mine] + added[theirs], rows)


def is_within(used: tuple[float, float], most: tuple[float, float]) -> bool:
    """Whether what a choice takes and holds is no more than so much."""
    return used[0] <= most[0] and used[1] <= most[1]


def choose_rows_on_nodes(problem: SpendProblem, eta: float, stopwatch: Stopwatch) -> ChosenRows:
    """Choose the best row of every bracket where the budget counts whole nodes."""
    narrowest, *others = problem.brackets
    assert problem.gpus_per_node is not None
    evenly = divide_evenly(problem.gpus_per_node, [each.gpus for each in problem.brackets])
    published = np.sum([_hold(each)[0] for each in problem.brackets], axis=0)
    choices = Choices.before(published)  # with GPUs held in each round, those of the published rows at least
    stopped_by = None
    for each in reversed(others):
        if stopwatch.expired:
            stopped_by, size = Termination.TIME_LIMIT, 1
        else:
            size = count_needed(each, narrowest, eta, problem.rounds) if evenly else each.size
            if size * len(choices.rows) > MOST_CHOICES:
                stopped_by, size = Termination.WORK_LIMIT, max(1, MOST_CHOICES // len(choices.rows))
        choices = _extend(problem, choices, each, min(size, each.size))
    return _take_longest(problem, choices, stopwatch, stopped_by)


def _hold(rows: BracketRows) -> IntArray:
    """Return (M, K) GPUs that the rows of a bracket hold in each round."""
    return round(rows.gpus) * rows.trials


def count_needed(rows: BracketRows, narrowest: BracketRows, eta: float, rounds: int) -> int:
    """Return how many rows of a wider bracket can be needed where GPUs are whole; see the docstring of ``spending``."""
    if eta != round(eta):
        return rows.size
    least = round(narrowest.gpus)
    needed: int = least // math.gcd(least, round(rows.gpus)) * round(eta) ** (rounds - 1)
    return min(rows.size, needed)


def _extend(problem: SpendProblem, choices: Choices, rows: BracketRows, size: int) -> Choices:
    """Join every choice with each of the first rows of a bracket that the bound on nodes lets pass."""
    joined = choices.join(_hold(rows) - _hold(rows)[0], *np.divmod(np.arange(len(choices.rows) * size), size))
    return joined.take(_may_fit(problem, joined.amounts))


def _may_fit(problem: SpendProblem, gpus: IntArray) -> NDArray[np.bool_]:
    """Return (L,) whether as many GPUs in each round keep the limits, if they fill their nodes."""
    per_node = problem.gpus_per_node or 1
    paid: FloatArray = per_node * -(-gpus // per_node) @ problem.minutes[0]
    most_paid, most_held = problem.listed
    return (paid <= most_paid) & (gpus[:, 0] <= most_held)


def _find_longest(problem: SpendProblem, choices: Choices, narrowest: BracketRows) -> IntArray:
    """Return (L,) the longest row of the narrowest bracket with which each choice may fit."""
    held = _hold(narrowest) - _hold(narrowest)[0]
    least = np.zeros(len(choices.rows), dtype=np.int64)
    most = np.full(len(choices.rows), narrowest.size, dtype=np.int64)
    while (most - least > 1).any():
        middle = (least + most) // 2
        fits = _may_fit(problem, choices.amounts + held[middle])
        least, most = np.where(fits, middle, least), np.where(fits, most, middle)
    return least


def _take_longest(
    problem: SpendProblem, choices: Choices, stopwatch: Stopwatch, stopped_by: Termination | None
) -> ChosenRows:
    """Look at complete choices by decreasing training until one keeps the budget, and at those that tie with it."""
    complete, tie = stopped_by is None, _TIE * problem.budget_gpu_min
    kept = len(choices.rows)
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
        used = problem.use(rows)
        if most is None and is_within(used, problem.listed):
            most = training  # what exceeds a limit by no more than rounding errors may count as keeping it
        if is_within(used, problem.kept):
            pairs = list(zip(problem.brackets, rows, strict=True))
            last = sum(float(each.last_round_gpu_min[one]) for each, one in pairs)
            trials = sum(int(each.trials[one, 0]) for each, one in pairs)
            key = (round(last / tie) if tie else last, trials, rows[::-1])
            if best is None or key > best[1]:
                best = (training if best is None else best[0], key, rows)
    rows = (0,) * len(problem.brackets) if best is None else best[2]
    return ChosenRows(rows, most if complete else None, {"choices": float(kept + counted)}, stopped_by)


def _list_by_training(problem: SpendProblem, choices: Choices) -> Iterator[tuple[float, int, int]]:
    """List complete choices by decreasing training: GPU-minutes, choice, row of the narrowest bracket."""
    narrowest = problem.brackets[0]
    held = _hold(narrowest) - _hold(narrowest)[0]
    minutes: FloatArray = problem.minutes[1]  # of each round, without its pause
    longest = _find_longest(problem, choices, narrowest)
    trained: FloatArray = (choices.amounts + held[longest]) @ minutes
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
