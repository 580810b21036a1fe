"""Reader of price lists: what one GPU of an instance type costs, in which region, according to whom and when.

Lists in the format of SkyPilot's catalogs are understood (``InstanceType``, ``AcceleratorName``, ``AcceleratorCount``,
``Price``, ``SpotPrice``, ``Region``, ``AvailabilityZone``), the older ones of its prototype (``GpuName``, ``GpuCount``,
``PricePerHour``) and Amazon SageMaker's list as kept by Syne Tune. Prices are US dollars per hour of a whole instance;
on-demand prices are those of a region, spot prices those of a zone. See the data README, section 6.
"""

from __future__ import annotations

import re
import statistics
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from optplan.errors import DataError, DataWarning, nearest_name_hint
from optplan.instances.csv_tables import parse_number, read_header, read_rows

#: What stands for each figure in the first line of each kind of list; the first that is there counts.
_COLUMNS = {
    "instance_type": ("InstanceType", "instance"),
    "gpu": ("AcceleratorName", "GpuName"),
    "gpus": ("AcceleratorCount", "GpuCount", "GPU"),
    "price": ("Price", "PricePerHour", "price"),
    "spot": ("SpotPrice",),
    "region": ("Region",),
    "zone": ("AvailabilityZone",),
}

#: Who publishes a list, by the first word of its file's name.
_PROVIDERS = {
    "aws": "AWS",
    "azure": "Azure",
    "gcp": "Google Cloud",
    "lambda": "Lambda",
    "nebius": "Nebius",
    "runpod": "RunPod",
    "sagemaker": "Amazon SageMaker",
    "shadeform": "Shadeform",
    "vast": "Vast.ai",
}
#: Dates of the public lists whose names do not say them.
_DATES = {"aws-v8-gpu-us-east-1-us-west-2": "2025-08 or later", "nebius-v8-vms": "2025 or 2026"}
_DATE_IN_NAME = re.compile(r"(?<!\d)20\d\d(?:-[01]\d(?:-[0-3]\d)?)?(?!\d)")

#: Google lists hosts and GPUs apart: the GPUs that each of these hosts comes with, and their number.
_HOSTS = (
    (re.compile(r"a2-(?:highgpu|megagpu)-(\d+)g"), "A100"),
    (re.compile(r"a2-ultragpu-(\d+)g"), "A100-80GB"),
    (re.compile(r"a3-highgpu-(\d+)g"), "H100"),
    (re.compile(r"a3-megagpu-(\d+)g"), "H100-MEGA"),
    (re.compile(r"a3-ultragpu-(\d+)g"), "H200"),
)
_L4_HOSTS = {4: 1, 8: 1, 12: 1, 16: 1, 32: 1, 24: 2, 48: 4, 96: 8}
_L4_HOST = re.compile(r"g2-standard-(\d+)")

#: AWS's local zones (use1-atl2-az1) sell few types, at spot prices that are no market's.
LOCAL_ZONE = re.compile(r"[a-z0-9]+-[a-z]+\d+-az\d+")


@dataclass(frozen=True)
class Offer:
    """One row of a price list, or a host and its GPUs in one zone; prices of all its GPUs, None without an offer."""

    instance_type: str  #: Empty for GPUs without a host.
    gpu: str
    gpus: float
    region: str
    zone: str
    price_usd_per_hour: float | None
    spot_usd_per_hour: float | None
    is_doubtful: bool = False  #: Spot is listed at the on-demand price or above: one of the two is out of date.
    is_joined: bool = False  #: The list has host and GPUs in separate rows, whose prices are added.


@dataclass(frozen=True)
class GpuPrice:
    """What one GPU costs."""

    #: instance_type, gpu, gpus: The instance type (empty for GPUs without a host), its GPU and how many of them.
    instance_type: str
    gpu: str
    gpus: int
    region: str  #: Where; empty where the list does not say it.
    price_usd_per_hour: float  #: Of one GPU on demand.
    #: Of one GPU that can be taken away: the median over the region's zones, AWS's local zones left out; None where
    #: none is listed.
    spot_usd_per_hour: float | None
    #: source, spot_source: Who says so, of which instance, where, in words.
    source: str
    spot_source: str
    date: str  #: Of the list.

    def take(self, path: str, *, is_spot: bool, instead: str = "take the on-demand price") -> tuple[float, str]:
        """Return what one GPU costs on demand or as spot, and who says so; a DataError says what to do ``instead``."""
        if not is_spot:
            return self.price_usd_per_hour, self.source
        if self.spot_usd_per_hour is None:
            problem = f"no spot price of {self.instance_type or self.gpu} is listed in {self.region or 'the list'}"
            raise DataError(path, problem, f"{instead}, or another region")
        return self.spot_usd_per_hour, self.spot_source

    def of_whole(
        self, path: str, *, is_spot: bool = False, instead: str = "take the on-demand price"
    ) -> dict[str, Any]:
        """Return the fields of a whole VM that say what it is and costs; raises as :meth:`take`."""
        usd, source = self.take(path, is_spot=is_spot, instead=instead)
        return {
            "price_usd_per_hour": usd * self.gpus,
            "instance_type": self.instance_type,
            "region": self.region,
            "price_source": source.replace(f", divided by {self.gpus}", ""),
            "price_date": self.date,
        }

    def require_host(self, path: str) -> None:
        """Refuse prices of GPUs alone."""
        if not self.instance_type:
            problem = f"the price of {self.gpu} is that of GPUs without a host"
            raise DataError(path, problem, "choose an instance type of the list")


