"""How jobs come through their epochs: the widths worth holding in each, at the most favourable end of what is known.

The instance as it is for every policy: some jobs on the widths that are known, and none of the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.schema import FloatArray, IntArray
from optplan.speedup import lower_left_hull
from optplan.units import SECONDS_PER_HOUR, Amount, BudgetUnit


def relax(instance: BoaInstance, jobs: Mapping[str, float], *, pauses: bool) -> BoaInstance:
    """Return the instance of so many jobs an hour in which nothing limits a policy but the GPU-hours of them all."""
    # Rules of widths, whole nodes, interruptions and weights only add to what jobs take. A change of type takes what
    # the shortest one to that type takes, as a policy may go by a third type.
    return instance.replace(
        classes={
            name: job_class.replace(
                arrival_rate_per_hour=jobs[name],
                widths=_free(job_class, instance.widths),
                weight=1.0,
                most_mean_jct_s=None,
                least_mean_gpus=None,
                type_change_s_from=_shorten_changes(job_class),
            )
            for name, job_class in instance.classes.items()
            if jobs.get(name)
        },
        gpu_types={
            name: each.replace(spot=None, quota_gpus=None, commitments=None, spot_market=None)
            for name, each in instance.gpu_types.items()
        },
        widths=None,
        budget=Amount(1.0, BudgetUnit.GPU),
        problem=Problem.RESCALING if pauses else Problem.WHOLE,
        policy=Policy.MIXED,
        most_gpus=None,
        whole_nodes=None,
    )


def _free(job_class: JobClass, rule: Widths | None) -> Widths | None:
    """Allow all widths that tables know, and of formulas all up to the widest that is allowed, or known, anywhere."""
    known = [curve.known_widths() for curve in job_class.speedup.values()]
    own = job_class.widths or rule
    if own is None or all(widths is not None for widths in known):
        return None
    return Widths(max=max(int(widths[-1]) for widths in (*known, own.rule()) if widths is not None))


def _shorten_changes(job_class: JobClass) -> dict[str, dict[str, float]]:
    """Return by type left and entered what the shortest change to that type takes, where these differ."""
    types, of = list(job_class.speedup), job_class.type_change_s_of
    if not job_class.type_change_s_from or len(types) < 2:
        return {}
    least = {entered: min(of(left, entered) for left in types if left != entered) for entered in types}
    return {left: {entered: least[entered] for entered in types if entered != left} for left in types}


def has_pauses(instance: BoaInstance) -> bool:
    """Whether starts or changes take jobs of any class any time."""
    rescaling = instance.replace(problem=Problem.RESCALING)
    return any((rescaling.options(name).pause_h + rescaling.options(name).change_h).any() for name in instance.classes)


#: Sizes of a class of several epochs that are told apart at most: others count as the next smaller one.
_MOST_SIZES = 16


@dataclass(frozen=True, eq=False)
class Course:
    """What jobs (n,) have before them: E epochs, in each K widths, some more than once; smaller jobs begin amidst."""

    name: str  #: Of the class.
    gpus: FloatArray  #: (E, K) Widths, ascending: the vertices of the hull of GPU-time and time.
    rates: FloatArray  #: (E, K) What a job on them does in a second, in epochs.
    jobs: IntArray  #: (n,) Their places in the trace.
    start: FloatArray  #: (n,) Where each begins.
    pause_s: float  #: Seconds that a start takes beside these.

    @property
    def fastest_s(self) -> FloatArray:
        """(E,) The least seconds of each epoch."""
        least: FloatArray = 1.0 / self.rates.max(axis=1)
        return least


def list_courses(
    instance: BoaInstance, jobs: Mapping[str, tuple[IntArray, FloatArray]], gpus: int, *, pauses: bool
) -> list[Course]:
    """List the courses of jobs, by class their places in a trace and their sizes, on a cluster of so many GPUs."""
    gpu_type = instance.only_gpu_type
    relaxed = relax(instance, {name: float(places.size) for name, (places, _) in jobs.items()}, pauses=pauses)
    courses = []
    for name, job_class in relaxed.classes.items():
        options, (places, sizes) = relaxed.options(name), jobs[name]
        _, high = job_class.speedup[gpu_type].band_at(options.widths, job_class.reference_width)
        fits = options.widths <= gpus
        if not fits.any():
            problem = f"its jobs need {options.widths.min()} GPUs, and there are {gpus}"
            raise DataError(f"classes.{name}.speedup.{gpu_type}", problem, "add GPUs, or leave the class out")
        widths, speeds = options.widths[fits].astype(float), np.maximum(options.speeds, high)[:, fits]
        epochs_s = job_class.epoch_size_gpu_hours * SECONDS_PER_HOUR
        if (speeds == speeds[0]).all():
            speeds, epochs_s = speeds[:1], epochs_s.sum(keepdims=True)
        pause_s = float(options.pause_h.min()) * SECONDS_PER_HOUR
        alike, left = len(speeds) == 1, np.ones(sizes.size, dtype=np.bool_)
        for level in [float(sizes.max())] if alike else _tell_apart(sizes):
            # A class whose epochs are alike is begun in its midst; of others the size is rounded down.
            own = left if alike else left & (sizes >= level)
            left = left & ~own
            start = 1.0 - sizes[own] / level if alike else np.zeros(int(own.sum()))
            rates, waits_s = speeds / (level * epochs_s[:, None]), pause_s
            if pause_s and not start.any():  # a pause is an epoch, which more GPUs make no shorter
                rates, waits_s = np.concatenate([np.full((1, widths.size), 1.0 / pause_s), rates]), 0.0
            courses.append(Course(name, *_keep_hull(widths, rates), places[own], start, waits_s))
    return courses


def _tell_apart(sizes: FloatArray) -> list[float]:
    """Return the sizes that are told apart, descending, the least among them."""
    known = np.unique(sizes)
    if known.size > _MOST_SIZES:
        spaced = np.geomspace(known[0], known[-1], _MOST_SIZES)
        known = np.unique(known[np.searchsorted(known, spaced[:-1], side="left")])
    descending: list[float] = known[::-1].tolist()
    return descending


def _keep_hull(widths: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (E, K) widths and rates of the vertices of each epoch's hull, the last one repeated."""
    gpus = np.broadcast_to(widths, rates.shape)
    vertices = lower_left_hull(gpus / rates, 1.0 / rates)
    counts = vertices.sum(axis=1)
    order = np.argsort(~vertices, axis=1, kind="stable")[:, : counts.max()]
    order = np.take_along_axis(order, np.minimum(np.arange(counts.max()), counts[:, None] - 1), axis=1)
    return np.take_along_axis(gpus, order, axis=1), np.take_along_axis(rates, order, axis=1)
