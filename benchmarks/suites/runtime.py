"""The suite of the runtime: what following plans takes besides training.

A row's ``seconds`` is what is measured, ``goal_s`` in ``extra`` what it should be at most, and ``status`` whether it
is: ``met`` or ``missed``.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from optplan.contracts import Plan, Result
from optplan.execution.driver import Driver
from optplan.execution.journal import Beginning, Journal
from optplan.execution.options import SearchOptions
from optplan.execution.protocol import Event
from optplan.execution.records import (
    Began,
    Checkpoint,
    OperationEnded,
    OperationStarted,
    OperationWanted,
    Progressed,
    Record,
    SegmentEnded,
)
from optplan.execution.running import SearchRun
from optplan.execution.running import run as run_plan
from optplan.execution.scheduler import list_trials
from optplan.execution.virtual import VirtualExecutor
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.laws.sampling import Queue, sample_plan
from optplan.instances.files import read_instance
from optplan.lab.benchmarks.best_known import Row, reset_peak
from optplan.solving import build_plan, solve
from suites.rows import make_goal_row, timed

#: Seconds that things should take at most.
ROUND_GOAL_S, SEARCH_GOAL_S, JOURNAL_GOAL_S = 1e-3, 1.0, 0.01
#: The large search of the library, of 512 trials.
_SEARCH = "rubberband-resnet50-512"
_TRAINABLE = f"{Path(__file__).with_name('idle_trainable.py')}:Idle"
#: Where stage changes are measured.
_WORKERS = {"local": "local workers", "ray": "actors of Ray"}
#: Far beyond what any plan here takes: limits are watched, and never met.
_WATCHED = SearchOptions(budget_usd=1e9, deadline_s=1e9, replan_above=None)
_TRIALS, _DECISIONS = 1000, 200
#: How many trials at once, and the GPUs of each, on nodes of 4.
_ROUNDS = ((_TRIALS, 4), (_TRIALS, 1), (_TRIALS // 10, 1))


def run(*, quick: bool, full: bool) -> Iterator[Row]:
    """Measure every row of the suite.

    Quick takes one size and fewer repetitions; full takes more of them, and Ray where it is installed.
    """
    for at_once, gpus in _ROUNDS[:1] if quick else _ROUNDS:
        yield _measure_rounds(at_once, gpus)
    yield _measure_search()
    yield _measure_journal(_DECISIONS // 10 if quick else _DECISIONS)
    if find_spec("psutil") is not None:  # the extra `run`
        yield _measure_changes("local", 1 if quick else 20 if full else 5)
    if full and find_spec("ray") is not None:  # a cluster of its own for each run
        yield _measure_changes("ray", 3)


def _measure_rounds(at_once: int, gpus: int) -> Row:
    """Measure what the loop does each time that a trial ends: 1,000 trials, so many at a time, limits watched."""
    plan, _ = plan_search(_TRIALS, at_once, gpus)
    watched, executor = SearchRun(plan, _WATCHED), _Watched(plan, SearchOptions(lucky=True))
    watched.state.apply(Began(0.0, {name: {} for name in list_trials(plan)}))
    reset_peak()
    Driver(watched, executor).follow()
    mean_s = executor.loop_s / executor.rounds
    nodes = float(plan.segments[0].nodes)
    extra = {"at_once": float(at_once), "nodes": nodes, "rounds": float(executor.rounds)}
    return make_goal_row("1,000 trials", "the loop, a round", mean_s, ROUND_GOAL_S, extra | {"most_s": executor.most_s})


class _Watched(VirtualExecutor):
    """Counts what the loop takes between two questions for what has happened, in processor time."""

    loop_s = most_s = 0.0
    rounds = 0
    _since_s: float | None = None

    def poll(self, until_s: float) -> list[Event]:
        """Ask, and look at the clock before and after."""
        if self._since_s is not None:
            took_s = time.process_time() - self._since_s
            self.loop_s, self.most_s = self.loop_s + took_s, max(self.most_s, took_s)
            self.rounds += 1
        events = super().poll(until_s)
        self._since_s = time.process_time()
        return events


def _measure_search() -> Row:
    """Follow 512 trials on the virtual clock where nothing varies, and compare with the judge and the simulator."""
    example = read_instance(_SEARCH, RubberBandInstance)
    instance = example.replace(training=example.training.replace(iteration_noise=None, trial_noise=None))
    result = solve(instance, gap=1e-2)
    if not isinstance(result.solution, RubberBandSolution):
        raise TypeError(f"{_SEARCH} has no plan: {result.status}")
    plan: Plan = build_plan(instance, result)
    run_plan(plan)  # loads every module
    outcome, seconds, _ = timed(partial(run_plan, plan))
    simulated = sample_plan(instance, result.solution, samples=1, queue=Queue.DYNAMIC)
    cost = outcome.cost_usd or 0.0
    extra = {
        "trials": float(outcome.trials),
        "above_evaluator_usd": cost - (result.objective or 0.0),
        "above_simulator_usd": cost - float(simulated.cost_usd[0]),
    }
    return make_goal_row("512 trials", "virtual clock", seconds, SEARCH_GOAL_S, extra, objective=cost)


def _measure_journal(decisions: int) -> Row:
    """Write what one trial's segment of one iteration writes: two transactions, for a step of one second."""
    wanted = OperationWanted(0.0, "abcdef01.b1-s1.b1-s1-trials-0001.1", "b1-s1", "b1-s1-trials-0001", 1, {"node-1": 1})
    started = OperationStarted(0.0, wanted.operation)
    checkpoint = Checkpoint("trials/b1-s1-trials-0001/checkpoint-000001-001", "0" * 64)
    timings = {"start_s": 0.1, "load_s": 0.1, "save_s": 0.1, "steps": 1.0, "step_s": 1.0}
    ended = OperationEnded(1.0, wanted.operation, 1, {"loss": 0.5}, checkpoint, 1.0, True, timings)
    reset_peak()
    with TemporaryDirectory() as folder:
        journal = Journal(Path(folder, "run"))
        journal.begin(Beginning("search", {}, {}, {}), [Began(0.0, {})])
        took_s, disk_s = [], []
        with Path(folder, "plain").open("ab") as plain:
            for _ in range(decisions):
                begun = time.perf_counter()
                journal.commit([wanted])
                journal.commit([started, ended])
                took_s.append(time.perf_counter() - begun)
                disk_s.append(_time_disk(plain))
        journal.close()
    seconds = statistics.median(took_s)
    extra = {"transactions": 2.0, "share_of_step": seconds, "disk_s": 2.0 * statistics.median(disk_s)}
    return make_goal_row("a step of 1 s", "the journal", seconds, JOURNAL_GOAL_S, extra)


