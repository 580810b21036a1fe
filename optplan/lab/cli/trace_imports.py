"""``optplan import trace``: instances from the traces and profiles of research artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from optplan.cli.amending import amend, amendments_but
from optplan.cli.commands import command
from optplan.cli.console import Progress
from optplan.cli.imports import PRICE_SOURCE, PRICES, price_types, rename, require_target
from optplan.cli.options import FILE, TIME, argument, flag, named, option
from optplan.cli.outputs import Outputs, deliver
from optplan.errors import UsageError
from optplan.lab.cli.simulating import profiles_options
from optplan.units import SECONDS_PER_HOUR

_EXAMPLES = (
    "optplan import trace newTrace.csv --from sia --profiles profiles --gpu aws --budget 120gpu -o mine.json",
    "optplan import trace newTrace.csv --from sia --profiles profiles --gpu aws --gpu rtx --max-width rtx=24 --json",
)


def read_widths(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> int | dict[str, int] | None:
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
    return widths.get("", widths) or None


@command(
    "trace",
    short_help="From a public trace of jobs: Sia's, AdaptDL's.",
    examples=_EXAMPLES,
    renamed=named("gpu", "max_width", "timing")
    | {"span_h": "--span", "applications": "--class", "gpus": "--gpu", "widths": "--max-width"},
    writes={
        "output": "the instance as JSON; needed unless --json is given",
        "jobs": "Write its jobs, as `optplan import log --jobs` does; CSV, or Parquet where the name ends so.",
    },
)
@profiles_options(required=True)
@amendments_but("deadline")
def import_trace(
    trace: Path = argument(metavar="TRACE", type=FILE),
    *,
    form: str = option(
        "--from", required=True, type=click.Choice(["sia"]), help="Whose trace; AdaptDL's are as Sia's."
    ),
    gpus: tuple[str, ...] = option(
        "--gpu",
        required=True,
        multiple=True,
        metavar="NAME",
        help="GPU type: a suffix of the profiles, such as aws. May be repeated; sizes are times on a GPU of the first.",
    ),
    max_width: int | dict[str, int] | None = option(
        multiple=True,
        metavar="N",
        callback=read_widths,
        help="Largest width, in GPUs; 128 by default. For several types also rtx=24, may be repeated.",
    ),
    classes: tuple[str, ...] = option("--class", multiple=True, metavar="NAME", help="Only these; may be repeated."),
    span: float | None = option(type=TIME, help="Time that the trace covers, such as 48h."),
    prices: dict[str, float | str] = option(
        "--price",
        **PRICES,
        help="Of one GPU, such as 0.978usd/hour or aws:g4dn.12xlarge; for several types t4=..., may be repeated.",
    ),
    price_source: str | None = PRICE_SOURCE,
    name: str | None = option(metavar="NAME", help="Name of the instance."),
    profiles: Path,
    slowdown: bool,
    timing: str,
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Make a BOA instance from a TRACE of jobs and the speeds that were measured, in the format of Sia's artifact.

    Every application of the workload (a CSV) becomes a class. The data says nothing about prices and budgets: give them
    here, or edit the instance.
    """
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.lab.traces.sia_boa import build_sia_instance, write_workload

    del form  # there is one
    require_target(outputs)
    given: dict[str, Any] = {} if max_width is None else {"max_width": max_width}
    span_h = None if span is None else span / SECONDS_PER_HOUR
    with Progress("reading the trace"):
        made = build_sia_instance(
            trace,
            profiles,
            gpus,
            applications=classes or None,
            span_h=span_h,
            slowdown=slowdown,
            timing=timing,
            **given,
        )
        instance = amend(rename(price_types(made, prices, price_source), name), changes)
    assert isinstance(instance, BoaInstance)
    outputs.save("--jobs", lambda path: write_workload(trace, instance, path, span_h=span_h, overwrite=outputs.force))
    return deliver(instance, outputs)
