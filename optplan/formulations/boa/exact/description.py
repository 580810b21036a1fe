"""What solvers are matched against."""

from __future__ import annotations

from optplan.contracts.parts import Description
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem, any_real_widths


def describe(instance: BoaInstance) -> Description:
    """Return what solvers are matched against: problem, policy, the number of (class, epoch, option) choices, features.

    The features are what an instance has beyond one GPU type and one budget: ``gpu-types`` for several types or
    interruptions, ``quotas`` for limits on types, ``due-dates`` for limits on classes' mean completion times,
    ``floors`` for the least GPUs on which a class's jobs run, ``type-changes`` where leaving a type costs extra,
    ``real-widths`` where speedups have closed forms between whole widths, ``whole-nodes`` where jobs share none,
    ``most-gpus`` for a limit on the GPUs in use at once.
    """
    cells = sum(c.num_epochs * instance.options(n).widths.size for n, c in instance.classes.items())
    features = {
        "gpu-types": instance.is_typed,
        "quotas": bool(instance.quotas),
        "due-dates": bool(instance.due_s),
        "floors": bool(instance.floors),
        "type-changes": any(instance.options(name).changes_cost for name in instance.classes),
        "whole-nodes": bool(instance.whole_nodes),
        "most-gpus": instance.most_gpus is not None,
        "real-widths": instance.problem is Problem.CONTINUOUS and any_real_widths(instance),
    }
    return Description(
        problem=instance.problem.value,
        policy=(Policy.MIXED if instance.is_mixed else Policy.PURE).value,
        cells=int(cells),
        features=frozenset(name for name, needed in features.items() if needed),
    )