def _time_disk(file: BinaryIO) -> float:
    """Return what the disk takes to store a page for good: the journal cannot be quicker."""
    begun = time.perf_counter()
    file.write(bytes(4096))
    file.flush()
    os.fsync(file.fileno())
    return time.perf_counter() - begun


def _measure_changes(executor: str, runs: int) -> Row:
    """Measure the pause between two stages: from the end of the last trial to the next one's first iteration."""
    plan, _ = plan_search(2, 2)
    pauses, loops = [], []
    reset_peak()
    for _ in range(runs):
        told: list[Record] = []
        with TemporaryDirectory() as folder:
            run_plan(plan, _TRAINABLE, executor=executor, out=Path(folder, "run"), listener=told.append)
        ends = [record.t for record in told if isinstance(record, SegmentEnded)][:-1]
        for end_s in ends:
            started = min(one.t for one in told if isinstance(one, OperationStarted) and one.t > end_s)
            first = min(one.t for one in told if isinstance(one, Progressed) and one.t > started)
            pauses.append(first - end_s)
            loops.append(started - end_s)
    extra = {"changes": float(len(pauses)), "loop_s": statistics.median(loops), "most_s": max(pauses)}
    return make_goal_row("a stage change", _WORKERS[executor], statistics.median(pauses), None, extra)


def plan_search(trials: int, at_once: int, gpus: int = 1) -> tuple[Plan, Result[Any]]:
    """Plan a search on nodes of 4 GPUs, ``at_once`` trials side by side; a quarter of each stage goes on, or one."""
    counts = [trials]
    while counts[-1] > 1:
        counts.append(max(1, counts[-1] // 4))
    data = {
        "formulation": "rubberband",
        "name": f"search-of-{trials}",
        "experiment": {"form": "stages", "stages": [{"trials": count, "iterations": 4} for count in counts]},
        "training": {
            "seconds_per_iteration": {"1": 10.0, "2": 6.0, "4": 4.0},
            "trial_noise": {"form": "normal", "sd_fraction": 0.1},
            "least_gpus": gpus,
            "most_gpus": gpus,
        },
        "cloud": {"gpus_per_instance": 4, "price_usd_per_hour": 3.6, "most_instances": -(-at_once * gpus // 4)},
        "objective": "time",
        "budget": "1000000usd",
    }
    instance = RubberBandInstance.parse(data)
    result = solve(instance, gap=1e-2)
    return build_plan(instance, result), result
