"""The solver's statement of what plans take: options of stages, growth, minimum charges, chances to keep limits.

Of the allocations that are allowed only those are listed which can be best. The judge has a statement of its own; what
both use is the mathematics of sums and maxima in ``laws``.

With M the minimum charge, an instance whose life has mean m and variance v misses at least max(0, M - m) of it, and
at most (sqrt(v + (M - m)^2) + M - m) / 2 (Scarf, "A min-max solution of an inventory problem", 1958). These ends are
enough to compare beginnings; whole plans are charged exactly, by the distribution of every life.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.parts import Description
from optplan.formulations.rubberband.data.allocations import Allocations, list_allowed, read_allocations
from optplan.formulations.rubberband.data.instance import (
    BUDGET,
    DEADLINE,
    AllocationRule,
    RubberBandInstance,
    RubberBandSolution,
    recall,
)
from optplan.formulations.rubberband.laws.confidence import joint_chance
from optplan.formulations.rubberband.laws.convolutions import LEFT_OUT
from optplan.formulations.rubberband.laws.lifetimes import (
    completion_law,
    expected_latest_s,
    latest_law,
    missing_by_stage,
)
from optplan.formulations.rubberband.laws.stages import (
    StageOptions,
    TrialTime,
    option_of,
    stage_law,
    time_allocations,
    trial_time,
)
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.held_graphs import HeldGraph
from optplan.solvers.paths.search import Effort


def stage_options(
    instance: RubberBandInstance,
    bracket: int,
    stage: int,
    gpus: IntArray | None = None,
    stopwatch: Stopwatch | None = None,
) -> StageOptions:
    """Return the allocations (A,) worth considering for a stage, by instances and then by GPUs, or given ones; cached.

    Worth considering are, under billing per instance, for all trials at once every p up to g, the multiples of g, and
    where the profile has a corner; under billing per function every p; and for queues the least slots for each number
    of waves, and the most slots for each number of instances. Raises OutOfEffortError when the stopwatch has expired.
    """
    which = instance.brackets[bracket][stage]
    key = ("options", which.trials, which.iterations, None if gpus is None else gpus.tobytes())

    def time_chosen() -> StageOptions:
        trials = which.trials
        chosen = _list_allocations(instance, trials) if gpus is None else read_allocations(instance, trials, gpus)
        effort = Effort(stopwatch if stopwatch is not None else Stopwatch())
        return time_allocations(instance, which, chosen, lambda: effort.charge_labels(0, 0))

    return recall(instance.solver_cache, key, time_chosen)


def count_options(instance: RubberBandInstance) -> int:
    """Return how many allocations are worth considering in all stages, without evaluating them."""
    return sum(_list_allocations(instance, stage.trials).gpus.size for chain in instance.brackets for stage in chain)


def _list_allocations(instance: RubberBandInstance, trials: int) -> Allocations:
    """List what may be best, by instances and then by GPUs."""
    read, training, per_instance = list_allowed(instance, trials), instance.training, instance.cloud.gpus_per_instance
    if instance.mode is AllocationRule.ANY:
        # With noise, more slots than the waves need leave fewer long chains to wait for.
        slots, fitting = read.slots, max(per_instance // training.least_gpus, 1)
        waits = np.flatnonzero(slots < trials)
        useful = (slots == trials) | (slots % fitting == 0) | (slots == trials - 1)
        useful[waits] |= np.diff(-(-trials // slots[waits]), prepend=trials + 1) != 0
        read = read.take(np.flatnonzero(useful))
    if not instance.cloud.is_per_instance:
        return read
    # Instances are paid whole, so GPUs of theirs are left idle only where more of them are slower.
    widths = read.gpus_per_trial
    useful = (read.slots < trials) | (widths <= per_instance) | (widths % per_instance == 0)
    return read.take(np.flatnonzero(useful | np.isin(widths, [*training.corners(), widths.max(initial=0)])))


#: Cells of the grid on which a probability is computed first, and how near the confidence it is computed anew.
_FEW_CELLS, _NEAR = 1 << 17, 0.01


def growth(
    instance: RubberBandInstance, before: int | IntArray, after: int | IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return expected seconds and US dollars of holding more: trials wait for the last new one; shrinking is free."""
    cloud = instance.cloud
    added = np.maximum(np.subtract(after, before), 0)
    wait_s = expected_latest_s(instance, added)
    seconds = np.where(added > 0, cloud.provision_s.expected_s + wait_s, 0.0)
    price = cloud.price_usd_per_s if cloud.is_per_instance else 0.0
    return seconds, price * (before * seconds + added * wait_s) + added * cloud.data_usd_per_instance


