"""What a fleet takes and costs, for solvers that look at many.

The evaluator judges one fleet on its own. Here what fleets have in common is computed once, which makes the next one
about as quick as its simulation.
"""

from __future__ import annotations

from dataclasses import dataclass

from optplan.formulations.srift.data.instance import BUDGET, DEADLINE, Objective, SriftInstance, VmGroup
from optplan.formulations.srift.data.solution import count_vms
from optplan.formulations.srift.laws.interruptions import expect_training, interruption_rate_per_s
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.solvers.limits import LIMIT_TOLERANCE

#: By which share a limit may be exceeded: the solvers' side of what the evaluator allows.
TOLERANCE = LIMIT_TOLERANCE


@dataclass(frozen=True, slots=True)
class JudgedFleet:
    """A fleet with its time and cost; whether it reaches the batch is not looked at."""

    groups: tuple[VmGroup, ...]
    #: As the evaluator defines them; infinite where a run with interruptions never ends.
    time_s: float
    cost_usd: float
    objective: float  # the one of the two that is made least
    #: By how much each of the instance's limits is exceeded, relative to it; zero where it is kept.
    excess: tuple[float, ...]

    @property
    def keeps_limits(self) -> bool:
        """Whether no limit is exceeded."""
        return not any(self.excess)


class FleetJudge:
    """Predicts time and cost of an instance's fleets, by a model that may have looked at some already."""

    def __init__(self, instance: SriftInstance, model: IterationModel | None = None) -> None:
        self.instance = instance
        self._model = IterationModel(instance) if model is None else model
        self._price_usd_per_s = {name: vm.price_usd_per_s for name, vm in instance.types.items()}

    def judge(self, groups: tuple[VmGroup, ...]) -> JudgedFleet:
        """Return what a fleet takes and costs."""
        instance = self.instance
        training_s = billed_s = instance.iterations * self._model.predict(groups).total_s
        if instance.interruptions is not None:
            rate_per_s = interruption_rate_per_s(instance, groups)
            training_s, billed_s = map(float, expect_training(training_s, rate_per_s, instance.interruptions))
        launch_s = instance.launch_s if self._launches(groups) else 0.0
        time_s = launch_s + training_s
        billed_s += launch_s if instance.launch_billed else 0.0
        cost_usd = billed_s * sum(group.count * self._price_usd_per_s[group.type] for group in groups)
        used = {DEADLINE: time_s, BUDGET: cost_usd}
        excess = tuple(
            used[limit] / most - 1.0 if used[limit] > most * (1.0 + TOLERANCE) else 0.0
            for limit, most in instance.limits.items()
        )
        objective = cost_usd if instance.objective is Objective.COST else time_s
        return JudgedFleet(groups, time_s, cost_usd, objective, excess)

    def _launches(self, groups: tuple[VmGroup, ...]) -> bool:
        """Whether the fleet has more VMs of any type than are running."""
        types = self.instance.types
        return any(count > types[name].running for name, count in count_vms(groups).items())
