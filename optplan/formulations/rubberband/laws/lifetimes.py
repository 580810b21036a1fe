"""Distributions of whole durations: initialisations, lives of instances, completion of brackets.

All are sums of independent parts: stages, requests (SCALE) and the last of several initialisations (INIT_INSTANCE).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from optplan.formulations.rubberband.data.distributions import Distribution, EmpiricalDistribution
from optplan.formulations.rubberband.data.instance import RubberBandInstance, recall
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
from optplan.formulations.rubberband.laws.execution import group_held
from optplan.formulations.rubberband.laws.stages import stage_law
from optplan.schema import FloatArray, IntArray

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
