"""The sampled simulator: many executions of a plan at once, with their completion times and costs.

The graph of :mod:`optplan.formulations.rubberband.laws.lifetimes` has the same shape in every stage (grow, train in
chains, meet at the barrier), so the critical paths of all samples (the paper's Algorithm 1) are a few array operations
for each stage, without the graph. Costs come from the same arrays: what is held until each barrier where instances are
billed, or who was busy where functions are (section 4.2).

Every random quantity is a transformed uniform number. The uniforms of a quantity come from a stream of its own, named
by what the quantity is (which bracket, stage and component) and never by how many GPUs it gets, so that all plans of an
instance meet the same luck and the differences between them are tight (common random numbers). A trial's iterations are
drawn as one sum:

* of a constant, or of a normal distribution whose part below zero is out of sight: in closed form;
* of few iterations (at most :data:`FEW`): one draw each, added up;
* of more: by the quantile function of the sum, of :mod:`optplan.formulations.rubberband.laws.convolutions`; one draw
  per trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from optplan.errors import UsageError, nearest_name_hint, show_value
from optplan.formulations.rubberband.data.cloud import Cloud
from optplan.formulations.rubberband.data.distributions import Distribution, NormalDistribution
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.laws.convolutions import add_laws
from optplan.formulations.rubberband.laws.lifetimes import StageRun, group_held, list_runs
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
    """Sampled seconds of a stage's tasks, by samples (N,), or 1 of constants; SCALE only where a stage grows."""

    scale_s: FloatArray
    initialise_s: FloatArray
    train_s: FloatArray


class StageSource:
    """The latencies of one stage's tasks, by seed, bracket, stage and number there: not by the plan."""

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


#: Random numbers that are held at a time, about; memory is a few times as many floats.
_CHUNK = 2**19
#: Standard errors from a mean to either end of its interval.
_REACH = 1.959963984540054


class Queue(StrEnum):
    """What trials do that find no free GPUs."""

    #: Each waits for one trial that is fixed beforehand, as in the paper's simulator.
    CHAINS = "chains"
    #: They form one line; whichever trial ends first frees its GPUs for the next, as in the paper's executor.
    DYNAMIC = "dynamic"


@dataclass(frozen=True)
class Estimate:
    """A sampled figure and its 95 % confidence interval; the standard error is NaN where there is one sample only."""

    value: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Samples:
    """What happened in N sampled executions of a plan; row i is execution i in all arrays."""

    completion_s: FloatArray  #: (N,) seconds until the last barrier of the slowest bracket.
    cost_usd: FloatArray  #: (N,) price of everything.
    stage_s: tuple[FloatArray, ...]  #: By bracket: (N, S) seconds from barrier to barrier.
    #: By bracket: (N, S) seconds of these in which the cluster grew and no trial trained.
    growth_s: tuple[FloatArray, ...]
    busy_gpu_s: FloatArray  #: (N,) GPU-seconds in which trials had GPUs.
    #: (N,) GPU-seconds of all instances, from the start of their initialisation until their release.
    held_gpu_s: FloatArray

    @property
    def size(self) -> int:
        """How many executions."""
        return self.completion_s.size

    def mean_s(self) -> Estimate:
        """Estimate the expected completion time, seconds."""
        return estimate_mean(self.completion_s)

    def mean_usd(self) -> Estimate:
        """Estimate the expected cost, US dollars."""
        return estimate_mean(self.cost_usd)


def estimate_mean(values: FloatArray) -> Estimate:
    """Estimate a mean from independent samples (N,), or from paired differences which of two plans is better."""
    mean = float(values.mean())
    if values.size < 2:
        return Estimate(mean, math.nan, -math.inf, math.inf)
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return Estimate(mean, error, mean - _REACH * error, mean + _REACH * error)


