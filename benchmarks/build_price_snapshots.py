"""Write the snapshots of prices that ship with the package, from the public price lists.

The lists are not part of this repository; what is taken over are facts: who asks how much for what, where and when::

    python benchmarks/build_price_snapshots.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from optplan.instances.catalog import LOCAL_ZONE, Offer, read_price_list

FOLDER = Path(__file__).resolve().parents[1] / "optplan" / "instances" / "prices"
#: GPUs that people train on; shares of GPUs, and those that are only for pictures, are left out.
GPUS = (
    *("T4", "V100", "V100-32GB", "A100", "A100-80GB", "A100-80G", "A10", "A10G", "L4", "L40S", "P100", "M60"),
    *("H100", "H100-MEGA", "GH200", "H200", "B200", "MI300X"),
)
#: Significant digits kept: lists differ in the seventh between regions.
DIGITS = 6
#: Azure sells in fifty regions; these have most types.
AZURE_REGIONS = (
    *("eastus", "eastus2", "centralus", "southcentralus", "westus2", "westus3", "westeurope", "northeurope"),
    *("uksouth", "francecentral", "swedencentral", "germanywestcentral", "japaneast", "southeastasia", "australiaeast"),
)


@dataclass(frozen=True)
class _List:
    """A public list: its file, where it is from, the regions that are taken over (all unless named).

    And whether hosts and GPUs are listed apart, and which GPUs have on-demand prices that are too low.
    """

    file: str
    source: str
    regions: tuple[str, ...] = ()
    hosts_added: bool = False
    too_low: tuple[str, ...] = ()


_MAY_2026 = "anycloud-sh/catalog of 20 May 2026, commit 62ff0a987e0c257a89235415d2877812fb1aaf29"
#: Vast.ai's list is offers of one moment, not prices, and does not ship.
LISTS = {
    "aws": _List(
        "aws-v8-gpu-us-east-1-us-west-2.csv",
        "skypilot-org/skypilot-catalog, catalogs/v8/aws/vms.csv, commit 00148f2af3672e2229b4f7bf8157d5a3f36e3c35",
    ),
    "azure": _List(
        "azure-2026-05-gpu.csv",
        _MAY_2026,
        AZURE_REGIONS,
    ),
    "google": _List(
        "gcp-2026-05-gpu-and-hosts.csv",
        _MAY_2026,
        hosts_added=True,
        too_low=("A100-80GB",),
    ),
    "lambda": _List("lambda-2026-05-vms.csv", _MAY_2026),
    "nebius": _List(
        "nebius-v8-vms.csv",
        "skypilot-org/skypilot-catalog, catalogs/v8/nebius/vms.csv, commit 0082b0435f3912ae4c566856b272455cc78f4f61",
    ),
    "shadeform": _List(
        "shadeform-2025-10-vms.csv",
        "skypilot-org/skypilot, shadeform/vms.csv, commit d3149e251cd7721255aa3a69e0e3c980dfb94082 (Apache-2.0)",
    ),
}
LEFT_OUT = (
    "offers whose spot price is above the on-demand price (one of the two is out of date), and for that reason "
    "Google's A100-80GB; spot prices equal to it (placeholders), of AWS's local zones, and of p3 in us-east-1 (floor "
    "prices)"
)


def main() -> None:
    """Write the snapshots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    arguments = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name, listed in LISTS.items():
        path = FOLDER / f"{name}.json"
        path.write_text(write_snapshot(arguments.data / "catalog", listed), encoding="utf-8")
        print(path.name, path.stat().st_size, "bytes")


def write_snapshot(catalog: Path, listed: _List) -> str:
    """Write a snapshot as JSON, an offer to a line."""
    read = read_price_list(catalog / listed.file)
    rows = sorted({write_row(offer) for offer in keep_sound(read.offers, listed)})
    head = {
        "version": 1,
        "provider": read.provider,
        "date": read.date,
        "source": listed.source,
        "left_out": LEFT_OUT,
        "columns": ["instance type", "GPU", "GPUs", "region", "zone", "USD an hour", "USD an hour as spot"],
        "hosts_added": listed.hosts_added,
    }
    return json.dumps(head)[:-1] + ', "offers": [\n' + ",\n".join(rows) + "\n]}\n"


def keep_sound(offers: tuple[Offer, ...], listed: _List) -> Iterator[Offer]:
    """Yield the offers of common GPUs without the figures that the data's README calls defective."""
    for offer in offers:
        price, spot = offer.price_usd_per_hour, offer.spot_usd_per_hour
        is_wanted = offer.gpu in GPUS and offer.gpus >= 1 and (not listed.regions or offer.region in listed.regions)
        is_wrong = offer.gpu in listed.too_low or (offer.is_doubtful and (offer.is_joined or spot != price))
        if price is None or is_wrong or not is_wanted:
            continue
        is_floor = offer.instance_type.startswith("p3.") and offer.region == "us-east-1"
        if spot == price or LOCAL_ZONE.fullmatch(offer.zone) or is_floor:
            yield replace(offer, spot_usd_per_hour=None)
        else:
            yield offer


def write_row(offer: Offer) -> str:
    """Write an offer as a list in JSON."""
    prices = [
        None if p is None else float(f"{p:.{DIGITS}g}") for p in (offer.price_usd_per_hour, offer.spot_usd_per_hour)
    ]
    return json.dumps([offer.instance_type, offer.gpu, round(offer.gpus), offer.region, offer.zone, *prices])


if __name__ == "__main__":
    main()
