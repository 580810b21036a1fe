"""Every suite in one sweep, spread over processors or machines: one document with all rows, and what they amount to.

Solvers are compared where they answered the same question: rows with the same instance. The best objective of a
question is the least (or largest, where more is better) that any of them found. A performance profile (Dolan and
Moré, 2002) says of which share of the questions a solver is within a factor of the best: here of the objective, and of
the time of the quickest that found one as good.
"""

from __future__ import annotations

import datetime
import math
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from optplan.contracts import Sense
from optplan.lab.benchmarks import BEST_KNOWN
from optplan.lab.benchmarks.best_known import summarise
from optplan.parallel import Engine, spread
from optplan.progress import Event
from suites.rows import run_suite, suites

Row = Mapping[str, Any]

#: Seconds that are added to every time before the geometric mean is taken, and taken off after: rows take milliseconds.
SHIFT_S = 0.01
#: What counts as the best objective: within this factor of it.
_AS_GOOD = 1e-6
#: Factors at which the profiles are written down.
OBJECTIVE_FACTORS = (1.0, 1.001, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)
TIME_FACTORS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)


def shifted_geometric_mean(times_s: Iterable[float]) -> float:
    """Return the geometric mean of times, at least one, each with a shift that is taken off the mean again."""
    return math.exp(float(np.mean([math.log(time_s + SHIFT_S) for time_s in times_s]))) - SHIFT_S


def summarise_suite(rows: Sequence[Row]) -> dict[str, Any]:
    """Summarise a suite, from what ``run_suite`` returns.

    ``solvers``: of each ``num``, ``solved``, ``proven``, ``time_s`` and ``verify_s`` (shifted geometric means),
    ``largest_gap`` of those with a bound, ``peak_mb``; and where two or more answered the same questions ``compared``:
    how many, ``best`` (share), ``mean_above`` and ``most_above`` the best objective. ``profiles``: by solver
    ``objective`` and ``time`` at the factors of this module. ``growth``: by what grows, the factors or sizes and the
    times.
    """
    asked = [row for row in rows if row["verify_seconds"] is not None]
    questions = _compare(asked)
    names = dict.fromkeys(row["solver"] for row in asked)
    summary: dict[str, Any] = {"solvers": {name: _summarise_solver(name, asked, questions) for name in names}}
    rivals = [name for name in names if any(name in answers for answers in questions)]
    summary["profiles"] = {name: _profile(name, questions) for name in rivals}
    summary["growth"] = _gather_growth(rows)
    return summary


def _compare(asked: Sequence[Row]) -> list[dict[str, tuple[float, float]]]:
    """List the questions that several solvers answered: of each its objective over the best, and its time."""
    by_question: dict[tuple[str, str], dict[str, Row]] = {}
    for row in asked:
        unit = str(row["extra"].get("objective_unit", ""))  # what has another objective is another question
        by_question.setdefault((row["instance"], unit), {})[row["solver"]] = row
    questions = []
    for answers in by_question.values():
        if len(answers) < 2:
            continue
        found = [row["objective"] for row in answers.values() if row["objective"] is not None]
        more = any(row["extra"].get("sense") == Sense.MAXIMISE.value for row in answers.values())
        best = (max if more else min)(found, default=math.nan)
        questions.append(
            {name: (_distance(row["objective"], best, more=more), row["seconds"]) for name, row in answers.items()}
        )
    return questions


def _distance(objective: float | None, best: float, *, more: bool) -> float:
    """Return by which factor an objective is worse than the best; infinite without one."""
    if objective is None:
        return math.inf
    return best / objective if more else objective / best


def _summarise_solver(
    name: str, asked: Sequence[Row], questions: Sequence[Mapping[str, tuple[float, float]]]
) -> dict[str, Any]:
    own = [row for row in asked if row["solver"] == name]
    gaps = [row["gap"] for row in own if row["gap"] is not None]
    told: dict[str, Any] = {
        "num": len(own),
        "solved": sum(row["objective"] is not None for row in own),
        "proven": sum(row["status"] in {"optimal", "infeasible"} for row in own),
        "time_s": shifted_geometric_mean(row["seconds"] for row in own),
        "verify_s": shifted_geometric_mean(row["verify_seconds"] for row in own),
        "largest_gap": max(gaps, default=None),
        "peak_mb": max(row["peak_mb"] for row in own),
    }
    ratios = [answers[name][0] for answers in questions if name in answers]
    if ratios:
        above = [ratio - 1.0 for ratio in ratios if math.isfinite(ratio)]
        told["compared"] = {
            "num": len(ratios),
            "best": sum(ratio <= 1.0 + _AS_GOOD for ratio in ratios) / len(ratios),
            "mean_above": float(np.mean(above)) if above else None,
            "most_above": max(above, default=None),
        }
    return told


def _profile(name: str, questions: Sequence[Mapping[str, tuple[float, float]]]) -> dict[str, list[float]]:
    """Return the profiles of a solver, over the questions that it was asked together with others."""
    own = [answers for answers in questions if name in answers]
    ratios = np.array([answers[name][0] for answers in own])
    slower = []
    for answers in own:
        distance, seconds = answers[name]
        quickest = min((s for d, s in answers.values() if d <= 1.0 + _AS_GOOD), default=math.inf)
        slower.append(seconds / quickest if distance <= 1.0 + _AS_GOOD else math.inf)
    times = np.array(slower)
    return {
        "objective": [float(np.mean(ratios <= factor * (1.0 + _AS_GOOD))) for factor in OBJECTIVE_FACTORS],
        "time": [float(np.mean(times <= factor)) for factor in TIME_FACTORS],
    }


def _gather_growth(rows: Sequence[Row]) -> dict[str, list[tuple[float, float]]]:
    """Return by what grows the factors or sizes with the times, in order."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        extra = row["extra"]
        if "grows" in extra:
            kind = f"{extra['grows']}, {extra['kind']}" if "kind" in extra else extra["grows"]
            found.setdefault(kind, []).append((extra.get("factor", extra.get("size")), row["seconds"]))
    return {name: sorted(points) for name, points in found.items()}


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
        document["best_known"] = summarise(done[BEST_KNOWN]["rows"])
    return document


def _run_timed(name: str, *, quick: bool, full: bool, proofs: Path | None) -> dict[str, Any]:
    start = time.perf_counter()
    rows = run_suite(name, quick=quick, full=full, proofs=proofs if name == BEST_KNOWN else None)
    return {"machine": describe_machine(), "seconds": time.perf_counter() - start, "rows": rows}
