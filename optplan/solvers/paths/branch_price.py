"""Branch and price for pure plans within several limits.

The bound of a part of all plans is the best mixture of its paths: a linear program over some of them
(:mod:`optplan.solvers.paths.simplex`), priced by shortest paths of possible runs (:mod:`optplan.solvers.paths.runs`).
A part is divided by a layer of a graph: its node is of one kind, or is not; is among the first nodes of a kind, or is
not. So all that a part is are masks. Of some divisions that of the greatest product of gains is made: those are tried
first of whose kind most was gained so far, until several in a row are no better (strong branching with pseudocosts and
a look-ahead: Achterberg, Koch and Martin, "Branching rules revisited", Operations Research Letters 33, 2005). Nodes
whose reduced cost takes them beyond the incumbent are closed; the better side comes next, or the part of least bound.

Barnhart et al., "Branch-and-price: column generation for solving huge integer programs", Operations Research 46, 1998.
What is not in the textbook is the rule of runs: a graph's run alone has to fit into what the other graphs leave.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.limits import LIMIT_TOLERANCE, ROUNDING, is_within
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.families import FloatArray, IntArray, NodeArray
from optplan.solvers.paths.run_problem import Gains, Neighbourhoods, Part, RunProblem, Split, choose_columns, round_to
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.solvers.paths.simplex import RestrictedMaster


@dataclass(eq=False)
class _Open:
    """A part that is not closed: its masks (packed), its bounds on runs (2, G, F), and a basis to start from."""

    part: Part
    closed: NDArray[np.uint8]
    runs: NDArray[np.int32]
    basis: IntArray


#: A side that was tried: its bound, the weights (1 + L + G * F,) that attain it, and a basis to go on from.
_Side = tuple[float, FloatArray, IntArray]
_State = tuple[NDArray[np.uint8], NDArray[np.int32]]


class BranchAndPrice:
    """The state of one search.

    ``unit`` is a value of the size of a plan's; a plan is not looked for from ``value`` on; ``report`` is called from
    time to time.
    """

    def __init__(
        self,
        problem: RunProblem,
        unit: float,
        gap: float,
        effort: Effort,
        value: float = math.inf,
        report: Callable[[BranchAndPrice], None] | None = None,
    ) -> None:
        self.problem, self.graphs, self.limits = problem, problem.graphs, problem.limits
        self.gap, self.effort, self.report = gap, effort, report
        self.master = RestrictedMaster(
            problem.graphs, problem.limits, unit, TUNING.artificial_cost, TUNING.column_memory, TUNING.most_counts
        )
        self.mask, self._given = problem.mask, problem.mask.copy()
        self.runs = problem.runs
        self.runs[0], self.runs[1] = 0, problem.most_runs
        #: The incumbent's value, and its nodes (G, E) if it is of this search.
        self.value = value
        self.plan: NodeArray | None = None
        self.open: list[tuple[float, int, _Open]] = []
        #: The least bound of the parts that are closed.
        self.pruned = math.inf
        #: The bound of the part to go on with, which is not among the open ones.
        self._next = math.inf
        self.branches = 0
        #: All plans, divided as far as the search came.
        self._alone = np.eye(1, 1 + problem.limits.size + self.runs[0].size)[0]
        self.root = Part(-math.inf, self._alone, charged=(self.runs.shape[2], 1 + problem.limits.size))
        self._number = 0
        #: Paths that were known when a choice was looked for last.
        self._combined = 0
        self._gains = Gains(problem.starts)
        self._near = Neighbourhoods(self.graphs.num_graphs)
        #: The weights by which the graphs were priced last under these masks, and their bound.
        self._weighed: tuple[FloatArray, float] | None = None

    @property
    def cutoff(self) -> float:
        """From here on a bound is as good as the incumbent."""
        slack = 0.9 * self.gap if self.gap > TUNING.usual_gap else TUNING.tie * self.gap
        return self.value * (1.0 - slack - ROUNDING) if self.value < math.inf else math.inf

    @property
    def bound(self) -> float:
        """What is proven so far."""
        return min(self.pruned, self._next, self.open[0][0] if self.open else math.inf, self.cutoff)

    def run(self, most: int) -> None:
        """Search until the gap is closed.

        Raises OutOfEffortError after ``most`` parts, or when time runs out; what is proven by then stands.
        """
        if not self._refresh():
            return
        self._requeue(_Open(self.root, np.packbits(self.mask), self.runs.copy(), self._copy_basis()))
        while self.open and self.open[0][0] < self.cutoff:
            problem: _Open | None = heapq.heappop(self.open)[2]
            while problem is not None:
                try:
                    if self.branches >= most:
                        raise OutOfEffortError("branches")
                    after = self._process(problem)
                except OutOfEffortError:
                    self._requeue(problem)
                    raise
                problem = after
                if problem is not None and self._is_far(problem):
                    self._requeue(problem)
                    problem = None
                self._next = math.inf if problem is None else problem.part.bound
                self.branches += 1
                if self.master.count >= self._combined * TUNING.pool_growth:
                    self._combined = self.master.count
                    self._combine()
                if self.plan is not None and self._near.parts < TUNING.share_near * self.branches - TUNING.parts_near:
                    self._search_near(self.plan)
                if self.branches % TUNING.parts_between_reports == 1 and self.report is not None:
                    self.report(self)

    def _is_far(self, problem: _Open) -> bool:
        """Whether what is proven gains more by the part of least bound than by going deeper into this one."""
        least = self.open[0][0] if self.open else problem.part.bound
        return problem.part.bound > least + TUNING.plunge * (self.cutoff - least)

    def _copy_basis(self) -> IntArray:
        return np.asarray(self.master.basis)[: self.master.size].copy()

    def _requeue(self, problem: _Open) -> None:
        self._number += 1
        heapq.heappush(self.open, (problem.part.bound, self._number, problem))

    def _refresh(self) -> bool:
        """Follow a change of the masks; return whether every graph can keep every limit of a kind."""
        self._weighed = None
        return self.graphs.refresh()

    def _generate(self, weight: float, cutoff: float) -> None:
        """Solve the master, with weight 1 or 0 of the values."""
        master = self.master
        master.begin(weight)
        ended, anew = 2, True
        while ended >= 2:  # columns are full, or there may be no time for further passes
            master.reserve()
            passes = master.passes
            self.effort.charge_pass()
            ended = master.generate(cutoff, TUNING.passes_between_looks, anew)
            self.effort.passes += master.passes - passes - 1
            anew = False

    def _solve(self) -> float:
        """Return the bound of the masks, from the master's basis on; infinite where nothing keeps the limits."""
        master = self.master
        self._generate(1.0, self.cutoff)
        for _ in range(3):
            if master.bound >= self.cutoff or master.count_penalised() <= TUNING.level:
                return master.bound
            self._generate(0.0, TUNING.lacking)
            if master.bound >= TUNING.lacking:
                return math.inf
            self._generate(1.0, self.cutoff)
        return master.bound

    def _process(self, problem: _Open) -> _Open | None:
        """Divide a part, or close it; return the side to go on with."""
        part = problem.part
        self.mask[:] = np.unpackbits(problem.closed, count=self.mask.size).reshape(self.mask.shape)
        self.runs[:] = problem.runs
        self._refresh()
        self.master.allow()
        self.master.bound_runs(self.runs)
        self.master.load(problem.basis)
        for _ in range(TUNING.fixing_rounds):
            bound = self._solve()
            self._try_plan()
            self._note(part, bound, np.asarray(self.master.best))
            if part.bound >= self.cutoff or not self._fix(part):
                break
            if not self._refresh():
                part.bound = math.inf
                break
            self.master.allow()
        if part.bound >= self.cutoff:
            self.pruned = min(self.pruned, part.bound)
            return None
        return self._branch(part)

    def _note(self, part: Part, bound: float, weights: FloatArray) -> None:
        """Take down what weights prove of the masks, by as few digits as do."""
        if bound <= part.bound:
            return
        cutoff = self.cutoff
        worth = self.problem.pay(weights, size=True)
        if bound < math.inf and worth > TUNING.most_worth * min(self.value, max(bound, self.master.unit)):
            return
        if bound == math.inf:  # no plan keeps the limits
            part.bound, part.weights = bound, self._prove_excess(weights)
            return
        for digits in TUNING.digits if bound >= cutoff else (TUNING.usual_digits,):
            rounded = round_to(weights, digits)
            total = self._weigh(rounded)
            if total >= cutoff:
                break
        if bound >= cutoff > total:
            rounded, total = weights.copy(), bound
        if total > part.bound:
            part.bound, part.weights = total, rounded

    def _prove_excess(self, weights: FloatArray) -> FloatArray:
        """Return weights (1 + L,) by which the limits are exceeded beyond their tolerance: of as few digits as do."""

        def exceed(by: FloatArray) -> float:
            return self._weigh(by) / max(self.problem.pay(by, size=True), 1e-300)

        rounded = (round_to(weights, digits) for digits in TUNING.digits)
        found = next((each for each in rounded if exceed(each) > 2.0 * LIMIT_TOLERANCE), None)
        # What exceeds limits by little more than the tolerance may be seen best in one of them.
        each = (weights.copy(), *np.eye(1 + self.limits.size, weights.size)[1:])
        return max(each, key=exceed) if found is None else found

    def _fix(self, part: Part) -> bool:
        """Close nodes by their reduced costs; return whether that was worth while."""
        if self.cutoff == math.inf or part.weights[0] != 1.0:
            return False
        room = self.cutoff * (1.0 + ROUNDING) - self._weigh(part.weights)
        least = np.asarray(self.graphs.least).tolist()
        before = int(self.mask.size - self.mask.sum())
        count = sum(self.graphs.fix_by_reduced_cost(g, part.weights, own + room) for g, own in enumerate(least))
        if count:
            part.fixes.append(part.weights)
        return count > TUNING.fixing_worth * before

    def _weigh(self, weights: FloatArray) -> float:
        """Return the bound of the masks by some weights."""
        if self._weighed is None or self._weighed[0] is not weights:
            least = [self.graphs.price(g, weights) for g in range(self.graphs.num_graphs)]
            self._weighed = weights, math.fsum(least) - self.problem.pay(weights)
        return self._weighed[1]

    def _levels(self) -> tuple[IntArray, FloatArray]:
        basis, levels = self._copy_basis(), np.asarray(self.master.levels)[: self.master.size]
        used = np.flatnonzero((basis >= 0) & (levels > TUNING.level))
        return basis[used], levels[used]

    def _try_plan(self) -> None:
        """Take the mixture as the incumbent where it is none, and keeps the masks or not."""
        columns, _ = self._levels()
        owner = np.asarray(self.master.owner)[columns]
        if np.array_equal(np.sort(owner), np.arange(self.graphs.num_graphs)):
            self._offer(columns[np.argsort(owner)])

    def _offer(self, columns: IntArray) -> None:
        value = math.fsum((np.asarray(self.master.value)[columns] * self.master.unit).tolist())
        used = np.asarray(self.master.entries)[columns].sum(axis=0)
        if value < self.value and is_within(used, np.ones(used.size)):
            self.value, self.plan = value, np.asarray(self.master.nodes)[columns].copy()

    def _combine(self) -> None:
        """Look for an incumbent among the paths known."""
        worth, unit = self.root.weights[1 : 1 + self.limits.size] * self.limits, self.master.unit
        chosen = choose_columns(self.master, worth / unit, self.value / unit)
        if chosen is not None:
            self._offer(chosen)

    def _search_near(self, plan: NodeArray) -> None:
        """Look for a better plan by a branch and price of its own in which few graphs may leave a plan's paths."""
        free = self._near.take(self.value)
        if free is None:
            return
        self.mask[:] = self._given
        for g, path in enumerate(plan):
            for j in range(0 if g in free else int(self.problem.starts[g + 1] - self.problem.starts[g])):
                self.problem.cut((g, j, int(path[j]), int(path[j]) + 1), within=True)
        search = BranchAndPrice(self.problem, self.master.unit, self.gap, self.effort, self.value)
        try:
            search.run(self._near.most_parts)
        except OutOfEffortError:  # where it was time that ran out, the next pass says so
            self._near.note_cut_short(free)
        self._near.parts += 1 + search.branches
        if search.plan is not None:
            self.value, self.plan = search.value, search.plan

    def _branch(self, part: Part) -> _Open | None:
        """Divide a part by the best of some divisions; return the side to go on with."""
        closed = self.mask.copy(), self.runs.copy()
        splits = self._list_splits()
        if not splits:
            self._end(part)
            return None
        split, found = self._try_splits(part, closed, splits)
        sides, problems = [], []
        for within, (value, weights, own) in zip((True, False), found, strict=True):
            self.mask[:], self.runs[:] = closed
            self.problem.cut(split, within=within)
            side = Part(part.bound, part.weights)
            sides.append(side)
            if self._refresh():
                self._note(side, value, weights)
            else:
                side.bound = math.inf
            if side.bound >= self.cutoff:
                self.pruned = min(self.pruned, side.bound)
            else:
                problems.append(_Open(side, np.packbits(self.mask), self.runs.copy(), own))
        part.split, part.sides = split, (sides[0], sides[1])
        problems.sort(key=lambda each: each.part.bound)
        for other in problems[1:]:
            self._requeue(other)
        return problems[0] if problems else None

    def _list_splits(self) -> list[Split]:
        """List some divisions of the mixture, those first of whose kind most was gained so far."""
        columns, levels = self._levels()
        owner, nodes = np.asarray(self.master.owner)[columns], np.asarray(self.master.nodes)[columns]
        # Columns that the masks forbid may be in the mixture, which says nothing about what the masks leave then.
        every = self.problem.list_splits(owner, nodes, levels)
        if self.branches >= TUNING.parts_by_masks:
            every = self.problem.list_counts(owner, np.asarray(self.master.runs)[columns], levels) + every
        known = filter(self.problem.divides, every)
        splits = list(islice(known, TUNING.divisions_considered)) or self.problem.list_any()
        return sorted(splits, key=self._gains.expect, reverse=True)

    def _try_splits(self, part: Part, closed: _State, splits: list[Split]) -> tuple[Split, list[_Side]]:
        """Return the division of the greatest product of gains, and its sides; of many, as far as trying pays."""
        basis, cutoff = self._copy_basis(), self.cutoff
        # A part of which rounding leaves nothing proven has the bound of none: values are never negative.
        bound = max(part.bound, 0.0)
        ceiling = min(cutoff, 2.0 * bound)
        best_score, best, in_vain = -1.0, None, 0
        for split in splits:
            in_vain += 1
            away = self._try_side(closed, split, basis, within=False)
            gain = max(min(away[0], ceiling) - bound, 1e-6 * bound)
            # This side mostly gains less: where that is too little, the other one need not be known.
            if best is None or gain * (ceiling - bound) > best_score**2:
                found = [self._try_side(closed, split, basis, within=True), away]
                gains = [max(min(found[0][0], ceiling) - bound, 1e-6 * bound), gain]
                score = math.sqrt(gains[0] * gains[1])
                self._gains.note(split, score)
                if score > best_score:
                    best_score, best, in_vain = score, (split, found), 0
                if min(gains) >= ceiling - bound:
                    break
            if in_vain == TUNING.divisions_in_vain:
                break
        assert best is not None
        return best

    def _end(self, part: Part) -> None:
        """Close a part of one plan, by its value or by the limit that it exceeds most."""
        total = math.fsum(self.graphs.price(g, self._alone) for g in range(self.graphs.num_graphs))
        used = np.asarray(self.graphs.sums)[:, 1:].sum(axis=0) / self.limits
        if is_within(used, np.ones(used.size)):
            if total < self.value:
                self.value, self.plan = total, np.array(self.graphs.path)
            part.bound, part.weights = total, self._alone
        else:
            part.bound = math.inf
            part.weights = np.eye(1, self._alone.size, 1 + int(used.argmax()))[0] / self.limits[used.argmax()]
        self.pruned = min(self.pruned, part.bound)

    def _try_side(self, closed: _State, split: Split, basis: IntArray, *, within: bool) -> _Side:
        """Return a side of a division, solved."""
        master = self.master
        self.mask[:], self.runs[:] = closed
        self.problem.cut(split, within=within)
        if not self._refresh():
            return math.inf, np.asarray(master.best).copy(), basis
        master.allow()
        master.bound_runs(self.runs)
        master.load(basis)
        self._generate(1.0, self.cutoff)
        return master.bound, np.asarray(master.best).copy(), self._copy_basis()
