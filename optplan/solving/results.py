"""What a solver says as a result: figures from the evaluator, the status by its gap, and the events of its solve."""

from __future__ import annotations

import math

import optplan
from optplan.contracts import (
    Answer,
    EnumeratedCertificate,
    Instance,
    Result,
    Solution,
    SolveRequest,
    Termination,
    Verification,
)
from optplan.contracts.registry import Formulation
from optplan.contracts.result import OPTIMAL_GAP, BoundProof, SolveEvent, status_of
from optplan.progress import Event, Listener

#: Events that a result keeps of its solve; beyond that, every other one goes.
_MOST_EVENTS = 1000


def assemble_result(
    formulation: Formulation,
    instance: Instance,
    solver: str,
    request: SolveRequest,
    answer: Answer[Solution],
    seconds: float,
    trajectory: Trajectory,
) -> Result[Solution]:
    """Make the result; objective and measures come from the evaluator, the status from the gap that they leave."""
    objective, measures, status = None, {}, answer.status
    demand: dict[str, float] = {}
    if answer.solution is not None:
        evaluation = formulation.evaluate(instance, answer.solution)
        if not math.isfinite(evaluation.objective):  # decisions too broken to evaluate; the checks say how
            Verification(checks=evaluation.checks).require()
        objective, measures = evaluation.objective, evaluation.measures
        status = status_of(objective, answer.bound, min(request.gap, OPTIMAL_GAP), instance.sense)
        if formulation.declares("forecast_demand"):
            demand = formulation.forecast_demand(instance, answer.solution, ())
    evidence = {}
    if formulation.declares("share_evidence"):
        evidence = formulation.share_evidence(instance, answer.solution)
    out_of_time = answer.termination is Termination.TIME_LIMIT
    result: Result[Solution] = formulation.result_type()(
        **instance.origin(),
        solver=solver,
        engine=answer.engine,
        engine_version=answer.engine_version or optplan.__version__,
        optplan_version=optplan.__version__,
        status=status,
        # For solvers an interruption is the end of their time.
        termination=Termination.INTERRUPTED if out_of_time and request.stopwatch.interrupted else answer.termination,
        objective=objective,
        objective_unit=instance.objective_unit,
        sense=instance.sense,
        bound=answer.bound,
        gap_target=request.gap,
        bound_proof=answer.bound_proof,
        certificates=answer.certificates,
        solution=answer.solution,
        infeasibility=answer.infeasibility,
        shadow_prices=answer.shadow_prices,
        measures=measures,
        demand=demand,
        evidence=evidence,
        seed=request.seed,
        solve_seconds=seconds,
        counters=answer.counters,
        warnings=(*instance.cautions, *answer.warnings),
        events=trajectory.end(seconds, objective, answer.bound),
    )
    return result


def rest_on_search(result: Result[Solution]) -> Result[Solution]:
    """Return the result without enumerations of which the judge cannot list what they leave: it trusts the search."""
    kept = tuple(each for each in result.certificates if not isinstance(each, EnumeratedCertificate))
    return result.replace(certificates=kept, bound_proof=BoundProof.SEARCHED)


class Trajectory:
    """Passes events on to a listener, and keeps those in which objective or bound is another than before."""

    def __init__(self, listener: Listener | None) -> None:
        self._listener = listener
        self._events: list[SolveEvent] = []

    def listen(self, event: Event) -> None:
        """Keep an event if it says something new."""
        self._keep(event.stage, event.elapsed_s, event.objective, event.bound)
        if self._listener is not None:
            self._listener(event)

    def end(self, elapsed_s: float, objective: float | None, bound: float | None) -> tuple[SolveEvent, ...]:
        """Return what was kept, the end of it what the result says."""
        self._keep("result", elapsed_s, objective, bound)
        return tuple(self._events)

    def _keep(self, stage: str, elapsed_s: float, objective: float | None, bound: float | None) -> None:
        last = self._events[-1] if self._events else SolveEvent(stage="", elapsed_s=0.0)
        # What an event does not mention is what it was; an infinity is no news.
        objective = objective if objective is not None and math.isfinite(objective) else last.objective
        bound = bound if bound is not None and math.isfinite(bound) else last.bound
        if (objective, bound) != (last.objective, last.bound):
            self._events.append(SolveEvent(stage=stage, elapsed_s=elapsed_s, objective=objective, bound=bound))
            if len(self._events) > _MOST_EVENTS:
                del self._events[1:-1:2]
