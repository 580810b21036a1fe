"""Prices of a price list in instances: of GPUs, of a search's instance type, of whole VMs; on demand or spot.

Prices of the common GPU types that ship with the package, and how they are named.

``aws:p4d.24xlarge`` is an instance type, ``lambda:H100`` the cheapest instance type with that GPU, ``google:V100`` a
GPU without its host, as Google lists them; ``aws:p4d.24xlarge@us-east-1`` says the region, and ``:spot`` at the end
asks for the spot price. ``runpod-2026-05.csv:H100`` is in a price list of the user's. The snapshots are facts with
source and date, written by ``benchmarks/build_price_snapshots.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from optplan.errors import DataError, DataWarning, UsageError, nearest_name_hint, show_value
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.srift.data.bandwidth import MeasuredBandwidth
from optplan.formulations.srift.data.instance import SriftInstance, VmType
from optplan.instances.catalog import GpuPrice, Offer, PriceList, read_price_list
from optplan.instances.plain_data import read_data


def name_prices(
    prices: Mapping[str, float | str], types: Iterable[str], what: str = "GPU type"
) -> dict[str, float | str]:
    """Return the prices that a user gave, by type; an empty name stands for the only one."""
    known = list(types)
    if "" in prices and len(known) > 1:
        raise UsageError(f"--price: there are several {what}s; say of which one, as in {known[0]}=0.978usd/hour")
    named = {name or known[0]: price for name, price in prices.items()}
    for name in named:
        if name not in known:
            raise UsageError(f"--price: no {what} {name!r}; {nearest_name_hint(name, known)}")
    return named


def set_prices(
    instance: BoaInstance, prices: Mapping[str, GpuPrice], *, spot: Collection[str] = frozenset()
) -> BoaInstance:
    """Return an instance with prices, their sources and dates filled in.

    Parameters
    ----------
    instance
        Its other GPU types keep their prices.
    prices
        By GPU type of the instance.
    spot
        The GPU types that are to cost their spot price.

    Raises
    ------
    DataError
        When a GPU type is not the instance's or has no spot price.
    """
    types = dict(instance.gpu_types)
    for name, price in prices.items():
        if name not in types:
            raise DataError(f"gpu_types.{name}", f"instance {instance.name!r} has none", nearest_name_hint(name, types))
        usd, source = price.take(f"gpu_types.{name}", is_spot=name in spot)
        if name in spot and types[name].spot is None:
            message = (
                f"gpu_types.{name}: a spot price is taken and nothing said of interruptions; "
                f"gpu_types.{name}.spot says what they cost"
            )
            warnings.warn(message, DataWarning, stacklevel=2)
        types[name] = types[name].replace(price_usd_per_hour=usd, price_source=source, price_date=price.date)
    return instance.replace(gpu_types=types)


def set_cloud_price(instance: RubberBandInstance, price: GpuPrice) -> RubberBandInstance:
    """Return a search with the price of its instance type on demand, its GPUs, its region, and who said so when."""
    price.require_host("cloud.instance_type")
    cloud = instance.cloud.replace(gpus_per_instance=price.gpus, **price.of_whole("cloud"))
    return instance.replace(cloud=cloud)


def set_vm_prices(
    instance: SriftInstance, prices: Mapping[str, GpuPrice], *, spot: Collection[str] = frozenset()
) -> SriftInstance:
    """Return an instance with prices of its types of VM, their instance types, regions, sources and dates.

    Parameters
    ----------
    instance
        Its other types keep their prices.
    prices
        By type of the instance, of instance types with a host.
    spot
        Types that become spot ones. Those that the instance calls spot get their spot price, too.

    Returns
    -------
    SriftInstance
        Where it has bandwidth tables, a type that gets another instance type keeps its table under the new name.

    Raises
    ------
    DataError
        When a type is not the instance's, the price is that of GPUs without a host, or there is no spot price.
    """
    types, bandwidth = dict(instance.types), instance.bandwidth
    for name, price in prices.items():
        if name not in types:
            raise DataError(f"types.{name}", f"instance {instance.name!r} has none", nearest_name_hint(name, types))
        before = types[name]
        types[name] = _set_price(f"types.{name}", before, price, is_spot=before.spot or name in spot)
        if isinstance(bandwidth, MeasuredBandwidth) and price.instance_type not in bandwidth.tables:
            table = bandwidth.tables[before.instance_type or name]
            bandwidth = bandwidth.replace(tables={**bandwidth.tables, price.instance_type: table})
    return instance.replace(types=types, bandwidth=bandwidth)


def _set_price(path: str, vm: VmType, price: GpuPrice, *, is_spot: bool) -> VmType:
    price.require_host(path)
    if price.gpus != vm.gpus:
        message = f"{path}: {price.instance_type} has {price.gpus} GPUs, and gpus is {vm.gpus}; the whole VM is paid"
        warnings.warn(message, DataWarning, stacklevel=3)
    priced = price.of_whole(path, is_spot=is_spot, instead="set spot to false")
    if is_spot and not vm.interruptions_per_hour:
        message = (
            f"{path}: a spot price is taken and nothing said of interruptions; `optplan import spot-trace` or "
            "interruptions_per_hour says how often a VM is lost"
        )
        warnings.warn(message, DataWarning, stacklevel=3)
    return vm.replace(spot=is_spot, **priced)


#: By the name in front of the colon, the file.
PROVIDERS = {name: name for name in ("aws", "azure", "google", "lambda", "nebius", "shadeform")} | {"gcp": "google"}
_FOLDER = Path(__file__).parent / "prices"
_SPOT, _LIST = ":spot", ".csv"


def find_price(text: str, region: str | None = None) -> tuple[GpuPrice, bool]:
    """Look a price up.

    Parameters
    ----------
    text
        As above. An instance type needs no provider, as only one has it.
    region
        Where, unless the text says it.

    Returns
    -------
    price : GpuPrice
        Of one GPU.
    spot : bool
        Whether the text asks for its spot price.

    Raises
    ------
    UsageError
        When the provider is not known.
    DataError
        When there is no such type, several providers have it, or a price list cannot be read.
    """
    rest, is_spot = text.removesuffix(_SPOT), text.endswith(_SPOT)
    provider, colon, name = rest.rpartition(":")
    name, _, said = name.partition("@")
    if not name:
        raise UsageError(f"prices: got {show_value(text)}; an instance type is needed, as in aws:p4d.24xlarge")
    listed = _find_list(provider, name) if colon else _find_only_list(name)
    price = listed.price_of(name, said or region)
    if is_spot and price.spot_usd_per_hour is None:
        problem = f"no spot price of {name!r} is listed in {price.region}"
        raise DataError(listed.file, problem, "take the on-demand price, or another region")
    return price, is_spot


def _find_list(provider: str, name: str) -> PriceList:
    """Return the prices of a provider, or a price list by its path."""
    if provider.casefold().endswith(_LIST):
        return read_price_list(provider)
    if provider.casefold() not in PROVIDERS:
        fix = f"{nearest_name_hint(provider, PROVIDERS)}; or give a price list, as in {provider}-2026-05.csv:{name}"
        raise UsageError(f"prices: {show_value(provider)} ships no prices; {fix}")
    return read_snapshot(PROVIDERS[provider.casefold()])


def _find_only_list(name: str) -> PriceList:
    """Return the prices of the one provider that has an instance type or a GPU."""
    snapshots = {provider: read_snapshot(provider) for provider in sorted(set(PROVIDERS.values()))}
    names = {
        provider: {each for offer in listed.offers for each in (offer.instance_type, offer.gpu)} - {""}
        for provider, listed in snapshots.items()
    }
    having = [provider for provider, known in names.items() if name.casefold() in map(str.casefold, known)]
    if len(having) == 1:
        return snapshots[having[0]]
    problem = f"{name!r} is in the shipped prices of {', '.join(having) or 'nobody'}"
    ways = "say whose, as in " + ", ".join(f"{provider}:{name}" for provider in having)
    raise DataError("prices", problem, ways if having else nearest_name_hint(name, set().union(*names.values())))


@cache
def read_snapshot(provider: str) -> PriceList:
    """Return the prices of a provider, one of the values of ``PROVIDERS``."""
    data: Mapping[str, object] = read_data(_FOLDER / f"{provider}.json")
    rows = data["offers"]
    assert isinstance(rows, list)
    offers = tuple(
        replace(Offer(*row), is_joined=bool(data["hosts_added"] and row[0]))
        for row in rows  # which have the fields of offers, in their order
    )
    name = str(data["provider"])
    return PriceList(file=f"prices of {name}", provider=name, date=str(data["date"]), offers=offers)
