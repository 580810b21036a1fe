"""Prices of the common GPU types that ship with the package, and how they are named.

``aws:p4d.24xlarge`` is an instance type, ``lambda:H100`` the cheapest instance type with that GPU, ``google:V100`` a
GPU without its host, as Google lists them; ``aws:p4d.24xlarge@us-east-1`` says the region, and ``:spot`` at the end
asks for the spot price. ``runpod-2026-05.csv:H100`` is in a price list of the user's. The snapshots are facts with
source and date, written by ``benchmarks/build_price_snapshots.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from optplan.errors import DataError, UsageError, nearest_name_hint, show_value
from optplan.instances.catalog import GpuPrice, Offer, PriceList, read_price_list
from optplan.instances.plain_data import read_data

#: By the name in front of the colon, the file.
PROVIDERS = {name: name for name in ("aws", "azure", "google", "lambda", "nebius", "shadeform")} | {"gcp": "google"}
_FOLDER = Path(__file__).parent / "prices"
_SPOT, _LIST = ":spot", ".csv"


class PricedName(NamedTuple):
    """A name in a snapshot, ``aws:p4d.24xlarge@us-east-1:spot``, its provider and region if it says them."""

    provider: str  #: Or a price list's path.
    name: str
    region: str | None
    spot: bool


def read_priced_name(text: str) -> PricedName:
    """Take a name apart."""
    rest, spot = text.removesuffix(_SPOT), text.endswith(_SPOT)
    provider, colon, name = rest.rpartition(":")
    name, _, region = name.partition("@")
    if not name:
        raise UsageError(f"prices: got {show_value(text)}; an instance type is needed, as in aws:p4d.24xlarge")
    if provider.casefold().endswith(_LIST):
        return PricedName(provider, name, region or None, spot)
    if colon and provider.casefold() not in PROVIDERS:
        fix = f"{nearest_name_hint(provider, PROVIDERS)}; or give a price list, as in {provider}-2026-05.csv:{name}"
        raise UsageError(f"prices: {show_value(provider)} ships no prices; {fix}")
    return PricedName(provider.casefold(), name, region or None, spot)


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
    wanted = read_priced_name(text)
    if wanted.provider.casefold().endswith(_LIST):
        listed = read_price_list(wanted.provider)
    elif wanted.provider:
        listed = read_snapshot(PROVIDERS[wanted.provider])
    else:
        snapshots = {provider: read_snapshot(provider) for provider in sorted(set(PROVIDERS.values()))}
        small = wanted.name.casefold()
        having = {
            provider: snapshot
            for provider, snapshot in snapshots.items()
            if any(small in (offer.instance_type.casefold(), offer.gpu.casefold()) for offer in snapshot.offers)
        }
        if len(having) != 1:
            known = {each for listed in snapshots.values() for o in listed.offers for each in (o.instance_type, o.gpu)}
            ways = "say whose, as in " + ", ".join(f"{provider}:{wanted.name}" for provider in having)
            problem = f"{wanted.name!r} is in the shipped prices of {', '.join(having) if having else 'nobody'}"
            raise DataError("prices", problem, ways if having else nearest_name_hint(wanted.name, known - {""}))
        listed = next(iter(having.values()))
    price = listed.price_of(wanted.name, wanted.region or region)
    if wanted.spot and price.spot_usd_per_hour is None:
        problem = f"no spot price of {wanted.name!r} is listed in {price.region}"
        raise DataError(listed.file, problem, "take the on-demand price, or another region")
    return price, wanted.spot


@cache
def read_snapshot(provider: str) -> PriceList:
    """Return the prices of a provider, one of the values of ``PROVIDERS``."""
    data: Mapping[str, object] = read_data(_FOLDER / f"{provider}.json")
    rows = data["offers"]
    assert isinstance(rows, list)
    offers = tuple(
        Offer(
            instance_type=instance_type,
            gpu=gpu,
            gpus=gpus,
            price_usd_per_hour=price,
            spot_usd_per_hour=spot,
            region=region,
            zone=zone,
            is_doubtful=False,
            is_joined=bool(data["hosts_added"] and instance_type),
        )
        for instance_type, gpu, gpus, region, zone, price, spot in rows
    )
    name = str(data["provider"])
    return PriceList(file=f"prices of {name}", provider=name, date=str(data["date"]), offers=offers)
