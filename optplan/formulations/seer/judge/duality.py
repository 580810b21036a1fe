"""The bound that needs no search: nobody trains for longer than the budget pays.

For multipliers mu of the budget and nu of the deadline, no search that keeps both trains for more than

    sup over all searches of (training - mu spent - nu time) + mu B + nu T

GPU-minutes. Spending is training and pausing, so with mu >= 1 the supremum is that of no search at all, zero, and the
bound mu B + nu T; with less, longer searches gain without end. The best choice is mu = 1 and nu = 0: the budget.
"""

from __future__ import annotations

import math

from optplan.contracts.result import BoundProof, LagrangianCertificate
from optplan.formulations.seer.data.instance import BUDGET, DEADLINE, Objective, SeerInstance


def dual_bound(instance: SeerInstance, multipliers: dict[str, float]) -> float:
    """Return what no search within the limits can train for, by these multipliers.

    Parameters
    ----------
    instance
        The problem.
    multipliers
        By limit: GPU-minutes of training per GPU-minute of the budget, and per minute of the deadline.

    Returns
    -------
    float
        GPU-minutes; infinite where the budget has a multiplier below one.
    """
    if multipliers[BUDGET] < 1.0:
        return math.inf
    return multipliers[BUDGET] * instance.budget_gpu_min + multipliers[DEADLINE] * instance.deadline_min


def certify_budget(instance: SeerInstance) -> LagrangianCertificate:
    """Make the certificate that the budget is a bound."""
    return LagrangianCertificate(multipliers={BUDGET: 1.0, DEADLINE: 0.0}, bound=instance.budget_gpu_min)


def list_proofs(instance: SeerInstance) -> frozenset[BoundProof]:
    """Return the kinds of certificate that prove anything: the budget bounds training, and says nothing of a loss."""
    return frozenset() if instance.objective is Objective.QUALITY else frozenset({BoundProof.LAGRANGIAN})
