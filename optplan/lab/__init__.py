"""Simulators: fleets in which VMs come and go, clusters to which jobs come, and a job that moves between zones."""

from optplan.public_names import load_on_use

__getattr__, __all__ = load_on_use(__name__, __file__)

COMMANDS = {
    "import sia": "optplan.lab.cli.trace_imports:import_sia",
    "import gavel": "optplan.lab.cli.trace_imports:import_gavel",
    "simulate": "optplan.lab.cli.simulating:simulate",
    "simulate-spot": "optplan.lab.cli.spot_simulating:simulate_spot",
    "simulate-starts": "optplan.lab.cli.start_simulating:simulate_starts",
    "bench": "optplan.lab.cli.benchmarks:bench",
}
LISTS: dict[str, str] = {}
