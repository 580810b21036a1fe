"""Predicted bus bandwidth as tables, which instances of Srift read (4.2)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from optplan.errors import DataError, DataWarning, UsageError, nearest_name_hint
from optplan.formulations.srift.bandwidth import BandwidthTable, MeasuredBandwidth
from optplan.formulations.srift.data import SriftInstance
from optplan.measurement.allreduce_data import Place
from optplan.measurement.learned_bandwidth import BandwidthPredictor, LearnedBandwidth


def tabulate(
    model: LearnedBandwidth,
    types: Sequence[str] | Mapping[str, str] = (),
    ranks: Sequence[int] = (),
    sizes_bytes: Sequence[int] = (),
    *,
    region: str | None = None,
) -> MeasuredBandwidth:
    """Tabulate predictions for an instance's field ``bandwidth``.

    Parameters
    ----------
    model
        What was learned.
    types
        Types of VM, or the type that was measured by the name that the instance has for it; all unless given.
    ranks, sizes_bytes
        Of the table, ascending; those that were measured unless given.
    region
        Where; the mean over all places of the type unless given.

    Returns
    -------
    MeasuredBandwidth
        Whose source says that it was predicted, from what, how well, and whether that was synthetic.

    Raises
    ------
    DataError
        When a type or region was not measured, or nothing was on a size's side of the MTU.
    MissingExtraError
        When xgboost is not installed.
    """
    asked = types or model.vm_types
    named = dict(asked) if isinstance(asked, Mapping) else {name: name for name in asked}
    rows, columns = tuple(ranks) or model.measured_ranks, tuple(sizes_bytes) or model.measured_sizes_bytes
    _warn_beyond("ranks", rows, model.measured_ranks)
    _warn_beyond("sizes_bytes", columns, model.measured_sizes_bytes)
    predictor = BandwidthPredictor(model)
    tables = {}
    for name, vm_type in named.items():
        places = _find_places(model, vm_type, region)
        found = [[predictor.predict(place, count, columns) for count in rows] for place in places]
        mean = np.mean(np.array(found), axis=0)
        tables[name] = BandwidthTable(
            ranks=np.array(rows), sizes_bytes=np.array(columns, dtype=np.float64), bus_gbit_per_s=mean
        )
    return MeasuredBandwidth(tables=tables, source=_say_source(model, named, region))


def fill_bandwidth(
    instance: SriftInstance,
    model: LearnedBandwidth,
    types: Mapping[str, str] | None = None,
    ranks: Sequence[int] = (),
    sizes_bytes: Sequence[int] = (),
    *,
    region: str | None = None,
) -> SriftInstance:
    """Return an instance whose all-reduces run at the predicted bandwidth.

    Parameters
    ----------
    instance
        Its types of VM are looked up by ``instance_type``, or by their name where that is empty.
    model
        What was learned.
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
    return instance.replace(bandwidth=tabulate(model, wanted, ranks, sizes_bytes, region=region))


def _find_places(model: LearnedBandwidth, vm_type: str, region: str | None) -> list[Place]:
    of_type = [place for place in model.places if place.vm_type == vm_type]
    if not of_type:
        raise DataError("types", f"{vm_type!r} was not measured", nearest_name_hint(vm_type, model.vm_types))
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


def _say_source(model: LearnedBandwidth, types: Mapping[str, str], region: str | None) -> str:
    sides = [(model.small, f"up to {model.mtu_bytes} bytes"), (model.large, "above")]
    errors = [f"{side.mape:.1%} {where}" for side, where in sides if side is not None]
    taken = [f"{name} as {vm_type}" for name, vm_type in types.items() if name != vm_type]
    parts = [f"boosted trees learned from {model.label}", f"cross-validated MAPE {', '.join(errors)}"]
    parts += [f"in {region}"] * (region is not None) + [", ".join(taken)] * bool(taken)
    return "; ".join(parts)
