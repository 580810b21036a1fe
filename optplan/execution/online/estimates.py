"""What is known of a class by now: its rate, the size of its jobs, its speeds. All of it ages.

*Window.* Whatever was seen a time t ago weighs ``exp(-t / window)``. A rate is the weighted number of arrivals over the
weighted hours of watching. The stated rate of the instance counts as if it had been watched for ever before the start;
what arrived before it is in that rate already. A class that nobody stated is watched from its first arrival on, and a
stated number of hours before.

*Sizes.* The mean size is the work of the jobs that ended (hours at each width times the speed there) over their number,
beside the stated size with the weight of a stated number of jobs.

*Speeds.* The base is what AdaptDL's latest hints predict, else a law fitted to at least two measured widths where the
instance states a law, else the instance's own curve. A measured width counts as measured, relative to the reference
width; between two measured widths the base is corrected by what lies between their corrections (linear in the logarithm
of the width), beyond them by the nearest one. All jobs of a class share these (5.3).

*Probing.* Jobs of a new class run at a few widths in turn, until each of them was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from optplan.execution.online.messages import Hints, Run, Terms
from optplan.execution.online.width_table import weigh
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.schema import FloatArray, IntArray
from optplan.speedup import AmdahlSpeedup, Evidence, GoodputSpeedup, PowerSpeedup, Speedup, TableSpeedup, fit_best
from optplan.speedup.curves import LARGEST_ERROR
from optplan.units import SECONDS_PER_HOUR

#: Weight below which something was seen too long ago to count.
_FORGOTTEN = 1e-4
#: Up to which difference logarithms of speeds are one.
_SAME = 1e-12
#: A measurement corrects by a factor of a thousand at most: beyond that it is a slip of the unit, and must not stop us.
_MOST_LOG_CORRECTION = math.log(1e3)
#: Distinct widths from which a law is fitted anew.
_FITTED_FROM = 2
#: To which part a law is fitted: closer, it would be another one after every measurement, and it is corrected anyway.
_FITTED_TO = 0.01


@dataclass
class Level:
    """Speeds measured at one width: their weight, and the weighted mean of their logarithms."""

    weight: float
    log_speed: float


@dataclass
class ClassEstimate:
    """What was seen of a class; weights are as of ``aged_s``, seconds since 1970.

    ``arrivals`` over ``watched_h`` is the rate; ``stated_jobs`` is the weight of the stated size; ``done`` and
    ``whole`` are weights of jobs that ended, and of those that did all their work and said how. By type of GPU and
    width there are ``hours`` that whole jobs trained, and ``levels``, speeds measured; by type the latest ``hints`` of
    AdaptDL. It is watched from ``since_s`` on, seconds since 1970. ``changes`` counts what was seen that may move sizes
    or speeds, ``breaks`` what may move them otherwise than the mean of a width's speeds does.
    """

    arrivals: float
    watched_h: float
    stated_jobs: float
    done: float = 0.0
    whole: float = 0.0
    hours: dict[str, dict[int, float]] = field(default_factory=dict)
    levels: dict[str, dict[int, Level]] = field(default_factory=dict)
    hints: dict[str, Hints] = field(default_factory=dict)
    is_new: bool = False
    since_s: float = 0.0
    aged_s: float = 0.0
    changes: int = 0
    breaks: int = 0

    def kept(self, now_s: float, window_h: float) -> float:
        """Return what weights are to be multiplied by, to be those of now."""
        return math.exp((self.aged_s - now_s) / SECONDS_PER_HOUR / window_h)

    def rate_per_hour(self, now_s: float, window_h: float) -> float:
        """Return the arrivals per hour."""
        kept = self.kept(now_s, window_h)
        return self.arrivals * kept / (self.watched_h * kept + window_h * (1.0 - kept))

    def age(self, now_s: float, window_h: float) -> None:
        """Let time pass."""
        if self.aged_s == now_s:
            return
        kept, self.aged_s = self.kept(now_s, window_h), now_s
        self.arrivals *= kept
        self.watched_h = self.watched_h * kept + window_h * (1.0 - kept)
        self.stated_jobs *= kept
        self.done *= kept
        self.whole *= kept
        for held in self.hours.values():
            for gpus in held:
                held[gpus] *= kept
        for points in self.levels.values():
            for gpus, level in list(points.items()):
                level.weight *= kept
                if level.weight < _FORGOTTEN:
                    del points[gpus]
                    self._see_break()

    def see_completion(self, ran: tuple[Run, ...], gpu_type: str, weight: float, *, whole: bool) -> None:
        """Count a job that ended."""
        self.changes += 1
        self.done += weight
        if whole and any(run.seconds > 0 for run in ran):
            self.whole += weight
            for run in ran:
                held = self.hours.setdefault(run.gpu_type or gpu_type, {})
                held[run.gpus] = held.get(run.gpus, 0.0) + weight * run.seconds / SECONDS_PER_HOUR

    def see_speed(self, gpu_type: str, gpus: int, speed: float, weight: float) -> None:
        """Count how fast a job was on so many GPUs, in an epoch that is as fast as the mean one."""
        log_speed, points = math.log(speed), self.levels.setdefault(gpu_type, {})
        if (level := points.get(gpus)) is None:
            points[gpus] = Level(max(weight, _FORGOTTEN), log_speed)
            self._see_break()
            return
        level.weight += weight
        if abs(log_speed - level.log_speed) > _SAME:
            self.changes += 1
            level.log_speed += weight / level.weight * (log_speed - level.log_speed)

    def see_hints(self, hints: Hints, gpu_type: str) -> None:
        """Take hints in place of those before."""
        if self.hints.get(gpu_type) != hints:
            self.hints[gpu_type] = hints
            self._see_break()

    def _see_break(self) -> None:
        self.changes += 1
        self.breaks += 1

    def is_forgotten(self, now_s: float, window_h: float) -> bool:
        """Whether a class that nobody stated was not heard of for so long that it is no class any more."""
        return self.is_new and max(self.arrivals, self.done) * self.kept(now_s, window_h) < _FORGOTTEN


def mean_row(curve: Speedup, widths: IntArray) -> FloatArray:
    """Return the speedup (K,) of a curve, the geometric mean over its epochs."""
    return np.asarray(np.exp(np.log(curve.at(widths)).mean(axis=0)))


def interpolate(curve: Speedup, widths: IntArray) -> FloatArray:
    """Return the mean speedup (K,) at widths that a table may not have: the nearest end's, or what lies between two."""
    known = curve.known_widths()
    if known is None:
        return mean_row(curve, widths)
    return np.asarray(np.exp(np.interp(np.log(widths), np.log(known), np.log(mean_row(curve, known)))))


