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

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.seer.data.brackets import ROUNDING, SHORTFALL, SearchBrackets, SizedBracket, minutes_per_trial
from optplan.formulations.seer.data.instance import Bracket, SeerInstance, SeerSolution
from optplan.formulations.seer.laws.rounds import count_nodes
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
    def round_minutes(self) -> FloatArray:
        """(K,) Of each round, with its pause."""
        minutes: FloatArray = self.minutes[0]
        return minutes

    @property
    def most_gpu_min(self) -> float:
        """What a choice may take to keep the budget, however its amounts were added up."""
        return self.budget_gpu_min * (1.0 + _SLACK)

    @property
    def listed_gpu_min(self) -> float:
        """What a proof looks at: whatever may count as keeping the budget takes less."""
        return self.budget_gpu_min * (1.0 + _LISTED_SLACK)

    @property
    def most_gpus(self) -> float:
        """What a choice may hold, however its GPUs were added up."""
        return self.cluster_gpus * (1.0 + _SLACK)

    @property
    def listed_gpus(self) -> float:
        """What a proof looks at."""
        return self.cluster_gpus * (1.0 + _LISTED_SLACK)

    def training_of(self, rows: tuple[int, ...]) -> float:
        """Return the GPU-minutes of training of a choice of rows."""
        return float(sum(each.training_gpu_min[row] for each, row in zip(self.brackets, rows, strict=True)))

    def paid_gpu_min(self, rows: tuple[int, ...]) -> float:
        """Return the GPU-minutes of a choice of rows as the budget counts them."""
        chosen = list(zip(self.brackets, rows, strict=True))
        if self.gpus_per_node is None:
            return float(sum(each.spent_gpu_min[row] for each, row in chosen))
        numbers = [(each.gpus, each.trials[row].tolist()) for each, row in chosen]
        nodes = [
            count_nodes(self.gpus_per_node, tuple((gpus, trials[k]) for gpus, trials in numbers if trials[k]))
            for k in range(self.rounds)
        ]
        return self.gpus_per_node * float(np.dot(nodes, self.round_minutes))

    def held_gpus(self, rows: tuple[int, ...]) -> float:
        """Return the GPUs that a choice of rows holds in the first round."""
        return float(sum(each.held_gpus[row] for each, row in zip(self.brackets, rows, strict=True)))

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


def count_rows(instance: SeerInstance) -> int:
    """Count the rows of all brackets; none where the instance is infeasible."""
    published = instance.brackets
    return 0 if published is None else sum(each.size for each in list_rows(instance, published).brackets)


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
