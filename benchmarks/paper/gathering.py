"""Everything that the page shows, gathered: what answers most comes first, what takes longest last."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from suites.sweeps import describe_machine, describe_versions

from optplan.lab.cluster.policies.pollux import Knowledge
from optplan.lab.cluster.profiled_jobs import Batch
from paper.experiments import Experiments, replay_sia_tables
from paper.running import Curves, Runner
from paper.setting import Trace, measure_variation, read_rows

#: GPUs of the figures over time: 55 in figure 5, 112 in figure 7 (sections 6.2, 6.4); of figure 9, 120.
FIGURE5_GPUS, FIGURE7_GPUS, FIGURE9_GPUS = 55.0, 112.0, 120.0
#: Budgets of predictions.
_PREDICTED = 4


@dataclass
class Gathered:
    """What the page is made of; see :class:`~paper.experiments.Experiments`."""

    date: str
    machine: str
    versions: str
    seconds: float
    quick: bool
    max_width: int
    cells: int
    left: int
    taken: dict[str, tuple[int, float]]
    traces: dict[str, dict[str, Any]]
    few: Curves
    filtered: Curves
    newtrace: Curves
    spans_h: dict[str, float]
    elsewhere: dict[str, Curves]
    information: Curves
    learning: Curves
    agents: Curves
    arrivals: list[dict[str, Any]]
    predictions: list[dict[str, Any]]
    sia: list[dict[str, Any]]
    watched_few: dict[str, dict[str, Any]]
    watched: dict[str, dict[str, Any]]


def gather_all(runner: Runner) -> Gathered:
    """Run everything that is not there yet, and gather it."""
    begun = time.perf_counter()
    setting, experiments = runner.setting, Experiments(runner)
    scope, quick = setting.scope, setting.scope.jobs is not None
    newtrace, filtered, few = setting.newtrace(), setting.filtertrace(), setting.few_jobs()
    at_few, at_new, at_bursts = (
        (scope.few_gpus[1], scope.budgets_gpus[1], scope.budgets_gpus[1])
        if quick
        else (FIGURE5_GPUS, FIGURE7_GPUS, FIGURE9_GPUS)
    )
    # A cluster of the 85 jobs is as much smaller as their budgets are.
    few_nodes = sorted({max(1, round(gpus / 4)) for gpus in scope.few_gpus[::3]})
    filtered_nodes = [max(1, nodes * 3 // 4) for nodes in scope.nodes]
    on_few = experiments.compare_policies(few, scope.few_gpus) | experiments.compare_pollux(
        few, few_nodes, scope.targets
    )
    on_new = experiments.compare_policies(newtrace, scope.budgets_gpus)
    on_new |= experiments.compare_pollux(newtrace, scope.nodes, scope.targets)
    on_filtered = experiments.compare_policies(filtered, scope.filtered_gpus)
    on_filtered |= experiments.compare_pollux(filtered, filtered_nodes, scope.targets)
    watched_few = experiments.watch_policies(few, at_few, on_few)
    watched = experiments.watch_policies(newtrace, at_new, on_new)
    information = experiments.compare_information(newtrace, scope.budgets_gpus)
    others = [setting.newtrace(number) for number in range(2, 2 + scope.others)]
    step = max(1, len(scope.budgets_gpus) // _PREDICTED)
    predictions = experiments.predict(newtrace, [newtrace, *others], scope.budgets_gpus[::step])
    sia = replay_sia_tables(setting)
    elsewhere = experiments.replay_elsewhere()
    arrivals = experiments.vary_arrivals(newtrace, at_bursts, on_new)
    learning = experiments.compare_pollux(
        newtrace, scope.learning_nodes, scope.learning_targets, knowledge=Knowledge.LEARNED
    )
    agents = experiments.follow_agents(newtrace, scope.learning_nodes)
    on_new |= experiments.compute_again(newtrace, scope.online_gpus)
    on_few |= experiments.share_equally(few, few_nodes) | experiments.search_as_published(few, few_nodes[-2:][0])
    on_filtered |= experiments.share_equally(filtered, filtered_nodes)
    on_new |= experiments.share_equally(newtrace, scope.nodes)
    return Gathered(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        machine=describe_machine(),
        versions=describe_versions(),
        seconds=time.perf_counter() - begun,
        quick=quick,
        max_width=scope.max_width,
        cells=len(runner.done),
        left=runner.left,
        taken=add_up(runner.done.values()),
        traces={trace.name: _describe(trace) for trace in (newtrace, *others, filtered, few)},
        few=on_few,
        filtered=on_filtered,
        newtrace=on_new,
        spans_h={"few": few.span_h, "filtered": filtered.span_h, "newtrace": newtrace.span_h},
        elsewhere=elsewhere,
        information=information,
        learning=learning,
        agents=agents,
        arrivals=arrivals,
        predictions=predictions,
        sia=sia,
        watched_few=watched_few,
        watched=watched,
    )


def add_up(cells: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, float]]:
    """Return how many cells each policy has, and their seconds of processor time, without its numbers."""
    taken: dict[str, tuple[int, float]] = {}
    for told in cells:
        name = told["policy"].partition(":")[0]
        if told.get("knowledge", Knowledge.TRUTH) != Knowledge.TRUTH:  # cells of before there was a choice do not say
            name += f", speeds {told['knowledge']}"
        if told.get("batch") == Batch.LEARNED:
            name += ", batches learned"
        count, seconds = taken.get(name, (0, 0.0))
        taken[name] = count + 1, seconds + told["cpu_s"]
    return taken


def _describe(trace: Trace) -> dict[str, Any]:
    rows = read_rows(trace.path)
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["application"]] = counts.get(row["application"], 0) + 1
    return {
        "jobs": len(rows),
        "span_h": trace.span_h,
        "variation": measure_variation(trace),
        "applications": dict(sorted(counts.items())),
    }
