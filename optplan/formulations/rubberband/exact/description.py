"""What solvers are matched against."""

from __future__ import annotations

from optplan.contracts.parts import Description
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.exact.stage_options import count_options


def describe(instance: RubberBandInstance) -> Description:
    """Return what solvers are matched against: problem, mode, the number of (stage, option) choices, features.

    The features are what an instance has beyond one cluster billed by instance: ``side-by-side`` for several
    clusters, ``per-function`` for that billing.
    """
    features = {
        "side-by-side": len(instance.brackets) > 1,
        "per-function": not instance.cloud.is_per_instance,
    }
    return Description(
        problem=instance.problem.value,
        policy=instance.mode.value,
        cells=count_options(instance),
        features=frozenset(name for name, present in features.items() if present),
    )
