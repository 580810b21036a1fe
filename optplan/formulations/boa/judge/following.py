"""What a job takes that follows a row of widths through its epochs: types, speeds, hours of each.

The judge's figures of GPUs in use at once: stays from the widths alone, chances by Panjer's recursion.

A sum of clumps is compound Poisson, so n P(n) = sum over y of y q(y) P(n - y), q(y) the mean number of clumps that
hold y cells (Panjer 1981). P(0) underflows where hundreds of jobs run, so the recursion starts at 1 and keeps its scale
apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import JUDGE_TOLERANCE, keep_latest
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Problem, has_real_widths
from optplan.formulations.boa.judge.loops import recur_cells
from optplan.formulations.boa.laws.bands import formula_speed
from optplan.formulations.boa.laws.demand import (
    STEADY,
    Crowd,
    Demand,
    Stay,
    gather_crowd,
    name_figures,
    read_chances,
    read_figure,
)
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.speedup import AmdahlSpeedup, PowerSpeedup, speed_on_hull
from optplan.units import SECONDS_PER_HOUR

#: Speeds closer than this, relatively, are the same, as in :mod:`optplan.speedup.hulls`.
_SAME = 1e-12


@dataclass(frozen=True)
class EpochTimes:
    """What each epoch (E,) takes of a job that follows a branch; interruptions stretch it by ``wall`` and ``held``."""

    # ``change`` says where the GPUs held become others, true in the first epoch, and ``paid`` how many are paid for.

    run_h: FloatArray
    pause_h: FloatArray
    wall: FloatArray
    held: FloatArray
    change: NDArray[np.bool_]
    paid: FloatArray

    @property
    def total_h(self) -> FloatArray:
        """(E,) Hours of each epoch."""
        return self.wall * (self.run_h + self.pause_h)

    @property
    def held_h(self) -> FloatArray:
        """(E,) Hours for which each epoch's GPUs are held."""
        return self.held * (self.run_h + self.pause_h)


def types_along(instance: BoaInstance, branch: Branch) -> NDArray[np.str_]:
    """Return the GPU type (E,) of each epoch of a branch."""
    if branch.gpu_types is None:
        return np.full(branch.widths.size, instance.only_gpu_type)
    return np.array(branch.gpu_types)


def epochs_by_type(instance: BoaInstance, branch: Branch) -> list[tuple[str, IntArray | slice]]:
    """List the GPU types that a branch holds, by name, each with its epochs."""
    held = [instance.only_gpu_type] if branch.gpu_types is None else sorted(set(branch.gpu_types))
    if len(held) == 1:
        return [(held[0], slice(None))]
    types = np.array(branch.gpu_types)
    return [(gpu_type, np.flatnonzero(types == gpu_type)) for gpu_type in held]


@keep_latest
def follow_solution(instance: BoaInstance, solution: BoaSolution) -> dict[str, list[EpochTimes]]:
    """Compute what each epoch takes, by class and branch, of a solution that keeps the rules of its shape."""
    return {
        name: [follow_epochs(instance, name, branch) for branch in solution.branches[name]] for name in instance.classes
    }


