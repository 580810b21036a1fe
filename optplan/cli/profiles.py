"""``optplan profile``: what is measured here for the instances that plan it; the wings bring what can be measured."""

from __future__ import annotations

from typing import Any

import click

from optplan.cli.commands import Group
from optplan.errors import UsageError


class _Profiles(Group):
    """The group, which says what has become of its former self."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:  # noqa: ANN401 - click's own
        """Find the command; where a network is given in its place, say how that is written now."""
        if args and ":" in args[0] and args[0] not in self.commands:
            raise UsageError(f"profile: {args[0]} is no command; networks are profiled by `optplan profile network`")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Profiles,
    extended="profile",
    short_help="Measure networks, searches and jobs, for their instances.",
    examples=(
        "optplan profile network train.py:make_network --largest-batch 64 -o profile.json",
        "optplan profile search --train train.py:Trainable --space space.yaml --gpus 1,2,4 --instance mine.yaml",
        'optplan profile speedup --command "python train.py" --gpus 1,2,4 -o class.json',
    ),
)
def profile() -> None:
    """Measure here what planning has to know: of a network (Srift), a search (RubberBand, SEER), of jobs (BOA)."""
