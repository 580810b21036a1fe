"""What tests of several rooms share: every plan of a tiny search."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from optplan.formulations.rubberband.data.allocations import explain_refusal
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution, StageAllocation
from optplan.formulations.rubberband.laws.stages import option_of

ListPlans = Callable[[RubberBandInstance], list[RubberBandSolution]]


@pytest.fixture(scope="session")
def list_every_plan() -> ListPlans:
    """Return a function that lists all plans that the rules allow, more than any solver considers."""

    def list_plans(instance: RubberBandInstance) -> list[RubberBandSolution]:
        most, chains = instance.cloud.most_instances or 0, []
        for bracket, stages in enumerate(instance.brackets):
            choices = [
                [
                    StageAllocation(instances=held, gpus=gpus)
                    for gpus in range(1, most * instance.cloud.gpus_per_instance + 1)
                    if not explain_refusal(instance, stage, gpus)
                    for held in range(int(option_of(instance, bracket, number, gpus).instances[0]), most + 1)
                ]
                for number, stage in enumerate(stages)
            ]
            chains.append(list(product(*choices)))
        return [RubberBandSolution(brackets=brackets) for brackets in product(*chains)]

    return list_plans
