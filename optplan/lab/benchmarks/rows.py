"""Benchmark rows, how they are measured, and what there is to measure."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from optplan.contracts import Instance, Result, Sense, Solution
from optplan.progress import Event, Listener
from optplan.schema import FrozenModel
from optplan.solving import solve
from optplan.verification import verify


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement: an instance with its limit, the wall time of its solve, and the most memory during it."""

    # Among ``extra`` are ``sense`` where more of the objective is better, and ``objective_unit`` where it is another
    # one.

    instance: str
    solver: str
    status: str
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    bound_proof: str = "none"
    seconds: float
    verify_seconds: float | None = None
    peak_mb: float
    extra: dict[str, float | str] = field(default_factory=dict)
    certificate_kb: float | None = None


def measure(rows: Iterator[Row], on_event: Listener | None = None) -> list[dict[str, object]]:
    """Measure rows one by one; return them as plain data."""
    start = time.perf_counter()
    measured = []
    gc.freeze()  # what is there already is not searched for garbage before every row
    try:
        for row in rows:
            measured.append(asdict(row))
            if on_event is not None:
                on_event(Event(f"{row.instance} {row.solver}", time.perf_counter() - start, row.objective, row.bound))
    finally:
        gc.unfreeze()
    return measured


def measure_solve(
    instance: Instance,
    label: str,
    solver: str,
    *,
    time_limit_s: float | None = None,
    extra: dict[str, float | str] | None = None,
    measures: Collection[str] = (),
) -> Row:
    """Solve and verify an instance and return the row; which of a solution's measures it has too can be asked for."""
    row, result = solve_and_verify(instance, label, solver=solver, gap=1e-6, time_limit_s=time_limit_s)
    row.extra.update(result.counters)
    if instance.sense is not Sense.MINIMISE:
        row.extra["sense"] = instance.sense.value
    row.extra.update(extra or {})
    row.extra.update({name: result.measures[name] for name in measures if name in result.measures})
    return row


def solve_and_verify(instance: Instance, label: str, **asked: Any) -> tuple[Row, Result[Solution]]:  # noqa: ANN401
    """Solve an instance as asked and verify the result; the row has nothing ``extra`` yet."""
    reset_peak()
    result = solve(instance, check=False, **asked)
    peak = peak_mb()
    verification = verify(instance, result)
    verification.require()
    row = Row(
        instance=label,
        solver=result.solver,
        status=result.status.value,
        objective=result.objective,
        bound=result.bound,
        gap=result.gap,
        bound_proof=result.bound_proof.value,
        seconds=result.solve_seconds,
        verify_seconds=verification.seconds,
        peak_mb=peak,
        certificate_kb=certificate_kb(result),
    )
    return row, result


def certificate_kb(result: Result[Solution]) -> float | None:
    """Return the size of everything in a result that proves something, as it is written to a file, in kB."""
    stated: list[FrozenModel] = list(result.certificates)
    if result.infeasibility is not None:
        stated.append(result.infeasibility)
    return sum(len(json.dumps(one.to_json_data())) for one in stated) / 1000.0 if stated else None


def reset_peak() -> None:
    """Forget the largest memory so far, where the system can (Linux); elsewhere peaks only grow over a run."""
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mb() -> float:
    """Return the largest resident memory since :func:`reset_peak`, in MB."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) / 1024.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024.0 * 1024.0 if sys.platform == "darwin" else 1024.0)
