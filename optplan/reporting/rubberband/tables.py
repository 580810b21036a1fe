"""What is listed of searches on a cluster and their plans, for a terminal and a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from optplan.contracts import Result, Solution
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.planning import RubberBandPlan, SearchStage, build_plan
from optplan.reporting.phrases import NOTHING, format_cost
from optplan.reporting.rubberband.words import describe_experiment, describe_limit, name_objective, name_sizes
from optplan.reporting.sections import compare_objectives
from optplan.reporting.tables import Column, Table, numbers
from optplan.units import format_duration

_STAGE_COLUMNS = (
    Column("stage"),
    *numbers("trials", "iterations", "instances", "GPUs a trial", "at once", "starts", "ends", "cost so far"),
)
_COMPARED = (*numbers("cost", "time", "difference"), Column("instances"), Column("GPUs a trial"))


def plan_of(instance: RubberBandInstance, result: Result[Solution]) -> RubberBandPlan:
    """Return the plan of a result that has a solution."""
    return build_plan(instance, cast(Result[RubberBandSolution], result))


def list_facts(instance: RubberBandInstance) -> list[tuple[str, str]]:
    """List what an instance says, by name."""
    cloud, training = instance.cloud, instance.training
    kind = cloud.instance_type or "instance"
    price = f"{format_cost(cloud.price_usd_per_hour)} an hour, {cloud.gpus_per_instance} GPUs"
    facts = [
        ("search", describe_experiment(instance)),
        ("asked", f"least {name_objective(instance)} {describe_limit(instance)}"),
        ("allocations", "any number of trials at a time" if instance.mode == "any" else "fair shares, as in the paper"),
        (kind, f"{price}, billed {cloud.billing.replace('-', ' ')}"),
        ("getting instances", f"{_say_duration(cloud.provision_s)}, then {_say_duration(cloud.initialise_s)} each"),
        ("an iteration", training.seconds_per_iteration.list_known()),
    ]
    if cloud.data_usd_per_instance:
        facts.append(("data", f"{format_cost(cloud.data_usd_per_instance)} for every new instance"))
    if cloud.most_instances is not None:
        facts.append(("most instances", f"{cloud.most_instances:,}"))
    if cloud.price_source:
        facts.append(("source of the price", f"{cloud.price_source} ({cloud.price_date})".replace(" ()", "")))
    return facts


def list_asked(instance: RubberBandInstance) -> Table:
    """List the stages that an instance asks for."""
    rows = []
    for bracket, chain in enumerate(instance.brackets, start=1):
        for number, stage in enumerate(chain, start=1):
            name = f"{bracket}.{number}" if len(instance.brackets) > 1 else str(number)
            rows.append((name, f"{stage.trials:,}", f"{stage.iterations:,}"))
    return Table("The stages of the search", _STAGE_COLUMNS[:3], rows)


def list_stages(plan: RubberBandPlan) -> Table:
    """List the stages of a plan."""
    several = plan.stages[-1].bracket > 1
    return Table(
        "The stages of the plan", _STAGE_COLUMNS, [_write_stage(plan, stage, several=several) for stage in plan.stages]
    )


def compare_results(instance: RubberBandInstance, results: Sequence[Result[Solution]]) -> Table:
    """Set results side by side; the first is what the others are compared with."""

    def write(result: Result[Solution], difference: str) -> tuple[str, ...]:
        if result.solution is None:
            return result.status.value, NOTHING, difference, NOTHING, NOTHING
        cost, time = format_cost(result.measures["expected_usd"]), format_duration(result.measures["expected_s"])
        return cost, time, difference, *name_sizes(instance, result.solution)

    return compare_objectives(results, _COMPARED, write)


def _write_stage(plan: RubberBandPlan, stage: SearchStage, *, several: bool) -> tuple[str, ...]:
    return (
        f"{stage.bracket}.{stage.stage}" if several else str(stage.stage),
        f"{stage.members:,}",
        f"{stage.iterations:,}",
        f"{stage.nodes:,}",
        f"{stage.gpus:,}",
        "all" if stage.at_once >= stage.members else f"{stage.at_once:,}",
        format_duration(stage.expected.start_s),
        format_duration(stage.end_s),
        format_cost(plan.paid_until_end_of(stage)),
    )


def _say_duration(distribution: object) -> str:
    mean = float(getattr(distribution, "expected_s", 0.0))
    deviation = float(getattr(distribution, "deviation_s", 0.0))
    return format_duration(mean) + (f" ± {format_duration(deviation)}" if deviation else "") if mean else "at once"
