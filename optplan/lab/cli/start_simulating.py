"""``optplan simulate starts``: jobs that may wait for cheaper hours of the day."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.commands import command
from optplan.cli.console import Progress, Shown
from optplan.cli.options import FILE, PRICE, argument, by_name, named, option
from optplan.cli.outputs import Outputs, format_csv
from optplan.lab.cli.simulating import profiles_options
from optplan.units import parse_duration

if TYPE_CHECKING:
    from optplan.lab.starts import StartStudy


@command(
    "starts",
    short_help="Start jobs when GPUs are cheap: rules side by side, and the best that waiting can save.",
    examples=(
        "optplan simulate starts newTrace.csv --profiles profiles --policy plan.json --prices hours.csv "
        "--may-wait bert=4h --may-wait imagenet=12h",
        "optplan simulate starts newTrace.csv --profiles profiles --policy one-width:4 --prices hours.csv "
        "--may-wait bert=4h --hour-worth 0.5usd/hour --report starts.html",
    ),
    renamed=named("policy", "gpu", "may_wait", "first_hour"),
    writes={
        "output": "what came of it as JSON",
        "trade_off": "Write the whole trade-off of money and waiting as CSV.",
        "report": "Write an HTML report.",
    },
)
@profiles_options(required=True)
@click.option("--gpu", default="aws", metavar="NAME", help="Type of the nodes: a suffix of the profiles.")
def simulate_starts(
    workload: Path = argument(metavar="WORKLOAD", type=FILE),
    *,
    profiles: Path,
    policy: str = option(
        required=True,
        metavar="PLAN|NAME",
        help="Who says how many GPUs each job holds: the file of a BOA plan, one-gpu, one-width:N or reservation.",
    ),
    prices: Path = option(required=True, type=FILE, help="CSV with columns hour (0 to 23) and usd_per_gpu_hour."),
    may_wait: dict[str, float] = option(
        **by_name("an application and a time are needed, as in bert=4h", parse_duration, alone=False),
        required=True,
        metavar="CLASS=TIME",
        help="Longest wait of the jobs of an application, such as bert=4h; may be repeated. All others start at once.",
    ),
    worths: tuple[float, ...] = option(
        "--hour-worth",
        multiple=True,
        type=PRICE,
        help="What an hour that a job waits is worth, such as 0.5usd/hour: a rule that weighs it; may be repeated.",
    ),
    thresholds: tuple[float, ...] = option(
        "--threshold",
        multiple=True,
        type=PRICE,
        help="Start in the first hour with at most this price of a GPU; may be repeated. The best of 24 by default.",
    ),
    first_hour: int = option(
        default=0, metavar="N", type=click.IntRange(0, 23), help="Hour of the day at which the trace begins."
    ),
    outputs: Outputs,
    **cell: Any,  # noqa: ANN401 - further fields of a cell, which checks them
) -> int:
    """Replay the jobs of WORKLOAD that start at once, at low prices, or at the best moment within what they may wait.

    Prices follow the hour of the day, the same every day, and are known. Nodes are rented as they are needed, and how
    many GPUs a job holds does not depend on when it starts: then what is best for each job is best for all, and is
    found exactly, as is the least cost for every amount of waiting.
    """
    from optplan.lab.pages import build_starts_page
    from optplan.lab.starts import read_daily_prices, study_starts
    from optplan.lab.sweeps import Cell

    jobs = Cell.parse({"workload": str(workload), "profiles": str(profiles), "policy": policy, **cell})
    schedule = read_daily_prices(prices, first_hour)
    with Progress("simulating"):
        study = study_starts(jobs, schedule, may_wait, worths_usd=worths, thresholds_usd=thresholds)
    data = {"workload": workload.name, **study.to_json_data()}

    points = study.list_trade_off()
    outputs.deliver(data, lambda: _show(study))
    outputs.save_text("--trade-off", lambda _: format_csv(list(points[0]), ([*point.values()] for point in points)))
    outputs.save_page("--report", lambda: build_starts_page(study, workload.stem))
    return outputs.exit_code(0)


def _show(study: StartStudy) -> list[Shown]:
    from optplan.lab.pages import (
        NOT_PROVEN,
        PROVEN,
        compare_rules,
        list_classes,
        list_trade_off,
        say_problems,
    )
    from optplan.reporting.tables import plain_text

    parts: list[Shown] = [compare_rules(study), "", list_classes(study), "", list_trade_off(study), ""]
    parts += [plain_text(PROVEN), plain_text(NOT_PROVEN)]
    problems = say_problems(study)
    if problems:
        parts += ["", plain_text("jobs that were not completed, and are left out", "bold"), *map(plain_text, problems)]
    return parts
