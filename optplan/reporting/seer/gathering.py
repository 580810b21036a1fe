"""What a search's report shows beside its result: what other budgets would buy before the same deadline."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts import Instance, ParetoFrontier, Result, Solution
from optplan.formulations.seer.data.instance import BUDGET
from optplan.reporting.presenters import Others
from optplan.reporting.seer.words import require_seer, seeks_quality
from optplan.reporting.trying import STEPS, solve_others
from optplan.solving import pareto

#: Seconds that a frontier of expected losses may take.
_LIMIT_S = 5.0


def gather_background(
    instance: Instance,
    result: Result[Solution],  # noqa: ARG001 - what gathering is asked with
    rivals: Sequence[Result[Solution]],  # noqa: ARG001
) -> ParetoFrontier | Others:
    """Return the frontier of expected losses where quality is sought, else what some budgets buy."""
    search = require_seer(instance)
    return pareto(search, time_limit_s=_LIMIT_S) if seeks_quality(search) else _solve_budgets(search)


def gather_others(instance: Instance, background: ParetoFrontier | Others) -> Others:
    """Solve for the same budgets: their plans change in jumps that no frontier knows, so each holds for its own."""
    return background if isinstance(background, Others) else _solve_budgets(instance)


def _solve_budgets(instance: Instance) -> Others:
    own = instance.limit_as_given(BUDGET)[0]
    return solve_others(instance, BUDGET, [own * step for step in STEPS])
