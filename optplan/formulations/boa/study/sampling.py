"""Wrong estimates, sampled: what the true speedups, sizes and arrivals may be when the instance only estimates them.

Errors are factors, lognormal with mean 1 and a stated relative standard deviation, independent of one another and the
same in all epochs of a class:

* one of its arrival rate, and one of its sizes;
* one of how well it scales on each GPU type: nothing at the reference width, the stated size at the allowed width that
  is farthest from it (as a rule the widest), in between in proportion to the logarithm of the width and of opposite
  sign on the two sides of the reference width, as a wrong exponent does. With several types there is a second one, of
  the same size, of the speed of the whole type;
* one of the speed at each single width: what measurements have of noise.

Noise that is independent from width to width is the hardest case for a planner, and makes a planner who knew the truth
look best: there is always a width that happens to be quicker than it should be.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, model_validator

from optplan.formulations.boa.data.instance import BoaInstance, Problem
from optplan.formulations.boa.data.job_classes import Widths
from optplan.schema import NUMBER, ByName, Fields, FloatArray, FrozenModel
from optplan.speedup import Evidence, TableSpeedup

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
    #: ones, none at the reference width. With several types also of the speed of each whole type.
    speedup: _Error = 0.0
    #: Of the speed at each single width, the reference width of an instance with one type excepted: its speed is 1 by
    #: definition.
    noise: _Error = 0.0
    size: _Error = 0.0  #: Of each class's epoch sizes, all by the same factor.
    arrival: _Error = 0.0  #: Of each class's arrival rate.
    #: Where those of a class are others, as of a class that a log has few jobs of (:func:`logged_errors`).
    by_class: ByName[ClassErrors] = Field(default_factory=dict)

    if TYPE_CHECKING:  # what a person may write; validation makes the fields of it

        def __init__(
            self,
            *,
            speedup: float = ...,
            noise: float = ...,
            size: float = ...,
            arrival: float = ...,
            by_class: Mapping[str, ClassErrors | Fields] = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _check(self) -> EstimateErrors:
        own = (error for each in self.by_class.values() for error in each.to_json_data().values())
        if not (self.speedup or self.noise or self.size or self.arrival or any(own)):
            message = "all errors are zero; give at least one of speedup, noise, size and arrival, such as speedup 0.1"
            raise ValueError(message)
        return self

    def of(self, name: str) -> EstimateErrors:
        """Return the errors of one class."""
        own = self.by_class.get(name)
        return self if own is None else self.model_copy(update=own.to_json_data())


def logged_errors(instance: BoaInstance, *, without: Collection[str] = ()) -> dict[str, dict[str, float]]:
    """Return how wrong the estimates of each class may be: as the log says, and of assumed speedups what nobody knows.

    By class, then by kind (``arrival``, ``size``, ``speedup``) but those in ``without``, as
    ``EstimateErrors(by_class=...)`` takes it.
    """
    found: dict[str, dict[str, float]] = {}
    for name, job_class in instance.classes.items():
        if (logged := job_class.logged) is not None:
            errors = {"arrival": logged.arrival_error, "size": logged.size_error, "speedup": logged.speedup_error}
            found[name] = {kind: error for kind, error in errors.items() if error and kind not in without}
    for name, error in find_assumed(instance).items() if "speedup" not in without else ():
        found.setdefault(name, {})["speedup"] = error
    return {name: errors for name, errors in found.items() if errors}


def find_assumed(instance: BoaInstance) -> dict[str, float]:
    """Return by class that has an assumed speedup how wrong that may be: as wrong as what nobody knows.

    The speed at a width that is w times the reference width lies between none of the gain and all of it, a factor of 1
    to w, and any exponent between 0 and 1 is as likely as any other: its logarithm has a standard deviation of ln(w) /
    sqrt(12).
    """
    found = {}
    for name, job_class in instance.classes.items():
        widths = {gpu_type: instance.allowed_widths(name, gpu_type) for gpu_type in job_class.speedup}
        if any(Evidence.ASSUMED in job_class.speedup[one].evidence_at(each) for one, each in widths.items()):
            farthest = max(float(np.abs(np.log(each / job_class.reference_width)).max()) for each in widths.values())
            found[name] = min(math.sqrt(math.expm1(farthest**2 / 12.0)), _LARGEST_ERROR)
    return found


def widen_assumed(instance: BoaInstance, errors: EstimateErrors) -> EstimateErrors:
    """Return the errors with those of assumed speedups, where nobody says how wrong these are: they are not exact."""
    if "speedup" in errors.model_fields_set:
        return errors
    by_class = dict(errors.by_class)
    for name, error in find_assumed(instance).items():
        own = by_class.get(name, ClassErrors())
        by_class[name] = own if own.speedup is not None else own.model_copy(update={"speedup": error})
    return errors.model_copy(update={"by_class": by_class})


@dataclass(frozen=True)
class ClassFactors:
    """Truth over estimate for one class: its rate, its sizes, and its speed (K,) at each option."""

    arrival: float
    size: float
    speed: FloatArray


#: By class, in the order of the instance.
Factors = dict[str, ClassFactors]


def draw_factors(instance: BoaInstance, errors: EstimateErrors, *, seed: int, number: int) -> Factors:
    """Draw one sample: the same seed and number give the same one, whatever was drawn before or elsewhere."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, number)))
    factors = {}
    for name, job_class in instance.classes.items():
        options, reference, own = instance.options(name), job_class.reference_width, errors.of(name)
        arrival, size = (float(_draw(rng, error, np.ones(1))[0]) for error in (own.arrival, own.size))
        speed = _draw(rng, own.noise, np.ones(options.widths.size), independent=True)
        if len(instance.gpu_types) == 1:
            speed[options.widths == reference] = 1.0
        for gpu_type in options.gpu_types:
            pairs = options.of_type(gpu_type)
            distance = np.log(options.widths[pairs] / reference)
            speed[pairs] *= _draw(rng, own.speedup, distance / (np.abs(distance).max() or 1.0))
            if len(instance.gpu_types) > 1:
                speed[pairs] *= _draw(rng, own.speedup, np.ones(1))
        factors[name] = ClassFactors(arrival, size, speed)
    return factors


