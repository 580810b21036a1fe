"""Networks whose passes take a known time, or more memory than there is; PyTorch is loaded with them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from optplan.profiling.torch_profiler import ProfilerSettings
from optplan.profiling.workloads import HostClock


class VirtualTime:
    """Time that stands still unless a pass moves it on."""

    def __init__(self) -> None:
        self.now = 0.0

    def settings(self, **changes: int | bool) -> ProfilerSettings:
        """Return settings with a clock that shows this time."""
        return ProfilerSettings(clock=HostClock(lambda: self.now), **changes)  # type: ignore[arg-type]

    def __deepcopy__(self, memo: dict[int, object]) -> VirtualTime:
        """Return itself: copies of a module move the same time on."""
        return self


class Timed(nn.Module):
    """A chain of linear layers whose passes take a known virtual time.

    Parameters
    ----------
    time
        Moved on by passes.
    forward_s
        Of a forward pass, by the batch.
    layer_s
        Of each layer's backward pass, in the order of the chain.
    """

    def __init__(self, time: VirtualTime, forward_s: Callable[[int], float], layer_s: list[float]) -> None:
        super().__init__()
        self.chain = nn.ModuleList(nn.Linear(2, 2) for _ in layer_s)
        self._time = time
        self._forward_s = forward_s
        self._layer_s = layer_s

    def forward(self, inputs: Tensor) -> Tensor:
        """Run the chain; the gradient of a layer's output takes the layer's time."""
        self._spend(self._forward_s(len(inputs)))
        for layer, seconds in zip(self.chain, self._layer_s, strict=True):
            inputs = layer(inputs)
            inputs.register_hook(lambda _, seconds=seconds: self._spend(seconds))  # type: ignore[no-untyped-call,misc,unused-ignore]
        return inputs

    def _spend(self, seconds: float) -> None:
        self._time.now += seconds


class Branched(nn.Module):
    """A network whose second layer runs on some batches only: those whose first number is positive."""

    def __init__(self) -> None:
        super().__init__()
        self.always = nn.Linear(2, 2)
        self.sometimes = nn.Linear(2, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        """Run the first layer, and maybe the second."""
        output: Tensor = self.always(inputs)
        if inputs.flatten()[0] > 0:
            output = self.sometimes(output)
        return output


class Limited(nn.Module):
    """A network on a device with memory for so many samples."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.most = most
        self.asked: list[int] = []

    def __deepcopy__(self, memo: dict[int, object]) -> Limited:
        """Return itself, so that a test sees what was asked."""
        return self

    def forward(self, inputs: Tensor) -> Tensor:
        """Refuse what is too large as PyTorch does."""
        self.asked.append(len(inputs))
        if len(inputs) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        output: Tensor = self.layer(inputs)
        return output
