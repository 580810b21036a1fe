"""Rules of starting jobs, side by side: what each costs, how long jobs wait, and the whole trade-off of the two.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optplan.errors import DataError, InternalError, UsageError, nearest_name_hint
from optplan.instances.csv_tables import parse_number, read_rows
from optplan.lab.cluster.jobs import Job
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.in_turn import InTurn
from optplan.lab.cluster.policies.naming import make_policy
from optplan.lab.cluster.replaying import replay
from optplan.lab.sweeps import Cell
from optplan.schema import FloatArray, IntArray
from optplan.units import HOURS_PER_DAY, SECONDS_PER_HOUR

_HOURS = int(HOURS_PER_DAY)
_COLUMNS = ("hour", "usd_per_gpu_hour")


class DailyPrices:
    """What a GPU costs at each of 24 hours from midnight on; time zero of what is paid is at ``first_hour``."""

    def __init__(self, usd_per_gpu_hour: Sequence[float] | FloatArray, first_hour: int = 0) -> None:
        self.usd_per_gpu_hour = np.asarray(usd_per_gpu_hour, dtype=np.float64)
        self.first_hour = first_hour
        self._from_midnight = np.append(0.0, np.cumsum(self.usd_per_gpu_hour))

    def paid_until(self, time_s: FloatArray) -> FloatArray:
        """Return what one GPU costs from a fixed time on, in US dollars: piecewise linear, with breaks at hours."""
        days, hours = np.divmod(time_s / SECONDS_PER_HOUR + self.first_hour, HOURS_PER_DAY)
        paid: FloatArray = days * self._from_midnight[-1] + np.interp(hours, np.arange(_HOURS + 1), self._from_midnight)
        return paid

    def price_at(self, hour: int) -> float:
        """Return the price during an hour, counted from time zero, in US dollars."""
        return float(self.usd_per_gpu_hour[(hour + self.first_hour) % _HOURS])


def read_daily_prices(path: Path | str, first_hour: int = 0) -> DailyPrices:
    """Read prices of a CSV file with columns ``hour``, from 0 to 23 in any order, and ``usd_per_gpu_hour``."""
    path = Path(path)
    prices: dict[int, float] = {}
    for line, (hour_text, price_text) in read_rows(path, _COLUMNS):
        hour = parse_number(path, line, "hour", hour_text)
        if hour not in range(_HOURS):
            problem = f"hour is {hour_text.strip()}; a whole one from 0 to {_HOURS - 1} is needed"
            raise DataError(f"{path}:{line}", problem, "name hours by their beginning: 23 is from 23:00 to midnight")
        if int(hour) in prices:
            raise DataError(f"{path}:{line}", f"hour {int(hour)} is there twice", "keep one of them")
        prices[int(hour)] = parse_number(path, line, "usd_per_gpu_hour", price_text)
    missing = [str(hour) for hour in range(_HOURS) if hour not in prices]
    if missing:
        problem = f"has {len(prices)} of {_HOURS} hours; no price for {', '.join(missing)}"
        raise DataError(str(path), problem, "give the price of every hour of the day")
    return DailyPrices([prices[hour] for hour in range(_HOURS)], first_hour)


@dataclass(frozen=True, eq=False)
class JobUse:
    """What a job holds from its start on: ``gpus`` (S,) between ``edges_s`` (S + 1,), seconds since its start."""

    name: str
    application: str
    submitted_s: float
    edges_s: FloatArray
    gpus: FloatArray

    @property
    def lasts_s(self) -> float:
        """Seconds from its start to its end."""
        return float(self.edges_s[-1])

    def cost(self, prices: DailyPrices, starts_s: FloatArray) -> FloatArray:
        """Return what the job costs from each of some starts (N,), in US dollars: GPUs as it holds them."""
        paid = prices.paid_until(np.asarray(starts_s)[:, None] + self.edges_s)
        cost: FloatArray = np.diff(paid, axis=1) @ self.gpus
        return cost


def list_uses(outcome: Outcome) -> list[JobUse]:
    """Return what the jobs held that were completed, in the order of arrival."""
    stays, uses = outcome.stays, list[JobUse]()
    order = np.argsort(outcome.holders, kind="stable")
    firsts = np.searchsorted(outcome.holders[order], np.arange(len(outcome.jobs) + 1))
    for job, first, end in zip(outcome.jobs, firsts, firsts[1:], strict=False):
        if job.completed_s is not None and first < end:
            rows = order[first:end]
            edges_s = np.append(stays.begun_s[rows], job.completed_s)
            uses.append(JobUse(job.name, job.application, job.submitted_s, edges_s - edges_s[0], stays.gpus[rows]))
    return uses


def delay(jobs: Sequence[Job], uses: Sequence[JobUse], starts_s: Sequence[float]) -> list[Job]:
    """Make those of the jobs anew that are used, to arrive when they are to start."""
    at_s = {use.name: start_s for use, start_s in zip(uses, starts_s, strict=True)}
    return [
        Job(job.name, job.application, at_s[job.name], job.truth, job.requested_gpus, job.agent, job.size, job.weight)
        for job in jobs
        if job.name in at_s
    ]


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
    """Return the waits, ascending, at which a job's cost has a breakpoint, zero and the longest: a day at most."""
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
    """Return (P,) what an hour waited saves, descending, and all jobs' waits and costs: no rule is below that line."""
    slopes = np.concatenate([[], *(each.saved_per_hour for each in bargains)])
    order = np.argsort(-slopes, kind="stable")
    columns = [each.wait_s for each in bargains], [each.cost_usd for each in bargains]
    steps = [np.concatenate([[], *(np.diff(part) for part in parts)])[order] for parts in columns]
    firsts = [math.fsum(float(part[0]) for part in parts) for parts in columns]
    wait_s, cost_usd = (np.append(first, first + np.cumsum(step)) for first, step in zip(firsts, steps, strict=True))
    return np.append(math.inf, slopes[order]), wait_s, cost_usd


