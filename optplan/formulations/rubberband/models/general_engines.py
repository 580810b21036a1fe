"""RubberBand on general engines: the declarative model in HiGHS and CP-SAT, and looking at every plan.

These are independent checks of the exact engine, and the answer to "what does a general solver make of it". The model
leaves out minimum charges, so that its bound holds with them all the same. Plans are priced with them. Where they break
a budget, the next cheaper plan is asked for some times, and then the least time found by halving within which the
cheapest plan keeps the budget; the bound stays that of the first solve, and there may be a better plan. Enumeration
looks at any instances held in any stage, with any allocation worth considering on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyomo.environ as pyo

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
from optplan.formulations.rubberband.data.instance import (
    BUDGET,
    Objective,
    RubberBandInstance,
    RubberBandSolution,
    StageAllocation,
)
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
from optplan.formulations.rubberband.exact.costs import growth, stage_options
from optplan.formulations.rubberband.models.statement import state_model
from optplan.solvers.layered_graphs import refuse_to_enumerate
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.search import OutOfEffortError
from optplan.solvers.programs.program import ProgramOutcome
from optplan.solvers.programs.statement import CP_SAT, HIGHS, Statement, run_engine

#: Plans that are refused, one after another, because minimum charges or the engine's tolerance break a limit.
_MOST_REFUSED = 10
#: What engines tell apart, relatively: more than their tolerance of the limit.
_RESOLUTION = 10 * LIMIT_TOLERANCE

#: Has an engine solve the model as it is now; the variables get the values of the best that it finds.
_Ask = Callable[[], ProgramOutcome]


def _solve(instance: RubberBandInstance, request: SolveRequest, engine: str) -> Answer[RubberBandSolution]:
    least = find_least_plans(instance, request)
    if isinstance(least, Answer):
        return least
    if not least or request.stopwatch.expired:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    try:
        statement = state_model(instance, every=False, stopwatch=request.stopwatch)
    except OutOfEffortError:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    # What is beyond the limit by its whole tolerance is to be seen, too; what is further beyond is refused.
    scaling = replace(statement.scaling, slack=LIMIT_TOLERANCE)
    if engine == CP_SAT:  # what is changed to is a whole number where what is held is
        for change in statement.native.y.values():
            change.domain = pyo.Binary
    ask = partial(run_engine, statement.native, engine, request, scaling)
    first, chosen, refused = _search(instance, request, statement, ask, list(least))
    if first.status is Status.INFEASIBLE:
        raise EngineError(f"{first.engine} finds no plan within the {instance.limit_name}, although there is one")
    return _answer(instance, request, first, chosen, refused)


#: The declarative model in HiGHS, and in CP-SAT: their word is the bound, of the cost without minimum charges; see
#: :mod:`optplan.solvers.programs.cpsat` for what rounding costs.
solve_highs = keep_both(partial(_solve, engine=HIGHS))
solve_cp_sat = keep_both(partial(_solve, engine=CP_SAT))


def _search(
    instance: RubberBandInstance, request: SolveRequest, statement: Statement, ask: _Ask, least: list[PricedChain]
) -> tuple[ProgramOutcome, list[PricedChain] | None, int]:
    """Return what the engine says first, a plan within the limit, or else the leanest, and how many before it."""
    first = ask()
    if first.values is None:
        return first, None, 0
    first = _close(first, pyo.value(statement.native.least.expr))
    for refused in range(_MOST_REFUSED):
        chosen = _read(instance, statement)
        if _keeps_limit(instance, chosen):
            return first, chosen, refused
        _refuse(instance, statement)
        if ask().values is None:
            break
    if instance.objective is Objective.TIME:
        least = _halve_time(instance, request, statement, ask, least)
    return first, least, refused + 1


def _refuse(instance: RubberBandInstance, statement: Statement) -> None:
    """Forbid the plan that the variables have, where costs are limited with all that are no cheaper."""
    model = statement.native
    if instance.objective is Objective.COST:
        statement.cut_off()
    else:
        model.component(BUDGET).set_value(model.cost_usd <= pyo.value(model.cost_usd) * (1.0 - _RESOLUTION))


def _read(instance: RubberBandInstance, statement: Statement) -> list[PricedChain]:
    solution: Any = statement.read()
    brackets = zip(isolate_brackets(instance), solution.brackets, strict=True)
    return [price_chain(one, chain) for one, chain in brackets]


def _halve_time(
    instance: RubberBandInstance, request: SolveRequest, statement: Statement, ask: _Ask, best: list[PricedChain]
) -> list[PricedChain]:
    """Return the plan of the least time found within which the cheapest plan keeps the budget, or the best known."""
    model = statement.native
    low, high = 0.0, price_plan(instance, best)
    model.component(BUDGET).deactivate()
    model.least.deactivate()
    model.cheapest = pyo.Objective(expr=model.cost_usd)
    while high - low > max(request.gap, _RESOLUTION) * high and not request.stopwatch.expired:
        middle = 0.5 * (low + high)
        model.longest_s.setub(middle)
        found = None if ask().values is None else _read(instance, statement)
        if found is not None and _keeps_limit(instance, found):
            best, high = found, min(middle, price_plan(instance, found))
        else:
            low = middle
    return best


def _close(outcome: ProgramOutcome, value: float) -> ProgramOutcome:
    """Take what is left of a gap that the engine has closed for rounding on its own scale."""
    if outcome.status is not Status.OPTIMAL or outcome.bound is None:
        return outcome
    return replace(outcome, bound=value) if abs(outcome.bound - value) <= LIMIT_TOLERANCE * abs(value) else outcome


def _keeps_limit(instance: RubberBandInstance, chosen: list[PricedChain]) -> bool:
    return choose_chains(instance, [[one] for one in chosen]) is not None


def _answer(
    instance: RubberBandInstance,
    request: SolveRequest,
    first: ProgramOutcome,
    chosen: list[PricedChain] | None,
    refused: int,
) -> Answer[RubberBandSolution]:
    objective = None if chosen is None else price_plan(instance, chosen)
    bound = max(0.0, first.bound or 0.0)
    bound = bound if objective is None else min(bound, objective)
    status = status_of(objective, bound, request.gap)
    warnings: tuple[str, ...] = ()
    if status is not Status.OPTIMAL and instance.has_minimum_charges and first.termination is Termination.COMPLETED:
        warnings = (f"{first.engine} does not see minimum charges, so its bound is without them",)
    return Answer(
        status,
        first.termination,
        solution=None if chosen is None else write_solution(chosen),
        objective=objective,
        bound=bound,
        bound_proof=BoundProof.ENGINE,
        counters=dict(first.counters) | {"refused": float(refused)},
        engine=first.engine,
        engine_version=first.engine_version,
        warnings=warnings,
    )


@keep_both
def solve_enumeration(instance: RubberBandInstance, request: SolveRequest) -> Answer[RubberBandSolution]:
    """Solve by looking at every plan, :data:`MAX_PLANS` at most; the time limit counts only before that."""
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


#: Most plans of a bracket that are looked at: a few arrays of this length are the working set.
MAX_PLANS = 2_000_000


def list_undominated(alone: RubberBandInstance) -> tuple[list[PricedChain], int]:
    """List the plans of one bracket that no other beats in time and cost, the fastest first, and count all plans."""
    cloud, offered = alone.cloud, [stage_options(alone, 0, stage) for stage in range(len(alone.brackets[0]))]
    counts = np.arange(1, max(int(options.instances.max()) for options in offered) + 1)
    # By stage, of each choice: the place of the instances held among the counts, and the row of the option.
    choices = [np.nonzero(options.instances <= counts[:, None]) for options in offered]
    sizes = tuple(row.size for _, row in choices)
    if math.prod(sizes) > MAX_PLANS:
        raise refuse_to_enumerate(MAX_PLANS, math.prod(sizes), what="plans")
    # Time and cost (N,) of every plan, minimum charges left out; plans count choices like digits.
    before, seconds, usd = np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1)
    for options, (which, row) in zip(offered, choices, strict=True):
        held, stage_s = counts[which], options.expected_s[row]
        paid_s = held * stage_s if cloud.is_per_instance else options.busy_gpu_s[row] / cloud.gpus_per_instance
        grown_s, grown_usd = growth(alone, before[:, None], held)
        seconds = (seconds[:, None] + grown_s + stage_s).ravel()
        usd = (usd[:, None] + grown_usd + cloud.price_usd_per_s * paid_s).ravel()
        before = np.tile(held, before.size)
    kept: list[PricedChain] = []
    least_usd = math.inf
    for number in np.lexsort((usd, seconds)).tolist():
        if usd[number] < least_usd:  # minimum charges only add to it
            picked = list(zip(offered, choices, np.unravel_index(number, sizes), strict=True))
            instances = [int(counts[which[place]]) for _, (which, _), place in picked]
            gpus = [int(options.gpus[row[place]]) for options, (_, row), place in picked]
            chain = StageAllocation.of_stages(instances, gpus)
            judged = price_chain(alone, chain)
            if judged.usd < least_usd:
                kept.append(judged)
                least_usd = judged.usd
    return kept, math.prod(sizes)
