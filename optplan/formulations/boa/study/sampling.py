"""Wrong estimates, sampled: what the true speedups, sizes and arrivals may be when the instance only estimates them.

Errors are factors, lognormal with mean 1 and a stated relative standard deviation, independent of one another and the
same in all epochs of a class:

* one of its arrival rate, and one of its sizes;
* one of how well it scales on each GPU type: nothing at the reference width, the stated size at the allowed width that
  is farthest from it (as a rule the widest), in between in proportion to the logarithm of the width and of opposite
  sign on the two sides of the reference width, as a wrong exponent does. With several types there is a second one, of
  the same size, of the speed of the whole type. Where no size is given, its bands say it
  (:mod:`~optplan.formulations.boa.laws.bands`): the shift within them is normal, in 9 of 10 cases between the ends,
  and stated speeds are the medians;
* one of the speed at each single width: what measurements have of noise.

Noise that is independent from width to width is the hardest case for a planner, and makes a planner who knew the truth
look best: there is always a width that happens to be quicker than it should be.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.laws.bands import apply_speeds, find_bands
from optplan.schema import NUMBER, ByName, Fields, FloatArray, FrozenModel, Takes, usual
from optplan.speedup.curves import DEVIATIONS

_LARGEST_ERROR = 2.0
_Error = Annotated[float, Field(ge=0, le=_LARGEST_ERROR), NUMBER]


class ClassErrors(FrozenModel):
    """How wrong the estimates of one class may be; None for as wrong as those of all."""

    speedup: _Error | None = None
    noise: _Error | None = None
    size: _Error | None = None
    arrival: _Error | None = None


class EstimateErrors(FrozenModel):
    """How wrong estimates may be: relative standard deviations."""

    #: Of the speed at the allowed width of each GPU type that is farthest from the reference width; less at nearer
    #: ones, none at the reference width. With several types also of the speed of each whole type. None for as wrong as
    #: the bands of each class say, exact where there is none.
    speedup: _Error | None = None
    #: Of the speed at each single width, the reference width of an instance with one type excepted: its speed is 1 by
    #: definition.
    noise: _Error = 0.0
    size: _Error = 0.0  #: Of each class's epoch sizes, all by the same factor.
    arrival: _Error = 0.0  #: Of each class's arrival rate.
    #: Where those of a class are others, as of a class that a log has few jobs of (:func:`logged_errors`).
    by_class: Takes[ByName[ClassErrors], Mapping[str, ClassErrors | Fields]] = usual(Field(default_factory=dict))

    @property
    def are_zero(self) -> bool:
        """Whether no error is given, or all are zero."""
        own = (error for each in self.by_class.values() for error in each.to_json_data().values())
        return not (self.speedup or self.noise or self.size or self.arrival or any(own))

    def of(self, name: str) -> EstimateErrors:
        """Return the errors of one class."""
        own = self.by_class.get(name)
        return self if own is None else self.model_copy(update=own.to_json_data())


def logged_errors(instance: BoaInstance, *, without: Collection[str] = ()) -> dict[str, dict[str, float]]:
    """Return how wrong each class's ``arrival`` and ``size`` may be, as the log says, for ``EstimateErrors``."""
    found: dict[str, dict[str, float]] = {}
    for name, job_class in instance.classes.items():
        if (logged := job_class.logged) is not None:
            errors = {"arrival": logged.arrival_error, "size": logged.size_error}
            found[name] = {kind: error for kind, error in errors.items() if error and kind not in without}
    return {name: errors for name, errors in found.items() if errors}


def list_errors(instance: BoaInstance, errors: EstimateErrors) -> dict[str, dict[str, float]]:
    """Return the errors of single classes by kind; of a speedup that its bands say, that where the band is widest."""
    found = {name: each.to_json_data() for name, each in errors.by_class.items()}
    for name, band in find_bands(instance).items():
        if errors.of(name).speedup is None:
            deviation = float(band.width.max()) / 2.0 / DEVIATIONS
            found.setdefault(name, {})["speedup"] = math.sqrt(math.expm1(deviation**2))
    return found


@dataclass(frozen=True)
class ClassFactors:
    """Truth over estimate for one class: its rate, its sizes, and its speed at each option, (K,) or by epoch (E, K)."""

    arrival: float
    size: float
    speed: FloatArray


#: By class, in the order of the instance.
Factors = dict[str, ClassFactors]


def draw_factors(instance: BoaInstance, errors: EstimateErrors, *, seed: int, number: int) -> Factors:
    """Draw one sample: the same seed and number give the same one, whatever was drawn before or elsewhere."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, number)))
    factors, bands = {}, find_bands(instance)
    for name, job_class in instance.classes.items():
        options, reference, own = instance.options(name), job_class.reference_width, errors.of(name)
        arrival, size = (float(_draw(rng, error, np.ones(1))[0]) for error in (own.arrival, own.size))
        speed = _draw(rng, own.noise, np.ones(options.widths.size), independent=True)
        if len(instance.gpu_types) == 1:
            speed[options.widths == reference] = 1.0
        shift = np.zeros(options.widths.size)
        for gpu_type in options.gpu_types:
            pairs = options.of_type(gpu_type)
            distance = np.log(options.widths[pairs] / reference)
            scaling = rng.standard_normal(1)
            shift[pairs] = scaling / DEVIATIONS
            speed[pairs] *= _scale(scaling, own.speedup or 0.0, distance / (np.abs(distance).max() or 1.0))
            if len(instance.gpu_types) > 1:
                speed[pairs] *= _draw(rng, own.speedup or 0.0, np.ones(1))
        if own.speedup is None and name in bands:
            speed = speed * bands[name].spread(shift)
        factors[name] = ClassFactors(arrival, size, speed)
    return factors


def _draw(rng: np.random.Generator, error: float, share: FloatArray, *, independent: bool = False) -> FloatArray:
    """Draw lognormal factors of mean 1; of their log-scale each gets a share. Numbers are drawn even for no error."""
    return _scale(rng.standard_normal(share.size if independent else 1), error, share)


def _scale(normal: FloatArray, error: float, share: FloatArray) -> FloatArray:
    """Make lognormal factors of mean 1 of standard normal numbers."""
    sigma = math.sqrt(math.log1p(error**2)) * share
    return np.asarray(np.exp(sigma * normal - sigma**2 / 2.0))


def apply_factors(instance: BoaInstance, factors: Factors) -> BoaInstance:
    """Return the instance as it truly is in a sample; speedups become tables, which have none of the real widths."""
    true = apply_speeds(instance, {name: drawn.speed for name, drawn in factors.items()})
    classes = {
        name: job_class.replace(
            arrival_rate_per_hour=job_class.arrival_rate_per_hour * factors[name].arrival,
            epoch_size_gpu_hours=job_class.epoch_size_gpu_hours * factors[name].size,
        )
        for name, job_class in true.classes.items()
    }
    return true.replace(classes=classes)
