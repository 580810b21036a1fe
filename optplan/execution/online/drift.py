"""Whether the arrivals that are seen are those of a plan: by an interval for what they take, and not by a guess.

Jobs of classes arrive as Poisson streams, so what they take in a time is a weighted sum of Poisson counts; its interval
is Fay and Feuer's, "Confidence intervals for directly standardized rates: a method based on the gamma distribution",
Statistics in Medicine 16, 1997: for one class it is the exact one of Garwood.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.judge.duality import least_consumption
from optplan.formulations.boa.planning import BoaPlan
from optplan.schema import FloatArray
from optplan.units import SECONDS_PER_HOUR

#: How sure an interval is.
LEVEL = 0.99
#: What is said where the narrowest widths take more than there is.
TOO_SMALL = "no widths keep this budget"


@dataclass(frozen=True)
class Expectation:
    """What a plan expects: GPUs in use in the mean over time, and GPU-hours of a job of each class.

    ``least`` is what a job takes of the ``budget``, in its ``unit`` times hours, on the widths that need least; empty
    where nobody says what these are.
    """

    gpus: float
    per_job: Mapping[str, float]
    least: Mapping[str, float] = field(default_factory=dict)
    budget: float = math.inf
    unit: str = ""

    @classmethod
    def of(cls, plan: BoaPlan, instance: BoaInstance | None = None) -> Expectation:
        """Return what a plan expects; its instance knows the other widths."""
        per_job = {
            name: sum(segment.share * segment.expected.gpu_hours for way in ways for segment in way)
            for name, ways in plan.ways.items()
        }
        gpus = plan.totals()["gpus"]
        if instance is None:
            return cls(gpus, per_job)
        weights = np.eye(len(instance.limit_names))[0]
        rates = {name: each.arrival_rate_per_hour for name, each in instance.classes.items()}
        least = {name: amount / rates[name] for name, amount in least_consumption(instance, weights).items()}
        return cls(gpus, per_job, least, instance.budget_amount(), instance.budget_unit.value)

    def watch(self, arrivals: Sequence[tuple[str, float]]) -> str:
        """Say the same of jobs by their classes and the seconds, ascending, at which they have come so far."""
        last_h = arrivals[-1][1] / SECONDS_PER_HOUR if arrivals else 0.0
        if not last_h:
            return ""
        # The last job ends the last gap: there is one gap less than jobs.
        hours = last_h * len(arrivals) / max(len(arrivals) - 1, 1)
        return self.tell(Counter(job_class for job_class, _ in arrivals), hours)

    def tell(self, counts: Mapping[str, int], hours: float) -> str:
        """Say why the plan will not hold on the arrivals of some hours; empty where they may be those of the plan."""
        known = [name for name in self.per_job if counts.get(name)]
        seen = np.array([counts[name] for name in known], dtype=float)
        weights = np.array([self.per_job[name] for name in known]) / hours
        low, high = interval(weights, seen, max(self.per_job.values()) / hours)
        if low <= self.gpus <= high:
            return ""
        least = float(seen @ [self.least.get(name, 0.0) for name in known]) / hours
        if low > self.gpus and least > self.budget:
            return f"{TOO_SMALL}: these arrivals need {least:.4g} {self.unit}, and {self.budget:.4g} are given"
        what = f"{low:.4g} to {high:.4g} GPUs at its widths ({LEVEL:.0%} interval of Poisson arrivals)"
        return f"the plan will not hold: arrivals such as these take {what}, and it expects {self.gpus:.4g}"


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
