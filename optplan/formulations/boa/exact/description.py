"""What solvers are matched against, and in which order they look at the parts of a problem."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from optplan.contracts import Answer, SolveRequest
from optplan.contracts.parts import Description
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Policy, Problem, has_real_widths


def describe(instance: BoaInstance) -> Description:
    """Return what solvers are matched against: problem, policy, the number of (class, epoch, option) choices, features.

    The features are what an instance has beyond one GPU type and one budget: ``gpu-types`` for several types or
    interruptions, ``quotas`` for limits on types, ``due-dates`` for limits on classes' mean completion times,
    ``floors`` for the least GPUs on which a class's jobs run, ``type-changes`` where leaving a type costs extra,
    ``real-widths`` where speedups have closed forms between whole widths, ``whole-nodes`` where jobs share none,
    ``most-gpus`` for a limit on the GPUs in use at once, ``commitments`` where the budget counts committed GPUs.
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
        "commitments": instance.commits,
        "real-widths": instance.problem is Problem.CONTINUOUS
        and any(has_real_widths(instance, name, one) for name, c in instance.classes.items() for one in c.speedup),
    }
    return Description(
        problem=instance.problem.value,
        policy=(Policy.MIXED if instance.is_mixed else Policy.PURE).value,
        cells=int(cells),
        features=frozenset(name for name, needed in features.items() if needed),
    )


Solve = Callable[[BoaInstance, SolveRequest], Answer[BoaSolution]]


def in_order(solve: Solve) -> Solve:
    """Make a solver look at classes and types in the order of their names."""

    @wraps(solve)
    def solve_in_order(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
        return solve(put_in_order(instance), request)

    return solve_in_order


def put_in_order(instance: BoaInstance) -> BoaInstance:
    """Return the instance with classes and types by name, so that of equal choices the same one comes first."""
    if len(instance.gpu_types) == 1 or instance.problem is not Problem.CONTINUOUS:
        return instance
    fields = {name: getattr(instance, name) for name in type(instance).model_fields}
    fields["gpu_types"] = dict(sorted(instance.gpu_types.items()))
    fields["classes"] = {
        name: job_class.model_copy(update={"speedup": dict(sorted(job_class.speedup.items()))})
        for name, job_class in sorted(instance.classes.items())
    }
    # What was validated in one order is valid in any.
    return BoaInstance.model_construct(**fields)
