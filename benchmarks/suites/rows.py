"""The suites by name, and what their rows have beside those of ``optplan bench``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from optplan.errors import UsageError, nearest_name_hint
from optplan.lab import benchmarks
from optplan.lab.benchmarks import BEST_KNOWN
from optplan.lab.benchmarks.best_known import Row, measure, peak_mb, reset_peak
from optplan.progress import Listener

#: Suite by name: the module that has ``run(quick, full) -> Iterator[Row]``, each row as soon as it is measured.
_SUITES = {
    "audit": "suites.audits",
    "boa": "suites.boa",
    "boa-types": "suites.boa_types",
    "commitments": "suites.committed",
    "online": "suites.online",
    "rubberband": "suites.rubberband",
    "runtime": "suites.runtime",
    "seer": "suites.seer",
    "sizes": "suites.sizes",
    "srift": "suites.srift",
}

_Answer = TypeVar("_Answer")


def suites() -> list[str]:
    """List the names of the suites: those here, and those of ``optplan bench``."""
    return sorted({*_SUITES, *benchmarks.suites()})


def run_suite(
    name: str, *, quick: bool = False, full: bool = False, proofs: Path | None = None, on_event: Listener | None = None
) -> list[dict[str, object]]:
    """Run a suite; return its rows as plain data, in the order in which they were measured.

    ``quick`` takes small sizes and few limits, a check that the suite works, ``full`` also the slow rivals at every
    limit. ``proofs`` is the folder for what ``best-known`` finds better than recorded or new.
    """
    if name not in suites():
        raise UsageError(f"no benchmark suite {name!r}; {nearest_name_hint(name, suites())}")
    if quick and full:
        raise UsageError("quick and full exclude each other")
    if proofs is not None and name != BEST_KNOWN:
        raise UsageError(f"proofs are of the suite {BEST_KNOWN}; got {name}")
    if name not in _SUITES:
        return benchmarks.run_suite(name, quick=quick, proofs=proofs, on_event=on_event)
    return measure(import_module(_SUITES[name]).run(quick=quick, full=full), on_event)


def timed(act: Callable[[], _Answer]) -> tuple[_Answer, float, float]:
    """Do something; return its answer, the seconds that it took, and the largest resident memory meanwhile, in MB."""
    reset_peak()
    start = time.perf_counter()
    answer = act()
    seconds = time.perf_counter() - start
    return answer, seconds, peak_mb()


def make_goal_row(
    what: str,
    where: str,
    seconds: float,
    goal_s: float | None,
    extra: Mapping[str, float],
    **told: Any,  # noqa: ANN401
) -> Row:
    """Return the row of something that should take no longer than its goal, if it has one: ``met`` or ``missed``."""
    status = "measured" if goal_s is None else "met" if seconds <= goal_s else "missed"
    goal = {} if goal_s is None else {"goal_s": goal_s}
    known = {"instance": what, "solver": where, "status": status, "extra": {**goal, **extra}} | told
    return Row(seconds=seconds, peak_mb=peak_mb(), **known)
