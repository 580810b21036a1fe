"""``optplan import``: instances from public traces, profiles and price lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optplan.cli.console import Progress, print_answer, print_json
from optplan.cli.options import (
    Command,
    Group,
    amend,
    amendments,
    flag,
    force_option,
    known_name,
    output_option,
    read_duration,
)
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.units import PERIOD_HOURS, SECONDS_PER_HOUR, parse_budget

_SIA_EXAMPLES = (
    "optplan import sia --workload newTrace.csv --profiles profiles --gpu aws --budget 120gpu -o mine.json",
    "optplan import sia --workload newTrace.csv --profiles profiles --gpu aws --span 48h --price 0.978usd/hour --json",
)


def list_timings() -> list[str]:
    """List where step times can come from."""
    from optplan.instances.sia import Timing

    return [timing.value for timing in Timing]


def read_price(_: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """Read a price into US dollars per hour; click calls this."""
    if text is None:
        return None
    amount = parse_budget(text, what=flag(option))
    if amount.unit not in PERIOD_HOURS:
        message = f"{flag(option)}: got {text!r}; money for an hour, a day or a month is needed, as in 0.978usd/hour"
        raise UsageError(message)
    return amount.value / PERIOD_HOURS[amount.unit]


@click.group(name="import", cls=Group, examples=_SIA_EXAMPLES)
def import_data() -> None:
    """Make an instance from a public trace and its profiles."""


@import_data.command(
    name="sia", cls=Command, short_help="From a workload and profiles of the Sia artifact.", examples=_SIA_EXAMPLES
)
@click.option("--workload", required=True, metavar="FILE", type=click.Path(path_type=Path), help="The trace, a CSV.")
@click.option("--profiles", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Folder of profiles.")
@click.option("--gpu", required=True, metavar="NAME", help="GPU type: a suffix of the profiles, such as aws.")
@click.option("--max-width", type=int, default=128, show_default=True, metavar="N", help="Largest width, in GPUs.")
@click.option(
    "--slowdown/--no-slowdown",
    default=False,
    show_default=True,
    help="Whether sizes get the factor that Sia fitted to its physical cluster.",
)
@click.option(
    "--timing",
    metavar="NAME",
    default="tables",
    show_default=True,
    help="Step times: tables (as measured, the model beyond them) or model (fitted, at every width).",
    **known_name("timing", list_timings),
)
@click.option("--price", metavar="AMOUNT", callback=read_price, help="Of one GPU, such as 0.978usd/hour.")
@click.option("--price-source", metavar="TEXT", default="given by the user", help="Who published the price, and when.")
@click.option("--application", "applications", multiple=True, metavar="NAME", help="Only these; may be repeated.")
@click.option("--span", metavar="TIME", callback=read_duration, help="Time that the trace covers, such as 48h.")
@click.option("--name", metavar="NAME", help="Name of the instance.")
@amendments
@output_option("the instance as JSON; needed unless --json is given")
@force_option
def import_sia(
    *,
    span: float | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    workload: Path,
    profiles: Path,
    gpu: str,
    max_width: int,
    slowdown: bool,
    timing: str,
    applications: tuple[str, ...],
    price: float | None,
    price_source: str,
    name: str | None,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Make a BOA instance from a workload and profiles in the format of the Sia artifact.

    Every application of the workload becomes a class. The data says nothing about prices and budgets: give them here,
    or edit the instance.
    """
    from optplan.formulations.boa.data import GpuType
    from optplan.instances.files import write_json
    from optplan.instances.sia_boa import build_sia_instance

    if output is None and not as_json:
        raise UsageError("--output: say where to write the instance, as in -o mine.json, or give --json for stdout")
    outputs = Outputs({"--output": output}, force=force, as_json=as_json)
    with Progress("reading profiles"):
        made = build_sia_instance(
            workload,
            profiles,
            gpu,
            max_width=max_width,
            slowdown=slowdown,
            timing=timing,
            span_h=None if span is None else span / SECONDS_PER_HOUR,
            applications=applications or None,
        )
        if name is not None:
            made = made.replace(name=name)
        if price is not None:
            paid = GpuType(price_usd_per_hour=price, price_source=price_source)
            made = made.replace(gpu_types={made.only_gpu_type: paid})
        instance = amend(made, changes)
    if as_json:
        print_json(instance.to_json_data())
    else:
        from optplan.reporting.tables import instance_summary

        print_answer(instance_summary(instance))
    outputs.save("--output", lambda path: write_json(instance, path, overwrite=outputs.force))
    return outputs.exit_code(0)