def sample_plan(
    instance: RubberBandInstance,
    solution: RubberBandSolution,
    *,
    samples: int = 10_000,
    seed: int = 0,
    queue: Queue | str = Queue.CHAINS,
    drawn: Drawn | None = None,
) -> Samples:
    """Sample executions of a plan.

    Plans that are sampled with one seed meet the same luck, so their differences, sample by sample, say more than their
    means. More samples begin with the same ones.

    Parameters
    ----------
    instance
        The problem.
    solution
        GPUs and instances of each stage.
    samples
        How many executions.
    seed
        Of the random numbers, not below zero.
    queue
        What trials do that find no free GPUs.
    drawn
        Given with all plans of a cloud and a training, samples and seed being the same: what they share is drawn once.

    Raises
    ------
    UsageError
        When ``samples``, ``seed`` or ``queue`` is not allowed.
    DataError
        When the solution has other stages than the experiment.
    """
    _require_whole("samples", samples, least=1)
    _require_whole("seed", seed, least=0)
    if queue not in list(Queue):
        message = f"queue: got {show_value(queue)}; {nearest_name_hint(str(queue), [known.value for known in Queue])}"
        raise UsageError(message)
    sampled = [
        _sample_bracket(instance, solution, bracket, samples, seed, Queue(queue), {} if drawn is None else drawn)
        for bracket in range(len(solution.brackets))
    ]
    totals = ("cost_usd", "busy_gpu_s", "held_gpu_s")
    return Samples(
        completion_s=np.max([each["stage_s"].sum(axis=1) for each in sampled], axis=0),
        stage_s=tuple(each["stage_s"] for each in sampled),
        growth_s=tuple(each["growth_s"] for each in sampled),
        **{name: np.sum([each[name] for each in sampled], axis=0) for name in totals},
    )


def _require_whole(option: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{option}: got {show_value(value)}; a whole number from {least} on is needed")


def _sample_bracket(
    instance: RubberBandInstance,
    solution: RubberBandSolution,
    bracket: int,
    samples: int,
    seed: int,
    queue: Queue,
    drawn: Drawn,
) -> dict[str, FloatArray]:
    """Sample what :class:`Samples` says of one bracket; in chunks, so that memory does not grow with all trials."""
    runs = list_runs(instance, solution, bracket)
    chunk = max(1, _CHUNK // max(max(run.trials * min(run.iterations, FEW), run.added, 1) for run in runs))
    if samples <= chunk:
        latencies = [draw_stage(instance, run, bracket, seed, samples, drawn) for run in runs]
        return _execute(instance.cloud, runs, latencies, samples, queue)
    sources = [StageSource(instance, run, bracket, seed) for run in runs]
    chunks = []
    for first in range(0, samples, chunk):
        size = min(chunk, samples - first)
        chunks.append(_execute(instance.cloud, runs, [source.draw(size) for source in sources], size, queue))
    return {name: np.concatenate([each[name] for each in chunks]) for name in chunks[0]}


def _execute(
    cloud: Cloud, runs: Sequence[StageRun], latencies: Sequence[StageLatencies], size: int, queue: Queue
) -> dict[str, FloatArray]:
    scale_s, growth_s, stage_s = (np.zeros((size, len(runs))) for _ in range(3))
    busy_gpu_s = np.zeros(size)
    for run, latency in zip(runs, latencies, strict=True):
        if run.added:
            scale_s[:, run.stage] = latency.scale_s[:, 0]
            growth_s[:, run.stage] = scale_s[:, run.stage] + latency.initialise_s.max(axis=1)
        stage_s[:, run.stage] = growth_s[:, run.stage] + run_trials(latency.train_s, run.slots, queue)
        busy_gpu_s += run.gpus_per_trial * latency.train_s.sum(axis=1)
    held_s, charged_s = np.zeros(size), np.zeros(size)
    for cohort in group_held([run.held for run in runs]):
        life_s = stage_s[:, cohort.first : cohort.last + 1].sum(axis=1) - scale_s[:, cohort.first]
        held_s += cohort.count * life_s
        charged_s += cohort.count * np.maximum(life_s, cloud.minimum_charge_s)
    compute_usd = cloud.price_usd_per_s * charged_s if cloud.is_per_instance else cloud.gpu_price_usd_per_s * busy_gpu_s
    return {
        "cost_usd": compute_usd + cloud.data_usd_per_instance * sum(run.added for run in runs),
        "stage_s": stage_s,
        "growth_s": growth_s,
        "busy_gpu_s": busy_gpu_s,
        "held_gpu_s": cloud.gpus_per_instance * held_s,
    }


def run_trials(train_s: FloatArray, slots: int, queue: Queue) -> FloatArray:
    """Return when a stage's last trial ends, (N,); trial i waits for i - ``slots``, or for the next that ends."""
    ends_s = train_s[:, :slots].copy()
    if queue is Queue.CHAINS:
        for first in range(slots, train_s.shape[1], slots):
            wave_s = train_s[:, first : first + slots]
            ends_s[:, : wave_s.shape[1]] += wave_s
    else:
        rows = np.arange(ends_s.shape[0])
        for trial in range(slots, train_s.shape[1]):
            ends_s[rows, ends_s.argmin(axis=1)] += train_s[:, trial]
    latest_s: FloatArray = ends_s.max(axis=1)
    return latest_s
