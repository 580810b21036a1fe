"""Studies: clusters to which jobs come, a job that moves between zones, audits of logs, what is best known, traces."""

from optplan.public_names import load_on_use

__getattr__, __all__ = load_on_use(__name__, __file__)

COMMANDS = {
    "audit": "optplan.lab.cli.auditing:audit",
    "frontier --by commitments": "optplan.lab.cli.committing:compare_bills",
    "frontier --by gpus": "optplan.lab.cli.cluster_sizing:size_cluster",
    "frontier --limit vms": "optplan.lab.cli.scaling:by_vms",
    "frontier --limit gpus": "optplan.lab.cli.scaling:by_gpus",
    "import spot-trace": "optplan.lab.cli.spot_imports:import_spot_trace",
    "import trace": "optplan.lab.cli.trace_imports:import_trace",
    "simulate": "optplan.lab.cli.simulating:simulate",
    "bench": "optplan.lab.cli.benchmarks:bench",
}
RECORDS = {"audit": "optplan.lab.audits.records:Audit"}
