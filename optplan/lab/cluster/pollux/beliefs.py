"""What Pollux believes about speeds: how fast a job is, in its present epoch, on GPUs of one node and of several."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import numpy as np

from optplan.errors import UsageError
from optplan.lab.cluster.jobs import Application, Job, Learner, Spread, consolidate, spread_of
from optplan.schema import FloatArray

#: The most GPUs of a job, as in the simulators published with Pollux and Sia.
MOST_GPUS = 64


@dataclass(frozen=True, eq=False)
class Speeds:
    """Speeds (K + 1,) on 0 to K GPUs of one node, of any size, and of several, in any unit; zero: cannot run."""

    within: FloatArray
    across: FloatArray


class Knowledge(StrEnum):
    """What a policy knows about speeds."""

    #: All, as it was measured.
    TRUTH = "truth"
    #: What a model says that each job fits to what it has run on.
    LEARNED = "learned"


class Beliefs(Protocol):
    """How fast jobs are."""

    def watch(self, job: Job) -> None:
        """See that a job has run on what it holds."""

    def look_up(self, job: Job) -> Speeds:
        """Return the speeds of a job in its present epoch."""


class Truth:
    """What is true, on as few nodes as possible; where that is several, one node is not believed to be faster."""

    def __init__(self, gpus_per_node: int) -> None:
        self._gpus_per_node = gpus_per_node
        self._known: dict[Application, tuple[FloatArray, FloatArray]] = {}

    def watch(self, job: Job) -> None:
        """Nothing is new."""

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


@runtime_checkable
class Learnable(Application, Protocol):
    """An application about which jobs can learn while they run."""

    def fit_speeds(self, spreads: Collection[Spread], most_gpus: int) -> tuple[FloatArray, FloatArray]:
        """Return the speeds of every epoch that a model predicts after some spreads were seen.

        Both are (epochs, K + 1): on GPUs of one node, however many that has, and of several nodes.
        """


class Learned:
    """What each job has learned: the model fitted to the spreads that it has run on, and linear speedups before.

    Pollux' agents fit it to all that they have seen, at the local batches that they have used. Here a job knows a
    spread at all local batches that were measured there; and since the model is a straight line in GPUs, on one node
    and on several, it remembers the spreads with the fewest and with the most GPUs of either, on as few nodes as
    possible. A job that learns by itself is believed instead.
    """

    def __init__(self, gpus_per_node: int) -> None:
        self._gpus_per_node = gpus_per_node
        self._seen: dict[Job, frozenset[Spread]] = {}
        self._runs: dict[Application, FloatArray] = {}

    def watch(self, job: Job) -> None:
        """Remember how its GPUs are spread."""
        is_alone = job.gpus <= self._gpus_per_node
        spread = spread_of(job.places) if is_alone else consolidate(job.gpus, self._gpus_per_node)
        seen = self._seen.get(job, frozenset())
        alike = sorted({spread, *(one for one in seen if (len(one) > 1) is (len(spread) > 1))}, key=sum)
        others = {one for one in seen if (len(one) > 1) is not (len(spread) > 1)}
        self._seen[job] = frozenset({alike[0], alike[-1], *others})

    def look_up(self, job: Job) -> Speeds:
        """Return what the model says; widths on which a job can truly not run are known to it."""
        truth = job.truth
        if isinstance(truth, Learner):
            return Speeds(*truth.believe(MOST_GPUS))
        if not isinstance(truth, Learnable):
            raise UsageError(f"knowledge: nothing can be learned about {job.application}; choose {Knowledge.TRUTH}")
        within, across = truth.fit_speeds(self._seen.get(job, frozenset()), MOST_GPUS)
        if truth not in self._runs:
            self._runs[truth] = np.array([truth.largest_width(gpus) == gpus for gpus in range(within.shape[1])], float)
        return Speeds(within[job.epochs_done] * self._runs[truth], across[job.epochs_done] * self._runs[truth])


#: What is believed by what is known, for nodes of a number of GPUs.
BELIEFS: Mapping[Knowledge, Callable[[int], Beliefs]] = MappingProxyType(
    {Knowledge.TRUTH: Truth, Knowledge.LEARNED: Learned}
)


def _speeds(truth: Application, spread: Spread) -> FloatArray | float:
    """Return the speed of every epoch, in epochs per second; 0 where it cannot run."""
    times_s = truth.epoch_times_s(spread)
    return 0.0 if times_s is None else 1.0 / np.maximum(times_s, np.finfo(float).tiny)
