"""Which batch sizes an application can train at on each width, and the best of them.

Data README, section 1.6 (b) to (g); see :mod:`optplan.lab.traces.sia`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from optplan.errors import DataError
from optplan.lab.traces.goodput_fitting import GoodputFit, fit_goodput
from optplan.lab.traces.sia_profiles import FITTED, INTERPOLATED, LearningCurves, Passes, ProfileTables, passes_to_fit
from optplan.lab.traces.sia_workloads import Application
from optplan.schema import FloatArray, IntArray
from optplan.speedup.batches import Batches, best_goodput

#: Fits that are kept.
_KEPT = 32


class Timing(StrEnum):
    """Where step times come from."""

    #: The tables, and the fitted model beyond them.
    TABLES = "tables"
    #: The fitted model at every width, one GPU included, as Pollux and Sia schedule.
    MODEL = "model"
    #: The tables, at the batch sizes that the fitted model takes for the best, as jobs run in Sia's simulator.
    MODEL_BATCHES = "model-batches"


class Infeasible(StrEnum):
    """What to do with widths on which the application cannot run."""

    #: Raise an error that names the width and the reason.
    REFUSE = "refuse"
    #: Leave them out of the profile, which lists them with their reasons. Where one GPU is among them, sizes are times
    #: on the least width that is left.
    LEAVE_OUT = "leave-out"


@dataclass(frozen=True)
class RunChoices(Batches):
    """Feasible ways to run on each width, and how long an iteration takes; all (candidates, widths).

    The best is that of the least ``believed_s`` for its gain, where these are given.
    """

    time_s: FloatArray
    believed_s: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Sources:
    """All that was read about one application on one type of GPU."""

    application: Application
    gpu: str
    tables: ProfileTables
    curves: LearningCurves
    fixed_batch_size: int | None

    @property
    def widest(self) -> int:
        """The largest width that leaves each GPU enough samples."""
        return (self.fixed_batch_size or self.application.max_batch_size) // self.tables.min_local_batch


def choose(
    sources: Sources, widths: IntArray, timing: Timing, infeasible: Infeasible
) -> tuple[RunChoices, list[str], GoodputFit | None]:
    """Return the choices of each width, where they come from, and the fit when one was needed."""
    if timing is Timing.MODEL:
        by_model, model = _choose_by_model(sources, widths)
        return by_model, [FITTED] * widths.size, model
    choices, provenance = _choose_by_tables(sources, widths)
    # An interpolation outside the hull of the measurements finds nothing: the model goes on there too.
    words = np.array(provenance)
    modelled = (words == FITTED) | ((words == INTERPOLATED) & ~choices.feasible.any(axis=0))
    if modelled[0] and infeasible is Infeasible.REFUSE:
        problem = f"{sources.application.name} was not measured on one GPU of {sources.gpu}"
        raise DataError("gpu", problem, f'measure that, or take all times from the model: timing="{Timing.MODEL}"')
    # Below the least width that was measured it may not even fit into memory: the model goes on above it only.
    modelled &= ~np.logical_and.accumulate(modelled)
    fit: GoodputFit | None = None
    if modelled.any():
        predicted, fit = _choose_by_model(sources, widths)
        names = ("local_batch", "accumulated", "batch_size", "feasible", "time_s")
        choices = RunChoices(*(np.where(modelled, getattr(predicted, n), getattr(choices, n)) for n in names))
    if timing is Timing.MODEL_BATCHES:
        fit = fit_profile(sources.tables.placement_passes, sources.tables.scalability_passes)
        nodes = sources.tables.count_nodes(widths)
        believed_s = fit.parameters.iteration_time_s(nodes, widths, choices.local_batch, choices.accumulated)
        choices = replace(choices, believed_s=believed_s)
    return choices, np.where(modelled, FITTED, words).tolist(), fit


def _choose_by_tables(sources: Sources, widths: IntArray) -> tuple[RunChoices, list[str]]:
    """Look the step times up (data README, section 1.6 (b)): nothing is feasible where there are none."""
    tables = sources.tables
    largest = np.array([tables.largest_local_batch(int(k)) for k in widths])
    rule = tables.batch_rule(sources.application)
    batches = rule.split(widths, largest_local=largest, fixed_batch_size=sources.fixed_batch_size)
    times_s = np.full((*batches.local_batch.shape, 2), np.nan)
    provenance = []
    for column, k in enumerate(widths.tolist()):
        word, rows = tables.look_up(k)
        provenance.append(word)
        if rows is not None:
            for which in (0, 1):
                times_s[:, column, which] = np.interp(
                    batches.local_batch[:, column],
                    rows.points[:, 2],
                    rows.times_s[:, which],
                    left=np.nan,
                    right=np.nan,
                )
    between = np.flatnonzero([word == INTERPOLATED for word in provenance])
    if between.size:
        k = np.broadcast_to(widths[between], batches.local_batch[:, between].shape)
        points = np.stack([tables.count_nodes(k), k, batches.local_batch[:, between]], axis=-1)
        times_s[:, between] = tables.interpolate(points.reshape(-1, 3)).reshape(*points.shape[:2], 2)
    step_s, sync_s = times_s[..., 0], times_s[..., 1]
    time_s = step_s + batches.accumulated * (step_s - sync_s)
    return _to_choices(batches, time_s), provenance


def _choose_by_model(sources: Sources, widths: IntArray) -> tuple[RunChoices, GoodputFit]:
    """Predict the step times; on several nodes nothing is feasible when none were measured."""
    fit = fit_profile(sources.tables.placement_passes, sources.tables.scalability_passes)
    batches = sources.tables.batch_rule(sources.application).split(widths, fixed_batch_size=sources.fixed_batch_size)
    nodes = sources.tables.count_nodes(widths)
    time_s = fit.parameters.iteration_time_s(nodes, widths, batches.local_batch, batches.accumulated)
    unknown = (nodes > 1) & ("alpha_n" in fit.unobserved)
    return _to_choices(batches, np.where(unknown, np.nan, time_s)), fit


def _to_choices(batches: Batches, time_s: FloatArray) -> RunChoices:
    feasible = batches.feasible & np.isfinite(time_s)
    return RunChoices(batches.local_batch, batches.accumulated, batches.batch_size, feasible, time_s)


@lru_cache(maxsize=_KEPT)
def fit_profile(placements: Passes, scalability: Passes) -> GoodputFit:
    """Fit the model to a whole profile."""
    passes = passes_to_fit(placements, scalability)
    return fit_goodput(*passes.points.T, *passes.times_s.T)


def measure(sources: Sources, choices: RunChoices, reference: int) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
    """Return sizes (epochs,) on the width of that index, goodputs (epochs, widths) and the best choices."""
    curves = sources.curves
    progress = np.diff(curves.progress)
    if sources.fixed_batch_size is not None:
        iterations = np.array(
            [np.interp(sources.fixed_batch_size, curves.batch_sizes, row) for row in curves.iterations]
        )
        time_s = iterations[:, None] * np.where(choices.feasible, choices.time_s, np.inf)
        goodput = progress[:, None] / time_s
        return time_s[:, reference], goodput, np.zeros(goodput.shape, dtype=np.intp)
    gain = curves.gradients.gain(choices.batch_size, sources.application.init_batch_size)
    if choices.believed_s is None:
        goodput, best = best_goodput(gain, choices.time_s, choices.feasible)
    else:
        _, best = best_goodput(gain, choices.believed_s, choices.feasible)
        gain_of_best = np.take_along_axis(gain, best[:, None, :], axis=1)[:, 0, :]
        feasible = choices.feasible.any(axis=0)
        time_s = np.where(feasible, np.take_along_axis(choices.time_s, best, axis=0), 1.0)
        goodput = np.where(feasible, gain_of_best / time_s, 0.0)
    return progress / goodput[:, reference], goodput, best
