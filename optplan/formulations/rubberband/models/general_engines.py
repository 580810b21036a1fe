"""RubberBand on general engines: budgeted paths in CP-SAT, and looking at every plan.

These are independent checks of the exact engine, and the answer to "what does a general solver make of it". CP-SAT
sees the graphs of :mod:`optplan.formulations.rubberband.models.bracket_graphs`, without minimum charges: its bound
holds with them all the same, its plan is judged with them, and where that leaves a gap it is reported.
Where minimum charges break a budget, the next cheaper plan is asked for until they do not; the bound stays that of the
first, and there may be no plan in the end although one exists. With clusters side by side each has its own graph under
a deadline; under a budget, the least time within which the sum of the cheapest plans keeps the budget is found by
halving.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from optplan.contracts.result import (
    Answer,
    BoundProof,
    EnumeratedCertificate,
    SolveRequest,
    Status,
    Termination,
    status_of,
)
from optplan.errors import EngineError
from optplan.formulations.rubberband.data.instance import Objective, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.exact.both_limits import keep_both
from optplan.formulations.rubberband.exact.bracket_choice import (
    PricedChain,
    choose_chains,
    find_least_plans,
    isolate_brackets,
    price_chain,
    price_plan,
    write_solution,
)
from optplan.formulations.rubberband.exact.chains import state_chains
from optplan.formulations.rubberband.exact.durations import growth
from optplan.formulations.rubberband.models.bracket_graphs import BracketGraph, bind_bracket, state_bracket
from optplan.formulations.rubberband.models.every_plan import list_undominated
from optplan.solvers import cpsat
from optplan.solvers.budgeted_paths import BudgetedPaths, PathsOutcome
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.effort import OutOfEffortError

#: How often the next cheaper plan is asked for because minimum charges break the budget.
_MOST_LOWERINGS = 200
#: What engines tell apart, relatively: more than their tolerance of the limit.
_RESOLUTION = 10 * LIMIT_TOLERANCE
#: By how much more than the limit an engine may have where it finds no plan within it, although there is one.
_ROOM = 1e-6
#: How often a time is halved; the gap that is asked for usually ends it before.
_MOST_HALVINGS = 100

_Engine = Callable[[BudgetedPaths, SolveRequest], PathsOutcome]


@keep_both
def solve_cp_sat(instance: RubberBandInstance, request: SolveRequest) -> Answer[RubberBandSolution]:
    """Solve in CP-SAT with costs rounded to integers; see :mod:`optplan.solvers.cpsat` for what that means.

    The bound is CP-SAT's word, for the real problem without minimum charges.

    Raises
    ------
    EngineError
        When CP-SAT fails.
    """
    return _solve(instance, request, cpsat.solve_cp_sat)


@keep_both
def solve_enumeration(instance: RubberBandInstance, request: SolveRequest) -> Answer[RubberBandSolution]:
    """Solve by looking at every plan, minimum charges included.

    Optimal; the bound is the objective. The time limit counts only before the plans are looked at.

    Raises
    ------
    UnsupportedError
        When there are too many plans.
    """
    least = find_least_plans(instance, request)
    if isinstance(least, Answer):
        return least
    if not least or request.stopwatch.expired:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    request.stopwatch.emit("enumeration")
    listed = [list_undominated(alone) for alone in isolate_brackets(instance)]
    # Exactly at the limit, sums in another order may be beyond it: what needs least keeps it all the same.
    chosen = choose_chains(instance, [candidates for candidates, _ in listed]) or least
    solution = write_solution(chosen)
    objective = price_plan(instance, chosen)
    certificate = _certify(instance, objective)
    return Answer(
        Status.OPTIMAL,
        Termination.COMPLETED,
        solution=solution,
        objective=objective,
        bound=objective,
        bound_proof=BoundProof.ENUMERATED,
        certificates=(certificate,),
        counters={"plans": float(sum(plans for _, plans in listed))},
    )


def _certify(instance: RubberBandInstance, optimum: float) -> EnumeratedCertificate:
    """Certify an optimum by the plans that lie between it and the best ones without the limit."""
    graphs = [chain.graph for chain in state_chains(instance)]
    if instance.objective is Objective.COST:
        least = math.fsum(float(graph.best_paths(np.zeros(1)).value[0]) for graph in graphs)
    else:
        least = max(float(graph.exchanged().best_paths(np.zeros(1)).value[0]) for graph in graphs)
    return EnumeratedCertificate(
        multipliers={instance.limit_name: 0.0},
        allowance=max(0.0, optimum - least),
        optimum=optimum,
        bound=optimum,
    )


@dataclass(frozen=True)
class _Found:
    """What an engine says of one bracket.

    ``chain`` is None without a plan, ``bound`` infinite where there can be none and zero where the engine has no bound,
    and ``usd`` the plan's cost without minimum charges.
    """

    chain: PricedChain | None
    bound: float
    usd: float


@dataclass
class _Run:
    """One solve: the brackets with their graphs, and what the engine's calls add up to.

    ``least`` has the plan of each bracket that needs least of the limit, and keeps it. ``has_charges`` says whether any
    plan that the engine found pays minimum charges.
    """

    instance: RubberBandInstance
    request: SolveRequest
    engine: _Engine
    least: tuple[PricedChain, ...]
    termination: Termination = Termination.COMPLETED
    counters: dict[str, float] = field(default_factory=dict)
    engine_name: str = "optplan"
    engine_version: str = ""
    has_charges: bool = False

    def __post_init__(self) -> None:
        self.brackets: list[tuple[RubberBandInstance, BracketGraph]] = [
            (alone, state_bracket(alone, self.request.stopwatch)) for alone in isolate_brackets(self.instance)
        ]

    def ask(self, bracket: int, limit: float, objective: Objective) -> _Found:
        """Ask the engine about one bracket: least cost within a time, or least time within a cost.

        What exceeds the limit by no more than the tolerance keeps it, and the engine is told so.
        """
        alone, graph = self.brackets[bracket]
        problem = bind_bracket(alone, graph, limit * (1.0 + LIMIT_TOLERANCE), objective)
        outcome = self.engine(problem, self.request)
        self.engine_name, self.engine_version = outcome.engine, outcome.engine_version
        for name, count in outcome.counters.items():
            self.counters[name] = self.counters.get(name, 0.0) + count
        if outcome.termination is not Termination.COMPLETED:
            self.termination = outcome.termination
        if outcome.status is Status.INFEASIBLE:
            return _Found(None, math.inf, math.inf)
        bound = max(0.0, outcome.bound or 0.0)
        if outcome.choice is None:
            return _Found(None, bound, math.inf)
        value, consumption = problem.totals(outcome.choice)
        if outcome.status is Status.OPTIMAL and abs(bound - value) <= LIMIT_TOLERANCE * value:
            bound = value  # the engine closed the gap; what is left is rounding on its own scale
        judged = price_chain(alone, graph.write(outcome.choice[0][0].columns))
        usd = value if objective is Objective.COST else float(consumption[0])
        self.has_charges |= judged.usd > usd * (1.0 + LIMIT_TOLERANCE)
        return _Found(judged, bound, usd)

    def ask_feasible(self, bracket: int, limit: float, objective: Objective) -> _Found:
        """Ask where a plan is known to be: an engine that sees none at the limit is given a little more room.

        Raises
        ------
        EngineError
            When it finds none there, either.
        """
        found = self.ask(bracket, limit, objective)
        if math.isinf(found.bound):
            found = self.ask(bracket, limit * (1.0 + _ROOM), objective)
        if math.isinf(found.bound):
            message = f"{self.engine_name} finds no plan within the {self.instance.limit_name}, although there is one"
            raise EngineError(message)
        return found

    def answer(self, chosen: list[PricedChain] | None, bound: float) -> Answer[RubberBandSolution]:
        """Write the answer; what is chosen keeps the limit."""
        solution = write_solution(chosen) if chosen is not None else None
        objective = price_plan(self.instance, chosen) if chosen is not None else None
        warnings: tuple[str, ...] = ()
        bound = bound if objective is None else min(bound, objective)
        status = status_of(objective, bound, self.request.gap)
        if status is not Status.OPTIMAL and self.has_charges and self.termination is Termination.COMPLETED:
            warnings = (f"{self.engine_name} does not see minimum charges, so its bound is without them",)
        return Answer(
            status,
            self.termination,
            solution=solution,
            objective=objective,
            bound=bound,
            bound_proof=BoundProof.ENGINE,
            counters=self.counters,
            engine=self.engine_name,
            engine_version=self.engine_version,
            warnings=warnings,
        )


def _solve(instance: RubberBandInstance, request: SolveRequest, engine: _Engine) -> Answer[RubberBandSolution]:
    least = find_least_plans(instance, request)
    if isinstance(least, Answer):
        return least
    if not least or request.stopwatch.expired:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    try:
        run = _Run(instance, request, engine, least)
    except OutOfEffortError:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    if instance.objective is Objective.COST:
        return _find_cheapest(run, instance.limits[instance.limit_name])
    if len(run.brackets) == 1:
        return _find_fastest(run, instance.limits[instance.limit_name])
    return _halve_time(run, instance.limits[instance.limit_name])


def _find_cheapest(run: _Run, deadline_s: float) -> Answer[RubberBandSolution]:
    """Ask for the cheapest plan of each bracket within the deadline."""
    found = [run.ask_feasible(bracket, deadline_s, Objective.COST) for bracket in range(len(run.brackets))]
    most_s = deadline_s * (1.0 + LIMIT_TOLERANCE)
    # Engines have tolerances of their own: where theirs lets a plan pass that is late, the fastest takes its place.
    chosen = [
        least if one.chain is not None and one.chain.seconds > most_s else one.chain
        for one, least in zip(found, run.least, strict=True)
    ]
    complete = [chain for chain in chosen if chain is not None]
    return run.answer(complete if len(complete) == len(chosen) else None, math.fsum(each.bound for each in found))


def _ask_all(run: _Run, deadline_s: float) -> tuple[list[PricedChain] | None, float]:
    """Return the cheapest plan of every bracket within a time, None where one has none, and the sum of the bounds."""
    found = [run.ask(bracket, deadline_s, Objective.COST) for bracket in range(len(run.brackets))]
    chosen = [each.chain for each in found if each.chain is not None]
    return (chosen if len(chosen) == len(found) else None), math.fsum(each.bound for each in found)


def _find_fastest(run: _Run, budget_usd: float) -> Answer[RubberBandSolution]:
    """Ask for the fastest plan of the one bracket; while minimum charges break the budget, for the next cheaper one."""
    found = run.ask_feasible(0, budget_usd, Objective.TIME)
    bound, most_usd = found.bound, budget_usd * (1.0 + LIMIT_TOLERANCE)
    for _ in range(_MOST_LOWERINGS):
        if found.chain is None or found.chain.usd <= most_usd or run.request.stopwatch.expired:
            break
        found = run.ask(0, found.usd * (1.0 - _RESOLUTION), Objective.TIME)
    fits = found.chain is not None and found.chain.usd <= most_usd
    # Where no other is found that does, the cheapest plan of all keeps the budget.
    return run.answer([found.chain if found.chain is not None and fits else run.least[0]], bound)


def _halve_time(run: _Run, budget_usd: float) -> Answer[RubberBandSolution]:
    """Find the least time within which the sum of the brackets' cheapest plans keeps the budget.

    The bound is the longest time within which even the sum of the bounds exceeds it. A time of which neither is known
    is taken for too short, and proves nothing.
    """
    most_usd = budget_usd * (1.0 + LIMIT_TOLERANCE)
    bound = low = 0.0
    high = max(_longest_s(alone, graph) for alone, graph in run.brackets)
    best, middle = list(run.least), high
    for _ in range(_MOST_HALVINGS):
        chosen, least_usd = _ask_all(run, middle)
        if chosen is not None and math.fsum(each.usd for each in chosen) <= most_usd:
            best, high = chosen, max(each.seconds for each in chosen)
        else:
            low = middle
            bound = middle if least_usd > most_usd else bound
        if high - low <= max(run.request.gap, _RESOLUTION) * high or run.request.stopwatch.expired:
            break
        middle = 0.5 * (low + high)
    if high - bound <= _RESOLUTION * high:
        bound = high  # engines do not tell times within the tolerance of the deadline apart
    return run.answer(best, bound)


def _longest_s(alone: RubberBandInstance, graph: BracketGraph) -> float:
    """Return a time that no plan of a bracket exceeds."""
    running_s = np.where(graph.gpus > 0, graph.seconds, 0.0).max(axis=1).sum()
    growing_s = growth(alone, 0, int(graph.held.max()))[0] * len(graph.gpus)
    return float(running_s + growing_s)
