"""Prices of a price list in instances: of GPUs, of a search's instance type, of whole VMs; on demand or spot."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping

from optplan.errors import DataError, DataWarning, nearest_name_hint
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.srift.data.bandwidth import MeasuredBandwidth
from optplan.formulations.srift.data.instance import SriftInstance, VmType
from optplan.instances.catalog import GpuPrice


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
