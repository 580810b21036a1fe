"""The public names of runs, each written once, as those of ``optplan`` are."""

# ruff: noqa: I001 - would import every name by a statement of its own

from optplan.execution.exports.request import Export as Export
from optplan.execution.fleets.hook import Member as Member
from optplan.execution.online.calculator import WidthCalculator as WidthCalculator
from optplan.execution.online.decisions import decide as decide
from optplan.execution.online.messages import Measurement as Measurement
from optplan.execution.online.jobs import (
    ActiveJob as ActiveJob,
    Rules as Rules,
)
from optplan.execution.online.width_table import WidthTable as WidthTable
from optplan.execution.running import RunOutcome as RunOutcome
from optplan.execution.cli.searches import (
    build_comparison_page as build_comparison_page,
    comparison_table as comparison_table,
)
from optplan.execution.ray_tune import PlanScheduler as PlanScheduler
from optplan.execution.running import run as run
from optplan.execution.runs import resume as resume
from optplan.execution.streams.state import StreamJob as StreamJob
from optplan.execution.streams.running import run_stream as run_stream
from optplan.execution.trainables import Session as Session

COMMANDS: dict[str, str]
LISTS: dict[str, str]
__all__: list[str]
