"""``optplan import``: instances from public traces, profiles and price lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optplan.cli.amending import amend, amendments, amendments_but
from optplan.cli.commands import Command, Group
from optplan.cli.console import Progress, print_answer, print_json
from optplan.cli.options import flag, force_option, instance_argument, known_name, output_option, read_duration
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError, nearest_name_hint
from optplan.units import PERIOD_HOURS, SECONDS_PER_HOUR, parse_budget

if TYPE_CHECKING:
    from optplan.contracts import Instance
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.formulations.srift.data.instance import SriftInstance

_Instance = TypeVar("_Instance", bound="Instance")

_SIA_EXAMPLES = (
    "optplan import sia --workload newTrace.csv --profiles profiles --gpu aws --budget 120gpu -o mine.json",
    "optplan import sia --workload newTrace.csv --profiles profiles --gpu aws --span 48h --price 0.978usd/hour --json",
    "optplan import sia --workload newTrace.csv --profiles profiles --gpu aws --gpu rtx --max-width rtx=24 -o two.json",
)
_GAVEL_EXAMPLES = (
    "optplan import gavel --trace msr.trace --throughputs physical_cluster_throughputs.json -o mine.json",
    "optplan import gavel --trace msr.trace --throughputs throughputs.json --gpu v100 --unconsolidated --json",
)
_PRICES_EXAMPLES = (
    "optplan import prices mine.json --catalog aws-2026-05.csv --instance-type t4=g4dn.12xlarge -o priced.json",
    "optplan import prices mine.json --catalog list.csv --date 2026-05 --instance-type t4=T4 --spot t4 --json",
)


def list_timings() -> list[str]:
    """List where step times can come from."""
    from optplan.instances.sia import Timing

    return [timing.value for timing in Timing]


def read_prices(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> dict[str | None, float]:
    """Read prices into US dollars per hour, by GPU type, or under None for the only one; click calls this."""
    prices: dict[str | None, float] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        amount = parse_budget(value, what=flag(option))
        if amount.unit not in PERIOD_HOURS:
            message = (
                f"{flag(option)}: got {text!r}; money for an hour, a day or a month is needed, as in 0.978usd/hour"
            )
            raise UsageError(message)
        key = name if equals else None
        if key in prices:
            message = f"{flag(option)}: two prices {f'of {name!r} ' if name else ''}are given; give one"
            raise UsageError(message)
        prices[key] = amount.value / PERIOD_HOURS[amount.unit]
    return prices


def read_widths(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> int | dict[str, int]:
    """Read the largest width of all GPU types, or of each; click calls this."""
    widths: dict[str, int] = {}
    for text in texts:
        gpu, _equals, value = text.rpartition("=")
        if not (value.isdecimal() and int(value) >= 1):
            message = f"{flag(option)}: got {text!r}; a number of GPUs of at least 1 is needed, as in 64 or rtx=24"
            raise UsageError(message)
        if gpu in widths or (widths and "" in {gpu, *widths}):
            message = f"{flag(option)}: got {' and '.join(texts)}; give one for all GPU types, or one for each"
            raise UsageError(message)
        widths[gpu] = int(value)
    return widths.get("", widths)


def read_assignments(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    """Read names for GPU types, as in ``t4=g4dn.12xlarge``, or one without a GPU type; click calls this."""
    assigned: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            name, value = "", text
        if not value or (equals and not name):
            raise UsageError(_ask_for_type(flag(option), text))
        if name in assigned:
            message = f"{flag(option)}: {name!r} is given twice; give it once"
            raise UsageError(message)
        assigned[name] = value
    return assigned


@click.group(name="import", cls=Group, examples=(_SIA_EXAMPLES[0], _GAVEL_EXAMPLES[0], _PRICES_EXAMPLES[0]))
def import_data() -> None:
    """Make an instance from a public trace and its profiles, or fill in prices and how often spot VMs are lost."""


@import_data.command(
    name="sia",
    cls=Command,
    short_help="From a workload and profiles of the Sia artifact.",
    examples=_SIA_EXAMPLES,
    renamed={
        "gpu": "--gpu",
        "max_width": "--max-width",
        "span_h": "--span",
        "applications": "--application",
        "widths": "--max-width",
        "timing": "--timing",
    },
)
@click.option("--workload", required=True, metavar="FILE", type=click.Path(path_type=Path), help="The trace, a CSV.")
@click.option("--profiles", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Folder of profiles.")
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
    show_default=True,
    metavar="N",
    callback=read_widths,
    help="Largest width, in GPUs; for several types also rtx=24, may be repeated.",
)
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
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="AMOUNT",
    callback=read_prices,
    help="Of one GPU, such as 0.978usd/hour; for several types t4=0.978usd/hour, may be repeated.",
)
@click.option("--price-source", metavar="TEXT", default="given by the user", help="Who published the price, and when.")
@click.option("--application", "applications", multiple=True, metavar="NAME", help="Only these; may be repeated.")
@click.option("--span", metavar="TIME", callback=read_duration, help="Time that the trace covers, such as 48h.")
@click.option("--name", metavar="NAME", help="Name of the instance.")
@amendments_but("deadline")
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
    gpus: tuple[str, ...],
    max_width: int | dict[str, int],
    slowdown: bool,
    timing: str,
    applications: tuple[str, ...],
    prices: dict[str | None, float],
    price_source: str,
    name: str | None,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Make a BOA instance from a workload and profiles in the format of the Sia artifact.

    Every application of the workload becomes a class. The data says nothing about prices and budgets: give them here,
    or edit the instance.
    """
    from optplan.instances.sia_boa import build_sia_instance

    outputs = open_output(output, force=force, as_json=as_json)
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
    return deliver(instance, outputs, as_json=as_json)


