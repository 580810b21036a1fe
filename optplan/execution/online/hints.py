"""AdaptDL's scheduling hints, as its jobs send them: what they measured of themselves, as a performance model.

A job puts its hints to ``{supervisor}/hints/{namespace}/{name}`` every half a minute, as JSON with the names below.
AdaptDL's own fit of the seven parameters arrives with them, so that nothing is fitted again; the speedup is the goodput
that they predict (:class:`~optplan.speedup.GoodputSpeedup`).

References
----------
petuum/adaptdl, ``adaptdl/sched_hints.py`` and ``adaptdl/torch/_metrics.py``.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import ConfigDict, Field

from optplan.schema import FrozenModel
from optplan.speedup import GoodputSpeedup
from optplan.speedup.goodput import ThroughputParameters

_Batch = Annotated[int, Field(ge=1, le=10**12)]
_Statistic = Annotated[float, Field(ge=0, le=1e300)]


class GradientStatistics(FrozenModel):
    """Squared norm of the mean gradient, and the gradient's variance at the initial batch size."""

    norm: _Statistic
    var: _Statistic


class Hints(FrozenModel):
    """What AdaptDL's ``post_sched_hints`` sends; fields of other versions are passed over, as its supervisor does."""

    model_config = ConfigDict(extra="ignore")

    initBatchSize: _Batch  # noqa: N815 - AdaptDL's names
    localBszBounds: Annotated[tuple[_Batch, ...], Field(min_length=2, max_length=2)] | None = None  # noqa: N815
    maxBatchSize: _Batch | None = None  # noqa: N815
    gradParams: GradientStatistics | None = None  # noqa: N815
    perfParams: ThroughputParameters | None = None  # noqa: N815

    def speedup(self, gpus_per_node: int) -> GoodputSpeedup | None:
        """Return the speedup that the hints predict; None where they do not predict one yet.

        Without a largest batch the job keeps its batch size; without statistics of gradients, larger batches are taken
        to gain nothing, as they are before the first one was measured.
        """
        if self.perfParams is None:
            return None
        most = max(self.initBatchSize, self.maxBatchSize or self.initBatchSize)
        low, high = self.localBszBounds or (1, most)
        noise = 0.0
        if self.gradParams is not None and self.gradParams.norm > 0:
            noise = self.initBatchSize * self.gradParams.var / self.gradParams.norm
        low = min(low, most)
        return GoodputSpeedup(
            parameters=self.perfParams,
            gpus_per_node=gpus_per_node,
            init_batch_size=self.initBatchSize,
            max_batch_size=most,
            min_local_batch_size=low,
            max_local_batch_size=max(low, high),
            noise_scale_samples=np.array(min(noise, 1e18)),
        )
