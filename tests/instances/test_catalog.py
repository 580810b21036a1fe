"""Price lists: figures of the public ones, hand-made ones for the rules, and every complaint."""

from __future__ import annotations

from pathlib import Path

import pytest

from optplan.errors import DataError, DataWarning
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.catalog import read_price_list
from optplan.instances.instance_prices import set_prices
from optplan.instances.library import build_named

HEADER = "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,AvailabilityZone\n"

#: Two zones of one region, another region without spot offers, a share of a GPU, and a type that is spot only.
LIST = HEADER + (
    "quad.large,T4,4,4.0,1.2,east,east-a\n"
    "quad.large,T4,4,4.0,2.0,east,east-b\n"
    "quad.large,T4,4,3.6,,west,west-a\n"
    "one.small,T4,1,0.95,0.5,east,east-a\n"
    "slice.tiny,A10,0.5,0.4,,east,east-a\n"
    "rare.large,A100,8,,8.0,east,east-a\n"
    "cpu.large,,,1.0,,east,east-a\n"
)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """Return the hand-made list."""
    path = tmp_path / "cloud-2026-05-vms.csv"
    path.write_text(LIST, encoding="utf-8")
    return path


def _write(folder: Path, text: str, name: str = "cloud-2026-05.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def _boa(name: str) -> BoaInstance:
    instance = build_named(name)
    assert isinstance(instance, BoaInstance)
    return instance


@pytest.mark.parametrize(
    ("file", "name", "region", "price", "spot"),
    [
        # 3.912 / 4; the middle one of 1.4134, 1.3211, 1.3260, 1.2875 and 1.3061, over 4.
        ("aws-v8-gpu-us-east-1-us-west-2.csv", "g4dn.12xlarge", "us-east-1", 0.978, 1.3211 / 4),
        # The local zones of Los Angeles (0.4694) do not count: the middle one of 1.6658, 1.7173 and 1.7536.
        ("aws-v8-gpu-us-east-1-us-west-2.csv", "g4dn.12xlarge", "us-west-2", 0.978, 1.7173 / 4),
        # The mean of the two middle ones of 2.4655, 7.8799, 8.1203 and 8.1915.
        ("aws-v8-gpu-us-east-1-us-west-2.csv", "p4d.24xlarge", "us-east-1", 21.957642 / 8, (7.8799 + 8.1203) / 2 / 8),
        ("aws-2021-11-gpu-with-network.csv", "p2.xlarge", "us-east-1", 0.9, None),
        ("lambda-2026-05-vms.csv", "gpu_1x_rtx6000", "us-east-1", 0.69, None),
        ("sagemaker-2024-instance-types-cost.csv", "ml.p3.2xlarge", None, 3.825, None),
        ("gcp-2022-07.csv", "V100", "us-central1", 2.48, 0.74),
        ("gcp-2022-07.csv", "P100", "us-central1", 1.46, 0.43),
        ("gcp-2022-07.csv", "K80", "us-central1", 0.45, 0.038),
        # Rows of Azure's list end in "V1,V2" without quotes. 22.032 / 8.
        ("azure-2026-05-gpu.csv", "Standard_ND40rs_v2", "eastus", 2.754, 4.071514 / 8),
    ],
)
def test_public_prices(
    data_pack: Path, file: str, name: str, region: str | None, price: float, spot: float | None
) -> None:
    """Per GPU, on demand and as spot, as in the rows of the public lists."""
    found = read_price_list(data_pack / "catalog" / file).price_of(name, region)
    assert found.price_usd_per_hour == pytest.approx(price, rel=1e-12)
    assert found.spot_usd_per_hour == (None if spot is None else pytest.approx(spot, rel=1e-12))


def test_hosts_and_gpus_of_google_are_added(data_pack: Path) -> None:
    """Eight A100 cost 5.91582 for the host and 23.47126 for the GPUs; a GPU named by itself is one without its host."""
    google = read_price_list(data_pack / "catalog" / "gcp-2026-05-gpu-and-hosts.csv")
    hosted = google.price_of("a2-highgpu-8g", "us-central1")
    alone = google.price_of("A100", "us-central1")
    assert (hosted.gpu, hosted.gpus, alone.instance_type) == ("A100", 8, "")
    assert hosted.price_usd_per_hour == pytest.approx((5.91582 + 23.47126) / 8, rel=1e-12)
    assert alone.price_usd_per_hour == pytest.approx(2.93391, rel=1e-12)
    assert "1 x A100 without a host" in alone.source


def test_every_public_list_is_understood(data_pack: Path) -> None:
    """Each says who and when, and each GPU with a price has one above zero."""
    for path in sorted((data_pack / "catalog").glob("*.csv")):
        read = read_price_list(path)
        assert read.offers
        assert read.provider[0].isupper()
        assert read.date.startswith("20")
        assert all(offer.gpus > 0 for offer in read.offers)
        assert all(offer.price_usd_per_hour is None or offer.price_usd_per_hour > 0 for offer in read.offers)


def test_a_price_says_where_it_comes_from(prices: Path) -> None:
    """List, instance type, number of GPUs, region and date; the spot price is the median over zones."""
    found = read_price_list(prices).price_of("quad.large", "east")
    assert (found.gpu, found.gpus, found.region, found.date) == ("T4", 4, "east", "2026-05")
    assert (found.price_usd_per_hour, found.spot_usd_per_hour) == (1.0, 0.4)  # 4 / 4, (1.2 + 2) / 2 / 4
    source = "cloud on-demand list price of quad.large (4 x T4), 4 USD/h in east, divided by 4"
    assert found.source == source
    assert "cloud spot price of quad.large (4 x T4), 1.6 USD/h in east, median of 2 zones, divided" in found.spot_source


def test_without_a_region_the_cheapest_counts(prices: Path) -> None:
    """Four T4 for 3.6 in the west are cheaper than for 4.0 in the east; no spot price is known there."""
    found = read_price_list(prices).price_of("quad.large")
    assert (found.region, found.price_usd_per_hour, found.spot_usd_per_hour) == ("west", 0.9, None)


def test_a_gpu_costs_what_its_cheapest_instance_type_does(prices: Path) -> None:
    """In the east a T4 costs 0.95 alone and 1.0 in a box of four."""
    assert read_price_list(prices).price_of("T4", "east").instance_type == "one.small"


def test_a_spot_price_that_is_no_discount_is_pointed_out(tmp_path: Path) -> None:
    """One of the two figures is wrong, and nobody can tell which."""
    path = _write(tmp_path, HEADER + "big,H200,8,80,80,east,east-a\n")
    with pytest.warns(
        DataWarning, match=r"the spot price of big \(8 x H200\) in east is not below the on-demand price"
    ):
        read_price_list(path).price_of("big")


@pytest.mark.parametrize(
    ("name", "region", "message"),
    [
        (
            "quad.larg",
            None,
            r"cloud-2026-05-vms\.csv: has no instance type or GPU 'quad\.larg'; did you mean 'quad\.la",
        ),
        ("RTX2080Ti", None, r"has no instance type or GPU 'RTX2080Ti'; known: T4, A10, A100$"),
        (
            "quad.large",
            "north",
            r"has no on-demand price of 'quad\.large' in region 'north'; there is one in: east, west$",
        ),
        ("rare.large", None, r"'rare\.large': it is missing or zero in every row; choose another type or another"),
        ("slice.tiny", None, r"'slice\.tiny' has only 0\.5 of a GPU \(A10\); choose a type with whole GPUs$"),
        ("cpu.large", None, r"has no instance type or GPU 'cpu\.large'; did you mean"),
    ],
)
def test_what_is_not_offered(prices: Path, name: str, region: str | None, message: str) -> None:
    """Names get the nearest ones, regions those that there are; shares of GPUs are no GPUs."""
    with pytest.raises(DataError, match=message):
        read_price_list(prices).price_of(name, region)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cloud.csv", LIST, r"cloud\.csv: its name says no date; give the date of the prices, as in 2026-05, or nam"),
        ("c-2026-05.csv", "", r"c-2026-05\.csv: the file is empty; its first line must name the columns$"),
        ("c-2026-05.csv", "a,b,c\n1,2,3\n", r"no column InstanceType or instance; found a, b, c; a list in the format"),
        ("c-2026-05.csv", HEADER, r"lists no GPU with a price; choose another list$"),
        (
            "c-2026-05.csv",
            HEADER + "x,T4,1,1\n",
            r"c-2026-05\.csv:2: 4 fields where the header has 7; complete the row",
        ),
        ("c-2026-05.csv", HEADER + "x,T4,1,cheap,,e,z\n", r":2: Price is 'cheap'; a number of at least 0 is needed"),
        ("c-2026-05.csv", HEADER + "x,T4,one,1,,e,z\n", r":2: AcceleratorCount is 'one'; a number of at least 0"),
    ],
)
def test_wrong_lists(tmp_path: Path, name: str, text: str, message: str) -> None:
    """Each complaint names file, line and column."""
    with pytest.raises(DataError, match=message):
        read_price_list(_write(tmp_path, text, name))


