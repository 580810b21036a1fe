"""What can be rented: nodes with GPUs, their price, how they are billed, and how long it takes to get them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field

from optplan.schema import AtLeastZero, Count, FrozenModel


class Billing(StrEnum):
    """What is paid."""

    NODES = "nodes"  #: Nodes, from the beginning of their launch until they are released.
    GPUS = "gpus"  #: GPUs, while they belong to a segment that runs.


class Resource(FrozenModel):
    """Nodes of one kind that can be rented."""

    #: gpu_type, gpus_per_node: What a node has; one GPU where nodes are not known.
    gpu_type: Annotated[str, Field(min_length=1)]
    gpus_per_node: Count = 1
    #: provider, instance_type, region: What it is called where it is rented.
    provider: str = ""
    instance_type: str = ""
    region: str = ""
    price_usd_per_hour: Annotated[float, Field(gt=0)] | None = None  #: Of a node; None where it is not known.
    #: price_source, price_date: Who published the price and when.
    price_source: str = ""
    price_date: str = ""
    billing: Billing = Billing.NODES  #: What is paid.
    minimum_charge_s: AtLeastZero = 0.0  #: Seconds that a node is paid for at least.
    start_usd: AtLeastZero = 0.0  #: Paid once for every new node, such as for the data that it loads.
    #: request_s, launch_s: Expected seconds from the request to the beginning of the launch, which nobody pays, and
    #: from there until the node can train.
    request_s: AtLeastZero = 0.0
    #: request_sd_s, launch_sd_s: Their standard deviations.
    request_sd_s: AtLeastZero = 0.0
    launch_s: AtLeastZero = 0.0
    launch_sd_s: AtLeastZero = 0.0
    launch_billed: bool = True  #: Whether the launch is paid.
    spot: bool = False  #: Whether the provider may take the node back.

    @classmethod
    def of(cls, rented: Any, **more: Any) -> Self:  # noqa: ANN401 - a record of VMs, and the fields that differ
        """Describe VMs by a record that has the fields for what they are called and cost."""
        alike = ("instance_type", "region", "price_usd_per_hour", "price_source", "price_date")
        return cls(**{name: getattr(rented, name) for name in alike}, **more)
