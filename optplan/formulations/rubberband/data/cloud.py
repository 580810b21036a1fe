"""The cloud that a search rents its machines from: prices, billing and delays."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from optplan.formulations.rubberband.data.distributions import ConstantDistribution, Distribution, warn_of_clipping
from optplan.schema import AmountOrZero, Fields, FrozenModel, PositiveAmount, SmallCount, Takes, usual
from optplan.units import SECONDS_PER_HOUR


class Cloud(FrozenModel):
    """What machines of the one rented type cost, and how long it takes to get them (RubberBand, section 4.1)."""

    gpus_per_instance: SmallCount  #: GPUs of a machine, g.
    price_usd_per_hour: PositiveAmount  #: Of a whole machine.
    #: ``per-instance``: a machine is paid from the start of its initialisation until it is released;
    #: ``per-function``: a GPU is paid while a trial runs on it, and nothing else is.
    billing: Literal["per-instance", "per-function"] = "per-instance"
    minimum_charge_s: AmountOrZero = 60.0  #: Seconds that every machine is paid for at least (``per-instance`` only).
    #: Seconds from a request for machines to the beginning of their initialisation (SCALE), once a request.
    provision_s: Takes[Distribution, Fields | float] = usual(ConstantDistribution(value_s=0.0))
    #: Seconds until a new machine can train (INIT_INSTANCE), drawn for each machine.
    initialise_s: Takes[Distribution, Fields | float] = usual(ConstantDistribution(value_s=0.0))
    data_gb: AmountOrZero = 0.0  #: Data that every new machine downloads.
    data_price_usd_per_gb: AmountOrZero = 0.0  #: Its price.
    most_instances: SmallCount | None = None  #: Most machines held at once; None where the provider always has more.
    #: instance_type, region, price_source, price_date: Where the price comes from: provenance, not data.
    instance_type: str = ""
    region: str = ""
    price_source: str = ""
    price_date: str = ""

    @model_validator(mode="after")
    def _check(self) -> Cloud:
        warn_of_clipping("cloud.provision_s", self.provision_s)
        warn_of_clipping("cloud.initialise_s", self.initialise_s)
        return self

    @property
    def is_per_instance(self) -> bool:
        """Whether machines are paid while they are held, and not GPUs while they train."""
        return self.billing == "per-instance"

    @property
    def price_usd_per_s(self) -> float:
        """Price of a whole machine."""
        return self.price_usd_per_hour / SECONDS_PER_HOUR

    @property
    def gpu_price_usd_per_s(self) -> float:
        """Price of one of its GPUs."""
        return self.price_usd_per_s / self.gpus_per_instance

    @property
    def data_usd_per_instance(self) -> float:
        """What a new machine pays for its data."""
        return self.data_gb * self.data_price_usd_per_gb
