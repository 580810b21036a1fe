"""The plans of one bracket as walks over instances held, for the judge: best ones under weights, and all near ones.

Written apart from the solver: growths are looked up pair by pair, options are not reduced beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optplan.formulations.rubberband.data.instance import RubberBandInstance, StageAllocation
from optplan.formulations.rubberband.judge.evaluation import expected_shortfall_s, growth
from optplan.formulations.rubberband.laws.execution import Cohort
from optplan.formulations.rubberband.laws.stages import StageOptions, stage_cdf, stage_options
from optplan.schema import FloatArray, IntArray

#: Relative tolerance of every comparison.
TOLERANCE = 1e-9
#: Multiples of the weight of the time at which near walks are bounded, too.
_BESIDE = (0.0, 0.3, 1.0, 3.0)
#: Most pairs of counts whose growths are tabulated.
_MOST_PAIRS = 1 << 21
#: A missing minimum charge below this share of the cost is none.
_NO_CHARGE = 1e-13


@dataclass(frozen=True)
class Point:
    """What a walk takes."""

    seconds: float
    usd: float

    def weigh(self, usd_weight: float, s_weight: float) -> float:
        """Return the weighted sum."""
        return usd_weight * self.usd + s_weight * self.seconds


@dataclass(frozen=True, eq=False)
class _Walks:
    """Beginnings of walks: all arrays (L,), the stages so far along ``held`` and ``gpus`` (L, j)."""

    node: IntArray
    seconds: FloatArray
    usd: FloatArray
    held: IntArray
    gpus: IntArray

    def take(self, rows: IntArray) -> _Walks:
        return _Walks(self.node[rows], self.seconds[rows], self.usd[rows], self.held[rows], self.gpus[rows])


class BracketWalks:
    """All walks of one bracket.

    Parameters
    ----------
    instance
        The problem; its limit is not looked at.
    bracket
        Which of its brackets.
    """

    def __init__(self, instance: RubberBandInstance, bracket: int) -> None:
        self.instance = instance
        self.bracket = bracket
        self.options = [stage_options(instance, bracket, stage) for stage in range(len(instance.brackets[bracket]))]
        needed = np.unique(np.concatenate([options.instances for options in self.options]))
        constant = instance.cloud.initialise_s.is_constant
        #: (K,) Instances held: between two counts that are needed costs are linear, unless the latest INIT varies.
        self.held: IntArray = needed if constant else np.arange(1, needed[-1] + 1)
        self.start_s, self.start_usd = growth(instance, 0, self.held)

    def best(self, usd_weight: float, s_weight: float) -> Point:
        """Return a walk of least weighted cost and time, without minimum charges."""
        arrive = usd_weight * self.start_usd + s_weight * self.start_s
        seconds, usd = self.start_s, self.start_usd
        for stage in range(len(self.options)):
            if stage:
                arrive, seconds, usd = self._move(arrive, seconds, usd, usd_weight, s_weight)
            run, run_s, run_usd = self._run(stage, usd_weight, s_weight)
            arrive, seconds, usd = arrive + run, seconds + run_s, usd + run_usd
        node = int(arrive.argmin())
        return Point(float(seconds[node]), float(usd[node]))

    def least_usd(self) -> float:
        """Return the least cost of any walk, minimum charges included."""
        bound = self.best(1.0, 0.0).usd
        allowance = 0.01 * bound
        while True:
            found = self.list_within(1.0, 0.0, bound + allowance, math.inf, math.inf)
            least = float(found[:, 1].min(initial=math.inf))
            if least <= bound + allowance:
                return least
            allowance *= 2.0

    def list_within(
        self, usd_weight: float, s_weight: float, most: float, most_usd: float, most_s: float
    ) -> FloatArray:
        """List the undominated walks within a weighted sum, a cost and a time, minimum charges included.

        Parameters
        ----------
        usd_weight, s_weight
            Of the weighted sum.
        most
            Greatest weighted sum.
        most_usd, most_s
            Greatest cost and time.

        Returns
        -------
        FloatArray
            (P, 2) Seconds and US dollars.
        """
        slack = 1.0 + TOLERANCE
        cuts = [_Cut(self, usd_weight, s_weight, most * slack)]
        if most_s < math.inf:
            cuts.append(_Cut(self, 0.0, 1.0, most_s * slack))
        if most_usd < math.inf:
            cuts.append(_Cut(self, 1.0, 0.0, most_usd * slack))
        if most_usd < math.inf and most_s < math.inf and usd_weight > 0.0:
            for factor in _BESIDE:
                weight = factor * s_weight
                cuts.append(_Cut(self, usd_weight, weight, (usd_weight * most_usd + weight * most_s) * slack))
        walks = self._begin(cuts)
        for stage in range(1, len(self.options)):
            walks = self._go_on(walks, stage, cuts)
        return np.column_stack([walks.seconds, walks.usd + self._charge(walks)[1]])

    def run_least(self, stage: int, usd_weight: float, s_weight: float) -> FloatArray:
        """Return by node (K,) the least weighted sum of an option of a stage that fits; infinity where none does."""
        return self._run(stage, usd_weight, s_weight)[0]

    def grow_from(self, node: int) -> tuple[FloatArray, FloatArray]:
        """Return seconds and US dollars of growing from a node to each later one."""
        if self._growths is not None:
            return self._growths[0][node, node + 1 :], self._growths[1][node, node + 1 :]
        return growth(self.instance, int(self.held[node]), self.held[node + 1 :])

    @cached_property
    def _growths(self) -> tuple[FloatArray, FloatArray] | None:
        if self.held.size**2 > _MOST_PAIRS:
            return None
        return growth(self.instance, self.held[:, None], self.held[None, :])

    @cached_property
    def next_growth(self) -> tuple[FloatArray, FloatArray]:
        """Seconds and US dollars (K - 1,) of growing from each node to the next: the least that growing takes."""
        return growth(self.instance, self.held[:-1], self.held[1:])

    def _node_usd(self, options: StageOptions, position: IntArray, held: IntArray) -> FloatArray:
        """Return the cost of running options while so much is held."""
        cloud = self.instance.cloud
        if cloud.is_per_instance:
            return cloud.price_usd_per_s * held * options.expected_s[position]
        return cloud.gpu_price_usd_per_s * options.busy_gpu_s[position]

    def _run(self, stage: int, usd_weight: float, s_weight: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return by node (K,) the least weighted sum of an option that fits, with its seconds and US dollars."""
        options = self.options[stage]
        fitting = np.searchsorted(options.instances, self.held, side="right")
        costs = options.expected_s
        if not self.instance.cloud.is_per_instance:
            usd = self.instance.cloud.gpu_price_usd_per_s * options.busy_gpu_s
            costs = usd_weight * usd + s_weight * options.expected_s
        leads = np.append(True, np.diff(np.minimum.accumulate(costs)) < 0)
        best = np.maximum.accumulate(np.where(leads, np.arange(costs.size), 0))[np.maximum(fitting, 1) - 1]
        seconds, usd = options.expected_s[best], self._node_usd(options, best, self.held)
        weighted = np.where(fitting > 0, usd_weight * usd + s_weight * seconds, math.inf)
        return weighted, seconds, usd

    def _move(
        self, depart: FloatArray, seconds: FloatArray, usd: FloatArray, usd_weight: float, s_weight: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return what coming to each node takes at least: from a later node or itself for nothing, or by growing."""
        least = np.minimum.accumulate(depart[::-1])
        place = np.maximum.accumulate(np.where(depart[::-1] <= least, np.arange(depart.size), 0))
        source = (depart.size - 1 - place)[::-1]
        arrive, seconds_there, usd_there = least[::-1].copy(), seconds[source], usd[source]
        growing = depart[:-1] + usd_weight * self.next_growth[1] + s_weight * self.next_growth[0]
        for node in np.flatnonzero(growing < arrive[-1]).tolist():
            grow_s, grow_usd = self.grow_from(node)
            cost = depart[node] + usd_weight * grow_usd + s_weight * grow_s
            better = np.flatnonzero(cost < arrive[node + 1 :])
            arrive[node + 1 + better] = cost[better]
            seconds_there[node + 1 + better] = seconds[node] + grow_s[better]
            usd_there[node + 1 + better] = usd[node] + grow_usd[better]
        return arrive, seconds_there, usd_there

    def _begin(self, cuts: list[_Cut]) -> _Walks:
        nodes = np.arange(self.held.size)
        nothing = np.zeros((nodes.size, 0), dtype=np.int64)
        return self._run_all(_Walks(nodes, self.start_s, self.start_usd, nothing, nothing), 0, cuts)

    def _go_on(self, walks: _Walks, stage: int, cuts: list[_Cut]) -> _Walks:
        """Move walks to every node that is worth it, and run the stage there."""
        reachable = np.ones(self.held.size, dtype=np.bool_)
        for cut in cuts:
            reachable &= cut.weigh(walks.seconds, walks.usd).min(initial=math.inf) + cut.ahead[stage] <= cut.limit
        rows, nodes, seconds, usd = [], [], [], []
        for node in np.flatnonzero(reachable).tolist():
            grown_s, grown_usd = growth(self.instance, self.held[walks.node], self.held[node])
            there_s, there_usd = walks.seconds + grown_s, walks.usd + grown_usd
            inside = np.ones(there_s.size, dtype=np.bool_)
            for cut in cuts:
                inside &= cut.weigh(there_s, there_usd) + cut.ahead[stage][node] <= cut.limit
            some = np.flatnonzero(inside)
            rows.append(some)
            nodes.append(np.full(some.size, node))
            seconds.append(there_s[some])
            usd.append(there_usd[some])
        if not rows:
            return walks.take(np.empty(0, dtype=np.int64))
        row = np.concatenate(rows)
        moved = _Walks(
            np.concatenate(nodes), np.concatenate(seconds), np.concatenate(usd), walks.held[row], walks.gpus[row]
        )
        return self._run_all(moved, stage, cuts)

    def _run_all(self, walks: _Walks, stage: int, cuts: list[_Cut]) -> _Walks:
        """Run every option of a stage that fits, on all walks that are at a node; keep those worth going on with."""
        kept: list[_Walks] = []
        options = self.options[stage]
        # Per function, who holds more can do all that others can at no more cost: walks there may dominate those here.
        arrived, done = _Frontier(), _Frontier()
        for node in np.unique(walks.node)[::-1].tolist():
            here = walks.take(np.flatnonzero(walks.node == node))
            if self._is_held_for_free:
                here = here.take(arrived.pass_through(here))
            own = self._list_options(stage, node)
            row, choice = (grid.ravel() for grid in np.meshgrid(np.arange(here.node.size), own, indexing="ij"))
            grown = here.take(row)
            held = np.full(row.size, self.held[node])
            run = _Walks(
                grown.node,
                grown.seconds + options.expected_s[choice],
                grown.usd + self._node_usd(options, choice, held),
                np.column_stack([grown.held, held]),
                np.column_stack([grown.gpus, options.gpus[choice]]),
            )
            inside = np.ones(row.size, dtype=np.bool_)
            for cut in cuts:
                inside &= cut.weigh(run.seconds, run.usd) + cut.rest[stage][node] <= cut.limit
            run = run.take(np.flatnonzero(inside))
            run = run.take(self._find_undominated(run))
            kept.append(run.take(done.pass_through(run)) if self._is_held_for_free else run)
        return _join(kept, stage + 1)

    def _list_options(self, stage: int, node: int) -> IntArray:
        """Return the options that may be best while so much is held: all of them where minimum charges are random."""
        options = self.options[stage]
        fitting = np.flatnonzero(options.instances <= self.held[node])
        if self._charges_vary:
            return fitting
        usd = self._node_usd(options, fitting, np.full(fitting.size, self.held[node]))
        order = np.lexsort((usd, options.expected_s[fitting]))
        least = np.minimum.accumulate(np.append(math.inf, usd[order]))[:-1]
        return np.asarray(fitting[order[usd[order] < least]])

    @property
    def _is_held_for_free(self) -> bool:
        return not self.instance.cloud.is_per_instance

    @cached_property
    def _charges_vary(self) -> bool:
        cloud, training = self.instance.cloud, self.instance.training
        if not (cloud.is_per_instance and cloud.minimum_charge_s > 0):
            return False
        starts = [training.start_s, *training.start_s_on.values(), cloud.provision_s, cloud.initialise_s]
        noisy = training.iteration_noise is not None or training.trial_noise is not None
        return noisy or not all(start.is_constant for start in starts)

    def _find_undominated(self, walks: _Walks) -> IntArray:
        """Return the walks at one node that no other beats in time and cost, whatever minimum charges are open."""
        settled, released = self._charge(walks)
        low, high = walks.usd + settled, walks.usd + released
        order = np.lexsort((high, walks.seconds))
        least = np.minimum.accumulate(np.append(math.inf, high[order]))[:-1]
        return np.asarray(order[low[order] < least])

    def _charge(self, walks: _Walks) -> tuple[FloatArray, FloatArray]:
        """Return the minimum charges (L,) of instances already released, and of all if the others went now, too."""
        settled, released = np.zeros(walks.node.size), np.zeros(walks.node.size)
        cloud = self.instance.cloud
        if not (cloud.is_per_instance and cloud.minimum_charge_s > 0):
            return settled, released
        risky = np.zeros(walks.node.size, dtype=np.bool_)
        for stage in range(walks.gpus.shape[1]):
            used, place = np.unique(walks.gpus[:, stage], return_inverse=True)
            risky |= np.array([self._may_fall_short(stage, gpus) for gpus in used.tolist()], dtype=np.bool_)[place]
        for row in np.flatnonzero(risky).tolist():
            held, gpus = walks.held[row].tolist(), walks.gpus[row].tolist()
            for cohort in _list_cohorts(held):
                usd = cloud.price_usd_per_s * cohort.count * self._missing_s(held, gpus, cohort)
                released[row] += usd
                if cohort.last < len(held) - 1:
                    settled[row] += usd
        return settled, released

    def _may_fall_short(self, stage: int, gpus: int) -> bool:
        """Whether a stage alone may take less than the minimum charge."""
        key = (stage, gpus)
        if key not in self._short:
            minimum_s = np.array([self.instance.cloud.minimum_charge_s * (1.0 - TOLERANCE)])
            chance = float(stage_cdf(self.instance, self.bracket, stage, gpus, minimum_s)[0])
            self._short[key] = chance > _NO_CHARGE
        return self._short[key]

    @cached_property
    def _short(self) -> dict[tuple[int, int], bool]:
        return {}

    def _missing_s(self, held: list[int], gpus: list[int], cohort: Cohort) -> float:
        """Return what is missing in the life of instances, looked up by what that consists of."""
        first, last = cohort.first, cohort.last
        key = (first, last, tuple(held[max(0, first - 1) : last + 1]), tuple(gpus[first : last + 1]))
        if key not in self._missing:
            chain = [StageAllocation(instances=m, gpus=a) for m, a in zip(held, gpus, strict=True)]
            self._missing[key] = expected_shortfall_s(self.instance, self.bracket, chain, first, last)
        return self._missing[key]

    @cached_property
    def _missing(self) -> dict[tuple[int, int, tuple[int, ...], tuple[int, ...]], float]:
        return {}


class _Frontier:
    """Undominated pairs of seconds and US dollars among all walks seen."""

    def __init__(self) -> None:
        self.seconds = np.empty(0)
        self.usd = np.empty(0)

    def pass_through(self, walks: _Walks) -> IntArray:
        """Return the walks that no pair seen before beats, and remember theirs."""
        least = np.append(math.inf, self.usd)
        rows = np.flatnonzero(walks.usd < least[np.searchsorted(self.seconds, walks.seconds, side="right")])
        seconds, usd = np.append(self.seconds, walks.seconds[rows]), np.append(self.usd, walks.usd[rows])
        order = np.lexsort((usd, seconds))
        order = order[usd[order] < np.minimum.accumulate(np.append(math.inf, usd[order]))[:-1]]
        self.seconds, self.usd = seconds[order], usd[order]
        return rows


class _Cut:
    """Walks wanted: those whose weighted sum, with the least that can follow, is within a limit."""

    def __init__(self, walks: BracketWalks, usd_weight: float, s_weight: float, limit: float) -> None:
        self.usd_weight = usd_weight
        self.s_weight = s_weight
        self.limit = limit
        stages = len(walks.options)
        #: By stage, (K,): the least that follows a node, and the same with the stage itself.
        self.rest: list[FloatArray] = [np.zeros(walks.held.size)] * stages
        self.ahead: list[FloatArray] = [np.zeros(walks.held.size)] * stages
        for stage in range(stages - 1, -1, -1):
            if stage + 1 < stages:
                self.rest[stage] = self._look_ahead(walks, self.ahead[stage + 1])
            self.ahead[stage] = walks.run_least(stage, usd_weight, s_weight) + self.rest[stage]

    def weigh(self, seconds: FloatArray, usd: FloatArray) -> FloatArray:
        """Return weighted sums."""
        return self.usd_weight * usd + self.s_weight * seconds

    def _look_ahead(self, walks: BracketWalks, ahead: FloatArray) -> FloatArray:
        """Return the least that follows a node: at an earlier node or itself for nothing, or after growing."""
        rest = np.minimum.accumulate(ahead)
        grown_s, grown_usd = walks.next_growth
        later = np.append(np.minimum.accumulate(ahead[::-1])[::-1][1:], math.inf)
        least = later[:-1] + self.weigh(grown_s, grown_usd)
        for node in np.flatnonzero(least < rest[:-1]).tolist():
            grow_s, grow_usd = walks.grow_from(node)
            rest[node] = min(rest[node], float((self.weigh(grow_s, grow_usd) + ahead[node + 1 :]).min()))
        return rest


def _list_cohorts(held: list[int]) -> list[Cohort]:
    """Say which instances come and go together, the oldest being released first; all go after the last stage."""
    cohorts: list[Cohort] = []
    alive: list[tuple[int, int]] = []
    before = 0
    for stage, now in enumerate([*held, 0]):
        if now > before:
            alive.append((stage, now - before))
        gone = before - now
        while gone > 0:
            first, count = alive.pop(0)
            cohorts.append(Cohort(min(count, gone), first, stage - 1))
            if count > gone:
                alive.insert(0, (first, count - gone))
            gone -= count
        before = now
    return cohorts


def _join(parts: list[_Walks], stages: int) -> _Walks:
    """Return all walks one after another."""
    if not parts:
        nothing, none = np.zeros(0), np.zeros((0, stages), dtype=np.int64)
        return _Walks(np.zeros(0, dtype=np.int64), nothing, nothing, none, none)
    return _Walks(
        np.concatenate([part.node for part in parts]),
        np.concatenate([part.seconds for part in parts]),
        np.concatenate([part.usd for part in parts]),
        np.concatenate([part.held for part in parts]),
        np.concatenate([part.gpus for part in parts]),
    )
