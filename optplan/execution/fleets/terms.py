"""How a fleet is watched, and what was heard of it."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from optplan.formulations.srift.planning import SriftPlan
from optplan.schema import ByName, FrozenModel

_Amount = Annotated[float, Field(ge=0)]
_Positive = Annotated[float, Field(gt=0)]


#: Heartbeats that a silent VM has to come back, unless options say otherwise.
RETURN_HEARTBEATS = 6


class WatchOptions(FrozenModel):
    """How a fleet is watched; stored with the run, so that going on needs nothing else.

    Parameters
    ----------
    executor
        Who starts VMs and ranks: the virtual clock, this machine, a command of the user's, Ray, or Slurm.
    command
        What is run: for each rank, or for each fleet where it is what starts VMs.
    address
        Of the Ray cluster, ``HOST:PORT`` or ``auto``.
    sbatch, gres
        On Slurm: options of sbatch by their long name, in which ``{type}`` is the type of the VM whose job it is; and
        what a GPU is called in ``--gres``; empty asks for none.
    heartbeat_s
        How often every rank reports.
    launch_s
        Until new VMs can train, for the plans of the rest; None: as the instance says.
    launch_wait_s
        How long to wait for a VM's first report before it is taken for lost.
    return_s
        How long a VM that has fallen silent has to come back, from when it is missed: then it is taken back, and the
        fleet starts again as it was. None: :data:`RETURN_HEARTBEATS` heartbeats.
    detach_s
        Until what a lost VM has stored can be used.
    grace_s
        How long to wait for a checkpoint, and for ranks to end.
    checkpoint_every_s
        How often the lowest rank stores the state unasked.
    retries
        How often a fleet may fail without losing a VM, and how often each VM may come back.
    time_limit_s
        For each plan of the rest: VMs are paid meanwhile. The paper gives 1 s (5.4).
    """

    executor: Literal["virtual", "local", "command", "ray", "slurm"] = "virtual"
    command: str = ""
    address: str = ""
    sbatch: ByName[str] = Field(default_factory=dict)
    gres: str = "gpu"
    heartbeat_s: _Positive = 5.0
    launch_s: _Amount | None = None
    launch_wait_s: _Positive = 900.0
    return_s: _Amount | None = None
    detach_s: _Amount = 0.0
    grace_s: _Positive = 60.0
    checkpoint_every_s: _Amount = 600.0
    retries: Annotated[int, Field(ge=0)] = 2
    time_limit_s: _Positive = 20.0


class Heard:
    """What was heard of the ranks of a fleet; a monitor that begins anew hears it again, until it has caught up."""

    def __init__(self) -> None:
        self.caught_up_s = math.inf
        self.iterations = 0
        self.last_s: dict[int, float] = {}
        self.troubled_s: dict[int, float] = {}
        self.trouble = ""
        self.ended: set[int] = set()
        self.left: set[int] = set()


def write_fleet(plan: SriftPlan, between: str = " + ") -> str:
    """Write a plan's fleet for a reader: ``1 p3.8xlarge@512 + 8 g3.8xlarge@64``."""
    return between.join(f"{group.count} {group.type}@{group.batch_per_vm}" for group in plan.fleet)
