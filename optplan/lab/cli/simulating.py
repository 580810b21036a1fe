"""``optplan simulate cluster``: what plans and rules would do, replayed over traces."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import click

from optplan.cli.commands import Group
from optplan.cli.options import DIR, F, known_name


@click.group(
    cls=Group,
    short_help="Replay traces on clusters, on spot VMs, or with starts that wait.",
    later={
        "cluster": "optplan.lab.cli.cluster_simulating:simulate_cluster",
        "spot": "optplan.lab.cli.spot_simulating:simulate_spot",
        "starts": "optplan.lab.cli.start_simulating:simulate_starts",
    },
    examples=(
        "optplan simulate cluster newTrace.csv --profiles profiles --policy plan.json --slowdown",
        "optplan simulate spot us-*.json --work 24h --deadline 30h --catalog aws-v8.csv --vm-type p3.2xlarge",
    ),
)
def simulate() -> None:
    """Replay a trace job by job, and see what a plan or a rule would have come to."""


def list_timings() -> list[str]:
    """List where step times can come from."""
    from optplan.lab.traces.sia import Timing

    return [timing.value for timing in Timing]


def profiles_options(*, required: bool) -> Callable[[F], F]:
    """Make what adds where profiles are, and how times follow from them."""
    options = (
        click.option("--profiles", required=required, type=DIR, help="Of Sia's workloads: folder of profiles."),
        click.option(
            "--slowdown/--no-slowdown",
            default=False,
            help="Of Sia's: whether times get the factor that Sia fitted to its physical cluster.",
        ),
        click.option(
            "--timing",
            metavar="NAME",
            default="tables",
            help="Of Sia's: times of steps: tables (as measured, the model beyond them), model (fitted, at every "
            "width) or model-batches (as measured, at the batch sizes that the model picks, as in Sia's simulator).",
            **known_name("timing", list_timings),
        ),
    )
    return lambda command: reduce(lambda wrapped, option: option(wrapped), reversed(options), command)
