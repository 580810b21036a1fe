"""What multipliers of the limits prove, and the shadow prices that they are."""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts.result import LagrangianCertificate, ShadowPrice
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance
from optplan.formulations.boa.exact.costs import bound_at
from optplan.solvers.limits import is_lost


def certificate_at(instance: BoaInstance, *multipliers: float) -> LagrangianCertificate:
    """Return what multipliers in the order of ``instance.limit_names`` prove; zeros where rounding leaves nothing."""
    return certify_bound(instance, bound_at(instance, np.array(multipliers)), *multipliers)


def certify_bound(instance: BoaInstance, bound: float, *multipliers: float) -> LagrangianCertificate:
    """Return the certificate of a bound, or of what zeros prove where rounding leaves nothing of it."""
    weights = np.array(multipliers)
    if is_lost(bound, float(weights @ np.array(list(instance.limits.values())))):
        weights = np.zeros(weights.size)
        bound = bound_at(instance, weights)
    return LagrangianCertificate(
        multipliers=dict(zip(instance.limit_names, weights.tolist(), strict=True)), bound=bound
    )


def price_of(instance: BoaInstance, less: float, more: float, limit: str = BUDGET) -> ShadowPrice:
    """Return the shadow price of a limit; infinite on the side on which nothing is feasible becomes None."""
    # Where the two are the same, rounding may turn their order.
    ends = (max(less, more), more)
    return ShadowPrice(less=ends[0] if math.isfinite(less) else None, more=ends[1], unit=instance.price_unit(limit))


def price_at(instance: BoaInstance, limit: str, multipliers: dict[str, float]) -> ShadowPrice:
    """Return the shadow price of a limit that has the same slope on both sides, at multipliers of all limits."""
    ends = multipliers if len(multipliers) > 1 else {}
    price = multipliers[limit]
    unit = instance.price_unit(limit)
    return ShadowPrice(less=price, more=price, unit=unit, less_multipliers=ends, more_multipliers=ends)
