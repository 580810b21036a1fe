"""What no search can do, by multipliers: train for longer than the budget pays, or take less than one trial.

For multipliers mu of the budget and nu of the deadline, no search that keeps both trains for more than

    sup over all searches of (training - mu spent - nu time) + mu B + nu T

GPU-minutes. Spending is training and pausing, and what nodes have besides where the budget counts them, so with
mu >= 1 the supremum is that of no search at all, zero, and the bound mu B + nu T; with less, longer searches gain
without end. The best choice is mu = 1 and nu = 0: the budget.

All that is about GPU-minutes of training. Of an expected final loss multipliers say nothing.
"""

from __future__ import annotations

import math

from optplan.contracts.result import BoundProof
from optplan.formulations.seer.data.brackets import paid_gpus
from optplan.formulations.seer.data.instance import BUDGET, DEADLINE, Objective, SeerInstance
from optplan.progress import Stopwatch
from optplan.schema import FloatArray


def dual_bound(
    instance: SeerInstance,
    multipliers: dict[str, float],
    stopwatch: Stopwatch | None = None,  # noqa: ARG001 - at once
) -> float:
    """Return the GPU-minutes that no search within the limits can train for, by these multipliers.

    They are GPU-minutes of training per GPU-minute of the budget, and per minute of the deadline. Infinite where the
    budget has one below one; for ``quality`` minus infinity, in loss.
    """
    if instance.objective is Objective.QUALITY:
        return -math.inf
    if multipliers[BUDGET] < 1.0:
        return math.inf
    return multipliers[BUDGET] * instance.budget_gpu_min + multipliers[DEADLINE] * instance.deadline_min


def least_consumption(
    instance: SeerInstance,
    weights: FloatArray,
    stopwatch: Stopwatch | None = None,  # noqa: ARG001 - at once
) -> dict[str, float]:
    """Return the least weighted consumption of any search: that of one trial for the shortest round on p_min GPUs.

    ``weights`` are (2,), in the order of ``instance.limits``, which are not looked at.
    """
    gpu_min = paid_gpus(instance.nodes_paid, instance.least_gpus, 1) * instance.least_round_min
    return {"one trial": float(weights[0] * gpu_min + weights[1] * instance.least_round_min)}


def list_proofs(instance: SeerInstance) -> frozenset[BoundProof]:
    """Return the kinds of certificate that prove anything: the budget bounds training, and says nothing of a loss."""
    if instance.objective is Objective.QUALITY:
        return frozenset()
    return frozenset({BoundProof.LAGRANGIAN, BoundProof.TREE})
