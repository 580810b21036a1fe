"""What ``optplan bench`` measures: one list of rows each, everything in one run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from optplan.contracts.registry import Formulation
from optplan.errors import UsageError, nearest_name_hint
from optplan.formulations import formulation_named, formulations
from optplan.lab.benchmarks.best_known import Row, measure, measure_solve, run
from optplan.progress import Listener

#: The suite that checks the library's manifest.
BEST_KNOWN = "best-known"


def suites() -> list[str]:
    """List what can be measured: the library's manifest, and formulations that name instances to be measured on."""
    own = (name for name, formulation in formulations().items() if formulation.declares("bench_instances"))
    return [BEST_KNOWN, *own]


def run_suite(
    name: str, *, quick: bool = False, proofs: Path | None = None, on_event: Listener | None = None
) -> list[dict[str, object]]:
    """Run a suite, ``quick`` or whole; return its rows as plain data; what is new or better goes to ``proofs``."""
    if name not in suites():
        raise UsageError(f"no benchmark suite {name!r}; {nearest_name_hint(name, suites())}")
    if proofs is not None and name != BEST_KNOWN:
        raise UsageError(f"proofs are of the suite {BEST_KNOWN}; got {name}")
    if name == BEST_KNOWN:
        return measure(run(quick=quick, proofs=proofs), on_event)
    return measure(_run_every_solver(formulation_named(name), quick=quick), on_event)


def _run_every_solver(formulation: Formulation, *, quick: bool) -> Iterator[Row]:
    for instance in formulation.bench_instances(quick=quick):
        asked = formulation.describe(instance)
        for entry in formulation.solvers:
            if entry.refusal(instance, asked) is None:
                yield measure_solve(instance, instance.name, entry.name)
