"""From chosen plans to SEER's answers: status, bound and what it rests on, warnings."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts.instance import Sense
from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination, TreeCertificate, status_of
from optplan.formulations.seer.data.brackets import SHORTFALL
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.data.search_space import describe_shortage
from optplan.formulations.seer.exact.certificates import certify_budget
from optplan.formulations.seer.laws.nodes import count_nodes
from optplan.formulations.seer.laws.rounds import list_rounds


def answer_with(
    instance: SeerInstance,
    request: SolveRequest,
    solution: SeerSolution,
    *,
    bound: float | None = None,
    proof: BoundProof | TreeCertificate = BoundProof.SEARCHED,
    termination: Termination = Termination.COMPLETED,
    counters: dict[str, float] | None = None,
    engine: tuple[str, str] = ("optplan", ""),
) -> Answer[SeerSolution]:
    """Make the answer for a solution.

    ``bound`` is GPU-minutes of training that no search can exceed, and ``proof`` what that rests on. None stands for
    the budget: no search trains for more than it may spend, and a multiplier of one on the budget certifies that. A
    bound that is no lower rests on the same.
    """
    objective = training_of(instance, solution)
    budget = instance.budget_gpu_min
    limit = budget if bound is None else min(bound, budget)
    by_budget = limit >= budget * (1 - SHORTFALL)
    if limit < objective <= limit * (1 + SHORTFALL):  # by rounding; anything more is for the judge to find
        limit = objective
    rests_on = certify_budget(instance) if by_budget else proof
    kind, certificates = (
        (rests_on, ()) if isinstance(rests_on, BoundProof) else (BoundProof(rests_on.form), (rests_on,))
    )
    return Answer(
        status=status_of(objective, limit, request.gap, Sense.MAXIMISE),
        termination=termination,
        solution=solution,
        objective=objective,
        bound=limit,
        bound_proof=kind,
        certificates=certificates,
        counters=counters or {},
        engine=engine[0],
        engine_version=engine[1],
        warnings=_warn(instance, solution),
    )


def sampled_answer(
    instance: SeerInstance,
    solution: SeerSolution,
    loss: float,
    *,
    notes: tuple[str, ...] = (),
    termination: Termination = Termination.COMPLETED,
    counters: dict[str, float] | None = None,
) -> Answer[SeerSolution]:
    """Make the answer for a solution whose objective is sampled: nothing bounds it, so it proves nothing."""
    return Answer(
        status=Status.FEASIBLE,
        termination=termination,
        solution=solution,
        objective=loss,
        counters=counters or {},
        warnings=(*notes, *_warn(instance, solution)),
    )


def training_of(instance: SeerInstance, solution: SeerSolution) -> float:
    """Return the GPU-minutes that a solution trains for: sum over i of P_i t_1 sum over k of eta^(k-1) n(i,k)."""
    return sum(each.gpus * solution.round_min * _weigh(each.trials, instance.eta) for each in solution.brackets)


def _weigh(trials: Sequence[int], eta: float) -> float:
    return sum(number * eta**k for k, number in enumerate(trials))


def _warn(instance: SeerInstance, solution: SeerSolution) -> tuple[str, ...]:
    """Say where the search space is smaller than the plan, and where whole nodes cost more than the budget."""
    warnings = [describe_shortage(instance.search_space, sum(bracket.trials[0] for bracket in solution.brackets))]
    per_node, held = instance.gpus_per_node, 0.0
    if per_node is not None and instance.nodes_paid is None:
        rounds = list_rounds(instance, solution)
        held = per_node * sum(count_nodes(per_node, each.groups) * each.duration_min for each in rounds)
    if held > instance.budget_gpu_min * (1 + SHORTFALL):
        warnings.append(
            f"gpus_per_node: whole nodes of {instance.gpus_per_node} GPUs take {held:.6g} GPU-minutes, more than the "
            f"budget of {instance.budget_gpu_min:.6g}, which counts the GPUs that trials hold"
        )
    return tuple(warning for warning in warnings if warning)
