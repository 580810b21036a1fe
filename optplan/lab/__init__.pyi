"""The public names of the lab, each written once, as those of ``optplan`` are."""

from optplan.lab.cluster.traced_jobs import (
    simulate_trace as simulate_trace,
)
from optplan.lab.searches.clock import (
    SearchOutcome as SearchOutcome,
)
from optplan.lab.searches.clock import (
    SearchSetting as SearchSetting,
)
from optplan.lab.searches.policies import (
    run_seer as run_seer,
)
from optplan.lab.traces.gavel import (
    build_gavel_instance as build_gavel_instance,
)
from optplan.lab.traces.goodput_fitting import (
    fit_goodput as fit_goodput,
)
from optplan.lab.traces.sia_boa import (
    build_sia_instance as build_sia_instance,
)

COMMANDS: dict[str, str]
LISTS: dict[str, str]
__all__: list[str]
