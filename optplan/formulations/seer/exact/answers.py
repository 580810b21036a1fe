"""From chosen plans to SEER's answers: status, bound, what it rests on, warnings; and why there is no plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import JsonValue

from optplan.contracts.instance import Sense
from optplan.contracts.parts import Description
from optplan.contracts.proofs import pack_integers
from optplan.contracts.result import (
    Answer,
    BoundProof,
    Hopeless,
    Infeasibility,
    LagrangianCertificate,
    Relaxation,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
    status_of,
)
from optplan.formulations.seer.data.brackets import SHORTFALL, paid_gpus
from optplan.formulations.seer.data.instance import (
    BUDGET,
    DEADLINE,
    MOST_SAMPLED_ROUNDS,
    Objective,
    SeerInstance,
    SeerSolution,
)
from optplan.formulations.seer.data.search_space import describe_shortage
from optplan.formulations.seer.exact.rows import list_rows
from optplan.formulations.seer.laws.rounds import count_nodes, divide_evenly, list_rounds
from optplan.schema import FloatArray
from optplan.solvers.limits import write_up


def describe(instance: SeerInstance) -> Description:
    """Return what solvers are matched against; ``informed`` has as many choices as rounds could be tried."""
    if instance.objective is Objective.QUALITY:
        return Description(problem="informed", policy="brackets", cells=MOST_SAMPLED_ROUNDS)
    features, cells, published = frozenset[str](), 0, instance.brackets
    if published is not None:
        cells = sum(each.size for each in list_rows(instance, published).brackets)
        if instance.nodes_paid is not None:
            evenly = divide_evenly(instance.nodes_paid, [each.gpus for each in published.brackets])
            features = frozenset() if evenly else frozenset({"uneven-nodes"})
    return Description(problem="spend", policy="brackets", cells=cells, features=features)


#: The rule of the lists, and the unit of their amounts in all brackets together, relative to budget and bound.
_RULE, _UNIT = "seer-rows", 2.0**-33
_NODES_RULE = "seer-nodes"
#: Most pairs of all lists together: a certificate of up to a megabyte.
MOST_LISTED = 50_000


def certify_rows(instance: SeerInstance, pairs: Sequence[FloatArray], bound: float) -> TreeCertificate | None:
    """Write down what the best choices for the wider brackets spend and train, as a bound's proof; None if too long."""
    if instance.nodes_paid is not None:  # whoever checks it lists all searches on nodes
        return TreeCertificate(rule=_NODES_RULE, bound=bound, content={})
    # ``pairs``, from the widest on, are (2, L) above the published rows, by spending, or (3, L) with what is held
    # between.
    unit = _UNIT / (len(pairs) + 1)
    # Of choices that spend more only those that train for longer, or hold less, are worth a line.
    short = [each[:, np.diff(each[1], prepend=-1.0) > 0.0] if len(each) == 2 else each for each in pairs]
    if sum(each.shape[1] for each in short) > MOST_LISTED:
        return None
    lists: list[JsonValue] = []
    for *taken, trained in short:
        most = (instance.budget_gpu_min, instance.most_gpus_held or 1.0)
        parts = [np.floor(each / (limit * unit)) for each, limit in zip(taken, most, strict=False)]
        parts.append(np.ceil(trained / (bound * unit)))
        lists.append([pack_integers(part.astype(np.int64)) for part in parts])
    return TreeCertificate(rule=_RULE, bound=bound, content={"pairs": lists})


def infeasible_answer(instance: SeerInstance) -> Answer[SeerSolution]:
    """Say why no search keeps the limits, both where both are short, and which deadline or budget would do."""
    paid = paid_gpus(instance.nodes_paid, instance.least_gpus, 1)
    least = {BUDGET: paid * instance.least_round_min, DEADLINE: instance.least_round_min}
    quotients = {limit: least[limit] / amount for limit, amount in instance.limits.items()}
    worst = max(quotients, key=lambda limit: quotients[limit])
    short = [limit for limit in least if least[limit] > instance.limits[limit] * (1.0 + SHORTFALL)]
    relaxations = [_relax(instance, limit, quotients[limit]) for limit in short]
    # Without one limit the other still falls short, unless it is the only one that does.
    hopeless = {limit: [other for other in short if other != limit] for limit in least}
    wishes = " and ".join(
        f"a {each.limit} of at least {write_up(each.least_feasible, each.given)} {each.unit} "
        f"(given: {each.given:,.12g})"
        for each in relaxations
    )
    gpus = "1 GPU" if paid == 1 else f"{paid:,.12g} GPUs"
    gpus += "" if instance.nodes_paid is None else " of whole nodes"
    reason = f"one trial for the shortest round ({instance.least_round_min:,.12g} min on {gpus}) needs {wishes}"
    claim = Infeasibility(
        reason=reason,
        relaxations=tuple(relaxations) if len(relaxations) == 1 else (),
        hopeless=tuple(
            Hopeless(limit=limit, multipliers={each: float(each == others[0]) for each in least})
            for limit, others in hopeless.items()
            if others
        ),
        multipliers={limit: float(limit == worst) for limit in instance.limits},
        factor=quotients[worst],
    )
    return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=claim)


def _relax(instance: SeerInstance, limit: str, quotient: float) -> Relaxation:
    least = instance.limit_as_given(limit)[0] * quotient
    multipliers = {each: float(each == limit) for each in instance.limits}
    return instance.relax(limit, least, enough=least, parts={"one trial": least}, multipliers=multipliers)


def answer_with(
    instance: SeerInstance,
    request: SolveRequest,
    solution: SeerSolution,
    *,
    loss: float | None = None,
    bound: float | None = None,
    proof: BoundProof | TreeCertificate = BoundProof.SEARCHED,
    notes: tuple[str, ...] = (),
    **found: Any,  # noqa: ANN401 - other fields of the answer
) -> Answer[SeerSolution]:
    """Make the answer for a solution, with the bound and its proof, or by a multiplier of one that of the budget.

    Where the objective is a sampled loss, nothing bounds it, so it proves nothing.
    """
    found.setdefault("termination", Termination.COMPLETED)
    found |= {"solution": solution, "warnings": (*notes, *_warn(instance, solution))}
    if loss is not None:
        return Answer(Status.FEASIBLE, objective=loss, **found)
    objective = training_of(instance, solution)
    budget = instance.budget_gpu_min
    limit = budget if bound is None else min(bound, budget)
    by_budget = limit >= budget * (1 - SHORTFALL)
    if limit < objective <= limit * (1 + SHORTFALL):  # by rounding; anything more is for the judge to find
        limit = objective
    of_budget = LagrangianCertificate(multipliers={BUDGET: 1.0, DEADLINE: 0.0}, bound=budget)
    rests_on = of_budget if by_budget else proof
    kind, certificates = (
        (rests_on, ()) if isinstance(rests_on, BoundProof) else (BoundProof(rests_on.form), (rests_on,))
    )
    status = status_of(objective, limit, request.gap, Sense.MAXIMISE)
    return Answer(status, objective=objective, bound=limit, bound_proof=kind, certificates=certificates, **found)


def training_of(instance: SeerInstance, solution: SeerSolution) -> float:
    """Return the GPU-minutes that a solution trains for: sum over i of P_i t_1 sum over k of eta^(k-1) n(i,k)."""
    weighed = [sum(number * instance.eta**k for k, number in enumerate(each.trials)) for each in solution.brackets]
    return sum(each.gpus * solution.round_min * sums for each, sums in zip(solution.brackets, weighed, strict=True))


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
