"""``optplan simulate spot``: one job with a deadline on spot VMs of several zones, replayed over traces."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.commands import command
from optplan.cli.console import Progress, Shown
from optplan.cli.options import (
    FILE,
    PRICE,
    TIME,
    NumberRange,
    argument,
    by_name,
    known_name,
    named,
    option,
    parse_price,
)
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.units import format_duration

if TYPE_CHECKING:
    from optplan.lab.spot.replaying import SpotMarket, SpotPrices
    from optplan.lab.spot.trials import Trial


def _list_policies() -> list[str]:
    from optplan.lab.spot.policies import POLICIES

    return list(POLICIES)


def _read_spot_price(text: str, *, what: str) -> float | SpotPrices:
    """Read a price of spot VMs: an amount, or a file of a series."""
    from optplan.lab.spot.replaying import read_spot_prices

    return read_spot_prices(text) if Path(text).suffix == ".json" else parse_price(text, what=what)


@command(
    "spot",
    short_help="Replay a job with a deadline on spot VMs of several zones, against the hindsight optimum.",
    examples=(
        "optplan simulate spot us-east-1*.json --work 24h --deadline 30h --spot-price 0.9usd/hour "
        "--on-demand-price 3.06usd/hour",
        "optplan simulate spot us-*.json --work 24h --deadline 30h --catalog aws-v8.csv --vm-type p3.2xlarge --json",
        "optplan simulate spot us-*.json --work 24h --deadline 30h --catalog aws-v8.csv --vm-type p3.2xlarge "
        "--policy planned --start 600h",
    ),
    renamed=named("nodes", "finer", "work", "deadline", "restart", "train share", "start", "policy")
    | {"checkpoint": "--checkpoint-every", "trials": "--samples"},
    writes={"output": "what came of it as JSON"},
)
@click.option("--nodes", default=1, metavar="N", type=int, help="VMs that the job needs at once.")
@click.option(
    "--spot-price",
    "spot_prices",
    **by_name("a price is needed, as in us-east-1a=0.9usd/hour", _read_spot_price),
    metavar="[ZONE=]AMOUNT|FILE",
    help="Of one VM, such as us-east-1a=0.9usd/hour, or a JSON file of prices over time.",
)
@click.option("--on-demand-price", type=PRICE, help="Of one VM, such as 3.06usd/hour.")
@click.option("--catalog", type=FILE, help="Price list for what is not given.")
@click.option("--vm-type", metavar="NAME", help="What is rented, as the price list calls it.")
@click.option("--finer", default=1, metavar="N", type=int, help="Steps that a tick is cut into.")
def simulate_spot(
    traces: tuple[Path, ...] = argument(metavar="TRACE...", nargs=-1, required=True, type=FILE),
    *,
    work: float = option(required=True, type=TIME, help="Training that the job needs."),
    deadlines: tuple[float, ...] = option(
        "--deadline",
        required=True,
        multiple=True,
        type=TIME,
        help="Time from its start until it has to be done; may be repeated.",
    ),
    restart: float = option(
        default="12min", type=TIME, help="From any start, the first one or elsewhere, until training goes on."
    ),
    checkpoint_every: float = option(
        default="10min",
        type=TIME,
        help="Training between two checkpoints; what was done since the last one is lost with the VMs.",
    ),
    policies: tuple[str, ...] = option(
        "--policy",
        multiple=True,
        metavar="NAME",
        help="on-demand, greedy, uniform-progress or planned; may be repeated. All unless given.",
        **known_name("policy", _list_policies),
    ),
    train_share: float = option(
        default=0.5,
        metavar="SHARE",
        type=NumberRange(min=0, max=1, min_open=True, max_open=True),
        help="Share of the traces, from their beginning, that is learned from and not replayed.",
    ),
    trials: int = option("--samples", default=100, metavar="N", type=int, help="Starts, drawn from the rest."),
    seed: int = option(default=0, metavar="N", type=click.IntRange(min=0), help="Of the starts."),
    start: float | None = option(
        type=TIME, help="Replay one job that starts at this time of the traces, and show where it was when."
    ),
    outputs: Outputs,
    **offer: Any,  # noqa: ANN401 - what can be rented, and at which price
) -> int:
    """Replay a job that rents where it is cheap, under policies that do not know the future and by one that does.

    Each TRACE is of one zone, whose name the file begins with (us-east-1a_v100_1.json), and of the same time: VMs at
    each tick, as optplan import spot-trace reads it. Costs are compared with the least at which the deadline could have
    been kept, had all been known beforehand. Exit code 3: on demand cannot keep the deadline.
    """
    from optplan.lab.pages import compare_policies, list_segments
    from optplan.lab.spot import trials as trying
    from optplan.lab.spot.replaying import SpotJob

    market = _build_market(traces, **offer)
    jobs = [SpotJob.of(work, deadline, restart, checkpoint_every, step_s=market.step_s) for deadline in deadlines]
    names = policies or tuple(_list_policies())
    drawn: dict[str, Any] = {"train_share": train_share, "trials": trials, "seed": seed}
    drawn["start"] = None if start is None else round(start / market.step_s)
    with Progress("replaying") as progress:
        found = [trying.try_policies(job, market, names, **drawn, on_event=progress.listen) for job in jobs]
    scores = [told for tried in found for told in trying.score(tried)]
    data: dict[str, Any] = {
        "zones": list(market.zones),
        "step_s": market.step_s,
        "steps": market.steps,
        "nodes": offer["nodes"],
        "train_share": train_share if start is None else None,
        "seed": seed if start is None else None,
        "jobs": [dataclasses.asdict(job) for job in jobs],
        "scores": [dataclasses.asdict(told) for told in scores],
        "trials": [_list_costs(trial, market, with_segments=start is not None) for tried in found for trial in tried],
    }

    def show() -> list[Shown]:
        parts: list[Shown] = [compare_policies(scores)]
        if start is not None:
            for outcome in (outcome for tried in found for outcome in tried[0].outcomes):
                after = format_duration(outcome.job.deadline * outcome.job.step_s)
                parts += ["", f"{outcome.policy}, deadline after {after}", list_segments(outcome)]
        return parts

    outputs.deliver(data, show)
    return outputs.exit_code(0)


def _build_market(
    traces: Sequence[Path],
    *,
    nodes: int,
    spot_prices: dict[str, float | SpotPrices],
    on_demand_price: float | None,
    catalog: Path | None,
    vm_type: str | None,
    finer: int,
) -> SpotMarket:
    from optplan.instances.catalog import read_price_list
    from optplan.lab.spot.replaying import build_market, region_of, zone_of
    from optplan.lab.spot.traces import read_spot_trace

    zones = [zone_of(path) for path in traces]
    if len(set(zones)) < len(zones):
        raise UsageError(f"TRACE: got {', '.join(zones)}; give one trace for each zone")
    if unknown := set(spot_prices) - {*zones, ""}:
        raise UsageError(f"--spot-price: no zone {min(unknown)!r}; the traces are of {', '.join(zones)}")
    prices = {zone: spot_prices[zone if zone in spot_prices else ""] for zone in zones if {zone, ""} & set(spot_prices)}
    missing = [zone for zone in zones if zone not in prices]
    if missing or on_demand_price is None:
        if catalog is None or vm_type is None:
            what = f"of spot VMs in {missing[0]} (--spot-price)" if missing else "on demand (--on-demand-price)"
            raise UsageError(f"no price {what} is given; give it, or a price list and a type (--catalog, --vm-type)")
        listed = read_price_list(catalog)
        for zone in missing:
            price = listed.price_of(vm_type, region_of(zone))
            if price.spot_usd_per_hour is None:
                raise UsageError(f"--spot-price: {catalog.name} lists none of {vm_type} in {region_of(zone)}; give one")
            prices[zone] = price.spot_usd_per_hour * price.gpus
        if on_demand_price is None:
            cheapest = listed.price_of(vm_type)
            on_demand_price = cheapest.price_usd_per_hour * cheapest.gpus
    return build_market(
        {zone: read_spot_trace(path) for zone, path in zip(zones, traces, strict=True)},
        nodes=nodes,
        spot_usd_per_hour=prices,
        on_demand_usd_per_hour=on_demand_price,
        finer=finer,
    )


def _list_costs(trial: Trial, market: SpotMarket, *, with_segments: bool) -> dict[str, Any]:
    """Return plain data of a trial: costs, or, where there is one only, all about it."""
    outcomes = [outcome.to_json_data() for outcome in trial.outcomes]
    if not with_segments:
        outcomes = [{key: value for key, value in told.items() if key != "segments"} for told in outcomes]
    deadline_s = trial.outcomes[0].job.deadline * market.step_s
    return {"start_s": trial.start * market.step_s, "deadline_s": deadline_s, "outcomes": outcomes}
