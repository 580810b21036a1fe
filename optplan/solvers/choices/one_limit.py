"""Independent choices under one limit: the multiplier to the last bit, and at most one divided row.

With one limit the total consumption falls as the multiplier grows: continuously where widths move along curves, in
jumps where a row goes over to another alternative. So bisection finds two neighbouring floating-point numbers between
which the limit is crossed, whatever the curves are. Rows that jump there go over one after another until the limit is
used up; the last one is divided. That is the optimum of mixtures: all choices are best at that multiplier, and the
limit is used up.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.choices.alternatives import CurveWidths, LinkedChoices
from optplan.solvers.limits import most_within
from optplan.solvers.paths.families import PathBatch, join_batches
from optplan.solvers.paths.mixing import Mixture, mix_columns

#: A limit within this share of a breakpoint is met at the breakpoint, so that rounding divides no row.
_SNAP = 1e-12
#: No multiplier is looked for above this.
_LARGEST = 1e250


@dataclass(frozen=True, eq=False)
class MultiplierRange:
    """Two neighbouring multipliers between which the total consumption falls to a target.

    Parameters
    ----------
    below, above
        The multipliers: at the first the consumption exceeds the target, at the second it does not. ``below`` is 0
        when it does not at 0 either.
    """

    below: float
    above: float


@dataclass(frozen=True, eq=False)
class OneLimitSolution:
    """The best mixture within one limit, and its proof.

    Parameters
    ----------
    mixture
        At most one row is divided.
    multiplier
        Multiplier of the bound.
    bound
        No mixture within the limit has less value.
    price_less, price_more
        Value lost per unit of the limit taken away (``inf`` where nothing less is feasible), and gained per unit added.
    """

    mixture: Mixture
    multiplier: float
    bound: float
    price_less: float
    price_more: float


def least_consumption(family: LinkedChoices) -> float:
    """Return the least total consumption of any choices."""
    return _consumption(family.best_paths(np.ones(1), value_weight=0.0))


def solve_one_limit(family: LinkedChoices) -> OneLimitSolution | None:
    """Minimise total value within the one limit of a family.

    Parameters
    ----------
    family
        Rows with one limit.

    Returns
    -------
    OneLimitSolution or None
        None when the least consumption exceeds the limit, by more than a relative 1e-9.
    """
    least = least_consumption(family)
    limit = float(family.limits[0])
    if least > most_within(limit):
        return None
    limit = max(limit, least)
    crossing = find_crossing(family, limit)
    mixture = _mix(family, crossing, limit)
    best = family.best_paths(np.array([crossing.above]))
    bound = math.fsum(best.weigh(np.array([crossing.above])).tolist()) - crossing.above * limit
    less = math.inf
    if least < limit * (1.0 - _SNAP):
        less = find_crossing(family, limit * (1.0 - _SNAP), near=crossing.above).above
    more = find_crossing(family, limit * (1.0 + _SNAP), near=crossing.above).below
    return OneLimitSolution(mixture, crossing.above, bound, max(less, more), more)


def find_crossing(family: LinkedChoices, target: float, *, near: float | None = None) -> MultiplierRange:
    """Find where the total consumption falls to a target.

    Parameters
    ----------
    family
        Rows with one limit.
    target
        At least their least consumption, but for rounding.
    near
        A multiplier close to which it is, as far as one knows.
    """
    return _bisect(lambda multiplier: consumption_at(family, multiplier) <= target, near)


def limit_for_value(family: LinkedChoices, value: float) -> float:
    """Return the least limit within which there is a mixture of at most a value.

    Parameters
    ----------
    family
        Rows with one limit, which is not looked at.
    value
        At least their least value.
    """
    if value_at(family, _LARGEST) <= value:
        return least_consumption(family)
    crossing = _bisect(lambda multiplier: value_at(family, multiplier) > value * (1.0 + _SNAP))
    rich = consumption_at(family, crossing.below)
    if crossing.below == 0.0:
        return rich
    # Between neighbouring multipliers the frontier is straight: rows that jump there.
    slack = max(0.0, value - value_at(family, crossing.below))
    return max(consumption_at(family, crossing.above), rich - slack / crossing.below)


def consumption_at(family: LinkedChoices, multiplier: float) -> float:
    """Return the total consumption of the best choices under a multiplier."""
    return _consumption(family.best_paths(np.array([multiplier])))


def value_at(family: LinkedChoices, multiplier: float) -> float:
    """Return the total value of the best choices under a multiplier."""
    return family.best_paths(np.array([multiplier])).total_value


def _consumption(batch: PathBatch) -> float:
    return math.fsum(batch.consumption[:, 0].tolist())


def _bisect(is_past: Callable[[float], bool], near: float | None = None) -> MultiplierRange:
    """Return neighbouring numbers between which a condition that holds from some multiplier on begins to hold.

    Non-negative floating-point numbers are in the order of their bits, so halving an interval of bits takes 62 steps
    however many orders of magnitude it spans.
    """
    if is_past(0.0):
        return MultiplierRange(0.0, 0.0)
    low, high = 0, _to_bits(_LARGEST)
    if near is not None and 0.0 < near < _LARGEST:
        low, high = _gallop(is_past, low, high, _to_bits(near))
    while high - low > 1:
        middle = (low + high) // 2
        if is_past(_from_bits(middle)):
            high = middle
        else:
            low = middle
    return MultiplierRange(_from_bits(low), _from_bits(high))


def _gallop(is_past: Callable[[float], bool], low: int, high: int, start: int) -> tuple[int, int]:
    """Narrow an interval of bits by steps of doubling length from a place inside it."""
    step = 1
    if is_past(_from_bits(start)):
        high = start
        while high - step > low and is_past(_from_bits(high - step)):
            high, step = high - step, 2 * step
        return max(low, high - step), high
    low = start
    while low + step < high and not is_past(_from_bits(low + step)):
        low, step = low + step, 2 * step
    return low, min(high, low + step)


def _to_bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _from_bits(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def _mix(family: LinkedChoices, crossing: MultiplierRange, limit: float) -> Mixture:
    """Return the choices above the crossing, with rows that jump there moved over while there is room."""
    lean, rich = (family.best_paths(np.array([m])) for m in (crossing.above, crossing.below))
    rows = np.arange(family.num_rows)
    extra = rich.consumption[:, 0] - lean.consumption[:, 0]
    jumps = np.flatnonzero(_jumped(family, lean, rich) & (extra > 0.0))
    room = limit - _consumption(lean)
    filled = np.cumsum(extra[jumps])
    whole = int(np.searchsorted(filled, room + _SNAP * limit, side="right"))
    moved = np.zeros(rows.size, dtype=np.bool_)
    moved[jumps[:whole]] = True
    chosen = join_batches([lean, rich]).take(np.where(moved, rows + rows.size, rows))
    used = float(filled[whole - 1]) if whole else 0.0
    if whole == jumps.size or room - used <= _SNAP * limit:
        return mix_columns(rows, np.ones(rows.size), chosen)
    divided = int(jumps[whole])
    share = (room - used) / float(extra[divided])
    fraction = np.insert(np.ones(rows.size), divided + 1, share)
    fraction[divided] = 1.0 - share
    order = np.insert(rows, divided + 1, rows.size)
    both = join_batches([chosen, rich.take(np.array([divided]))]).take(order)
    return mix_columns(np.insert(rows, divided + 1, divided), fraction, both)


def _jumped(family: LinkedChoices, lean: PathBatch, rich: PathBatch) -> NDArray[np.bool_]:
    """Return whether rows chose another alternative or option; another width on one curve is a matter of rounding."""
    on_curve = np.array([isinstance(alternative, CurveWidths) for alternative in family.alternatives])
    differs = lean.payload != rich.payload
    same_curve = ~differs[:, 0] & on_curve[lean.payload[:, 0].astype(np.intp)]
    return np.asarray(differs.any(axis=1) & ~same_curve)