def estimate_speedups(
    instance: BoaInstance, name: str, estimate: ClassEstimate, gpus_per_node: int
) -> dict[str, Speedup]:
    """Return the speedup of a class by GPU type; the instance's own curve where nothing was seen.

    Of a class that nobody stated, nothing is believed to be gained beyond twice the widest that it ran on, and one GPU
    more for each job that ended, as there may be widths at which its jobs cannot run.
    """
    measured = {
        on: {gpus: level.log_speed for gpus, level in points.items()}
        for on, points in estimate.levels.items()
        if points and on in instance.classes[name].speedup
    }
    bases = {
        on: _choose_base(instance, name, on, estimate, measured.get(on, {}), gpus_per_node)
        for on in instance.classes[name].speedup
    }
    found = _correct(instance, name, bases, measured)
    if not estimate.is_new or estimate.hints:
        return found
    for gpu_type, curve in found.items():
        widths, most = instance.allowed_widths(name, gpu_type), 2 * max(measured.get(gpu_type, (1,))) + estimate.done
        last = max(int(np.searchsorted(widths, most, side="right")) - 1, 0)
        believed = widths[np.minimum(np.arange(widths.size), last)]
        rows, words = curve.at(believed), tuple(curve.evidence_at(believed))
        found[gpu_type] = TableSpeedup(gpus=widths, speedup=rows[0] if len(rows) == 1 else rows, provenance=words)
    return found


