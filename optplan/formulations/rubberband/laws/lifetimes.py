"""Distributions of whole durations: initialisations, lives of instances, completion of brackets.

All are sums of independent parts: stages, requests (SCALE) and the last of several initialisations (INIT_INSTANCE).

What a solution makes happen: trials side by side or in line in each stage, and who holds instances how long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from optplan.errors import DataError
from optplan.formulations.rubberband.data.allocations import explain_refusal, read_allocations
from optplan.formulations.rubberband.data.distributions import Distribution, EmpiricalDistribution
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution, recall
from optplan.formulations.rubberband.laws.convolutions import (
    LEFT_OUT,
    GridLaw,
    Law,
    MaximumOfMeasured,
    add_laws,
    expected_maximum,
    expected_shortfall,
    law_of_cdf,
)
from optplan.formulations.rubberband.laws.stages import stage_law
from optplan.schema import FloatArray, IntArray


@dataclass(frozen=True)
class StageRun:
    """One stage as it is executed; trial i waits for trial i - ``slots``."""

    stage: int
    trials: int
    iterations: int
    gpus_per_trial: int
    nodes_per_trial: int
    seconds_per_iteration: float
    slots: int
    held: int
    added: int

    @property
    def waves(self) -> int:
        """Trials in the longest chain."""
        return -(-self.trials // self.slots)


@dataclass(frozen=True)
class Cohort:
    """Instances that are added in one stage and released after the barrier of another."""

    count: int
    first: int
    last: int


def list_runs(instance: RubberBandInstance, solution: RubberBandSolution, bracket: int = 0) -> tuple[StageRun, ...]:
    """List a bracket's stages as the solution executes them; refuse what cannot be executed so."""
    if len(solution.brackets) != len(instance.brackets):
        problem = f"got {len(solution.brackets)} chains of stages; the experiment has {len(instance.brackets)}"
        raise DataError("brackets", problem, "give one for each cluster")
    if not 0 <= bracket < len(instance.brackets):
        raise DataError("bracket", f"got {bracket}; numbers from 0 to {len(instance.brackets) - 1} are allowed")
    stages, allocations = instance.brackets[bracket], solution.brackets[bracket]
    if len(allocations) != len(stages):
        problem = f"got {len(allocations)} stages; the experiment has {len(stages)}"
        raise DataError(f"brackets.{bracket}", problem, "give an allocation for each stage")
    runs: list[StageRun] = []
    for number, (stage, allocation) in enumerate(zip(stages, allocations, strict=True)):
        before = runs[-1].held if runs else 0
        path, gpus = f"brackets.{bracket}.{number}", allocation.gpus
        refusal = explain_refusal(instance, stage, gpus)
        if refusal:
            raise DataError(f"{path}.gpus", f"got {gpus}; {refusal}")
        read = read_allocations(instance, stage.trials, np.array([gpus], dtype=np.int64))
        needed = int(read.instances[0])
        if allocation.instances < needed:
            problem = f"got {allocation.instances}; {gpus} GPUs for {stage.trials} trials are on {needed} instances"
            raise DataError(f"{path}.instances", problem, f"hold at least {needed}, or use fewer GPUs")
        runs.append(
            StageRun(
                stage=number,
                trials=stage.trials,
                iterations=stage.iterations,
                gpus_per_trial=int(read.gpus_per_trial[0]),
                nodes_per_trial=int(read.spanned[0]),
                seconds_per_iteration=float(instance.training.seconds(read.gpus_per_trial, read.spanned)[0]),
                slots=int(read.slots[0]),
                held=allocation.instances,
                added=max(0, allocation.instances - before),
            )
        )
    return tuple(runs)


def group_held(counts: Sequence[int]) -> tuple[Cohort, ...]:
    """Group instances by when they come and go, from how many each stage holds; no order costs less minimum charge."""
    cohorts: list[Cohort] = []
    held: deque[tuple[int, int]] = deque()  # (first stage, count), the oldest first
    for stage, (before, now, after) in enumerate(zip([0, *counts], counts, [*counts[1:], 0], strict=False)):
        if now > before:
            held.append((stage, now - before))
        surplus = now - after
        while surplus > 0:
            first, count = held.popleft()
            gone = min(count, surplus)
            cohorts.append(Cohort(gone, first, stage))
            if count > gone:
                held.appendleft((first, count - gone))
            surplus -= gone
    return tuple(cohorts)


#: Numbers of new instances whose initialisation is listed at first, and at most.
_FIRST_LISTED = 64
_MOST_LISTED = 16384


