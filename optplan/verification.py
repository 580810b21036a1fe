"""The judge: checks a result against its instance without any solver or algebraic model.

The formulation's evaluator recomputes objective and constraints from the decisions. Bounds are re-derived from their
certificates: a Lagrangian one by one pass of best paths, an exhaustive one by enumerating, anew and by an algorithm of
its own, everything within the certificate's allowance.
"""

from __future__ import annotations

import time

import numpy as np

from optplan.contracts import (
    BoundProof,
    Check,
    Evaluation,
    ExhaustiveCertificate,
    Instance,
    LagrangianCertificate,
    PathCosts,
    Result,
    Solution,
    Status,
    Verification,
)
from optplan.errors import UsageError
from optplan.formulations import formulation_of
from optplan.schema import FloatArray
from optplan.contracts.registry import Formulation

#: Relative tolerance of every comparison; scales are stated where they are used.
TOLERANCE = 1e-9
#: Relative tolerance between a solver's objective and the evaluator's.
OBJECTIVE_TOLERANCE = 1e-9


def verify(instance: Instance, result: Result[Solution]) -> Verification:
    """Check everything that a result claims.

    Parameters
    ----------
    instance
        The problem.
    result
        What was returned or read for it.

    Returns
    -------
    Verification
        With every check, failures first, and what nobody can check cheaply.

    Raises
    ------
    UsageError
        When the result belongs to another instance.
    """
    start = time.perf_counter()
    if result.instance_hash != instance.content_hash():
        message = (
            f"the result was made for instance {result.instance_name!r} with hash {result.instance_hash[:12]}, "
            f"this one is {instance.name!r} with hash {instance.content_hash()[:12]}; give the instance it was made for"
        )
        raise UsageError(message)
    formulation = formulation_of(instance)
    checks: list[Check] = []
    unproven: list[str] = []
    evaluation = None
    if result.solution is not None:
        evaluation = formulation.loaded("evaluate")(instance, result.solution)
        checks.extend(evaluation.checks)
        checks.extend(_check_claims(result, evaluation))
    certified = [
        _check_certificate(formulation, instance, certificate, evaluation, checks) for certificate in result.certificates
    ]
    _check_bound(result, certified, checks, unproven)
    if result.status is Status.INFEASIBLE:
        unproven.append("infeasible: the least feasible limit is the solver's word")
    checks.sort(key=lambda check: check.holds)
    return Verification(checks=tuple(checks), unproven=tuple(unproven), seconds=time.perf_counter() - start)


def _check_claims(result: Result[Solution], evaluation: Evaluation) -> list[Check]:
    """Compare objective and measures with what the decisions amount to."""
    claims = [("objective", "", result.objective or 0.0, evaluation.objective)]
    claims += [("measure", name, value, evaluation.measures.get(name, np.nan)) for name, value in result.measures.items()]
    checks = []
    for family, index, claimed, recomputed in claims:
        tolerance = OBJECTIVE_TOLERANCE * max(abs(claimed), abs(recomputed))
        checks.append(
            Check(
                family=family,
                index=index,
                left=claimed,
                right=_finite(recomputed),
                tolerance=_finite(tolerance),
                holds=bool(abs(claimed - recomputed) <= tolerance),
                message="the result's figure must equal the one recomputed from the decisions",
            )
        )
    return checks


def _finite(number: float) -> float:
    """Make a number fit for JSON: a check with a NaN has failed already, and says so by ``holds``."""
    return float(number) if np.isfinite(number) else 0.0


def _check_certificate(
    formulation: Formulation,
    instance: Instance,
    certificate: LagrangianCertificate | ExhaustiveCertificate,
    evaluation: Evaluation | None,
    checks: list[Check],
) -> float:
    """Re-derive what a certificate proves, append the check and return the proven bound."""
    dual = float(formulation.loaded("dual_bound")(instance, dict(certificate.multipliers)))
    scale = _scale(instance, certificate.multipliers, dual, evaluation)
    if isinstance(certificate, LagrangianCertificate):
        proven, index = dual, "lagrangian"
    else:
        allowance = certificate.allowance + TOLERANCE * scale
        best = least_within(
            formulation.loaded("path_costs")(instance), certificate.multipliers["budget"], allowance, _budget(instance)
        )
        proven, index = min(best, dual + certificate.allowance), "exhaustive"
    checks.append(
        Check(
            family="bound",
            index=index,
            left=certificate.bound,
            right=proven,
            tolerance=TOLERANCE * scale,
            holds=certificate.bound <= proven + TOLERANCE * scale,
            message="the certificate must prove the bound that it states",
        )
    )
    return proven + TOLERANCE * scale


def _scale(
    instance: Instance, multipliers: dict[str, float], dual: float, evaluation: Evaluation | None
) -> float:
    """Return what rounding errors are relative to: |value| + mu * |consumption| + mu * limit (design 4.1.6)."""
    priced = sum(multipliers.values()) * _budget(instance)
    consumed = sum(mu * evaluation.consumption[limit] for limit, mu in multipliers.items()) if evaluation else priced
    objective = abs(evaluation.objective) if evaluation else 0.0
    return max(abs(dual), objective) + consumed + priced


