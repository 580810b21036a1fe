"""``optplan import throughputs``: measured samples a second, from a table to an instance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optplan.cli.amending import amend, amendments_but
from optplan.cli.commands import command
from optplan.cli.imports import PRICES, rename, require_target
from optplan.cli.options import FILE, TIME, argument, option
from optplan.cli.outputs import Outputs, deliver


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
