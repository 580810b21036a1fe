"""What it takes to calculate widths again when rates have moved, and to take in what is measured meanwhile."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from optplan.contracts.result import Result, Status
from optplan.execution.online.events import Measurement
from optplan.execution.serving.publisher import Publisher, Reply
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.instances.files import read_instance
from optplan.lab.benchmarks.rows import Row, make_goal_row, reset_peak
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
    row = make_goal_row(
        f"{_INSTANCE}@{_BUDGET}, rates moved by 5 %",
        how,
        seconds,
        None if near is None else RESOLVE_GOAL_S,
        {"least_s": min(took_s), "most_s": max(took_s), "passes": result.counters["passes"]},
        objective=result.objective,
        bound=result.bound,
        gap=result.gap,
        bound_proof=result.bound_proof.value,
    )
    return row if near is None or proven else replace(row, status="missed")


def _measure_intake(known: BoaInstance) -> Row:
    """Tell of measurements in small parts, as jobs do, until all are on the disk; widths are calculated meanwhile."""
    names = list(known.classes)
    events = [
        Measurement(id=f"m{number}", job_class=names[number % len(names)], gpus=1 + number % 16, speed=1.0 + number % 7)
        for number in range(_MEASUREMENTS)
    ]
    reset_peak()
    with TemporaryDirectory() as folder:
        publisher = Publisher(Path(folder, "state"), known)
        publisher.start()
        begun, begun_processor = time.perf_counter(), time.process_time()
        told = [
            publisher.tell(events[start : start + _TOLD_AT_ONCE]) for start in range(0, _MEASUREMENTS, _TOLD_AT_ONCE)
        ]
        outcomes = [outcome for future in told for outcome in future.result()]
        seconds, processor_s = time.perf_counter() - begun, time.process_time() - begun_processor
        publisher.stop()
        lost = _MEASUREMENTS - sum(outcome.answer is Reply.TAKEN for outcome in outcomes)
        lost = max(lost, _MEASUREMENTS - publisher.view.events)
    extra = {"lost": float(lost), "processor_s": processor_s, "transactions": float(publisher.view.batches)}
    row = make_goal_row(f"{_MEASUREMENTS:,} measurements", "taken in", seconds, INTAKE_GOAL_S, extra)
    return replace(row, status="missed") if lost else row
