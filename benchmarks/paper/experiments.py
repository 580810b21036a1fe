"""The experiments: which cells each figure consists of, and what is gathered from them."""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from optplan.lab.cluster.policies.in_turn import InTurn
from optplan.lab.cluster.policies.pollux import Knowledge
from optplan.lab.cluster.profiled_jobs import Batch, make_jobs
from optplan.lab.cluster.replaying import replay
from optplan.lab.sweeps import REVISION, Cell
from optplan.lab.traces.sia import Timing
from optplan.lab.traces.sia_workloads import Workload, read_workload
from paper.running import Curve, Curves, Point, Runner, gather, keep, watch
from paper.setting import GPU, SOLVERS, Setting, Trace, make_bursts, measure_variation

EXACT, PUBLISHED, SINGLE = SOLVERS
ONE_WIDTH = "one width for all jobs"
ONLINE = "BOA, calculated every 15 min"
#: Policies of a fixed cluster, by what the page calls them.
FIXED = {
    "Pollux": "pollux",
    "least attained service": "least-attained",
    "equal share": "equal-share",
    "reservation, fixed cluster": "reservation",
}
POLLUX, AUTOSCALED = "Pollux", "Pollux with autoscaling"
#: How Pollux with the published search is called; the size of the search follows.
SEARCHED = "Pollux, NSGA-II"
#: Figure 9: exact widths at the budget at which they rent what the rival rents.
EXACT_ALIKE = "BOA at the GPU-hours of autoscaling"
#: Of fixed clusters, those that take less than a second.
_QUICK = ("least attained service", "reservation, fixed cluster")
#: The only one of the Sia artifact's width tables that the quick form replays.
_QUICK_TABLE = "layered-paths-130"
#: How the policy that chooses its cluster is called; a colon and its target follow.
_AUTOSCALED_NAME = "pollux-autoscaled"
#: The target of figure 9.
_TARGET = "0.7"
#: What newtrace/workload-1 gives Pollux in the Sia artifact's simulator, on nodes of 4 T4: GPUs, node-rounded
#: GPU-hours, mean and P95 of the completion times (s).
POLLUX_THERE = (
    (96, 5697, 9705, 21096),
    (112, 6271, 7040, 14174),
    (128, 6894, 5467, 11001),
    (160, 8372, 3913, 7365),
    (192, 10037, 3426, 5980),
)


#: Pollux as it is there: jobs learn their speeds, and choose their batches by what they have learned.
AGENTS = "Pollux with agents"
#: How the page calls it.
THERE = "Pollux in the Sia artifact's simulator"


def with_pollux_there(curves: Curves) -> Curves:
    """Add to newTrace's curves what Pollux came to in the Sia artifact's simulator."""
    points = [Point(str(g), float(h), float(h), float(mean), float(p95), g) for g, h, mean, p95 in POLLUX_THERE]
    return {**curves, THERE: Curve(THERE, points)}


