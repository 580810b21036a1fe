"""The public names of the lab, each written once, as those of ``optplan`` are."""

from optplan.lab.audits.auditing import (
    audit as audit,
)
from optplan.lab.audits.auditing import (
    bound_by_capacity as bound_by_capacity,
)
from optplan.lab.audits.records import (
    Audit as Audit,
)
from optplan.lab.audits.records import (
    CapacityBound as CapacityBound,
)
from optplan.lab.billing import (
    compare_commitments as compare_commitments,
)
from optplan.lab.cluster.traced_jobs import (
    simulate_trace as simulate_trace,
)
from optplan.lab.sizing import (
    ClusterSize as ClusterSize,
)
from optplan.lab.sizing import (
    LoggedCluster as LoggedCluster,
)
from optplan.lab.sizing import (
    Replay as Replay,
)
from optplan.lab.sizing import (
    Sizing as Sizing,
)
from optplan.lab.sizing import (
    size as size,
)
from optplan.lab.traces.goodput_fitting import (
    fit_goodput as fit_goodput,
)
from optplan.lab.traces.sia_boa import (
    build_sia_instance as build_sia_instance,
)

COMMANDS: dict[str, str]
LISTS: dict[str, str]
RECORDS: dict[str, str]
__all__: list[str]
