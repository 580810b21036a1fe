"""What is measured: a PyTorch module, batches for it, the loss whose gradients workers exchange, layers, on a clock.

A layer is a module that has trainable parameters of its own. Its gradient is ready when that of its last parameter is;
hooks that PyTorch calls tell when (section 4.1).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from optplan.errors import DataError, MissingExtraError, OptplanError, UsageError, show_value
from optplan.execution.trainables import import_trainable

if TYPE_CHECKING:
    from torch import Tensor, nn

#: Makes the inputs of a forward pass for so many samples: a tensor, a tuple of arguments, or a mapping of named ones.
BatchMaker = Callable[[int], Any]
#: Makes a scalar of what the module returns.
Loss = Callable[[Any], "Tensor"]

_EXAMPLE = "as in train.py:make_network or mypackage.networks:make_network"
_RETURNS = (
    "it has to return (module, batches) or (module, batches, loss), where batches is a function from a number of "
    "samples to the module's inputs, or inputs to repeat"
)


def require_torch() -> ModuleType:
    """Return PyTorch."""
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingExtraError("torch", "torch") from None
    found: ModuleType = torch
    return found


@dataclass(frozen=True)
class Workload:
    """One training job as PyTorch runs it; ``make_batch`` returns inputs for a number of samples."""

    module: nn.Module
    make_batch: BatchMaker
    loss: Loss

    def moved(self, device: str) -> Workload:
        """Return the workload with the module on a device, and batches that are made there."""

        def make_batch(batch: int) -> Any:  # noqa: ANN401 - inputs of any structure
            return map_tensors(self.make_batch(batch), lambda tensor: tensor.to(device))

        return Workload(self.module.to(device), make_batch, self.loss)


def make_workload(module: nn.Module, batches: Any, loss: Loss | None = None) -> Workload:  # noqa: ANN401 - inputs
    """Make a workload of a module, its batches (a function of a number of samples, or inputs to repeat) and a loss."""
    torch = require_torch()
    if not isinstance(module, torch.nn.Module):
        raise DataError("module", f"got {show_value(module)}", "a torch.nn.Module is needed")
    if loss is not None and not callable(loss):
        raise DataError("loss", f"got {show_value(loss)}", "a function of what the module returns is needed")
    make_batch = batches if callable(batches) else repeat_sample(batches)
    return Workload(module, make_batch, mean_square if loss is None else loss)


def repeat_sample(sample: Any) -> BatchMaker:  # noqa: ANN401 - inputs of any structure
    """Make a function that repeats the samples of given inputs along the first dimension."""
    torch = require_torch()
    found = list_tensors(sample)
    if not found:
        fix = "a tensor, a tuple of tensors or a mapping of them is needed, or a function that makes them"
        raise DataError("batches", f"got {show_value(sample)}", fix)
    for tensor in found:
        if tensor.ndim == 0 or tensor.shape[0] == 0:
            problem = f"a sample input has the shape {tuple(tensor.shape)}"
            raise DataError("batches", problem, "the first dimension counts samples, and one at least is needed")

    def make_batch(batch: int) -> Any:  # noqa: ANN401 - inputs of the same structure
        return map_tensors(sample, lambda tensor: tensor[torch.arange(batch, device=tensor.device) % len(tensor)])

    return make_batch


def map_tensors(inputs: Any, change: Callable[[Tensor], Any]) -> Any:  # noqa: ANN401 - inputs of any structure
    """Return inputs with each tensor changed; what is none stays as it is."""
    torch = require_torch()
    if isinstance(inputs, torch.Tensor):
        return change(inputs)
    if isinstance(inputs, Mapping):
        return {name: map_tensors(value, change) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return tuple(map_tensors(value, change) for value in inputs)
    return inputs


def list_tensors(inputs: Any) -> list[Tensor]:  # noqa: ANN401 - inputs of any structure
    """List every tensor in inputs, or in what a module returns."""
    found: list[Tensor] = []
    map_tensors(inputs, found.append)
    return found


def call_module(module: nn.Module, inputs: Any) -> Any:  # noqa: ANN401 - whatever the module takes and returns
    """Run a forward pass: a mapping's entries are named arguments, a tuple's are arguments."""
    if isinstance(inputs, Mapping):
        return module(**inputs)
    if isinstance(inputs, tuple | list):
        return module(*inputs)
    return module(inputs)


def mean_square(output: Any) -> Tensor:  # noqa: ANN401 - whatever the module returns
    """Return the output's own ``loss``, or the sum of the mean squares of its floating-point tensors."""
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if own is not None:
        return own  # type: ignore[no-any-return,unused-ignore]
    found = [tensor for tensor in list_tensors(output) if tensor.is_floating_point()]
    if not found:
        fix = "give a loss: a function from what the module returns to a scalar"
        raise DataError("loss", f"the module returns {show_value(output)}, which has no tensor of numbers", fix)
    total = found[0].square().mean()
    for tensor in found[1:]:
        total = total + tensor.square().mean()
    return total


def load_workload(target: str) -> Workload:
    """Call a user's function, ``file.py:function`` or ``package.module:function``, for a network and its batches."""
    require_torch()
    place, colon, name = target.rpartition(":")
    if not (colon and place and name.isidentifier()):
        raise UsageError(f"MODULE:FACTORY: got {target!r}; write where the function is and its name, {_EXAMPLE}")
    before = list(sys.path)
    try:
        factory: Any = run_user_code(target, lambda: import_trainable(target, Path(), target))
    finally:
        sys.path[:] = before
    made = run_user_code(target, factory)
    if not isinstance(made, Sequence) or isinstance(made, str) or len(made) not in (2, 3):
        raise DataError(target, f"{name}() returned {show_value(made)}", _RETURNS)
    return make_workload(*made)


def run_user_code(what: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it returns
    """Call what the user wrote, and report any failure as wrong data that names it."""
    try:
        return call()
    except OptplanError:
        raise
    except Exception as error:
        problem = f"failed with {type(error).__name__}: {error}"
        raise DataError(what, problem, "run it by itself to see where") from error


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
