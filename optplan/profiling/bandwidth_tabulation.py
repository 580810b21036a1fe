"""Bus bandwidth as tables, which instances of Srift read: predicted by a model, or measured (4.2)."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from optplan.errors import DataError, DataWarning, UsageError, nearest_name_hint
from optplan.formulations.srift.data.bandwidth import BandwidthTable, MeasuredBandwidth
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.profiling.allreduce_data import AllreduceData, Place
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
    here = source.places
    by_name = by_name or {name: name for name in sorted({place.vm_type for place in here})}
    if isinstance(source, LearnedBandwidth):
        _warn_beyond("ranks", ranks, source.measured_ranks)
        _warn_beyond("sizes_bytes", sizes_bytes, source.measured_sizes_bytes)
    tables = {}
    for name, vm_type in by_name.items():
        places = _find_places(here, vm_type, region)
        if isinstance(source, LearnedBandwidth):
            tables[name] = _predict(source, places, ranks, sizes_bytes)
        else:
            tables[name] = _take_medians(source, places, ranks, sizes_bytes)
    chosen = ", ".join(f"{name} as {vm_type}" for name, vm_type in by_name.items() if name != vm_type)
    where = "" if region is None else f"in {region}"
    return MeasuredBandwidth(tables=tables, source="; ".join(filter(None, [*_describe(source), where, chosen])))


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


def _predict(
    model: LearnedBandwidth, places: Sequence[Place], ranks: Sequence[int], sizes: Sequence[int]
) -> BandwidthTable:
    """Tabulate the mean of what is predicted at the places."""
    rows, columns = tuple(ranks) or model.measured_ranks, tuple(sizes) or model.measured_sizes_bytes
    found = [[model.predict(place, count, columns) for count in rows] for place in places]
    return _make_table(rows, columns, round_shared(np.mean(np.array(found), axis=0)).tolist())


def _take_medians(
    data: AllreduceData, places: Sequence[Place], ranks: Sequence[int], sizes: Sequence[int]
) -> BandwidthTable:
    """Tabulate the medians of what was measured at the places, with the fewest transfers at once."""
    least, here, points = min(row.transfers for row in data.rows), set(places), dict[tuple[int, int], list[float]]()
    for row in data.rows:
        if row.place in here and row.transfers == least:
            points.setdefault((row.ranks, row.size_bytes), []).append(row.bus_gbit_per_s)
    rows = tuple(ranks) or tuple(sorted({count for count, _ in points}))
    columns = tuple(sizes) or tuple(sorted({size for _, size in points}))
    for count, size in product(rows, columns):
        if (count, size) not in points:
            problem = f"{places[0].vm_type} was not measured with {size} bytes among {count} ranks"
            raise DataError("types", problem, "learn a model, which fills gaps, or choose ranks and sizes")
    return _make_table(rows, columns, [[statistics.median(points[count, size]) for size in columns] for count in rows])


def _describe(source: LearnedBandwidth | AllreduceData) -> list[str]:
    if isinstance(source, AllreduceData):
        return [f"medians of {source.label}"]
    sides = [(source.small, f"up to {source.mtu_bytes} bytes"), (source.large, "above")]
    errors = ", ".join(f"{side.mape:.1%} {where}" for side, where in sides if side is not None)
    return [f"boosted trees learned from {source.label}", f"cross-validated MAPE {errors}"]


def _make_table(
    ranks: Sequence[int], sizes: Sequence[int], bus_gbit_per_s: Sequence[Sequence[float]]
) -> BandwidthTable:
    return BandwidthTable.parse(
        {"ranks": list(ranks), "sizes_bytes": list(sizes), "bus_gbit_per_s": bus_gbit_per_s}, path="table"
    )


def _find_places(places: Sequence[Place], vm_type: str, region: str | None) -> list[Place]:
    of_type = [place for place in places if place.vm_type == vm_type]
    if not of_type:
        known = sorted({place.vm_type for place in places})
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
        warnings.warn(message, DataWarning, stacklevel=3)
