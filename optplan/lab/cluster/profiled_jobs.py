"""Jobs of the public traces: arrivals from a workload, and what is true of them from the measured profiles."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from optplan.errors import DataError, UsageError
from optplan.lab.cluster.jobs import Application, Job, Spread, consolidate
from optplan.lab.fields import Batch
from optplan.lab.traces.sia import Profile, Timing, derive_epochs, read_profile
from optplan.lab.traces.sia_agents import Agent, fit_speeds
from optplan.lab.traces.sia_profiles import CannotRunError
from optplan.lab.traces.sia_workloads import APPLICATIONS, GPU_NODES, Workload
from optplan.schema import FloatArray, IntArray

#: Up to this width, profiles are derived together, which costs hardly more than one of them.
_DERIVED_TOGETHER = 64
#: Applications whose times are kept over runs.
_KEPT = 256


#: What is known of the times of epochs by spread, with where each comes from; None where the application cannot run.
_Times: TypeAlias = dict[Spread, tuple[FloatArray, str] | None]


@lru_cache(maxsize=_KEPT)
def _keep_times(_profile: Profile, *_how: object) -> _Times:
    """Return the times that earlier runs of this process derived in the same way, none at first."""
    return {}


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
        self._profile = profile = read_profile(profiles_dir, APPLICATIONS[name], gpu)
        self.num_epochs, self.rescale_s = profile.application.epochs, profile.application.rescale_s
        self._gpus_per_node = gpus_per_node
        self._where = profiles_dir, name, gpu
        self._how: dict[str, Any] = {"slowdown": slowdown, "fixed_batch": fixed_batch, "timing": timing}
        self._times = _keep_times(profile, gpus_per_node, *self._how.values())
        self.provenance: dict[Spread, str] = {}

    def epoch_times_s(self, spread: Spread) -> FloatArray | None:
        """Return the seconds of each epoch, shape (epochs,); None where the application cannot run."""
        found = self._look_up(spread)
        if found is None:
            return None
        times_s, self.provenance[spread] = found
        return times_s

    def runs_on(self, gpus: int) -> bool:
        """Whether it runs on a number of GPUs that are together."""
        return self._look_up(consolidate(gpus, self._gpus_per_node)) is not None

    def list_measured(self) -> list[Spread]:
        """List the ways to spread GPUs over nodes that were measured."""
        placements = self._profile.tables.placements
        return [tuple(sorted(map(int, placement), reverse=True)) for placement in placements]

    def fit_speeds(self, spreads: Collection[Spread], most_gpus: int) -> FloatArray:
        """Return the speeds (2, epochs, K + 1) that the fitted model predicts after some spreads were seen."""
        return fit_speeds(self._profile, frozenset(spreads), most_gpus)

    def _look_up(self, spread: Spread) -> tuple[FloatArray, str] | None:
        if spread not in self._times:
            gpus = sum(spread)
            together = {k: consolidate(k, self._gpus_per_node) for k in range(1, max(gpus, _DERIVED_TOGETHER) + 1)}
            if spread == together[gpus]:
                new = {k: each for k, each in together.items() if each not in self._times}
                self._derive(np.array(list(new)), new)
            else:
                self._derive({gpus: "".join(map(str, spread))}, {gpus: spread})
        return self._times[spread]

    def _derive(self, asked: IntArray | Mapping[int, str], spreads: Mapping[int, Spread]) -> None:
        """Derive widths, together or spread in one way, and keep what comes out."""
        found: _Times = dict.fromkeys(spreads.values())
        with suppress(CannotRunError):
            derived = derive_epochs(*self._where, asked, **self._how)
            times_s = derived.sizes_s[:, None] / derived.speedup  # (epochs, widths)
            for place, width in enumerate(derived.widths.tolist()):
                found[spreads[width]] = times_s[:, place], derived.provenance[place]
        self._times.update(found)


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
    profiles = {name: read_profile(profiles_dir, APPLICATIONS[name], gpu) for name in workload.applications}
    most = max(profile.tables.gpus_per_node for profile in profiles.values())
    gpus_per_node = GPU_NODES[gpu].gpus_per_node if gpu in GPU_NODES else most
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
        return Agent(profiles[name], slowdown=APPLICATIONS[name].slowdown if slowdown else 1.0)

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
