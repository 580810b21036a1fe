"""Profiles a PyTorch module on the device at hand, as Srift needs it (section 4.1).

The largest batch that fits is searched, or given; forward and backward passes are timed at the paper's four batches
and two small ones; hooks tell when each layer's gradient is ready. A copy of the module is measured: the user's own
stays as it is.
"""

from __future__ import annotations

import copy
import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optplan.errors import DataError, DataWarning, MeasurementError, OptplanError, UsageError
from optplan.formulations.srift.data.profiles import DeviceProfile, JobProfile, Layers
from optplan.profiling.workloads import (
    HostClock,
    LayerWatch,
    Loss,
    TrainableLayer,
    Workload,
    call_module,
    list_layers,
    make_clock,
    make_workload,
    require_torch,
    run_user_code,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from optplan.schema import FloatArray

#: Parts of the largest batch at which passes are timed, beside the least one (4.1).
_PARTS = (1 / 3, 2 / 3, 1.0)
#: Powers of it that are timed, too: a GPU takes as long for a few samples as for one, which thirds do not show.
_POWERS = (1 / 3, 2 / 3)
#: Standard deviation of a normal distribution over the median of the absolute deviations from its median.
_DEVIATION_OF_SPREAD = 1.0 / statistics.NormalDist().inv_cdf(0.75)
#: Least number of repetitions whose deviation says anything.
_LEAST_REPETITIONS = 3
#: Threads of PyTorch at most: where the system has no room for more, it ends the process.
_MOST_THREADS = 1024


@dataclass(frozen=True)
class ProfilerSettings:
    """How carefully a module is profiled."""

    repetitions: int = 11  #: Timed passes at each batch; the median counts.
    warm_up: int = 3  #: Passes at each batch before those, not timed.
    attempts: int = 3  #: Rounds of repetitions, one after the other, as long as a larger batch seems to take less time.
    samples: int = 16  #: Backward passes that are watched for the layers' gradients.
    least_batch: int = 1  #: Samples of the smallest batch; 2 for networks that normalise over a batch.
    #: Whether times that still fall, by more than they scatter, after the last attempt are mended (isotonic regression,
    #: with a warning) or raised.
    mend_falls: bool = False
    threads: int | None = None  #: That PyTorch uses on the CPU; None: as many as it does now.
    clock: HostClock | None = None  #: Measures; None: the device's own.

    def __post_init__(self) -> None:
        """Refuse numbers that measure nothing."""
        least = {"repetitions": _LEAST_REPETITIONS, "warm_up": 0, "attempts": 1, "samples": 1, "least_batch": 1}
        for name, allowed in least.items():
            if getattr(self, name) < allowed:
                raise UsageError(f"{name}: got {getattr(self, name)}; whole numbers from {allowed} on are allowed")
        if self.threads is not None and not 1 <= self.threads <= _MOST_THREADS:
            needed = f"whole numbers from 1 to {_MOST_THREADS:,} are allowed, or none for PyTorch's own"
            message = f"threads: got {self.threads}; {needed}"
            raise UsageError(message)


def profile_module(
    module: nn.Module,
    batches: Any,  # noqa: ANN401 - a function, or inputs of any structure
    *,
    loss: Loss | None = None,
    device: str = "cpu",
    gpu: str | None = None,
    largest_batch: int | None = None,
    sampler: Callable[[], Any] | None = None,
    settings: ProfilerSettings | None = None,
) -> JobProfile:
    """Measure a network on a device.

    Parameters
    ----------
    module
        The network, in the mode in which it trains.
    batches
        A function from a number of samples to the module's inputs, or inputs whose samples are repeated; see
        :func:`~optplan.profiling.workloads.make_workload`.
    loss
        Makes a scalar of what the module returns; None: its own ``loss``, else the mean square of the outputs.
    device
        ``cpu``, ``cuda`` or ``cuda:N``.
    gpu
        What the profile calls this kind of device; None: its product name, or ``cpu``.
    largest_batch
        Samples that a device gets at most; None: as many as fit into its memory, found by trying. On a CPU, where
        memory gives no such limit, it has to be given.
    sampler
        Returns inputs as the training data gives them, for networks whose layers do not all run on every batch; None:
        ``batches`` at the largest size.
    settings
        How carefully.

    Returns
    -------
    JobProfile
        With one device. The optimiser's step is not part of it, nor is loading data. The deviation is that of the
        passes at the largest batch, from repetition to repetition; how VMs differ from one another is not in it.

    Raises
    ------
    DataError
        When the module, its inputs or the loss cannot be trained with, or a layer never gets a gradient.
    MeasurementError
        When a larger batch takes less time after all attempts, or times scatter by their own size.
    UsageError
        When the device is not known, or the largest batch is missing or not above the least one.
    MissingExtraError
        When PyTorch is not installed.
    """
    settings = settings or ProfilerSettings()
    clock = settings.clock or make_clock(device)
    workload = make_workload(copy.deepcopy(module), batches, loss).moved(device)
    layers = list_layers(workload.module)
    is_cpu = device.partition(":")[0] == "cpu"
    runner = _PassRunner(workload, clock, has_own_memory=not is_cpu)
    name = gpu or ("cpu" if is_cpu else str(require_torch().cuda.get_device_name(device)))
    with _threads(settings.threads):
        most = _find_largest_batch(runner, device, largest_batch, settings.least_batch)
        while (measured := _measure(runner, layers, most, sampler, settings)) is None:
            most -= max(1, most // 16)  # memory fragments once batches of several sizes have been there
        (times, mended), found = measured
        source = _describe(name, device, settings, mended=mended)
    return JobProfile(network=type(module).__name__, layers=found, devices={name: times}, source=source)


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Let PyTorch use so many threads while in this context."""
    torch = require_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(before if number is None else number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _PassRunner:
    """Runs the passes of a workload and times them."""

    def __init__(self, workload: Workload, clock: HostClock, *, has_own_memory: bool) -> None:
        self._workload = workload
        self.clock = clock
        self.has_own_memory = has_own_memory  #: Whether it is no CPU.

    def run(self, inputs: Any) -> tuple[int, int, int]:  # noqa: ANN401 - inputs of any structure
        """Run a forward and a backward pass; return the marks before, between and after them."""
        self._workload.module.zero_grad(set_to_none=True)
        self.clock.start()
        start = self.clock.mark()
        value = self._workload.loss(call_module(self._workload.module, inputs))
        middle = self.clock.mark()
        value.backward()
        end = self.clock.mark()
        self.clock.finish()
        return start, middle, end

    def time(self, batch: int) -> tuple[float, float]:
        """Return the seconds of a forward and a backward pass on so many samples."""
        start, middle, end = self.run(self.make_batch(batch))
        return self.seconds(start, middle), self.seconds(middle, end)

    def seconds(self, first: int, last: int) -> float:
        """Return the time of a pass between two marks."""
        taken = self.clock.seconds(first, last)
        if taken <= 0:
            raise MeasurementError("a pass took no time that the clock can tell; take a larger least_batch")
        return taken

    def try_batch(self, batch: int) -> bool:
        """Run the passes on so many samples; return whether the device's memory held them."""
        torch = require_torch()
        try:
            self.time(batch)
        except torch.OutOfMemoryError:
            fits = False
        except OptplanError:
            raise
        except Exception as error:
            problem = f"fails on a batch of {batch}: {type(error).__name__}: {error}"
            fix = "check the inputs and the loss; a network that normalises over a batch needs least_batch=2"
            raise DataError("module", problem, fix) from error
        else:
            return True
        self.clear()
        return fits

    def warm_up(self, batch: int, times: int) -> None:
        """Run passes that are not counted."""
        for _ in range(times):
            self.time(batch)

    def make_batch(self, batch: int) -> Any:  # noqa: ANN401 - inputs of any structure
        """Return inputs of so many samples."""
        return self._workload.make_batch(batch)

    def clear(self) -> None:
        """Let go of the device's memory."""
        self._workload.module.zero_grad(set_to_none=True)
        if (torch := require_torch()).cuda.is_available():
            torch.cuda.empty_cache()


def _measure(
    runner: _PassRunner,
    layers: list[TrainableLayer],
    most: int,
    sampler: Callable[[], Any] | None,
    settings: ProfilerSettings,
) -> tuple[tuple[DeviceProfile, bool], Layers] | None:
    """Measure up to a batch that fitted by itself; None where the memory does not hold it any more."""
    least = settings.least_batch
    between = (*(part * most for part in _PARTS), *(most**power for power in _POWERS))
    try:
        passes = _time_passes(runner, sorted({least, *(max(least, round(batch)) for batch in between)}), settings)
        return passes, _watch_layers(runner, layers, sampler or (lambda: runner.make_batch(most)), settings.samples)
    except require_torch().OutOfMemoryError:
        if most == least:
            raise
    runner.clear()
    return None


def _find_largest_batch(runner: _PassRunner, device: str, most: int | None, least: int) -> int:
    """Find the largest batch that fits, by doubling and then halving the interval; ``most`` ends it."""
    if most is None and device.partition(":")[0] == "cpu":
        message = "largest_batch: is needed on a CPU, whose memory gives no clear limit; give as many samples as a"
        raise UsageError(f"{message} device is to get at most")
    if most is not None and most < least:
        raise UsageError(f"largest_batch: got {most}, less than the smallest batch to measure, {least}")
    if not runner.try_batch(least):
        problem = f"a batch of {least} does not fit into the memory of {device}"
        raise DataError("module", problem, "take a device with more memory, or a smaller network")
    if most is not None and runner.try_batch(most):
        return most
    fits, fails = least, most
    while fails is None:
        if runner.try_batch(2 * fits):
            fits *= 2
        else:
            fails = 2 * fits
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if runner.try_batch(middle):
            fits = middle
        else:
            fails = middle
    return fits


def _time_passes(runner: _PassRunner, batches: list[int], settings: ProfilerSettings) -> tuple[DeviceProfile, bool]:
    """Time forward and backward passes at each batch until the medians do not fall; say whether they were mended."""
    passes: dict[int, list[tuple[float, float]]] = {batch: [] for batch in batches}
    # In turns, so that a slow moment of the machine meets all batches alike; but batches of several sizes would have a
    # GPU's memory allocated anew in every turn, and the largest would not fit.
    turns, repeats = (1, settings.repetitions) if runner.has_own_memory else (settings.repetitions, 1)
    for batch in () if runner.has_own_memory else batches:
        runner.warm_up(batch, settings.warm_up)
    medians = spreads = np.empty((len(batches), 2))
    for _ in range(settings.attempts):
        for _ in range(turns):
            for batch in batches:
                if runner.has_own_memory:
                    runner.clear()
                    runner.warm_up(batch, settings.warm_up)
                passes[batch] += [runner.time(batch) for _ in range(repeats)]
        medians = np.array([np.median(passes[batch], axis=0) for batch in batches])
        off = (np.abs(passes[batch] - median) for batch, median in zip(batches, medians, strict=True))
        spreads = np.array([np.median(each, axis=0) for each in off])
        if not _find_falls(medians, spreads).any():
            break
    forward, backward = (
        _require_rise(name, batches, medians[:, column], spreads[:, column], mend=settings.mend_falls)
        for column, name in enumerate(("forward", "backward"))
    )
    deviation = _relative_deviation([sum(each) for each in passes[batches[-1]]])
    measured = np.array(batches, dtype=np.int64)
    mended = not np.array_equal(medians, np.column_stack([forward, backward]))
    return DeviceProfile(batches=measured, forward_s=forward, backward_s=backward, deviation=deviation), mended


def _find_falls(seconds: FloatArray, spreads: FloatArray) -> NDArray[np.bool_]:
    """Return where a larger batch takes less time than a smaller one by more than their passes scatter."""
    return np.asarray(-np.diff(seconds, axis=0) > _DEVIATION_OF_SPREAD * np.maximum(spreads[1:], spreads[:-1]))


def _require_rise(name: str, batches: list[int], seconds: FloatArray, spreads: FloatArray, *, mend: bool) -> FloatArray:
    """Return times that never fall, levelled where they scatter, or say which do."""
    falls = np.flatnonzero(_find_falls(seconds, spreads))
    if falls.size:
        first = int(falls[0])
        message = (
            f"{name} pass: the median falls from {seconds[first]:.3g} s at a batch of {batches[first]} to "
            f"{seconds[first + 1]:.3g} s at {batches[first + 1]}"
        )
        if not mend:
            fix = (
                "measure on an idle machine, more often, or to a larger batch; --mend-falls (mend_falls=True) levels it"
            )
            raise MeasurementError(f"{message}; {fix}")
        warnings.warn(f"{message}; levelled by isotonic regression", DataWarning, stacklevel=2)
    if (np.diff(seconds) >= 0).all():
        return seconds
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(seconds).x, dtype=np.float64)


def _relative_deviation(seconds: list[float]) -> float:
    """Return the deviation over the mean of normal passes with the same median and spread, which no hiccup moves."""
    median = statistics.median(seconds)
    spread = statistics.median(abs(each - median) for each in seconds)
    deviation = _DEVIATION_OF_SPREAD * spread / median if median else 0.0
    if deviation >= 1:
        message = f"passes at the largest batch scatter by {deviation:.0%} of their median"
        raise MeasurementError(f"{message}; measure on an idle machine, with more warm_up and repetitions")
    return deviation


def _watch_layers(
    runner: _PassRunner,
    layers: list[TrainableLayer],
    inputs: Callable[[], Any],
    samples: int,
) -> Layers:
    """Find when gradients are ready, in shares of the backward pass, and how often layers run."""
    watch = LayerWatch(layers, runner.clock)
    shares: list[list[float]] = [[] for _ in layers]
    with watch.attached():
        for _ in range(samples):
            _, middle, end = runner.run(run_user_code("sampler", inputs))
            whole = runner.seconds(middle, end)
            for index, mark in watch.take_marks().items():
                shares[index].append(runner.clock.seconds(middle, mark) / whole)
    for layer, found in zip(layers, shares, strict=True):
        if not found:
            problem = f"gets no gradient in any of {samples} backward passes"
            fix = "freeze it with requires_grad_(False), or watch more batches of the training data (sampler, samples)"
            raise DataError(f"module.{layer.name}", problem, fix)
    ready = np.array([statistics.median(found) for found in shares])
    # Of two that are ready at once the later layer comes first, as in a backward pass.
    order = sorted(range(len(layers)), key=lambda index: (ready[index], -index))
    probability = np.array([len(shares[index]) / samples for index in order])
    return Layers(
        gradient_bytes=np.array([float(layers[index].gradient_bytes) for index in order]),
        ready=ready[order],
        probability=probability if probability.min() < 1 else None,
        names=tuple(layers[index].name for index in order),
    )


def _describe(name: str, device: str, settings: ProfilerSettings, *, mended: bool) -> str:
    torch = require_torch()
    threads = f" ({torch.get_num_threads()} of its threads)" if device.partition(":")[0] == "cpu" else ""
    how = f"medians of {settings.repetitions} passes{', falls levelled' if mended else ''}, {settings.samples} watched"
    return f"measured with PyTorch {torch.__version__} on {name}{threads}; {how}"
