"""Clocks for work on a device, and when each layer's gradient is ready in a backward pass, by PyTorch's hooks (4.1).

A layer is a module that has trainable parameters of its own. Its gradient is ready when that of its last parameter is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from optplan.errors import DataError, UsageError
from optplan.profiling.workloads import require_torch

if TYPE_CHECKING:
    from torch import Tensor, nn


class HostClock:
    """Marks moments by the host's clock, or other seconds: for work that is done when its call returns."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._marks: list[Any] = []

    def start(self) -> None:
        """Forget the marks, and wait until the device is idle."""
        self._marks.clear()
        self.finish()

    def mark(self) -> int:
        """Mark the moment at which the device has done what was asked of it so far; return the mark's number."""
        self._marks.append(self._look())
        return len(self._marks) - 1

    def finish(self) -> None:
        """Wait until every mark is reached: here it is when it is made."""

    def seconds(self, first: int, last: int) -> float:
        """Return the time from one mark to another."""
        return float(self._marks[last] - self._marks[first])

    def _look(self) -> Any:  # noqa: ANN401 - seconds, or an event
        return self._now()


class CudaClock(HostClock):
    """Marks in the stream of work of a CUDA device, which runs behind the host."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = device

    def finish(self) -> None:
        """Wait until the device is idle."""
        require_torch().cuda.synchronize(self._device)

    def seconds(self, first: int, last: int) -> float:
        """Return the time from one mark to another."""
        return float(self._marks[first].elapsed_time(self._marks[last])) / 1000.0

    def _look(self) -> Any:  # noqa: ANN401 - an event of PyTorch
        event = require_torch().cuda.Event(enable_timing=True)
        event.record()
        return event


def make_clock(device: str) -> HostClock:
    """Return the clock of a device."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return HostClock()
    if kind != "cuda":
        raise UsageError(f"device: got {device!r}; cpu, cuda and cuda:N can be measured")
    if not require_torch().cuda.is_available():
        message = f"device: got {device!r}, but PyTorch finds no CUDA device here; use cpu, or install drivers and CUDA"
        raise UsageError(message)
    return CudaClock(device)


@dataclass(frozen=True)
class TrainableLayer:
    """A layer whose gradient workers exchange; parameters that several layers share belong to the first of them."""

    name: str
    parameters: tuple[Tensor, ...]

    @property
    def gradient_bytes(self) -> int:
        """Size of the gradient, which has the parameters' own type of number."""
        return sum(parameter.numel() * parameter.element_size() for parameter in self.parameters)


def list_layers(module: nn.Module) -> list[TrainableLayer]:
    """List the layers of a network in the order in which it names them."""
    taken: set[int] = set()
    layers = []
    for name, owner in module.named_modules():
        own = [each for each in owner.parameters(recurse=False) if each.requires_grad and id(each) not in taken]
        taken.update(map(id, own))
        if own:
            layers.append(TrainableLayer(name or type(module).__name__, tuple(own)))
    if not layers:
        problem = f"{type(module).__name__} has no parameter that requires a gradient"
        raise DataError("module", problem, "nothing would be exchanged; call requires_grad_(True) on what is trained")
    return layers


class LayerWatch:
    """Marks on a clock the moments at which layers' gradients are ready."""

    def __init__(self, layers: list[TrainableLayer], clock: HostClock) -> None:
        self._layers = layers
        self._clock = clock
        self._marks: dict[int, int] = {}

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Watch backward passes while in this context."""
        hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._note, index))
            for index, layer in enumerate(self._layers)
            for parameter in layer.parameters
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def take_marks(self) -> dict[int, int]:
        """Return the mark of each layer that got a gradient since the last call, by the layer's position."""
        marks, self._marks = self._marks, {}
        return marks

    def _note(self, index: int, parameter: Tensor) -> None:
        if parameter.grad is not None and parameter.grad.is_sparse:
            problem = "has a sparse gradient, which is not exchanged by an all-reduce"
            raise DataError(f"module.{self._layers[index].name}", problem, "make it dense, as with sparse=False")
        self._marks[index] = self._clock.mark()  # the last of a layer's parameters overwrites the others
