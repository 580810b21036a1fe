"""What is measured for the claims of the paper on BOA: simulations, each kept in ``out/paper``; none runs twice.

Everywhere but where a part says otherwise nodes start in 120 s, in 20 s if they are rented again within the 5 minutes
until they are reclaimed, and decisions are made every 60 s. Each part has the paper's set-up, without Sia's slowdowns
(``off``), and that with them (``on``), and what each policy came to beside the least mean that is proven.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from suites.sweeps import count_processors

from claims import boa_sizes as sizes
from claims.boa_running import Runner, average_efficiency, keep, watch
from claims.boa_setting import (
    AUTOSCALED,
    EXACT,
    POLLUX,
    PUBLISHED,
    QUICK,
    SOLVERS,
    Setting,
    Trace,
    make_bursts,
    measure_variation,
    read_rows,
)
from claims.boa_setting import Scope as Size
from claims.described import SEARCH, replay_as_described
from claims.record import Part, Scope
from optplan.errors import DataWarning
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.lab.fields import Knowledge
from optplan.lab.sweeps import Cell, run
from optplan.lab.traces.sia import Timing
from optplan.progress import Event
from optplan.solving import solve

#: What the page calls BOA's ways to know a workload.
ELSEWHERE, LEARNING = "BOA, planned on another trace", "BOA, learning"
AT_ONCE = "BOA, deciding at once"
IMPERFECT, REPLANNED = "BOA on the fitted model", "BOA on the fitted model, again every 15 min"
LEARNED, DESCRIBED, LATE = f"{AUTOSCALED}, learning", f"{AUTOSCALED}, as described", f"{AUTOSCALED}, a round late"
#: Seconds until a new node can be used, and one that was given back and not reclaimed yet (5.4); and until a node is
#: reclaimed, which the paper does not tell.
START_S, WARM_S, RECLAIM_S = 120.0, 20.0, 300.0
_STARTS: dict[str, Any] = {"node_start_s": START_S, "world": {"warm_start_s": WARM_S, "reclaim_s": RECLAIM_S}}
FOLDER = Path("out/paper")
#: Policies whose simulation takes long enough to be worth a process of its own.
_SLOW = ("pollux", "boa-online")
#: GPUs of figures 5 and 11, and of figure 7 (sections 6.2, 6.4, appendix D).
FIGURE5_GPUS, FIGURE7_GPUS = 55.0, 112.0
#: Points of a line over time.
_SHOWN = 96


@dataclass
class Bench:
    """A set-up: with Sia's slowdowns or without, and a runner of its simulations."""

    slowdown: str
    quick: bool
    runner: Runner

    @classmethod
    def of(cls, scope: Scope, slowdown: str) -> Bench:
        """Make a set-up; ``slowdown`` is ``off`` or ``on``."""
        assert scope.data is not None  # every part names data
        folder = FOLDER / "quick" if scope.quick else FOLDER
        size = replace(QUICK, max_width=16) if scope.quick else Size()
        setting = Setting(scope.data, folder, size, slowdown == "on")
        return cls(slowdown, scope.quick, Runner(setting, on_event=_say))

    @property
    def setting(self) -> Setting:
        """Where everything is."""
        return self.runner.setting

    def pick(self, table: Mapping[Any, Sequence[Any]], key: object) -> Sequence[Any]:
        """Return what is set of a part; of the quick form its first two."""
        found = table.get(key, ())
        return found[:2] if self.quick else found

    def scale(self, gpus: Sequence[float]) -> Sequence[float]:
        """Return budgets; of the quick form those of a sub-trace."""
        return (6.0, 10.0) if self.quick else gpus

    def follow(
        self,
        planned_on: Trace,
        replayed: Trace,
        solver: str,
        gpus: Sequence[float],
        timing: Timing = Timing.TABLES,
        *,
        at_once: bool = False,
    ) -> dict[str, Cell]:
        """Return cells of plans that are followed in rounds, or at once, by budget, but those that no plan keeps."""
        plans = {f"{each:g}": self.setting.planner.plan(planned_on, solver, each, timing) for each in self.scale(gpus)}
        return {
            label: self.setting.cell(replayed, plan if at_once else f"autoscaled:{plan.path}", **_STARTS)
            for label, plan in plans.items()
            if plan is not None
        }

    def learn(self, known: Trace, replayed: Trace, gpus: Sequence[float], timing: Timing) -> dict[str, Cell]:
        """Return cells of BOA that calculates its widths again every 15 minutes from what ran, by budget."""
        paths = {f"{each:g}": self.setting.planner.write_instance(known, each, timing) for each in self.scale(gpus)}
        return {
            label: self.setting.cell(replayed, f"boa-online:{path}", **_STARTS)
            for label, path in (list(paths.items())[:1] if self.quick else paths.items())
        }

    def autoscale(self, trace: Trace, targets: Sequence[float], **told: object) -> dict[str, Cell]:
        """Return cells of Pollux that chooses its cluster, by target."""
        return {f"{c:g}": self.setting.cell(trace, f"pollux-autoscaled:{c:g}", **_STARTS, **told) for c in targets}

    def run(self, what: str, groups: Mapping[str, Mapping[str, Cell]]) -> dict[str, list[dict[str, Any]]]:
        """Run cells; returns the points of each policy."""
        cells = {(name, label): cell for name, cells in groups.items() for label, cell in cells.items()}
        slow = [
            cell for cell in cells.values() if cell.policy.startswith(_SLOW) and "workload-1-of-85" not in cell.workload
        ]
        if slow and not self.quick:  # begun at once, since to begin processes takes as long as most other cells
            run(slow, self.setting.cells_folder, count_processors())
        told = self.runner.run(what, cells)
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in groups}
        for name, label in cells:
            found[name].append(tell_point(label, told[name, label]))
        return {name: points for name, points in found.items() if points}


