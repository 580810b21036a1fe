"""The cheapest plan that keeps the deadline with a given probability (design 4.5).

Labels carry a cost and a distribution of the time so far, on a grid; one dominates another when it costs no more and is
at every time at least as likely to be done. With times rounded down the cheapest label bounds every plan from below;
plans themselves are judged by their exact distribution. The grid is refined until both meet or a limit is met.
"""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts.result import (
    Answer,
    BoundProof,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
    closes_gap,
    status_of,
)
from optplan.formulations.rubberband.data.instance import DEADLINE, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.data.rules import LABELS
from optplan.formulations.rubberband.exact.chains import Chain, state_chain, write_solution
from optplan.formulations.rubberband.exact.chance.grid_times import GridTimes, list_all_options
from optplan.formulations.rubberband.exact.chance.least_deadlines import POINTS, is_too_early, refuse
from optplan.formulations.rubberband.exact.chance.time_labels import TimedPlans, find_timed_plans
from optplan.formulations.rubberband.exact.durations import find_chance
from optplan.formulations.rubberband.exact.held_paths import solve_one_limit
from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths.effort import Effort, OutOfEffortError
from optplan.solvers.paths.held import HeldShortfall, solve_held

#: Grid points of the rounds.
_GRIDS = (64, 128, 256, 512, 1024, 2048)
#: Labels that a round may keep.
_MOST_LABELS = 60_000
#: Halvings of the expected time within which a first plan is sought.
_HALVINGS = 12
#: Candidates of a round that are judged exactly.
_JUDGED = 40
#: By how much a plan's probability may fall short of the confidence, and by how much that of plans that a bound leaves
#: out falls short at least. Between them lies what the judge allows, 1e-6, and what its grids may differ from these.
_SHORT_OF, _LEFT_OUT = 0.5e-6, 1.5e-6
#: Points of a grid that shows nothing but that no plan costs less than the cheapest.
_LEAST_POINTS = 2


def solve_confident_deadline(instance: RubberBandInstance, request: SolveRequest) -> Answer[RubberBandSolution]:
    """Find the plan of least expected cost whose completion keeps the deadline with the instance's confidence.

    Parameters
    ----------
    instance
        With a deadline and a confidence, and no ceiling of the cost.

    Returns
    -------
    Answer
        The bound has a tree as its certificate: on its grid, no plan that could be cheaper is on time often enough with
        all times rounded down. Infeasible where that holds at any cost.
        Where nothing varies, it is the answer of
        :func:`~optplan.formulations.rubberband.exact.held_paths.solve_one_limit`.

    Raises
    ------
    UsageError
        When the instance has no deadline.
    """
    if not instance.is_random:
        return solve_one_limit(instance, request)
    try:
        brackets = range(len(instance.brackets))
        chains = tuple(
            state_chain(instance, bracket, list_all_options, stopwatch=request.stopwatch) for bracket in brackets
        )
    except OutOfEffortError:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    search = _Search(instance, chains, request)
    stopped_by = None
    try:
        search.start()
        if search.solution is None and search.is_hopeless():
            return refuse(instance, chains, search.counted, POINTS, request)
        for points in _GRIDS:
            search.refine(points)
            if search.closed or search.bound == math.inf:
                break
    except OutOfEffortError as stop:
        stopped_by = stop.limit
    if search.bound == math.inf:
        return refuse(instance, chains, search.counted, search.points, request)
    bound = min(search.bound, search.usd)
    certificate = TreeCertificate(rule=LABELS, bound=bound, content={"points": search.points})
    return conclude(search.solution, search.usd, certificate, request, stopped_by, {"labels": float(search.labels)})


