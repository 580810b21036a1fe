"""What two answers for training jobs are compared by: time, cost, proof, and the VMs of each type."""

from __future__ import annotations

from optplan.contracts import Plan, Result, Solution
from optplan.formulations.srift.data.instance import SriftSolution
from optplan.formulations.srift.planning import SriftPlan
from optplan.reporting.differences import COUNT, SECONDS, Fact
from optplan.reporting.plain_differences import state_figures

_FIGURES = (
    ("time", "time_s", SECONDS),
    ("cost", "cost_usd", "usd"),
    ("an iteration", "iteration_s", SECONDS),
    ("of it forward", "forward_s", SECONDS),
    ("of it backward", "backward_s", SECONDS),
    ("exchange of gradients", "exchange_s", SECONDS),
    ("samples a second", "samples_per_s", COUNT),
    ("VMs", "vms", COUNT),
    ("ranks", "ranks", COUNT),
)


def state_answer(answer: Result[Solution] | Plan) -> list[Fact]:
    """State what an answer says, VMs of each type last."""
    return [*state_figures(answer, _FIGURES), *_state_fleet(answer)]


def _state_fleet(answer: Result[Solution] | Plan) -> list[Fact]:
    if isinstance(answer, SriftPlan):
        listed = [(vms.type, vms.batch_per_vm, vms.count) for vms in answer.fleet]
    elif isinstance(answer, Result) and isinstance(answer.solution, SriftSolution):
        listed = [(group.type, group.batch, group.count) for group in answer.solution.groups]
    else:
        return []
    return [Fact(name, f"VMs with {batch:,} samples", f"{name}@{batch}", count, COUNT) for name, batch, count in listed]