@dataclass
class Experiments:
    """What is run for the page."""

    runner: Runner

    @property
    def setting(self) -> Setting:
        """Where everything is."""
        return self.runner.setting

    def plan_cells(
        self,
        planned_on: Trace,
        replayed: Trace,
        name: str,
        budgets_gpus: Sequence[float],
        *,
        timing: Timing = Timing.TABLES,
        **parameters: float,
    ) -> dict[str, Cell]:
        """Return a policy's cells, by budget; budgets that no plan keeps are left out."""
        plans = {f"{gpus:g}": self.setting.planner.plan(planned_on, name, gpus, timing) for gpus in budgets_gpus}
        return {
            label: self.setting.cell(replayed, planned, **parameters)
            for label, planned in plans.items()
            if planned is not None
        }

    def width_cells(self, trace: Trace) -> dict[str, Cell]:
        """Return the cells of one width for all jobs."""
        return {str(k): self.setting.cell(trace, f"one-width:{k}") for k in self.setting.scope.widths}

    def compare_policies(self, trace: Trace, budgets_gpus: Sequence[float]) -> Curves:
        """Figures 4 and 6: quick policies on one trace; plans are made on the same trace's rates."""
        groups = {name: self.plan_cells(trace, trace, name, budgets_gpus) for name in SOLVERS}
        groups |= {ONE_WIDTH: self.width_cells(trace), "reservation": {"": self.setting.cell(trace, "reservation")}}
        return gather(self.runner, trace.name, groups | self._fix(trace, _QUICK, self.setting.scope.nodes))

    def compare_pollux(
        self,
        trace: Trace,
        nodes: Sequence[int],
        targets: Sequence[float],
        *,
        knowledge: Knowledge = Knowledge.TRUTH,
    ) -> Curves:
        """Figures 4, 6 and 8: Pollux on clusters of so many nodes, and on one that it sizes."""
        told = {} if knowledge is Knowledge.TRUTH else {"knowledge": knowledge}
        scaled = {f"{c:g}": f"{_AUTOSCALED_NAME}:{c:g}" for c in targets}
        groups = {
            POLLUX: {str(4 * n): self.setting.cell(trace, FIXED[POLLUX], nodes=n, **told) for n in nodes},
            AUTOSCALED: {label: self.setting.cell(trace, name, **told) for label, name in scaled.items()},
        }
        return gather(self.runner, f"{trace.name}, Pollux, {knowledge} of speeds", groups)

    def follow_agents(self, trace: Trace, nodes: Sequence[int]) -> Curves:
        """Pollux on clusters of so many nodes where agents learn speeds and choose batches, as in the Sia artifact."""
        learned = {"knowledge": Knowledge.LEARNED, "batch": Batch.LEARNED}
        cells = {str(4 * n): self.setting.cell(trace, FIXED[POLLUX], nodes=n, **learned) for n in nodes}
        return gather(self.runner, f"{trace.name}, {AGENTS}", {AGENTS: cells})

    def search_as_published(self, trace: Trace, nodes: int) -> Curves:
        """Pollux at one size with the published search, 100 divisions changed 100 times; needs pymoo."""
        policy = self.setting.scope.searched
        if find_spec("pymoo") is None:
            return {}
        name = f"{SEARCHED} {policy.partition(':')[2] or '100x100'}"
        cell = self.setting.cell(trace, policy, nodes=nodes)
        return gather(self.runner, f"{trace.name}, {name}", {name: {str(4 * nodes): cell}})

    def share_equally(self, trace: Trace, nodes: Sequence[int]) -> Curves:
        """Figures 4 and 6: equal share, which takes minutes, on clusters of so many nodes."""
        return gather(self.runner, f"{trace.name}, equal share", self._fix(trace, ("equal share",), nodes))

    def compute_again(self, trace: Trace, budgets_gpus: Sequence[float]) -> Curves:
        """Figure 6: BOA that starts from a plan's instance, and calculates widths again every 15 minutes."""
        cells = {}
        for gpus in budgets_gpus:
            instance = self.setting.planner.write_instance(trace, gpus)
            cells[f"{gpus:g}"] = self.setting.cell(trace, f"boa-online:{instance}")
        return gather(self.runner, f"{trace.name}, {ONLINE}", {ONLINE: cells})

    def _fix(self, trace: Trace, names: Sequence[str], nodes: Sequence[int]) -> dict[str, dict[str, Cell]]:
        """Return the cells of policies on clusters of fixed size, by GPUs."""
        return {name: {str(4 * n): self.setting.cell(trace, FIXED[name], nodes=n) for n in nodes} for name in names}

    def replay_elsewhere(self) -> dict[str, Curves]:
        """Traces that were not planned on: exact widths, Algorithm 1's, best single widths, one width for all."""
        scope, found = self.setting.scope, {}
        families = (
            (self.setting.newtrace, scope.elsewhere_gpus, range(2, 2 + scope.others)),
            (self.setting.philly, scope.philly_gpus, range(2, 2 + min(scope.others, 3))),
        )
        for make, budgets_gpus, numbers in families:
            planned_on = make(1)
            for number in numbers:
                trace = make(number)
                groups = {name: self.plan_cells(planned_on, trace, name, budgets_gpus) for name in SOLVERS}
                found[trace.name] = gather(self.runner, trace.name, groups | {ONE_WIDTH: self.width_cells(trace)})
        return found

    def compare_information(self, trace: Trace, budgets_gpus: Sequence[float]) -> Curves:
        """Figure 8: plans on the true speeds, and on the goodput model fitted to them; both meet the true ones."""
        groups = {
            f"{name}, {word}": self.plan_cells(trace, trace, name, budgets_gpus, timing=timing)
            for name in (EXACT, PUBLISHED)
            for word, timing in (("perfect", Timing.TABLES), ("imperfect", Timing.MODEL))
        }
        return gather(self.runner, "figure 8", groups)

    def vary_arrivals(self, trace: Trace, budget_gpus: float, curves: Curves) -> list[dict[str, Any]]:
        """Figure 9: the same jobs in bursts; by C^2 and seed what each policy comes to.

        ``curves`` are those of the trace as it is: they say at which budget exact widths rent what autoscaling rents.
        """
        plans = {EXACT: self.setting.planner.plan(trace, EXACT, budget_gpus)}
        if EXACT in curves and AUTOSCALED in curves:
            rival = next((point for point in curves[AUTOSCALED].points if point.label == _TARGET), None)
            if rival is not None:
                alike = curves[EXACT].nearest(rival.node_gpu_hours)
                plans[EXACT_ALIKE] = self.setting.planner.plan(trace, EXACT, float(alike.label))
        nodes = round(budget_gpus / 4)
        rows = []
        for variation, seed in itertools.product(self.setting.scope.variations, self.setting.scope.seeds):
            bursts = make_bursts(trace, variation, seed, self.setting.folder / "traces")
            cells = {name: self.setting.cell(bursts, plan) for name, plan in plans.items() if plan is not None}
            for name in ("least attained service", POLLUX):
                cells[name] = self.setting.cell(bursts, FIXED[name], nodes=nodes)
            cells[AUTOSCALED] = self.setting.cell(bursts, f"{_AUTOSCALED_NAME}:{_TARGET}")
            told = self.runner.run("figure 9", cells)
            measured = measure_variation(bursts)
            rows.append({"variation": variation, "seed": seed, "measured": measured, "policies": told})
        return rows

    def predict(self, trace: Trace, replayed: Sequence[Trace], budgets_gpus: Sequence[float]) -> list[dict[str, Any]]:
        """Predictions beside replays, on the trace that was planned on and on others."""
        rows = []
        for gpus in budgets_gpus:
            planned = self.setting.planner.plan(trace, EXACT, gpus)
            if planned is None:
                continue
            cells = {one.name: self.setting.cell(one, planned) for one in replayed}
            told = self.runner.run("predictions", cells)
            spans = {one.name: one.span_h for one in replayed}
            rows.append({"planned": planned, "told": told, "spans_h": spans})
        return rows

    def watch_policies(self, trace: Trace, gpus: float, curves: Curves) -> dict[str, dict[str, Any]]:
        """Figures 5 and 7: policies at about so many GPUs, watched.

        Autoscaling has the target at which ``curves``, those of the trace, say that it rents what exact widths rent.
        """
        plans = {name: self.setting.planner.plan(trace, name, gpus) for name in (EXACT, PUBLISHED)}
        cells = {name: self.setting.cell(trace, planned) for name, planned in plans.items() if planned is not None}
        for name in ("least attained service", POLLUX):
            cells[name] = self.setting.cell(trace, FIXED[name], nodes=max(1, round(gpus / 4)))
        told = self.runner.run("over time", cells)
        own = told.get(EXACT)
        if own is not None and AUTOSCALED in curves:
            target = curves[AUTOSCALED].nearest(own["node_gpu_hours"]).label
            cells[AUTOSCALED] = self.setting.cell(trace, f"{_AUTOSCALED_NAME}:{target}")
            told |= self.runner.run("over time", {AUTOSCALED: cells[AUTOSCALED]})
        found = {}
        for name, cell in cells.items():
            begin = not self.runner.is_over()
            if (one := told[name]) is not None:
                watched = watch(cell, self.setting.folder / "watched", self.setting.checksums, begin=begin)
                if watched is not None:
                    found[name] = {"cell": one, **watched}
        return found


