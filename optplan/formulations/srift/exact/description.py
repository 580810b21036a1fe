"""What solvers are matched against."""

from __future__ import annotations

from optplan.contracts.parts import Description
from optplan.formulations.srift.data.instance import SriftInstance


def describe(instance: SriftInstance) -> Description:
    """Return what solvers are matched against: problem, policy, the number of (type, batch, count) choices, features.

    The policy says whether the VMs of a type share one batch; the features are ``interruptions`` for expectations
    under the loss of spot VMs and ``running`` for VMs that must be kept.
    """
    cells = sum(len(batches) * instance.most_of(name) for name, batches in instance.batches_of.items())
    features = {
        "interruptions": instance.interruptions is not None,
        "running": any(vm.running for vm in instance.types.values()),
    }
    return Description(
        problem=instance.problem.value,
        policy=instance.policy.value,
        cells=cells,
        features=frozenset(name for name, present in features.items() if present),
    )
