"""From a fleet to a plan: which VMs to start, which to keep, which ranks each has, and what every rank trains on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from optplan.contracts.conditions import IterationsDone, Started
from optplan.contracts.plan import Binding, Expected, Plan, Segment, Semantics, Unit, UnitKind, limit_time_and_money
from optplan.contracts.resources import Resource
from optplan.contracts.result import Result, describe_origin, require_solution
from optplan.errors import DataError
from optplan.formulations.srift.data.instance import Interruptions, SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.schema import AtLeastZero, Count, CountOrZero, PositiveAmount
from optplan.units import SECONDS_PER_HOUR


class PlannedVms(Unit):
    """VMs of one type with one batch, and what an executor needs to know of them."""

    kind: Literal[UnitKind.FLEET_GROUP] = UnitKind.FLEET_GROUP
    #: type, instance_type, region: Name of the type in the instance, what the provider calls it, and where.
    type: str
    instance_type: str = ""
    region: str = ""
    #: gpu, gpus_per_vm: Kind of GPU, and how many a VM has; each is a rank.
    gpu: str
    gpus_per_vm: Count
    #: count, kept, started: VMs in all, those of them that run already, and those to start.
    count: Count
    kept: CountOrZero
    started: CountOrZero
    spot: bool  #: Whether the provider may take them back.
    price_usd_per_hour: Annotated[float, Field(gt=0)]  #: Of one VM.
    #: batch_per_vm, batch_per_rank: Samples of an iteration.
    batch_per_vm: Count
    batch_per_rank: Count
    #: first_rank, last_rank: Ranks of these VMs, from 0; a VM's ranks follow one another.
    first_rank: CountOrZero
    last_rank: CountOrZero
    #: What a rank multiplies its mean loss by before the gradients are averaged over ranks, so that every sample counts
    #: the same: 1 where all ranks have equal batches.
    loss_weight: Annotated[float, Field(gt=0)]
    cost_usd: AtLeastZero  #: Their part of the cost.


class SriftPlan(Plan):
    """A fleet with its ranks: its units are groups of VMs, in the order of ranks, which train one job together."""

    formulation: Literal["srift"] = "srift"
    units: tuple[PlannedVms, ...]
    world_size: Count  #: Ranks of the whole fleet.
    #: global_batch, iterations: Samples of an iteration over the whole fleet, and how many iterations are trained.
    global_batch: Count
    iterations: Count
    network: str = ""  #: Which network the job trains.
    #: iteration_s, training_s, launch_s: Predicted means: of an iteration, of all of them, and until VMs that do not
    #: run yet can train.
    iteration_s: PositiveAmount
    training_s: AtLeastZero
    launch_s: AtLeastZero
    launch_billed: bool  #: Whether the fleet is paid meanwhile.
    #: How often to write one, and what it takes; None where no VM is ever lost.
    checkpoints: Interruptions | None = None

    @property
    def fleet(self) -> tuple[PlannedVms, ...]:
        """The units, by the name that the formulation has for them."""
        return self.units

    @property
    def groups(self) -> tuple[VmGroup, ...]:
        """The fleet as a solution has it."""
        return tuple(VmGroup(type=vms.type, count=vms.count, batch=vms.batch_per_vm) for vms in self.units)

    @property
    def price_usd_per_hour(self) -> float:
        """Of the whole fleet."""
        return sum(vms.count * vms.price_usd_per_hour for vms in self.units)

    @property
    def total_usd(self) -> float:
        """Of the job."""
        return self.totals()["cost_usd"]

    @model_validator(mode="after")
    def _check_sums(self) -> SriftPlan:
        samples = sum(vms.count * vms.batch_per_vm for vms in self.units)
        if samples != self.global_batch:
            problem = f"is {self.global_batch}, and the batches of the fleet add up to {samples}"
            raise DataError("global_batch", problem, "an iteration trains on the global batch exactly")
        ranks = sum(vms.count * vms.gpus_per_vm for vms in self.units)
        if ranks != self.world_size:
            problem = f"is {self.world_size}, and the fleet has {ranks} GPUs"
            raise DataError("world_size", problem, "every GPU is one rank")
        return self


def build_plan(instance: SriftInstance, result: Result[SriftSolution]) -> SriftPlan:
    """Turn a fleet into VMs to start and to keep, with their ranks and batches."""
    solution = require_solution(result)
    judged = evaluate(instance, solution)
    measures = judged.measures
    fleet = _number_ranks(instance, solution.groups, measures["cost_usd"])
    # Where VMs may be lost, times and costs are expectations.
    binding = Binding.HARD if instance.interruptions is None else Binding.AVERAGE
    return SriftPlan(
        **describe_origin(result),
        objective=judged.objective,
        limits=limit_time_and_money(instance.limits, binding),
        resources={vms.type: _describe(instance, vms.type) for vms in fleet},
        units=fleet,
        segments=tuple(_write_segment(instance, vms, measures) for vms in fleet),
        semantics=SEMANTICS,
        expected=measures,
        world_size=sum(vms.count * vms.gpus_per_vm for vms in fleet),
        global_batch=instance.global_batch,
        iterations=instance.iterations,
        network=instance.job.network,
        iteration_s=measures["iteration_s"],
        training_s=measures["training_s"],
        launch_s=measures["launch_s"],
        launch_billed=instance.launch_billed,
        checkpoints=instance.interruptions,
    )


SEMANTICS = Semantics(
    iteration="a step of the whole fleet on one global batch, gradients exchanged",
    origin="the request for the VMs",
    rounding="batches are whole on every GPU, and add up to the global batch exactly",
)


def _describe(instance: SriftInstance, name: str) -> Resource:
    vm = instance.types[name]
    launch = {"launch_s": instance.launch_s, "launch_billed": instance.launch_billed}
    return Resource.of(vm, gpu_type=vm.gpu, gpus_per_node=vm.gpus, spot=vm.spot, **launch)


def _number_ranks(instance: SriftInstance, groups: tuple[VmGroup, ...], cost_usd: float) -> tuple[PlannedVms, ...]:
    """Give each group its ranks, the VMs that run already, and its part of the cost."""
    running = {name: vm.running for name, vm in instance.types.items()}
    world_size = sum(group.count * instance.types[group.type].gpus for group in groups)
    rate = sum(group.count * instance.types[group.type].price_usd_per_hour for group in groups)
    fleet, rank = [], 0
    for group in groups:
        vm = instance.types[group.type]
        kept = min(group.count, running[group.type])
        running[group.type] -= kept
        per_rank, ranks = group.batch // vm.gpus, group.count * vm.gpus
        fleet.append(
            PlannedVms(
                id=f"{group.type}@{group.batch}",
                label=f"{group.count:,} {group.type}, {per_rank:,} samples on each GPU",
                type=group.type,
                instance_type=vm.instance_type,
                region=vm.region,
                gpu=vm.gpu,
                gpus_per_vm=vm.gpus,
                count=group.count,
                kept=kept,
                started=group.count - kept,
                spot=vm.spot,
                price_usd_per_hour=vm.price_usd_per_hour,
                batch_per_vm=group.batch,
                batch_per_rank=per_rank,
                first_rank=rank,
                last_rank=rank + ranks - 1,
                loss_weight=world_size * per_rank / instance.global_batch,
                cost_usd=cost_usd * group.count * vm.price_usd_per_hour / rate,
            )
        )
        rank += ranks
    return tuple(fleet)


def _write_segment(instance: SriftInstance, vms: PlannedVms, measures: dict[str, float]) -> Segment:
    """Write what a group of VMs does: all of them train the one job, from their launch to its last iteration."""
    gpus, seconds, launch_s = vms.count * vms.gpus_per_vm, measures["time_s"], measures["launch_s"]
    held_h = gpus * measures["billed_s"] / SECONDS_PER_HOUR
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
        exit=IterationsDone(iterations=instance.iterations),
        expected=Expected(
            seconds=seconds,
            pause_s=launch_s,
            launch_s=launch_s,
            member_s=measures["training_s"],
            iteration_s=measures["iteration_s"],
            gpu_hours=held_h,
            busy_gpu_hours=gpus * measures["training_s"] / SECONDS_PER_HOUR,
            cost_usd=vms.cost_usd,
        ),
    )