def replay_sia_tables(setting: Setting) -> list[dict[str, Any]]:
    """Replay the width tables that were replayed in the Sia artifact's simulator, and compare job by job, once.

    By plan and way of choosing batches there are ``mean``, ``classes``, and of the jobs ``p5``, ``p50``, ``p95``,
    ``most`` and ``within_5``: completion time here over there, less one, and the share within 5 %.
    """
    folder = setting.data / "sia" / "replays"
    workload = setting.newtrace().path  # of the quick form the first jobs: nobody waits, so the others change nothing
    sums = setting.checksums
    read = [sums.of(str(path)) for path in (folder / "widths.json", folder / "jobs.csv", workload)]
    parts = (REVISION, setting.scope.jobs is None, sums.of(str(setting.profiles)), *read)
    path = setting.folder / f"sia-replays-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.json"
    told = keep(path, lambda: {"rows": _replay_sia_tables(setting, folder, read_workload(workload))})
    rows: list[dict[str, Any]] = told["rows"]
    return rows


def _replay_sia_tables(setting: Setting, folder: Path, trace: Workload) -> list[dict[str, Any]]:
    tables = json.loads((folder / "widths.json").read_text(encoding="utf-8"))
    with (folder / "jobs.csv").open(encoding="utf-8", newline="") as file:
        there = [row for row in csv.DictReader(file) if row["job"] in set(trace.job_names)]
    rows = []
    for plan, timing in itertools.product(tables, (Timing.TABLES, Timing.MODEL_BATCHES)):
        if setting.scope.jobs is not None and plan != _QUICK_TABLE:
            continue
        jobs, gpus_per_node = make_jobs(trace, setting.profiles, GPU, slowdown=True, timing=timing)
        replay(jobs, InTurn(plan, _follow(tables[plan])), gpus_per_node=gpus_per_node)
        here = {job.name: (job.completed_s or np.nan) - job.submitted_s for job in jobs}
        other = {row["job"]: float(row[f"{plan} jct_s"]) for row in there}
        names = list(other)
        own, theirs = (np.array([times[name] for name in names]) for times in (here, other))
        classes = np.array([row["application"] for row in there])
        each = own / theirs - 1.0
        p5, p50, p95 = np.percentile(each, (5, 50, 95)).tolist()
        rows.append(
            {
                "plan": plan,
                "timing": timing.value,
                "mean": float(own.mean() / theirs.mean() - 1.0),
                "classes": {
                    name: float(own[classes == name].mean() / theirs[classes == name].mean() - 1.0)
                    for name in sorted(set(classes.tolist()))
                },
                "p5": p5,
                "p50": p50,
                "p95": p95,
                "most": float(each[np.abs(each).argmax()]),
                "within_5": float((np.abs(each) <= 0.05).mean()),
            }
        )
    return rows


def _follow(table: Mapping[str, Sequence[Mapping[str, Any]]]) -> Any:  # noqa: ANN401 - a function of a job
    """Return what jobs hold by a table with one way for each class."""
    return lambda job: int(table[job.application][0]["gpus"][job.epochs_done])
