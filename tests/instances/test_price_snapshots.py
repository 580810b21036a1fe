"""Prices that ship with the package: what is there, how it is named, and that it is what the lists say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from optplan.errors import DataError, UsageError
from optplan.instances.instance_prices import PROVIDERS, find_price, read_snapshot

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "build_price_snapshots.py"


@pytest.mark.parametrize(
    ("text", "usd", "spot_usd", "source"),
    [
        # 3.912 for four, as AWS lists it; the median of the zones 1.4134, 1.3211, 1.326, 1.2875, 1.3061, over 4.
        ("aws:g4dn.12xlarge@us-east-1", 0.978, 1.3211 / 4, "AWS on-demand list price of g4dn.12xlarge (4 x T4), 3.912"),
        ("g4dn.12xlarge@us-east-1", 0.978, 1.3211 / 4, "AWS on-demand list price"),
        ("azure:T4@eastus", 0.526, 0.204246, "Azure on-demand list price of Standard_NC4as_T4_v3 (1 x T4)"),
        ("gcp:V100@us-central1", 2.48, 1.24, "Google Cloud on-demand list price of 1 x V100 without a host"),
        ("google:a2-highgpu-8g@us-central1", (5.91582 + 23.47126) / 8, None, "host and GPUs listed apart, added"),
        # 31.92 for eight; one on PCIe is cheaper, 3.29. Nebius lists 23.6 and 10 as spot for eight: 2.95 and 1.25 each.
        ("lambda:gpu_8x_h100_sxm5@us-west-1", 3.99, None, "Lambda on-demand list price of gpu_8x_h100_sxm5 (8 x H100)"),
        ("lambda:h100", 3.29, None, "Lambda on-demand list price of gpu_1x_h100_pcie (1 x H100), 3.29 USD/h"),
        ("nebius:H100@eu-north1", 2.95, 1.25, "Nebius on-demand list price of gpu-h100-sxm_1gpu-16vcpu-200gb"),
        ("nebius:B200", 5.5, None, "(8 x B200), 44 USD/h in us-central1, divided by 8"),
        ("shadeform:A100-80G", 1.2, None, "Shadeform on-demand list price of massedcompute_A100-80Gx2 (2 x A100-80G)"),
        # Floor prices and placeholders are left out.
        ("aws:p3.2xlarge@us-east-1", 3.06, None, "AWS on-demand list price of p3.2xlarge (1 x V100), 3.06 USD/h"),
    ],
)
def test_prices_that_ship(text: str, usd: float, spot_usd: float | None, source: str) -> None:
    """Of one GPU, with who says so; the file plays no part in it."""
    price, spot = find_price(text)
    assert price.price_usd_per_hour == pytest.approx(usd, rel=1e-5)
    assert spot_usd is None or price.spot_usd_per_hour == pytest.approx(spot_usd, rel=1e-5)
    assert source in price.source
    assert ".json" not in price.source
    assert price.date.startswith("202")
    assert not spot


def test_a_name_can_ask_for_the_spot_price() -> None:
    """At its end, after the region."""
    price, is_spot = find_price("aws:p4d.24xlarge@us-west-2:spot")
    assert (price.instance_type, price.region, is_spot) == ("p4d.24xlarge", "us-west-2", True)


def test_nothing_that_is_doubtful_ships() -> None:
    """Spot prices are below those on demand, and no local zone has one."""
    for provider in set(PROVIDERS.values()):
        offers = read_snapshot(provider).offers
        assert "H100" in {offer.gpu for offer in offers}
        for offer in offers:
            assert offer.price_usd_per_hour is not None
            assert offer.spot_usd_per_hour is None or offer.spot_usd_per_hour < offer.price_usd_per_hour
            assert "-lax" not in offer.zone or offer.spot_usd_per_hour is None


@pytest.mark.parametrize("text", ["aws:a100", "AWS:A100", "aws:P4D.24xlarge", "p4D.24XLARGE@US-East-1"])
def test_capitals_make_no_difference(text: str) -> None:
    """Providers, GPUs, instance types and regions are found in any writing, and named as the list does."""
    price, _ = find_price(text)
    assert (price.instance_type, price.region) == ("p4d.24xlarge", "us-east-1")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "T4",
            DataError,
            r"'T4' is in the shipped prices of aws, azure, google; say whose, as in aws:T4, azure:T4, go",
        ),
        ("lambda:H10", DataError, r"prices of Lambda: has no instance type or GPU 'H10'; did you mean 'H100'"),
        ("p4d.24xlrge", DataError, r"is in the shipped prices of nobody; did you mean 'p4d\.24xlarge'\?"),
        ("aws:p4d", DataError, r"prices of AWS: has no instance type or GPU 'p4d'"),
        (
            "aws:T4@mars",
            DataError,
            r"prices of AWS: has no on-demand price of 'T4' in region 'mars'; there is one in: us",
        ),
        ("azure:H200@eastus2:spot", DataError, r"prices of Azure: no spot price of 'H200' is listed in eastus2"),
        (
            "runpod:H100",
            UsageError,
            r"'runpod' ships no prices; known: aws, .*, gcp; or give a price list, as in runpod-2026-05\.csv:H100",
        ),
        ("aws:", UsageError, r"prices: got 'aws:'; an instance type is needed, as in aws:p4d\.24xlarge"),
    ],
)
def test_names_that_are_refused(text: str, error: type[Exception], message: str) -> None:
    """Each with what there is."""
    with pytest.raises(error, match=message):
        find_price(text)


RUNPOD = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"
    "1x_H100-SXM_SECURE,H100-SXM,1.0,20,251,,2.99,1.75,US,US-CA-2\n"
    "8x_H100-SXM_SECURE,H100-SXM,8.0,160,2008,,23.92,,US,US-CA-2\n"
    "1x_H200-SXM_SECURE,H200-SXM,1.0,24,188,,3.99,,CA,CA-MTL-1\n"
)


def test_a_price_list_of_the_users(tmp_path: Path) -> None:
    """Its path stands where the provider does; GPUs, regions and spot are asked for as of those that ship."""
    path = tmp_path / "runpod-2026-11.CSV"
    path.write_text(RUNPOD, encoding="utf-8")
    price, spot = find_price(f"{path}:h100-sxm@us:spot")
    assert (price.price_usd_per_hour, price.spot_usd_per_hour, spot) == (2.99, 1.75, True)
    assert price.source == "RunPod on-demand list price of 1x_H100-SXM_SECURE (1 x H100-SXM), 2.99 USD/h in US"
    assert price.date == "2026-11"
    with pytest.raises(DataError, match=r"has no instance type or GPU 'H100'; did you mean 'H100-SXM'"):
        find_price(f"{path}:H100")
    with pytest.raises(DataError, match=r"no spot price of 'H200-SXM' is listed in CA"):
        find_price(f"{path}:H200-SXM:spot")
    with pytest.raises(DataError, match=r"in region 'FR'; there is one in: US"):
        find_price(f"{path}:H100-SXM@FR")
    undated = path.rename(tmp_path / "vms.csv")
    with pytest.raises(DataError, match=r"its name says no date; give the date of the prices, as in 2026-05, or name"):
        find_price(f"{undated}:H100-SXM")
    with pytest.raises(DataError, match=r"nowhere-2026\.csv"):
        find_price("nowhere-2026.csv:H100")


def test_snapshots_are_what_the_script_writes(load_script: Callable[[Path], ModuleType], data_pack: Path) -> None:
    """Written again from the public lists they are the same, byte by byte."""
    script = load_script(SCRIPT)
    for name, listed in script.LISTS.items():
        shipped = (script.FOLDER / f"{name}.json").read_text(encoding="utf-8")
        assert script.write_snapshot(data_pack / "catalog", listed) == shipped
