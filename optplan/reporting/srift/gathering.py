"""What a training job's report shows beside its result: the frontier, and one more VM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from optplan.contracts import Instance, ParetoFrontier, Result, Solution
from optplan.formulations.srift.data.instance import SriftSolution
from optplan.formulations.srift.study.pareto import OneMoreVm, value_of_one_more
from optplan.reporting.srift.words import require_job
from optplan.solving import pareto

#: Seconds that the frontier may take; what is known by then is shown.
_FRONTIER_LIMIT_S = 10.0
#: Seconds that finding the worth of one more VM may take for each type.
_MORE_LIMIT_S = 2.0


def gather_background(
    instance: Instance,
    result: Result[Solution],
    rivals: Sequence[Result[Solution]],  # noqa: ARG001 - what gathering is asked with
) -> tuple[ParetoFrontier, Sequence[OneMoreVm]]:
    """Return the frontier of fleets, and what one more VM of each type is worth."""
    job = require_job(instance)
    one_more = value_of_one_more(job, cast(Result[SriftSolution], result), time_limit_s=_MORE_LIMIT_S)
    return pareto(job, time_limit_s=_FRONTIER_LIMIT_S), one_more