def _budget(instance: Instance) -> float:
    budget: float = instance.budget_gpus()  # type: ignore[attr-defined]
    return budget


def _check_bound(
    result: Result[Solution], certified: list[float], checks: list[Check], unproven: list[str]
) -> None:
    """The stated bound rests on its certificates, or is named as taken on trust."""
    if result.bound is None:
        return
    if result.bound_proof in (BoundProof.LAGRANGIAN, BoundProof.EXHAUSTIVE):
        best = max(certified, default=float("-inf"))
        checks.append(
            Check(
                family="bound",
                left=result.bound,
                right=_finite(best),
                tolerance=0.0,
                holds=result.bound <= best,
                message=f"a bound called {result.bound_proof} must follow from the result's certificates",
            )
        )
    else:
        unproven.append(f"bound: rests on {result.bound_proof}, which cannot be re-derived cheaply")
    if result.objective is not None:
        tolerance = TOLERANCE * max(abs(result.bound), abs(result.objective))
        checks.append(
            Check(
                family="bound",
                index="objective",
                left=result.bound,
                right=result.objective,
                tolerance=tolerance,
                holds=result.bound <= result.objective + max(tolerance, result.gap_target * abs(result.objective)),
                message="no bound can lie above the objective",
            )
        )


def least_within(graphs: list[PathCosts], mu: float, allowance: float, budget: float) -> float:
    """Enumerate what lies within an allowance of the dual bound and return the least value that keeps the budget.

    Parameters
    ----------
    graphs
        What the steps of each graph's paths cost.
    mu
        The multiplier of the budget.
    allowance
        Total reduced cost above the graphs' best paths that a choice may have.
    budget
        Limit on the total consumption.

    Returns
    -------
    float
        Infinity when nothing within the allowance keeps the budget.
    """
    suffixes = [_suffixes_within(graph, mu, allowance) for graph in graphs]
    least_left = np.append(np.cumsum([c.min() for _, c in reversed(suffixes)])[::-1], 0.0)
    best_left = np.append(np.cumsum([(v + mu * c).min() for v, c in reversed(suffixes)])[::-1], 0.0)
    ceiling = best_left[0] + allowance
    value, consumption = np.zeros(1), np.zeros(1)
    for number, (more_value, more_consumption) in enumerate(suffixes, start=1):
        value = (value[:, None] + more_value).ravel()
        consumption = (consumption[:, None] + more_consumption).ravel()
        kept = (value + mu * consumption + best_left[number] <= ceiling) & (
            consumption + least_left[number] <= budget * (1 + TOLERANCE)
        )
        value, consumption = _undominated(value[kept], consumption[kept])
        if not value.size:
            return float("inf")
    return float(value.min())


def _suffixes_within(graph: PathCosts, mu: float, allowance: float) -> tuple[FloatArray, FloatArray]:
    """List undominated (value, consumption) of a graph's paths within the allowance, from the last layer backwards."""
    run = graph.run_value + mu * graph.run_consumption
    enter = graph.enter_value + mu * graph.enter_consumption
    reach = np.empty_like(run)  # least reduced cost of a prefix that ends at, and includes, a node
    reach[0] = enter[0] + run[0]
    for layer in range(1, len(run)):
        reach[layer] = run[layer] + np.minimum(reach[layer - 1], reach[layer - 1].min() + enter[layer])
    ceiling = reach[-1].min() + allowance
    # after[k]: what can follow node k of the current layer; all that starts by entering some node is shared.
    nothing = (np.zeros(1), np.zeros(1))
    after: dict[int, tuple[FloatArray, FloatArray]] = dict.fromkeys(np.flatnonzero(reach[-1] <= ceiling).tolist(), nothing)
    for layer in range(len(run) - 1, 0, -1):
        entered = [
            (v + graph.run_value[layer, k] + graph.enter_value[layer, k],
             c + graph.run_consumption[layer, k] + graph.enter_consumption[layer, k])
            for k, (v, c) in after.items()
        ]
        shared = _undominated(*_joined(entered))
        before: dict[int, tuple[FloatArray, FloatArray]] = {}
        for k, prefix in enumerate(reach[layer - 1]):
            options = [shared]
            if k in after:
                v, c = after[k]
                options.append((v + graph.run_value[layer, k], c + graph.run_consumption[layer, k]))
            value, consumption = _joined(options)
            kept = prefix + value + mu * consumption <= ceiling
            if kept.any():
                before[k] = _undominated(value[kept], consumption[kept])
        after = before
    first = [
        (v + graph.run_value[0, k] + graph.enter_value[0, k], c + graph.run_consumption[0, k] + graph.enter_consumption[0, k])
        for k, (v, c) in after.items()
    ]
    return _undominated(*_joined(first))


def _joined(sets: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([v for v, _ in sets]), np.concatenate([c for _, c in sets])


def _undominated(value: FloatArray, consumption: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Keep the points that no other beats in both coordinates."""
    order = np.lexsort((value, consumption))
    value, consumption = value[order], consumption[order]
    best_before = np.concatenate(([np.inf], np.minimum.accumulate(value)[:-1]))
    kept = value < best_before
    return value[kept], consumption[kept]