def _correct(
    instance: BoaInstance, name: str, bases: Mapping[str, Speedup], measured: Mapping[str, Mapping[int, float]]
) -> dict[str, Speedup]:
    """Return curves by GPU type, corrected by logarithms of the speeds that were measured."""
    job_class = instance.classes[name]
    home = next(iter(job_class.speedup))
    residuals = {
        gpu_type: dict(zip(points, (np.array([*points.values()]) - np.log(based)).tolist(), strict=True))
        for gpu_type, points in measured.items()
        for based in [interpolate(bases[gpu_type], np.array([*points]))]
    }
    # The logarithm of the speed at the reference width: as measured there, else as all others suggest it.
    offset = residuals.get(home, {}).get(job_class.reference_width)
    if offset is None:
        every = [residual for points in residuals.values() for residual in points.values()]
        offset = float(np.mean(every)) if every else 0.0
    found: dict[str, Speedup] = {}
    for gpu_type, base in bases.items():
        widths = instance.allowed_widths(name, gpu_type)
        points = {gpus: residual - offset for gpus, residual in residuals.get(gpu_type, {}).items()}
        if not points:
            found[gpu_type] = base
            continue
        if gpu_type == home:
            points[job_class.reference_width] = 0.0
        known = np.array(sorted(points))
        logs = np.interp(np.log(widths), np.log(known), [points[gpus] for gpus in known.tolist()])
        correction = np.exp(np.clip(logs, -_MOST_LOG_CORRECTION, _MOST_LOG_CORRECTION))
        rest = Evidence.ASSUMED if Evidence.ASSUMED in base.evidence_at(widths) else Evidence.FITTED
        words = tuple((Evidence.MEASURED if gpus in measured[gpu_type] else rest).value for gpus in widths.tolist())
        # Speeds are relative to the reference width: where that was not measured, no other is any surer.
        relative = job_class.reference_width in measured.get(home, {})
        near = [gpus for gpus in known.tolist() if gpus in measured[gpu_type]] if relative else []
        # Errors are those from the nearest width that is known.
        sure = near or [job_class.reference_width]
        factors = [each for gpus in sure if (each := base.error_factors(widths, gpus)) is not None]
        errors = np.minimum(np.min(factors, axis=0) - 1.0, LARGEST_ERROR) if factors else None
        if errors is not None and relative:
            errors[np.isin(widths, near)] = 0.0
        rows = base.at(widths) * correction
        found[gpu_type] = TableSpeedup(
            gpus=widths, speedup=rows[0] if len(rows) == 1 else rows, provenance=words, error=errors
        )
    return found


def _choose_base(
    instance: BoaInstance,
    name: str,
    gpu_type: str,
    estimate: ClassEstimate,
    points: Mapping[int, float],
    gpus_per_node: int,
) -> Speedup:
    """Return the curve that measurements correct."""
    stated = instance.classes[name].speedup[gpu_type]
    if gpu_type in estimate.hints:
        predicted = estimate.hints[gpu_type].speedup(gpus_per_node)
        if predicted is not None:
            return predict(predicted, instance.allowed_widths(name, gpu_type), instance.classes[name].reference_width)
    if isinstance(stated, AmdahlSpeedup | PowerSpeedup) and len(points) >= _FITTED_FROM:
        least = points[min(points)]
        return _fit(tuple((gpus, round((points[gpus] - least) / _FITTED_TO)) for gpus in sorted(points)))
    return stated


@lru_cache(maxsize=4096)
def _fit(points: tuple[tuple[int, int], ...]) -> AmdahlSpeedup | PowerSpeedup:
    """Fit a law to widths and logarithms of speeds; what is measured corrects it."""
    widths, steps = zip(*points, strict=True)
    return fit_best(widths, np.exp(np.array(steps) * _FITTED_TO)).curve


