"""What one training job computes: its layers' gradients, and how long passes take on each kind of GPU (4.1).

Forward and backward times are piecewise linear in the samples per device; the paper measures 1, a third, two thirds
and all of the largest batch. The gradient of a layer is ready at a share of the backward pass that does not depend on
the batch.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from optplan.errors import DataError
from optplan.schema import (
    LARGEST_EXACT,
    NUMBER,
    ByName,
    FloatArray,
    FrozenModel,
    NumberRow,
    WholeNumbers,
    refuse_entries,
    require_amounts,
    require_positive,
)

#: Relative standard deviation of a VM's compute time: the median of the paper's study (4.3, footnote 3).
TYPICAL_DEVIATION = 0.036


def _require_shares(array: FloatArray) -> FloatArray:
    return refuse_entries(array, (array < 0) | (array > 1), "shares from 0 to 1 are allowed")


_Seconds = Annotated[NumberRow, AfterValidator(require_amounts)]
_Shares = Annotated[NumberRow, AfterValidator(_require_shares)]


class DeviceProfile(FrozenModel):
    """How long the passes of a job take on one kind of GPU."""

    #: (S,) Samples per device that were measured, ascending; the first is the least, the last the largest that fits.
    batches: WholeNumbers
    #: forward_s, backward_s: (S,) Seconds of a pass; linear between the measured batches, and never falling.
    forward_s: _Seconds
    backward_s: _Seconds
    #: (L,) Share of the backward pass after which each layer's gradient is ready, ascending; None: as the layers say.
    ready: _Shares | None = None
    #: Standard deviation over mean of a VM's forward and backward time, from VM to VM and iteration to iteration.
    deviation: Annotated[float, Field(ge=0, lt=1), NUMBER] = TYPICAL_DEVIATION

    @model_validator(mode="after")
    def _check(self) -> DeviceProfile:
        batches = self.batches
        if batches.ndim != 1 or not batches.size or batches[0] < 1 or (np.diff(batches) <= 0).any():
            problem = f"got {batches.tolist()}; whole numbers from 1 on, ascending, are needed"
            raise DataError("batches", problem, "the last one is the largest batch that fits on a device")
        for field in ("forward_s", "backward_s"):
            self._check_times(field, getattr(self, field))
        if self.ready is not None:
            _check_order("ready", self.ready)
        return self

    def _check_times(self, field: str, seconds: FloatArray) -> None:
        if seconds.shape != self.batches.shape:
            raise DataError(field, f"{seconds.size} values for {self.batches.size} batches", "give one for each")
        falls = np.flatnonzero(np.diff(seconds) < 0)
        if falls.size:
            first = int(falls[0])
            problem = (
                f"falls from {float(seconds[first])!r} to {float(seconds[first + 1])!r} s between batches "
                f"{self.batches[first]} and {self.batches[first + 1]}"
            )
            raise DataError(field, problem, "a larger batch takes no less time: measure again, with more repetitions")

    @property
    def largest_batch(self) -> int:
        """Samples that fit on a device, B_max."""
        return int(self.batches[-1])

    def forward_after(self, batch: float) -> float:
        """Return the seconds of a forward pass with so many samples per device."""
        return float(np.interp(batch, self.batches, self.forward_s))

    def backward_after(self, batch: float) -> float:
        """Return the seconds of a backward pass with so many samples per device."""
        return float(np.interp(batch, self.batches, self.backward_s))


class Layers(FrozenModel):
    """The gradients that the workers exchange, in the order in which they become ready."""

    gradient_bytes: Annotated[NumberRow, AfterValidator(require_positive)]  #: (L,) Size of each layer's gradient.
    ready: _Shares  #: (L,) Share of the backward pass after which it is ready, ascending.
    #: (L,) With which the layer runs in an iteration, for networks with branches; None: always.
    probability: _Shares | None = None
    names: tuple[str, ...] | None = None  #: (L,) For pictures and tables.

    @model_validator(mode="after")
    def _check(self) -> Layers:
        count = self.gradient_bytes.size
        if self.gradient_bytes.ndim != 1 or not count:
            raise DataError("gradient_bytes", "is empty", "list the bytes of each layer's gradient")
        if not self.gradient_bytes.sum() <= LARGEST_EXACT:
            problem = f"adds up to {float(self.gradient_bytes.sum()):.3g} bytes"
            raise DataError("gradient_bytes", problem, "give bytes, of all layers at most 2^53")
        for field in ("ready", "probability", "names"):
            value = getattr(self, field)
            if value is not None and len(value) != count:
                raise DataError(field, f"{len(value)} entries for {count} layers", "give one for each")
        _check_order("ready", self.ready)
        return self


def _check_order(field: str, ready: FloatArray) -> None:
    falls = np.flatnonzero(np.diff(ready) < 0)
    if falls.size:
        first = int(falls[0])
        problem = f"entry [{first + 1}] is {float(ready[first + 1])!r}, less than {float(ready[first])!r} before it"
        raise DataError(field, problem, "sort the layers by when their gradients are ready")


class JobProfile(FrozenModel):
    """What is known of a training job: written by the profiler, read by instances."""

    network: str = "network"  #: Its name.
    layers: Layers  #: Gradients.
    devices: ByName[DeviceProfile]  #: By kind of GPU, how long passes take.
    source: str = ""  #: How it was measured, or that it was calibrated or assumed.

    @model_validator(mode="after")
    def _check(self) -> JobProfile:
        if not self.devices:
            raise DataError("devices", "is empty", "give the profile of at least one kind of GPU")
        count = self.layers.gradient_bytes.size
        for name, device in self.devices.items():
            if device.ready is not None and device.ready.size != count:
                problem = f"{device.ready.size} entries for {count} layers"
                raise DataError(f"devices.{name}.ready", problem, "give one for each")
        return self

    def ready_on(self, gpu: str) -> FloatArray:
        """Return (L,) shares of the backward pass after which gradients are ready on a kind of GPU."""
        own = self.devices[gpu].ready
        return self.layers.ready if own is None else own