class _Search:
    """The best plan so far, and the best bound."""

    def __init__(self, instance: RubberBandInstance, chains: tuple[Chain, ...], request: SolveRequest) -> None:
        self.instance = instance
        self.chains = chains
        self.request = request
        self.deadline_s = instance.limits[DEADLINE]
        self.wanted = (instance.confidence or 0.0) - _SHORT_OF
        #: The probability below which plans do not count.
        self.counted = (instance.confidence or 0.0) - _LEFT_OUT
        #: The best plan so far that is on time often enough, and its cost; infinite without one.
        self.solution: RubberBandSolution | None = None
        self.usd = math.inf
        # Minimum charges only add; and without a deadline nothing is cheaper.
        self.bound = math.fsum(float(chain.graph.best_paths(np.zeros(1)).value[0]) for chain in chains)
        self.points = _LEAST_POINTS
        self.labels = 0

    @property
    def closed(self) -> bool:
        """Whether the wanted gap is reached."""
        return self.solution is not None and closes_gap(self.usd, self.bound, self.request.gap)

    def is_hopeless(self) -> bool:
        """Whether it is certain that no plan is on time often enough."""
        effort = Effort(self.request.stopwatch, max_labels=_MOST_LABELS)
        try:
            return is_too_early(self.instance, self.chains, self.deadline_s, self.counted, effort)
        except OutOfEffortError as stop:
            if stop.limit == "time":
                raise
            return False

    def start(self) -> None:
        """Find a first plan: the cheapest within an expected time that leaves enough room, by halving."""
        low, high = 0.0, self.deadline_s * 2.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            if self._try_within(middle):
                low = middle
            else:
                high = middle
        self._report()

    def _try_within(self, expected_s: float) -> bool:
        """Offer the cheapest plan within an expected time; say whether it is on time often enough."""
        paths = []
        for chain in self.chains:
            effort = Effort(self.request.stopwatch)
            found = solve_held(chain.graph, expected_s, gap=1e-3, effort=effort, charges=chain.charges)
            if isinstance(found, HeldShortfall):
                return True  # so fast is no plan: look at slower ones
            if found.options is not None:
                paths.append(found.options)
        return len(paths) == len(self.chains) and self.offer(paths)

    def offer(self, paths: list[IntArray]) -> bool:
        """Judge a plan exactly; take it when it keeps the deadline often enough and is cheaper."""
        solution = write_solution(self.chains, paths)
        plans = [([one.instances for one in chain], [one.gpus for one in chain]) for chain in solution.brackets]
        if find_chance(self.instance, plans) < self.wanted:
            return False
        usd = math.fsum(_price(chain, path) for chain, path in zip(self.chains, paths, strict=True))
        if usd < self.usd:
            self.solution, self.usd = solution, usd
        return True

    def refine(self, points: int) -> None:
        """Label all plans that could be cheaper on a grid, rounded down: improve the bound, then the plan."""
        cheapest = [float(chain.graph.best_paths(np.zeros(1)).value[0]) for chain in self.chains]
        plans = []
        for number, chain in enumerate(self.chains):
            effort = Effort(self.request.stopwatch, max_labels=_MOST_LABELS)
            most_usd = self.usd - (math.fsum(cheapest) - cheapest[number])
            times = GridTimes(self.instance, number, chain, self.deadline_s, points, effort, most_usd)
            plans.append(find_timed_plans(times, most_usd, self.counted, effort))
            self.labels += effort.labels
        chosen, usd = _combine(plans, self.counted)
        bound = min(float(usd.min(initial=math.inf)), self.usd)
        if bound > self.bound:
            self.bound, self.points = bound, points
        for row in range(min(_JUDGED, usd.size)):
            if usd[row] >= self.usd:
                break
            self.offer([some.options[place] for some, place in zip(plans, chosen[row].tolist(), strict=True)])
        self._report()

    def _report(self) -> None:
        self.request.stopwatch.emit("grid", objective=None if self.solution is None else self.usd, bound=self.bound)


def conclude(
    solution: RubberBandSolution | None,
    objective: float,
    certificate: TreeCertificate,
    request: SolveRequest,
    stopped_by: str | None,
    counters: dict[str, float],
) -> Answer[RubberBandSolution]:
    """Answer with the best plan that a search of probabilities has found, and the certificate of its bound."""
    found = None if solution is None else objective
    status = status_of(found, certificate.bound, request.gap)
    ended = Termination.COMPLETED if status is Status.OPTIMAL else Termination.WORK_LIMIT
    return Answer(
        status=status,
        termination=Termination.TIME_LIMIT if stopped_by == "time" else ended,
        solution=solution,
        objective=found,
        bound=certificate.bound,
        bound_proof=BoundProof.TREE if request.certify else BoundProof.SEARCHED,
        certificates=(certificate,) if request.certify else (),
        counters=counters,
    )


def _price(chain: Chain, path: IntArray) -> float:
    """Return the expected cost of a bracket's path, minimum charges included."""
    usd = float(chain.graph.follow(path[None]).value[0])
    return usd if chain.charges is None else usd + float(chain.charges.settle(path[None])[0][0])


def _combine(plans: list[TimedPlans], wanted: float) -> tuple[IntArray, FloatArray]:
    """Choose one plan per bracket so that all together are on time often enough: positions (P, B), costs (P,).

    Clusters are independent, so their probabilities multiply. By increasing cost.
    """
    chosen, usd, chance = np.zeros((1, 0), dtype=np.int64), np.zeros(1), np.ones(1)
    for some in plans:
        left, right = (g.ravel() for g in np.meshgrid(np.arange(usd.size), np.arange(some.usd.size), indexing="ij"))
        chosen = np.column_stack([chosen[left], right])
        usd, chance = usd[left] + some.usd[right], chance[left] * some.chance[right]
        order = np.lexsort((-chance, usd))
        order = order[chance[order] >= wanted]
        # What costs no more and is on time as often makes others superfluous.
        order = order[chance[order] > np.append(-1.0, np.maximum.accumulate(chance[order]))[:-1]]
        chosen, usd, chance = chosen[order], usd[order], chance[order]
    return chosen, usd
