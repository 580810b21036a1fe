"""Srift's data: a training job, the types of VM on offer, limits; and its decision, a fleet.

Glossary: a *fleet* is the set of VMs that train one job together; a *group* is those of its VMs that are of one type
and get one batch; the *batch* of a VM is shared equally by its GPUs, each of which is a *rank* of the all-reduce.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import model_validator

from optplan.contracts.instance import Instance, Solution
from optplan.contracts.time_and_money import Objective, TimeAndMoney
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.formulations.srift.data.bandwidth import BYTES_PER_GBIT, Bandwidth, LatencyBandwidth, MeasuredBandwidth
from optplan.formulations.srift.data.profiles import JobProfile
from optplan.quantities import MoneyBudget, PositiveSeconds, SecondsOrZero
from optplan.schema import (
    AmountOrZero,
    ByName,
    Fields,
    FrozenModel,
    PositiveAmount,
    SmallCount,
    SmallCountOrZero,
    Takes,
    WholeNumbers,
    usual,
)
from optplan.units import SECONDS_PER_HOUR


class VmGroup(FrozenModel):
    """VMs of one type with one batch."""

    type: str  #: Name of the type.
    count: SmallCount  #: VMs.
    batch: SmallCount  #: Samples of an iteration on each.


class SriftSolution(Solution):
    """What Srift decides: the fleet."""

    groups: tuple[VmGroup, ...]  #: In the order of the instance's types, the largest batch first.


def write_fleet(groups: Iterable[VmGroup], between: str = " + ") -> str:
    """Write a fleet as the paper does: ``4 p3.8xlarge@1024 + 8 g3.8xlarge@128``."""
    return between.join(f"{group.count} {group.type}@{group.batch}" for group in groups)


def count_vms(groups: Iterable[VmGroup]) -> dict[str, int]:
    """Return the VMs of a fleet by type."""
    counts: dict[str, int] = {}
    for group in groups:
        counts[group.type] = counts.get(group.type, 0) + group.count
    return counts


class Policy(StrEnum):
    """Which kind of fleet is asked."""

    #: All VMs of a type get the same batch.
    ONE_BATCH = "one-batch"
    ANY_BATCHES = "any-batches"


class VmType(FrozenModel):
    """VMs of one kind on offer, at one price."""

    gpu: str  #: Kind of GPU: which of the job's device profiles holds.
    gpus: SmallCount = 1  #: Of a VM.
    price_usd_per_hour: PositiveAmount  #: Of a whole VM.
    network_gbit_per_s: PositiveAmount  #: Capacity of a VM's bus bandwidth, b_cap of equation 2.
    spot: bool = False  #: Whether the provider may take the VM back.
    available: SmallCountOrZero | None = None  #: VMs that can be had; None: not known, taken for as many as are wanted.
    #: Choices of samples per VM, each a multiple of ``gpus`` within the profile; None: ``gpus`` times the powers of two
    #: that the profile covers.
    batches: Takes[WholeNumbers | None, ArrayLike] = usual(None)
    running: SmallCountOrZero = 0  #: VMs of this type that the job already has and keeps: the fleet includes them.
    interruptions_per_hour: AmountOrZero = 0.0  #: Mean number of times that a VM is taken back.
    #: instance_type, region, price_source, price_date: What it is and where the price comes from; the first names the
    #: bandwidth table where there is one, by default the type's own name.
    instance_type: str = ""
    region: str = ""
    price_source: str = ""
    price_date: str = ""

    @model_validator(mode="after")
    def _check(self) -> VmType:
        if self.available is not None and self.running > self.available:
            problem = f"is {self.running}, more than the {self.available} available"
            raise DataError("running", problem, "available counts the running ones, too")
        if self.interruptions_per_hour and not self.spot:
            problem = f"is {self.interruptions_per_hour:g}, but the VM is not a spot one"
            raise DataError("interruptions_per_hour", problem, "set spot to true, or leave it out")
        return self

    @property
    def price_usd_per_s(self) -> float:
        """Price of a whole VM."""
        return self.price_usd_per_hour / SECONDS_PER_HOUR


class Interruptions(FrozenModel):
    """What the loss of a spot VM does to the job; with it, times and costs are expectations."""

    #: Training between two checkpoints; an interruption undoes what was done since the last one.
    checkpoint_every_s: Takes[PositiveSeconds, str]
    checkpoint_s: Takes[SecondsOrZero, str] = usual(0.0)  #: To write one.
    #: From an interruption until the job, with a VM in place of the lost one, trains again.
    restart_s: Takes[SecondsOrZero, str]
    restart_billed: bool = True  #: Whether the fleet is held while it restarts: paid, and interrupted anew at times.


class SriftInstance(TimeAndMoney, Instance[SriftSolution]):
    """One problem of Srift: which VMs, how many, and what batch on each, for one training job (section 4.4)."""

    formulation: Literal["srift"] = "srift"
    version: Literal[1] = 1
    #: Profile of the network. Types of whose GPUs it has none may stand here, and have to be measured or left out
    #: before anything is solved.
    job: Takes[JobProfile, Fields]
    global_batch: SmallCount  #: Samples of an iteration, over the whole fleet.
    iterations: SmallCount  #: To train.
    types: Takes[ByName[VmType], Mapping[str, VmType | Fields]]  #: VMs on offer, by name.
    bandwidth: Takes[Bandwidth, Fields] = usual(LatencyBandwidth())  #: Model of all-reduces.
    #: ``cost`` or ``time``: which one is made least.
    objective: Takes[Objective, str] = usual(Objective.COST)
    #: Limit on the time, such as ``10min``; None: no limit.
    deadline_s: Takes[PositiveSeconds | None, str] = usual(None)
    budget: Takes[MoneyBudget | None, str] = usual(None)  #: Limit on the cost, such as ``3usd``; None: no limit.
    mixed: bool = True  #: Whether a fleet may have VMs of several types.
    one_batch_per_type: bool = True  #: Whether all VMs of a type get the same batch, as the paper formulates it.
    #: Gradients are exchanged in buckets of at least so many bytes, as frameworks do; None: layer by layer.
    bucket_bytes: PositiveAmount | None = None
    #: Until VMs that are not running yet can train; the job waits for them.
    launch_s: Takes[SecondsOrZero, str] = usual(0.0)
    launch_billed: bool = False  #: Whether the fleet is paid meanwhile.
    #: What losing a spot VM does; None: nothing is ever lost.
    interruptions: Takes[Interruptions | None, Fields] = usual(None)

    @model_validator(mode="after")
    def _check(self) -> SriftInstance:
        if not self.types:
            raise DataError("types", "is empty", "give at least one type of VM")
        for name, vm in self.types.items():
            self._check_type(name, vm)
        risky = [name for name, vm in self.types.items() if vm.interruptions_per_hour]
        if risky and self.interruptions is None:
            problem = f"is missing, and {', '.join(risky)} are interrupted"
            raise DataError("interruptions", problem, "add it, or leave types.*.interruptions_per_hour out")
        running = [name for name, vm in self.types.items() if vm.running]
        if len(running) > 1 and not self.mixed:
            problem = f"is false, but {', '.join(running)} are running"
            raise DataError("mixed", problem, "set it to true, or stop some of them")
        return self

    def _check_type(self, name: str, vm: VmType) -> None:
        path = f"types.{name}"
        network = vm.instance_type or name
        if isinstance(self.bandwidth, MeasuredBandwidth) and network not in self.bandwidth.tables:
            problem = f"has no table for {network!r}"
            raise DataError("bandwidth.tables", problem, nearest_name_hint(network, list(self.bandwidth.tables)))
        profile = self.job.devices.get(vm.gpu)
        if vm.batches is None or profile is None:
            return
        least, most = int(profile.batches[0]) * vm.gpus, profile.largest_batch * vm.gpus
        if vm.batches.ndim != 1 or not vm.batches.size or (np.diff(vm.batches) <= 0).any():
            raise DataError(f"{path}.batches", f"got {vm.batches.tolist()}", "list each choice once, ascending")
        for batch in vm.batches.tolist():
            if batch % vm.gpus or not least <= batch <= most:
                problem = f"got {batch}; multiples of {vm.gpus} (GPUs) from {least} to {most} are allowed"
                raise DataError(f"{path}.batches", problem, "the profile covers no other")

    def require_profiles(self) -> None:
        """Refuse types of whose GPUs the job has no profile; say what measures them and what leaves them out."""
        unknown: dict[str, list[str]] = {}
        for name, vm in self.types.items():
            if vm.gpu not in self.job.devices:
                unknown.setdefault(vm.gpu, []).append(name)
        if not unknown:
            return
        missing = ", ".join(f"{gpu} (types {', '.join(names)})" for gpu, names in unknown.items())
        measure = " and ".join(
            f"`optplan measure network MODULE:FACTORY --device cuda --gpu {shlex.quote(gpu)} --into FILE -o FILE2`"
            for gpu in unknown
        )
        without = " ".join(
            "--set " + shlex.quote(f'types."{name}"=null' if "." in name else f"types.{name}=null")
            for names in unknown.values()
            for name in names
        )
        known = any(vm.gpu in self.job.devices for vm in self.types.values())
        hints = [nearest_name_hint(gpu, self.job.devices) for gpu in unknown]
        guesses = "".join(f"{hint} Else " for hint in hints if hint.startswith("did you mean"))
        raise DataError(
            "job.devices",
            f"has profiles of {', '.join(self.job.devices)}, and none of {missing}",
            f"{guesses}measure each on a machine that has one, by {measure}, FILE being this instance and FILE2 the "
            "one with the new profile" + (f"; or leave the types out: {without}" if known else ""),
        )

    @cached_property
    def batches_of(self) -> dict[str, tuple[int, ...]]:
        """The choices of samples per VM, by type, ascending; those above the global batch are left out."""
        self.require_profiles()
        choices = {}
        for name, vm in self.types.items():
            profile = self.job.devices[vm.gpu]
            if vm.batches is not None:
                found = vm.batches.tolist()
            else:
                powers = (2**power for power in range(profile.largest_batch.bit_length()))
                found = [vm.gpus * size for size in powers if profile.batches[0] <= size <= profile.largest_batch]
            choices[name] = tuple(batch for batch in found if batch <= self.global_batch)
        return choices

    def most_of(self, name: str) -> int:
        """Return how many VMs of a type a fleet can have: as many as are available and get a sample for each GPU."""
        choices = self.batches_of[name]
        if not choices:
            return 0
        by_batch = self.global_batch // choices[0]
        available = self.types[name].available
        return by_batch if available is None else min(available, by_batch)

    def passes_s(self, name: str, batch: int) -> tuple[float, float]:
        """Return the raw forward and backward seconds of a type's VM with so many samples."""
        device, share = self.job.devices[self.types[name].gpu], batch / self.types[name].gpus
        return device.forward_after(share), device.backward_after(share)

    def networks_of(self, names: list[str]) -> list[tuple[str, float]]:
        """Return the network's name and its capacity in bytes per second, for each of some types."""
        types = [(name, self.types[name]) for name in names]
        return [(vm.instance_type or name, vm.network_gbit_per_s * BYTES_PER_GBIT) for name, vm in types]

    @property
    def untold_spot(self) -> tuple[str, ...]:
        """The types whose VMs can be taken back, nobody says how often: they are planned as if they never were."""
        return tuple(name for name, vm in self.types.items() if vm.spot and not vm.interruptions_per_hour)

    @property
    def cautions(self) -> tuple[str, ...]:
        """That spot VMs without figures are planned as if never taken back, and how to give the figures."""
        if not self.untold_spot:
            return ()
        names = ", ".join(self.untold_spot)
        return (
            f"{names}: spot VMs without interruption figures, planned as if none were ever taken back; "
            "`optplan import spot-trace` fills the figures in from a trace, or give interruptions and "
            "types.*.interruptions_per_hour by hand",
        )

    @property
    def policy(self) -> Policy:
        """Which kind of fleet is asked."""
        return Policy.ONE_BATCH if self.one_batch_per_type else Policy.ANY_BATCHES

    def fields_of_policy(self, policy: str) -> dict[str, object]:
        """Return the fields to change so that another kind of fleet is asked."""
        if policy not in list(Policy):
            raise UsageError(f"policy: got {policy!r}; {nearest_name_hint(policy, list(Policy))}")
        return {"one_batch_per_type": policy == Policy.ONE_BATCH}
