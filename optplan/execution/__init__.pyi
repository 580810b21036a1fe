"""The public names of runs, each written once, as those of ``optplan`` are."""

from optplan.execution.outcomes import (
    RunOutcome as RunOutcome,
)
from optplan.execution.running import (
    run as run,
)

COMMANDS: dict[str, str]
LISTS: dict[str, str]
__all__: list[str]
