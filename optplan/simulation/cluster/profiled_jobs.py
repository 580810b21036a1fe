"""Jobs of the public traces: arrivals from a workload, and what is true of them from the measured profiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from optplan.instances.sia import (
    APPLICATIONS,
    GPU_NODES,
    CannotRunError,
    EpochProfile,
    Infeasible,
    Workload,
    derive_epochs,
)
from optplan.instances.sia_profiles import read_profile_tables
from optplan.schema import FloatArray, IntArray
from optplan.simulation.cluster.jobs import Job, Spread, consolidate

#: Up to this width, profiles are derived together, which costs hardly more than one of them.
_DERIVED_TOGETHER = 64


class ProfiledApplication:
    """An application as it was measured: the data pack's table method, placement by placement.

    A placement that was not measured is interpolated, and what lies beyond all measurements comes from the fitted
    model, as in :func:`~optplan.instances.sia.derive_epochs`. Times are kept once they are derived.

    Parameters
    ----------
    profiles_dir
        Folder with one folder per application.
    name
        Of the application.
    gpu
        Suffix of the profiles.
    gpus_per_node
        GPUs of one node.
    slowdown
        Whether times include the factor by which Sia's cluster was slower than the profiles.

    Attributes
    ----------
    provenance
        By spread that was asked for: where its times come from, ``measured``, ``measured-scalability``,
        ``interpolated`` or ``fitted``.
    """

    def __init__(
        self, profiles_dir: Path | str, name: str, gpu: str, gpus_per_node: int, *, slowdown: bool = False
    ) -> None:
        self._where, self._slowdown = (profiles_dir, name, gpu), slowdown
        self._gpus_per_node = gpus_per_node
        self._times: dict[Spread, FloatArray | None] = {}
        self._origins: dict[Spread, str] = {}
        self._derived_to = 0
        self.provenance: dict[Spread, str] = {}

    @property
    def num_epochs(self) -> int:
        """Epochs of a job."""
        return APPLICATIONS[self._where[1]].epochs

    @property
    def rescale_s(self) -> float:
        """Seconds that every start and change takes."""
        return APPLICATIONS[self._where[1]].rescale_s

    def epoch_times_s(self, spread: Spread) -> FloatArray | None:
        """Return the seconds of each epoch, shape (epochs,); None where the application cannot run."""
        gpus = sum(spread)
        together = spread == consolidate(gpus, self._gpus_per_node)
        if together and gpus > self._derived_to:
            self._derive_together(gpus)
        elif not together and spread not in self._times:
            self._keep(np.array([gpus]), spread)
        if spread in self._origins:
            self.provenance[spread] = self._origins[spread]
        return self._times[spread]

    def largest_width(self, gpus: int) -> int:
        """Return the most GPUs, up to a number, on which it runs when they are together; 0 where there are none."""
        for width in range(gpus, 0, -1):
            if self.epoch_times_s(consolidate(width, self._gpus_per_node)) is not None:
                return width
        return 0

    def _derive_together(self, gpus: int) -> None:
        """Derive all widths up to one at once, those that are not known yet."""
        to = max(gpus, _DERIVED_TOGETHER)
        self._keep(np.arange(self._derived_to + 1, to + 1))
        self._derived_to = to

    def _keep(self, widths: IntArray, spread: Spread | None = None) -> None:
        """Derive widths, together or spread in one way, and keep what comes out."""
        spreads = {int(k): spread or consolidate(int(k), self._gpus_per_node) for k in widths}
        self._times.update(dict.fromkeys(spreads.values()))
        asked = widths if spread is None else {sum(spread): "".join(map(str, spread))}
        try:
            profile = derive_epochs(*self._where, asked, slowdown=self._slowdown, infeasible=Infeasible.LEAVE_OUT)
        except CannotRunError:
            return
        times_s = _times_s(profile)
        for place, width in enumerate(profile.widths.tolist()):
            self._times[spreads[width]] = times_s[:, place]
            self._origins[spreads[width]] = profile.provenance[place]


def _times_s(profile: EpochProfile) -> FloatArray:
    """Return the seconds of each epoch on each width, (epochs, widths)."""
    return np.asarray(profile.sizes_s[:, None] / profile.speedup)


def make_jobs(
    workload: Workload, profiles_dir: Path | str, gpu: str, *, slowdown: bool = False
) -> tuple[list[Job], int]:
    """Make the jobs of a workload.

    Parameters
    ----------
    workload
        Which jobs arrive when.
    profiles_dir
        Folder with one folder per application.
    gpu
        Suffix of the profiles, such as ``aws``.
    slowdown
        Whether times include the factor by which Sia's cluster was slower than the profiles.

    Returns
    -------
    tuple
        The jobs, and the GPUs of one node.

    Raises
    ------
    CannotRunError
        When an application has no profile for this type of GPU.
    DataError
        When a profile is missing or wrong.
    """
    tables = [read_profile_tables(profiles_dir, APPLICATIONS[name], gpu) for name in workload.applications]
    gpus_per_node = GPU_NODES[gpu].gpus_per_node if gpu in GPU_NODES else max(one.gpus_per_node for one in tables)
    truths = [
        ProfiledApplication(profiles_dir, name, gpu, gpus_per_node, slowdown=slowdown) for name in workload.applications
    ]
    requested = workload.requested_gpus
    rows = zip(workload.job_names, workload.application_index.tolist(), strict=True)
    return [
        Job(
            name=name,
            application=workload.applications[which],
            submitted_s=float(workload.submission_s[number]),
            truth=truths[which],
            requested_gpus=None if requested is None else int(requested[number]),
        )
        for number, (name, which) in enumerate(rows)
    ], gpus_per_node
