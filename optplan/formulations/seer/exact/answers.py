"""From chosen plans to SEER's answers: status, bound and what it rests on, warnings."""

from __future__ import annotations

from optplan.contracts.instance import Sense
from optplan.contracts.judgement import Evaluation
from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination, closes_gap
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.data.search_space import describe_shortage
from optplan.formulations.seer.judge.duality import certify_budget
from optplan.formulations.seer.judge.evaluation import TOLERANCE, evaluate


def answer_with(
    instance: SeerInstance,
    request: SolveRequest,
    solution: SeerSolution,
    *,
    bound: float | None = None,
    proof: BoundProof = BoundProof.SEARCHED,
    termination: Termination = Termination.COMPLETED,
    counters: dict[str, float] | None = None,
    engine: tuple[str, str] = ("optplan", ""),
) -> Answer[SeerSolution]:
    """Make the answer for a solution.

    Parameters
    ----------
    instance, request, solution
        The problem, what was asked, and what was found.
    bound, proof
        GPU-minutes of training that no search can exceed, and what that rests on. None stands for the budget: no search
        trains for more than it may spend, and a multiplier of one on the budget certifies that
        (:mod:`optplan.formulations.seer.judge.duality`). A bound that is no lower rests on the same.
    termination, counters, engine
        As in the answer; the engine with its version.
    """
    evaluation = evaluate(instance, solution)
    objective = evaluation.objective
    budget = instance.budget_gpu_min
    limit = budget if bound is None else min(bound, budget)
    by_budget = limit >= budget * (1 - TOLERANCE)
    if limit < objective <= limit * (1 + TOLERANCE):  # by rounding; anything more is for the judge to find
        limit = objective
    closed = closes_gap(objective, limit, request.gap, Sense.MAXIMISE)
    return Answer(
        status=Status.OPTIMAL if closed else Status.FEASIBLE,
        termination=termination,
        solution=solution,
        objective=objective,
        bound=limit,
        bound_proof=BoundProof.LAGRANGIAN if by_budget else proof,
        certificates=(certify_budget(instance),) if by_budget else (),
        counters=counters or {},
        engine=engine[0],
        engine_version=engine[1],
        warnings=_warn(instance, solution, evaluation.measures),
    )


def sampled_answer(
    instance: SeerInstance,
    solution: SeerSolution,
    judged: Evaluation,
    *,
    notes: tuple[str, ...] = (),
    termination: Termination = Termination.COMPLETED,
    counters: dict[str, float] | None = None,
) -> Answer[SeerSolution]:
    """Make the answer for a solution whose objective is sampled: nothing bounds it.

    Parameters
    ----------
    instance, solution, judged
        The problem, what was found, and the judge's figures.
    notes
        What to say besides the usual warnings.
    termination, counters
        As in the answer.
    """
    return Answer(
        status=Status.FEASIBLE,
        termination=termination,
        solution=solution,
        objective=judged.objective,
        counters=counters or {},
        warnings=(*notes, *_warn(instance, solution, judged.measures)),
    )


def _warn(instance: SeerInstance, solution: SeerSolution, measures: dict[str, float]) -> tuple[str, ...]:
    """Say where the search space is smaller than the plan, and where whole nodes cost more than the budget."""
    warnings = [describe_shortage(instance.search_space, sum(bracket.trials[0] for bracket in solution.brackets))]
    held = measures.get("node_gpu_min", 0.0)
    if held > instance.budget_gpu_min * (1 + TOLERANCE):
        warnings.append(
            f"gpus_per_node: whole nodes of {instance.gpus_per_node} GPUs take {held:.6g} GPU-minutes, more than the "
            f"budget of {instance.budget_gpu_min:.6g}, which counts the GPUs that trials hold"
        )
    return tuple(warning for warning in warnings if warning)
