"""Jobs of the public traces: arrivals from a workload, and what is true of them from the measured profiles."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from optplan.errors import DataError, UsageError
from optplan.lab.cluster.jobs import Application, Job, Spread, consolidate
from optplan.lab.traces.sia import Timing, derive_epochs, read_profile
from optplan.lab.traces.sia_agents import Agent, fit_speeds
from optplan.lab.traces.sia_profiles import CannotRunError, stamp_profiles
from optplan.lab.traces.sia_workloads import APPLICATIONS, GPU_NODES, Workload
from optplan.schema import FloatArray, IntArray

#: Up to this width, profiles are derived together, which costs hardly more than one of them.
_DERIVED_TOGETHER = 64
#: Applications whose times are kept over runs.
_KEPT = 256


class Batch(StrEnum):
    """How jobs choose their batch size."""

    #: Anew for each epoch and whatever they hold, as Pollux's and Sia's agents do.
    ADAPTED = "adapted"
    #: Not at all: it is the trace's own.
    FIXED = "fixed"
    #: Anew in each round and for each epoch, by the model that each job fits to what it has run on.
    LEARNED = "learned"


class _Times:
    """Times of one application's epochs, derived when they are first asked for and then kept."""

    def __init__(
        self,
        where: tuple[str, str, str],
        gpus_per_node: int,
        timing: Timing,
        fixed_batch: int | None,
        slowdown: bool,  # noqa: FBT001 - a cached class is called by position
        _stamp: tuple[tuple[str, int, int], ...],
    ) -> None:
        self._how: dict[str, Any] = {"slowdown": slowdown, "fixed_batch": fixed_batch, "timing": timing}
        self._gpus_per_node = gpus_per_node
        self._where = where
        self._times: dict[Spread, FloatArray | None] = {}
        self._derived_to = 0
        self.origins: dict[Spread, str] = {}

    def look_up(self, spread: Spread) -> FloatArray | None:
        """Return the seconds of each epoch, (epochs,); None where the application cannot run."""
        if spread not in self._times:
            gpus = sum(spread)
            if spread == consolidate(gpus, self._gpus_per_node):
                to = max(gpus, _DERIVED_TOGETHER)
                self._keep(np.arange(self._derived_to + 1, to + 1))
                self._derived_to = to
            else:
                self._keep(np.array([gpus]), spread)
        return self._times[spread]

    def _keep(self, widths: IntArray, spread: Spread | None = None) -> None:
        """Derive widths, together or spread in one way, and keep what comes out."""
        spreads = {int(k): spread or consolidate(int(k), self._gpus_per_node) for k in widths}
        self._times.update(dict.fromkeys(spreads.values()))
        asked = widths if spread is None else {sum(spread): "".join(map(str, spread))}
        try:
            profile = derive_epochs(*self._where, asked, **self._how)
        except CannotRunError:
            return
        times_s = profile.sizes_s[:, None] / profile.speedup  # (epochs, widths)
        for place, width in enumerate(profile.widths.tolist()):
            self._times[spreads[width]] = times_s[:, place]
            self.origins[spreads[width]] = profile.provenance[place]


#: The times that earlier runs of this process derived hold as long as the files are the same.
_keep_times = lru_cache(maxsize=_KEPT)(_Times)


