"""Random numbers of the sampled simulator: streams that do not depend on the plan, and sums of many draws.

Every random quantity is a transformed uniform number. The uniforms of a quantity come from a stream of its own, named
by what the quantity is (which bracket, stage and component) and never by how many GPUs it gets, so that all plans of an
instance meet the same luck and the differences between them are tight (common random numbers).

A trial's iterations are drawn as one sum:

* of a constant, or of a normal distribution whose part below zero is out of sight: in closed form;
* of few iterations (at most :data:`FEW`): one draw each, added up;
* of more: by the quantile function of the sum, of :mod:`optplan.formulations.rubberband.laws.convolutions`; one draw
  per trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from optplan.formulations.rubberband.data.distributions import Distribution, NormalDistribution
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.laws.convolutions import add_laws
from optplan.formulations.rubberband.laws.execution import StageRun
from optplan.schema import FloatArray

#: Sums of at most this many draws are added up one by one.
FEW = 8
#: Grid points of a tabulated sum, relative to those that integrals need: samples show the jumps of measured values.
_FINER = 16
#: Instances whose initialisations share a stream: how many are added must not matter to those before them.
_BLOCK = 32
#: Least uniform number that is drawn; the generator's own least one is zero, where quantiles may be infinite.
_LEAST = 2.0**-53


def open_stream(seed: int, *name: int) -> np.random.Generator:
    """Open the stream of a quantity, which the numbers name; it is independent of all others."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=name)))


def draw_uniforms(stream: np.random.Generator, *shape: int) -> FloatArray:
    """Draw the next uniform numbers, above 0 and below 1, row by row: how they are cut into calls changes nothing."""
    return np.maximum(stream.random(shape), _LEAST)


#: Draws seconds (samples, columns) from a stream; (1, columns) of a constant, for which nothing is drawn.
Draw = Callable[[np.random.Generator, int, int], FloatArray]


def draw_sum(distribution: Distribution, count: int) -> Draw:
    """Choose how the sum of so many independent draws is drawn, of one at least; see the module's text."""
    mean_s, deviation_s = count * distribution.expected_s, math.sqrt(count) * distribution.deviation_s
    if distribution.is_constant:
        return lambda _, __, columns: np.full((1, columns), mean_s)
    if distribution.is_normal:
        quantile: Callable[[FloatArray], FloatArray] = NormalDistribution(mean_s=mean_s, sd_s=deviation_s).quantile
    elif count <= FEW:
        single = distribution.quantile
        return lambda stream, *shape: np.asarray(single(draw_uniforms(stream, *shape, count)).sum(axis=2))
    else:
        quantile = _tabulate_sum(distribution, count)
    return lambda stream, *shape: quantile(draw_uniforms(stream, *shape))


@lru_cache(maxsize=256)
def _tabulate_sum(distribution: Distribution, count: int) -> Callable[[FloatArray], FloatArray]:
    """Tabulate the quantile function of the sum of many draws, linear between the midpoints of its grid."""
    law = add_laws([(distribution, count)], finer=_FINER)
    upper_edges_s = law.values_s + law.step_s / 2.0
    return lambda uniforms: np.interp(uniforms, law.cumulative, upper_edges_s)


@dataclass(frozen=True)
class StageLatencies:
    """Sampled seconds of a stage's tasks, by samples (N,), or 1 where nothing is random, and tasks of the kind.

    SCALE is there only in stages that add instances.
    """

    scale_s: FloatArray
    initialise_s: FloatArray
    train_s: FloatArray


class StageSource:
    """The latencies of one stage's tasks, in as many goes as one likes.

    What is drawn for a trial or an instance depends on the seed, the bracket, the stage and its number there; not on
    the plan, nor on the size of the goes.
    """

    def __init__(self, instance: RubberBandInstance, run: StageRun, bracket: int, seed: int) -> None:
        def component(number: int, block: int = 0) -> np.random.Generator:
            return open_stream(seed, bracket, run.stage, number, block)

        training, cloud, mean_s = instance.training, instance.cloud, run.seconds_per_iteration
        self._run = run
        self._planned_s = run.iterations * mean_s
        self._start = draw_sum(training.start(run.gpus_per_trial), 1)
        self._iterations = draw_sum(training.iteration(mean_s), run.iterations)
        self._pace = draw_sum(training.pace(mean_s), 1)
        self._provision = draw_sum(cloud.provision_s, 1)
        self._initialise = draw_sum(cloud.initialise_s, 1)
        self._trial_streams = [component(number) for number in range(3)]
        self._cluster_stream = component(3)
        self._instance_streams = [component(4, block) for block in range(-(-run.added // _BLOCK))]

    def draw(self, samples: int) -> StageLatencies:
        """Draw the next samples."""
        run, (starts, iterations, paces) = self._run, self._trial_streams
        pace_s = run.iterations * self._pace(paces, samples, run.trials)
        train_s = self._iterations(iterations, samples, run.trials) + (pace_s - self._planned_s)
        added = [self._initialise(stream, samples, _BLOCK) for stream in self._instance_streams]
        return StageLatencies(
            scale_s=self._provision(self._cluster_stream, samples, 1),
            initialise_s=np.concatenate(added, axis=1)[:, : run.added] if added else np.zeros((1, 0)),
            train_s=self._start(starts, samples, run.trials) + np.maximum(train_s, 0.0),
        )


#: What stages drew, by bracket and all of a stage's run that matters to it.
Drawn = dict[tuple[float, ...], StageLatencies]


def draw_stage(
    instance: RubberBandInstance, run: StageRun, bracket: int, seed: int, samples: int, drawn: Drawn
) -> StageLatencies:
    """Draw the first samples of one stage, or find them among those drawn for other plans."""
    amount = (run.trials, run.iterations, run.gpus_per_trial, run.seconds_per_iteration, run.added)
    key = (bracket, run.stage, *amount)
    if key not in drawn:
        drawn[key] = StageSource(instance, run, bracket, seed).draw(samples)
    return drawn[key]


def count_numbers(run: StageRun) -> int:
    """Count the random numbers of one sample of a stage, at most."""
    return max(run.trials * min(run.iterations, FEW), run.added, 1)
