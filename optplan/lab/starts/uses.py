"""What jobs hold from their start to their end, where nobody waits for GPUs, and what that costs by hour of the day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optplan.errors import DataError, UsageError
from optplan.instances.csv_tables import parse_number, read_rows
from optplan.lab.cluster.jobs import Job, SchedulingPolicy
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.in_turn import InTurn
from optplan.schema import FloatArray
from optplan.units import HOURS_PER_DAY, SECONDS_PER_HOUR

_HOURS = int(HOURS_PER_DAY)
_COLUMNS = ("hour", "usd_per_gpu_hour")


class DailyPrices:
    """What a GPU costs at each of 24 hours from midnight on; time zero of what is paid is at ``first_hour``."""

    def __init__(self, usd_per_gpu_hour: Sequence[float] | FloatArray, first_hour: int = 0) -> None:
        prices = np.asarray(usd_per_gpu_hour, dtype=np.float64)
        if prices.shape != (_HOURS,) or not (np.isfinite(prices) & (prices >= 0.0)).all():
            raise UsageError(f"usd_per_gpu_hour: got {prices.tolist()}; {_HOURS} finite prices from zero on are needed")
        if first_hour not in range(_HOURS):
            raise UsageError(f"first_hour: got {first_hour!r}; an hour from 0 to {_HOURS - 1} is needed")
        self.usd_per_gpu_hour = prices
        self.first_hour = first_hour
        self._from_midnight = np.append(0.0, np.cumsum(prices))

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


def require_widths(policy: SchedulingPolicy) -> SchedulingPolicy:
    """Return a policy that gives jobs what they want at once, whatever the time and the others are."""
    if type(policy) is not InTurn:
        message = f"policy: {policy.name} has no fixed widths; choose a plan, one-gpu, one-width:N or reservation"
        raise UsageError(message)
    return policy


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
