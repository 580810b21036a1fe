"""How a budget holds on arrivals that nobody planned: what was committed of it, and the price that follows from that.

At a multiplier lambda, every class takes the path of least time + lambda * GPU-hours. A plan's own multiplier lambda0
spends its budget on the arrivals that were planned; on others

    ln lambda = ln lambda0 + kappa * debt,  debt = (committed - budget * t) / budget,  from -3 to +4,

spends it too, but for a debt: that of the multiplier lambda* at which they just spend the budget, ln(lambda* / lambda0)
/ kappa hours of budget, once. An integral of the debt repays it in the long run. Jobs are committed when they are
admitted, with all that they will take by their present path: what they hold lags behind by as long as a job is.

Whether the arrivals that are seen are those of a plan: by an interval for what they take, and not by a guess.

Jobs of classes arrive as Poisson streams, so what they take in a time is a weighted sum of Poisson counts; its interval
is Fay and Feuer's, "Confidence intervals for directly standardized rates: a method based on the gamma distribution",
Statistics in Medicine 16, 1997: for one class it is the exact one of Garwood.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from optplan.contracts import Frontier
from optplan.execution.online.fields import Hold
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.judge.duality import least_consumption
from optplan.formulations.boa.planning import BoaPlan
from optplan.schema import FloatArray, FrozenModel, NumberRow
from optplan.units import SECONDS_PER_HOUR

#: How far the multiplier's logarithm moves: beyond, most classes have their widest or narrowest paths.
LEAST_SHIFT, MOST_SHIFT = -3.0, 4.0
#: By which part plans beside a budget differ from it: nearer ones come and go as estimates move a little.
_BESIDE = 0.005
#: How far the multiplier's logarithm moves before the plan of the budget itself is left.
_STILL = 0.05


@dataclass
class Ledger:
    """What was committed of a budget; amounts are in the budget's unit times hours, moments in seconds.

    ``granted`` is what the budget has given from ``began_s`` to ``now_s``, less what nobody could use: a debt below the
    one at which the multiplier is least is forfeited, so that a quiet week is not made up for by a spree.
    ``open_jobs`` has the jobs that were admitted and are not over by class, and what they were committed with.
    """

    began_s: float
    now_s: float
    budget: float
    hold: Hold = Hold.DEBT
    committed: float = 0.0
    granted: float = 0.0
    integral_h2: float = 0.0
    open_jobs: dict[str, tuple[int, float]] = field(default_factory=dict)

    @property
    def debt_h(self) -> float:
        """Hours of budget that were committed beyond what it gave; below zero, that are left."""
        return (self.committed - self.granted) / self.budget

    @property
    def mean_committed(self) -> float | None:
        """What was committed in the mean over time, in the budget's unit; None at the very beginning."""
        hours = (self.now_s - self.began_s) / SECONDS_PER_HOUR
        return self.committed / hours if hours else None

    @property
    def shift(self) -> float:
        """The logarithm of the multiplier over the budget's own."""
        gain = self.hold.per_hour
        integral = gain**2 / 4.0 * self.integral_h2 if self.hold is Hold.REPAID else 0.0
        return min(max(gain * self.debt_h + integral, LEAST_SHIFT), MOST_SHIFT)

    def advance(self, now_s: float) -> None:
        """Let time pass, and the budget give; a time before the last one means that none has passed."""
        hours = (now_s - self.now_s) / SECONDS_PER_HOUR
        if hours <= 0.0:
            return
        before_h, gain = self.debt_h, self.hold.per_hour
        self.now_s, self.granted = now_s, self.granted + self.budget * hours
        if gain and self.debt_h < LEAST_SHIFT / gain:
            self.granted = self.committed - LEAST_SHIFT / gain * self.budget
        if self.hold is Hold.REPAID:
            low, high = (4.0 * end / gain**2 for end in (LEAST_SHIFT, MOST_SHIFT))
            self.integral_h2 = min(max(self.integral_h2 + (before_h + self.debt_h) / 2.0 * hours, low), high)

    def admit(self, job_class: str, amount: float) -> None:
        """Commit what a job will take."""
        count, committed = self.open_jobs.get(job_class, (0, 0.0))
        self.open_jobs[job_class] = count + 1, committed + amount
        self.committed += amount

    def settle(self, job_class: str, took: float) -> None:
        """Put what a job took in the place of what a job of its class was committed with, in the mean.

        Jobs that were never admitted came before the budget began to count, and are no part of it.
        """
        count, committed = self.open_jobs.get(job_class, (0, 0.0))
        if count:
            self.open_jobs[job_class] = count - 1, committed - committed / count
            self.committed += took - committed / count

    def pay(self, amount: float) -> None:
        """Commit what no job holds: nodes that start."""
        self.committed += amount


