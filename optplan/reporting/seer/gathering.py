"""What a search's report shows beside its result: what other budgets would buy before the same deadline."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts import Instance, ParetoFrontier, ParetoPoint, Result, Solution, SolveRequest
from optplan.formulations.seer.study.frontiers import spend_budgets
from optplan.progress import Stopwatch
from optplan.reporting.seer.words import require_seer, seeks_quality
from optplan.solving import pareto

#: Budgets that the report compares, relative to the instance's own; and seconds that this may take.
_BUDGET_STEPS = tuple(2.0 ** (step / 2) for step in range(-4, 5))
_LIMIT_S = 5.0


def gather_background(
    instance: Instance,
    result: Result[Solution],  # noqa: ARG001 - what gathering is asked with
    rivals: Sequence[Result[Solution]],  # noqa: ARG001
) -> ParetoFrontier | Sequence[ParetoPoint]:
    """Return the frontier of expected losses where quality is sought, else what some budgets buy."""
    search = require_seer(instance)
    if seeks_quality(search):
        return pareto(search, time_limit_s=_LIMIT_S)
    return spend_budgets(search, _BUDGET_STEPS, SolveRequest(stopwatch=Stopwatch(_LIMIT_S)))
