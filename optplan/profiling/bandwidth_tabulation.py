"""Bus bandwidth as tables, which instances of Srift read: predicted by a model, or measured (4.2)."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from optplan.errors import DataError, DataWarning, UsageError, nearest_name_hint
from optplan.formulations.srift.data.bandwidth import BandwidthTable, MeasuredBandwidth
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.profiling.allreduce_data import AllreduceData, Measurement, Place
from optplan.profiling.learned_bandwidth import LearnedBandwidth
from optplan.quantities import round_shared


def tabulate(
    source: LearnedBandwidth | AllreduceData,
    types: Sequence[str] | Mapping[str, str] = (),
    ranks: Sequence[int] = (),
    sizes_bytes: Sequence[int] = (),
    *,
    region: str | None = None,
) -> MeasuredBandwidth:
    """Tabulate the bandwidth for an instance's field ``bandwidth``, of all-reduces one at a time.

    Parameters
    ----------
    source
        A model, or measurements, whose medians are taken.
    types
        Types of VM, or the type that was measured by the name that the instance has for it; all unless given.
    ranks, sizes_bytes
        Of the table, ascending; those that were measured unless given.
    region
        Where; the mean of a model over all places of the type, or the median of all rows, unless given.

    Returns
    -------
    MeasuredBandwidth
        Whose source says whether it was predicted or measured, from what, how well, and whether that was synthetic.

    Raises
    ------
    DataError
        When a type or region was not measured, or nothing was on a size's side of the MTU; of measurements, also when
        a point of the table was not measured.
    MissingExtraError
        When there is a model and xgboost is not installed.
    """
    by_name = dict(types) if isinstance(types, Mapping) else {name: name for name in types}
    by_name = by_name or {name: name for name in source.vm_types}
    if isinstance(source, AllreduceData):
        return _tabulate_rows(source, by_name, ranks, sizes_bytes, region)
    return _tabulate_model(source, by_name, ranks, sizes_bytes, region)


def fill_bandwidth(
    instance: SriftInstance,
    source: LearnedBandwidth | AllreduceData,
    types: Mapping[str, str] | None = None,
    ranks: Sequence[int] = (),
    sizes_bytes: Sequence[int] = (),
    *,
    region: str | None = None,
) -> SriftInstance:
    """Return an instance whose all-reduces run at the predicted or measured bandwidth.

    Parameters
    ----------
    instance
        Its types of VM are looked up by ``instance_type``, or by their name where that is empty.
    source
        As of :func:`tabulate`.
    types
        By such a name, the type that was measured and stands for it; the name itself unless given.
    ranks, sizes_bytes, region
        As of :func:`tabulate`.

    Raises
    ------
    DataError
        As of :func:`tabulate`.
    UsageError
        When the instance has no such type.
    """
    wanted = {vm.instance_type or name: vm.instance_type or name for name, vm in instance.types.items()}
    for name, vm_type in (types or {}).items():
        if name not in wanted:
            raise UsageError(f"types: the instance has no VMs of {name!r}; {nearest_name_hint(name, wanted)}")
        wanted[name] = vm_type
    return instance.replace(bandwidth=tabulate(source, wanted, ranks, sizes_bytes, region=region))


def _tabulate_model(
    model: LearnedBandwidth, types: Mapping[str, str], ranks: Sequence[int], sizes: Sequence[int], region: str | None
) -> MeasuredBandwidth:
    rows, columns = tuple(ranks) or model.measured_ranks, tuple(sizes) or model.measured_sizes_bytes
    _warn_beyond("ranks", rows, model.measured_ranks)
    _warn_beyond("sizes_bytes", columns, model.measured_sizes_bytes)
    tables = {}
    for name, vm_type in types.items():
        places = _find_places(model.places, vm_type, region, model.vm_types)
        found = [[model.predict(place, count, columns) for count in rows] for place in places]
        tables[name] = _make_table(rows, columns, round_shared(np.mean(np.array(found), axis=0)).tolist())
    sides = [(model.small, f"up to {model.mtu_bytes} bytes"), (model.large, "above")]
    errors = ", ".join(f"{side.mape:.1%} {where}" for side, where in sides if side is not None)
    said = [f"boosted trees learned from {model.label}", f"cross-validated MAPE {errors}"]
    return MeasuredBandwidth(tables=tables, source="; ".join([*said, *_say_choices(types, region)]))


def _tabulate_rows(
    data: AllreduceData, types: Mapping[str, str], ranks: Sequence[int], sizes: Sequence[int], region: str | None
) -> MeasuredBandwidth:
    least = min(row.transfers for row in data.rows)
    here = tuple(dict.fromkeys(row.place for row in data.rows))
    tables = {}
    for name, vm_type in types.items():
        places = set(_find_places(here, vm_type, region, data.vm_types))
        taken = [row for row in data.rows if row.place in places and row.transfers == least]
        rows = tuple(ranks) or tuple(sorted({row.ranks for row in taken}))
        columns = tuple(sizes) or tuple(sorted({row.size_bytes for row in taken}))
        tables[name] = _make_table(rows, columns, _take_medians(vm_type, taken, rows, columns))
    return MeasuredBandwidth(
        tables=tables, source="; ".join([f"medians of {data.label}", *_say_choices(types, region)])
    )


def _take_medians(
    vm_type: str, taken: Sequence[Measurement], ranks: Sequence[int], sizes: Sequence[int]
) -> list[list[float]]:
    """Return (ranks, sizes) medians of the rows of a type."""
    points: dict[tuple[int, int], list[float]] = {}
    for row in taken:
        points.setdefault((row.ranks, row.size_bytes), []).append(row.bus_gbit_per_s)
    for count in ranks:
        for size in sizes:
            if (count, size) not in points:
                problem = f"{vm_type} was not measured with {size} bytes among {count} ranks"
                raise DataError("types", problem, "learn a model, which fills gaps, or choose ranks and sizes")
    return [[statistics.median(points[count, size]) for size in sizes] for count in ranks]


def _make_table(
    ranks: Sequence[int], sizes: Sequence[int], bus_gbit_per_s: Sequence[Sequence[float]]
) -> BandwidthTable:
    return BandwidthTable.parse(
        {"ranks": list(ranks), "sizes_bytes": list(sizes), "bus_gbit_per_s": bus_gbit_per_s}, path="table"
    )


def _find_places(places: Sequence[Place], vm_type: str, region: str | None, known: Sequence[str]) -> list[Place]:
    of_type = [place for place in places if place.vm_type == vm_type]
    if not of_type:
        raise DataError("types", f"{vm_type!r} was not measured", nearest_name_hint(vm_type, known))
    found = [place for place in of_type if region is None or place.region == region]
    if not found:
        regions = sorted({place.region or "(not said)" for place in of_type})
        raise DataError("region", f"{vm_type} was not measured in {region!r}", nearest_name_hint(str(region), regions))
    return found


def _warn_beyond(what: str, asked: Sequence[int], measured: Sequence[int]) -> None:
    beyond = [value for value in asked if not measured[0] <= value <= measured[-1]]
    if beyond:
        message = (
            f"{what}: {', '.join(map(str, beyond))} lie beyond what was measured, {measured[0]} to {measured[-1]}; "
            "trees predict there what they do at the end"
        )
        warnings.warn(message, DataWarning, stacklevel=4)


def _say_choices(types: Mapping[str, str], region: str | None) -> list[str]:
    taken = [f"{name} as {vm_type}" for name, vm_type in types.items() if name != vm_type]
    return [f"in {region}"] * (region is not None) + [", ".join(taken)] * bool(taken)