class PriceLine(FrozenModel):
    """What is spent at each multiplier: a frontier's breakpoints, and logarithms of its slopes between them.

    ``budgets`` (N,) increase, ``log_prices`` (N - 1,) decrease. Between the multipliers ``log_more`` and ``log_less``,
    a little above and below the ``budget``, and a little beyond them, it is spent itself; its own lies in the middle.
    """

    budgets: NumberRow
    log_prices: NumberRow
    budget: float
    log_less: float
    log_more: float

    @classmethod
    def of(cls, line: Frontier, budget: float) -> Self | None:
        """Return the line of a frontier around a budget; None where no widths keep it."""
        if budget < line.budgets[0]:
            return None
        slopes = -np.diff(line.objectives) / np.diff(line.budgets)
        logs = np.log(np.maximum(slopes, np.finfo(float).tiny))
        # Where no other plan is beyond, as far as the multiplier moves.
        first, last = logs[[0, -1]] if logs.size else (0.0, 0.0)
        padded = np.concatenate([[first + MOST_SHIFT], logs, [last + LEAST_SHIFT]])
        below = min(int(np.searchsorted(line.budgets, budget * (1.0 - _BESIDE))), logs.size)
        above = int(np.searchsorted(line.budgets, budget * (1.0 + _BESIDE), side="right"))
        ends = {"log_less": float(padded[below]), "log_more": float(padded[above])}
        return cls(budgets=line.budgets, log_prices=logs, budget=budget, **ends)

    def budget_at(self, shift: float) -> float:
        """Return what is spent where the multiplier is e to the shift times the budget's own."""
        log_price = (self.log_less + self.log_more) / 2.0 + shift
        least = -math.inf if self.budget >= self.budgets[-1] else self.log_more - _STILL
        if least <= log_price <= self.log_less + _STILL:
            return self.budget
        return float(self.budgets[np.searchsorted(-self.log_prices, -log_price)])


#: How sure an interval is.
LEVEL = 0.99
#: What is said where the narrowest widths take more than there is.
TOO_SMALL = "no widths keep this budget"


def tell_drift(plan: BoaPlan, arrivals: Sequence[tuple[str, float]], instance: BoaInstance | None = None) -> str:
    """Say the same as :func:`tell_misfit` of jobs by class and the seconds, ascending, at which they came so far."""
    last_h = arrivals[-1][1] / SECONDS_PER_HOUR if arrivals else 0.0
    if not last_h:
        return ""
    # The last job ends the last gap: there is one gap less than jobs.
    hours = last_h * len(arrivals) / max(len(arrivals) - 1, 1)
    return tell_misfit(plan, Counter(job_class for job_class, _ in arrivals), hours, instance)


def tell_misfit(plan: BoaPlan, counts: Mapping[str, int], hours: float, instance: BoaInstance | None = None) -> str:
    """Say why a plan will not hold on the arrivals of some hours; empty where they may be those of the plan.

    Its instance knows the widths on which jobs need least, and so whether any widths will.
    """
    per_job = {
        name: sum(segment.share * segment.expected.gpu_hours for way in ways for segment in way)
        for name, ways in plan.ways.items()
    }
    gpus, known = plan.totals()["gpus"], [name for name in per_job if counts.get(name)]
    seen = np.array([counts[name] for name in known], dtype=float)
    weights = np.array([per_job[name] for name in known]) / hours
    low, high = interval(weights, seen, max(per_job.values()) / hours)
    if low <= gpus <= high:
        return ""
    if instance is not None and low > gpus:
        found, budget = least_consumption(instance, np.eye(len(instance.limit_names))[0]), instance.budget_amount()
        needs = [found[name] / instance.classes[name].arrival_rate_per_hour for name in known]
        if (least := float(seen @ needs) / hours) > budget:
            unit = instance.budget_unit.value
            return f"{TOO_SMALL}: these arrivals need {least:.4g} {unit}, and {budget:.4g} are given"
    what = f"{low:.4g} to {high:.4g} GPUs at its widths ({LEVEL:.0%} interval of Poisson arrivals)"
    return f"the plan will not hold: arrivals such as these take {what}, and it expects {gpus:.4g}"


def interval(weights: FloatArray, counts: FloatArray, most_weight: float) -> tuple[float, float]:
    """Return the interval for the mean of a weighted sum of Poisson counts; weights and counts are (N,).

    ``most_weight`` is the largest weight that another arrival could have.
    """
    # Loaded on use: the first import takes a while.
    from scipy.special import gammaincinv

    total, variance, tail = float(weights @ counts), float(weights**2 @ counts), (1.0 - LEVEL) / 2.0
    low = variance / total * float(gammaincinv(total**2 / variance, tail)) if total else 0.0
    total, variance = total + most_weight, variance + most_weight**2
    return low, variance / total * float(gammaincinv(total**2 / variance, 1.0 - tail))
