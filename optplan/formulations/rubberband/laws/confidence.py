"""What a confidence asks: the probability that a run keeps both limits, and what a probability says of the mean.

*Both limits.* With billing per instance, what a bracket takes and what it pays are two sums of the same independent
durations: of each duration X that passes while w instances are paid, X counts towards the time and w * X towards the
instance-seconds. Of a request (SCALE) those instances are paid that were held before it; of the last initialisation,
and of a stage, all. So durations of one weight add up first
(:func:`~optplan.formulations.rubberband.laws.convolutions.add_laws`), and

    P(T <= D, C <= B) = E[F(min(D - T', (B - C') / w))],

where F is the distribution of the weight that varies most, and T' and C' are the sums of all others. One other weight
leaves a sum over a line, two a sum over a plane; more are added up on a grid whose step is one of time, and so, weights
being whole numbers, one of instance-seconds, too: nothing is rounded twice. Putting a distribution on the grid widens
it; a second difference takes that back. Compared with finer grids, the result is off by less than 1e-5, and by
less than 1e-4 where measured values jump. Solver and judge decide by the same figure. Data, and the expected minimum
charges, are paid on top: they are numbers, and do not vary.

*The mean.* A plan's time is a sum of independent durations, and so is its cost, each weighted by what is paid
meanwhile. When no duration's standard deviation is more than c of its mean, neither is that of a sum: standard
deviations add up at most, as means do, and what does not vary only adds to the mean. By Cantelli's inequality (1928) a
sum is at most its mean less k standard deviations with a probability of at most 1 / (1 + k^2). So what keeps a limit L
with a probability p has a mean of at most L / (1 - c sqrt((1 - p) / p)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.rubberband.data.allocations import list_allowed
from optplan.formulations.rubberband.data.instance import RubberBandInstance, recall
from optplan.formulations.rubberband.laws.convolutions import GridLaw, Law, add_laws, weigh
from optplan.formulations.rubberband.laws.lifetimes import latest_law, list_parts, missing_by_stage
from optplan.formulations.rubberband.laws.stages import stage_law
from optplan.schema import FloatArray

#: Cells of the grid, about, and fewest; points of each of two weights.
MOST_CELLS = 1 << 21
_MOST_POINTS = 1024
#: Probability that the grid leaves out at either end of a weight.
_LEFT_OUT = 1e-10


def fixed_usd(instance: RubberBandInstance, bracket: int, held: Sequence[int], gpus: Sequence[int]) -> float:
    """Return what is paid for data, and is expected to be for minimum charges, from what stages hold and use."""
    cloud = instance.cloud
    started = sum(max(0, after - before) for before, after in zip([0, *held], held, strict=False))
    short_s = sum(missing_by_stage(instance, bracket, held, gpus))
    return started * cloud.data_usd_per_instance + cloud.price_usd_per_s * short_s


def joint_chance(
    instance: RubberBandInstance,
    held: Sequence[int],
    gpus: Sequence[int],
    deadline_s: float,
    budget_usd: float,
    *,
    cells: int = MOST_CELLS,
) -> float:
    """Return the probability that one bracket keeps a deadline and a budget; fewer ``cells`` are less exact."""
    left_s = deadline_s
    left = (budget_usd - fixed_usd(instance, 0, held, gpus)) / instance.cloud.price_usd_per_s
    by_weight: dict[int, list[tuple[Law, int]]] = {}
    for law, weight in list_parts(instance, 0, held, gpus):
        if law.is_constant:
            left_s, left = left_s - law.expected_s, left - weight * law.expected_s
        else:
            by_weight.setdefault(weight, []).append((law, 1))
    if min(left_s, left) < 0.0:
        return 0.0
    # By how much a law varies, but what is not paid for first.
    laws = [(_add(some), weight) for weight, some in by_weight.items()]
    laws.sort(key=lambda one: (one[1] > 0, one[0].deviation_s))
    if not laws:
        return 1.0
    last, weight = laws.pop()
    seconds, paid, mass = _add_up(laws, cells)
    if weight == 0:
        return weigh(mass * (paid <= left), last.cdf(left_s - seconds))
    return min(1.0, weigh(mass, last.cdf(np.minimum(left_s - seconds, (left - paid) / weight))))


def _add(some: list[tuple[Law, int]]) -> GridLaw:
    """Return the distribution of a sum; one that is on a grid already stays there, as another grid would blur it."""
    (first, _), *others = some
    return first if isinstance(first, GridLaw) and not others else add_laws(some)


def _add_up(laws: list[tuple[GridLaw, int]], cells: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the sums of durations and of what is paid, (N,) each, and their (N,) probabilities."""
    if not laws:
        return np.zeros(1), np.zeros(1), np.ones(1)
    if len(laws) == 1:
        law, weight = laws[0]
        return law.values_s, weight * law.values_s, law.mass
    ranges = [_find_range(law) for law, _ in laws]
    spans = [high - low for low, high in ranges]
    if len(laws) == 2:
        (first, one), (second, other) = (
            (_regrid(law, low, span / (_MOST_POINTS - 1)), weight)
            for (law, weight), (low, _), span in zip(laws, ranges, spans, strict=True)
        )
        mass = np.multiply.outer(first.mass, second.mass).ravel()
        seconds = np.add.outer(first.values_s, second.values_s).ravel()
        paid = np.add.outer(one * first.values_s, other * second.values_s).ravel()
        return seconds, paid, mass
    least = min(weight for _, weight in laws)
    common = math.gcd(*(weight - least for _, weight in laws))
    extra = [(weight - least) // common for _, weight in laws]
    wide = sum(span * steps for span, steps in zip(spans, extra, strict=True))
    step = math.sqrt(sum(spans) * wide / cells)
    grids = [_regrid(law, low, step) for (law, _), (low, _) in zip(laws, ranges, strict=True)]
    rows = sum(grid.mass.size - 1 for grid in grids) + 1
    columns = sum((grid.mass.size - 1) * steps for grid, steps in zip(grids, extra, strict=True)) + 1
    spectrum: NDArray[np.complex128] = np.ones(1, dtype=np.complex128)
    for grid, steps in zip(grids, extra, strict=True):
        own, place = np.zeros((rows, columns)), np.arange(grid.mass.size)
        own[place, steps * place] = grid.mass
        spectrum = spectrum * np.fft.rfft2(own)
    mass = np.fft.irfft2(spectrum, (rows, columns))
    first_s = math.fsum(grid.first_s for grid in grids)
    first_paid = math.fsum(weight * grid.first_s for (_, weight), grid in zip(laws, grids, strict=True))
    row, column = np.nonzero(np.abs(mass) > 0.1 * _LEFT_OUT / mass.size)
    paid = first_paid + step * (least * row + common * column)
    return np.asarray(first_s + step * row), np.asarray(paid), np.asarray(mass[row, column])


def _find_range(law: GridLaw) -> tuple[float, float]:
    """Return values between which all but a negligible part lies."""
    low, high = law.quantile(np.array([_LEFT_OUT, 1.0 - _LEFT_OUT]))
    return float(low) - law.step_s, float(high) + law.step_s


def _regrid(law: GridLaw, low: float, step: float) -> GridLaw:
    """Put a law on a coarser grid from ``low`` on; its mean and variance stay."""
    _, high = _find_range(law)
    count = max(math.ceil((high - low) / step), 1) + 3
    place = (np.clip(law.values_s, low, high) - low) / step + 1.0
    whole = np.floor(place).astype(np.int64)
    share = place - whole
    mass = np.bincount(whole, law.mass * (1.0 - share), count) + np.bincount(whole + 1, law.mass * share, count)
    # Splitting between two points adds share * (1 - share) of a step squared to the variance.
    added = weigh(law.mass, share * (1.0 - share))
    curved = np.convolve(mass, [1.0, -2.0, 1.0], "same")
    return GridLaw(low - step, step, mass - 0.5 * added * curved)


#: Durations that are looked at; nothing is known of an instance that has more.
_MOST_DURATIONS = 8_192
#: By how much a plan that counts may fall short of the confidence, with what its probability may be off; and by how
#: much, relatively, a deviation on a grid may be too small.
_SHORT_OF, _NARROWED = 1e-4, 1e-3


def share_of_limit(instance: RubberBandInstance, go_on: Callable[[], None] = lambda: None) -> float:
    """Return s, 0 to 1, such that plans that keep a limit L with confidence have a mean of at most L / s; cached."""
    probability = (instance.confidence or 0.0) - _SHORT_OF
    most = recall(instance.law_cache, "most", lambda: (1.0 + _NARROWED) * _vary(instance, go_on))
    return 1.0 - most * math.sqrt(1.0 / probability - 1.0)


def _vary(instance: RubberBandInstance, go_on: Callable[[], None]) -> float:
    """Return the greatest coefficient of variation of any duration of any plan; infinite where there are too many."""
    stages = [
        (number, stage, list_allowed(instance, which.trials))
        for number, chain in enumerate(instance.brackets)
        for stage, which in enumerate(chain)
    ]
    cloud = instance.cloud
    # More instances than some stage needs never are worth their price.
    most = max(int(allowed.instances.max()) for _, _, allowed in stages)
    counts = [1] if cloud.initialise_s.is_constant else range(1, most + 1)
    if sum(allowed.gpus.size for _, _, allowed in stages) + len(counts) > _MOST_DURATIONS:
        return math.inf
    found = _vary_of(cloud.provision_s)
    for added in counts:
        go_on()
        found = max(found, _vary_of(latest_law(instance, added)))
    for number, stage, allowed in stages:
        for gpus in allowed.gpus.tolist():
            go_on()
            found = max(found, _vary_of(stage_law(instance, number, stage, gpus)))
    return found


def _vary_of(law: Law) -> float:
    """Return the coefficient of variation of a duration; none where it takes no time."""
    return law.deviation_s / law.expected_s if law.expected_s > 0.0 else 0.0
