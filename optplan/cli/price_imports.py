"""``optplan import prices``: from a price list, or from those that ship, into an instance.

``optplan import throughputs``: measured samples a second, from a table to an instance.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optplan
from optplan.cli.amending import amend, amendments, amendments_but
from optplan.cli.commands import command
from optplan.cli.imports import PRICES, rename, require_target
from optplan.cli.options import FILE, INSTANCE, TIME, argument, by_name, option
from optplan.cli.outputs import Outputs, deliver
from optplan.errors import UsageError, nearest_name_hint

if TYPE_CHECKING:
    from optplan.instances.catalog import GpuPrice

_NEEDED = "a GPU type and its name in the list are needed, as in t4=g4dn.xlarge"


@command(
    name="prices",
    short_help="Into an instance, from a price list.",
    examples=(
        "optplan import prices mine.json --catalog aws-2026-05.csv --vm-type t4=g4dn.12xlarge -o priced.json",
        "optplan import prices mine.json --vm-type t4=aws:g4dn.12xlarge --region us-east-1 --spot t4 --json",
    ),
    renamed={"prices": "--vm-type"},
    writes={"output": "the instance as JSON; needed unless --json is given"},
)
@amendments
def import_prices(
    *,
    instance_name: str = INSTANCE,
    catalog: Path | None = option(
        type=FILE, help="A price list, such as SkyPilot's; the prices that ship with optplan unless given."
    ),
    instance_types: dict[str, str] = option(
        "--vm-type",
        **by_name(_NEEDED),
        required=True,
        metavar="TYPE=NAME",
        help="What the list calls a type of the instance: t4=g4dn.12xlarge, or t4=T4 for the cheapest with it; may be "
        "repeated. For the one type of a search: g4dn.12xlarge. Of the prices that ship also h100=lambda:H100.",
    ),
    region: str | None = option(metavar="NAME", help="Where; the cheapest region unless given."),
    spot: tuple[str, ...] = option(
        multiple=True, metavar="TYPE", help="Take the spot price of this type; may be repeated."
    ),
    date: str | None = option(metavar="DATE", help="When the prices held, where the file's name does not say it."),
    name: str | None = option(metavar="NAME", help="Name of the instance."),
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Fill prices into an instance, with their source and date.

    Into the GPU types of boa, the price of one GPU; those that are not named keep theirs, so that several lists can be
    read one after the other. Into the cloud of rubberband, the price of a VM, its GPUs and its region. Into the
    types of VM of srift, the price of a VM, its type and its region; those that are spot VMs get spot prices.
    """
    from optplan.instances.instance_prices import set_cloud_price, set_prices, set_vm_prices

    require_target(outputs)
    look_up = _find_prices(catalog, date, region)
    instance = optplan.read_instance(instance_name)
    if isinstance(instance, optplan.RubberBandInstance):
        if set(instance_types) != {""} or spot:
            message = "--vm-type: a search has one type of VM; give its name alone, as in g4dn.12xlarge"
            raise UsageError(f"{message}, and no --spot: its VMs cannot be taken away")
        cloud = set_cloud_price(instance, look_up(instance_types[""]))
        return deliver(amend(rename(cloud, name), changes), outputs)
    if not isinstance(instance, optplan.BoaInstance | optplan.SriftInstance):
        formulation = getattr(instance, "formulation", "")
        message = f"INSTANCE: {instance.name!r} is of formulation {formulation!r}, which has no prices of GPU types"
        raise UsageError(message)
    if "" in instance_types:
        raise UsageError(f"--vm-type: got {instance_types['']!r}; {_NEEDED}")
    types = instance.gpu_types if isinstance(instance, optplan.BoaInstance) else instance.types
    what = "GPU type" if isinstance(instance, optplan.BoaInstance) else "type of VM"
    for option_name, asked, known in (("--vm-type", instance_types, types), ("--spot", spot, instance_types)):
        for named in asked:
            if named not in known:
                raise UsageError(f"{option_name}: no {what} {named!r}; {nearest_name_hint(named, known)}")
    found = {named: look_up(listed) for named, listed in instance_types.items()}
    if isinstance(instance, optplan.SriftInstance):
        return deliver(amend(rename(set_vm_prices(instance, found, spot=spot), name), changes), outputs)
    return deliver(amend(rename(set_prices(instance, found, spot=spot), name), changes), outputs)


def _find_prices(catalog: Path | None, date: str | None, region: str | None) -> Callable[[str], GpuPrice]:
    """Return what finds the price of an instance type or a GPU: in a list, or among the prices that ship."""
    from optplan.instances.catalog import read_price_list
    from optplan.instances.instance_prices import find_price

    if catalog is not None:
        listed = read_price_list(catalog, date=date)
        return lambda name: listed.price_of(name, region)
    if date is not None:
        raise UsageError("--date: has a meaning with --catalog only; the prices that ship have their dates")

    def look_up(name: str) -> GpuPrice:
        price, spot = find_price(name, region)
        if spot:
            raise UsageError(f"--vm-type: got {name!r}; ask for a spot price by --spot TYPE")
        return price

    return look_up


@command(
    name="throughputs",
    short_help="From measured samples a second.",
    examples=(
        "optplan import throughputs speeds.csv --samples 1.28e6 --price 0.526usd/hour -o job.json",
        "optplan import throughputs speeds.csv --samples 1.28e6 --price t4=aws:g4dn.xlarge --price v100=aws:p3.2xlarge "
        "--deadline 8h --interpolate -o job.json",
    ),
    renamed={"samples": "--samples", "prices": "--price"},
    writes={"output": "the instance as JSON; needed unless --json is given"},
)
@amendments_but("policy")
def import_throughputs(
    table: Path = argument(metavar="FILE", type=FILE),
    *,
    samples: float = option(type=float, required=True, metavar="N", help="To train, in all epochs: 1.28e6."),
    prices: dict[str, float | str] = option(
        "--price",
        **PRICES,
        help="Of one VM, such as 0.978usd/hour or aws:g4dn.12xlarge; for several types t4=..., may be repeated. In "
        "place of the column price_usd_per_hour.",
    ),
    interpolate: bool = option(
        "--interpolate/--only-measured",
        default=False,
        help="Whether numbers of VMs between measured ones may be chosen, on a straight line between their speeds.",
    ),
    launch: float | None = option(type=TIME, help="From the request until VMs train: 3min."),
    name: str | None = option(metavar="NAME", help="Name of the instance; the file's unless given."),
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Make an instance of one training job from samples a second that were measured, or planned by another planner.

    FILE is a CSV. Its columns: type (of VM), vms or gpus (how many together), samples_per_s, and if need be
    configuration (how the training is spread: dp8, tp8 pp2), price_usd_per_hour (of one VM) and gpus_per_vm.
    """
    from optplan.instances.throughput_tables import build_throughputs_instance

    require_target(outputs)
    made = build_throughputs_instance(table, samples=samples, prices=prices, interpolate=interpolate)
    if launch is not None:
        made = made.replace(launch_s=launch)
    return deliver(amend(rename(made, name), changes), outputs)
