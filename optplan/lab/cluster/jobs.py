"""Jobs of a simulated cluster: how long their epochs really take, where each stands, and what a policy says of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from optplan.errors import DataError, UsageError
from optplan.execution.progress import Progress
from optplan.schema import FloatArray

#: GPUs on each node that a job uses, descending: 6 GPUs on nodes of 4 are ``(4, 2)`` where they are together.
Spread: TypeAlias = tuple[int, ...]
#: Node and GPUs on it, for each node that a job uses.
Places: TypeAlias = tuple[tuple[int, int], ...]


#: Up to so many GPUs an application is asked on how few it runs.
LEAST_WIDTH_LIMIT = 64


def spread_of(places: Places) -> Spread:
    """Return the GPUs on each node, descending."""
    return tuple(sorted((count for _, count in places), reverse=True))


def consolidate(gpus: int, gpus_per_node: int) -> Spread:
    """Return how GPUs lie on as few nodes as possible."""
    full, rest = divmod(gpus, gpus_per_node)
    return (gpus_per_node,) * full + ((rest,) if rest else ())


class Application:
    """What is true of the jobs of one application, whatever a policy believes."""

    num_epochs: int  #: Of a job.
    rescale_s: float  #: Seconds without progress after every start and every change of what a job holds.

    def epoch_times_s(self, spread: Spread) -> FloatArray | None:
        """Return the seconds of each epoch, shape (epochs,); None where the application cannot run."""
        raise NotImplementedError

    def runs_on(self, gpus: int) -> bool:
        """Whether it runs on a number of GPUs that are together."""
        raise NotImplementedError

    def largest_width(self, gpus: int) -> int:
        """Return the most GPUs, up to a number, on which it runs when they are together; 0 where there are none."""
        return next((k for k in range(gpus, 0, -1) if self.runs_on(k)), 0)

    @property
    def least_width(self) -> int:
        """The fewest GPUs on which it runs when they are together, if they are up to 64; 0 where there are none."""
        return next((k for k in range(1, LEAST_WIDTH_LIMIT + 1) if self.runs_on(k)), 0)


class Learner(Protocol):
    """What an agent of one job does: it learns about the job while it runs, and chooses its batch by that."""

    def choose_batch(self, spread: Spread, epoch: int) -> float:
        """Choose the batch for what it holds; return the seconds that the epoch, from 0, takes at it."""

    def learn(self, spread: Spread, epoch: int) -> None:
        """Learn from having run an epoch, or a part of it, at the batch that was chosen last."""

    def believe(self, most_gpus: int) -> FloatArray:
        """Return the speeds (2, K + 1) that it expects now on GPUs of one node, of any size, and of several."""


@dataclass(eq=False)
class TabledApplication(Application):
    """An application whose epochs take what a table says by the number of GPUs: seconds (epochs,)."""

    epoch_s: Mapping[int, FloatArray]
    num_epochs: int
    rescale_s: float = 0.0

    def epoch_times_s(self, spread: Spread) -> FloatArray | None:
        """Look the number of GPUs up."""
        times_s = self.epoch_s.get(sum(spread))
        return None if times_s is None else np.asarray(times_s, dtype=np.float64)

    def runs_on(self, gpus: int) -> bool:
        """Whether the table has the width."""
        return gpus in self.epoch_s

    @property
    def least_width(self) -> int:
        """The smallest width of the table."""
        return min(self.epoch_s, default=0)


@dataclass(eq=False, slots=True)
class Job(Progress):
    """A job, and where it stands."""

    # Epochs take ``size`` times what is true of its application. ``work_gpu_s`` is what it has done on the fewest GPUs
    # on which it runs. ``rescales`` do not count its first start. ``number`` is its place in the order of arrival,
    # ``ticket`` its next event. It waits, or waited for what it holds, since ``waits_since_s``.

    name: str
    application: str
    submitted_s: float
    truth: Application = field(repr=False)
    requested_gpus: int | None = None
    agent: Learner | None = field(default=None, repr=False)
    size: float = 1.0
    weight: float = 1.0
    number: int = 0
    ticket: int | None = None
    places: Places = ()
    waits_since_s: float = 0.0
    holds_since_s: float = 0.0
    started_s: float | None = None
    completed_s: float | None = None
    work_gpu_s: float = 0.0
    rescales: int = 0
    interruptions: int = 0
    problem: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be done for it any more."""
        return self.completed_s is not None or bool(self.problem)

    @property
    def jct_s(self) -> float | None:
        """Seconds from its arrival to its completion; None where it was not completed."""
        return None if self.completed_s is None else self.completed_s - self.submitted_s