def predict(predicted: GoodputSpeedup, widths: IntArray, reference_width: int) -> TableSpeedup:
    """Tabulate hints at the widths that are allowed; beyond those that the job's batch can fill, more gains nothing."""
    most = max(1, predicted.max_batch_size // predicted.min_local_batch_size)
    goodput = predicted.goodput(np.minimum(np.append(widths, reference_width), most))[0]
    return TableSpeedup(gpus=widths, speedup=goodput[:-1] / goodput[-1], provenance=("hinted",) * widths.size)


def is_fitted(stated: JobClass, estimate: ClassEstimate) -> bool:
    """Whether a law is fitted to what was measured on some type."""
    return any(
        isinstance(curve, AmdahlSpeedup | PowerSpeedup) and len(estimate.levels.get(on, ())) >= _FITTED_FROM
        for on, curve in stated.speedup.items()
    )


def find_speeds(
    speedups: Mapping[str, Speedup], hours: Mapping[str, Mapping[int, float]]
) -> dict[str, dict[int, float]]:
    """Return the mean speedups where a class ran; types that it does not have are left out."""
    return {
        on: dict(zip(held, interpolate(speedups[on], np.array([*held])).tolist(), strict=True))
        for on, held in hours.items()
        if on in speedups
    }


def estimate_size(job_class: JobClass, estimate: ClassEstimate, speeds: Mapping[str, Mapping[int, float]]) -> float:
    """Return the mean size in GPU-hours: of the jobs that ended, by the speeds where they ran, and the stated one."""
    done = 0.0
    for on, held in estimate.hours.items():
        for gpus, hours in held.items() if on in speeds else ():
            done += hours * speeds[on][gpus]
    weight = estimate.stated_jobs + estimate.whole
    if weight <= 0.0:
        return job_class.size_gpu_hours
    return (estimate.stated_jobs * job_class.size_gpu_hours + done) / weight


def find_probing(
    instance: BoaInstance, classes: Mapping[str, ClassEstimate], terms: Terms
) -> tuple[dict[str, tuple[Branch, ...]], float]:
    """Return, by class that is probed, a row for each width that was not measured yet, each for as many of its jobs.

    And which part of the budget they take, as far as it is estimated: at most ``probe_part``. Classes that would take
    more get the widths that are best as far as they are known, as do all on a type of GPU with a quota.
    """
    left = terms.probe_part * instance.budget_amount()
    probed: dict[str, tuple[Branch, ...]] = {}
    taken = 0.0
    for name, estimate in classes.items():
        widths = _list_unmeasured(instance, name, estimate, terms)
        if not widths:
            continue
        gpu_type = next(iter(instance.classes[name].speedup))
        several = (gpu_type,) * instance.classes[name].num_epochs if len(instance.gpu_types) > 1 else None
        epochs = np.ones(instance.classes[name].num_epochs)
        rows = tuple(Branch(fraction=1.0 / len(widths), widths=gpus * epochs, gpu_types=several) for gpus in widths)
        alone = instance.replace(classes={name: instance.classes[name]})
        used = weigh(alone, BoaSolution(branches={name: rows})).consumption[BUDGET]
        if taken + used <= left:
            probed[name] = rows
            taken += used
    return probed, taken / instance.budget_amount()


def _list_unmeasured(instance: BoaInstance, name: str, estimate: ClassEstimate, terms: Terms) -> list[int]:
    if not estimate.is_new or estimate.hints or estimate.done >= terms.probe_jobs:
        return []
    gpu_type = next(iter(instance.classes[name].speedup))
    if gpu_type in instance.quotas:
        return []
    allowed = set(instance.allowed_widths(name, gpu_type).tolist())
    allowed.difference_update(estimate.levels.get(gpu_type, ()))
    return [gpus for gpus in dict.fromkeys(terms.probe_widths) if gpus in allowed]
