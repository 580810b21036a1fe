"""From a fleet to a plan: which VMs to start, which to keep, which ranks each has, and what every rank trains on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from optplan.contracts.explanation import Explanation
from optplan.contracts.plan import Action, Plan, PlanStep, Price
from optplan.contracts.result import Result
from optplan.errors import DataError, UsageError
from optplan.formulations.srift.data.instance import Interruptions, SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.schema import FrozenModel
from optplan.units import SECONDS_PER_HOUR

_Amount = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=1)]
_CountOrZero = Annotated[int, Field(ge=0)]


class PlannedVms(FrozenModel):
    """VMs of one type with one batch, and what an executor needs to know of them.

    Parameters
    ----------
    type, instance_type, region
        Name of the type in the instance, what the provider calls it, and where.
    gpu, gpus_per_vm
        Kind of GPU, and how many a VM has; each is a rank.
    count, kept, started
        VMs in all, those of them that run already, and those to start.
    spot
        Whether the provider may take them back.
    price_usd_per_hour
        Of one VM.
    batch_per_vm, batch_per_rank
        Samples of an iteration.
    first_rank, last_rank
        Ranks of these VMs, from 0; a VM's ranks follow one another.
    loss_weight
        What a rank multiplies its mean loss by before the gradients are averaged over ranks, so that every sample
        counts the same: 1 where all ranks have equal batches.
    cost_usd
        Their part of the cost.
    """

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


class SriftPlan(Plan):
    """A fleet with its ranks; a step is one group of its VMs.

    Parameters
    ----------
    fleet
        In the order of ranks.
    world_size
        Ranks of the whole fleet.
    global_batch, iterations
        Samples of an iteration over the whole fleet, and how many iterations are trained.
    network
        Which network the job trains.
    iteration_s, training_s, launch_s
        Predicted means: of an iteration, of all of them, and until VMs that do not run yet can train.
    launch_billed
        Whether the fleet is paid meanwhile.
    deadline_s, budget_usd
        The limits, where there are any.
    checkpoints
        How often to write one, and what it takes; None where no VM is ever lost.
    price_usd_per_hour, total_usd
        Of the fleet, and of the job.
    """

    fleet: tuple[PlannedVms, ...]
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

    @model_validator(mode="after")
    def _check_sums(self) -> SriftPlan:
        samples = sum(vms.count * vms.batch_per_vm for vms in self.fleet)
        if samples != self.global_batch:
            problem = f"is {self.global_batch}, and the batches of the fleet add up to {samples}"
            raise DataError("global_batch", problem, "an iteration trains on the global batch exactly")
        ranks = sum(vms.count * vms.gpus_per_vm for vms in self.fleet)
        if ranks != self.world_size:
            problem = f"is {self.world_size}, and the fleet has {ranks} GPUs"
            raise DataError("world_size", problem, "every GPU is one rank")
        return self


def build_plan(
    instance: SriftInstance, result: Result[SriftSolution], *, explanation: Explanation | None = None
) -> SriftPlan:
    """Turn a fleet into VMs to start and to keep, with their ranks and batches.

    Parameters
    ----------
    instance
        The problem.
    result
        Its result, with a solution.
    explanation
        There are none for fleets.

    Raises
    ------
    UsageError
        When the result has no solution, or there is an explanation.
    """
    if result.solution is None or result.objective is None:
        message = f"the result has no solution to plan (status {result.status})"
        raise UsageError(message)
    if explanation is not None:
        raise UsageError("explanation: plans of fleets have none; leave it out")
    judged = evaluate(instance, result.solution)
    measures = judged.measures
    fleet = _number_ranks(instance, result.solution.groups, measures["cost_usd"])
    used = {vms.type: instance.types[vms.type] for vms in fleet}
    return SriftPlan(
        formulation=instance.formulation,
        instance_name=instance.name,
        instance_hash=result.instance_hash,
        solver=result.solver,
        objective=judged.objective,
        objective_unit=result.objective_unit,
        bound=result.bound,
        prices={
            name: Price(usd_per_hour=vm.price_usd_per_hour / vm.gpus, source=vm.price_source, date=vm.price_date)
            for name, vm in used.items()
        },
        expected=measures,
        steps=tuple(_write_step(instance, vms, measures["launch_s"], measures["time_s"]) for vms in fleet),
        fleet=fleet,
        world_size=sum(vms.count * vms.gpus_per_vm for vms in fleet),
        global_batch=instance.global_batch,
        iterations=instance.iterations,
        network=instance.job.network,
        iteration_s=measures["iteration_s"],
        training_s=measures["training_s"],
        launch_s=measures["launch_s"],
        launch_billed=instance.launch_billed,
        deadline_s=instance.deadline_s,
        budget_usd=None if instance.budget is None else instance.budget.value,
        checkpoints=instance.interruptions,
        price_usd_per_hour=sum(vms.count * vms.price_usd_per_hour for vms in fleet),
        total_usd=measures["cost_usd"],
    )


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


def _write_step(instance: SriftInstance, vms: PlannedVms, launch_s: float, time_s: float) -> PlanStep:
    """Write what an executor does with a group: start it, keep it, or add to what runs of it."""
    gpus = vms.count * vms.gpus_per_vm
    if not vms.started:
        action = Action.CONTINUE
    else:
        action = Action.RESIZE if vms.kept else Action.START
    return PlanStep(
        subject=f"{vms.count} {vms.type}, {vms.batch_per_rank} samples on each GPU",
        trigger="start",
        until=f"end of iteration {instance.iterations}",
        action=action,
        gpu_type=vms.type,
        gpus=gpus,
        expected_overhead_s=launch_s,
        expected_duration_s=time_s,
        expected_gpu_hours=gpus * time_s / SECONDS_PER_HOUR,
    )
