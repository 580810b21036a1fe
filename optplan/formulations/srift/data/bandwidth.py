"""How fast gradients are exchanged: bus bandwidth of an all-reduce by its size and the number of ranks (4.2).

Bus bandwidth is ``V / t`` with the volume ``V = 2 s (n - 1) / n`` of s bytes among n ranks. All-reduces between a set
of VMs run at the pace of its slowest network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from optplan.errors import DataError
from optplan.schema import (
    AmountOrZero,
    ByName,
    FloatArray,
    FrozenModel,
    NumberRow,
    Numbers,
    WholeNumbers,
    require_amounts,
)

BITS_PER_BYTE = 8.0
#: Bytes per second of one Gbit/s.
BYTES_PER_GBIT = 1e9 / BITS_PER_BYTE


def volume_factor(ranks: int) -> float:
    """Return bytes that a rank sends and receives for each byte of a gradient: 2 (n - 1) / n."""
    return 2.0 * (ranks - 1) / ranks


class LatencyBandwidth(FrozenModel):
    """The plain model, often called alpha-beta: each of an all-reduce's 2 (n - 1) steps waits for a latency.

    The bus bandwidth of s bytes among n ranks is ``V / (V / capacity + 2 (n - 1) latency)``.
    """

    form: Literal["latency-bandwidth"] = "latency-bandwidth"
    step_latency_s: AmountOrZero = 30e-6  #: Of one step.
    source: str = ""  #: Where it comes from.

    def bus_bytes_per_s(self, networks: Iterable[tuple[str, float]], ranks: int, sizes: FloatArray) -> FloatArray:
        """Return the bus bandwidth of each of several transfers, were it alone.

        Parameters
        ----------
        networks
            Name of the type of each VM, and its capacity in bytes per second.
        ranks
            That take part, n.
        sizes
            (L,) Bytes of each gradient.

        Returns
        -------
        array
            (L,) Bytes per second; infinite for one rank, which has nothing to exchange.
        """
        capacity = min(capacity for _, capacity in networks)
        if ranks == 1:
            return np.full(np.shape(sizes), math.inf)
        volume = volume_factor(ranks) * np.asarray(sizes, dtype=np.float64)
        return np.asarray(volume / (volume / capacity + 2.0 * (ranks - 1) * self.step_latency_s), dtype=np.float64)


class BandwidthTable(FrozenModel):
    """Bus bandwidth of one type of VM, measured or predicted by a learned model."""

    ranks: WholeNumbers  #: (R,) Numbers of ranks, ascending from 2 or more.
    sizes_bytes: Annotated[NumberRow, AfterValidator(require_amounts)]  #: (S,) Sizes of the buffer, ascending.
    bus_gbit_per_s: Annotated[Numbers, AfterValidator(require_amounts)]  #: (R, S) Bus bandwidth.

    @model_validator(mode="after")
    def _check(self) -> BandwidthTable:
        for field in ("ranks", "sizes_bytes"):
            values = getattr(self, field)
            if values.ndim != 1 or not values.size or (np.diff(values) <= 0).any():
                raise DataError(field, f"got {values.tolist()}", "list each once, ascending")
        if self.ranks[0] < 2:
            raise DataError("ranks", f"got {int(self.ranks[0])}", "an all-reduce has two ranks or more")
        shape = (self.ranks.size, self.sizes_bytes.size)
        if self.bus_gbit_per_s.shape != shape:
            problem = f"has the shape {self.bus_gbit_per_s.shape}; {shape} is needed"
            raise DataError("bus_gbit_per_s", problem, "a row for each number of ranks, a column for each size")
        return self

    def bus_bytes_per_s(self, ranks: int, sizes: FloatArray) -> FloatArray:
        """Return (L,) bus bandwidth, linear in the logarithms of ranks and sizes, held beyond the table's ends."""
        log_sizes, log_ranks = np.log2(self.sizes_bytes), np.log2(self.ranks)
        asked = np.log2(sizes)
        position = float(np.interp(math.log2(ranks), log_ranks, np.arange(log_ranks.size)))
        lower, share = int(position), position % 1.0
        found = np.interp(asked, log_sizes, self.bus_gbit_per_s[lower])
        if share:
            found = (1.0 - share) * found + share * np.interp(asked, log_sizes, self.bus_gbit_per_s[lower + 1])
        return np.asarray(found * BYTES_PER_GBIT, dtype=np.float64)


class MeasuredBandwidth(FrozenModel):
    """Tables by type of VM; a mixed set has the least of its types' (4.2, 4.3)."""

    form: Literal["table"] = "table"
    tables: ByName[BandwidthTable]  #: By type of VM.
    #: Whether the tables were measured, predicted by a learned model, or are synthetic; with the data's fingerprint.
    source: str = ""

    def bus_bytes_per_s(self, networks: Iterable[tuple[str, float]], ranks: int, sizes: FloatArray) -> FloatArray:
        """Return the bus bandwidth of transfers; as of :meth:`LatencyBandwidth.bus_bytes_per_s`."""
        if ranks == 1:
            return np.full(np.shape(sizes), math.inf)
        found = [self.tables[name].bus_bytes_per_s(ranks, sizes) for name, _ in networks]
        return np.asarray(np.min(found, axis=0), dtype=np.float64)


Bandwidth = Annotated[LatencyBandwidth | MeasuredBandwidth, Field(discriminator="form")]
