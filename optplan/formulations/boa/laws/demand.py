"""How many GPUs are in use at once: the law of arrivals that both sides start from, and how its tail is read.

Nobody queues, so stays on GPUs are an infinite-server queue: seen at time x of the day, the jobs that are in a stay
which begins ``o`` hours after arrival and lasts ``t`` came in (x - o - t, x - o]. Arrivals are Poisson with a rate that
follows the day, in clumps of geometric size that move together, so the GPUs in use are compound Poisson, and over the
day a mixture of these. Steady arrivals are the case of one time of the day and clumps of one; then the law holds
whatever the distribution of sizes, and otherwise sizes are taken at their means. The paper has means only.

What GPUs in use cost where some are committed, and how many to commit.

With C committed GPUs at a price r, u in use, and beyond C a share of u on spot at a price s, all as shares of the price
on demand, an hour costs ``r C + s (u - C)+ + (1 - s) ((1 - share) u - C)+``. In the mean over u that is convex in C:
the best number is the least at which one more is used too rarely to pay, a quantile of the GPUs in use (the
newsvendor's; without spot the least C with P(u > C) <= r). Terms at other prices stack: each up to its own quantile, or
the most that it may have. Without spot the least bill is r times the mean of u in the share r of the time in which it
is largest (the expected shortfall of Rockafellar and Uryasev, 2000).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from optplan.formulations.boa.data.gpu_types import GpuType, SpotMarket, Term
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import HOURS_OF_DAY
from optplan.schema import FloatArray

#: What is told of every plan; with this in front as if arrivals were steady.
FIGURES = ("p50", "p95", "p99", "busiest_p95")
STEADY = "steady_"
#: Cells of a distribution; where more GPUs matter, they are counted by several.
_MOST_CELLS = 4096
#: Chance, at any time of the day, that is left beyond the last cell.
_LEFT = 1e-12
#: Exponentials that are computed at once: enough to drown the cost of a call, few enough to stay in the cache.
_AT_ONCE = 1 << 16
#: Slopes at which a tail is bounded, as shares of the steepest.
_SLOPES = np.geomspace(1e-6, 0.95, 120)
#: What a chance may miss a level by and still reach it: rounding must not decide.
_SLACK = 1e-9


@dataclass(frozen=True)
class Stay:
    """Stays (P,) of a class's jobs on ``gpus``, from hours after arrival, each a phase of a width, ``held`` in part."""

    job_class: str
    gpu_type: str
    gpus: FloatArray
    rate_per_hour: float
    begins_h: FloatArray
    lasts_h: FloatArray
    held: FloatArray


@dataclass(frozen=True, eq=False)
class Crowd:
    """Jobs in the cluster at H times of the day, by what they hold: (D,) ``cells`` of ``unit`` GPUs each."""

    # ``repeat`` (D,) is the chance that a clump goes on; (H,) cells are ``always`` in use, and ``size`` of them matter.

    cells: FloatArray
    repeat: FloatArray
    jobs: FloatArray
    always: FloatArray
    unit: int
    size: int


