"""How likely any plan at all can be on time: a bound that no plan passes, and the least deadline that follows.

Times are rounded down to a grid, so that sums are no later than they are. Either a cluster never outgrows its first
size: then each stage is at best the quickest of what fits on that; or it grows at least once more. Written apart from
any solver.
"""

from __future__ import annotations

import math

import numpy as np

from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.laws.completion import growth_distributions, stage_distribution
from optplan.formulations.rubberband.laws.stages import stage_options
from optplan.schema import FloatArray

#: Points of the grid, and how often its end may be doubled.
_POINTS = 2048
_MOST_DOUBLINGS = 60
#: Probabilities are computed with errors of about this.
_ROUNDING = 1e-9


def least_deadline_s(instance: RubberBandInstance, probability: float) -> float:
    """Return a time before which no plan is complete with the given probability.

    Parameters
    ----------
    instance
        The problem; its deadline is not looked at.
    probability
        Above zero and below one.

    Returns
    -------
    float
        Seconds; up to the rounding down of every part to a two-thousandth of about twice that time.
    """
    # A time that is about right or too short; the grid ends at twice as much until the probability is reached.
    last_s = max(
        math.fsum(float(stage_options(instance, bracket, stage).expected_s.min()) for stage in range(len(chain)))
        for bracket, chain in enumerate(instance.brackets)
    )
    for _ in range(_MOST_DOUBLINGS):
        chances = bound_chances(instance, last_s)
        reached = np.flatnonzero(chances >= probability - _ROUNDING)
        if reached.size:
            return float(last_s * reached[0] / (_POINTS - 1))
        last_s *= 2.0
    return last_s


def bound_chances(instance: RubberBandInstance, last_s: float) -> FloatArray:
    """Return, for equally spaced times from zero on, a probability that no plan passes to be complete by then.

    Parameters
    ----------
    instance
        The problem.
    last_s
        The last of the times.
    """
    grid_s = np.linspace(0.0, last_s, _POINTS)
    chances = np.ones(_POINTS)
    for bracket in range(len(instance.brackets)):
        chances = chances * _bound_bracket(instance, bracket, grid_s)
    return chances


def _bound_bracket(instance: RubberBandInstance, bracket: int, grid_s: FloatArray) -> FloatArray:
    stages = range(len(instance.brackets[bracket]))
    options = [stage_options(instance, bracket, stage) for stage in stages]
    sizes = np.unique(np.concatenate([some.instances for some in options]))
    starts = np.array([_come(instance, int(count), grid_s) for count in sizes])
    # Growing later takes another request, and at least one initialisation; afterwards anything may fit.
    chances = np.vstack([starts, _add(starts[:1], starts[:1])])
    for stage in stages:
        below = np.zeros((sizes.size, grid_s.size))
        for gpus, needed in zip(options[stage].gpus.tolist(), options[stage].instances.tolist(), strict=True):
            down = stage_distribution(instance, bracket, stage, gpus, grid_s).down[:-1]
            first = int(np.searchsorted(sizes, needed))
            below[first] = np.maximum(below[first], np.cumsum(down))
        quickest = np.diff(np.maximum.accumulate(below, axis=0), axis=1, prepend=0.0)
        chances = _add(chances, np.vstack([quickest, quickest[-1:]]))
    return np.asarray(np.minimum(np.cumsum(chances, axis=1).max(axis=0), 1.0))


def _come(instance: RubberBandInstance, count: int, grid_s: FloatArray) -> FloatArray:
    """Return the distribution (G,) of the time in which so many instances come, rounded down."""
    scale, last = growth_distributions(instance, 0, count, grid_s)
    come: FloatArray = _add(scale.down[None, :-1], last.down[None, :-1])[0]
    return come


def _add(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the distributions (N, G) of sums of two durations each; what lies beyond the grid is lost."""
    points = one.shape[1]
    size = 2 ** math.ceil(math.log2(points) + 1)
    sums = np.fft.irfft(np.fft.rfft(one, size, axis=1) * np.fft.rfft(other, size, axis=1), size, axis=1)
    return np.asarray(sums[:, :points])