def expected_latest_s(instance: RubberBandInstance, counts: IntArray) -> FloatArray:
    """Return the expected seconds until the last of some counts of new instances is initialised; none take no time."""
    most = int(np.max(counts, initial=0))
    if most > _MOST_LISTED:
        different, place = np.unique(counts, return_inverse=True)
        return expected_maximum(instance.cloud.initialise_s, different)[place].reshape(np.shape(counts))
    listed: FloatArray = instance.law_cache.get("latest", np.zeros(0))
    if listed.size <= most:
        upto = np.arange(max(2 * most, _FIRST_LISTED) + 1)
        listed = instance.law_cache["latest"] = expected_maximum(instance.cloud.initialise_s, upto)
    return np.asarray(listed[counts])


def latest_law(instance: RubberBandInstance, added: int) -> Law:
    """Return the distribution of the seconds until the last of some new instances is initialised; cached."""
    return recall(instance.law_cache, ("latest", added), lambda: law_of_last(instance.cloud.initialise_s, added))


def list_parts(
    instance: RubberBandInstance, bracket: int, held: Sequence[int], gpus: Sequence[int], first: int = 0
) -> list[tuple[Law, int]]:
    """Return a bracket's independent durations from stage ``first`` on, each with the instances paid meanwhile."""
    parts: list[tuple[Law, int]] = []
    for stage in range(first, len(held)):
        before = held[stage - 1] if stage else 0
        if held[stage] > before:
            parts += [(instance.cloud.provision_s, before), (latest_law(instance, held[stage] - before), held[stage])]
        parts.append((stage_law(instance, bracket, stage, gpus[stage]), held[stage]))
    return parts


def completion_law(instance: RubberBandInstance, bracket: int, held: Sequence[int], gpus: Sequence[int]) -> GridLaw:
    """Return the law of a bracket's completion time.

    The last one is kept: the time that is kept, and how likely a deadline is, are asked for one after the other.
    """
    plan, place = (tuple(held), tuple(gpus)), ("completion", bracket)
    known: tuple[object, GridLaw] | None = instance.law_cache.get(place)
    if known is None or known[0] != plan:
        made = add_laws([(law, 1) for law, _ in list_parts(instance, bracket, held, gpus)])
        known = instance.law_cache[place] = plan, made
    return known[1]


def _missing_s(
    instance: RubberBandInstance, bracket: int, held: Sequence[int], gpus: Sequence[int], first: int
) -> float:
    """Return E[max(minimum charge - life, 0)] of instances that come before a stage; cached by what it consists of."""
    before = held[first - 1] if first else 0
    added = [max(after - count, 0) for count, after in pairwise([before, *held[first:]])]
    if instance.cloud.initialise_s.is_constant:
        added = [min(count, 1) for count in added]  # how many start makes no difference, only whether any does

    def expect() -> float:
        # Nobody pays for the request that a life follows.
        _, *lived = list_parts(instance, bracket, held, gpus, first)
        parts, minimum_s = [(law, 1) for law, _ in lived], instance.cloud.minimum_charge_s
        least_s = sum(count * float(law.quantile(np.array([LEFT_OUT]))[0]) for law, count in parts)
        return 0.0 if least_s >= minimum_s else expected_shortfall(parts, minimum_s)

    return recall(instance.law_cache, ("missing", bracket, first, tuple(added), tuple(gpus[first:])), expect)


def missing_by_stage(
    instance: RubberBandInstance, bracket: int, held: Sequence[int], gpus: Sequence[int]
) -> tuple[float, ...]:
    """Return by stage what instances released at its end are expected to miss of their minimum charge, in seconds."""
    missing = [0.0] * len(held)
    for one in group_held(held) if instance.has_minimum_charges else ():
        lived = slice(0, one.last + 1)
        missing[one.last] += one.count * _missing_s(instance, bracket, held[lived], gpus[lived], one.first)
    return tuple(missing)


def law_of_last(single: Distribution, draws: int) -> Law:
    """Return the distribution of the largest of several independent draws."""
    if single.is_constant or draws == 1:
        return single
    if isinstance(single, EmpiricalDistribution):
        return MaximumOfMeasured(single, draws)
    ends = single.quantile(np.array([LEFT_OUT, 1.0 - LEFT_OUT]))
    expected = float(expected_maximum(single, np.array([draws]))[0])
    return law_of_cdf(lambda t: np.power(single.cdf(t), draws), (float(ends[0]), float(ends[1])), expected)
