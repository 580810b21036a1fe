"""What makes a cluster less than ideal; all of it is off in a replay, and each simulation draws its own from a seed."""

from __future__ import annotations

import zlib
from enum import StrEnum
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from optplan.errors import DataError
from optplan.schema import FloatArray, FrozenModel

#: The least factor of a normal law, which would else go below zero.
_LEAST_FACTOR = 0.1

_Seconds = Annotated[float, Field(ge=0)]


class Law(StrEnum):
    """How the times of epochs vary; the mean factor is 1, but for what a normal law loses below 0.1."""

    LOGNORMAL = "lognormal"
    NORMAL = "normal"


class World(FrozenModel):
    """What makes a cluster less than ideal.

    A node is still paid for ``reclaim_s`` after it was given back (BOA Constrictor, appendix D), and rented again
    before that can be used after ``warm_start_s`` (section 5.4: 20 s, where others take 120; None: as others).
    ``interference`` is the share of its speed that a job on several nodes loses while another such job is on one of
    them. Nodes are taken away at ``interruptions_per_node_hour``, another in the place of each at once, which has to
    start; or as in ``spot_trace``, from a random time on and repeated: where n of m VMs were lost, each node is with
    probability n / m. A job that lost a node and ``loses_epoch`` begins it again. ``straggling`` is the standard
    deviation of the factor, of ``straggling_law``, that the time of each epoch of each job gets.
    """

    reclaim_s: _Seconds = 0.0
    warm_start_s: _Seconds | None = None
    interference: Annotated[float, Field(ge=0, lt=1)] = 0.0
    interruptions_per_node_hour: Annotated[float, Field(ge=0)] = 0.0
    spot_trace: str | None = None
    loses_epoch: bool = False
    straggling: Annotated[float, Field(ge=0)] = 0.0
    straggling_law: Law = Law.LOGNORMAL

    @model_validator(mode="after")
    def _check(self) -> World:
        """Refuse what would change nothing."""
        if self.warm_start_s is not None and not self.reclaim_s:
            problem = f"got {self.warm_start_s:g}, and no node that was given back is there to be rented again"
            raise DataError("warm_start_s", problem, "say how long nodes stay (reclaim_s; --reclaim), or leave it out")
        if self.loses_epoch and not (self.interruptions_per_node_hour or self.spot_trace):
            problem = "got true, and no node is ever taken away"
            fix = "say how often (interruptions_per_node_hour or spot_trace; --interruptions), or leave it out"
            raise DataError("loses_epoch", problem, fix)
        return self

    def draw_factors(self, name: str, num_epochs: int, seed: int) -> FloatArray | None:
        """Draw the factors of a job's epochs, (epochs,), the same under every policy; None where all are 1."""
        if not self.straggling:
            return None
        stream = np.random.default_rng([seed, zlib.crc32(name.encode())])
        if self.straggling_law is Law.NORMAL:
            return np.maximum(stream.normal(1.0, self.straggling, num_epochs), _LEAST_FACTOR)
        variance = np.log1p(self.straggling**2)
        return np.asarray(stream.lognormal(-variance / 2.0, np.sqrt(variance), num_epochs))
