"""Benchmark rows, how they are measured, and the list of suites."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from optplan.contracts import Instance, Result, Sense, Solution
from optplan.contracts.registry import Formulation
from optplan.errors import UsageError, nearest_name_hint
from optplan.formulations import formulation_named, formulations
from optplan.progress import Event
from optplan.schema import FrozenModel
from optplan.solving import solve
from optplan.verification import verify

#: The suite that checks the library's manifest.
BEST_KNOWN = "best-known"
#: Suite by name: the module that has ``run(quick, full) -> Iterator[Row]``, each row as soon as it is measured.
_SUITES = {
    "audit": "optplan.lab.benchmarks.audits",
    BEST_KNOWN: "optplan.lab.benchmarks.best_known",
    "boa": "optplan.lab.benchmarks.boa",
    "boa-types": "optplan.lab.benchmarks.boa_types",
    "online": "optplan.lab.benchmarks.online",
    "rubberband": "optplan.lab.benchmarks.rubberband",
    "runtime": "optplan.lab.benchmarks.runtime",
    "seer": "optplan.lab.benchmarks.seer",
    "sizes": "optplan.lab.benchmarks.sizes",
    "srift": "optplan.lab.benchmarks.srift",
}

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement.

    ``instance`` is a name with its limit, such as ``boa-newtrace@120``; ``published`` in ``solver`` marks a heuristic
    as its paper prints it. ``seconds`` is the wall time of the solve, without reading; ``peak_mb`` the largest resident
    memory during it. Among ``extra`` are ``sense`` where more of the objective is better, and ``objective_unit`` where
    it is another one than that of other rows with this instance. Certificates are counted as JSON, in kB.
    """

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


def suites() -> list[str]:
    """List the names of the suites: the own ones, and formulations that name instances to be measured on."""
    own = (name for name, formulation in formulations().items() if formulation.declares("bench_instances"))
    return list(dict.fromkeys([*_SUITES, *own]))


def run_suite(
    name: str,
    *,
    quick: bool = False,
    full: bool = False,
    proofs: Path | None = None,
    on_event: Callable[[Event], None] | None = None,
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
    rows: Iterator[Row]
    if name in _SUITES:
        wanted = {} if proofs is None else {"proofs": proofs}
        rows = import_module(_SUITES[name]).run(quick=quick, full=full, **wanted)
    else:
        rows = _run_every_solver(formulation_named(name), quick=quick)
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


def _run_every_solver(formulation: Formulation, *, quick: bool) -> Iterator[Row]:
    """Measure every solver of a formulation on each of its instances that it takes."""
    for instance in formulation.bench_instances(quick=quick):
        asked = formulation.describe(instance)
        for entry in formulation.solvers:
            if entry.refusal(instance, asked) is None:
                yield measure_solve(instance, instance.name, entry.name)


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
