"""Prices of VMs in an instance of Srift, from price lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from optplan.errors import DataError, DataWarning
from optplan.formulations.srift.data.bandwidth import BandwidthTable, MeasuredBandwidth
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.instances.catalog import GpuPrice, PriceList, read_price_list
from optplan.instances.files import read_instance
from optplan.instances.instance_prices import set_vm_prices
from optplan.schema import FrozenModel

HEADER = "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,AvailabilityZone\n"
LIST = HEADER + (
    "box,T4,1,2.0,0.5,east,east-a\n"
    "box,T4,1,2.0,0.7,east,east-b\n"
    "box,T4,1,1.8,,west,west-a\n"
    "quad,V100,4,12.0,3.0,east,east-a\n"
    "free,T4,1,0,,east,east-a\n"
    "free,T4,1,,,west,west-a\n"
    "dear,T4,1,2.0,2.5,east,east-a\n"
    "a2-highgpu-1g,,,0.8,0.3,east,east-a\n"
    ",A100,1,2.9,0.9,east,east-a\n"
)


@pytest.fixture
def listed(tmp_path: Path) -> PriceList:
    """Return the hand-made list."""
    path = tmp_path / "cloud-2026-05.csv"
    path.write_text(LIST, encoding="utf-8")
    return read_price_list(path)


@pytest.fixture
def instance() -> SriftInstance:
    """Return the paper's third case on demand: p3 with 4 GPUs, g3 with 2 and g4dn with 1."""
    read = read_instance("srift-case3")
    assert isinstance(read, SriftInstance)
    types = {name: vm.replace(spot=False) for name, vm in read.types.items()}
    return read.replace(types=types)


def test_a_whole_vm_is_priced(instance: SriftInstance, listed: PriceList) -> None:
    """Four V100 for 12 dollars; the instance type, the region, the source and the date stand beside; others stay."""
    priced = set_vm_prices(instance, {"p3.8xlarge": listed.price_of("quad", "east")})
    vm = priced.types["p3.8xlarge"]
    assert (vm.price_usd_per_hour, vm.instance_type, vm.region, vm.price_date) == (12.0, "quad", "east", "2026-05")
    assert vm.price_source == "cloud on-demand list price of quad (4 x V100), 12 USD/h in east"
    assert priced.types["g3.8xlarge"] == instance.types["g3.8xlarge"]


def test_spot_vms_get_spot_prices(instance: SriftInstance, listed: PriceList) -> None:
    """The median over zones, where a type is spot already or becomes so; a word on interruptions goes with it."""
    box = {"g4dn.8xlarge": listed.price_of("box", "east")}
    message = (
        r"types\.g4dn\.8xlarge: a spot price is taken and nothing said of interruptions; `optplan import spot-trace`"
    )
    with pytest.warns(DataWarning, match=message):
        named = set_vm_prices(instance, box, spot=["g4dn.8xlarge"]).types["g4dn.8xlarge"]
    assert named.spot
    assert named.price_usd_per_hour == pytest.approx(0.6)
    assert named.price_source.startswith("cloud spot price of box (1 x T4), 0.6 USD/h in east, median of 2 zones")
    types = {**instance.types, "g4dn.8xlarge": instance.types["g4dn.8xlarge"].replace(spot=True)}
    with pytest.warns(DataWarning, match=message):
        already = set_vm_prices(instance.replace(types=types), box).types["g4dn.8xlarge"]
    assert already == named


def test_hosts_and_gpus_are_joined_and_that_is_said(instance: SriftInstance, listed: PriceList) -> None:
    """0.8 for the host and 2.9 for its GPU; a GPU alone is no VM."""
    vm = set_vm_prices(instance, {"g4dn.8xlarge": listed.price_of("a2-highgpu-1g")}).types["g4dn.8xlarge"]
    assert vm.price_usd_per_hour == pytest.approx(3.7)
    assert "a2-highgpu-1g (1 x A100; host and GPUs listed apart, added), 3.7 USD/h" in vm.price_source
    with pytest.raises(
        DataError, match=r"types\.g4dn\.8xlarge: the price of A100 is that of GPUs without a host; choose"
    ):
        set_vm_prices(instance, {"g4dn.8xlarge": listed.price_of("A100")})


def test_prices_that_are_missing_or_zero_are_refused(instance: SriftInstance, listed: PriceList) -> None:
    """On demand by the list, as spot by the type."""
    with pytest.raises(
        DataError, match=r"cloud-2026-05\.csv: has no on-demand price of 'free': it is missing or zero in"
    ):
        listed.price_of("free")
    west = listed.price_of("box", "west")
    with pytest.raises(
        DataError, match=r"types\.g4dn\.8xlarge: no spot price of box is listed in west; set spot to false"
    ):
        set_vm_prices(instance, {"g4dn.8xlarge": west}, spot=["g4dn.8xlarge"])


def test_a_spot_price_above_the_on_demand_price_is_named(listed: PriceList) -> None:
    """2.5 as spot and 2.0 on demand: nobody can tell which is wrong."""
    with pytest.warns(DataWarning, match=r"the spot price of dear \(1 x T4\) in east is not below the on-demand price"):
        listed.price_of("dear")


def test_another_number_of_gpus_is_pointed_out(instance: SriftInstance, listed: PriceList) -> None:
    """The paper uses one GPU of some VMs; all of them are paid."""
    with pytest.warns(DataWarning, match=r"types\.g3\.8xlarge: quad has 4 GPUs, and gpus is 2; the whole VM is paid"):
        priced = set_vm_prices(instance, {"g3.8xlarge": listed.price_of("quad")})
    assert priced.types["g3.8xlarge"].price_usd_per_hour == 12.0


def test_bandwidth_tables_go_along(instance: SriftInstance, listed: PriceList) -> None:
    """A type that is now called box keeps the table that it had under its own name."""
    tables: dict[str, FrozenModel] = {
        name: BandwidthTable.parse({"ranks": [2], "sizes_bytes": [4.0], "bus_gbit_per_s": [[1.0 + index]]})
        for index, name in enumerate(instance.types)
    }
    measured = instance.replace(bandwidth=MeasuredBandwidth.parse({"tables": tables}))
    priced = set_vm_prices(measured, {"g4dn.8xlarge": listed.price_of("box", "east")})
    assert isinstance(priced.bandwidth, MeasuredBandwidth)
    assert priced.bandwidth.tables["box"] == tables["g4dn.8xlarge"]


def test_types_have_to_be_those_of_the_instance(instance: SriftInstance, listed: PriceList) -> None:
    """The nearest name is told."""
    price: GpuPrice = listed.price_of("quad")
    with pytest.raises(DataError, match=r"types\.p3\.8xl: instance 'srift-case3' has none; did you mean 'p3\.8xlarge'"):
        set_vm_prices(instance, {"p3.8xl": price})
