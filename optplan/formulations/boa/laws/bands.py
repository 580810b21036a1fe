"""How far true speeds may lie from stated ones: each class's band on each GPU type, and the truths within.

Stated is a 90 % band. A truth within it is one number t in [-1, 1] for each class and type: the logarithm of each speed
lies the share t of the way to its upper end, or the share -t of the way to its lower one. Objective and use of the
limits of any one plan fall when speeds rise, and so does the least objective within limits; so all that can become of
either, in any truth, lies between what becomes of it at t = 1 and at t = -1 everywhere. Floors are an exception: what
runs faster runs on fewer GPUs.

Speedups that have a closed form, at real widths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optplan.contracts.judgement import keep_latest
from optplan.formulations.boa.data.instance import BoaInstance, Problem
from optplan.formulations.boa.data.job_classes import Widths
from optplan.schema import FloatArray
from optplan.speedup import AmdahlSpeedup, PowerSpeedup, TableSpeedup


@dataclass(frozen=True, eq=False)
class Band:
    """How far the logarithm of a class's speed may lie below and above what is stated, at least 0, (E or 1, K)."""

    down: FloatArray
    up: FloatArray

    def spread(self, shift: FloatArray) -> FloatArray:
        """Return true over stated speed in the truth of a shift t, one for each option (K,) or one for all (1,)."""
        spread: FloatArray = np.exp(np.where(shift > 0.0, shift * self.up, shift * self.down))
        return spread

    @property
    def width(self) -> FloatArray:
        """(K,) From end to end, in the epoch in which that is most."""
        width: FloatArray = (self.down + self.up).max(axis=0)
        return width


@keep_latest
def find_bands(instance: BoaInstance) -> dict[str, Band]:
    """Return the band of each class whose speed, at an option that it may get, is not stated to be exact."""
    found = {}
    for name, job_class in instance.classes.items():
        options, reference = instance.options(name), job_class.reference_width
        held = {gpu_type: options.widths[options.of_type(gpu_type)] for gpu_type in options.gpu_types}
        unsure = [one for one, widths in held.items() if not job_class.speedup[one].is_exact_at(widths, reference)]
        if not unsure:
            continue
        down, up = np.zeros_like(options.speeds), np.zeros_like(options.speeds)
        for gpu_type in unsure:
            pairs = options.of_type(gpu_type)
            low, high = job_class.speedup[gpu_type].band_at(held[gpu_type], reference)
            stated = np.log(options.speeds[:, pairs])
            down[:, pairs] = np.maximum(stated - np.log(low), 0.0)
            up[:, pairs] = np.maximum(np.log(high) - stated, 0.0)
        if down.any() or up.any():
            found[name] = Band(down, up)
    return found


def list_pairs(instance: BoaInstance) -> list[tuple[str, str]]:
    """List the classes and types on which speeds have a band, of each of which one number t is said."""
    return [
        (name, gpu_type)
        for name, band in find_bands(instance).items()
        for gpu_type in instance.options(name).gpu_types
        if band.width[instance.options(name).of_type(gpu_type)].any()
    ]


def apply_speeds(instance: BoaInstance, spread: Mapping[str, FloatArray]) -> BoaInstance:
    """Return the instance with true speeds, of true over stated ones (E or 1, K) or (K,) of some classes, as tables."""
    if instance.problem is Problem.CONTINUOUS:
        raise ValueError("the plan of a continuous problem has whole widths; sample the problem that it is run as")
    classes = dict(instance.classes)
    for name, factors in spread.items():
        options, speedup = instance.options(name), {}
        speeds = options.speeds * factors
        for gpu_type in options.gpu_types:
            own = speeds[:, options.of_type(gpu_type)]
            widths = options.widths[options.of_type(gpu_type)]
            speedup[gpu_type] = TableSpeedup(gpus=widths, speedup=own[0] if len(own) == 1 else own)
        classes[name] = classes[name].replace(speedup=speedup, widths=Widths())
    return instance.replace(classes=classes)


def formula_speed(curve: AmdahlSpeedup | PowerSpeedup, width: FloatArray) -> FloatArray:
    """Return the speed (E,) of a closed form at real widths (E,): 1 / (f + (1 - f) / k), or k^a."""
    if isinstance(curve, AmdahlSpeedup):
        serial = np.asarray(curve.serial_fraction, dtype=float)
        return np.asarray(1.0 / (serial + (1.0 - serial) / width))
    return np.asarray(width ** np.asarray(curve.exponent, dtype=float))


def best_width(
    curve: AmdahlSpeedup | PowerSpeedup, wait: float, price: float, least: float, largest: float
) -> FloatArray:
    """Return the width in [least, largest] of the least (wait + price k) / s(k), by epoch (E,), or () for all alike."""
    # The derivative vanishes where s'(k) (wait + price k) = price s(k).
    if price == 0.0:
        return np.array(largest)
    if wait == 0.0:
        return np.array(least)  # k / s(k) never falls
    with np.errstate(divide="ignore", over="ignore"):
        if isinstance(curve, AmdahlSpeedup):
            serial = np.asarray(curve.serial_fraction, dtype=float)
            stationary = np.sqrt(wait * (1.0 - serial) / (price * serial))
        else:
            exponent = np.asarray(curve.exponent, dtype=float)
            stationary = exponent * wait / (price * (1.0 - exponent))
    return np.clip(stationary, least, largest)
