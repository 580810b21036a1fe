"""``optplan import``: instances from public traces, profiles and price lists, speedups from model cards.

``optplan measure``: what is measured here for the instances that plan it; the wings bring what can be measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import click

import optplan
from optplan.cli.commands import Group
from optplan.cli.options import by_name, option, parse_price
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError

_Instance = TypeVar("_Instance", bound="optplan.Instance")


def _read_price(text: str, *, what: str) -> float | str:
    return text if ":" in text else parse_price(text, what=what)


#: US dollars per hour by type, under an empty name for the only one; ``aws:p4d.24xlarge``, which ships, stays so.
PRICES = by_name("a price is needed, as in 0.978usd/hour or t4=aws:g4dn.xlarge", _read_price) | {"metavar": "AMOUNT"}
#: Of prices that are amounts.
PRICE_SOURCE = option(metavar="TEXT", help="Who published the price, and when.")


@click.group(
    name="import",
    cls=Group,
    short_help="Make an instance from a log, a trace or a table, or add prices.",
    later={
        "card": "optplan.cli.card_imports:import_card",
        "log": "optplan.cli.log_imports:import_log",
        "prices": "optplan.cli.price_imports:import_prices",
        "throughputs": "optplan.cli.price_imports:import_throughputs",
    },
    extended="import",
    examples=(
        "optplan import log jobs.txt --from sacct --throughput throughput.csv --price aws:p4d.24xlarge -o mine.json",
        "optplan import card llama.yaml --gpu h100 --network 400gbit --widths 8..256 -o llama.json",
        "optplan import trace newTrace.csv --from sia --profiles profiles --gpu aws --budget 120gpu -o mine.json",
        "optplan import prices mine.json --vm-type a100=aws:p4d.24xlarge --region us-east-1 -o priced.json",
    ),
)
def import_data() -> None:
    """Make an instance from a log of jobs or a public trace, or fill in prices and how often spot VMs are lost."""


def price_types(
    instance: optplan.BoaInstance, prices: Mapping[str, float | str], source: str | None
) -> optplan.BoaInstance:
    """Return the instance with the prices that the user gave, by GPU type; an empty name stands for the only one."""
    from optplan.instances.instance_prices import find_price, name_prices, set_prices

    if source is not None and not any(isinstance(price, float) for price in prices.values()):
        raise UsageError("--price-source: says who published an amount that --price gives; give one, or leave it out")
    for gpu_type, price in name_prices(prices, instance.gpu_types).items():
        if isinstance(price, str):
            found, spot = find_price(price)
            instance = set_prices(instance, {gpu_type: found}, spot={gpu_type} if spot else ())
        else:
            priced = instance.gpu_types[gpu_type].replace(
                price_usd_per_hour=price, price_source=source or "given by the user"
            )
            instance = instance.replace(gpu_types={**instance.gpu_types, gpu_type: priced})
    return instance


def rename(instance: _Instance, name: str | None) -> _Instance:
    """Return the instance under the name that the user gave, if any."""
    return instance if name is None else instance.replace(name=name)


def require_target(outputs: Outputs) -> None:
    """Refuse an import that goes nowhere; a file, or JSON on stdout, is needed."""
    if "--out" not in outputs and not outputs.as_json:
        raise UsageError("--out: say where to write the instance, as in -o mine.json, or give --json for stdout")


@click.group(
    cls=Group,
    extended="measure",
    short_help="Measure searches, jobs, networks and all-reduces.",
    examples=(
        "optplan measure search --train train.py:Trainable --space space.yaml --gpus 1,2,4 --into mine.yaml",
        'optplan measure jobs --command "python train.py" --gpus 1,2,4 -o class.json',
        "optplan measure network train.py:make_network --largest-batch 64 -o profile.json",
        "optplan measure allreduce --ranks 2,4 --vm-type laptop -o measurements.csv",
    ),
)
def measure() -> None:
    """Measure here what planning has to know: of a search (RubberBand, SEER), of jobs (BOA), of a network (Srift)."""
