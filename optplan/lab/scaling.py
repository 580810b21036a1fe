"""How throughput and its price change with the number of VMs: the study of section 3, on an instance's own types.

*Weak scaling*: every GPU keeps its batch, so the global batch grows with the fleet (figure 2). *Strong scaling*: the
global batch is fixed, and every GPU gets an equal part of it (figure 3). Fleets are of one type here; availability,
deadlines and budgets play no part, nor do interruptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from optplan.errors import UsageError
from optplan.formulations.srift.data.instance import SriftInstance, VmGroup, VmType
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.schema import FrozenModel
from optplan.units import SECONDS_PER_HOUR

#: Numbers of VMs in the paper's study, which goes up to 32.
PAPER_SIZES = (1, 2, 4, 8, 16, 32)

_Count = Annotated[int, Field(ge=1)]
_Amount = Annotated[float, Field(ge=0)]


class ScalingMode(StrEnum):
    """What stays the same while the fleet grows."""

    #: The batch of each GPU.
    WEAK = "weak"
    #: The global batch.
    STRONG = "strong"


class ScalingPoint(FrozenModel):
    """What so many VMs of one type reach."""

    type: str
    vms: _Count
    world: _Count  # ranks: GPUs of all VMs
    batch_per_rank: _Count  # samples of an iteration
    global_batch: _Count
    forward_s: _Amount  # predicted means, as of :class:`~optplan.formulations.srift.laws.iteration.Iteration`
    backward_s: _Amount
    exchange_s: _Amount
    iteration_s: _Amount
    samples_per_s: _Amount
    usd_per_hour: _Amount  # of the fleet
    samples_per_usd: _Amount  # cost-efficiency: throughput over price
    relative_efficiency: _Amount  # the same over the best of the study
    usd_per_iteration: _Amount


class LeftOut(FrozenModel):
    """A fleet that was asked for and cannot be."""

    type: str
    size: _Count  # VMs, or ranks where world sizes were given
    reason: str


class ScalingStudy(FrozenModel):
    """How one job scales on each type of VM."""

    mode: ScalingMode  # what stays the same
    instance_name: str
    instance_hash: str
    network: str
    points: tuple[ScalingPoint, ...]  # by type, then by size
    left_out: tuple[LeftOut, ...] = ()  # what cannot be

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the types that have points, in their order."""
        return tuple(dict.fromkeys(point.type for point in self.points))

    def points_of(self, name: str) -> list[ScalingPoint]:
        """Return the points of a type, by size."""
        return [point for point in self.points if point.type == name]


class AverageEfficiency(FrozenModel):
    """Mean over several jobs of the relative efficiency of so many VMs of a type, as in figure 2."""

    #: Which fleet.
    type: str
    vms: _Count
    relative_efficiency: _Amount  # the mean, relative to the best such mean


def study_scaling(
    instance: SriftInstance,
    mode: ScalingMode,
    sizes: Sequence[int] = PAPER_SIZES,
    *,
    in_gpus: bool = False,
    batch: int | None = None,
) -> ScalingStudy:
    """Predict throughput and cost-efficiency of fleets of one type, by numbers of VMs or GPUs, of every type."""
    # Weak scaling has the ``batch`` on each GPU, the profile's largest unless given; strong the global batch.
    wrong = [size for size in sizes if size < 1]
    if wrong or not sizes:
        raise UsageError(f"sizes: got {list(sizes)}; whole numbers from 1 on are needed, at least one of them")
    if batch is not None and mode is ScalingMode.STRONG:
        raise UsageError("batch: strong scaling shares the global batch; leave it out, or ask for weak scaling")
    model = IterationModel(instance)
    points, left_out = [], []
    for name, vm in instance.types.items():
        largest = instance.job.devices[vm.gpu].largest_batch
        each = None if mode is ScalingMode.STRONG else largest if batch is None else batch
        for size in sorted(set(sizes)):
            found = _size_fleet(instance, vm, size, in_ranks=in_gpus, each=each)
            if isinstance(found, str):
                left_out.append(LeftOut(type=name, size=size, reason=found))
            else:
                points.append(_predict(model, vm, VmGroup(type=name, count=found[0], batch=found[1] * vm.gpus)))
    best = max((point.samples_per_usd for point in points), default=1.0)
    return ScalingStudy(
        mode=mode,
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        network=instance.job.network,
        points=tuple(point.replace(relative_efficiency=point.samples_per_usd / best) for point in points),
        left_out=tuple(left_out),
    )


def _size_fleet(
    instance: SriftInstance, vm: VmType, size: int, *, in_ranks: bool, each: int | None
) -> tuple[int, int] | str:
    """Return the VMs and the batch of each GPU, or why there is no such fleet."""
    if in_ranks and size % vm.gpus:
        return f"so many ranks are no whole number of VMs with {vm.gpus} GPUs"
    count = size // vm.gpus if in_ranks else size
    profile = instance.job.devices[vm.gpu]
    if each is None:
        ranks = count * vm.gpus
        if instance.global_batch % ranks:
            return f"{instance.global_batch:,} samples cannot be shared equally by so many GPUs"
        each = instance.global_batch // ranks
    least, most = int(profile.batches[0]), profile.largest_batch
    if each > most:
        return f"more samples on each GPU than the {most:,} that fit"
    if each < least:
        return f"fewer samples on each GPU than {least:,}, where the profile begins"
    return count, each


def _predict(model: IterationModel, vm: VmType, group: VmGroup) -> ScalingPoint:
    iteration = model.predict((group,))
    samples, price = group.count * group.batch, group.count * vm.price_usd_per_hour
    throughput = samples / iteration.total_s
    return ScalingPoint(
        type=group.type,
        vms=group.count,
        world=group.count * vm.gpus,
        batch_per_rank=group.batch // vm.gpus,
        global_batch=samples,
        forward_s=iteration.forward_s,
        backward_s=iteration.backward_s,
        exchange_s=iteration.exchange_s,
        iteration_s=iteration.total_s,
        samples_per_s=throughput,
        usd_per_hour=price,
        samples_per_usd=throughput * SECONDS_PER_HOUR / price,
        relative_efficiency=1.0,
        usd_per_iteration=iteration.total_s * price / SECONDS_PER_HOUR,
    )


def average_efficiency(studies: Sequence[ScalingStudy]) -> tuple[AverageEfficiency, ...]:
    """Average the relative efficiency over studies of one mode, for the fleets that all have, as figure 2 does."""
    by_fleet: list[dict[tuple[str, int], float]] = [
        {(point.type, point.vms): point.relative_efficiency for point in study.points} for study in studies
    ]
    common = [fleet for fleet in by_fleet[0] if all(fleet in each for each in by_fleet[1:])]
    means = {fleet: sum(each[fleet] for each in by_fleet) / len(by_fleet) for fleet in common}
    best = max(means.values(), default=1.0)
    return tuple(
        AverageEfficiency(type=name, vms=vms, relative_efficiency=mean / best) for (name, vms), mean in means.items()
    )