def follow_epochs(instance: BoaInstance, name: str, branch: Branch) -> EpochTimes:
    """Compute what each epoch takes of a job of a class that follows a branch which keeps the rules."""
    job_class, widths = instance.classes[name], branch.widths
    change = np.ones(widths.size, dtype=np.bool_)
    change[1:] = widths[1:] != widths[:-1]
    speed, wall, held = np.empty(widths.size), np.ones(widths.size), np.ones(widths.size)
    pause_s, paid = np.zeros(widths.size), widths.copy()
    rescales = instance.problem is Problem.RESCALING
    for gpu_type, epochs in epochs_by_type(instance, branch):
        speed[epochs] = speeds_along(instance, name, widths, gpu_type)[epochs]
        if instance.gpu_types[gpu_type].spot is not None:
            wall[epochs], held[epochs] = instance.gpu_types[gpu_type].stretch(widths[epochs].astype(np.int64))
        pause_s[epochs] = job_class.rescale_s_of(gpu_type) if rescales else 0.0
        if instance.whole_nodes:
            node = instance.gpu_types[gpu_type].gpus_per_node or 1
            paid[epochs] = node * -(-widths[epochs] // node)
    types = branch.gpu_types or ()
    for epoch in [epoch for epoch in range(1, len(types)) if types[epoch] != types[epoch - 1]]:
        change[epoch] = True
        pause_s[epoch] += job_class.type_change_s_of(types[epoch - 1], types[epoch]) if rescales else 0.0
    pause_s[~change] = 0.0
    return EpochTimes(job_class.epoch_size_gpu_hours / speed, pause_s / SECONDS_PER_HOUR, wall, held, change, paid)


def speeds_along(instance: BoaInstance, name: str, widths: FloatArray, gpu_type: str | None = None) -> FloatArray:
    """Return a class's speed (E,) at each epoch's width (E,) of a type, without interruptions."""
    gpu_type = instance.only_gpu_type if gpu_type is None else gpu_type
    curve = instance.classes[name].speedup[gpu_type]
    if isinstance(curve, AmdahlSpeedup | PowerSpeedup):
        return formula_speed(curve, widths)
    allowed, table = instance.allowed_widths(name, gpu_type), instance.speeds(name, gpu_type)
    if instance.problem is Problem.CONTINUOUS and not instance.is_typed:
        speeds = np.broadcast_to(table, (widths.size, allowed.size))
        return speed_on_hull(widths, allowed, speeds, tolerance=JUDGE_TOLERANCE)
    column = np.minimum(allowed.searchsorted(widths), allowed.size - 1)
    speed: FloatArray = table[np.arange(widths.size) if len(table) > 1 else 0, column]
    return speed


def real_range(instance: BoaInstance, name: str, gpu_type: str) -> tuple[FloatArray, FloatArray]:
    """Return the least and largest real width (E,) of each epoch; a table's hull may end before its widths do."""
    allowed, epochs = instance.allowed_widths(name, gpu_type), instance.classes[name].num_epochs
    if has_real_widths(instance, name, gpu_type):
        return np.full(epochs, float(allowed[0])), np.full(epochs, float(allowed[-1]))
    speeds = instance.speeds(name, gpu_type)
    use = allowed / speeds
    # The hull goes from the least GPU-hours (of those, the quickest) to the highest speed (of those, the narrowest).
    cheapest = use <= use.min(axis=1, keepdims=True) * (1 + _SAME)
    quickest = speeds >= speeds.max(axis=1, keepdims=True) * (1 - _SAME)
    least = allowed[np.where(cheapest, speeds, 0.0).argmax(axis=1)]
    largest = allowed[np.where(quickest, use, np.inf).argmin(axis=1)]
    return np.broadcast_to(least.astype(float), epochs), np.broadcast_to(largest.astype(float), epochs)


#: Beyond this, chances are scaled down.
_LARGE = 1e200
#: Cells between two looks at the clock: about 10 ms at most.
_AT_ONCE = 64


def judge_demand(instance: BoaInstance, solution: BoaSolution, figures: list[str]) -> dict[str, float]:
    """Compute GPUs in use at once: all usual figures and those named, such as ``steady_over_200.t4``, if they exist."""
    found: dict[str, float] = {}
    stays = list_stays(instance, solution)
    crowds: dict[tuple[str, bool], Crowd] = {}
    known: dict[tuple[str, bool], Demand] = {}
    for name in dict.fromkeys([*(name for name, *_ in name_figures(instance)), *figures]):
        figure, _, gpu_type = name.partition(".")
        steady = figure.startswith(STEADY)
        key = gpu_type, steady
        if gpu_type and gpu_type not in instance.gpu_types:
            continue
        if key not in known:
            some = [stay for stay in stays if gpu_type in {"", stay.gpu_type}]
            crowds[key] = gather_crowd(instance, some, steady=steady, of=crowds.get(("", steady)))
            known[key] = recur(crowds[key])
        value = read_figure(known[key], figure.removeprefix(STEADY))
        if value is not None:
            found[name] = value
    return found


def find_demand(instance: BoaInstance, solution: BoaSolution, gpu_type: str = "", *, steady: bool = False) -> Demand:
    """Find the distribution of GPUs in use of one type, or of all types where none is named."""
    stays = [stay for stay in list_stays(instance, solution) if gpu_type in {"", stay.gpu_type}]
    return recur(gather_crowd(instance, stays, steady=steady))


def list_stays(instance: BoaInstance, solution: BoaSolution) -> list[Stay]:
    """List what jobs hold, by class, branch and GPU type."""
    stays = []
    for name, job_class in instance.classes.items():
        for branch, times in zip(solution.branches[name], follow_solution(instance, solution)[name], strict=True):
            types = branch.gpu_types or (instance.only_gpu_type,) * branch.widths.size
            starts, total_h = times.change.nonzero()[0], times.total_h
            begins_h = np.zeros(total_h.size)
            begins_h[1:] = total_h[:-1].cumsum()
            lasts_h, held_h = np.add.reduceat(total_h, starts), np.add.reduceat(times.held_h, starts)
            phases = [types[first] for first in starts.tolist()]
            rate = job_class.arrival_rate_per_hour * branch.fraction
            for gpu_type in sorted(set(phases)):
                own = np.array([number for number, holds in enumerate(phases) if holds == gpu_type])
                paid, begins = times.paid[starts[own]], begins_h[starts[own]]
                stays.append(Stay(name, gpu_type, paid, rate, begins, lasts_h[own], held_h[own] / lasts_h[own]))
    return stays


def recur(crowd: Crowd, stopwatch: Stopwatch | None = None) -> Demand:
    """Compute the chances (H, N) of a crowd by Panjer's recursion, in time that is square in N."""
    hours, size = len(crowd.jobs), crowd.size
    weights = np.zeros((size, hours))
    clumps = crowd.jobs * (1.0 - crowd.repeat)
    counts, clumped = crowd.cells.astype(int), crowd.repeat > 0.0
    alone = ~clumped & (counts < size)  # of so many cells there are no others
    weights[counts[alone]] = (crowd.cells * clumps).T[alone]
    for place in clumped.nonzero()[0].tolist():
        cells, repeat = int(counts[place]), float(crowd.repeat[place])
        held = np.arange(cells, size, cells)
        members = np.arange(held.size)
        share = (1.0 - repeat) * repeat**members
        weights[held] += (held * share)[:, None] * clumps[:, place]
    present = np.flatnonzero(weights.any(axis=1))
    present_weights = weights[present]
    chances = np.zeros((size, hours))
    chances[0] = 1.0
    scale = -clumps.sum(axis=1)
    for first in range(1, size, _AT_ONCE):
        if stopwatch is not None:
            stopwatch.require()
        recur_cells(present, present_weights, chances, scale, first, min(first + _AT_ONCE, size), _LARGE)
    with np.errstate(divide="ignore"):
        return read_chances(crowd, np.exp(np.log(chances) + scale).T)
