"""The judge's figures of GPUs in use at once: stays from the widths alone, chances by Panjer's recursion.

A sum of clumps is compound Poisson, so n P(n) = sum over y of y q(y) P(n - y), q(y) the mean number of clumps that
hold y cells (Panjer 1981). P(0) underflows where hundreds of jobs run, so the recursion starts at 1 and keeps its scale
apart.
"""

from __future__ import annotations

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.judge.following import follow_solution
from optplan.formulations.boa.judge.loops import recur_cells
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
