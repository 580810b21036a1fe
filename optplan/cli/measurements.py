"""``optplan measure``: what is measured here for the instances that plan it; the wings bring what can be measured."""

from __future__ import annotations

import click

from optplan.cli.commands import Group


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