def find_chance(instance: RubberBandInstance, solution: RubberBandSolution) -> float:
    """Return the probability that all limits are kept; of a budget roughly, far from the confidence."""
    limits = {limit: amount * (1.0 + LIMIT_TOLERANCE) for limit, amount in instance.limits.items()}
    plans = [([one.instances for one in chain], [one.gpus for one in chain]) for chain in solution.brackets]
    if not instance.asks_for_both:
        reached = np.array([limits[DEADLINE]])
        laws = (completion_law(instance, bracket, held, gpus) for bracket, (held, gpus) in enumerate(plans))
        return math.prod(float(law.cdf(reached)[0]) for law in laws)
    ((held, gpus),) = plans
    both = (limits.get(DEADLINE, math.inf), limits[BUDGET])
    rough = joint_chance(instance, held, gpus, *both, cells=_FEW_CELLS)
    return joint_chance(instance, held, gpus, *both) if abs(rough - (instance.confidence or 0.0)) < _NEAR else rough


def describe(instance: RubberBandInstance) -> Description:
    """Return what solvers are matched against; features are what goes beyond one cluster billed by instance."""
    features = {
        "side-by-side": len(instance.brackets) > 1,
        "per-function": not instance.cloud.is_per_instance,
    }
    return Description(
        problem=instance.problem.value,
        policy=instance.mode.value,
        cells=count_options(instance),
        features=frozenset(name for name, present in features.items() if present),
    )


#: Deviations below its mean under which a normal duration is less often than what distributions leave out.
_REACH = 8.0