@dataclass(frozen=True, eq=False)
class Demand:
    """The distribution of GPUs in use: chances (H, N), by time of the day, of each number of cells of ``unit`` GPUs."""

    chances: FloatArray
    unit: int = 1
    _below: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Sum the chances up."""
        object.__setattr__(self, "_below", np.cumsum(self.chances, axis=1))

    @cached_property
    def any_time(self) -> FloatArray:
        """(N,) Chance of each number of cells at a time of the day that nobody chose."""
        chances: FloatArray = self.chances.mean(axis=0)
        return chances

    @property
    def mean(self) -> float:
        """Time average."""
        return float(self.any_time @ np.arange(self.any_time.size)) * self.unit

    def quantile(self, level: float) -> float:
        """Return the least number of GPUs that is enough for a share of the time."""
        return self._quantile(self._below.mean(axis=0) if len(self._below) > 1 else self._below[0], level)

    def busiest(self, level: float) -> float:
        """Return the same within the hour of the day that needs most."""
        return max(self._quantile(below, level) for below in self._below)

    def over(self, gpus: float) -> float:
        """Return the share of the time in which more GPUs are in use."""
        first = int(gpus // self.unit) + 1
        return float(self.any_time[first:].sum())

    def _quantile(self, below: FloatArray, level: float) -> float:
        reached = int(below.searchsorted(level - _SLACK))
        return float(min(reached, below.size - 1) * self.unit)


def read_chances(crowd: Crowd, chances: FloatArray) -> Demand:
    """Return the distribution of a crowd from its chances (H, N) of each number of cells; add what is always there."""
    if not crowd.always.any():
        return Demand(chances, crowd.unit)
    whole = np.floor(crowd.always).astype(np.int64)
    part = (crowd.always - whole)[:, None]
    moved = np.zeros((len(chances), chances.shape[1] + int(whole.max()) + 1))
    for hour, first in enumerate(whole.tolist()):
        row = chances[hour]
        moved[hour, first : first + row.size] += (1.0 - part[hour]) * row
        moved[hour, first + 1 : first + 1 + row.size] += part[hour] * row
    return Demand(moved, crowd.unit)


def name_figures(instance: BoaInstance, over: Sequence[float] = ()) -> list[tuple[str, str, bool, str]]:
    """Name the figures told of a plan and of GPUs ``over`` which it may be: name, figure, whether steady, type."""
    limits = [*over, *([] if instance.most_gpus is None else [instance.most_gpus.gpus])]
    figures = [*FIGURES, *(f"over_{math.floor(gpus)}" for gpus in limits)]
    types = ["", *(instance.gpu_types if len(instance.gpu_types) > 1 else ())]
    return [
        (f"{STEADY if steady else ''}{figure}{f'.{gpu_type}' if gpu_type else ''}", figure, steady, gpu_type)
        for steady in ((False, True) if has_patterns(instance) else (True,))
        for gpu_type in types
        for figure in dict.fromkeys(figures)
        if not (steady and figure == "busiest_p95")  # no hour is busier than another
    ]


def read_figure(demand: Demand, figure: str) -> float | None:
    """Return a figure by its name: ``p95``, ``busiest_p95``, or ``over_200``; None where there is none of the name."""
    kind, _, number = figure.rpartition("_")
    if kind in {"", "busiest"} and number in {"p50", "p95", "p99"}:
        level = int(number[1:]) / 100
        return demand.quantile(level) if not kind else demand.busiest(level)
    if kind != "over":
        return None
    try:
        return demand.over(float(number))
    except (ValueError, OverflowError):
        return None


def has_patterns(instance: BoaInstance) -> bool:
    """Whether anything is known of when jobs of any class arrive."""
    return any(job_class.arrivals is not None for job_class in instance.classes.values())


def gather_crowd(instance: BoaInstance, stays: list[Stay], *, steady: bool, of: Crowd | None = None) -> Crowd:
    """Count the jobs that hold so many GPUs by hour of the day or, steady, at any time; cells as ``of`` a crowd."""
    return _merge(*count_jobs(instance, stays, steady=steady), None if of is None or of.unit > 1 else of.size - 1)


def count_jobs(
    instance: BoaInstance, stays: Sequence[Stay], *, steady: bool = False
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for all P phases of stays the GPUs held, the chance that a clump goes on, and jobs (H, P) by hour."""
    patterned = not steady and any(instance.classes[stay.job_class].arrivals is not None for stay in stays)
    times = np.arange(HOURS_OF_DAY) + 0.5 if patterned else np.zeros(1)
    parts = [(stay.gpus, stay.lasts_h, stay.rate_per_hour * stay.held) for stay in stays] or [(np.zeros(0),) * 3]
    gpus, lasts_h, rate = map(np.concatenate, zip(*parts, strict=True))
    repeat, jobs = np.zeros(gpus.size), (rate * np.maximum(lasts_h, 0.0))[None].repeat(times.size, axis=0)
    end = 0
    for stay in stays if patterned else ():
        pattern, own = instance.classes[stay.job_class].arrivals, slice(end, end + stay.gpus.size)
        end = own.stop
        if pattern is not None:
            ends = times[:, None] - stay.begins_h
            span = _sum_rates(pattern.relative, ends) - _sum_rates(pattern.relative, ends - stay.lasts_h)
            repeat[own], jobs[:, own] = pattern.repeat, rate[own] * np.maximum(span, 0.0)
    return gpus, repeat, jobs