def _draw(rng: np.random.Generator, error: float, share: FloatArray, *, independent: bool = False) -> FloatArray:
    """Draw lognormal factors of mean 1; of their log-scale each gets a share. Numbers are drawn even for no error."""
    sigma = math.sqrt(math.log1p(error**2)) * share
    normal = rng.standard_normal(share.size if independent else 1)
    return np.asarray(np.exp(sigma * normal - sigma**2 / 2.0))


def apply_factors(instance: BoaInstance, factors: Factors) -> BoaInstance:
    """Return the instance as it truly is in a sample; speedups become tables, which have none of the real widths."""
    if instance.problem is Problem.CONTINUOUS:
        raise ValueError("the plan of a continuous problem has whole widths; sample the problem that it is run as")
    classes = {}
    for name, job_class in instance.classes.items():
        options, drawn = instance.options(name), factors[name]
        speedup = {}
        for gpu_type in options.gpu_types:
            pairs = options.of_type(gpu_type)
            speeds = job_class.speedup[gpu_type].at(options.widths[pairs]) * drawn.speed[pairs]
            speedup[gpu_type] = TableSpeedup(
                gpus=options.widths[pairs], speedup=speeds[0] if len(speeds) == 1 else speeds
            )
        classes[name] = job_class.replace(
            arrival_rate_per_hour=job_class.arrival_rate_per_hour * drawn.arrival,
            epoch_size_gpu_hours=job_class.epoch_size_gpu_hours * drawn.size,
            speedup=speedup,
            widths=Widths(),
        )
    return instance.replace(classes=classes)
