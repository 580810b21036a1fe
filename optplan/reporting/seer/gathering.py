"""What a search's report shows beside its result: what other budgets would buy before the same deadline."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts import Instance, ParetoFrontier, ParetoPoint, Result, Solution, SolveRequest
from optplan.formulations.seer.data.instance import BUDGET
from optplan.formulations.seer.study.frontiers import plan_amounts
from optplan.progress import Stopwatch
from optplan.reporting.presenters import Others
from optplan.reporting.seer.words import require_seer, seeks_quality
from optplan.reporting.trying import STEPS, solve_others
from optplan.solving import pareto

#: Seconds that comparing budgets may take.
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
    return plan_amounts(search, BUDGET, STEPS, SolveRequest(stopwatch=Stopwatch(_LIMIT_S)))


def gather_others(instance: Instance, background: object) -> Others:  # noqa: ARG001 - what gathering is asked with
    """Solve for the same budgets: their plans change in jumps that no frontier knows, so each holds for its own."""
    own = instance.limit_as_given(BUDGET)[0]
    return solve_others(instance, BUDGET, [own * step for step in STEPS])