@dataclass(frozen=True, eq=False)
class MinimumCharges:
    """Minimum charges of one bracket, the oldest instances released first; nodes (K,), options (O,), in seconds."""

    instance: RubberBandInstance
    bracket: int
    graph: HeldGraph
    held: IntArray
    gpus: IntArray
    lasting: NDArray[np.bool_]

    def charge(self, options: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return what beginnings of paths (L, j + 1) pay on top; open is what all would miss if released now."""
        count, stages = options.shape
        held = np.column_stack([np.zeros(count, dtype=np.int64), self.held[self.graph.node[options]]])
        alive, nothing = np.zeros((count, stages)), np.zeros(count)
        least, most = np.zeros(count), np.zeros(count)
        for stage in range(stages):
            change = held[:, stage + 1] - held[:, stage]
            if stage:
                # The oldest go first: what a count of all up to a stage leaves after the release is what stays of them.
                before = np.cumsum(alive[:, :stage], axis=1)
                after = np.maximum(before - np.maximum(-change, 0)[:, None], 0.0)
                left = np.diff(after, axis=1, prepend=0.0)
                released = self._bound_missing(options[:, :stage], alive[:, :stage] - left)
                least, most = least + released[0], most + released[1]
                alive[:, :stage] = left
            alive[:, stage] = np.maximum(change, 0)
        last = self._bound_missing(options, alive)
        settled = least + last[0] if stages == self.graph.num_layers else least
        return np.array([settled, nothing]), np.array([np.maximum(most + last[1] - settled, 0.0), nothing])

    def settle(self, options: IntArray) -> FloatArray:
        """Return (2, L) exactly what whole paths, options (L, J), pay on top: US dollars, and no seconds."""
        if not self.instance.is_random:
            return self.charge(options)[0]
        held, gpus = self.held[self.graph.node[options]].tolist(), self.gpus[options].tolist()
        usd = [minimum_charge_usd(self.instance, self.bracket, *path) for path in zip(held, gpus, strict=True)]
        return np.array([usd, np.zeros(len(usd))])

    def _bound_missing(self, options: IntArray, released: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound what (L,) instances released after the last stage pay on top, given how many came in each stage."""
        least, most = np.zeros(len(options)), np.zeros(len(options))
        # Once a stage takes the minimum charge alone, only those that came later can miss any of it.
        some = np.flatnonzero(~self.lasting[options[:, -1]] & released.any(axis=1))
        if not some.size:
            return least, most
        lasting = np.logical_or.accumulate(self.lasting[options[some]][:, ::-1], axis=1)[:, ::-1]
        price, minimum_s = self.instance.cloud.price_usd_per_s, self.instance.cloud.minimum_charge_s
        for first in range(options.shape[1]):
            rows = some[(released[some, first] > 0) & ~lasting[:, first]]
            if rows.size:
                mean_s, variance = self._life(options[rows], first)
                missing = minimum_s - mean_s
                usd = price * released[rows, first]
                least[rows] += usd * np.maximum(missing, 0.0)
                most[rows] += usd * 0.5 * (np.sqrt(variance + missing**2) + missing)
        return least, most

    def _life(self, options: IntArray, first: int) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the lives of instances that came before stage ``first``, up to the last stage."""
        path = options[:, first:]
        nodes, stage_s = self.graph.node[path], self.graph.cost[1, path]
        before = self.held[self.graph.node[options[:, first - 1]]] if first else 0
        new = self.held[nodes[:, 0]] - before
        waits_s = self.graph.grow(nodes[:, :-1], nodes[:, 1:])[1]
        mean_s = expected_latest_s(self.instance, new) + stage_s.sum(axis=1) + waits_s.sum(axis=1)
        if not self.instance.is_random:
            return mean_s, np.zeros(mean_s.size)
        grown = np.column_stack([new, np.maximum(np.diff(self.held[nodes], axis=1), 0)])
        provision = self.instance.cloud.provision_s.deviation_s**2 * (grown[:, 1:] > 0).sum(axis=1)
        variance = self._stage_variances(path).sum(axis=1) + self._latest_variances(grown).sum(axis=1) + provision
        return mean_s, variance

    def _stage_variances(self, path: IntArray) -> FloatArray:
        """Return upper bounds of options' variances: of normal trials, that of a chain, which no maximum passes."""
        for option in np.unique(path[np.isnan(self._option_variances[path])]).tolist():
            stage = int(np.searchsorted(self.graph.first_option, option, side="right")) - 1
            gpus = int(self.gpus[option])
            one = option_of(self.instance, self.bracket, stage, gpus)
            trial = trial_time(self.instance, self.instance.brackets[self.bracket][stage], int(one.gpus_per_trial[0]))
            self._option_variances[option] = (
                int(one.waves[0]) * trial.deviation_s**2
                if trial.is_normal
                else stage_law(self.instance, self.bracket, stage, gpus).deviation_s ** 2
            )
        return np.asarray(self._option_variances[path])

    @cached_property
    def _option_variances(self) -> FloatArray:
        return np.full(self.gpus.size, np.nan)

    def _latest_variances(self, new: IntArray) -> FloatArray:
        """Return variances of the latest of so many initialisations."""
        if self.instance.cloud.initialise_s.is_constant:
            return np.zeros(new.shape)
        counts, place = np.unique(new, return_inverse=True)
        found = [latest_law(self.instance, count).deviation_s ** 2 if count else 0.0 for count in counts.tolist()]
        return np.array(found)[place].reshape(new.shape)


def minimum_charge_usd(instance: RubberBandInstance, bracket: int, held: list[int], gpus: list[int]) -> float:
    """Return what minimum charges add to the cost of a whole path, from what each stage holds and uses."""
    return instance.cloud.price_usd_per_s * math.fsum(missing_by_stage(instance, bracket, held, gpus))


def find_longest_useful_s(instance: RubberBandInstance, bracket: int, stage: int, quickest: IntArray) -> FloatArray:
    """Return what options (Q,) take at which slower ones save nothing: E[max(minimum, time)] of this stage alone."""
    options = stage_options(instance, bracket, stage)
    longest_s = options.expected_s[quickest]
    if not instance.has_minimum_charges or not instance.is_random:
        return longest_s
    minimum_s = np.array([instance.cloud.minimum_charge_s])
    lasting = lasts(instance, bracket, stage, options)[quickest]
    for place in np.flatnonzero(~lasting).tolist():
        law = stage_law(instance, bracket, stage, int(options.gpus[quickest[place]]))
        longest_s[place] += float(law.shortfall(minimum_s)[0])
    return longest_s


def lasts(instance: RubberBandInstance, bracket: int, stage: int, options: StageOptions) -> NDArray[np.bool_]:
    """Say for each option (A,) of a stage whether it alone is certain to use up the minimum charge, if there is one."""
    if not instance.has_minimum_charges:
        return np.ones(options.gpus.shape, dtype=np.bool_)
    minimum_s, which = instance.cloud.minimum_charge_s, instance.brackets[bracket][stage]
    if not instance.is_random:
        return np.asarray(options.expected_s >= minimum_s)
    widths, place = np.unique(options.gpus_per_trial, return_inverse=True)
    times = [trial_time(instance, which, gpus) for gpus in widths.tolist()]
    pairs = list(zip(place.tolist(), options.waves.tolist(), strict=True))
    least_s = {pair: _least_s(times[pair[0]], pair[1]) for pair in set(pairs)}
    return np.array([least_s[pair] >= minimum_s for pair in pairs], dtype=np.bool_)


def _least_s(time: TrialTime, trials: int) -> float:
    """Return seconds that trials in series are certain to take."""
    if time.is_normal:
        return trials * time.expected_s - _REACH * math.sqrt(trials) * time.deviation_s
    rare = np.array([LEFT_OUT / max(time.iterations, 1)])
    quickest = float(time.pace.quantile(rare)[0]) + float(time.iteration.quantile(rare)[0]) - time.mean_s
    return trials * (float(time.start.quantile(rare)[0]) + time.iterations * max(0.0, quickest))
