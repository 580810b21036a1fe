"""The same number of GPUs for every job: with one it is what those do who do not scale at all."""

from __future__ import annotations

from optplan.errors import UsageError
from optplan.simulation.cluster.policies.in_turn import InTurn


def hold_one_width(gpus: int) -> InTurn:
    """Return the policy that gives each job so many GPUs, first come, first served.

    Parameters
    ----------
    gpus
        At least 1.
    """
    if gpus < 1:
        raise UsageError(f"one-width: got {gpus}; a job needs at least 1 GPU")
    return InTurn("one-gpu" if gpus == 1 else f"one-width:{gpus}", lambda _: gpus)
