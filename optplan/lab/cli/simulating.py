"""``optplan simulate cluster``: what plans and rules would do, replayed over traces."""

from __future__ import annotations

import click

from optplan.cli.commands import Group


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
