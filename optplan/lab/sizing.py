"""How many GPUs an own cluster needs: at each size what the best policy comes to, beside what none can beat.

Every figure is of a replay of the same jobs on whole nodes. Policies are the price that fits, and plans of the
frontier, whose jobs queue in an order. A plan's budget is what it would rent on average; on a cluster of fixed size it
is only how wide jobs are, and the best one may be above the cluster's size: bursts are worked off later. The mean by
budget has one valley, so it is found by golden-section search over the frontier's plans (Kiefer, "Sequential minimax
search for a maximum", Proceedings of the AMS 4, 1953).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from optplan.contracts.faces import Shown
from optplan.errors import DataError, InternalError, UsageError
from optplan.execution.online.jobs import Order
from optplan.formulations.boa.data.instance import BoaInstance, Policy
from optplan.formulations.boa.planning import BoaPlan
from optplan.instances.job_traces import JobTrace, Stays
from optplan.lab.cluster.jobs import SchedulingPolicy
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.boa import Scheduled
from optplan.lab.cluster.policies.price_that_fits import PriceThatFits
from optplan.lab.cluster.traced_jobs import count_gpus, simulate_trace
from optplan.progress import Listener, Stopwatch
from optplan.solving import build_plan, frontier, result_of
from optplan.units import SECONDS_PER_HOUR, Amount

#: Plans of the frontier that are tried at most, by budgets that grow evenly.
_MOST_PLANS = 32
#: Sizes of a cluster that are tried at most: each takes tens of replays.
_MOST_SIZES = 1000
#: What a golden-section search leaves of a range, and what it takes of it.
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
#: A wait of less of a completion time is none.
_ROUNDING = 1e-9

#: Seconds that no scheduler's mean is below, of an instance and its jobs on so many own GPUs; None where nobody says.
Bound = Callable[[BoaInstance, JobTrace, int], float | None]


@dataclass(frozen=True)
class Replay:
    """What the jobs came to under one policy on a cluster of one size."""

    policy: str  #: ``price-that-fits``, or the order in which jobs queue.
    budget_gpus: float | None  #: Of the plan whose widths they hold, in time-average GPUs; None without a plan.
    mean_jct_s: float
    p95_jct_s: float
    mean_waited_s: float  #: Without GPUs, from the arrival to the completion.
    use: float  #: Share of the cluster's GPU-hours, from the first arrival to the last completion, that jobs held.

    @classmethod
    def of(cls, outcome: Outcome, policy: str, budget_gpus: float | None, gpus: int) -> Replay:
        """Take the figures of an outcome in which all jobs were completed."""
        jct_s = outcome.jct_s
        waited_s = jct_s - np.array([job.held_s for job in outcome.jobs])
        waited_s[waited_s < _ROUNDING * jct_s] = 0.0  # who always held something
        use = outcome.gpu_hours * SECONDS_PER_HOUR / (gpus * outcome.span_s)
        return cls(
            policy, budget_gpus, float(jct_s.mean()), float(np.percentile(jct_s, 95)), float(waited_s.mean()), use
        )


@dataclass(frozen=True)
class ClusterSize:
    """What a cluster of one size makes of the jobs."""

    nodes: int
    gpus: int
    best: Replay  #: The one with the least mean.
    best_p95: Replay  #: The one with the least P95, of another budget as a rule.
    bound_s: float | None  #: No scheduler has a lower mean on so many GPUs; None where nothing is known.
    replays: int  #: How many were tried.


@dataclass(frozen=True)
class LoggedCluster:
    """What the cluster of a log made of its jobs."""

    jobs: int  #: Of which the log says when they came, began and ended.
    mean_jct_s: float
    p95_jct_s: float
    mean_waited_s: float
    most_gpus: float  #: That these held at once.

    @classmethod
    def of(cls, trace: JobTrace) -> LoggedCluster | None:
        """Take what a trace says of its own cluster; None where it says nothing."""
        jct_s = trace.wait_s + trace.run_s
        known = np.flatnonzero(np.isfinite(jct_s) & np.isfinite(trace.gpus))
        if not known.size:
            return None
        stays = Stays.of(trace.take(known))
        assert stays is not None
        return cls(
            jobs=known.size,
            mean_jct_s=float(jct_s[known].mean()),
            p95_jct_s=float(np.percentile(jct_s[known], 95)),
            mean_waited_s=float(trace.wait_s[known].mean()),
            most_gpus=stays.held().most,
        )


@dataclass(frozen=True)
class Sizing(Shown):
    """What clusters of several sizes make of the same jobs."""

    SHOWN_BY: ClassVar[str] = "optplan.lab.sizing_page:face_of"

    instance_name: str
    jobs: int
    gpus_per_node: int
    load_gpus: float  #: Time-average GPUs without which jobs pile up, on the widths that take least.
    sizes: tuple[ClusterSize, ...]  #: From the smallest on.
    log: LoggedCluster | None = None

    @cached_property
    def knee(self) -> ClusterSize:
        """The size at which GPUs times mean completion time are least: beyond, 1 % more GPUs saves less than 1 % of it.

        There a queue's *power* is largest (Kleinrock, "Power and deterministic rules of thumb for probabilistic
        problems in computer communications", ICC 1979).
        """
        return min(self.sizes, key=lambda size: size.gpus * size.best.mean_jct_s)

    def to_json_data(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {**asdict(self), "sizes": [asdict(size) for size in self.sizes], "knee_nodes": self.knee.nodes}


def size(
    instance: BoaInstance,
    trace: JobTrace,
    nodes: Sequence[int],
    *,
    gpus_per_node: int | None = None,
    bound: Bound | None = None,
    on_event: Listener | None = None,
) -> Sizing:
    """Find by replay what the best policy comes to on own clusters of several sizes.

    Parameters
    ----------
    instance
        With one type of GPU; its budget plays no role.
    trace
        The jobs, as :func:`optplan.read_trace` reads or :func:`optplan.draw_trace` draws them.
    nodes
        Numbers of nodes.
    gpus_per_node
        GPUs of a node; the instance's unless given.
    bound
        What no scheduler's mean is below, in seconds; nothing is said of it unless given.
    on_event
        Is told what is tried.

    Returns
    -------
    Sizing
        The sizes from the smallest on.

    Raises
    ------
    DataError
        When a cluster is below the load or the least width of a class, or nobody says how many GPUs a node has.
    """
    watch = Stopwatch(listener=on_event)
    node = count_gpus(instance, given=gpus_per_node)
    pure = instance.replace(budget=None, policy=Policy.PURE, most_gpus=None)
    wanted = sorted(set(nodes))
    if len(wanted) > _MOST_SIZES:
        raise UsageError(
            f"nodes: got {len(wanted):,} sizes; at most {_MOST_SIZES:,} are tried: name those that you can have"
        )
    plans = _Plans(pure)
    _check_sizes(pure, trace, wanted, node, plans.load_gpus)
    sizes = []
    for place, count in enumerate(wanted):
        watch.emit(f"{count} nodes", fraction=place / len(wanted))
        tries = _Tries(pure, trace, plans, node, count)
        best, best_p95 = tries.search()
        bound_s = None if bound is None else bound(instance, trace, count * node)
        sizes.append(ClusterSize(count, count * node, best, best_p95, bound_s, tries.count))
    return Sizing(instance.name, len(trace), node, plans.load_gpus, tuple(sizes), LoggedCluster.of(trace))


def _check_sizes(instance: BoaInstance, trace: JobTrace, nodes: Sequence[int], node: int, load_gpus: float) -> None:
    """Refuse no size, and clusters on which jobs pile up or never start."""
    if not nodes or nodes[0] < 1:
        said = ", ".join(map(str, nodes)) or "none"
        raise UsageError(f"nodes: got {said}; numbers of nodes of at least 1 are needed")
    if not np.ptp(trace.arrive_s):
        problem = f"all {len(trace)} jobs arrive at once"
        raise DataError("jobs.arrive_s", problem, "take a log that says when jobs were submitted")
    gpus = nodes[0] * node
    widest, name = max((int(instance.allowed_widths(name).min()), name) for name in instance.classes)
    least = max(widest, load_gpus)
    if gpus >= least:
        return
    problem = f"got {nodes[0]}, which are {gpus} GPUs"
    if widest > gpus:
        problem += f", and a job of class {name} needs {widest} at once"
    else:
        problem += f", and the jobs need {load_gpus:.4g} on average, on the widths that take least: they would pile up"
    raise DataError("nodes", problem, f"take {math.ceil(least / node)} or more")


class _Plans:
    """Plans of the frontier, by budgets that grow evenly; each is made when it is first asked for."""

    def __init__(self, instance: BoaInstance) -> None:
        self._instance, self._frontier = instance, frontier(instance)
        found = self._frontier.budgets
        wanted = np.geomspace(found[0], found[-1], _MOST_PLANS)
        self.budgets = found[np.unique(np.abs(found - wanted[:, None]).argmin(axis=1))].tolist()
        self.load_gpus = self.budgets[0]
        self._made: dict[int, BoaPlan] = {}

    def make(self, place: int) -> BoaPlan:
        if place not in self._made:
            budget = self.budgets[place]
            limited = self._instance.replace(budget=Amount(budget, self._instance.budget_unit))
            plan = build_plan(limited, result_of(limited, self._frontier.solution_at(budget)))
            assert isinstance(plan, BoaPlan)
            self._made[place] = plan
        return self._made[place]


class _Tries:
    """Replays on a cluster of one size, each made once."""

    def __init__(self, instance: BoaInstance, trace: JobTrace, plans: _Plans, node: int, nodes: int) -> None:
        self._instance, self._trace, self._plans, self._node, self._nodes = instance, trace, plans, node, nodes
        self._made: dict[tuple[str, int], Replay] = {}

    @property
    def count(self) -> int:
        return len(self._made)

    def search(self) -> tuple[Replay, Replay]:
        self._try("price-that-fits", -1, lambda: PriceThatFits(self._instance))
        for order in Order:
            for measure in ("mean_jct_s", "p95_jct_s"):
                _search_valley(partial(self._measure, measure, order), len(self._plans.budgets))
        tried = list(self._made.values())
        return min(tried, key=lambda each: each.mean_jct_s), min(tried, key=lambda each: each.p95_jct_s)

    def _measure(self, measure: str, order: Order, place: int) -> float:
        replay = self._try(order.value, place, lambda: Scheduled(self._plans.make(place), order))
        return float(getattr(replay, measure))

    def _try(self, name: str, place: int, make: Callable[[], SchedulingPolicy]) -> Replay:
        if (name, place) not in self._made:
            outcome = simulate_trace(self._instance, self._trace, make(), gpus_per_node=self._node, nodes=self._nodes)
            if outcome.problems:
                raise InternalError(f"{name} on {self._nodes} nodes: {next(iter(outcome.problems.values()))}")
            budget = None if place < 0 else self._plans.budgets[place]
            self._made[name, place] = Replay.of(outcome, name, budget, self._node * self._nodes)
        return self._made[name, place]


def _search_valley(measure: Callable[[int], float], count: int) -> int:
    """Return the place of the least of so many values that fall and then rise, as golden sections find it."""
    low, high = 0, count - 1
    while high - low > 2:
        inner = max(1, round((1.0 - _GOLDEN) * (high - low)))
        left, right = low + inner, max(high - inner, low + inner + 1)
        if measure(left) <= measure(right):
            high = right
        else:
            low = left
    return min(range(low, high + 1), key=measure)