def check_jobs(jobs: Sequence[Job]) -> None:
    """Refuse jobs that arrive before zero, and two of one name."""
    for job in jobs:
        if not (math.isfinite(job.submitted_s) and job.submitted_s >= 0.0):
            problem = f"arrives at {job.submitted_s!r} s; arrivals at or after zero are allowed"
            raise DataError(f"jobs.{job.name}.submitted_s", problem, "count time from the start of the trace")
    names = sorted(job.name for job in jobs)
    for one, other in pairwise(names):
        if one == other:
            raise DataError(f"jobs.{one}", "two jobs have this name", "give each job a name of its own")


def least_gpu_s(truth: Application, gpus_per_node: int) -> Sequence[float]:
    """Return the GPU-seconds of each epoch where no GPU is lost to others: on the fewest on which it runs."""
    least = truth.least_width
    times_s = truth.epoch_times_s(consolidate(least, gpus_per_node)) if least else None
    work_gpu_s: Sequence[float] = [0.0] * truth.num_epochs if times_s is None else (least * times_s).tolist()
    return work_gpu_s


#: Seconds of a round, as Pollux and Tiresias are run in the simulators published with Pollux and Sia.
ROUND_S = 60.0
#: What a job is to hold: GPUs wherever they are free, or these GPUs of these nodes.
Wish: TypeAlias = int | Places


@dataclass(frozen=True)
class Sight:
    """What a policy sees: jobs in the order of arrival, and which of them changed since it was last asked."""

    # ``gpus``, those of nodes that start among them, and ``free_gpus`` are infinite where nodes are rented as needed;
    # ``nodes`` are those that can be used; ``started_s`` is what each took to start that has done so since. What a job
    # says of itself is as of when it was last heard of, unless it is asked to ``look``.

    now_s: float
    jobs: Mapping[Job, None]
    changed: Sequence[Job]
    gpus: float
    free_gpus: float
    nodes: Sequence[int] = ()
    gpus_per_node: int = 1
    started_s: Sequence[float] = ()

    def require_fixed(self, policy: str, does: str) -> int:
        """Return the GPUs of a cluster of fixed size that can be used."""
        if math.isinf(self.gpus):
            raise UsageError(f"{policy}: {does} a cluster of fixed size; give its number of nodes (--nodes)")
        return len(self.nodes) * self.gpus_per_node


class SchedulingPolicy(Protocol):
    """Who holds how many GPUs."""

    @property
    def name(self) -> str:
        """How it is called in results."""

    @property
    def interval_s(self) -> float | None:
        """Seconds between two times that it is asked; None asks it whenever a job arrives, ends an epoch or goes."""

    def need(self, job: Job) -> int:
        """Return the GPUs without which a job would never start; it is reported where it cannot have them."""

    def allocate(self, sight: Sight) -> Mapping[Job, Wish]:
        """Return what jobs are to hold from now on, others keep what they hold; who gives GPUs back does so first."""


@runtime_checkable
class PatientPolicy(SchedulingPolicy, Protocol):
    """One to which most ends of epochs make no difference: it is not asked then, and looks at jobs when it wants to."""

    def keeps_until(self, job: Job) -> int:
        """Return how many epochs a job that holds GPUs has to have done before it makes a difference."""


@runtime_checkable
class LearningPolicy(SchedulingPolicy, Protocol):
    """One that is told what jobs do when they do it, and that wants to be asked at times of its own.

    Jobs are put on nodes as wishes say, as far as there are GPUs: others wait.
    """

    def begin(self, most_gpus: float) -> None:
        """Take note of how many GPUs there are at most, before any job comes."""

    @property
    def next_s(self) -> float:
        """When it is to be asked again, should nothing happen before; in the past, as soon as anything happens."""

    def hear_epoch(self, job: Job, seconds: float) -> None:
        """Take note of what a job that is about to end an epoch did of it on what it holds."""

    def hear_leave(self, job: Job, *, keeps: bool) -> None:
        """Take note of a job that is about to leave what it holds, and whether what it did of its epoch is kept."""

    def hear_end(self, job: Job) -> None:
        """Take note of a job that is over, or that cannot be served."""


@runtime_checkable
class SizingPolicy(SchedulingPolicy, Protocol):
    """One that also says how many nodes there are to be, and that decides in rounds."""

    def choose_nodes(self, sight: Sight) -> int:
        """Return the nodes to rent from now on; it is asked to allocate on those that stay and those that come."""
