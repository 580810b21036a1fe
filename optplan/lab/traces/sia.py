"""Epoch sizes and speedups from the public Sia and AdaptDL profiles.

A job that adapts its batch size runs, in epoch e on k GPUs, at the goodput ``gamma_e(k)``: the largest ``G / T`` over
the batch sizes that fit, with the gain G from the gradient statistics of that epoch and the iteration time T from the
table of measured steps (data README, section 1.6 (a) to (g)). The epoch's size is its progress over the goodput of one
GPU, its speedup ``s_e(k) = gamma_e(k) / gamma_e(1)``. Where the tables end, the fitted model of
:mod:`optplan.speedup.goodput` continues them as it is, and each width says where its number comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.lab.traces.goodput_fitting import GoodputFit, fit_goodput
from optplan.lab.traces.sia_profiles import (
    FITTED,
    INTERPOLATED,
    CannotRunError,
    LearningCurves,
    ProfileTables,
    consolidated_placement,
    passes_to_fit,
    read_learning_curves,
    read_profile_tables,
    smallest_rotation,
    stamp_profiles,
)
from optplan.lab.traces.sia_workloads import Application, application_named
from optplan.schema import FloatArray, IntArray, freeze
from optplan.speedup.goodput import Batches, BatchRule, best_goodput

#: Profiles that are kept once they are read or fitted.
_KEPT = 32


class Timing(StrEnum):
    """Where step times come from."""

    #: The tables, and the fitted model beyond them.
    TABLES = "tables"
    #: The fitted model at every width, one GPU included, as Pollux and Sia schedule.
    MODEL = "model"
    #: The tables, at the batch sizes that the fitted model takes for the best, as jobs run in Sia's simulator.
    MODEL_BATCHES = "model-batches"


@dataclass(frozen=True)
class RunChoices(Batches):
    """Feasible ways to run on each width (candidates, widths); the best has the least ``believed_s``, if given."""

    time_s: FloatArray
    believed_s: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Profile:
    """All that was measured of one application on one type of GPU."""

    application: Application
    gpu: str
    tables: ProfileTables
    curves: LearningCurves

    @property
    def batch_rule(self) -> BatchRule:
        """The limits on batch sizes."""
        facts, tables = self.application, self.tables
        return BatchRule(facts.init_batch_size, facts.max_batch_size, tables.min_local_batch, tables.max_local_batch)

    @cached_property
    def fit(self) -> GoodputFit:
        """The model fitted to all of it."""
        passes = passes_to_fit(self.tables.placement_passes, self.tables.scalability_passes)
        return fit_goodput(*passes.points.T, *passes.times_s.T)


def read_profile(profiles_dir: Path | str, facts: Application, gpu: str) -> Profile:
    """Read what was measured of an application, once as long as its files are the same."""
    return _read_files(str(profiles_dir), facts, gpu, stamp_profiles(profiles_dir, facts.name))


@lru_cache(maxsize=_KEPT)
def _read_files(profiles_dir: str, facts: Application, gpu: str, _stamp: tuple[tuple[str, int, int], ...]) -> Profile:
    return Profile(facts, gpu, read_profile_tables(profiles_dir, facts, gpu), read_learning_curves(profiles_dir, facts))


@dataclass(frozen=True, eq=False)
class Sources:
    """A profile, the placements of widths whose GPUs are not on as few nodes as possible, and the batch, if fixed."""

    profile: Profile
    spread: Mapping[int, str]
    fixed_batch_size: int | None

    @property
    def widest(self) -> int:
        """The largest width that leaves each GPU enough samples."""
        most = self.fixed_batch_size or self.profile.application.max_batch_size
        return most // self.profile.tables.min_local_batch

    def place(self, gpus: int) -> str:
        """Return how the GPUs of a width lie on nodes."""
        return self.spread.get(gpus) or consolidated_placement(gpus, self.profile.tables.gpus_per_node)

    def count_nodes(self, widths: IntArray) -> IntArray:
        """Return the nodes on which the GPUs of each width lie."""
        return np.array([len(self.place(gpus)) for gpus in widths.tolist()])


def choose(sources: Sources, widths: IntArray, timing: Timing) -> tuple[RunChoices, list[str], GoodputFit | None]:
    """Return the choices of each width, where they come from, and the fit when one was needed."""
    if timing is Timing.MODEL:
        by_model, model = _choose_by_model(sources, widths)
        return by_model, [FITTED] * widths.size, model
    choices, provenance = _choose_by_tables(sources, widths)
    # An interpolation outside the hull of the measurements finds nothing: the model goes on there too.
    words = np.array(provenance)
    modelled = (words == FITTED) | ((words == INTERPOLATED) & ~choices.feasible.any(axis=0))
    # Below the least width that was measured it may not even fit into memory: the model goes on above it only.
    modelled &= ~np.logical_and.accumulate(modelled)
    fit: GoodputFit | None = None
    if modelled.any():
        predicted, fit = _choose_by_model(sources, widths)
        names = ("local_batch", "accumulated", "batch_size", "feasible", "time_s")
        choices = RunChoices(*(np.where(modelled, getattr(predicted, n), getattr(choices, n)) for n in names))
    if timing is Timing.MODEL_BATCHES:
        fit, nodes = sources.profile.fit, sources.count_nodes(widths)
        believed_s = fit.parameters.iteration_time_s(nodes, widths, choices.local_batch, choices.accumulated)
        choices = replace(choices, believed_s=believed_s)
    return choices, np.where(modelled, FITTED, words).tolist(), fit


def _choose_by_tables(sources: Sources, widths: IntArray) -> tuple[RunChoices, list[str]]:
    """Look the step times up (data README, section 1.6 (b)): nothing is feasible where there are none."""
    profile, tables = sources.profile, sources.profile.tables
    placements = [sources.place(gpus) for gpus in widths.tolist()]
    largest = np.array(list(map(tables.largest_local_batch, placements)))
    batches = profile.batch_rule.split(widths, largest_local=largest, fixed_batch_size=sources.fixed_batch_size)
    times_s = np.full((*batches.local_batch.shape, 2), np.nan)
    provenance = []
    for column, placement in enumerate(placements):
        word, rows = tables.look_up(placement)
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
        nodes = np.broadcast_to(sources.count_nodes(widths)[between], k.shape)
        points = np.stack([nodes, k, batches.local_batch[:, between]], axis=-1)
        times_s[:, between] = tables.interpolate(points.reshape(-1, 3)).reshape(*points.shape[:2], 2)
    step_s, sync_s = times_s[..., 0], times_s[..., 1]
    time_s = step_s + batches.accumulated * (step_s - sync_s)
    return _to_choices(batches, time_s), provenance


def _choose_by_model(sources: Sources, widths: IntArray) -> tuple[RunChoices, GoodputFit]:
    """Predict the step times; on several nodes nothing is feasible when none were measured."""
    fit, nodes = sources.profile.fit, sources.count_nodes(widths)
    batches = sources.profile.batch_rule.split(widths, fixed_batch_size=sources.fixed_batch_size)
    time_s = fit.parameters.iteration_time_s(nodes, widths, batches.local_batch, batches.accumulated)
    unknown = (nodes > 1) & ("alpha_n" in fit.unobserved)
    return _to_choices(batches, np.where(unknown, np.nan, time_s)), fit


def _to_choices(batches: Batches, time_s: FloatArray) -> RunChoices:
    feasible = batches.feasible & np.isfinite(time_s)
    return RunChoices(batches.local_batch, batches.accumulated, batches.batch_size, feasible, time_s)


def measure(sources: Sources, choices: RunChoices, reference: int) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
    """Return sizes (epochs,) on the width of that index, goodputs (epochs, widths) and the best choices."""
    curves, facts = sources.profile.curves, sources.profile.application
    progress = np.diff(curves.progress)
    if sources.fixed_batch_size is not None:
        iterations = np.array(
            [np.interp(sources.fixed_batch_size, curves.batch_sizes, row) for row in curves.iterations]
        )
        time_s = iterations[:, None] * np.where(choices.feasible, choices.time_s, np.inf)
        goodput = progress[:, None] / time_s
        return time_s[:, reference], goodput, np.zeros(goodput.shape, dtype=np.intp)
    gain = curves.gradients.gain(choices.batch_size, facts.init_batch_size)
    if choices.believed_s is None:
        goodput, best = best_goodput(gain, choices.time_s, choices.feasible)
    else:
        _, best = best_goodput(gain, choices.believed_s, choices.feasible)
        gain_of_best = np.take_along_axis(gain, best[:, None, :], axis=1)[:, 0, :]
        feasible = choices.feasible.any(axis=0)
        time_s = np.where(feasible, np.take_along_axis(choices.time_s, best, axis=0), 1.0)
        goodput = np.where(feasible, gain_of_best / time_s, 0.0)
    return progress / goodput[:, reference], goodput, best


@dataclass(frozen=True, eq=False)
class EpochProfile:
    """How long each of E epochs takes on W widths of one type of GPU; the time on k GPUs is size / speedup."""

    # ``sizes_s`` (E,) are on ``reference_width`` GPUs, 1 or the least feasible, ``speedup`` (E, W) relative to these.
    # Goodputs of two types can be compared, speedups cannot. ``progress`` (E + 1,) is in iterations at the initial
    # batch. ``provenance`` is measured, measured-scalability (its nodes and GPUs were), interpolated or fitted, by
    # width.

    application: str
    gpu: str
    widths: IntArray
    sizes_s: FloatArray
    speedup: FloatArray
    reference_width: int
    reference_goodput_per_s: FloatArray
    goodput_per_s: FloatArray
    progress: FloatArray
    batch_sizes: IntArray
    local_batch_sizes: IntArray
    provenance: tuple[str, ...]
    left_out: Mapping[int, str]
    slowdown: float
    fixed_batch_size: int | None
    fit: GoodputFit | None


def derive_epochs(
    profiles_dir: Path | str,
    application: str | Application,
    gpu: str,
    widths: Sequence[int] | IntArray | Mapping[int, str],
    *,
    slowdown: bool = False,
    fixed_batch: int | None = None,
    timing: Timing | str = Timing.TABLES,
) -> EpochProfile:
    """Derive epoch sizes and speedups (data README, section 1.6)."""
    # The GPU is a suffix of files. Widths may be keys of placements, such as ``{4: "22"}``. Left out, with the reason,
    # are widths whose smallest local batches exceed the largest batch, or of which nothing is known; where one GPU is
    # among them, sizes are times on the least width that is left.
    if timing not in [*Timing]:
        raise UsageError(f"timing: got {timing!r}; {nearest_name_hint(timing, [word.value for word in Timing])}")
    spread = widths if isinstance(widths, Mapping) else {}
    asked = np.unique(np.array(list(widths), dtype=np.int64))
    sources = _read(profiles_dir, application, gpu, fixed_batch, spread)
    left_out = {int(k): _say_too_wide(sources, int(k)) for k in asked[asked > sources.widest]}
    tried = np.union1d([1], asked[asked <= sources.widest])
    choices, provenance, fit = choose(sources, tried, Timing(timing))
    stuck = ~choices.feasible.any(axis=0)
    left_out |= {int(k): _say_why_not(sources, int(k), fit) for k in tried[stuck]}
    kept = np.flatnonzero(~stuck & np.isin(tried, asked))
    if not kept.size:
        fix = (
            f"choose widths below {min(left_out)}" if min(left_out) > 1 else "leave it out, or measure it where it runs"
        )
        raise CannotRunError("widths", f"none is feasible: {left_out[min(left_out)]}", fix)
    reference = int(np.flatnonzero(~stuck)[0])
    sizes_s, goodput, best = measure(sources, choices, reference)
    facts = sources.profile.application
    factor = facts.slowdown if slowdown else 1.0
    return EpochProfile(
        application=facts.name,
        gpu=gpu,
        widths=freeze(tried[kept]),
        sizes_s=freeze(factor * sizes_s),
        speedup=freeze((goodput / goodput[:, reference : reference + 1])[:, kept]),
        reference_width=int(tried[reference]),
        reference_goodput_per_s=freeze(goodput[:, reference]),
        goodput_per_s=freeze(goodput[:, kept]),
        progress=freeze(sources.profile.curves.progress),
        batch_sizes=freeze(np.take_along_axis(choices.batch_size, best, axis=0)[:, kept]),
        local_batch_sizes=freeze(np.take_along_axis(choices.local_batch, best, axis=0)[:, kept]),
        provenance=tuple(provenance[column] for column in kept),
        left_out=MappingProxyType(dict(sorted(left_out.items()))),
        slowdown=factor,
        fixed_batch_size=fixed_batch,
        fit=fit,
    )


def _read(
    profiles_dir: Path | str,
    application: str | Application,
    gpu: str,
    fixed_batch: int | None,
    spread: Mapping[int, str],
) -> Sources:
    facts = application if isinstance(application, Application) else application_named(application)
    if facts.pipeline:
        problem = f"{facts.name} trains in a pipeline, and its profile holds times of stages, not of steps"
        raise DataError("application", problem, "choose an application that is not a pipeline")
    if fixed_batch is not None and not facts.init_batch_size <= fixed_batch <= facts.max_batch_size:
        problem = f"got {fixed_batch}; {facts.name} trains at {facts.init_batch_size} to {facts.max_batch_size} samples"
        raise DataError("fixed_batch", problem, "choose a batch size in that range, or None to adapt it")
    placed = {width: smallest_rotation(placement) for width, placement in spread.items()}
    return Sources(read_profile(profiles_dir, facts, gpu), placed, fixed_batch)


def _say_too_wide(sources: Sources, k: int) -> str:
    facts = sources.profile.application
    return (
        f"{facts.name} cannot run on {k} GPUs of {sources.profile.gpu}: each needs at least "
        f"{sources.profile.tables.min_local_batch} samples, and the largest batch has "
        f"{sources.fixed_batch_size or facts.max_batch_size}, enough for {sources.widest}"
    )


def _say_why_not(sources: Sources, k: int, fit: GoodputFit | None) -> str:
    profile = sources.profile
    subject = f"{profile.application.name} on {k} GPUs of {profile.gpu}"
    if fit is not None and "alpha_n" in fit.unobserved and k > profile.tables.gpus_per_node:
        return f"{subject}: the profile holds no measurement on several nodes, so nothing is known about this width"
    if profile.tables.look_up(sources.place(k))[1] is None:
        return f"{subject}: neither this width nor one below it was measured"
    return f"{subject}: no batch size splits into local batches that were measured"
