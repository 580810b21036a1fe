"""What a training job's report shows beside its result: the frontier, one more VM, the loss of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from optplan.contracts import Instance, ParetoFrontier, Result, Solution
from optplan.errors import OptplanError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, count_vms
from optplan.formulations.srift.study.pareto import OneMoreVm, value_of_one_more
from optplan.formulations.srift.study.replanning import FleetContinuation, FleetStanding, continue_run
from optplan.formulations.srift.study.timelines import Timeline, build_timeline
from optplan.reporting.srift.words import require_fleet, require_job
from optplan.solving import pareto, solve

#: Seconds that the frontier, and planning again after a loss, may take; what is known by then is shown.
_FRONTIER_LIMIT_S = 10.0
_LOSS_LIMIT_S = 5.0
#: Seconds that finding the worth of one more VM may take for each type.
_MORE_LIMIT_S = 2.0


@dataclass(frozen=True)
class Loss:
    """What would be done if one VM were lost in the middle of the run, or why nothing could be."""

    lost: str
    continuation: FleetContinuation | None = None
    timeline: Timeline | None = None
    failure: str = ""


@dataclass(frozen=True)
class Background:
    """The frontier of fleets, what one more VM of each type is worth, and the loss of a spot VM, if there is one."""

    frontier: ParetoFrontier
    one_more: Sequence[OneMoreVm]
    loss: Loss | None


def gather_background(
    instance: Instance,
    result: Result[Solution],
    rivals: Sequence[Result[Solution]],  # noqa: ARG001 - what gathering is asked with
) -> Background:
    """Solve what the report shows."""
    job = require_job(instance)
    return Background(
        frontier=pareto(job, time_limit_s=_FRONTIER_LIMIT_S),
        one_more=value_of_one_more(job, cast(Result[SriftSolution], result), time_limit_s=_MORE_LIMIT_S),
        loss=None if result.solution is None else _continue_after_loss(job, require_fleet(result.solution), result),
    )


def _continue_after_loss(instance: SriftInstance, fleet: SriftSolution, result: Result[Solution]) -> Loss | None:
    """Plan what would be done if a spot VM were lost in the middle of the run; None where there is none."""
    spot = [group for group in fleet.groups if instance.types[group.type].spot]
    if not spot or instance.iterations < 2:
        return None
    lost = max(spot, key=lambda group: group.count).type
    state = _lose_one(instance, fleet, lost, result)
    try:
        continuation = continue_run(instance, state, lambda rest: solve(rest, time_limit_s=_LOSS_LIMIT_S))
    except OptplanError as error:
        return Loss(lost, failure=str(error))
    new = continuation.result.solution
    timeline = build_timeline(
        instance, state, continuation.remainder, new=None if new is None else require_fleet(new), old=fleet
    )
    return Loss(lost, continuation, timeline)


def _lose_one(instance: SriftInstance, fleet: SriftSolution, lost: str, result: Result[Solution]) -> FleetStanding:
    """Return the state of the run when one VM of a type is lost after half of the iterations."""
    running = count_vms(fleet.groups)
    running[lost] -= 1
    done = instance.iterations // 2
    launch_s = result.measures["launch_s"]
    losses = instance.interruptions
    return FleetStanding(
        elapsed_s=launch_s + done * result.measures["iteration_s"],
        ready_s=launch_s,
        iterations_done=done,
        running={name: count for name, count in running.items() if count},
        lost={lost: 1},
        restart_s=losses.restart_s if losses is not None else 0.0,
    )
