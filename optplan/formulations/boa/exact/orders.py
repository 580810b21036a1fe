"""Problems whose parts have no order: several GPU types with real widths, solved in the order of the names.

Where choices are equally good, solvers take the first; with classes and types in the order of their names that is the
same one in whatever order a file lists them, as the hash of its content is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from optplan.contracts import Answer, SolveRequest
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Problem

Solve = Callable[[BoaInstance, SolveRequest], Answer[BoaSolution]]


def in_order(solve: Solve) -> Solve:
    """Make a solver look at classes and types in the order of their names."""

    @wraps(solve)
    def solve_in_order(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
        return solve(put_in_order(instance), request)

    return solve_in_order


def put_in_order(instance: BoaInstance) -> BoaInstance:
    """Return the instance with classes and types in the order of their names; itself with one type, or whole widths."""
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