class ProfiledApplication(Application):
    """An application as measured, placement by placement, as :func:`~optplan.lab.traces.sia.derive_epochs` has it."""

    # ``fixed_batch`` is None for jobs that adapt it; ``provenance`` says of each spread that was used what it rests on.

    def __init__(
        self,
        profiles_dir: Path | str,
        name: str,
        gpu: str,
        gpus_per_node: int,
        *,
        slowdown: bool = False,
        timing: Timing | str = Timing.TABLES,
        fixed_batch: int | None = None,
    ) -> None:
        self._facts = facts = APPLICATIONS[name]
        self.num_epochs, self.rescale_s = facts.epochs, facts.rescale_s
        self._gpus_per_node = gpus_per_node
        self._where = where = (str(profiles_dir), name, gpu)
        stamp = stamp_profiles(profiles_dir, name)
        self._times = _keep_times(where, gpus_per_node, Timing(timing), fixed_batch, slowdown, stamp)
        self.provenance: dict[Spread, str] = {}

    def epoch_times_s(self, spread: Spread) -> FloatArray | None:
        """Return the seconds of each epoch, shape (epochs,); None where the application cannot run."""
        times_s = self._times.look_up(spread)
        if times_s is not None:
            self.provenance[spread] = self._times.origins[spread]
        return times_s

    def runs_on(self, gpus: int) -> bool:
        """Whether it runs on a number of GPUs that are together."""
        return self._times.look_up(consolidate(gpus, self._gpus_per_node)) is not None

    def list_measured(self) -> list[Spread]:
        """List the ways to spread GPUs over nodes that were measured."""
        profiles_dir, name, gpu = self._where
        placements = read_profile(profiles_dir, APPLICATIONS[name], gpu)[0].placements
        return [tuple(sorted(map(int, placement), reverse=True)) for placement in placements]

    def fit_speeds(self, spreads: Collection[Spread], most_gpus: int) -> tuple[FloatArray, FloatArray]:
        """Return the speeds (epochs, K + 1) that the fitted model predicts after some spreads were seen."""
        return fit_speeds(self._where[0], self._facts, self._where[2], spreads, most_gpus)


def make_jobs(
    workload: Workload,
    profiles_dir: Path | str,
    gpu: str,
    *,
    slowdown: bool = False,
    timing: Timing | str = Timing.TABLES,
    batch: Batch | str = Batch.ADAPTED,
) -> tuple[list[Job], int]:
    """Make the jobs of a workload, whose ``learned`` batches need measured times; return the GPUs of a node, too."""
    if batch == Batch.LEARNED and timing != Timing.TABLES:
        raise UsageError(f"timing: jobs that learn run at measured times, not at those of {timing}; leave it out")
    tables = [read_profile(profiles_dir, APPLICATIONS[name], gpu)[0] for name in workload.applications]
    gpus_per_node = GPU_NODES[gpu].gpus_per_node if gpu in GPU_NODES else max(one.gpus_per_node for one in tables)
    batches = _fixed_batches(workload) if batch == Batch.FIXED else [None] * len(workload.job_names)
    kinds = list(zip(workload.application_index.tolist(), batches, strict=True))
    truths = {
        (which, size): ProfiledApplication(
            profiles_dir,
            workload.applications[which],
            gpu,
            gpus_per_node,
            slowdown=slowdown,
            timing=timing,
            fixed_batch=size,
        )
        for which, size in dict.fromkeys(kinds)
    }
    requested = workload.requested_gpus

    def make_agent(name: str) -> Agent:
        facts = APPLICATIONS[name]
        return Agent(profiles_dir, facts, gpu, slowdown=facts.slowdown if slowdown else 1.0)

    return [
        Job(
            name=name,
            application=workload.applications[kind[0]],
            submitted_s=float(workload.submission_s[number]),
            truth=truths[kind],
            requested_gpus=None if requested is None else int(requested[number]),
            agent=make_agent(workload.applications[kind[0]]) if batch == Batch.LEARNED else None,
        )
        for number, (name, kind) in enumerate(zip(workload.job_names, kinds, strict=True))
    ], gpus_per_node


def _fixed_batches(workload: Workload) -> list[int | None]:
    """Return the batch size of each job."""
    if workload.requested_batch_sizes is None:
        problem = "batches are fixed, and the workload does not say them"
        raise DataError("batch_size", problem, "add the column batch_size, or let jobs adapt their batch size")
    sizes: list[int | None] = workload.requested_batch_sizes.tolist()
    for name, which, size in zip(workload.job_names, workload.application_index.tolist(), sizes, strict=True):
        facts = APPLICATIONS[workload.applications[which]]
        if size is None or not facts.init_batch_size <= size <= facts.max_batch_size:
            problem = f"is {size}; {facts.name} trains at {facts.init_batch_size} to {facts.max_batch_size} samples"
            raise DataError(f"jobs.{name}.batch_size", problem, "correct it, or let jobs adapt their batch size")
    return sizes
