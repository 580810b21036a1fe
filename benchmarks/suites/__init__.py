"""The project's benchmark suites: one list of rows each, everything measured in one run.

``PYTHONPATH=benchmarks python -m suites all --quick`` runs them all; ``make bench`` calls it.
"""

from suites.rows import run_suite, suites

__all__ = ["run_suite", "suites"]
