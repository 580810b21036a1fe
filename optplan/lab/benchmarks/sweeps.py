"""Every suite in one sweep, spread over processors or machines: one document with all rows, and what they amount to."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from optplan.lab.benchmarks.machine import count_processors, describe_machine, describe_versions
from optplan.lab.benchmarks.rows import BEST_KNOWN, run_suite, suites
from optplan.lab.benchmarks.summaries import summarise_best_known, summarise_suite
from optplan.parallel import Engine, spread
from optplan.progress import Event

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
