"""Every suite in one sweep, spread over processors or machines: one document with all rows, and what they amount to."""

from __future__ import annotations

import datetime
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from optplan.lab.benchmarks.rows import BEST_KNOWN, run_suite, suites
from optplan.lab.benchmarks.summaries import summarise_best_known, summarise_suite
from optplan.parallel import Engine, spread
from optplan.progress import Event

#: Packages whose versions matter to the figures.
PACKAGES = ("optplan", "numpy", "highspy", "ortools", "cvxpy")


def describe_machine() -> str:
    """Say what processor this is, and how many of its cores the process may use."""
    processor = platform.processor() or platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    python = f"Python {platform.python_version()}"
    return f"{named[1] if named else processor}, {count_processors()} cores, {platform.system()}, {python}"


def describe_versions() -> str:
    """Say which versions of the packages that matter are installed; those of extras need not be."""
    return ", ".join(f"{name} {version(name)}" for name in PACKAGES if find_spec(name) is not None)


def count_processors() -> int:
    """Count the processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


#: What is measured first, so that no processor ends long after the others; whatever is not listed follows.
_LONGEST_FIRST = (BEST_KNOWN, "seer", "boa-types", "rubberband")


def run_sweep(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    full: bool = False,
    processes: int | None = None,
    engine: Engine | str = Engine.PROCESSES,
    proofs: Path | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> dict[str, Any]:
    """Run suites (all where none is named) side by side, each in a process of its own, or on a Ray cluster.

    What runs at once slows one another down: times of different sweeps compare only where ``processes`` is the same. On
    a Ray cluster ``proofs`` is a folder that its machines share. Returns ``date``, ``machine``, ``versions``,
    ``quick``, ``full``, ``engine``, ``processes`` (None on a Ray cluster), ``seconds``; ``suites``, by name
    ``machine``, ``seconds``, ``rows`` and ``summary``; and ``best_known`` where that suite ran.
    """
    chosen = list(names or suites())
    if engine == Engine.PROCESSES and processes is None:
        processes = min(count_processors(), len(chosen))
    start = time.perf_counter()
    wanted = sorted(chosen, key=lambda name: _LONGEST_FIRST.index(name) if name in _LONGEST_FIRST else len(chosen))
    done: dict[str, dict[str, Any]] = {}
    # A new process for each suite: what one has loaded is no part of another's memory, and HiGHS and OR-Tools both fit.
    work = partial(_run_timed, quick=quick, full=full, proofs=proofs)
    tasks = {name: name for name in wanted}
    for name, told in spread(work, tasks, processes, engine=engine, fresh=True):
        done[name] = told
        if on_event is not None:
            on_event(Event(name, time.perf_counter() - start, fraction=len(done) / len(chosen)))
    document: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": describe_machine(),
        "versions": describe_versions(),
        "quick": quick,
        "full": full,
        "engine": str(engine),
        "processes": processes,
        "seconds": time.perf_counter() - start,
        "suites": {name: {**done[name], "summary": summarise_suite(done[name]["rows"])} for name in chosen},
    }
    if BEST_KNOWN in chosen:
        document["best_known"] = summarise_best_known(done[BEST_KNOWN]["rows"])
    return document


def _run_timed(name: str, *, quick: bool, full: bool, proofs: Path | None) -> dict[str, Any]:
    start = time.perf_counter()
    rows = run_suite(name, quick=quick, full=full, proofs=proofs if name == BEST_KNOWN else None)
    return {"machine": describe_machine(), "seconds": time.perf_counter() - start, "rows": rows}