def test_a_date_can_be_given(tmp_path: Path) -> None:
    """It goes before the one in the file's name."""
    assert read_price_list(_write(tmp_path, LIST), date="March").date == "March"


def test_a_missing_list(tmp_path: Path) -> None:
    """As every file."""
    with pytest.raises(DataError, match=r"nowhere-2026-05\.csv: there is no such file; correct the path"):
        read_price_list(tmp_path / "nowhere-2026-05.csv")


def test_prices_are_set_and_the_rest_is_kept(prices: Path) -> None:
    """Price, source and date of the named types; quotas and other fields stay."""
    instance = _boa("boa-newtrace")
    limited = instance.replace(gpu_types={"t4": instance.gpu_types["t4"].replace(quota_gpus=200.0)})
    found = read_price_list(prices).price_of("one.small", "east")
    t4 = set_prices(limited, {"t4": found}).gpu_types["t4"]
    assert (t4.price_usd_per_hour, t4.price_source, t4.price_date) == (0.95, found.source, "2026-05")
    assert t4.quota_gpus == 200.0
    assert set_prices(limited, {}) == limited


def test_a_spot_price_without_interruptions_is_pointed_out(prices: Path) -> None:
    """It looks better than it is."""
    found = read_price_list(prices).price_of("one.small", "east")
    with pytest.warns(DataWarning, match=r"gpu_types\.t4: a spot price is taken and nothing said of interruptions"):
        priced = set_prices(_boa("boa-newtrace"), {"t4": found}, spot={"t4"})
    assert priced.gpu_types["t4"].price_usd_per_hour == 0.5
    assert "spot price" in priced.gpu_types["t4"].price_source


def test_prices_that_cannot_be_set(prices: Path) -> None:
    """Of a type that the instance does not have, or as spot where none is listed."""
    found = read_price_list(prices).price_of("quad.large", "west")
    with pytest.raises(DataError, match=r"gpu_types\.t5: instance 'boa-newtrace' has none; known: t4$"):
        set_prices(_boa("boa-newtrace"), {"t5": found})
    with pytest.raises(
        DataError, match=r"gpu_types\.t4: no spot price of quad\.large is listed in west; take the on-demand"
    ):
        set_prices(_boa("boa-newtrace"), {"t4": found}, spot={"t4"})


def test_a_list_that_is_missing_is_called_so(tmp_path: Path) -> None:
    """Before its name is asked for a date."""
    with pytest.raises(DataError, match=r"nowhere\.csv: there is no such file; correct the path, or fetch the file"):
        read_price_list(tmp_path / "nowhere.csv")