#: By how much what a replay costs may differ from what its jobs were said to cost, relatively.
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class RuleOutcome:
    """What came of one rule: waits and costs (J,) of jobs, as they held GPUs, and the cost of all nodes, whole."""

    rule: str
    waits_s: FloatArray
    costs_usd: FloatArray
    node_cost_usd: float


@dataclass(frozen=True, eq=False)
class StartStudy:
    """Rules side by side, the first all at once, the last at the least cost, and the trade-off (P,) of the two."""

    policy: str
    prices: DailyPrices
    uses: Sequence[JobUse]
    may_wait_s: Mapping[str, float]
    rules: Sequence[RuleOutcome]
    saved_per_hour: FloatArray
    wait_s: FloatArray
    cost_usd: FloatArray
    problems: Mapping[str, str]

    @property
    def lasts_s(self) -> FloatArray:
        """(J,) Seconds from start to end."""
        return np.array([use.lasts_s for use in self.uses])

    def summarise(self, started: RuleOutcome, application: str | None = None) -> dict[str, Any]:
        """Return the figures of a rule, of all jobs or those of an application."""
        own = np.array([application in (None, use.application) for use in self.uses])
        cost = math.fsum(started.costs_usd[own].tolist())
        return {
            "num_jobs": int(own.sum()),
            "cost_usd": cost,
            "mean_wait_s": float(started.waits_s[own].mean()),
            "mean_jct_s": float((started.waits_s + self.lasts_s)[own].mean()),
        }

    def to_json_data(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        applications = sorted({use.application for use in self.uses})
        return {
            "policy": self.policy,
            "usd_per_gpu_hour": self.prices.usd_per_gpu_hour.tolist(),
            "first_hour": self.prices.first_hour,
            "may_wait_s": dict(self.may_wait_s),
            "rules": [
                {
                    "rule": each.rule,
                    **self.summarise(each),
                    "node_cost_usd": each.node_cost_usd,
                    "applications": {name: self.summarise(each, name) for name in applications},
                }
                for each in self.rules
            ],
            "trade_off": self.list_trade_off(),
            "problems": dict(self.problems),
        }

    def list_trade_off(self) -> list[dict[str, float | None]]:
        """Return the whole trade-off as plain data, from no waiting to the least cost."""
        columns = zip(self.saved_per_hour.tolist(), self.wait_s.tolist(), self.cost_usd.tolist(), strict=True)
        return [
            {
                "saved_usd_per_hour_waited": saved if math.isfinite(saved) else None,
                "mean_wait_s": wait_s / len(self.uses),
                "mean_jct_s": float(self.lasts_s.mean()) + wait_s / len(self.uses),
                "cost_usd": cost,
            }
            for saved, wait_s, cost in columns
        ]


def study_starts(
    cell: Cell,
    prices: DailyPrices,
    may_wait_s: Mapping[str, float],
    *,
    worths_usd: Sequence[float] = (),
    thresholds_usd: Sequence[float] = (),
) -> StartStudy:
    """Replay jobs of fixed widths that start by several rules; those not in ``may_wait_s`` start at once."""
    # Each of ``worths_usd`` weighs an hour against money; without thresholds there is the best of the 24 in hindsight.
    jobs, gpus_per_node, _ = cell.make_jobs()
    known = sorted({job.application for job in jobs})
    for name, longest_s in may_wait_s.items():
        if name not in known:
            hint = nearest_name_hint(name, known)
            raise UsageError(f"may_wait: no job of the workload runs {name!r} (it has {', '.join(known)}); {hint}")
        if math.isinf(longest_s):
            raise UsageError(f"may_wait of {name}: got {longest_s!r}; a finite number of at least zero is needed")
    policy = make_policy(cell.policy)
    if type(policy) is not InTurn:  # others do not give jobs what they want at once, whatever time it is
        message = f"policy: {policy.name} has no fixed widths; choose a plan, one-gpu, one-width:N or reservation"
        raise UsageError(message)
    first = replay(jobs, policy, gpus_per_node=gpus_per_node)
    uses = list_uses(first)
    if not uses:
        raise UsageError(f"policy: no job can be completed under {policy.name}; choose other widths")
    bargains = [find_bargains(use, prices, may_wait_s.get(use.application, 0.0)) for use in uses]

    def start(rule: str, waits_s: FloatArray) -> RuleOutcome:
        starts_s = np.array([use.submitted_s for use in uses]) + waits_s
        costs = np.array([use.cost(prices, at_s[None])[0] for use, at_s in zip(uses, starts_s, strict=True)])
        later = replay(delay(jobs, uses, starts_s.tolist()), policy, gpus_per_node=gpus_per_node)
        _agree(math.fsum(costs.tolist()), _cost(later, later.gpus_used, prices))
        return RuleOutcome(rule, waits_s, costs, _cost(later, later.nodes_rented * gpus_per_node, prices))

    rules = [start("at once", np.zeros(len(uses)))]
    rules += [
        start(f"at ${usd:,.4g} or less", _wait_for(uses, prices, may_wait_s, usd))
        for usd in thresholds_usd or [_best_threshold(uses, prices, may_wait_s)]
    ]
    for usd in sorted(worths_usd, reverse=True):
        waits_s = np.array([each.wait_at(usd) for each in bargains])
        rules.append(start(f"an hour worth ${usd:,.4g}", waits_s))
    rules.append(start("least cost", np.array([each.wait_s[-1] for each in bargains])))
    saved, wait_s, cost_usd = trade(bargains)
    return StartStudy(policy.name, prices, uses, may_wait_s, rules, saved, wait_s, cost_usd, first.problems)


def _wait_for(uses: Sequence[JobUse], prices: DailyPrices, may_wait_s: Mapping[str, float], usd: float) -> FloatArray:
    return np.array([wait_for_price(use, prices, may_wait_s.get(use.application, 0.0), usd) for use in uses])


def _best_threshold(uses: Sequence[JobUse], prices: DailyPrices, may_wait_s: Mapping[str, float]) -> float:
    """Find the price at which starting costs the least; the highest of several."""

    def cost(usd: float) -> float:
        starts_s = _wait_for(uses, prices, may_wait_s, usd) + [use.submitted_s for use in uses]
        return math.fsum(float(use.cost(prices, at_s[None])[0]) for use, at_s in zip(uses, starts_s, strict=True))

    known: set[float] = set(prices.usd_per_gpu_hour.tolist())
    return min(sorted(known, reverse=True), key=cost)


def _cost(outcome: Outcome, gpus: IntArray, prices: DailyPrices) -> float:
    return float(np.dot(gpus[:-1], np.diff(prices.paid_until(outcome.times_s))))


def _agree(told: float, replayed: float) -> None:
    if not math.isclose(told, replayed, rel_tol=_TOLERANCE, abs_tol=1e-9):
        raise InternalError(f"cost of the jobs in US dollars: {told!r} as they were said to run, {replayed!r} replayed")