@import_data.command(
    name="gavel",
    cls=Command,
    short_help="From a trace and throughputs of Gavel.",
    examples=_GAVEL_EXAMPLES,
    renamed={"span_h": "--span", "gpus": "--gpu", "job_types": "--job-type"},
)
@click.option("--trace", required=True, metavar="FILE", type=click.Path(path_type=Path), help="The trace.")
@click.option(
    "--throughputs", required=True, metavar="FILE", type=click.Path(path_type=Path), help="Table of throughputs, JSON."
)
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="NAME",
    default=("v100", "p100", "k80"),
    show_default=True,
    help="GPU type of the table; may be repeated. Sizes are times on one GPU of the first.",
)
@click.option(
    "--consolidated/--unconsolidated", default=True, show_default=True, help="Whether a job's GPUs are in one server."
)
@click.option("--job-type", "job_types", multiple=True, metavar="NAME", help="Only these; may be repeated.")
@click.option("--span", metavar="TIME", callback=read_duration, help="Time that the trace covers, such as 85d.")
@click.option("--name", metavar="NAME", help="Name of the instance.")
@amendments_but("deadline")
@output_option("the instance as JSON; needed unless --json is given")
@force_option
def import_gavel(
    *,
    span: float | None,
    output: Path | None,
    force: bool,
    as_json: bool,
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
    from optplan.instances.gavel import build_gavel_instance

    outputs = open_output(output, force=force, as_json=as_json)
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
    return deliver(instance, outputs, as_json=as_json)


@import_data.command(
    name="prices", cls=Command, short_help="Into an instance, from a price list.", examples=_PRICES_EXAMPLES
)
@instance_argument
@click.option(
    "--catalog",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A price list, such as SkyPilot's.",
)
@click.option(
    "--instance-type",
    "instance_types",
    required=True,
    multiple=True,
    metavar="TYPE=NAME",
    callback=read_assignments,
    help="What the list calls a type of the instance: t4=g4dn.12xlarge, or t4=T4 for the cheapest with it; may be "
    "repeated. For the one type of a search: g4dn.12xlarge.",
)
@click.option("--region", metavar="NAME", help="Where; the cheapest region unless given.")
@click.option("--spot", multiple=True, metavar="TYPE", help="Take the spot price of this type; may be repeated.")
@click.option("--date", metavar="DATE", help="When the prices held, where the file's name does not say it.")
@click.option("--name", metavar="NAME", help="Name of the instance.")
@amendments
@output_option("the instance as JSON; needed unless --json is given")
@force_option
def import_prices(
    *,
    output: Path | None,
    force: bool,
    as_json: bool,
    instance_name: str,
    catalog: Path,
    instance_types: dict[str, str],
    region: str | None,
    spot: tuple[str, ...],
    date: str | None,
    name: str | None,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Fill prices into an instance, with their source and date.

    Into the GPU types of boa, the price of one GPU; those that are not named keep theirs, so that several lists can be
    read one after the other. Into the cloud of rubberband, the price of an instance, its GPUs and its region. Into the
    types of VM of srift, the price of a VM, its instance type and its region; those that are spot VMs get spot prices.
    """
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.formulations.rubberband.data.instance import RubberBandInstance
    from optplan.formulations.srift.data.instance import SriftInstance
    from optplan.instances.catalog import read_price_list, set_cloud_price, set_prices
    from optplan.instances.files import read_instance
    from optplan.instances.vm_prices import set_vm_prices

    outputs = open_output(output, force=force, as_json=as_json)
    instance = read_instance(instance_name)
    if isinstance(instance, RubberBandInstance):
        if set(instance_types) != {""} or spot:
            message = "--instance-type: a search has one instance type; give its name alone, as in g4dn.12xlarge"
            raise UsageError(f"{message}, and no --spot: its instances cannot be taken away")
        price = read_price_list(catalog, date=date).price_of(instance_types[""], region)
        cloud = set_cloud_price(instance, price)
        return deliver(amend(rename(cloud, name), changes), outputs, as_json=as_json)
    if not isinstance(instance, BoaInstance | SriftInstance):
        formulation = getattr(instance, "formulation", "")
        message = f"INSTANCE: {instance.name!r} is of formulation {formulation!r}, which has no prices of GPU types"
        raise UsageError(message)
    if "" in instance_types:
        raise UsageError(_ask_for_type("--instance-type", instance_types[""]))
    types, what = _list_types(instance)
    for named in instance_types:
        _check_type("--instance-type", named, types, what)
    for named in spot:
        _check_type("--spot", named, instance_types, what)
    prices = read_price_list(catalog, date=date)
    found = {named: prices.price_of(listed, region) for named, listed in instance_types.items()}
    priced: BoaInstance | SriftInstance
    if isinstance(instance, SriftInstance):
        priced = set_vm_prices(instance, found, spot=spot)
    else:
        priced = set_prices(instance, found, spot=spot)
    return deliver(amend(rename(priced, name), changes), outputs, as_json=as_json)


def _list_types(instance: BoaInstance | SriftInstance) -> tuple[Mapping[str, object], str]:
    """Return what an instance has a price for, by name, and what that is called."""
    from optplan.formulations.boa.data.instance import BoaInstance

    return (instance.gpu_types, "GPU type") if isinstance(instance, BoaInstance) else (instance.types, "type of VM")


def _ask_for_type(option: str, text: str) -> str:
    return f"{option}: got {text!r}; a GPU type and its name in the list are needed, as in t4=g4dn.xlarge"


def price_types(instance: BoaInstance, prices: Mapping[str | None, float], source: str) -> BoaInstance:
    """Return the instance with the prices that the user gave, by GPU type; None stands for the only one."""
    types = dict(instance.gpu_types)
    for given, price in prices.items():
        if given is None and len(types) > 1:
            message = f"--price: there are several GPU types; say of which one, as in {next(iter(types))}=0.978usd/hour"
            raise UsageError(message)
        gpu_type = next(iter(types)) if given is None else given
        _check_type("--price", gpu_type, types)
        types[gpu_type] = types[gpu_type].replace(price_usd_per_hour=price, price_source=source)
    return instance.replace(gpu_types=types) if prices else instance


def _check_type(option: str, gpu_type: str, known: Mapping[str, object], what: str = "GPU type") -> None:
    if gpu_type not in known:
        message = f"{option}: no {what} {gpu_type!r}; {nearest_name_hint(gpu_type, known)}"
        raise UsageError(message)


def rename(instance: _Instance, name: str | None) -> _Instance:
    """Return the instance under the name that the user gave, if any."""
    return instance if name is None else instance.replace(name=name)


def open_output(output: Path | None, *, force: bool, as_json: bool) -> Outputs:
    """Return where an import goes; a file, or JSON on stdout, is needed."""
    if output is None and not as_json:
        raise UsageError("--output: say where to write the instance, as in -o mine.json, or give --json for stdout")
    return Outputs({"--output": output}, force=force, as_json=as_json)


def deliver(instance: Instance, outputs: Outputs, *, as_json: bool) -> int:
    """Show the instance and write it; return the exit code."""
    from optplan.instances.files import write_json

    if as_json:
        print_json(instance.to_json_data())
    else:
        from optplan.reporting.presenters import presenter_of

        print_answer(*presenter_of(instance).present_instance(instance))
    outputs.save("--output", lambda path: write_json(instance, path, overwrite=outputs.force))
    return outputs.exit_code(0)
