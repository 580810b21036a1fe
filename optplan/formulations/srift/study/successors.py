"""The plan by which a fleet goes on that has lost VMs: of the rest, in the place of the plan before (4.5)."""

from __future__ import annotations

from optplan.contracts import Infeasibility
from optplan.errors import UsageError
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.planning import SriftPlan, build_plan
from optplan.formulations.srift.study.replanning import Solve, State, continue_run


def succeed(
    instance: SriftInstance, plan: SriftPlan, state: State, solve: Solve
) -> tuple[SriftPlan | None, Infeasibility | None]:
    """Plan the rest of a run anew.

    Parameters
    ----------
    instance
        The problem of the whole run, with the limits that hold now.
    plan
        The one that was followed until now.
    state, solve
        As of :func:`~optplan.formulations.srift.study.replanning.continue_run`.

    Returns
    -------
    tuple
        A plan of what is left, which holds its problem and names the plan that it supersedes; or None and why the
        limits cannot be kept, and what they would have to be.

    Raises
    ------
    DataError
        When the state does not belong to the instance.
    UsageError
        When the solver found no fleet in its time, and no proof that there is none.
    """
    continuation = continue_run(instance, state, solve)
    if continuation.infeasibility is not None:
        return None, continuation.infeasibility
    if continuation.result.solution is None or continuation.remainder.gone:
        raise UsageError("time_limit_s: no fleet was found in that time, nor that there is none; give more")
    rest = continuation.remainder.instance
    made = build_plan(rest, continuation.result)
    return made.replace(plan_id="", supersedes=plan.plan_id, instance=rest.to_json_data()), None
