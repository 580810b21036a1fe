"""When one job starts: at once, at the best moment, or at the first price that is low enough.

What a job of fixed widths costs is a piecewise linear function of its start: the price of a GPU, added up over time,
has breakpoints at whole hours, so the cost has them where one of the job's changes (its start, its end, a change of
width) falls on a whole hour. A continuous function that is linear between breakpoints is least at one of them, or at an
end of what is allowed; so is its sum with a price for each hour waited. So the best start is found by looking at these.

On a cluster that rents what is needed, and where GPUs are paid as jobs hold them, no job is in another one's way: costs
and waits add up over jobs, and what is best for each is best for all. Money against waiting is then a sum of what
single jobs trade, each along the lower hull of its (wait, cost): the segments of all hulls, sorted by what an hour
saves, are the whole trade-off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.lab.starts.daily_prices import DailyPrices
from optplan.lab.starts.uses import JobUse
from optplan.schema import FloatArray
from optplan.units import HOURS_PER_DAY, SECONDS_PER_HOUR

_DAY_S = HOURS_PER_DAY * SECONDS_PER_HOUR
#: Costs that differ by less than this fraction are the same: the earlier start is taken.
_SAME = 1e-12


@dataclass(frozen=True, eq=False)
class Bargains:
    """The lower hull (H,) of a job's ascending waits from zero and their costs; what an hour more saves falls."""

    wait_s: FloatArray
    cost_usd: FloatArray

    @property
    def saved_per_hour(self) -> FloatArray:
        """(H - 1,) US dollars that each hour saves between two of them, descending."""
        saved: FloatArray = -np.diff(self.cost_usd) / np.diff(self.wait_s) * SECONDS_PER_HOUR
        return saved

    def wait_at(self, usd_per_hour: float) -> float:
        """Return the wait with the least cost and price of waiting together; the shortest of several."""
        return float(self.wait_s[int(np.count_nonzero(self.saved_per_hour > usd_per_hour))])


def list_waits(use: JobUse, longest_s: float) -> FloatArray:
    """Return the waits of a job, ascending, at which its cost has a breakpoint, zero, and the longest.

    Prices are the same every day, so more than a day saves nothing more.
    """
    longest_s = min(longest_s, _DAY_S)
    changes_s = use.submitted_s + use.edges_s
    first_s = np.ceil(changes_s / SECONDS_PER_HOUR) * SECONDS_PER_HOUR - changes_s
    waits_s = first_s[:, None] + SECONDS_PER_HOUR * np.arange(math.ceil(longest_s / SECONDS_PER_HOUR) + 1)
    return np.unique(np.concatenate([[0.0, longest_s], waits_s[(waits_s >= 0.0) & (waits_s <= longest_s)]]))


def find_bargains(use: JobUse, prices: DailyPrices, longest_s: float) -> Bargains:
    """Find what a job can save by waiting no longer than it may."""
    waits_s = list_waits(use, longest_s)
    costs = use.cost(prices, use.submitted_s + waits_s)
    kept = [0]
    for number in range(1, waits_s.size):
        if costs[number] >= costs[kept].min() * (1.0 - _SAME):
            continue
        while len(kept) > 1 and _is_above(waits_s, costs, kept[-2], kept[-1], number):
            kept.pop()
        kept.append(number)
    return Bargains(waits_s[kept], costs[kept])


def _is_above(waits_s: FloatArray, costs: FloatArray, one: int, middle: int, other: int) -> bool:
    """Whether a point does not lie below the line between two others."""
    before = (costs[middle] - costs[one]) * (waits_s[other] - waits_s[middle])
    after = (costs[other] - costs[middle]) * (waits_s[middle] - waits_s[one])
    return bool(before >= after)


def wait_for_price(use: JobUse, prices: DailyPrices, longest_s: float, at_most_usd: float) -> float:
    """Return the seconds until an hour is no dearer than a price, or the longest wait: no length need be known."""
    hour = int(use.submitted_s // SECONDS_PER_HOUR)
    for later in range(int(HOURS_PER_DAY) + 1):
        if prices.price_at(hour + later) <= at_most_usd:
            return min(longest_s, max(0.0, (hour + later) * SECONDS_PER_HOUR - use.submitted_s))
    return min(longest_s, _DAY_S)


def trade(bargains: Sequence[Bargains]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Put the bargains of all jobs together: the whole trade-off of money and waiting.

    Returns (P,) what the last hour waited saves in US dollars, descending from infinity; waits; and costs of all jobs.
    No rule of starts within the allowances has less cost with as much waiting, in all, than the line through these.
    """
    slopes = np.concatenate([[], *(each.saved_per_hour for each in bargains)])
    order = np.argsort(-slopes, kind="stable")
    columns = [each.wait_s for each in bargains], [each.cost_usd for each in bargains]
    steps = [np.concatenate([[], *(np.diff(part) for part in parts)])[order] for parts in columns]
    firsts = [math.fsum(float(part[0]) for part in parts) for parts in columns]
    wait_s, cost_usd = (np.append(first, first + np.cumsum(step)) for first, step in zip(firsts, steps, strict=True))
    return np.append(math.inf, slopes[order]), wait_s, cost_usd
