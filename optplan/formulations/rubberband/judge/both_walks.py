"""The walks of one bracket that may keep a deadline and a budget, both: the judge of that probability.

Times and instance-seconds are rounded down to a grid that ends with the deadline and the budget, so that no walk keeps
both less often than it seems. What may follow a node is bounded by V, the most that the probability to keep both, less
a price times what is still to be added to the objective, can be with so much of both left. A beginning that has come to
c leads to no walk below C that keeps both with probability q when at some price p its expected V is below
q - p (C - c). Every walk that is left is judged by its distribution. Written apart from the solver: moves are lists of
steps here, and functions of the grid are moved step by step.

It judges certificates of the rule ``rubberband-both-chance``. Their content is ``points``, how many points the grid
has, in either direction. About the objective: no plan below ``bound`` keeps all limits with the confidence. Without a
bound: no plan does. With a ``limit``: no plan does although this limit is ``bound``, or, without a bound, whatever it
is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from optplan.contracts.judgement import RefutedError, UnlistedError
from optplan.contracts.result import TreeCertificate
from optplan.formulations.rubberband.data.instance import (
    BUDGET,
    DEADLINE,
    Objective,
    RubberBandInstance,
    StageAllocation,
)
from optplan.formulations.rubberband.judge.evaluation import expected_costs, growth
from optplan.formulations.rubberband.judge.stages import list_costs
from optplan.formulations.rubberband.judge.tolerances import PROBABILITY_TOLERANCE, TOLERANCE
from optplan.formulations.rubberband.laws.both import both_chance
from optplan.formulations.rubberband.laws.stages import stage_cdf
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

Cdf = Callable[[FloatArray], FloatArray]

#: Most points of a grid.
_MOST_POINTS = 256
#: Prices of the objective, in multiples of one over its bound.
_PRICES = (0.0, 2.0, 6.0, 20.0)
#: How far sums of probabilities may be off, and steps so rare that they count as the shortest instead.
_BLUR, _RARE = 1e-9, 1e-13
#: Points at which the distributions of two options are compared, by quantiles of the slower one's reach.
_COMPARED = 769
#: Cells on which walks are judged first, and how far the probability may be off there.
_FEW_CELLS, _MARGIN = 1 << 16, 0.02
#: Numbers that V may take, steps of all options, walks that are looked at, and stages that are followed.
_MOST_NUMBERS, _MOST_STEPS, _MOST_WALKS, _MOST_STAGES = 1 << 25, 4_000_000, 2_000_000, 200


def read_points(certificate: TreeCertificate, most: int) -> int:
    """Return how many points the grid of a certificate has, from two to some number."""
    points = certificate.content.get("points")
    if not (isinstance(points, int) and not isinstance(points, bool) and 2 <= points <= most):
        raise RefutedError(f"points must be a whole number from 2 to {most}")
    return points


def check_both_chance(instance: RubberBandInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Raise unless a certificate proves its claim; see the module's text."""
    points = read_points(certificate, _MOST_POINTS)
    limits, below, bound = instance.limits, math.inf, certificate.bound
    if bound is not None and not 0.0 < bound < math.inf:
        raise RefutedError("a bound above zero is needed")
    if certificate.limit:
        limits[certificate.limit] = math.inf if bound is None else bound * (1.0 - TOLERANCE)
    elif bound is not None:
        below = bound * (1.0 - TOLERANCE)
    both = (limits.get(DEADLINE, math.inf), limits.get(BUDGET, math.inf))
    found = BothWalks(instance, both, points, below, stopwatch).find()
    if found:
        raise RefutedError(found)


@dataclass(frozen=True, eq=False)
class _Steps:
    """A duration on the grid: (A,) steps of time and of instance-seconds, and how likely each is."""

    rows: list[int]
    columns: list[int]
    mass: list[float]


