"""The suites behind ``optplan bench``: one list of rows each, everything measured in one run."""

from optplan.lab.benchmarks.rows import run_suite, suites

__all__ = ["run_suite", "suites"]
