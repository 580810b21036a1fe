"""The solvers' figures of GPUs in use at once: stays from the options, chances by the Fourier transform.

The generating function of a compound Poisson sum is exp(sum of m (g(z) - 1)); its values at the roots of unity are the
transform of the chances. What lies beyond the last cell would come back at the first ones: there are enough of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Problem
from optplan.formulations.boa.laws.bands import formula_speed
from optplan.formulations.boa.laws.demand import (
    Crowd,
    Demand,
    Stay,
    gather_crowd,
    name_figures,
    read_chances,
    read_figure,
)
from optplan.schema import FloatArray, IntArray
from optplan.speedup import AmdahlSpeedup, PowerSpeedup, speed_on_hull

#: Most numbers of cells that are listed; no cluster has as many GPUs.
_MOST_CELLS = 10_000_000


def forecast_demand(instance: BoaInstance, solution: BoaSolution, over: Sequence[float] = ()) -> dict[str, float]:
    """Forecast GPUs in use at once, and the share of the time with more than ``over``; empty where too many to list."""
    # ``p50``, ``p95``, ``p99``, ``busiest_p95``, ``over_N``, each also ``steady_`` and by ``.type`` where that differs.
    stays = list_stays(instance, solution)
    all_steady = gather_crowd(instance, stays, steady=True)
    # The numbers of cells that may be in use cannot always be listed.
    if not np.isfinite(all_steady.always).all() or all_steady.always.max() + all_steady.size > _MOST_CELLS:
        return {}
    told: dict[str, float] = {}
    crowds, known = {("", True): all_steady}, {("", True): transform(all_steady)}
    for name, figure, steady, gpu_type in name_figures(instance, over):
        key = gpu_type, steady
        if key not in known:
            some = [stay for stay in stays if gpu_type in {"", stay.gpu_type}]
            crowds[key] = gather_crowd(instance, some, steady=steady, of=crowds.get(("", steady)))
            known[key] = transform(crowds[key])
        told[name] = read_figure(known[key], figure) or 0.0
    return told


def find_demand(instance: BoaInstance, solution: BoaSolution, gpu_type: str = "", *, steady: bool = False) -> Demand:
    """Find the distribution of GPUs in use of one type, or of all types where none is named."""
    return transform(gather_crowd(instance, list_stays(instance, solution, gpu_type), steady=steady))


def list_stays(instance: BoaInstance, solution: BoaSolution, gpu_type: str = "") -> list[Stay]:
    """List what jobs hold on a type, or on any, by class, branch and type."""
    return [
        stay
        for name in instance.classes
        for branch in solution.branches[name]
        for stay in follow_branch(instance, name, branch)
        if gpu_type in {"", stay.gpu_type}
    ]


def follow_branch(instance: BoaInstance, name: str, branch: Branch) -> list[Stay]:
    """List the stays of one branch: epochs that follow one another on the same GPUs are one stay."""
    job_class, options = instance.classes[name], instance.options(name)
    changed = np.ones(branch.widths.size, dtype=np.bool_)
    changed[1:] = branch.widths[1:] != branch.widths[:-1]
    types = branch.gpu_types or (options.gpu_types[0],) * branch.widths.size
    kinds = np.array([options.gpu_types.index(each) for each in types])
    changed[1:] |= kinds[1:] != kinds[:-1]
    if instance.problem is Problem.CONTINUOUS:
        hours, wall, held = _follow_real(instance, name, kinds, branch)
    else:
        columns = options.find(branch.gpu_types, branch.widths)
        rows = np.arange(columns.size) if len(options.speeds) > 1 else 0
        hours = job_class.epoch_size_gpu_hours / options.speeds[rows, columns]
        hours += changed * options.pause_h[columns]
        hours[1:] += changed[1:] * options.change_h[kinds[:-1], columns[1:]]
        wall, held = options.wall[columns], options.held[columns]
    firsts = changed.nonzero()[0]
    lasts_h, held_h = np.add.reduceat(hours * wall, firsts), np.add.reduceat(hours * held, firsts)
    begins_h = lasts_h.cumsum() - lasts_h
    stays = []
    for kind in np.unique(kinds).tolist():
        gpu_type, own = options.gpu_types[kind], kinds[firsts] == kind
        paid = instance.paid_gpus(gpu_type, branch.widths[firsts][own])
        rate = job_class.arrival_rate_per_hour * branch.fraction
        stays.append(Stay(name, gpu_type, paid, rate, begins_h[own], lasts_h[own], held_h[own] / lasts_h[own]))
    return stays


def _follow_real(
    instance: BoaInstance, name: str, kinds: IntArray, branch: Branch
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the hours (E,) at real widths, by closed forms or fractions of jobs on the hull, and how they stretch."""
    speed, wall, held = np.empty(kinds.size), np.ones(kinds.size), np.ones(kinds.size)
    for kind in np.unique(kinds).tolist():
        gpu_type, own = instance.options(name).gpu_types[kind], kinds == kind
        curve, widths = instance.classes[name].speedup[gpu_type], branch.widths[own]
        if instance.gpu_types[gpu_type].spot is not None:  # these have whole widths only
            wall[own], held[own] = instance.gpu_types[gpu_type].stretch(widths.astype(np.int64))
        if isinstance(curve, AmdahlSpeedup | PowerSpeedup):
            speed[own] = formula_speed(curve, branch.widths)[own]
        else:
            allowed = instance.allowed_widths(name, gpu_type)
            table = np.broadcast_to(instance.speeds(name, gpu_type), (kinds.size, allowed.size))
            speed[own] = speed_on_hull(widths, allowed, table[own])
    return instance.classes[name].epoch_size_gpu_hours / speed, wall, held


def transform(crowd: Crowd) -> Demand:
    """Compute the chances (H, N) of a crowd by the fast Fourier transform."""
    single, cells = crowd.repeat == 0.0, crowd.cells.astype(int)
    jobs = np.zeros((len(crowd.jobs), crowd.size))
    np.add.at(jobs.T, cells[single] % crowd.size, crowd.jobs.T[single])
    logarithm = np.fft.rfft(jobs, axis=1) - jobs.sum(axis=1, keepdims=True)
    half = np.arange(crowd.size // 2 + 1)
    for place in np.flatnonzero(~single).tolist():
        repeat, turned = crowd.repeat[place], np.exp(-2j * np.pi / crowd.size * (cells[place] * half % crowd.size))
        clump = (1.0 - repeat) * turned / (1.0 - repeat * turned)
        logarithm += (crowd.jobs[:, place] * (1.0 - repeat))[:, None] * (clump - 1.0)
    return read_chances(crowd, np.maximum(np.fft.irfft(np.exp(logarithm), crowd.size, axis=1), 0.0))
