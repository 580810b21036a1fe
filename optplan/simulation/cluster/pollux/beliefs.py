"""What Pollux believes about speeds: how fast a job is, in its present epoch, on GPUs of one node and of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from optplan.schema import FloatArray
from optplan.simulation.cluster.jobs import Application, Job, Spread, consolidate

#: The most GPUs of a job, as in the simulators published with Pollux and Sia.
MOST_GPUS = 64


@dataclass(frozen=True, eq=False)
class Speeds:
    """Speeds by number of GPUs, in any one unit; zero where the job cannot run.

    Parameters
    ----------
    within, across
        (K + 1,) On 0 to K GPUs of one node, of any size; and of several nodes.
    """

    within: FloatArray
    across: FloatArray


class Beliefs(Protocol):
    """How fast jobs are."""

    def look_up(self, job: Job) -> Speeds:
        """Return the speeds of a job in its present epoch."""


class Truth:
    """What is true, on as few nodes as possible; where that is several, one node is not believed to be faster.

    Parameters
    ----------
    gpus_per_node
        GPUs of one node.
    """

    def __init__(self, gpus_per_node: int) -> None:
        self._gpus_per_node = gpus_per_node
        self._known: dict[Application, tuple[FloatArray, FloatArray]] = {}

    def look_up(self, job: Job) -> Speeds:
        """Look the present epoch up."""
        if job.truth not in self._known:
            self._known[job.truth] = self._derive(job.truth)
        within, across = self._known[job.truth]
        return Speeds(within[job.epochs_done], across[job.epochs_done])

    def _derive(self, truth: Application) -> tuple[FloatArray, FloatArray]:
        """Return the speeds of every epoch, both (epochs, K + 1)."""
        within, across = np.zeros((2, truth.num_epochs, truth.largest_width(MOST_GPUS) + 1))
        for gpus in range(1, within.shape[1]):
            within[:, gpus] = across[:, gpus] = _speeds(truth, consolidate(gpus, self._gpus_per_node))
            if 1 < gpus <= self._gpus_per_node:
                across[:, gpus] = _speeds(truth, (gpus - gpus // 2, gpus // 2))
        return within, across


def _speeds(truth: Application, spread: Spread) -> FloatArray | float:
    """Return the speed of every epoch, in epochs per second; 0 where it cannot run."""
    times_s = truth.epoch_times_s(spread)
    return 0.0 if times_s is None else 1.0 / np.maximum(times_s, np.finfo(float).tiny)
