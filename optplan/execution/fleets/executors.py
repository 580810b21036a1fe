"""Who starts the VMs and ranks of fleets, by the name that users choose them by."""

from __future__ import annotations

from pathlib import Path

from optplan.execution.fleets.protocol import Fleet
from optplan.execution.fleets.terms import FleetOptions


def make_fleet(options: FleetOptions, folder: Path, *, now_s: float) -> Fleet:
    """Make what starts the VMs and ranks of fleets in a folder.

    Raises
    ------
    MissingExtraError
        When what it needs is not installed.
    UsageError
        When there is no Ray cluster at the address.
    """
    if options.executor == "slurm":
        from optplan.execution.fleets.slurm import SlurmFleet

        return SlurmFleet(folder, options.command, options.sbatch, options.gres, now_s=now_s)
    if options.executor == "ray":
        from optplan.execution.fleets.ray import RayFleet

        return RayFleet(folder, options.command, options.address, now_s=now_s)
    from optplan.execution.fleets.folder import CommandFleet, LocalFleet

    made = LocalFleet if options.executor == "local" else CommandFleet
    return made(folder, options.command, now_s=now_s)
