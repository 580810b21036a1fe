"""Policies on spot VMs of several zones, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.lab.spot.market import name_place
from optplan.lab.spot.replaying import SpotOutcome
from optplan.lab.spot.trials import Score
from optplan.reporting.tables import Column, Table, numbers
from optplan.units import SECONDS_PER_HOUR, format_duration


def compare_policies(scores: Sequence[Score]) -> Table:
    """Show how policies did, one row each for each deadline."""
    columns = numbers("cost", "to hindsight", "P95", "kept", "spot h", "on demand h", "starts", "losses")
    rows = [
        [
            format_duration(told.deadline_s),
            told.policy,
            f"${told.cost_usd:,.2f}",
            f"{told.ratio:.3f}",
            f"{told.high_ratio:.3f}",
            f"{told.kept:.0%}",
            f"{told.spot_hours:,.1f}",
            f"{told.on_demand_hours:,.1f}",
            f"{told.starts:.1f}",
            f"{told.losses:.1f}",
        ]
        for told in scores
    ]
    return Table("Policies", [Column("deadline"), Column("policy"), *columns], rows, 2)


def list_segments(outcome: SpotOutcome) -> Table:
    """Show where a job was when."""
    step_s = outcome.job.step_s
    rows = [
        [
            f"{stretch.start * step_s / SECONDS_PER_HOUR:.2f}",
            f"{stretch.stop * step_s / SECONDS_PER_HOUR:.2f}",
            name_place(stretch.place, outcome.zones),
            f"{stretch.trained * step_s / SECONDS_PER_HOUR:.2f}",
            f"${stretch.cost_usd:,.2f}",
            "lost" if stretch.is_lost else "",
        ]
        for stretch in outcome.stretches
    ]
    columns = [*numbers("from h", "to h"), Column("where"), *numbers("trained h", "cost"), Column("")]
    return Table(outcome.policy, columns, rows, 1)
