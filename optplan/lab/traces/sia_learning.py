"""What an agent of Pollux knows about an application that it has seen on some placements only.

AdaptDL fits the model of :mod:`optplan.speedup.goodput` to what a job has run on, and believes it everywhere else.
Here a job that has run on a placement knows all that was measured there; a placement that was not measured counts as it
is interpolated.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

import numpy as np

from optplan.lab.traces.goodput_fitting import fit_goodput
from optplan.lab.traces.sia import read_profile
from optplan.lab.traces.sia_applications import Application
from optplan.lab.traces.sia_profiles import Passes, ProfileTables, stamp_profiles
from optplan.schema import FloatArray, freeze
from optplan.speedup.goodput import GoodputSpeedup

#: Local batches at which a placement that was not measured counts.
_INTERPOLATED_BATCHES = 8
#: Nodes of this size hold any job.
_ANY_GPUS = 1_000_000
#: Fits that are kept.
_KEPT = 4096


def fit_speeds(
    profiles_dir: Path | str, facts: Application, gpu: str, placements: Collection[tuple[int, ...]], most_gpus: int
) -> tuple[FloatArray, FloatArray]:
    """Fit the model to some placements, and return the speeds that it predicts.

    Placements are GPUs of each node, descending. Both results are (epochs, K + 1), progress per second on GPUs of one
    node, however many that has, and of several; K is ``most_gpus`` or what the largest batch is enough for; zero where
    it cannot run. Without placements speeds are proportional to GPUs.
    """
    stamp = stamp_profiles(profiles_dir, facts.name)
    return _fit_speeds(str(profiles_dir), facts, gpu, frozenset(placements), most_gpus, stamp)


@lru_cache(maxsize=_KEPT)
def _fit_speeds(
    profiles_dir: str,
    facts: Application,
    gpu: str,
    placements: frozenset[tuple[int, ...]],
    most_gpus: int,
    _stamp: tuple[tuple[str, int, int], ...],
) -> tuple[FloatArray, FloatArray]:
    tables, curves = read_profile(profiles_dir, facts, gpu)
    most = min(most_gpus, facts.max_batch_size // tables.min_local_batch)
    speeds = np.zeros((2, facts.epochs, most + 1))
    speeds[:] = np.arange(most + 1.0)
    known = [_recall(tables, placement) for placement in sorted(placements)]
    if known:
        points, times_s = (np.concatenate(parts) for parts in zip(*((k.points, k.times_s) for k in known), strict=True))
        parameters = fit_goodput(*points.T, *times_s.T).parameters
        for kind, gpus_per_node in enumerate((_ANY_GPUS, 1)):
            model = GoodputSpeedup(
                parameters=parameters,
                gpus_per_node=gpus_per_node,
                init_batch_size=facts.init_batch_size,
                max_batch_size=facts.max_batch_size,
                min_local_batch_size=tables.min_local_batch,
                max_local_batch_size=tables.max_local_batch,
                gradients=curves.gradients,
            )
            speeds[kind, :, 1:] = model.goodput(np.arange(1, most + 1))[: facts.epochs]
    speeds[1, :, 1] = 0.0
    within, across = map(freeze, speeds)
    return within, across


def _recall(tables: ProfileTables, placement: tuple[int, ...]) -> Passes:
    """Return what was measured on a placement, or what is interpolated there."""
    gpus = sum(placement)
    placed = tables.placed(placement)
    rows = placed.look_up(gpus)[1]
    if rows is not None:
        return rows
    least, largest = placed.min_local_batch, placed.largest_local_batch(gpus)
    batches = np.unique(np.geomspace(least, largest, _INTERPOLATED_BATCHES).astype(np.int64))
    points = np.stack([np.full_like(batches, len(placement)), np.full_like(batches, gpus), batches], axis=1)
    passes = Passes(points, placed.interpolate(points))
    return passes.select(np.flatnonzero(np.isfinite(passes.times_s).all(axis=1)))
