"""When each layer's gradient is ready in a backward pass, by hooks that PyTorch calls (4.1).

A layer is a module that has trainable parameters of its own. Its gradient is ready when that of its last parameter is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from optplan.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from optplan.profiling.device_clocks import HostClock


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
