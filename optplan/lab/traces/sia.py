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
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.lab.traces.goodput_fitting import GoodputFit
from optplan.lab.traces.sia_choices import Infeasible, Sources, Timing, choose, measure
from optplan.lab.traces.sia_profiles import (
    CannotRunError,
    LearningCurves,
    ProfileTables,
    read_learning_curves,
    read_profile_tables,
    smallest_rotation,
    stamp_profiles,
)
from optplan.lab.traces.sia_workloads import Application, application_named
from optplan.schema import FloatArray, IntArray, freeze

_Word = TypeVar("_Word", bound=StrEnum)

#: Profiles that are kept once they are read or fitted.
_KEPT = 32


@dataclass(frozen=True, eq=False)
class EpochProfile:
    """How long each epoch of an application takes on one type of GPU; the time on k GPUs is size / speedup.

    Sizes and speedups refer to one GPU of this type, or to ``reference_width`` GPUs where it cannot run on one.

    (W widths, E epochs.) ``sizes_s`` (E,) is X_e, seconds on ``reference_width`` GPUs: 1, or the least feasible width
    where one GPU is left out. ``speedup`` (E, W) is s_e(k), relative to it. ``goodput_per_s`` (E, W) and that on the
    reference width (E,) are gamma_e without the slowdown: goodputs on two types of GPU can be compared, speedups
    cannot. ``progress`` (E + 1,) is P_0 = 0 and that at the end of each epoch, in iterations at the initial batch size.
    ``batch_sizes`` and ``local_batch_sizes`` (E, W) are B and b, samples per iteration and per GPU in one pass, of the
    best choice. ``provenance`` is, by width, ``measured`` (its placement), ``measured-scalability`` (its numbers of
    nodes and GPUs), ``interpolated`` (between these) or ``fitted``; ``left_out`` has reasons why widths are not
    feasible; ``fit`` is there when a width or the choice of batch sizes rests on it.
    """

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
    infeasible: Infeasible | str = Infeasible.REFUSE,
) -> EpochProfile:
    """Derive epoch sizes and speedups (data README, section 1.6).

    The application is a name of :data:`APPLICATIONS` or the facts of another in the same form, the GPU a suffix of its
    files: aws, azure, dgx-ext, rtx, quad. Widths may be keys of placements, such as ``{4: "22"}``, where GPUs are not
    on as few nodes as possible. ``fixed_batch`` is of jobs that do not adapt theirs; None adapts it. ``timing`` is
    ``tables``; ``model`` for the fitted model at every width; or ``model-batches`` for the tables at the batch sizes
    that the fitted model takes for the best. Widths are ``infeasible`` (``refuse`` or ``leave-out``) where the smallest
    local batches exceed the largest batch, or nothing is known about them.
    """
    timing, infeasible = _word(Timing, "timing", timing), _word(Infeasible, "infeasible", infeasible)
    spread = widths if isinstance(widths, Mapping) else {}
    asked = _check_widths(list(spread) or widths)
    sources = _read(profiles_dir, application, gpu, fixed_batch, spread)
    left_out = {int(k): _say_too_wide(sources, int(k)) for k in asked[asked > sources.widest]}
    tried = np.union1d([1], asked[asked <= sources.widest])
    choices, provenance, fit = choose(sources, tried, timing, infeasible)
    stuck = ~choices.feasible.any(axis=0)
    left_out |= {int(k): _say_why_not(sources, int(k), fit) for k in tried[stuck]}
    if left_out and infeasible is Infeasible.REFUSE:
        first = min(left_out)
        if first == 1:
            raise DataError("widths", left_out[1], "sizes are times on one GPU: measure that")
        fix = f'choose widths below {first}, or infeasible="{Infeasible.LEAVE_OUT}" to go without such widths'
        raise DataError("widths", left_out[first], fix)
    kept = np.flatnonzero(~stuck & np.isin(tried, asked))
    if not kept.size:
        fix = (
            f"choose widths below {min(left_out)}" if min(left_out) > 1 else "leave it out, or measure it where it runs"
        )
        raise CannotRunError("widths", f"none is feasible: {left_out[min(left_out)]}", fix)
    reference = int(np.flatnonzero(~stuck)[0])
    sizes_s, goodput, best = measure(sources, choices, reference)
    factor = sources.application.slowdown if slowdown else 1.0
    return EpochProfile(
        application=sources.application.name,
        gpu=gpu,
        widths=freeze(tried[kept]),
        sizes_s=freeze(factor * sizes_s),
        speedup=freeze((goodput / goodput[:, reference : reference + 1])[:, kept]),
        reference_width=int(tried[reference]),
        reference_goodput_per_s=freeze(goodput[:, reference]),
        goodput_per_s=freeze(goodput[:, kept]),
        progress=freeze(sources.curves.progress),
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
    tables, curves = read_profile(profiles_dir, facts, gpu)
    return Sources(facts, gpu, replace(tables, spread=placed), curves, fixed_batch)


def read_profile(profiles_dir: Path | str, facts: Application, gpu: str) -> tuple[ProfileTables, LearningCurves]:
    """Read the step times and the learning curves of an application, once as long as their files are the same."""
    return _read_files(str(profiles_dir), facts, gpu, stamp_profiles(profiles_dir, facts.name))


@lru_cache(maxsize=_KEPT)
def _read_files(
    profiles_dir: str, facts: Application, gpu: str, _stamp: tuple[tuple[str, int, int], ...]
) -> tuple[ProfileTables, LearningCurves]:
    return read_profile_tables(profiles_dir, facts, gpu), read_learning_curves(profiles_dir, facts)


def _say_too_wide(sources: Sources, k: int) -> str:
    batch = sources.fixed_batch_size or sources.application.max_batch_size
    return (
        f"{sources.application.name} cannot run on {k} GPUs of {sources.gpu}: each needs at least "
        f"{sources.tables.min_local_batch} samples, and the largest batch has {batch}, enough for {sources.widest}"
    )


def _say_why_not(sources: Sources, k: int, fit: GoodputFit | None) -> str:
    subject = f"{sources.application.name} on {k} GPUs of {sources.gpu}"
    if fit is not None and "alpha_n" in fit.unobserved and k > sources.tables.gpus_per_node:
        return f"{subject}: the profile holds no measurement on several nodes, so nothing is known about this width"
    if sources.tables.look_up(k)[1] is None:
        return f"{subject}: neither this width nor one below it was measured"
    return f"{subject}: no batch size splits into local batches that were measured"


def _check_widths(widths: Sequence[int] | IntArray | Mapping[int, str]) -> IntArray:
    given = np.asarray(widths)
    if given.ndim != 1 or not given.size or given.dtype.kind not in "iu":
        raise DataError("widths", f"got {widths!r}; a list of whole numbers is needed", "give at least one width")
    if given.min() < 1:
        raise DataError("widths", f"got {given.min()}; widths of at least 1 GPU are allowed", "leave it out")
    return np.unique(given.astype(np.int64))


def _word(words: type[_Word], name: str, text: str) -> _Word:
    try:
        return words(text)
    except ValueError:
        raise UsageError(f"{name}: got {text!r}; {nearest_name_hint(text, [word.value for word in words])}") from None