def _sum_rates(relative: FloatArray, until_h: FloatArray) -> FloatArray:
    """Return the integral of a rate that repeats every day, from hour 0 to some hours, which may be negative."""
    before = np.append(0.0, np.cumsum(relative))
    days, hours = np.divmod(until_h, HOURS_OF_DAY)
    whole = np.minimum(hours.astype(np.int64), HOURS_OF_DAY - 1)
    summed: FloatArray = days * before[-1] + before[whole] + (hours - whole) * relative[whole]
    return summed


def _merge(gpus: FloatArray, repeat: FloatArray, jobs: FloatArray, size: int | None) -> Crowd:
    """Put jobs that hold as many GPUs together, of which ``size`` GPUs matter; as many as are found where it is None.

    A real width counts as the whole ones next to it, in shares that keep the mean. In cells of several GPUs there are
    fewer jobs of whole cells, and so much always in use, that mean and variance are kept: with as many jobs as that
    needs, nobody sees more of the distribution.
    """
    gpus, repeat, jobs = _sum_equal(gpus, repeat, jobs)
    size = _count_gpus(gpus, repeat, jobs) if size is None else size
    unit = max(1, -(-size // _MOST_CELLS))
    if unit == 1 and not (gpus % 1.0).any():
        kept = (gpus > 0) & (jobs > 0).any(axis=0)
        return Crowd(gpus[kept], repeat[kept], jobs[:, kept], np.zeros(len(jobs)), unit, size + 1)
    if unit == 1:
        below = np.floor(gpus)
        cells, repeat = np.concatenate([below, below + 1]), np.tile(repeat, 2)
        jobs = np.concatenate([jobs * (1.0 - gpus + below), jobs * (gpus - below)], axis=1)
        always = np.zeros(len(jobs))
    else:
        cells = np.ceil(gpus / unit)
        filled = gpus / (cells * unit)
        always = jobs @ (gpus * (1.0 - filled)) / unit
        jobs = jobs * filled**2
    kept = (cells > 0) & (jobs > 0).any(axis=0)
    cells, repeat, jobs = _sum_equal(cells[kept], repeat[kept], jobs[:, kept])
    return Crowd(cells, repeat, jobs, always, unit, -(-size // unit) + 1)


def _sum_equal(held: FloatArray, repeat: FloatArray, jobs: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sum up the jobs (H, D) that hold the same and come in the same clumps, in their order."""
    order = np.lexsort((repeat, held))
    held, repeat = held[order], repeat[order]
    differs = np.ones(held.size, dtype=np.bool_)
    differs[1:] = (held[1:] != held[:-1]) | (repeat[1:] != repeat[:-1])
    firsts = differs.nonzero()[0]
    return held[firsts], repeat[firsts], np.add.reduceat(jobs[:, order], firsts, axis=1)


def _count_gpus(gpus: FloatArray, repeat: FloatArray, jobs: FloatArray) -> int:
    """Return a number of GPUs that more than :data:`_LEFT` of the time never exceeds (Chernoff), at any time."""
    if not gpus.size:
        return 1
    # A clump that goes on for long needs a slope below that at which its generating function ends.
    clumped = repeat.any()
    ends = np.where(repeat > 0.0, -np.log(np.maximum(repeat, 1e-300)), 40.0) if clumped else 40.0
    slopes = (ends / np.maximum(gpus, 1e-300)).min() * _SLOPES
    most, step = np.full(len(jobs), np.inf), 1 + _AT_ONCE // gpus.size
    for some in [slopes[first : first + step] for first in range(0, slopes.size, step)]:
        rise = np.exp(np.minimum(some[:, None] * gpus, 300.0))
        more = (1.0 - repeat) * ((1.0 - repeat) * rise / (1.0 - repeat * rise) - 1.0) if clumped else rise - 1.0
        cumulant = more @ jobs.T
        most = np.minimum(most, ((cumulant - np.log(_LEFT)) / some[:, None]).min(axis=0))
    return int(min(np.ceil(most.max()), 2.0**50)) + 1


#: One more committed GPU has to save this at least, relative to the bill: rounding must not decide.
_LEAST_SAVING = 1e-9


@dataclass(frozen=True)
class Bill:
    """What GPUs of a type cost on average, and how many are committed by term."""

    gpus: dict[str, float]
    committed: float
    spot: float
    on_demand: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.committed + self.spot + self.on_demand

    @property
    def number(self) -> float:
        """How many are committed for all terms."""
        return sum(self.gpus.values())


@dataclass(frozen=True)
class Tariff:
    """Prices as shares of that on demand: tranches of ``most`` GPUs, cheapest first, divided among ``terms``; spot."""

    price: FloatArray
    most: FloatArray
    terms: tuple[str, ...]
    shares: FloatArray
    spot_price: float
    spot_share: float

    @staticmethod
    def of(gpu_type: GpuType) -> Tariff:
        """Return that of a type that has commitments."""
        return Tariff.of_terms(gpu_type.commitments or {}, gpu_type.spot_market, gpu_type.price_usd_per_hour)

    @staticmethod
    def of_terms(terms: Mapping[str, Term], spot: SpotMarket | None = None, on_demand: float | None = None) -> Tariff:
        """Return that of terms, and a spot market beside them; a price on demand is needed where one is a price."""
        price = np.array([term.of_demand(on_demand) for term in terms.values()])
        most = np.array([np.inf if term.most_gpus is None else float(term.most_gpus) for term in terms.values()])
        order, shares = np.argsort(price, kind="stable"), np.eye(price.size)
        if all(term.share is not None for term in terms.values()):
            given = np.array([term.share or 0.0 for term in terms.values()])
            price, most, shares, order = np.array([given @ price]), np.array([np.inf]), given[:, None], np.zeros(1, int)
        at = (1.0, 0.0) if spot is None else (spot.of_demand(on_demand), spot.share)
        return Tariff(price[order], most[order], tuple(terms), shares[:, order], *at)

    def stack(self, gpus: FloatArray) -> FloatArray:
        """Divide numbers of committed GPUs (N,) among the tranches (tranches, N)."""
        before = np.concatenate([np.zeros(1), np.cumsum(self.most)[:-1]])
        stacked: FloatArray = np.clip(gpus - before[:, None], 0.0, self.most[:, None])
        return stacked


def bill_demand(
    instance: BoaInstance, laws: Mapping[str, Demand], committed: Mapping[str, float] | None = None
) -> dict[str, Bill]:
    """Return by GPU type the bill in the unit of the budget, with numbers of committed ones or the best."""
    bills = {}
    for name, price in instance.prices_on_demand.items():
        kind, bill = instance.gpu_types[name], Bill({}, 0.0, 0.0, laws[name].mean)
        if kind.commitments is not None:
            bill = make_bill(Tariff.of(kind), laws[name], None if committed is None else committed[name])
        bills[name] = Bill(bill.gpus, price * bill.committed, price * bill.spot, price * bill.on_demand)
    return bills


def make_bill(tariff: Tariff, demand: Demand, committed: float | None = None) -> Bill:
    """Return the bill, in GPUs on demand, for a distribution of GPUs in use; see :func:`bill_demand`."""
    chances = demand.any_time
    in_use: FloatArray = np.arange(chances.size, dtype=np.float64) * demand.unit
    if committed is None:
        numbers = in_use[in_use <= tariff.most.sum()]
        if numbers.size < in_use.size:
            numbers = np.append(numbers, tariff.most.sum())
        excess = sum_beyond(chances, in_use, numbers)
        beyond = sum_beyond(chances, in_use * (1.0 - tariff.spot_share), numbers)
        costs = tariff.price @ tariff.stack(numbers) + tariff.spot_price * excess + (1.0 - tariff.spot_price) * beyond
        committed = float(numbers[np.argmax(costs <= costs.min() * (1.0 + _LEAST_SAVING))])
    stacked = tariff.stack(np.array([committed]))[:, 0]
    on_demand = float(chances @ np.maximum((1.0 - tariff.spot_share) * in_use - committed, 0.0))
    spot = tariff.spot_price * (float(chances @ np.maximum(in_use - committed, 0.0)) - on_demand)
    divided = (tariff.shares @ stacked).tolist()
    return Bill(dict(zip(tariff.terms, divided, strict=True)), float(tariff.price @ stacked), spot, on_demand)


def sum_beyond(chances: FloatArray, values: FloatArray, numbers: FloatArray) -> FloatArray:
    """Return the mean of what values (N,), increasing, are above each of some numbers, by chances (..., N)."""
    behind = [(0, 0)] * (chances.ndim - 1) + [(0, 1)]
    share, mean = (np.pad(np.cumsum(each[..., ::-1], -1)[..., ::-1], behind) for each in (chances, chances * values))
    first = np.searchsorted(values, numbers, side="right")
    beyond: FloatArray = mean[..., first] - numbers * share[..., first]
    return beyond
