"""How a fleet is watched, and what was heard of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optplan.contracts import Result
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution


@dataclass(frozen=True)
class Terms:
    """How a run is watched.

    Parameters
    ----------
    heartbeat_s
        How often every rank reports.
    launch_s
        Until new VMs can train, for the plans of the rest; None: as the instance says.
    launch_wait_s
        How long to wait for a VM's first report before it is taken for lost.
    detach_s
        Until what a lost VM has stored can be used.
    grace_s
        How long to wait for a checkpoint, and for ranks to end.
    checkpoint_every_s
        How often the lowest rank stores the state unasked.
    retries
        How often a fleet may fail without losing a VM.
    solve
        Solves what is left.
    """

    solve: Callable[[SriftInstance], Result[SriftSolution]]
    heartbeat_s: float = 5.0
    launch_s: float | None = None
    launch_wait_s: float = 900.0
    detach_s: float = 0.0
    grace_s: float = 60.0
    checkpoint_every_s: float = 600.0
    retries: int = 2


class Heard:
    """What was heard of the ranks of a fleet; a monitor that begins anew hears it again."""

    def __init__(self) -> None:
        self.last_s: dict[int, float] = {}
        self.troubled_s: dict[int, float] = {}
        self.trouble = ""
        self.ended: set[int] = set()
        self.left: set[int] = set()
