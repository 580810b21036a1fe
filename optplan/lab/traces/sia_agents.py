"""What agents of Pollux know: each job fits the model of :mod:`optplan.speedup.goodput` to what it has run on.

AdaptDL's agents believe the model everywhere else. By :func:`fit_speeds` a job that has run on a placement knows all
that was measured there; a placement that was not measured counts as it is interpolated. An :class:`Agent` also chooses
its batch: a pass over a local batch on some GPUs of some nodes is remembered when it was run, gradient statistics are
those of the batch that ran last, the batch is the best one by the model, and the job runs at the measured speed of it.
That is what a job does in the simulators published with Pollux and with Sia (siasosp23/artifacts, ``sia-simulator``:
``job.py``, ``update_local_bsz`` and ``update_params``).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from optplan.lab.traces.goodput_fitting import fit_goodput
from optplan.lab.traces.sia import Profile
from optplan.lab.traces.sia_profiles import Passes, ProfileTables, placement_of
from optplan.schema import FloatArray, freeze
from optplan.speedup.goodput import Batches, GoodputSpeedup, ThroughputParameters, statistical_gain

#: Local batches at which a placement that was not measured counts.
_INTERPOLATED_BATCHES = 8
#: Fits and measurements that are kept, of all jobs.
_KEPT = 1 << 16
#: Nodes of this size hold any job.
_ANY_GPUS = 1_000_000


@lru_cache(maxsize=_KEPT)
def fit_speeds(profile: Profile, placements: frozenset[tuple[int, ...]], most_gpus: int) -> FloatArray:
    """Fit the model to placements; return (2, epochs, K + 1) speeds on one node and on several; linear without any."""
    facts, tables = profile.application, profile.tables
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
                gradients=profile.curves.gradients,
            )
            speeds[kind, :, 1:] = model.goodput(np.arange(1, most + 1))[: facts.epochs]
    speeds[1, :, 1] = 0.0
    return freeze(speeds)


def _recall(tables: ProfileTables, placement: tuple[int, ...]) -> Passes:
    """Return what was measured on a placement, or what is interpolated there."""
    gpus, placed = sum(placement), placement_of(placement)
    rows = tables.look_up(placed)[1]
    if rows is not None:
        return rows
    least, largest = tables.min_local_batch, tables.largest_local_batch(placed)
    batches = np.unique(np.geomspace(least, largest, _INTERPOLATED_BATCHES).astype(np.int64))
    points = np.stack([np.full_like(batches, len(placement)), np.full_like(batches, gpus), batches], axis=1)
    passes = Passes(points, tables.interpolate(points))
    return passes.select(np.flatnonzero(np.isfinite(passes.times_s).all(axis=1)))


#: A pass: nodes, GPUs and local batch, and the seconds of it with synchronisation and of synchronising.
_Pass = tuple[int, int, int, float, float]


class Agent:
    """What one job knows of itself; measured times are multiplied by ``slowdown``."""

    def __init__(self, profile: Profile, *, slowdown: float = 1.0) -> None:
        self._profile, self._slowdown = profile, slowdown
        self._seen: dict[tuple[int, int, int], _Pass] = {}
        self._parameters: ThroughputParameters | None = None
        self._noise = (0.0, 0.0)
        # Passes before the one that synchronises, and samples per GPU in each.
        self._accumulated, self._local = 0, 0
        self._believed: dict[int, FloatArray] = {}

    def choose_batch(self, spread: tuple[int, ...], epoch: int) -> float:
        """Choose the best batch by the model, or the least while nothing is known; return an epoch's seconds."""
        nodes, gpus = np.array(len(spread)), sum(spread)
        batches = _split(self._profile, spread, adapts=self._parameters is not None)
        best = 0
        if self._parameters is not None:
            time_s = self._parameters.iteration_time_s(nodes, np.array(gpus), batches.local_batch, batches.accumulated)
            best = int(self._speed(batches, time_s).argmax())
        self._local, self._accumulated = int(batches.local_batch[best, 0]), int(batches.accumulated[best, 0])
        step_s, sync_s = _measure(self._profile, spread, self._local)
        sqr, var = map(np.array, self._gradients(spread, epoch))
        gain = statistical_gain(
            sqr, var, np.array(self._batch_size(spread) / self._profile.application.init_batch_size)
        )
        curve = self._profile.curves.progress
        progress = float(curve[epoch + 1] - curve[epoch])
        return progress * (step_s + self._accumulated * (step_s - sync_s)) / float(gain) * self._slowdown

    def learn(self, spread: tuple[int, ...], epoch: int) -> None:
        """Remember what the job has just run: the pass at the batch that was chosen last, and its gradients."""
        noise = self._gradients(spread, epoch)
        key = (len(spread), sum(spread), self._local)
        if key in self._seen and noise == self._noise:
            return
        self._noise = noise
        self._believed.clear()
        if key not in self._seen:
            self._seen[key] = (*key, *_measure(self._profile, spread, self._local))
            self._parameters = _fit(tuple(sorted(self._seen.values())))

    def believe(self, most_gpus: int) -> FloatArray:
        """Return the progress a second that it expects on 0 to K GPUs of one node, and of several; linear at first."""
        if most_gpus not in self._believed:
            most = min(most_gpus, self._profile.application.max_batch_size // self._profile.tables.min_local_batch)
            speeds = np.tile(np.arange(most + 1.0), (2, 1))
            if self._parameters is not None:
                gpus = np.arange(1, most + 1)
                batches = _split_all(self._profile, most)
                for row, nodes in zip(speeds, (1, 2), strict=True):
                    time_s = self._parameters.iteration_time_s(
                        np.array(nodes), gpus, batches.local_batch, batches.accumulated
                    )
                    row[1:] = self._speed(batches, time_s).max(axis=0)
            speeds[1, :2] = 0.0
            self._believed[most_gpus] = speeds
        return self._believed[most_gpus]

    def _speed(self, batches: Batches, time_s: FloatArray) -> FloatArray:
        gain = statistical_gain(
            np.array(self._noise[0]),
            np.array(self._noise[1]),
            batches.batch_size / self._profile.application.init_batch_size,
        )
        return np.where(batches.feasible, gain / time_s, 0.0)

    def _batch_size(self, spread: tuple[int, ...]) -> int:
        return sum(spread) * self._local * (self._accumulated + 1)

    def _gradients(self, spread: tuple[int, ...], epoch: int) -> tuple[float, float]:
        """Return squared norm and variance at the present batch, linear between the batches that were measured."""
        table, size = self._profile.curves.gradients, self._batch_size(spread)
        rows = (table.grad_sqr[epoch], table.grad_var[epoch])
        sqr, var = (float(np.interp(size, table.batch_sizes, row)) for row in rows)
        return sqr, var


@lru_cache(maxsize=_KEPT)
def _fit(passes: tuple[_Pass, ...]) -> ThroughputParameters:
    """Fit the model to passes; jobs that have seen the same share it."""
    return fit_goodput(*np.array(passes).T, thorough=False).parameters


@lru_cache(maxsize=_KEPT)
def _split(profile: Profile, spread: tuple[int, ...], *, adapts: bool) -> Batches:
    """Return what may run on some GPUs; the least batch alone where nothing adapts."""
    rule, gpus = profile.batch_rule, sum(spread)
    largest = np.array([profile.tables.largest_local_batch(placement_of(spread))])
    least = None if adapts else max(rule.init_batch_size, rule.min_local_batch_size * gpus)
    return rule.split(np.array([gpus]), largest_local=largest, fixed_batch_size=least)


@lru_cache(maxsize=_KEPT)
def _split_all(profile: Profile, most_gpus: int) -> Batches:
    return profile.batch_rule.split(np.arange(1, most_gpus + 1))


@lru_cache(maxsize=_KEPT)
def _measure(profile: Profile, spread: tuple[int, ...], local_batch: int) -> tuple[float, float]:
    """Return the seconds of a pass, and of its synchronisation: measured, interpolated as Sia does, or modelled."""
    nodes, gpus = len(spread), sum(spread)
    rows = profile.tables.look_up(placement_of(spread))[1]
    if rows is not None:
        step_s, sync_s = (float(np.interp(local_batch, rows.points[:, 2], column)) for column in rows.times_s.T)
        return step_s, sync_s
    step_s, sync_s = profile.tables.interpolate(np.array([[nodes, gpus, local_batch]]))[0].tolist()
    if np.isfinite(step_s):
        return step_s, sync_s
    model, local = profile.fit.parameters, np.array(local_batch)
    step_s = float(model.iteration_time_s(np.array(nodes), np.array(gpus), local))
    return step_s, step_s - float(model.pass_time_s(local))
