"""Every suite in one sweep, spread over processors: one document with all rows, and what they amount to."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from optplan.benchmarking.machine import count_processors, describe_machine, describe_versions
from optplan.benchmarking.rows import BEST_KNOWN, run_suite, suites
from optplan.benchmarking.summaries import summarise_best_known, summarise_suite
from optplan.errors import UsageError
from optplan.progress import Event, end_with_parent

#: What is measured first, so that no processor ends long after the others; whatever is not listed follows.
_LONGEST_FIRST = (BEST_KNOWN, "seer", "boa-types", "rubberband")


def run_sweep(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    full: bool = False,
    processes: int | None = None,
    proofs: Path | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> dict[str, Any]:
    """Run suites side by side, each in a process of its own.

    Parameters
    ----------
    names
        Of the suites; none stands for all.
    quick, full
        As of :func:`~optplan.benchmarking.rows.run_suite`.
    processes
        How many suites run at once; None for one on each processor. What runs at once slows one another down: times of
        different sweeps compare only where this is the same.
    proofs
        As of ``run_suite``; for the suite ``best-known``.
    on_event
        Told when a suite is done.

    Returns
    -------
    dict
        Plain data: ``date``, ``machine``, ``versions``, ``quick``, ``full``, ``processes``, ``seconds``; ``suites``, by
        name ``seconds``, ``rows`` and ``summary``; and ``best_known`` where that suite ran.

    Raises
    ------
    UsageError
        When a suite is not known, both quick and full are asked, or fewer than one process.
    """
    chosen = list(names or suites())
    if processes is not None and processes < 1:
        raise UsageError(f"processes: got {processes}; one or more are allowed")
    processes = min(processes or count_processors(), len(chosen))
    start = time.perf_counter()
    wanted = sorted(chosen, key=lambda name: _LONGEST_FIRST.index(name) if name in _LONGEST_FIRST else len(chosen))
    done: dict[str, tuple[list[dict[str, Any]], float]] = {}
    # A new process for each suite: what one has loaded is no part of another's memory, and HiGHS and OR-Tools both fit.
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, context, end_with_parent, max_tasks_per_child=1) as pool:
        tasks = {
            pool.submit(_run_timed, name, quick, full, proofs if name == BEST_KNOWN else None): name for name in wanted
        }
        for task in as_completed(tasks):
            done[tasks[task]] = task.result()
            if on_event is not None:
                on_event(Event(tasks[task], time.perf_counter() - start, fraction=len(done) / len(chosen)))
    document: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": describe_machine(),
        "versions": describe_versions(),
        "quick": quick,
        "full": full,
        "processes": processes,
        "seconds": time.perf_counter() - start,
        "suites": {
            name: {"seconds": done[name][1], "rows": done[name][0], "summary": summarise_suite(done[name][0])}
            for name in chosen
        },
    }
    if BEST_KNOWN in chosen:
        document["best_known"] = summarise_best_known(done[BEST_KNOWN][0])
    return document


def _run_timed(name: str, quick: bool, full: bool, proofs: Path | None) -> tuple[list[dict[str, Any]], float]:  # noqa: FBT001 - called by a pool
    start = time.perf_counter()
    rows = run_suite(name, quick=quick, full=full, proofs=proofs)
    return rows, time.perf_counter() - start
