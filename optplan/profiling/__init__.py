"""Measurements that formulations are fed with: of all-reduces, a network's passes, searches, jobs, and whole runs.

Readers, models that learn from measurements, and tools that measure on the machine at hand.
"""

from optplan.public_names import load_on_use

__getattr__, __all__ = load_on_use(__name__, __file__)

COMMANDS = {
    "calibrate": "optplan.profiling.cli.calibrating:calibrate",
    "import nccl-tests": "optplan.profiling.cli.bandwidth:import_nccl_tests",
    "import bandwidth": "optplan.profiling.cli.bandwidth:import_bandwidth",
    "measure search": "optplan.profiling.cli.searches:search",
    "measure jobs": "optplan.profiling.cli.searches:jobs",
    "measure network": "optplan.profiling.cli.measuring:network",
    "measure allreduce": "optplan.profiling.cli.measuring:allreduce",
    "measure bandwidth": "optplan.profiling.cli.bandwidth:bandwidth",
}
