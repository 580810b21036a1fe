"""The plans of one bracket as paths over instances held, for the judge: best ones under weights, and all near ones.

Written apart from the solver: growths are computed pair by pair, options are all that the rules allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import JUDGE_TOLERANCE, UnlistedError
from optplan.formulations.rubberband.data.instance import RubberBandInstance, StageAllocation
from optplan.formulations.rubberband.judge.evaluation import expected_costs, growth, list_costs
from optplan.formulations.rubberband.judge.paths import ChargedOptions, Cut, Paths, bound_charges, join_paths
from optplan.formulations.rubberband.laws.stages import StageOptions
from optplan.judging.loops import sweep_undominated
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

#: Multiples of the weight of the time at which near paths are bounded, too.
_BESIDE = (0.0, 0.3, 1.0, 3.0)
#: Seconds given up, as a fraction, to break ties among the fastest plans by their cost.
_TIE = 1e-10
#: Most pairs of a path and an option, or of one and a node to go to, that are made in one go.
_MOST_AT_ONCE = 1 << 20
#: Most counts of instances by stages, and most numbers of all paths at a time; what leaves more to list proves nothing.
_MOST_CELLS, _MOST_NUMBERS = 1 << 22, 1 << 25


@dataclass(frozen=True, eq=False)
class NearPaths:
    """Whole paths (P,), with the ends between which their expected costs lie, minimum charges included."""

    paths: Paths
    low_usd: FloatArray
    high_usd: FloatArray


class BracketPaths(ChargedOptions):
    """All paths of one bracket, whatever the limits; what takes long raises OutOfTime when its time is over."""

    def __init__(self, instance: RubberBandInstance, bracket: int, stopwatch: Stopwatch) -> None:
        stages = range(len(instance.brackets[bracket]))
        super().__init__(
            instance, bracket, [list_costs(instance, bracket, stage, stopwatch) for stage in stages], stopwatch
        )
        needed = np.unique(np.concatenate([options.instances for options in self.options]))
        #: (K,) Instances held: between two counts that are needed costs are linear, unless the latest INIT varies or
        #: minimum charges tell instances apart that came sooner and later.
        linear = instance.cloud.initialise_s.is_constant and not self.may_apply()
        self.held: IntArray = needed if linear else np.arange(1, needed[-1] + 1)
        self.start_s, self.start_usd = growth(instance, 0, self.held)

    def best(self, usd_weight: float, s_weight: float) -> tuple[float, float]:
        """Return seconds and US dollars of a path of least weighted cost and time, without minimum charges."""
        cut = self._cut(usd_weight, s_weight, math.inf)
        grown_s, grown_usd, seconds, usd = self.start_s, self.start_usd, 0.0, 0.0
        for stage, ahead in enumerate(cut.ahead):
            node = int((cut.weigh(grown_s, grown_usd) + ahead).argmin())
            _, run_s, run_usd = self._run(stage, usd_weight, s_weight)
            seconds, usd = seconds + grown_s[node] + run_s[node], usd + grown_usd[node] + run_usd[node]
            grown_s, grown_usd = growth(self.instance, int(self.held[node]), self.held)
        return float(seconds), float(usd)

    def least(self, usd_weight: float, s_weight: float) -> float:
        """Return the least weighted cost and time of any path, without minimum charges."""
        seconds, usd = self.best(usd_weight, s_weight)
        return usd_weight * usd + s_weight * seconds

    @cached_property
    def hull(self) -> FloatArray:
        """The corners (H, 2) of the lower hull, (seconds, US dollars), by recursive secants."""
        first, last = self.best(0.0, 1.0), self.best(1.0, 0.0)
        if first[0] > 0.0:
            first = self.best(1.0, first[1] / (_TIE * first[0]))
        if last[1] > 0.0:
            last = self.best(1.0, _TIE * last[1] / max(last[0], first[0]))
        found = [first]
        # Pairs of corners between which others may lie, those of least time last.
        waiting = [(first, last)] if last[0] > first[0] and last[1] < first[1] else []
        while waiting:
            left, right = waiting.pop()
            slope = (left[1] - right[1]) / (right[0] - left[0])
            middle = self.best(1.0, slope)
            line = left[1] + slope * left[0]
            if middle[1] + slope * middle[0] < line * (1.0 - 1e-12) and left[0] < middle[0] < right[0]:
                waiting += [(middle, right), (left, middle)]
            else:
                found.append(right)
        return np.array(found)

    def find_cheapest(self, near: NearPaths, most_s: float) -> float:
        """Return the least cost of paths within a time; infinity when none is."""
        least = math.inf
        rows = np.flatnonzero(near.paths.seconds <= most_s)
        for row in rows[np.argsort(near.low_usd[rows], kind="stable")].tolist():
            if near.low_usd[row] >= least:
                break
            least = min(least, self.settle_usd(near, row))
        return least

    def settle_usd(self, near: NearPaths, row: int) -> float:
        """Return the expected cost of a whole path, exactly."""
        if near.low_usd[row] == near.high_usd[row]:
            return float(near.low_usd[row])
        self.stopwatch.require()
        chain = StageAllocation.of_stages(near.paths.held[row].tolist(), near.paths.gpus[row].tolist())
        return expected_costs(self.instance, self.bracket, chain)[1]

    def list_within(self, usd_weight: float, s_weight: float, most: float, most_usd: float, most_s: float) -> NearPaths:
        """List the paths within a weighted sum, cost and time that no other surely beats; for :meth:`settle_usd`."""
        if self.held.size * len(self.options) > _MOST_CELLS:
            few = f"{self.held.size:,} counts of instances in {len(self.options):,} stages"
            raise UnlistedError(f"{few} are more than are looked at")
        slack = 1.0 + JUDGE_TOLERANCE
        cuts = [self._cut(usd_weight, s_weight, most * slack)]
        if most_s < math.inf:
            cuts.append(self._cut(0.0, 1.0, most_s * slack))
        if most_usd < math.inf:
            cuts.append(self._cut(1.0, 0.0, most_usd * slack))
        if most_usd < math.inf and most_s < math.inf and usd_weight > 0.0:
            for factor in _BESIDE:
                weight = factor * s_weight
                cuts.append(self._cut(usd_weight, weight, (usd_weight * most_usd + weight * most_s) * slack))
        if self.instance.has_minimum_charges:  # each instance pays one at least, however short its life
            cloud = self.instance.cloud
            dear = cloud.price_usd_per_s * cloud.minimum_charge_s * self.held > most_usd * slack
            for cut in cuts:
                for ahead in cut.ahead:
                    ahead[dear] = math.inf
        begins = np.all([cut.admits(self.start_s, self.start_usd, cut.ahead[0]) for cut in cuts], axis=0)
        paths = Paths.at_start(self.start_s, self.start_usd).take(np.flatnonzero(begins))
        paths = self._run_all(paths, 0, cuts)
        for stage in range(1, len(self.options)):
            paths = self._go_on(paths, stage, cuts)
        low, high = (paths.usd + end for end in bound_charges(self.instance, paths, whole=True))
        rows = _find_undominated(np.zeros_like(paths.node), paths.seconds, low, high, goes_on=False)
        rows = rows[np.all([cut.admits(paths.seconds[rows], low[rows]) for cut in cuts], axis=0)]
        return NearPaths(paths.take(rows), low[rows], high[rows])

    def _cut(self, usd_weight: float, s_weight: float, limit: float) -> Cut:
        """Return the cut by a weighted sum."""
        stages = len(self.options)
        cut = Cut(usd_weight, s_weight, limit, *([np.zeros(self.held.size)] * stages for _ in range(2)))
        for stage in range(stages - 1, -1, -1):
            self.stopwatch.require()
            if stage + 1 < stages:
                cut.rest[stage] = self._look_ahead(cut, cut.ahead[stage + 1])
            cut.ahead[stage] = self._run(stage, usd_weight, s_weight)[0] + cut.rest[stage]
        return cut

    def _look_ahead(self, cut: Cut, ahead: FloatArray) -> FloatArray:
        """Return the least that follows a node: at an earlier node or itself for nothing, or after growing."""
        rest = np.minimum.accumulate(ahead)
        if self._growth_parts is not None:
            (left_s, left_usd), (entered_s, entered_usd) = self._growth_parts
            entering = np.minimum.accumulate((cut.weigh(entered_s, entered_usd) + ahead[1:])[::-1])[::-1]
            rest[:-1] = np.minimum(rest[:-1], cut.weigh(left_s, left_usd) + entering)
            return rest
        later = np.append(np.minimum.accumulate(ahead[::-1])[::-1][1:], math.inf)
        # Growing to the next node is the least that growing takes.
        least = later[:-1] + cut.weigh(*growth(self.instance, self.held[:-1], self.held[1:]))
        for node in np.flatnonzero(least < rest[:-1]).tolist():
            grown = growth(self.instance, int(self.held[node]), self.held[node + 1 :])
            rest[node] = min(rest[node], float((cut.weigh(*grown) + ahead[node + 1 :]).min()))
        return rest

    @cached_property
    def _growth_parts(self) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]] | None:
        """Return growing as parts (K - 1,) of nodes left and entered, in seconds and dollars, where it is linear."""
        if not self.instance.cloud.initialise_s.is_constant:
            return None
        left = growth(self.instance, self.held[:-1], self.held[-1])
        entered = growth(self.instance, self.held[0], self.held[1:])
        return left, (entered[0] - entered[0][-1:], entered[1] - entered[1][-1:])

    def _node_usd(self, options: StageOptions, position: IntArray, held: IntArray) -> FloatArray:
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

    def _go_on(self, paths: Paths, stage: int, cuts: list[Cut]) -> Paths:
        """Move paths to every node that is worth it, and run the stage there."""
        reachable = np.all(
            [cut.weigh(paths.seconds, paths.usd).min(initial=math.inf) + cut.ahead[stage] <= cut.limit for cut in cuts],
            axis=0,
        )
        moved, count = [_no_paths(stage)], 0
        for some in _split(np.flatnonzero(reachable), paths.node.size):
            self.stopwatch.require()
            grown_s, grown_usd = growth(self.instance, self.held[paths.node], self.held[some, None])
            there_s, there_usd = paths.seconds + grown_s, paths.usd + grown_usd
            inside = np.all([cut.admits(there_s, there_usd, cut.ahead[stage][some, None]) for cut in cuts], axis=0)
            place, row = np.nonzero(inside)
            count += row.size
            self._require_room(count, stage)
            there = paths.take(row)
            moved.append(replace(there, node=some[place], seconds=there_s[inside], usd=there_usd[inside]))
        return self._run_all(join_paths(moved), stage, cuts)

    def _run_all(self, paths: Paths, stage: int, cuts: list[Cut]) -> Paths:
        """Run every option of a stage that fits, on all paths where they are; keep those worth going on with."""
        kept = [_no_paths(stage + 1)]
        count, at_once = 0, max(1, min(_MOST_AT_ONCE, _MOST_NUMBERS // 4 // _count_numbers(stage + 1)))
        if self._is_held_for_free:
            paths = self._pass(paths, paths.usd, paths.usd)
        nodes, place = np.unique(paths.node, return_inverse=True)
        for some in _split(np.arange(nodes.size), self.options[stage].gpus.size):
            own, option = np.nonzero(self._mark_options(stage, nodes[some]))
            here = paths.take(np.flatnonzero((place >= some[0]) & (place <= some[-1])))
            first, last = (np.searchsorted(nodes[some][own], here.node, side=side) for side in ("left", "right"))
            ends = np.cumsum(last - first)
            for begin in range(0, int(ends[-1]), at_once):
                self.stopwatch.require()
                pair = np.arange(begin, min(begin + at_once, int(ends[-1])))
                row = np.searchsorted(ends, pair, side="right")
                kept.append(self._run_some(here, stage, row, option[last[row] + pair - ends[row]], cuts))
                count += kept[-1].node.size
                self._require_room(count, stage + 1)
        run = join_paths(kept)
        return self._pass(run, run.usd, run.usd) if self._is_held_for_free and len(kept) > 2 else run

    def _pass(self, paths: Paths, low: FloatArray, high: FloatArray) -> Paths:
        """Return the paths that no other of their node is sure to beat, nor, per function, one of a later node."""
        return paths.take(_find_undominated(-paths.node, paths.seconds, low, high, goes_on=self._is_held_for_free))

    def _require_room(self, count: int, stages: int) -> None:
        if count * _count_numbers(stages) > _MOST_NUMBERS:
            raise UnlistedError(f"{count:,} beginnings of plans are left, more than are looked at")

    def _run_some(self, here: Paths, stage: int, row: IntArray, choice: IntArray, cuts: list[Cut]) -> Paths:
        """Run options (L,) of a stage on some (L,) of the paths."""
        options = self.options[stage]
        seconds, node = here.seconds[row] + options.expected_s[choice], here.node[row]
        usd = here.usd[row] + self._node_usd(options, choice, self.held[node])
        rows = np.flatnonzero(np.all([cut.admits(seconds, usd, cut.rest[stage][node]) for cut in cuts], axis=0))
        before, choice, node, seconds = here.take(row[rows]), choice[rows], node[rows], seconds[rows]
        variance, lasting = self.observe(before, stage, choice, self.held[node])
        run = Paths(
            node,
            seconds,
            usd[rows],
            np.column_stack([before.held, self.held[node]]),
            np.column_stack([before.gpus, options.gpus[choice]]),
            np.column_stack([before.ends_s, seconds]),
            np.column_stack([before.variance, variance]),
            np.column_stack([before.lasting, lasting]),
        )
        latest_s = min((cut.limit / cut.s_weight for cut in cuts if cut.s_weight > 0.0), default=math.inf)
        low, high = (run.usd + end for end in bound_charges(self.instance, run, latest_s=latest_s))
        rows = np.flatnonzero(np.all([cut.admits(seconds, low, cut.rest[stage][node]) for cut in cuts], axis=0))
        return self._pass(run.take(rows), low[rows], high[rows])

    def _mark_options(self, stage: int, nodes: IntArray) -> NDArray[np.bool_]:
        """Mark by node (N, O) the options that may be best while so much is held."""
        options, held = self.options[stage], self.held[nodes, None]
        fitting = options.instances <= held
        if self.vary:
            # A slower option saves at most what is missing of the minimum charge after the quickest alone.
            seconds = np.where(fitting, options.expected_s, math.inf)
            quickest, place = np.unique(seconds.argmin(axis=1), return_inverse=True)
            missing_s = np.array([self.missing_after(stage, option) for option in quickest.tolist()])
            return np.asarray(fitting & (seconds <= (options.expected_s[quickest] + missing_s)[place, None]))
        order = np.lexsort((options.busy_gpu_s, options.expected_s))
        usd = np.where(fitting, self._node_usd(options, np.arange(order.size), held), math.inf)[:, order]
        marked = np.zeros(fitting.shape, dtype=np.bool_)
        marked[:, order] = usd < np.minimum.accumulate(np.insert(usd, 0, math.inf, axis=1), axis=1)[:, :-1]
        return marked

    @property
    def _is_held_for_free(self) -> bool:
        return not self.instance.cloud.is_per_instance


def _no_paths(stages: int) -> Paths:
    return Paths.at_start(np.zeros(0), np.zeros(0), stages)


def _count_numbers(stages: int) -> int:
    return 4 + 5 * stages


def _split(rows: IntArray, width: int) -> list[IntArray]:
    """Split rows of a matrix so wide into those that are made in one go."""
    step = max(1, _MOST_AT_ONCE // max(1, width))
    return [rows[first : first + step] for first in range(0, rows.size, step)]


def _find_undominated(
    group: IntArray, seconds: FloatArray, low: FloatArray, high: FloatArray, *, goes_on: bool
) -> IntArray:
    """Return the paths that no other of their group, or of one before, is certain to beat; of equal ones the first."""
    order = np.lexsort((high, seconds, group))
    return order[: sweep_undominated(order, group, seconds, low, high, np.empty((4, order.size)), goes_on)]
