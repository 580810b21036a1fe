"""From a choice to a plan: which VMs to start, in which configuration, and until when they train."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from optplan.contracts.conditions import IterationsDone, Started
from optplan.contracts.plan import Binding, Expected, Plan, Segment, Semantics, Unit, UnitKind, limit_time_and_money
from optplan.contracts.resources import Resource
from optplan.contracts.result import Result, describe_origin, require_solution
from optplan.formulations.throughputs.data import ThroughputsInstance, ThroughputsSolution
from optplan.formulations.throughputs.judge import evaluate
from optplan.units import SECONDS_PER_HOUR


class ThroughputsPlan(Plan):
    """One group of VMs that train one job together."""

    formulation: Literal["throughputs"] = "throughputs"
    configuration: str = ""  # how the training is spread over the VMs
    samples_per_s: Annotated[float, Field(gt=0)]  # measured, or interpolated
    is_interpolated: bool


def build_plan(instance: ThroughputsInstance, result: Result[ThroughputsSolution]) -> ThroughputsPlan:
    """Turn a choice into VMs to start."""
    solution = require_solution(result)
    judged = evaluate(instance, solution)
    measures, vm = judged.measures, instance.types[solution.type]
    unit = Unit(
        id=solution.type,
        label=f"{solution.vms:,} {solution.type}, {solution.configuration or 'as measured'}",
        kind=UnitKind.FLEET_GROUP,
    )
    gpus, batch = solution.vms * vm.gpus, instance.global_batch or 1
    segment = Segment(
        id=f"train/{unit.id}",
        label=unit.label,
        unit=unit.id,
        resource=solution.type,
        pool=unit.id,
        nodes=solution.vms,
        workers=gpus,
        enter=Started(),
        exit=IterationsDone(iterations=math.ceil(instance.samples / batch)),
        expected=Expected(
            seconds=measures["time_s"],
            pause_s=instance.launch_s,
            launch_s=instance.launch_s,
            member_s=measures["training_s"],
            iteration_s=batch / measures["samples_per_s"],
            gpu_hours=gpus * measures["billed_s"] / SECONDS_PER_HOUR,
            busy_gpu_hours=gpus * measures["training_s"] / SECONDS_PER_HOUR,
            cost_usd=measures["cost_usd"],
        ),
    )
    return ThroughputsPlan(
        **describe_origin(result),
        objective=judged.objective,
        limits=limit_time_and_money(instance.limits, Binding.HARD),
        resources={
            solution.type: Resource.of(
                vm,
                gpu_type=vm.gpu or solution.type,
                gpus_per_node=vm.gpus,
                launch_s=instance.launch_s,
                launch_billed=instance.launch_billed,
                spot=vm.spot,
            )
        },
        units=(unit,),
        segments=(segment,),
        semantics=Semantics(
            iteration="a step of all VMs on one global batch" if instance.global_batch else "a sample",
            origin="the request for the VMs",
            rounding="the last iteration may be of fewer samples" if instance.global_batch else "",
        ),
        expected=measures,
        configuration=solution.configuration,
        samples_per_s=measures["samples_per_s"],
        is_interpolated=bool(measures["is_interpolated"]),
    )
