"""Best-first search of fleets: whatever a lower bound does not exclude is decided further, down to single fleets.

Best-first branch and bound with dives for incumbents ("plunging": Achterberg, "Constraint Integer Programming", 2007,
chapter 6). Nothing is left out without a bound that excludes it, so what is found is proven by exhaustion. Fleets wait
in blocks, each sorted by its bounds; the block whose first fleet has the least bound is the next, and a slice of it at
a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import count

import numpy as np

from optplan.contracts.result import Termination
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.exact.bounds import ExchangeBound, Level, LinearRelaxation, bound_training, list_choices
from optplan.formulations.srift.exact.branches import Branch, Kind, Nodes, Setting, list_kinds, list_others
from optplan.formulations.srift.exact.goals import SAME, FleetJudge, Goal, JudgedFleet
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

#: Pairs of a fleet and an option that one step looks at.
_PAIRS = 150_000
#: Complete fleets that one step judges.
_JUDGED = 8
#: Partial fleets that are decided at once down to the end, and after how many steps again.
_PLUNGED, _PLUNGE_EVERY = 4, 16
#: Fleets that may wait; each takes about 150 bytes.
_MOST_WAITING = 3_000_000
#: Fleets that are remembered with what they take; each takes about 500 bytes.
_MOST_KNOWN = 100_000
#: Steps after the gap is closed, in which ties are broken.
_TIE_STEPS = 200
#: (1,) each: bounds of time, cost and VMs.
_Outlook = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class SearchEnd:
    """How a search ended."""

    termination: Termination  # COMPLETED when nothing is left that the goal would keep, or the gap is closed
    bound: float  # the least rank that anything left can have; infinite when nothing is left
    counters: dict[str, float]  # steps, partial fleets looked at, complete fleets judged


@dataclass
class _Waiting:
    """Fleets of one branch that wait, the least rank first."""

    branch: Branch
    nodes: Nodes
    ranks: FloatArray
    start: int = 0


class FleetSpace:
    """All fleets of an instance, to be searched."""

    def __init__(self, instance: SriftInstance) -> None:
        self.instance, model = instance, IterationModel(instance)
        self.setting = Setting(
            instance=instance,
            choices=list_choices(instance, model),
            order=_order_types(instance),
            exchange=ExchangeBound(instance, model),
        )
        self._judge = FleetJudge(instance, model)
        self._known: dict[tuple[Kind, bytes], JudgedFleet] = {}
        #: Fleets that wait, and kinds whose branch is not open yet.
        self._heap: list[tuple[float, int, _Waiting | Kind]] = []
        self._waiting = self._decided = self._judged = 0
        self._ticket = count()
        self._outlooks: dict[Kind, _Outlook | None] = {}

    @cached_property
    def kinds(self) -> list[Kind]:
        """The kinds of fleets."""
        return list_kinds(self.setting)

    def search(self, goal: Goal, stopwatch: Stopwatch, *, gap: float = 0.0) -> SearchEnd:
        """Look for what the goal wants, and keeps; the search may end at a gap."""
        self._heap, self._waiting = [], 0
        for kind in self.kinds:
            for rank in self.foresee(goal, kind).tolist():
                heappush(self._heap, (rank, next(self._ticket), kind))
        why, bound, steps, ties = Termination.COMPLETED, np.inf, 0, 0
        while self._heap:
            rank, _, waiting = heappop(self._heap)
            best = goal.objective
            if best is not None and rank > best * (1.0 + SAME):
                break
            ties += best is not None and rank >= best * (1.0 - gap)
            if stopwatch.expired or self._waiting > _MOST_WAITING or ties > _TIE_STEPS:
                why = Termination.COMPLETED if ties > _TIE_STEPS else Termination.WORK_LIMIT
                why, bound = Termination.TIME_LIMIT if stopwatch.expired else why, rank
                break
            steps += 1
            if isinstance(waiting, Kind):
                branch = Branch(self.setting, waiting)
                nodes = branch.start(goal.keeps)
                self._decided += len(nodes)
                self._wait(goal, branch, nodes)
            else:
                if steps % (_PLUNGE_EVERY if goal.found else 1) == 0:
                    self._plunge(goal, waiting)
                self._step(goal, waiting)
            stopwatch.emit("search", objective=goal.objective, bound=rank)
        counters = {"steps": steps, "partial_fleets": self._decided, "fleets": self._judged}
        return SearchEnd(why, bound, {name: float(number) for name, number in counters.items()})

    def judge(self, branch: Branch, picks: IntArray) -> JudgedFleet:
        """Return what a complete fleet of a branch takes and costs; it is asked again when the tree is written."""
        key = branch.kind, picks.tobytes()
        known = self._known.get(key) or self._judge.judge(branch.write(picks))
        if len(self._known) < _MOST_KNOWN:
            self._known[key] = known
        return known

    def _plunge(self, goal: Goal, waiting: _Waiting) -> None:
        """Decide the best few at once down to complete fleets: what they take excludes others early."""
        branch = waiting.branch
        nodes = waiting.nodes.take(slice(waiting.start, waiting.start + _PLUNGED))
        while len(nodes) and nodes.level < branch.levels:
            nodes = branch.decide(nodes, goal.keeps)
            order = np.argsort(goal.rank(nodes.time_s, nodes.cost_usd), kind="stable")
            nodes = nodes.take(order[:_PLUNGED])
        self._judge_all(goal, branch, nodes)

    def _step(self, goal: Goal, waiting: _Waiting) -> None:
        """Decide a slice further, or judge the first complete fleets."""
        branch = waiting.branch
        complete = waiting.nodes.level == branch.levels
        width = _JUDGED if complete else max(1, _PAIRS // branch.widest(waiting.nodes.level))
        nodes = self._next(goal, waiting, width)
        if complete:
            self._judge_all(goal, branch, nodes)
        elif len(nodes):
            self._decided += len(nodes) * branch.widest(nodes.level)
            self._wait(goal, branch, branch.decide(nodes, goal.keeps))

    def _next(self, goal: Goal, waiting: _Waiting, width: int) -> Nodes:
        end = min(waiting.start + width, len(waiting.nodes))
        nodes = waiting.nodes.take(slice(waiting.start, end))
        self._waiting -= end - waiting.start
        if end < len(waiting.nodes):
            self._push(replace(waiting, start=end))
        return nodes.take(np.flatnonzero(goal.keeps(nodes.time_s, nodes.cost_usd, nodes.vms)))

    def _judge_all(self, goal: Goal, branch: Branch, nodes: Nodes) -> None:
        for picks in nodes.picks:
            self._judged += 1
            goal.offer(self.judge(branch, picks))

    def _wait(self, goal: Goal, branch: Branch, nodes: Nodes) -> None:
        if not len(nodes):
            return
        ranks = goal.rank(nodes.time_s, nodes.cost_usd)
        order: IntArray = np.argsort(ranks, kind="stable")
        self._waiting += len(nodes)
        self._push(_Waiting(branch, nodes.take(order), ranks[order]))

    def _push(self, waiting: _Waiting) -> None:
        heappush(self._heap, (float(waiting.ranks[waiting.start]), next(self._ticket), waiting))

    def foresee(self, goal: Goal, kind: Kind) -> FloatArray:
        """Return (1,) a lower bound of the rank of a branch before it is opened; nothing where nothing is kept."""
        if kind not in self._outlooks:
            self._outlooks[kind] = self._look_out(kind)
        bounds = self._outlooks[kind]
        return goal.rank(*bounds[:2]) if bounds is not None and goal.keeps(*bounds)[0] else np.zeros(0)

    def _look_out(self, kind: Kind) -> _Outlook | None:
        """Return lower bounds of time, cost and VMs of a kind of fleets; None where there can be none."""
        slowest, exchange = self.setting.choices[kind.position], self.setting.exchange
        others = *list_others(self.setting, kind), slowest
        most, amounts = self.setting.most, self.setting.amounts
        levels = [Level(each.number, (each.batch,), 0, most[each.number], amounts[each.number]) for each in others]
        price, ranks, vms = LinearRelaxation(levels).least(np.array([self.instance.global_batch]))[:, 0].tolist()
        if not np.isfinite(price):
            return None
        backward_s = np.array([slowest.raw_s - slowest.forward_s])
        if kind.network is not None:
            gpu, least = self.instance.types[slowest.name].gpu, np.array([math.ceil(ranks * (1.0 - SAME))])
            paces = exchange.paces(gpu, 1 << kind.network, complete=False)
            backward_s = np.maximum(backward_s, paces.floor_s(least))
        work_s = self.instance.iterations * (slowest.forward_s + backward_s) * (1.0 - SAME)
        training_s, billed_s = bound_training(self.instance, work_s, np.zeros(1))
        return training_s, billed_s * price * (1.0 - SAME), np.array([vms])


def _order_types(instance: SriftInstance) -> list[int]:
    """Return the numbers of the types, the dearest per sample first: what is dear is soon excluded."""
    types = list(instance.types.items())

    def per_sample(number: int) -> float:
        name, vm = types[number]
        return vm.price_usd_per_s / max(instance.batches_of[name], default=1)

    return sorted(range(len(types)), key=lambda number: (-per_sample(number), number))