@dataclass(frozen=True, eq=False)
class _Option:
    """An allocation at a node: GPUs, what it adds to the objective, how it moves."""

    gpus: int
    adds: float
    steps: _Steps


class BothWalks:
    """All walks of the one bracket of a search on one grid.

    Parameters
    ----------
    instance
        Billed per instance.
    limits
        Deadline in seconds and budget in US dollars; either may be infinite.
    points
        Of the grid in either direction.
    most
        Walks whose objective is this or more are not looked for; may be infinite.
    stopwatch
        Its time must suffice.
    """

    def __init__(
        self, instance: RubberBandInstance, limits: tuple[float, float], points: int, most: float, stopwatch: Stopwatch
    ) -> None:
        self.instance = instance
        self.stopwatch = stopwatch
        self.most = most
        self.limits = (limits[0] * (1.0 + TOLERANCE), limits[1] * (1.0 + TOLERANCE))
        self.wanted = (instance.confidence or 0.0) - PROBABILITY_TOLERANCE
        self.ends = (self.limits[0], self.limits[1] / instance.cloud.price_usd_per_s)
        self.shape = tuple(points if end < math.inf else 1 for end in self.ends)
        self.by_cost = instance.objective is Objective.COST
        stages = range(len(instance.brackets[0]))
        self.costs = [list_costs(instance, 0, stage, stopwatch) for stage in stages]
        self.held = np.arange(1, max(int(costs.instances.max()) for costs in self.costs) + 1)
        prices = [factor / most for factor in _PRICES] if 0.0 < most < math.inf else [0.0]
        self.prices = np.array(prices)
        if len(self.costs) > _MOST_STAGES:
            raise RefutedError(f"{len(self.costs):,} stages are more than the {_MOST_STAGES:,} that are followed")
        if self.held.size * len(self.costs) * len(prices) * math.prod(self.shape) > _MOST_NUMBERS:
            message = f"a grid of {points} points for {self.held.size:,} counts of instances is more than is looked at"
            raise RefutedError(message)
        self._steps = 0
        self.options = [[list(self._list_options(stage, held)) for held in self.held.tolist()] for stage in stages]
        zero = np.zeros(1, dtype=np.int64)
        which = 1 if self.by_cost else 0
        self.start = growth(instance, zero, self.held)[which]
        self.growth = growth(instance, self.held[:, None], self.held[None, :])[which]
        self.walks = 0
        self.after, self.rest = self._look_ahead()

    def find(self) -> str:
        """Return a walk below the objective that keeps both often enough, in words; empty when there is none.

        Raises
        ------
        OutOfTime
            When the stopwatch expires.
        RefutedError
            When walks are too many to be looked at.
        """
        start = np.zeros(self.shape)
        start[0, 0] = 1.0
        return self._follow([], 0.0, start)

    def _follow(self, chain: list[StageAllocation], added: float, mass: FloatArray) -> str:
        """Look at all walks with a beginning, depth first."""
        stage = len(chain)
        if stage == len(self.costs):
            return self._judge(chain)
        before = chain[-1].instances if chain else 0
        for node, held in enumerate(self.held.tolist()):
            self.stopwatch.require()
            options = self.options[stage][node]
            grown = added + float(self.growth[before - 1, node] if chain else self.start[node])
            options = [one for one in options if grown + one.adds + self.rest[stage][node] < self.most]
            if not options:
                continue
            there = mass
            for steps in self._grow(before, held):
                there = _move(there, steps)
            for one in options:
                self.walks += 1
                if self.walks > _MOST_WALKS:
                    raise RefutedError("the walks that may keep both limits are more than are looked at")
                ran = _move(there, one.steps)
                worth = np.einsum("pij,ij->p", self.after[stage][:, node, ::-1, ::-1], ran)
                worth -= self.prices * self.rest[stage][node] * (1.0 - ran.sum())
                spare = self.most - grown - one.adds
                needed = self.wanted - _BLUR - (self.prices * spare if spare < math.inf else 0.0)
                if (worth < needed).any():
                    continue
                allocation = StageAllocation(instances=held, gpus=one.gpus)
                found = self._follow([*chain, allocation], grown + one.adds, ran)
                if found:
                    return found
        return ""

    def _judge(self, chain: list[StageAllocation]) -> str:
        """Say what a whole walk amounts to, if it is below the objective and keeps both often enough."""
        objective = expected_costs(self.instance, 0, chain)[1 if self.by_cost else 0]
        if objective >= self.most:
            return ""
        held, gpus = [one.instances for one in chain], [one.gpus for one in chain]
        chance = both_chance(self.instance, held, gpus, *self.limits, cells=_FEW_CELLS)
        if chance >= self.wanted - _MARGIN:
            chance = both_chance(self.instance, held, gpus, *self.limits)
        return f"{held} instances keep both with a probability of {chance:.9g}" if chance >= self.wanted else ""

    def _list_options(self, stage: int, held: int) -> Iterator[_Option]:
        """List the allocations on so many instances; where no minimum charge counts, only those that none beats."""
        costs, cloud = self.costs[stage], self.instance.cloud
        fitting = np.flatnonzero(costs.instances <= held)
        fitting = fitting[np.argsort(costs.expected_s[fitting], kind="stable")]
        paid = cloud.price_usd_per_s * held if self.by_cost else 1.0
        for row in fitting[self._find_unbeaten(stage, fitting)].tolist():
            self.stopwatch.require()
            gpus = int(costs.gpus[row])
            steps = self._round(partial(stage_cdf, self.instance, 0, stage, gpus), held)
            self._steps += len(steps.mass)
            if self._steps > _MOST_STEPS:
                raise UnlistedError(f"options take more than {_MOST_STEPS:,} steps on the grid")
            yield _Option(gpus, paid * float(costs.expected_s[row]), steps)

    def _find_unbeaten(self, stage: int, fitting: IntArray) -> IntArray:
        """Return positions of options, given from the quickest on, that none before is certain to end no later than."""
        if not fitting.size or self.instance.has_minimum_charges:
            return np.arange(fitting.size)
        gpus = self.costs[stage].gpus[fitting].tolist()
        if not self.instance.is_random:
            return np.zeros(1, dtype=np.int64)
        slowest = float(self.costs[stage].expected_s[fitting[-1]])
        points = np.concatenate(
            [
                np.linspace(0.0, 2.0 * slowest, _COMPARED),
                self.costs[stage].expected_s[fitting],
                np.nextafter(self.costs[stage].expected_s[fitting], 0.0),
            ]
        )
        kept: list[int] = []
        done: list[FloatArray] = []
        for place, each in enumerate(gpus):
            own = stage_cdf(self.instance, 0, stage, each, points)
            if not any((other >= own - _RARE).all() for other in done):
                kept.append(place)
                done.append(own)
        return np.array(kept, dtype=np.int64)

    def _grow(self, before: int, after: int, added: int = 0) -> list[_Steps]:
        """Return the steps of a request and of the last of its initialisations; none without growth."""
        if after <= before:
            return []
        cloud, new = self.instance.cloud, added or after - before
        single = cloud.initialise_s
        data = new * cloud.data_usd_per_instance / cloud.price_usd_per_s
        return [
            self._round(cloud.provision_s.cdf, before),
            self._round(lambda t: np.power(single.cdf(t), new), after, data),
        ]

    def _round(self, cdf: Cdf, weight: int, data: float = 0.0) -> _Steps:
        """Round a duration down that passes while so many instances are paid."""
        ends = [end / max(size - 1, 1) for end, size in zip(self.ends, self.shape, strict=True)]
        marks: list[FloatArray] = [np.zeros(1)]
        longest = math.inf
        for end, wide, size, each in zip(self.ends, ends, self.shape, (1, weight), strict=True):
            if size > 1 and each:
                marks.append(np.asarray(wide / each * np.arange(size), dtype=np.float64))
                longest = min(longest, end / each)
        marks_s = np.sort(np.concatenate(marks))
        marks_s = marks_s[marks_s <= longest]
        beyond = 1.0 if longest == math.inf else float(cdf(np.array([longest]))[0])
        below = np.append(cdf(marks_s[1:] * (1.0 + TOLERANCE)), beyond)
        mass = np.diff(np.concatenate([[0.0], below]))
        first = math.floor(data / ends[1]) if self.shape[1] > 1 else 0
        rows = _count(marks_s, 1, ends[0]) if self.shape[0] > 1 else np.zeros(mass.size, dtype=np.int64)
        columns = _count(marks_s, weight, ends[1]) if self.shape[1] > 1 else np.zeros(mass.size, dtype=np.int64)
        columns = columns + first
        if mass.size:
            rare = (mass < _RARE) & (mass > 0.0)
            mass[0] += mass[rare].sum()
            mass[1:][rare[1:]] = 0.0
        some = np.flatnonzero((mass > 0.0) & (columns < self.shape[1]))
        return _Steps(rows[some].tolist(), columns[some].tolist(), mass[some].tolist())

    def _look_ahead(self) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return by stage V after it (P, K, ...), and (K,) the least that what follows adds to the objective."""
        count, prices = self.held.size, self.prices
        after = [np.ones((prices.size, count, *self.shape))]
        rest = [np.zeros(count)]
        for stage in range(len(self.costs) - 1, 0, -1):
            ahead = np.array([min((one.adds for one in some), default=math.inf) for some in self.options[stage]])
            ahead += rest[0]
            values = np.full(after[0].shape, -math.inf)
            for node in np.flatnonzero(np.isfinite(ahead)).tolist():
                for one in self.options[stage][node]:
                    self.stopwatch.require()
                    worth = self._move_back(after[0][:, node], rest[0][node], one.steps)
                    values[:, node] = np.maximum(values[:, node], worth - (prices * one.adds)[:, None, None])
            rest.insert(0, (self.growth + ahead).min(axis=1))
            after.insert(0, self._come(values, ahead))
        return after, rest

    def _come(self, values: FloatArray, ahead: FloatArray) -> FloatArray:
        """Return V after a stage, given V before the next one."""
        prices, best = self.prices, np.full(values.shape, -math.inf)
        for node, held in enumerate(self.held.tolist()):
            self.stopwatch.require()
            best[:, node] = values[:, : node + 1].max(axis=1)
            for later in range(node + 1, self.held.size):
                if not math.isfinite(ahead[later]):
                    continue
                # Waiting for one new instance takes no longer than for several.
                worth, least = values[:, later], float(ahead[later])
                for steps in reversed(self._grow(held, int(self.held[later]), 1)):
                    worth = self._move_back(worth, least, steps)
                best[:, node] = np.maximum(best[:, node], worth - (prices * self.growth[node, later])[:, None, None])
        return best

    def _move_back(self, values: FloatArray, least: float, steps: _Steps) -> FloatArray:
        """Return the expected V (P, ...) before some steps; beyond the grid only the least is to be added still."""
        late = -self.prices[:, None, None] * least
        return _move(values - late, steps) + late


def _move(values: FloatArray, steps: _Steps) -> FloatArray:
    """Move functions of the grid by steps; what leaves it is lost."""
    moved = np.zeros_like(values)
    rows, columns = values.shape[-2:]
    for row, column, mass in zip(steps.rows, steps.columns, steps.mass, strict=True):
        moved[..., row:, column:] += mass * values[..., : rows - row, : columns - column]
    return moved


def _count(marks_s: FloatArray, weight: int, wide: float) -> IntArray:
    """Return how many whole steps durations make, which are at steps in spite of rounding."""
    return np.floor(weight * marks_s / wide + TOLERANCE).astype(np.int64)