@dataclass(frozen=True, eq=False)
class PriceList:
    """The GPUs of one price list."""

    file: str  #: What complaints call it: its file's name.
    provider: str  #: Who publishes it.
    date: str  #: When, as far as known.
    offers: tuple[Offer, ...]  #: With a GPU, in the order of the file.

    def price_of(self, name: str, region: str | None = None) -> GpuPrice:
        """Return the price of one GPU.

        Parameters
        ----------
        name
            An instance type, or a GPU as the list names it; capitals make no difference. For a GPU the instance type
            counts that is cheapest per GPU on demand; of Google's lists, where GPUs have prices of their own, the GPU
            without its host.
        region
            Where; None takes the region with the least on-demand price.

        Raises
        ------
        DataError
            When there is no such instance type or GPU, it is not offered on demand in that region, or it has a share of
            a GPU only.
        """
        named = self._named(name)
        priced = [offer for offer in named if offer.price_usd_per_hour is not None]
        regions = sorted({offer.region for offer in priced if offer.region})
        why = "" if priced else ": it is missing or zero in every row"
        if region is not None:
            priced = [offer for offer in priced if offer.region.casefold() == region.casefold()]
        if not priced:
            place = f" in region {region!r}" if region is not None else ""
            problem = f"has no on-demand price of {name!r}{place}{why}"
            there = f"there is one in: {', '.join(regions)}" if regions else "the list names no region for it"
            raise DataError(self.file, problem, there if region is not None else "choose another type or another list")
        best = min(priced, key=lambda offer: (_per_gpu(offer), offer.gpus))
        return self._tell(best, [o for o in named if _kind(o) == _kind(best)])

    def _named(self, name: str) -> list[Offer]:
        """Return the offers of an instance type, or of a GPU as whole GPUs."""
        small = name.casefold()
        offers = [offer for offer in self.offers if offer.instance_type.casefold() == small]
        if not offers:
            offers = [offer for offer in self.offers if offer.gpu.casefold() == small and offer.gpus >= 1]
            alone = [offer for offer in offers if not offer.instance_type]
            offers = alone or offers
        if not offers:
            gpus = list(dict.fromkeys(offer.gpu for offer in self.offers if offer.gpu))
            types = list(dict.fromkeys(offer.instance_type for offer in self.offers if offer.instance_type))
            close = get_close_matches(name, [*gpus, *types], n=3)
            fix = f"did you mean {' or '.join(map(repr, close))}?" if close else nearest_name_hint(name, gpus or types)
            raise DataError(self.file, f"has no instance type or GPU {name!r}", fix)
        if offers[0].gpus < 1:
            problem = f"{name!r} has only {offers[0].gpus:g} of a GPU ({offers[0].gpu or 'unnamed'})"
            raise DataError(self.file, problem, "choose a type with whole GPUs")
        return offers

    def _tell(self, best: Offer, same: Sequence[Offer]) -> GpuPrice:
        """Make the price of an offer, and of its kind's spot offers."""
        gpus, whole_usd = round(best.gpus), best.price_usd_per_hour or 0.0
        spot = [o.spot_usd_per_hour for o in same if o.spot_usd_per_hour and not LOCAL_ZONE.fullmatch(o.zone)]
        spot_usd = statistics.median(spot) if spot else None
        joined = "; host and GPUs listed apart, added" if best.is_joined else ""
        what = f"{best.instance_type} ({gpus} x {best.gpu or 'GPU'}{joined})"
        if not best.instance_type:
            what = f"{gpus} x {best.gpu} without a host"
        where = f" in {best.region}" if best.region else ""
        share = f", divided by {gpus}" if gpus > 1 else ""
        zones = f", median of {len(spot)} zones" if len(spot) > 1 else ""
        if any(offer.is_doubtful for offer in same):
            message = (
                f"{self.file}: the spot price of {what}{where} is not below the on-demand price; "
                "one of the two is out of date or a placeholder"
            )
            warnings.warn(message, DataWarning, stacklevel=3)
        on_demand = f"{self.provider} on-demand list price of {what}, {whole_usd:.10g} USD/h{where}{share}"
        as_spot = f"{self.provider} spot price of {what}, {spot_usd or 0.0:.10g} USD/h{where}{zones}{share}"
        return GpuPrice(
            instance_type=best.instance_type,
            gpu=best.gpu,
            gpus=gpus,
            region=best.region,
            price_usd_per_hour=whole_usd / gpus,
            spot_usd_per_hour=None if spot_usd is None else spot_usd / gpus,
            source=on_demand,
            spot_source="" if spot_usd is None else as_spot,
            date=self.date,
        )


