"""``optplan import sia`` and ``gavel``: instances from the traces and profiles of research artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from optplan.cli.amending import amend, amendments_but
from optplan.cli.commands import Command
from optplan.cli.console import Progress
from optplan.cli.imports import price_types, read_prices, rename, require_target
from optplan.cli.options import DIR, FILE, TIME, flag, known_name, named
from optplan.cli.outputs import Outputs, deliver
from optplan.errors import UsageError
from optplan.units import SECONDS_PER_HOUR

_SIA_EXAMPLES = (
    "optplan import sia --workload newTrace.csv --profiles profiles --gpu aws --budget 120gpu -o mine.json",
    "optplan import sia --workload newTrace.csv --profiles profiles --gpu aws --span 48h --price 0.978usd/hour --json",
    "optplan import sia --workload newTrace.csv --profiles profiles --gpu aws --gpu rtx --max-width rtx=24 -o two.json",
)
_GAVEL_EXAMPLES = (
    "optplan import gavel --trace msr.trace --throughputs physical_cluster_throughputs.json -o mine.json",
    "optplan import gavel --trace msr.trace --throughputs throughputs.json --gpu v100 --unconsolidated --json",
)


def list_timings() -> list[str]:
    """List where step times can come from."""
    from optplan.lab.traces.sia import Timing

    return [timing.value for timing in Timing]


def read_widths(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> int | dict[str, int]:
    """Read the largest width of all GPU types, or of each; click calls this."""
    widths: dict[str, int] = {}
    for text in texts:
        gpu, _equals, value = text.rpartition("=")
        if not (value.isdecimal() and int(value) >= 1):
            message = f"{flag(option)}: got {text!r}; a number of GPUs of at least 1 is needed, as in 64 or rtx=24"
            raise UsageError(message)
        if gpu in widths or (widths and "" in {gpu, *widths}):
            raise UsageError(f"{flag(option)}: got {' and '.join(texts)}; give one for all GPU types, or one for each")
        widths[gpu] = int(value)
    return widths.get("", widths)


@click.command(
    name="sia",
    cls=Command,
    short_help="From a workload and profiles of the Sia artifact.",
    examples=_SIA_EXAMPLES,
    renamed=named("gpu", "max_width", "timing")
    | {"span_h": "--span", "applications": "--application", "widths": "--max-width"},
    writes={"output": "the instance as JSON; needed unless --json is given"},
)
@click.option("--workload", type=FILE, required=True, help="The trace, a CSV.")
@click.option("--profiles", required=True, type=DIR, help="Folder of profiles.")
@click.option(
    "--gpu",
    "gpus",
    required=True,
    multiple=True,
    metavar="NAME",
    help="GPU type: a suffix of the profiles, such as aws; may be repeated. Sizes are times on one GPU of the first.",
)
@click.option(
    "--max-width",
    multiple=True,
    default=("128",),
    metavar="N",
    callback=read_widths,
    help="Largest width, in GPUs; for several types also rtx=24, may be repeated.",
)
@click.option(
    "--slowdown/--no-slowdown",
    default=False,
    help="Whether sizes get the factor that Sia fitted to its physical cluster.",
)
@click.option(
    "--timing",
    metavar="NAME",
    default="tables",
    help="Step times: tables (as measured, the model beyond them), model (fitted, at every width) or model-batches "
    "(as measured, at the batch sizes that the model picks).",
    **known_name("timing", list_timings),
)
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="AMOUNT",
    callback=read_prices,
    help="Of one GPU, such as 0.978usd/hour or aws:g4dn.12xlarge; for several types t4=..., may be repeated.",
)
@click.option("--price-source", metavar="TEXT", default="given by the user", help="Who published the price, and when.")
@click.option("--application", "applications", multiple=True, metavar="NAME", help="Only these; may be repeated.")
@click.option("--span", type=TIME, help="Time that the trace covers, such as 48h.")
@click.option("--name", metavar="NAME", help="Name of the instance.")
@amendments_but("deadline")
def import_sia(
    *,
    span: float | None,
    outputs: Outputs,
    workload: Path,
    profiles: Path,
    gpus: tuple[str, ...],
    max_width: int | dict[str, int],
    slowdown: bool,
    timing: str,
    applications: tuple[str, ...],
    prices: dict[str | None, float | str],
    price_source: str,
    name: str | None,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Make a BOA instance from a workload and profiles in the format of the Sia artifact.

    Every application of the workload becomes a class. The data says nothing about prices and budgets: give them here,
    or edit the instance.
    """
    from optplan.lab.traces.sia_boa import build_sia_instance

    require_target(outputs)
    with Progress("reading profiles"):
        made = build_sia_instance(
            workload,
            profiles,
            gpus,
            max_width=max_width,
            slowdown=slowdown,
            timing=timing,
            span_h=None if span is None else span / SECONDS_PER_HOUR,
            applications=applications or None,
        )
        instance = amend(rename(price_types(made, prices, price_source), name), changes)
    return deliver(instance, outputs)


@click.command(
    name="gavel",
    cls=Command,
    short_help="From a trace and throughputs of Gavel.",
    examples=_GAVEL_EXAMPLES,
    renamed={"span_h": "--span", "gpus": "--gpu", "job_types": "--job-type"},
    writes={"output": "the instance as JSON; needed unless --json is given"},
)
@click.option("--trace", type=FILE, required=True, help="The trace.")
@click.option("--throughputs", type=FILE, required=True, help="Table of throughputs, JSON.")
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="NAME",
    default=("v100", "p100", "k80"),
    help="GPU type of the table; may be repeated. Sizes are times on one GPU of the first.",
)
@click.option("--consolidated/--unconsolidated", default=True, help="Whether a job's GPUs are in one server.")
@click.option("--job-type", "job_types", multiple=True, metavar="NAME", help="Only these; may be repeated.")
@click.option("--span", type=TIME, help="Time that the trace covers, such as 85d.")
@click.option("--name", metavar="NAME", help="Name of the instance.")
@amendments_but("deadline")
def import_gavel(
    *,
    span: float | None,
    outputs: Outputs,
    trace: Path,
    throughputs: Path,
    gpus: tuple[str, ...],
    consolidated: bool,
    job_types: tuple[str, ...],
    name: str | None,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Make a BOA instance from a trace and a table of throughputs in Gavel's formats.

    Every job type (a model and its batch size) becomes a class. The data says nothing about pauses, prices and budgets:
    edit the instance, or see `optplan import prices`.
    """
    from optplan.lab.traces.gavel import build_gavel_instance

    require_target(outputs)
    with Progress("reading throughputs"):
        made = build_gavel_instance(
            trace,
            throughputs,
            gpus,
            consolidated=consolidated,
            span_h=None if span is None else span / SECONDS_PER_HOUR,
            job_types=job_types or None,
        )
        instance = amend(rename(made, name), changes)
    return deliver(instance, outputs)
