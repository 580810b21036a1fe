"""Measured samples a second from one CSV: by type of VM, number of VMs or GPUs, and configuration.

The first line names the columns: ``type``, ``samples_per_s`` and one of ``vms`` and ``gpus`` (of all VMs together) are
needed; ``configuration``, ``price_usd_per_hour`` (of one VM) and ``gpus_per_vm`` may be there. No others are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from optplan.errors import DataError, nearest_name_hint, show_value
from optplan.formulations.throughputs.data import ThroughputsInstance
from optplan.instances.csv_tables import parse_number, parse_whole, read_header, read_rows
from optplan.instances.instance_prices import find_price, name_prices
from optplan.schema import LEAST_AMOUNT

_NEEDED = ("type", "samples_per_s")
_OPTIONAL = ("vms", "gpus", "configuration", "price_usd_per_hour", "gpus_per_vm")

#: Columns about a type: the field of the instance, and what reads it.
_OF_VM: dict[str, tuple[str, Callable[[Path, int, str, str], float]]] = {
    "price_usd_per_hour": ("price_usd_per_hour", partial(parse_number, least=LEAST_AMOUNT)),
    "gpus_per_vm": ("gpus", parse_whole),
}
#: Line and fields by column.
_Row = tuple[int, dict[str, str]]


def build_throughputs_instance(
    path: Path,
    *,
    samples: float,
    prices: Mapping[str, float | str] | None = None,
    interpolate: bool = False,
) -> ThroughputsInstance:
    """Make an instance from a table of measured speeds."""
    # Prices are of one VM by type, an empty name for the only one: US dollars per hour, or ``aws:g4dn.12xlarge``, which
    # ships, and says how many GPUs a VM has, too. Either takes the place of the column. With ``interpolate``, numbers
    # of VMs between two measured ones may be chosen.
    rows = _read(path)
    given = name_prices(prices or {}, dict.fromkeys(row["type"] for _, row in rows), "type")
    types: dict[str, dict[str, Any]] = {}
    for line, row in rows:
        name = row["type"]
        vm = types.setdefault(name, _look_up(given[name]) if name in given else {})
        for column in _OF_VM:
            _note(path, line, row, column, vm, keep=name in given)
    measurements = []
    lines: dict[tuple[str, int, str], int] = {}
    for line, row in rows:
        name = row["type"]
        vms, configuration = _count_vms(path, line, row, types[name]), row.get("configuration", "")
        earlier = lines.setdefault((name, vms, configuration), line)
        if earlier != line:
            problem = f"type, number and configuration are those of line {earlier}"
            raise DataError(f"{path}:{line}", problem, "keep one of the rows, or their mean")
        speed = parse_number(path, line, "samples_per_s", row["samples_per_s"], least=LEAST_AMOUNT)
        measured = {"type": name, "vms": vms, "configuration": configuration, "samples_per_s": speed}
        measurements.append(measured)
    unpriced = [name for name, vm in types.items() if "price_usd_per_hour" not in vm]
    if unpriced:
        example = f"--price {unpriced[0]}=0.5usd/hour or --price {unpriced[0]}=aws:g4dn.xlarge"
        problem = f"has no price of {', '.join(unpriced)}"
        raise DataError(str(path), problem, f"add a column price_usd_per_hour, of one VM, or give {example}")
    return ThroughputsInstance(
        name=path.stem,
        samples=samples,
        types=types,
        measurements=measurements,
        interpolate=interpolate,
        source={"speeds": f"measured or planned elsewhere, from {path.name}"},
    )


def _read(path: Path) -> list[_Row]:
    header = read_header(path)
    unknown = [name for name in header if name not in (*_NEEDED, *_OPTIONAL)]
    if unknown:
        hint = nearest_name_hint(unknown[0], [*_NEEDED, *_OPTIONAL])
        raise DataError(str(path), f"column {show_value(unknown[0])} is not known", f"{hint}, or leave it out")
    if ("vms" in header) == ("gpus" in header):
        both = "has both columns vms and gpus" if "vms" in header else "has no column vms"
        fix = "keep one of them" if "vms" in header else "say how many VMs each row is about, or in gpus how many GPUs"
        raise DataError(str(path), both, fix)
    columns = [*_NEEDED, *(name for name in _OPTIONAL if name in header)]
    rows = [
        (line, dict(zip(columns, (field.strip() for field in fields), strict=True)))
        for line, fields in read_rows(path, columns)
    ]
    if not rows:
        raise DataError(str(path), "has no rows", "give a row for each measured speed")
    nameless = [line for line, row in rows if not row["type"]]
    if nameless:
        raise DataError(f"{path}:{nameless[0]}", "type is empty", "name the type of VM")
    return rows


def _look_up(price: float | str) -> dict[str, Any]:
    if not isinstance(price, str):
        return {"price_usd_per_hour": price, "price_source": "given by the user"}
    found, spot = find_price(price)
    return {"gpus": found.gpus, "gpu": found.gpu, "spot": spot, **found.of_whole(price, is_spot=spot)}


def _note(path: Path, line: int, row: dict[str, str], column: str, vm: dict[str, Any], *, keep: bool) -> None:
    """Take a price, or a number of GPUs, from a row; what was given apart from the table stays."""
    field, parse = _OF_VM[column]
    if not row.get(column) or (keep and field in vm):
        return
    value = parse(path, line, column, row[column])
    if vm.setdefault(field, value) != value:
        problem = f"{column} of {row['type']} is {value:g}, and {vm[field]:g} in an earlier row"
        raise DataError(f"{path}:{line}", problem, "give all rows of a type the same one")


def _count_vms(path: Path, line: int, row: dict[str, str], vm: dict[str, Any]) -> int:
    if "vms" in row:
        return parse_whole(path, line, "vms", row["vms"])
    gpus, each = parse_whole(path, line, "gpus", row["gpus"]), int(vm.get("gpus", 1))
    if gpus % each:
        problem = f"gpus is {gpus}, which is no whole number of VMs with {each} GPUs"
        raise DataError(f"{path}:{line}", problem, "leave the row out, or call smaller VMs a type of their own")
    return gpus // each