def read_price_list(path: Path | str, *, date: str | None = None) -> PriceList:
    """Read a price list.

    Parameters
    ----------
    path
        A CSV file in one of the formats above.
    date
        When the prices held; None takes the date in the file's name, as in ``lambda-2026-05-vms.csv``.

    Raises
    ------
    DataError
        When the file cannot be read or is not a price list, a number is wrong, or nobody says the date.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(str(path), "there is no such file", "correct the path, or fetch the file")
    found = _DATE_IN_NAME.search(path.stem)
    date = date or (found[0] if found else _DATES.get(path.stem))
    if not date:
        raise DataError(str(path), "its name says no date", "give the date of the prices, as in 2026-05, or name it so")
    offers = _join_hosts(list(_read_offers(path)))
    if not offers:
        raise DataError(str(path), "lists no GPU with a price", "choose another list")
    provider = path.stem.split("-")[0]
    return PriceList(file=path.name, provider=_PROVIDERS.get(provider, provider), date=date, offers=tuple(offers))


def _read_offers(path: Path) -> Iterator[Offer]:
    """Read the rows of a list, hosts without GPUs included."""
    delimiter = ";" if ";" in read_header(path)[0] else ","
    header = read_header(path, delimiter=delimiter)
    column = {field: next((name for name in names if name in header), None) for field, names in _COLUMNS.items()}
    for field in ("instance_type", "gpus", "price"):
        if column[field] is None:
            problem = f"no column {' or '.join(_COLUMNS[field])}; found {', '.join(header)}"
            raise DataError(str(path), problem, "a list in the format of SkyPilot's catalogs is needed")
    there = {field: name for field, name in column.items() if name is not None}
    # Azure's last column, Generation, holds "V1,V2" without quotes.
    rows = read_rows(path, list(there.values()), delimiter=delimiter, open_end=header[-1] == "Generation")
    for line, values in rows:
        row = dict.fromkeys(_COLUMNS, "") | dict(zip(there, values, strict=True))
        gpus = parse_number(path, line, str(column["gpus"]), row["gpus"] or "0")
        if gpus == 0 and not (row["instance_type"] and _gpus_of_host(row["instance_type"])):
            continue
        price = _parse_price(path, line, str(column["price"]), row["price"])
        spot = _parse_price(path, line, str(column["spot"]), row["spot"])
        yield Offer(
            instance_type=row["instance_type"],
            gpu=row["gpu"],
            gpus=gpus,
            price_usd_per_hour=price,
            spot_usd_per_hour=spot,
            region=row["region"].strip(" ,"),  # marketplaces leave the town out, and not its comma
            zone=row["zone"],
            is_doubtful=price is not None and spot is not None and spot >= price,
        )


def _parse_price(path: Path, line: int, column: str, text: str) -> float | None:
    """Read a price; an empty field and zero mean that there is no such offer."""
    return (parse_number(path, line, column, text) or None) if text else None


def _join_hosts(rows: Iterable[Offer]) -> list[Offer]:
    """Put Google's hosts and the GPUs that they come with together, zone by zone; others stay as they are."""
    rows = list(rows)
    alone = {(o.gpu, round(o.gpus), o.zone): o for o in rows if not o.instance_type and o.gpus >= 1}
    joined = []
    for offer in rows:
        if offer.gpus > 0:
            joined.append(offer)
            continue
        gpu, gpus = _gpus_of_host(offer.instance_type) or ("", 0)
        added = alone.get((gpu, gpus, offer.zone))
        if added is not None:
            joined.append(
                replace(
                    offer,
                    gpu=gpu,
                    gpus=gpus,
                    price_usd_per_hour=_add(offer.price_usd_per_hour, added.price_usd_per_hour),
                    spot_usd_per_hour=_add(offer.spot_usd_per_hour, added.spot_usd_per_hour),
                    is_doubtful=added.is_doubtful,
                    is_joined=True,
                )
            )
    return joined


def _gpus_of_host(instance_type: str) -> tuple[str, int] | None:
    """Return the GPU that a host of Google's comes with, and how many, or None for other types."""
    for pattern, gpu in _HOSTS:
        match = pattern.fullmatch(instance_type)
        if match:
            return gpu, int(match[1])
    match = _L4_HOST.fullmatch(instance_type)
    return ("L4", _L4_HOSTS[int(match[1])]) if match and int(match[1]) in _L4_HOSTS else None


def _add(host: float | None, gpus: float | None) -> float | None:
    return None if host is None or gpus is None else host + gpus


def _kind(offer: Offer) -> tuple[str, str, float, str]:
    return offer.instance_type, offer.gpu, offer.gpus, offer.region


def _per_gpu(offer: Offer) -> float:
    """Return the on-demand price of one GPU to five digits: lists round that of several differently."""
    return float(f"{(offer.price_usd_per_hour or 0.0) / offer.gpus:.5g}")
