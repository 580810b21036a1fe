"""From measured all-reduces to a bandwidth: ``optplan import nccl-tests`` and ``bandwidth``, ``measure bandwidth``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.commands import command
from optplan.cli.console import Progress, Shown
from optplan.cli.options import FILE, NUMBERS, SIZE, argument, complete_instance, option
from optplan.cli.outputs import Outputs, deliver
from optplan.errors import UsageError
from optplan.units import parse_bytes

if TYPE_CHECKING:
    from optplan.formulations.srift.data.bandwidth import MeasuredBandwidth
    from optplan.profiling.allreduce_data import AllreduceData
    from optplan.profiling.learned_bandwidth import LearnedBandwidth

_IMPORT_EXAMPLES = (
    "optplan import nccl-tests all_reduce.txt --vm-type p3.8xlarge --rated-gbit-per-s 10 -o p3.csv",
    "optplan import nccl-tests run2.txt run8.txt --vm-type g4dn.4xlarge --region us-west-2 -o g4dn.csv",
)
_EXAMPLES = (
    "optplan measure bandwidth p3.csv g4dn.csv -o model.json",
    "optplan import bandwidth model.json --into mine.json -o learned.json",
)


@command(
    "nccl-tests",
    short_help="Measurements of all-reduces, from what nccl-tests wrote.",
    examples=_IMPORT_EXAMPLES,
    writes={"output": "the measurements as CSV"},
)
@click.option("--cloud", metavar="NAME", default="", help="Features of the VMs, which the model learns from.")
@click.option("--region", metavar="NAME", default="")
@click.option("--zone", metavar="NAME", default="")
@click.option("--gpu", metavar="NAME", default="", help="The name in the files unless given.")
@click.option("--cpu", metavar="NAME", default="")
@click.option("--cpu-cores", type=float, metavar="N")
@click.option("--memory-gib", type=float, metavar="N")
@click.option("--rated-gbit-per-s", type=float, metavar="N", help="Bandwidth that the provider promises.")
def import_nccl_tests(
    paths: tuple[Path, ...] = argument(metavar="FILE...", nargs=-1, required=True, type=FILE),
    *,
    vm_type: str = option(required=True, metavar="NAME", help="Type of VM, as instances call it."),
    ranks: int | None = option(type=int, metavar="N", help="That took part, where the files do not say it."),
    column: str = option(
        type=click.Choice(["both", "out-of-place", "in-place"]),
        default="both",
        help="Which all-reduces are read; frameworks do theirs in place.",
    ),
    outputs: Outputs,
    **features: str | float | None,
) -> int:
    """Read what nccl-tests' all_reduce_perf printed.

    busbw is GB/s there; small sizes round to 0.00, so that bandwidths are computed from the times, and have to agree.
    """
    from optplan.profiling.allreduce_data import Place
    from optplan.profiling.nccl_tests import read_nccl_tests

    known: dict[str, Any] = {name: value for name, value in features.items() if value is not None}
    which: Any = column
    data = read_nccl_tests(paths, Place(vm_type, **known), ranks=ranks, which=which)
    return deliver_measurements(data, outputs)


@command(
    short_help="Learn a model of bandwidth from measured all-reduces, for Srift.",
    examples=(_EXAMPLES[0],),
    writes={"output": "the model as JSON"},
)
def bandwidth(
    paths: tuple[Path, ...] = argument(metavar="MEASUREMENTS.csv...", nargs=-1, required=True, type=FILE),
    *,
    vm_type: str = option(metavar="NAME", default="", help="Of rows that do not say it."),
    mtu: int = option(
        default="9000B",
        type=SIZE,
        help="Largest packet of the network, where the models for small and large transfers part; EC2's unless given.",
    ),
    folds: int = option(type=int, metavar="N", default=5, help="Of the cross-validation."),
    seed: int = option(type=int, metavar="N", default=0, help="Of the folds."),
    outputs: Outputs,
) -> int:
    """Learn bus bandwidth with boosted trees, one model on each side of the MTU, and say how well they predict.

    Errors are those in cross-validation: of rows that the trees had not seen.
    """
    from optplan.profiling.bandwidth_training import learn_bandwidth

    data = _read_all(paths, vm_type)
    with Progress("learning"):
        model = learn_bandwidth(data, mtu_bytes=mtu, seed=seed, folds=folds)
    return outputs.deliver(model, lambda: _show_model(model))


@command(
    "bandwidth",
    short_help="A table of bandwidths from a model or measurements, or into an instance of srift.",
    examples=(_EXAMPLES[1], "optplan import bandwidth p3.csv --vm-type mine=p3.8xlarge -o table.json"),
    renamed={"types": "--vm-type", "region": "--region"},
    writes={"output": "the table, or the instance, as JSON"},
)
def import_bandwidth(
    path: Path = argument(metavar="MODEL.json|MEASUREMENTS.csv", type=FILE),
    *,
    types: tuple[str, ...] = option(
        "--vm-type",
        multiple=True,
        metavar="NAME",
        help="Type of VM, may be repeated; mine=p3.8xlarge where an instance has another name for one that was there.",
    ),
    ranks: tuple[int, ...] | None = option(
        type=NUMBERS, help="Numbers of ranks; those that were measured unless given."
    ),
    sizes: str = option(
        metavar="SIZE,SIZE", default="", help="Sizes, as in 4B,1MiB; those that were measured unless given."
    ),
    region: str | None = option(metavar="NAME", help="Where; the mean over all places of a type unless given."),
    into: str | None = option(
        metavar="INSTANCE", shell_complete=complete_instance, help="Fill the table into this instance."
    ),
    name: str | None = option(metavar="NAME", help="Name of the instance."),
    outputs: Outputs,
) -> int:
    """Tabulate what a model predicts, or the medians of measurements, as the field `bandwidth` of an instance of srift.

    With --into, all types of the instance are tabulated; --vm-type says which measured ones stand for those that were
    not measured.
    """
    from optplan.formulations.srift.data.instance import SriftInstance
    from optplan.instances.files import read_instance
    from optplan.profiling.bandwidth_training import fill_bandwidth, tabulate
    from optplan.profiling.learned_bandwidth import read_model

    source = _read_all([path], "") if path.suffix.lower() == ".csv" else read_model(path)
    counts = sorted(set(ranks or ()))
    buffers = sorted({parse_bytes(part.strip(), what="--sizes") for part in sizes.split(",") if part.strip()})
    chosen = {name: vm_type if equals else name for name, equals, vm_type in (p.partition("=") for p in types)}
    if into is None:
        if name is not None:
            raise UsageError("--name: has a meaning with --into INSTANCE only")
        table = tabulate(source, chosen, counts, buffers, region=region)
        return outputs.deliver(table, lambda: _show_table(table))
    instance = fill_bandwidth(read_instance(into, SriftInstance), source, chosen, counts, buffers, region=region)
    instance = instance if name is None else instance.replace(name=name)
    return deliver(instance, outputs)


def _read_all(paths: Sequence[Path], vm_type: str) -> AllreduceData:
    from optplan.profiling.allreduce_data import AllreduceData, Place, read_measurements

    tables = [read_measurements(path, unless_said=Place(vm_type)) for path in paths]
    return AllreduceData(tuple(chain.from_iterable(table.rows for table in tables)))


def deliver_measurements(data: AllreduceData, outputs: Outputs) -> int:
    """Show measurements and write them as CSV; return the exit code."""
    from optplan.profiling.allreduce_data import format_csv, list_records

    outputs.answer(list_records(data), lambda: _show_measurements(data))
    outputs.save_text("--out", lambda _: format_csv(data))
    return outputs.exit_code(0)


def _show_measurements(data: AllreduceData) -> Iterable[Shown]:
    """Say what there is: a row for each type of VM and number of ranks."""
    from optplan.reporting.tables import fact_table, record_table

    yield fact_table([("measurements", f"{len(data.rows):,} {data.label}")])
    groups: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for row in data.rows:
        groups.setdefault((row.place.vm_type, row.ranks), []).append((row.size_bytes, row.bus_gbit_per_s))
    yield ""
    yield record_table(
        "all-reduces",
        [
            {
                "VM": vm_type,
                "ranks": ranks,
                "rows": len(rows),
                "bytes": f"{min(rows)[0]:,} to {max(rows)[0]:,}",
                "bus Gbit/s": f"{min(speed for _, speed in rows):.3g} to {max(speed for _, speed in rows):.3g}",
            }
            for (vm_type, ranks), rows in groups.items()
        ],
    )


def _show_model(model: LearnedBandwidth) -> Iterable[Shown]:
    """Say what was learned, how well it predicts, and what else was tried."""
    from optplan.reporting.tables import fact_table, record_table

    sides = [
        (name, side)
        for name, side in ((f"up to {model.mtu_bytes:,} B", model.small), ("larger", model.large))
        if side is not None
    ]
    yield fact_table([("learned from", model.label), ("types of VM", ", ".join(model.names["vm_type"]))])
    yield ""
    yield record_table(
        "models",
        [
            {
                "transfers": name,
                "rows": f"{side.rows:,}",
                "MAPE": f"{side.mape:.1%}",
                "MAPE of rated": "" if side.rated_mape is None else f"{side.rated_mape:,.0%}",
                "loss": side.loss.value,
                "predicts": side.target.value,
                "trees": f"{side.rounds} of depth {side.depth}",
            }
            for name, side in sides
        ],
    )
    tried: dict[tuple[str, str], dict[str, float]] = {}
    for name, side in sides:
        for trial in side.trials:
            best = tried.setdefault((trial.loss.value, trial.target.value), {})
            best[name] = min(trial.mape, best.get(name, trial.mape))
    yield ""
    yield record_table(
        "MAPE of what was tried",
        [
            {"loss": loss, "predicts": target, **{name: f"{mape:.1%}" for name, mape in best.items()}}
            for (loss, target), best in tried.items()
        ],
    )


def _show_table(table: MeasuredBandwidth) -> Iterable[Shown]:
    """Show the least and the most of each type's row of ranks."""
    from optplan.reporting.tables import fact_table, record_table

    yield fact_table([("bandwidth", table.source)])
    yield ""
    yield record_table(
        "bus Gbit/s",
        [
            {
                "VM": name,
                "ranks": ranks,
                "bytes": f"{of_type.sizes_bytes[0]:,.0f} to {of_type.sizes_bytes[-1]:,.0f}",
                "at the least": f"{speeds[0]:.3g}",
                "at the most": f"{speeds[-1]:.3g}",
            }
            for name, of_type in table.tables.items()
            for ranks, speeds in zip(of_type.ranks.tolist(), of_type.bus_gbit_per_s.tolist(), strict=True)
        ],
    )
