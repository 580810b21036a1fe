"""Prices of a price list in an instance of Srift: of whole VMs, on demand or spot."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping

from optplan.errors import DataError, DataWarning, nearest_name_hint
from optplan.formulations.srift.data.bandwidth import MeasuredBandwidth
from optplan.formulations.srift.data.instance import SriftInstance, VmType
from optplan.instances.catalog import GpuPrice


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
    if not price.instance_type:
        problem = f"the price of {price.gpu} is that of GPUs without a host"
        raise DataError(path, problem, "choose an instance type of the list")
    if price.gpus != vm.gpus:
        message = f"{path}: {price.instance_type} has {price.gpus} GPUs, and gpus is {vm.gpus}; the whole VM is paid"
        warnings.warn(message, DataWarning, stacklevel=3)
    per_gpu, source = price.price_usd_per_hour, price.source
    if is_spot:
        if price.spot_usd_per_hour is None:
            problem = f"no spot price of {price.instance_type} is listed in {price.region or 'the list'}"
            raise DataError(path, problem, "set spot to false, or take another region")
        per_gpu, source = price.spot_usd_per_hour, price.spot_source
        if not vm.interruptions_per_hour:
            message = (
                f"{path}: a spot price is taken and nothing said of interruptions; `optplan import spot-trace` or "
                "interruptions_per_hour says how often a VM is lost"
            )
            warnings.warn(message, DataWarning, stacklevel=3)
    return vm.replace(
        price_usd_per_hour=per_gpu * price.gpus,
        spot=is_spot,
        instance_type=price.instance_type,
        region=price.region,
        price_source=source.replace(f", divided by {price.gpus}", ""),
        price_date=price.date,
    )
