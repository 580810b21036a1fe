"""An instance with one of its limits set by its name, as a remedy says it."""

from __future__ import annotations

from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance
from optplan.units import Amount


def set_limit(instance: BoaInstance, limit: str, amount: float) -> BoaInstance:
    """Return the instance with an amount, in the unit of its own field, for one limit."""
    if limit == BUDGET:
        assert instance.budget is not None
        return instance.replace(budget=Amount(amount, instance.budget.unit))
    if limit.startswith(QUOTA):
        name, field, whole = limit.removeprefix(QUOTA), "quota_gpus", "gpu_types"
    elif limit.startswith(DUE):
        name, field, whole = limit.removeprefix(DUE), "most_mean_jct_s", "classes"
    else:
        name, field, whole = limit.removeprefix(FLOOR), "least_mean_gpus", "classes"
    members = getattr(instance, whole)
    return instance.replace(**{whole: dict(members) | {name: members[name].replace(**{field: amount})}})
