"""Srift's plans of version 1 as plans of version 2."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from optplan.contracts.conditions import IterationsDone, Started
from optplan.contracts.earlier_plans import EarlierPlan
from optplan.contracts.plan import Binding, Expected, Limit, Segment
from optplan.contracts.resources import Resource
from optplan.formulations.srift.data.instance import BUDGET, DEADLINE, Interruptions
from optplan.formulations.srift.planning import SEMANTICS, PlannedVms, SriftPlan
from optplan.schema import FrozenModel
from optplan.units import SECONDS_PER_HOUR

_Amount = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=1)]
_CountOrZero = Annotated[int, Field(ge=0)]


class EarlierVms(FrozenModel):
    """A group of VMs, in version 1."""

    type: str
    instance_type: str = ""
    region: str = ""
    gpu: str
    gpus_per_vm: _Count
    count: _Count
    kept: _CountOrZero
    started: _CountOrZero
    spot: bool
    price_usd_per_hour: Annotated[float, Field(gt=0)]
    batch_per_vm: _Count
    batch_per_rank: _Count
    first_rank: _CountOrZero
    last_rank: _CountOrZero
    loss_weight: Annotated[float, Field(gt=0)]
    cost_usd: _Amount


class EarlierSriftPlan(EarlierPlan):
    """A fleet, in version 1."""

    fleet: tuple[EarlierVms, ...]
    world_size: _Count
    global_batch: _Count
    iterations: _Count
    network: str = ""
    iteration_s: _Amount
    training_s: _Amount
    launch_s: _Amount
    launch_billed: bool
    deadline_s: _Amount | None = None
    budget_usd: _Amount | None = None
    checkpoints: Interruptions | None = None
    price_usd_per_hour: _Amount
    total_usd: _Amount


def translate(fields: dict[str, Any], path: str = "") -> SriftPlan:
    """Read a plan of version 1.

    Parameters
    ----------
    fields
        What the file holds.
    path
        Its name, for messages.

    Raises
    ------
    DataError
        When it is no such plan.
    """
    plan = EarlierSriftPlan.parse(fields, path=path)
    binding = Binding.HARD if plan.checkpoints is None else Binding.AVERAGE
    given = {DEADLINE: (plan.deadline_s, "s"), BUDGET: (plan.budget_usd, "usd")}
    fleet = tuple(
        PlannedVms(
            id=f"{vms.type}@{vms.batch_per_vm}",
            label=f"{vms.count:,} {vms.type}, {vms.batch_per_rank:,} samples on each GPU",
            **{name: getattr(vms, name) for name in type(vms).model_fields},
        )
        for vms in plan.fleet
    )
    names = ("world_size", "global_batch", "iterations", "network", "iteration_s", "training_s", "launch_s")
    return SriftPlan(
        **plan.common(),
        limits={
            name: Limit(amount=amount, unit=unit, binding=binding)
            for name, (amount, unit) in given.items()
            if amount is not None
        },
        resources={vms.type: _describe(plan, vms) for vms in plan.fleet},
        units=fleet,
        segments=tuple(_write_segment(plan, vms) for vms in fleet),
        semantics=SEMANTICS,
        **{name: getattr(plan, name) for name in names},
        launch_billed=plan.launch_billed,
        checkpoints=plan.checkpoints,
    )


def _describe(plan: EarlierSriftPlan, vms: EarlierVms) -> Resource:
    price = plan.price_fields(vms.type, vms.gpus_per_vm) | {"price_usd_per_hour": vms.price_usd_per_hour}
    return Resource(
        gpu_type=vms.gpu,
        gpus_per_node=vms.gpus_per_vm,
        instance_type=vms.instance_type,
        region=vms.region,
        launch_s=plan.launch_s,
        launch_billed=plan.launch_billed,
        spot=vms.spot,
        **price,
    )


def _write_segment(plan: EarlierSriftPlan, vms: PlannedVms) -> Segment:
    gpus = vms.count * vms.gpus_per_vm
    billed_s = plan.training_s + (plan.launch_s if plan.launch_billed else 0.0)
    return Segment(
        id=f"train/{vms.id}",
        label=vms.label,
        unit=vms.id,
        resource=vms.type,
        pool=vms.id,
        nodes=vms.count,
        workers=gpus,
        batch_per_worker=vms.batch_per_rank,
        enter=Started(),
        exit=IterationsDone(iterations=plan.iterations),
        expected=Expected(
            seconds=plan.launch_s + plan.training_s,
            pause_s=plan.launch_s,
            launch_s=plan.launch_s,
            member_s=plan.training_s,
            iteration_s=plan.iteration_s,
            gpu_hours=gpus * billed_s / SECONDS_PER_HOUR,
            busy_gpu_hours=gpus * plan.training_s / SECONDS_PER_HOUR,
            cost_usd=vms.cost_usd,
        ),
    )
