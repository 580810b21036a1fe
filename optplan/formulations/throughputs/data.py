"""One training job and what was measured of it: samples a second by type of VM, number of VMs and configuration.

Whoever measured or planned them, and however a training is spread over GPUs: pipelines, tensors, data. One choice is
decided: a type, how many VMs of it, and the configuration. The sheet is in ``docs/throughputs.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

from pydantic import model_validator

from optplan.contracts.instance import Instance, Solution
from optplan.contracts.time_and_money import Objective, TimeAndMoney
from optplan.errors import DataError, nearest_name_hint
from optplan.quantities import MoneyBudget, PositiveSeconds, SecondsOrZero
from optplan.schema import ByName, Fields, FrozenModel, PositiveAmount, SmallCount, SmallCountOrZero, Takes, usual


class OfferedVm(FrozenModel):
    """VMs of one kind on offer, at one price."""

    price_usd_per_hour: PositiveAmount  # of a whole VM
    gpus: SmallCount = 1  # of a VM
    gpu: str = ""  # what they are called
    available: SmallCountOrZero | None = None  # None: as many as were measured
    spot: bool = False  # may be taken back; answers count on its not being taken
    instance_type: str = ""
    region: str = ""
    price_source: str = ""
    price_date: str = ""


class Measurement(FrozenModel):
    """What was measured, or predicted by another planner, on some VMs."""

    type: str  # name of the type of VM
    vms: SmallCount
    configuration: str = ""  # How the training was spread over them; empty where there is one way only.
    samples_per_s: PositiveAmount  # of all of them together


class ThroughputsInstance(TimeAndMoney, Instance["ThroughputsSolution"]):
    """Choose type, number and configuration of the VMs that train one job, among those that were measured."""

    formulation: Literal["throughputs"] = "throughputs"
    version: Literal[1] = 1
    samples: PositiveAmount  # to train
    types: Takes[ByName[OfferedVm], Mapping[str, OfferedVm | Fields]]  # VMs on offer, by name
    #: by type, number of VMs and configuration, each of them once
    measurements: Takes[tuple[Measurement, ...], Sequence[Measurement | Fields]]
    #: Whether numbers of VMs between measured ones may be chosen, at linearly interpolated speeds; never beyond.
    interpolate: bool = False
    objective: Takes[Objective, str] = usual(Objective.COST)  # which one is made least
    deadline_s: Takes[PositiveSeconds | None, str] = usual(None)  # None: no limit
    budget: Takes[MoneyBudget | None, str] = usual(None)  # None: no limit
    launch_s: Takes[SecondsOrZero, str] = usual(0.0)  # from the request until the VMs train
    launch_billed: bool = False  # whether they are paid meanwhile
    #: samples of an iteration of all VMs, which plans count; None: they count samples
    global_batch: SmallCount | None = None

    @model_validator(mode="after")
    def _check(self) -> ThroughputsInstance:
        if not self.measurements:
            raise DataError("measurements", "is empty", "give at least one")
        first: dict[tuple[str, str, int], int] = {}
        for number, row in enumerate(self.measurements):
            path = f"measurements.{number}"
            if row.type not in self.types:
                raise DataError(f"{path}.type", f"got {row.type!r}", nearest_name_hint(row.type, self.types))
            earlier = first.setdefault((row.type, row.configuration, row.vms), number)
            if earlier != number:
                problem = f"has the type, VMs and configuration of measurements.{earlier}"
                raise DataError(path, problem, "keep one of them, or their mean")
        idle = [name for name in self.types if all(row.type != name for row in self.measurements)]
        if idle:
            problem = f"has {', '.join(idle)}, of which there are no measurements"
            raise DataError("types", problem, "measure, or leave the types out")
        return self

    @cached_property
    def tables(self) -> dict[tuple[str, str], dict[int, float]]:
        """Samples a second by ascending number of VMs, for each type and configuration in the order of the rows."""
        found: dict[tuple[str, str], dict[int, float]] = {}
        for row in self.measurements:
            found.setdefault((row.type, row.configuration), {})[row.vms] = row.samples_per_s
        return {setup: dict(sorted(table.items())) for setup, table in found.items()}

    @property
    def cautions(self) -> tuple[str, ...]:
        """How coarse the answer is, and that spot VMs are planned as if never taken back."""
        count = f"{len(self.measurements):,} measured speed{'s' if len(self.measurements) > 1 else ''}"
        between = "interpolated" if self.interpolate else "not considered (interpolate: true changes that)"
        said = [f"coarse, from {count}: numbers of VMs between measured ones are {between}, beyond them not considered"]
        spot = [name for name, vm in self.types.items() if vm.spot]
        if spot:
            said.append(f"{', '.join(spot)}: spot VMs, planned as if none were ever taken back")
        return tuple(said)


class ThroughputsSolution(Solution):
    """What is decided."""

    type: str
    vms: SmallCount
    configuration: str = ""
