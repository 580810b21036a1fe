"""Whether the arrivals that are seen are those of a plan: by an interval for what they take, and not by a guess.

Jobs of classes arrive as Poisson streams, so what they take in a time is a weighted sum of Poisson counts; its interval
is Fay and Feuer's, "Confidence intervals for directly standardized rates: a method based on the gamma distribution",
Statistics in Medicine 16, 1997: for one class it is the exact one of Garwood.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.judge.duality import least_consumption
from optplan.formulations.boa.planning import BoaPlan
from optplan.schema import FloatArray

#: How sure an interval is.
LEVEL = 0.99
#: What is said where the narrowest widths take more than there is.
TOO_SMALL = "no widths keep this budget"


@dataclass(frozen=True)
class Expectation:
    """What a plan expects: GPUs in use in the mean over time, and GPU-hours of a job of each class.

    ``least`` are the GPU-hours of a job on the widths that need least; empty where nobody says what these are.
    """

    gpus: float
    per_job: Mapping[str, float]
    least: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: BoaPlan, instance: BoaInstance | None = None) -> Expectation:
        """Return what a plan expects; the instance, of one type or a budget in GPUs, knows the other widths."""
        per_job = {
            name: sum(segment.share * segment.expected.gpu_hours for way in ways for segment in way)
            for name, ways in plan.ways.items()
        }
        return cls(plan.totals()["gpus"], per_job, {} if instance is None else list_least(instance))

    def tell(self, counts: Mapping[str, int], hours: float) -> str:
        """Say why the plan will not hold on the arrivals of some hours; empty where they may be those of the plan."""
        known = [name for name in self.per_job if counts.get(name)]
        seen = np.array([counts[name] for name in known], dtype=float)
        weights = np.array([self.per_job[name] for name in known]) / hours
        low, high = interval(weights, seen, max(self.per_job.values()) / hours)
        if low <= self.gpus <= high:
            return ""
        least = float(seen @ [self.least.get(name, 0.0) for name in known]) / hours
        if low > self.gpus and least > self.gpus:
            return f"{TOO_SMALL}: these arrivals need {least:.4g} GPUs, and the plan is for {self.gpus:.4g}"
        what = f"{low:.4g} to {high:.4g} GPUs at its widths ({LEVEL:.0%} interval of Poisson arrivals)"
        return f"the plan will not hold: arrivals such as these take {what}, and it expects {self.gpus:.4g}"


def list_least(instance: BoaInstance) -> dict[str, float]:
    """Return by class the budget's unit times hours of a job, on the widths that need least."""
    weights = np.eye(len(instance.limit_names))[0]
    rates = {name: each.arrival_rate_per_hour for name, each in instance.classes.items()}
    return {name: amount / rates[name] for name, amount in least_consumption(instance, weights).items()}


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
