"""What it takes to calculate widths again when rates have moved, and to take in what is measured meanwhile."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from optplan.benchmarking.rows import Row, peak_mb, reset_peak
from optplan.contracts.result import Result, Status
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.instances.files import read_instance
from optplan.online.events import Measurement
from optplan.runtime.serving.keeping import Answer, Keeper
from optplan.solving import solve

#: Seconds that things should take at most.
RESOLVE_GOAL_S, INTAKE_GOAL_S = 0.020, 1.0
_INSTANCE, _BUDGET = "boa-newtrace", "120gpu"
#: By which factors all rates move.
_MOVES = (1.05, 0.95)
_MEASUREMENTS, _TOLD_AT_ONCE = 1000, 10


def measure_widths(*, quick: bool) -> Iterator[Row]:
    """Yield the rows: solving again, from nothing and from the result before, and taking measurements in."""
    known = read_instance(_INSTANCE, BoaInstance).replace(budget=_BUDGET)
    before = solve(known)
    times = 5 if quick else 25
    yield _measure_solves("from nothing", known, None, times)
    yield _measure_solves("from the result before", known, before, times)
    yield _measure_intake(known)


def _measure_solves(how: str, known: BoaInstance, near: Result[BoaSolution] | None, times: int) -> Row:
    """Solve for moved rates over and over, each time an instance that nothing is derived of yet; in processor time."""
    reset_peak()
    took_s, proven = [], True
    for number in range(times):
        factor = _MOVES[number % len(_MOVES)]
        moved = known.replace(
            classes={
                name: each.replace(arrival_rate_per_hour=factor * each.arrival_rate_per_hour)
                for name, each in known.classes.items()
            }
        )
        begun = time.process_time()
        result = solve(moved, near=near, check=False)
        took_s.append(time.process_time() - begun)
        proven = proven and result.status is Status.OPTIMAL
    seconds = statistics.median(took_s)
    goal: dict[str, float | str] = {} if near is None else {"goal_s": RESOLVE_GOAL_S}
    status = "measured" if near is None else "met" if seconds <= RESOLVE_GOAL_S and proven else "missed"
    return Row(
        instance=f"{_INSTANCE}@{_BUDGET}, rates moved by 5 %",
        solver=how,
        status=status,
        objective=result.objective,
        bound=result.bound,
        gap=result.gap,
        bound_proof=result.bound_proof.value,
        seconds=seconds,
        peak_mb=peak_mb(),
        extra={**goal, "least_s": min(took_s), "most_s": max(took_s), "passes": result.counters["passes"]},
    )


def _measure_intake(known: BoaInstance) -> Row:
    """Tell of measurements in small parts, as jobs do, until all are on the disk; widths are calculated meanwhile."""
    names = list(known.classes)
    events = [
        Measurement(id=f"m{number}", job_class=names[number % len(names)], gpus=1 + number % 16, speed=1.0 + number % 7)
        for number in range(_MEASUREMENTS)
    ]
    reset_peak()
    with TemporaryDirectory() as folder:
        keeper = Keeper(Path(folder, "state"), known)
        keeper.start()
        begun, begun_processor = time.perf_counter(), time.process_time()
        told = [keeper.tell(events[start : start + _TOLD_AT_ONCE]) for start in range(0, _MEASUREMENTS, _TOLD_AT_ONCE)]
        outcomes = [outcome for future in told for outcome in future.result()]
        seconds, processor_s = time.perf_counter() - begun, time.process_time() - begun_processor
        keeper.stop()
        lost = _MEASUREMENTS - sum(outcome.answer is Answer.TAKEN for outcome in outcomes)
        lost = max(lost, _MEASUREMENTS - keeper.view.events)
    extra: dict[str, float | str] = {
        "goal_s": INTAKE_GOAL_S,
        "lost": float(lost),
        "processor_s": processor_s,
        "transactions": float(keeper.view.batches),
    }
    status = "met" if seconds <= INTAKE_GOAL_S and not lost else "missed"
    what = f"{_MEASUREMENTS:,} measurements"
    return Row(instance=what, solver="taken in", status=status, seconds=seconds, peak_mb=peak_mb(), extra=extra)
