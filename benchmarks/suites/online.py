"""The suite of decisions that follow reality: what a decision takes, and what widths that follow the jobs are worth.

A row's ``seconds`` is what is measured, in processor time but for what is taken in, ``goal_s`` in ``extra`` what it
should be at most, and ``status`` whether it is: ``met`` or ``missed``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from optplan.contracts.result import Result, Status
from optplan.execution.online.decisions import Allocator, decide
from optplan.execution.online.jobs import ActiveJob, Rules
from optplan.execution.online.messages import Measurement
from optplan.execution.online.width_table import WidthTable
from optplan.execution.serving.publisher import Publisher, Reply
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.planning import BoaPlan, build_plan
from optplan.instances.files import read_instance
from optplan.lab.benchmarks.best_known import Row, reset_peak
from optplan.lab.cluster.jobs import Job, SchedulingPolicy
from optplan.lab.cluster.policies.boa import BoaOnline, BudgetHeld, follow_plan
from optplan.lab.cluster.replaying import replay
from optplan.lab.cluster.traced_jobs import tabulate_class
from optplan.solving import frontier, solve
from optplan.units import SECONDS_PER_HOUR, Amount, BudgetUnit
from suites.rows import make_goal_row

#: Seconds that things should take at most.
DECISION_GOAL_S, PLACEMENT_GOAL_S = 0.010, 0.050
_JOBS, _NODES, _GPUS = 10_000, 6_000, 8
_NARROW_GPUS = 80.0
_PLACED, _PLACED_NODES = 1_000, 500
_TRACE, _BUDGET_GPUS = "boa-newtrace", 120.0
#: Hours that are replayed.
_HOURS = 48
_SEED = 1


def run(*, quick: bool, full: bool) -> Iterator[Row]:
    """Measure every row of the suite.

    Quick repeats less and replays less; full makes no difference.
    """
    del full
    # Just above the least budget, so that jobs are narrow and many.
    plan = _plan(read_instance(_TRACE, BoaInstance).replace(budget=Amount(_NARROW_GPUS, BudgetUnit.GPU)))
    yield from _measure_decisions(plan, 3 if quick else 15)
    yield from measure_widths(quick=quick)
    yield from _measure_drift(_HOURS // 6 if quick else _HOURS)


# -------------------------------------------------------------------------------------------------------- decisions


def _measure_decisions(plan: BoaPlan, times: int) -> Iterator[Row]:
    """Measure decisions about many jobs of which few change, the same from nothing, and placing new jobs."""
    table = WidthTable.from_plan(plan)
    rules, random = Rules({table.gpu_types[0]: _GPUS}), np.random.default_rng(_SEED)
    jobs, nodes = _draw_jobs(table, _JOBS, random), _make_nodes(table, _NODES)
    places = decide(table, jobs, nodes, rules).places
    held = [replace(job, place=places[job.name]) for job in jobs]
    allocator = Allocator(table, rules)
    for number, (name, gpu_type) in enumerate(nodes.items()):
        allocator.add_node(name, gpu_type, number)
    for job in held:
        allocator.put(job)
    name = f"{_JOBS:,} jobs on {_NODES:,} nodes"
    for number in (1, _JOBS // 100):
        left = held[:number]
        ended, come = [job.name for job in left], [replace(job, place={}) for job in left]
        what = f"decision, {number} left and {number} came"
        yield _measure(name, what, DECISION_GOAL_S, times, partial(_replace, allocator, ended, come))
    yield _measure(name, "decision from nothing", None, times, lambda: _serve(table, held, nodes, rules))
    fresh, few = _draw_jobs(table, _PLACED, random), _make_nodes(table, _PLACED_NODES)
    name = f"{_PLACED:,} jobs on {_PLACED_NODES:,} nodes"
    yield _measure(name, "placement", PLACEMENT_GOAL_S, times, lambda: _serve(table, fresh, few, rules))


def _serve(table: WidthTable, jobs: Sequence[ActiveJob], nodes: Mapping[str, str], rules: Rules) -> int:
    """Decide from nothing, and return how many hold something."""
    decision = decide(table, jobs, nodes, rules)
    return len(decision.places) - len(decision.waiting)


def _replace(allocator: Allocator, ended: Sequence[str], come: Sequence[ActiveJob]) -> int:
    """Let jobs end and others come, decide, start them, and return how many hold something."""
    for name in ended:
        allocator.drop(name)
    for job in come:
        allocator.put(job)
    places = allocator.decide().places
    for job in come:
        allocator.put(replace(job, place=places[job.name]))
    return sum(map(bool, places.values()))


def _draw_jobs(table: WidthTable, count: int, random: np.random.Generator) -> list[ActiveJob]:
    names = list(table.classes)
    classes, epochs = random.integers(len(names), size=count).tolist(), random.integers(60, size=count).tolist()
    return [
        ActiveJob(f"job-{number:05d}", names[which], epoch, submitted_s=float(number))
        for number, (which, epoch) in enumerate(zip(classes, epochs, strict=True))
    ]


def _make_nodes(table: WidthTable, count: int) -> dict[str, str]:
    return {f"node-{number:05d}": table.gpu_types[0] for number in range(count)}


def _measure(what: str, where: str, goal_s: float | None, times: int, act: Callable[[], int]) -> Row:
    """Repeat a decision and take the median."""
    reset_peak()
    took_s = []
    for _ in range(times):
        begun = time.process_time()
        served = act()
        took_s.append(time.process_time() - begun)
    extra = {"most_s": max(took_s), "served": float(served)}
    return make_goal_row(what, where, float(np.median(took_s)), goal_s, extra)


# ------------------------------------------------------------------------------------------------------------- drift


def _measure_drift(hours: int) -> Iterator[Row]:
    """Replay a stream with other rates than the plan was made for: with that plan, online, and with the right one.

    Who uses more than the budget is quicker for it: ``behind_clairvoyant`` compares with what somebody who knew the
    rates would have got for the same GPUs.
    """
    known = read_instance(_TRACE, BoaInstance).replace(budget=Amount(_BUDGET_GPUS, BudgetUnit.GPU))
    actual = _change_rates(known)
    line = frontier(actual)
    policies: dict[str, Callable[[], SchedulingPolicy]] = {
        "clairvoyant table": lambda: follow_plan(_plan(actual)),
        "stale table": lambda: follow_plan(_plan(known)),
        "BOA online": lambda: BoaOnline(known),
        "budget held": lambda: BudgetHeld(known),
    }
    for name, make in policies.items():
        reset_peak()
        begun = time.process_time()
        outcome = replay(_draw_stream(actual, hours), make(), gpus_per_node=4)
        seconds = time.process_time() - begun
        gpus = outcome.gpu_hours / hours  # of arrivals: what the budget limits, whatever is left to do at the end
        mean_s = float(outcome.jct_s.mean())
        extra = {"gpus": gpus, "budget_gpus": _BUDGET_GPUS, "jobs": float(len(outcome.jobs))}
        if line.budgets[0] <= gpus <= line.budgets[-1]:
            extra["behind_clairvoyant"] = mean_s / line.at(gpus).objective - 1.0
        what = f"{_TRACE}, other rates, {hours} h"
        yield make_goal_row(what, name, seconds, None, extra, objective=mean_s)


def _plan(instance: BoaInstance) -> BoaPlan:
    if instance.budget is None:
        instance = instance.replace(budget=Amount(_BUDGET_GPUS, BudgetUnit.GPU))
    return build_plan(instance, solve(instance))


def _change_rates(instance: BoaInstance) -> BoaInstance:
    """Double the rate of every other class and halve the others', then scale all to the same load."""
    loads = {name: one.arrival_rate_per_hour * one.size_gpu_hours for name, one in instance.classes.items()}
    ordered = sorted(loads, key=lambda name: loads[name])
    factors = {name: 2.0 if place % 2 else 0.5 for place, name in enumerate(ordered)}
    scale = sum(loads.values()) / sum(loads[name] * factor for name, factor in factors.items())
    classes = {
        name: one.replace(arrival_rate_per_hour=one.arrival_rate_per_hour * factors[name] * scale)
        for name, one in instance.classes.items()
    }
    return instance.replace(classes=classes)


def _draw_stream(instance: BoaInstance, hours: int) -> list[Job]:
    """Draw arrivals of all classes, as many as are expected of each: by chance there would be more or less work."""
    random, jobs = np.random.default_rng(_SEED), []
    for name, job_class in instance.classes.items():
        truth = tabulate_class(instance, name, instance.only_gpu_type)
        count = round(job_class.arrival_rate_per_hour * hours)
        for number, at_s in enumerate(np.sort(random.uniform(0.0, hours * SECONDS_PER_HOUR, count)).tolist()):
            jobs.append(Job(f"{name}-{number}", name, at_s, truth))
    return jobs


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