def tell_point(label: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a simulation: hours of GPUs, seconds, shares, and how many jobs were completed."""
    by_time, by_hours = average_efficiency(told)
    kept = {
        "held_h": told["gpu_hours"],
        "node_h": told["node_gpu_hours"],
        "billed_h": told["billed_gpu_hours"],
        "mean_s": told["mean_jct_s"],
        "p95_s": told["p95_jct_s"],
        "bound_s": told["least_mean_jct_s"],
        "queued_s": told["mean_queued_s"],
        "efficiency": by_time,
        "efficiency_by_hours": by_hours,
        "rescales": told["rescales_per_job"],
        "cpu_s": told["cpu_s"],
    }
    rounded = {name: None if value is None else float(f"{value:.5g}") for name, value in kept.items()}
    return {"label": label, "most_gpus": told["most_gpus"], "left": told["num_jobs"] - told["completed"], **rounded}


def measure_learned(scope: Scope) -> list[dict[str, Any]]:
    """Figures 6c and 8: autoscaling of which each job learns its speeds, on newTrace."""
    bench = Bench.of(scope, "off")
    cells = bench.autoscale(bench.setting.newtrace(), (sizes.LEARNED_TARGET,), knowledge=Knowledge.LEARNED)
    return bench.run("newtrace, speeds learned", {LEARNED: cells})[LEARNED]


def measure_learning(scope: Scope) -> list[dict[str, Any]]:
    """Figure 6c: BOA that learns, on newTrace."""
    bench = Bench.of(scope, "off")
    trace, other = bench.setting.newtrace(), bench.setting.newtrace(2)
    cells = bench.learn(other, trace, sizes.LEARNING_GPUS["off", "newtrace"], Timing.MODEL)
    return bench.run("newtrace, BOA learning", {LEARNING: cells})[LEARNING]


def _trace(setting: Setting, which: str, number: int = 1) -> Trace:
    return {"few": setting.few_jobs, "filtertrace": setting.filtertrace, "newtrace": setting.newtrace}[which](number)


def measure_curves(which: str, bench: Bench) -> dict[str, list[dict[str, Any]]]:
    """Figures 4 and 6: every policy on one trace."""
    setting, key = bench.setting, (bench.slowdown, which)
    trace, other = _trace(setting, which), _trace(setting, which, 2)
    gpus = sizes.BUDGETS[key]
    some = gpus if which == "few" else gpus[::2]  # of the others a simulation with its proof takes seconds
    fixed = {str(4 * n): setting.cell(trace, "pollux", nodes=n) for n in bench.pick(sizes.NODES, key)}
    groups = {
        EXACT: bench.follow(trace, trace, EXACT, gpus),
        PUBLISHED: bench.follow(trace, trace, PUBLISHED, some),
        ELSEWHERE: bench.follow(other, trace, EXACT, some),
        AT_ONCE: bench.follow(trace, trace, EXACT, some, at_once=True),
        AUTOSCALED: bench.autoscale(trace, bench.pick(sizes.TARGETS, key)),
        POLLUX: fixed,
    }
    if key in sizes.LEARNING_GPUS and which != "newtrace":
        groups[LEARNING] = bench.learn(other, trace, bench.pick(sizes.LEARNING_GPUS, key), Timing.MODEL)
    return bench.run(f"{which}, slowdowns {bench.slowdown}", groups)


def measure_traces(scope: Scope) -> dict[str, Any]:
    """Section 6.1 and table 1: how variable arrivals and sizes are, and who is there."""
    setting = Bench.of(scope, "off").setting
    newtrace = setting.newtrace()
    rows = read_rows(newtrace.path)
    instance = setting.planner.build(newtrace, 100.0)
    return {
        "variation": [measure_variation(setting.newtrace(number)) for number in range(1, 6)],
        "applications": {name: sum(row["application"] == name for row in rows) for name in sorted(instance.classes)},
        "jobs": len(rows),
        "filtered": len(read_rows(setting.filtertrace().path)),
        "few": len(read_rows(setting.few_jobs().path)),
        "size_gpu_h": {name: float(each.epoch_size_gpu_hours.sum()) for name, each in instance.classes.items()},
        "speedup": _list_speedups(instance, "cifar10", (1, 2, 4, 8, 16)),
    }


def _list_speedups(instance: BoaInstance, name: str, widths: Sequence[int]) -> dict[str, list[float]]:
    """Return the speedups of the first and the last epoch on some numbers of GPUs."""
    speedup = next(iter(instance.classes[name].speedup.values()))
    table = np.array(speedup.at(np.array(widths))).reshape(-1, len(widths))
    return {"gpus": [float(width) for width in widths], "first": table[0].tolist(), "last": table[-1].tolist()}


def measure_information(bench: Bench) -> dict[str, list[dict[str, Any]]]:
    """Figure 8: plans on the true speeds, on the model fitted to them, and that calculated again from what ran."""
    trace, gpus = bench.setting.newtrace(), sizes.BUDGETS[bench.slowdown, "newtrace"]
    groups = {
        EXACT: bench.follow(trace, trace, EXACT, gpus),
        IMPERFECT: bench.follow(trace, trace, EXACT, gpus[::2], Timing.MODEL),
        REPLANNED: bench.learn(trace, trace, sizes.AGAIN[bench.slowdown], Timing.MODEL),
    }
    return bench.run(f"figure 8, slowdowns {bench.slowdown}", groups)


def measure_bursts(bench: Bench) -> list[dict[str, Any]]:
    """Figure 9: the same jobs in bursts, autoscaling at about 120 GPUs, and BOA at budgets around."""
    trace, (target, variations, seeds) = bench.setting.newtrace(), sizes.BURSTS[bench.slowdown]
    found = []
    for variation, seed in itertools.product(variations, seeds[: 1 if bench.quick else None]):
        bursts = make_bursts(trace, variation, seed, bench.setting.folder / "traces")
        groups = {
            EXACT: bench.follow(trace, bursts, EXACT, sizes.BURST_BUDGETS[bench.slowdown]),
            AUTOSCALED: bench.autoscale(bursts, (target,)),
        }
        points: dict[str, Any] = bench.run(f"figure 9, slowdowns {bench.slowdown}", groups)
        measured = float(f"{measure_variation(bursts):.4g}")
        found.append({"variation": variation, "seed": seed, "measured": measured, "policies": points})
    return found


def measure_late(scope: Scope) -> list[dict[str, Any]]:
    """Figure 9's rival of which a size counts a round late."""
    bench = Bench.of(scope, "off")
    target, variations, (seed, *_) = sizes.BURSTS["off"]
    folder = bench.setting.folder / "traces"
    bursts = {variation: make_bursts(bench.setting.newtrace(), variation, seed, folder) for variation in variations}
    return [{"variation": variation, "point": _describe(bench, trace, target)} for variation, trace in bursts.items()]


def measure_described(scope: Scope) -> list[dict[str, Any]]:
    """Figure 4's rival as the paper describes it: NSGA-II finds divisions and sizes, and a size comes a round late."""
    bench = Bench.of(scope, "off")
    trace = bench.setting.few_jobs()
    return [_describe(bench, trace, 0.5 if scope.quick else 0.7, (4, 2) if scope.quick else SEARCH)]


def _describe(bench: Bench, trace: Trace, target: float, size: tuple[int, int] | None = None) -> dict[str, Any]:
    cell = bench.autoscale(trace, (target,))[f"{target:g}"]
    word = "late" if size is None else "searched-{}x{}".format(*size)
    path = bench.setting.folder / "described" / f"{word}-{cell.digest(bench.setting.checksums)[:16]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return keep(path, lambda: tell_point(f"{target:g}", replay_as_described(cell, target, size)))


def measure_starts(bench: Bench) -> dict[str, list[dict[str, Any]]]:
    """Section 5.4: what starts of nodes cost BOA, as long as theirs, without packages, without data, and free."""
    trace = bench.setting.newtrace()
    planned = bench.setting.planner.plan(trace, EXACT, 10.0 if bench.quick else FIGURE7_GPUS)
    assert planned is not None  # budgets of this page are above the least
    starts = {f"{seconds:g}": {"node_start_s": seconds} for seconds in (120.0, 45.0, 20.0, 0.0)}
    cells = {label: bench.setting.cell(trace, f"autoscaled:{planned.path}", **how) for label, how in starts.items()}
    at_once = {"0": bench.setting.cell(trace, planned)}
    return bench.run("5.4", {"every 60 s": cells, "at once": at_once})


def measure_over_time(scope: Scope) -> dict[str, Any]:
    """Figure 5: GPUs rented over time on the 85 jobs, where autoscaling rents what comes closest to 55 GPUs."""
    bench = Bench.of(scope, "off")
    trace = bench.setting.few_jobs()
    told = bench.runner.run("figure 5", bench.autoscale(trace, bench.pick(sizes.TARGETS, ("off", "few"))))
    hours = FIGURE5_GPUS * trace.span_h
    rival = min(told.values(), key=lambda one: abs(one["node_gpu_hours"] - hours))
    found = {AUTOSCALED: _tell_over_time(rival)}
    for name, at_once in ((EXACT, False), (AT_ONCE, True)):
        cells = bench.follow(trace, trace, EXACT, sizes.BUDGETS["off", "few"], at_once=at_once)
        own = min(
            bench.runner.run("figure 5", cells).values(),
            key=lambda one: abs(one["node_gpu_hours"] - rival["node_gpu_hours"]),
        )
        found[name] = _tell_over_time(own)
    return found


def _tell_over_time(told: Mapping[str, Any]) -> dict[str, Any]:
    over = told["over_time"]
    step = max(1, -(-len(over["gpus_rented"]) // _SHOWN))
    rented = np.array(over["gpus_rented"])
    padded = np.pad(rented, (0, -len(rented) % step)).reshape(-1, step).mean(axis=1)
    hours = (np.arange(len(padded)) * step * over["stretch_s"] / 3600.0).tolist()
    return {
        **tell_point("", told),
        "hours": [round(hour, 4) for hour in hours],
        "rented": [round(each, 1) for each in padded.tolist()],
        "most_rented": float(rented.max()),
    }


def measure_decisions(scope: Scope) -> dict[str, Any]:
    """Section 5.4: processor time of a decision and of calculating widths, on the 85 jobs as there."""
    bench = Bench.of(scope, "off")
    trace = bench.setting.few_jobs()
    gpus = 10.0 if scope.quick else FIGURE5_GPUS
    own = bench.setting.planner.plan(trace, EXACT, gpus)
    assert own is not None  # budgets of this page are above the least
    cells = {
        EXACT: bench.setting.cell(trace, own),
        POLLUX: bench.setting.cell(trace, "pollux", nodes=2 if scope.quick else 14),
        AUTOSCALED: bench.autoscale(trace, (0.7,))["0.7"],
    }
    folder = bench.setting.folder / "watched"
    found: dict[str, Any] = {name: watch(cell, folder, bench.setting.checksums) for name, cell in cells.items()}
    instance = bench.setting.planner.build(trace, gpus)
    widths_s = {name: min(_time_solve(instance, SOLVERS[name]) for _ in range(3)) for name in (EXACT, PUBLISHED)}
    return {"decisions": found, "widths_s": widths_s}


def _time_solve(instance: BoaInstance, solver: str) -> float:
    begun = time.process_time()
    solve(instance, solver=solver)
    return time.process_time() - begun


def _say(event: Event) -> None:
    sys.stderr.write(f"{event.elapsed_s:.0f} s: {event.stage}\n")


_NEWTRACE = tuple(f"sia/workloads/newtrace/workload-{number}.csv" for number in range(1, 6))
_FEW = tuple(f"adaptdl/workloads/workload-{number}.csv" for number in (1, 2))


def _part(measure: Callable[[Scope], Any], data: Sequence[str], seed: int | None = None) -> Part:
    def quietly(scope: Scope) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # rates that rest on few jobs are what sub-traces have
            return measure(scope)

    return Part(quietly, seed, ("sia/traces", *data))


def _both(name: str, measure: Callable[[Bench], Any], data: Sequence[str], seed: int | None = None) -> dict[str, Part]:
    """Make the parts of a measurement without slowdowns and with them."""

    def with_slowdown(slowdown: str) -> Callable[[Scope], Any]:
        return lambda scope: measure(Bench.of(scope, slowdown))

    return {part_of(name, slowdown): _part(with_slowdown(slowdown), data, seed) for slowdown in ("off", "on")}


def part_of(name: str, slowdown: str) -> str:
    """Return what a part is called that is measured without slowdowns (``off``) and with them."""
    return name if slowdown == "off" else f"{name}-slowdowns"


PARTS: Mapping[str, Part] = {
    "traces": _part(measure_traces, (*_NEWTRACE, _FEW[0])),
    **_both("few", partial(measure_curves, "few"), _FEW),
    "over_time": _part(measure_over_time, _FEW[:1]),
    **_both("starts", measure_starts, _NEWTRACE[:1]),
    "decisions": _part(measure_decisions, _FEW[:1]),
    **_both("newtrace", partial(measure_curves, "newtrace"), _NEWTRACE[:2]),
    **_both("bursts", measure_bursts, _NEWTRACE[:1], seed=1),
    **_both("information", measure_information, _NEWTRACE[:1]),
    "learning": _part(measure_learning, _NEWTRACE[:2]),
    **_both("filtertrace", partial(measure_curves, "filtertrace"), _NEWTRACE[:2]),
    "described": _part(measure_described, _FEW[:1], seed=0),
    "late": _part(measure_late, _NEWTRACE[:1], seed=1),
    "learned": _part(measure_learned, _NEWTRACE[:1]),
}
