"""Every check of one result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optplan.contracts import BoundProof, Instance, Result, Solution, Status, Verification
from optplan.contracts.result import closes_gap, require_result
from optplan.errors import UsageError
from optplan.formulations import formulation_of
from optplan.progress import VERIFY_LIMIT_S, OutOfTime, Stopwatch
from optplan.verification.bounds import BoundJudge
from optplan.verification.findings import TOLERANCE, Findings
from optplan.verification.infeasibility import InfeasibilityJudge


def verify(
    instance: Instance, result: Result[Solution], *, time_limit_s: float | None = VERIFY_LIMIT_S
) -> Verification:
    """Check everything that a result claims.

    Parameters
    ----------
    result
        What was returned or read for it.
    time_limit_s
        Seconds after which the certificates that are left are taken on trust, and named; None for no limit.

    Returns
    -------
    Verification
        With every check, failures first, what is taken on trust, and what is never checked.

    Raises
    ------
    UsageError
        When the result belongs to another instance.
    """
    formulation = formulation_of(instance)
    require_own(instance, result)
    found = Findings(formulation, instance, result, Stopwatch(time_limit_s))
    with np.errstate(over="ignore", invalid="ignore"):  # absurd claims overflow, and fail their check by that
        _check_solution(found)
        _check_claims(found)
        _check_demand(found)
        if _check_solver(found):
            bounds = BoundJudge(found)
            bounds.check_certificates()
            bounds.check_bound()
            _check_in_time(found, "shadow prices", bounds.check_prices)
        if result.infeasibility is not None:
            _check_in_time(found, "infeasibility", InfeasibilityJudge(found, result.infeasibility).check)
    checks = sorted(found.checks, key=lambda check: check.holds)
    return Verification(
        checks=tuple(checks),
        on_trust=tuple(found.on_trust),
        never_checked=tuple(found.never_checked),
        unlisted=tuple(found.unlisted),
        seconds=found.stopwatch.elapsed_s,
    )


def _check_in_time(found: Findings, what: str, check: Callable[[], None]) -> None:
    """Check something, or say that the time was too short for it: at most one pass of best paths goes beyond it."""
    try:
        check()
    except OutOfTime:
        found.on_trust.append(f"{what}: not checked within {found.stopwatch.limit_s:g} s")


def require_own(instance: Instance, result: Result[Solution]) -> None:
    """Raise unless a result was made for an instance.

    Raises
    ------
    UsageError
        When the result belongs to another instance, or is none.
    """
    formulation = formulation_of(instance)
    require_result(result)
    if (result.formulation, result.instance_hash) != (formulation.name, instance.content_hash()):
        raise UsageError(
            f"the result was made for {result.formulation} instance {result.instance_name!r} with hash "
            f"{result.instance_hash[:12]}, this one is {formulation.name} instance {instance.name!r} with hash "
            f"{instance.content_hash()[:12]}; give the instance it was made for"
        )


def _check_solution(found: Findings) -> None:
    """Recompute constraints, objective and measures from the decisions; every measure must be there, and no other."""
    result = found.result
    claims: list[tuple[str, str, float, float]] = []
    known: dict[str, float] = {}
    if result.solution is not None:
        evaluation = found.formulation.evaluate(found.instance, result.solution)
        found.checks.extend(evaluation.checks)
        if np.isfinite(evaluation.objective):
            found.evaluation = evaluation
        known = evaluation.measures
        claims = [("objective", "", result.objective or 0.0, evaluation.objective)]
    claims += [("measure", name, value, known.get(name, np.nan)) for name, value in result.measures.items()]
    for family, index, claimed, recomputed in claims:
        message = "the result's figure must equal the one recomputed from the decisions"
        found.compare(family, index, claimed, recomputed, TOLERANCE * max(abs(claimed), abs(recomputed)), message)
    for name in known.keys() - result.measures.keys():
        found.fail("measure", name, "the result must state every figure that its decisions amount to")


def _check_demand(found: Findings) -> None:
    """Recompute what the result says of how much is in use at once; those of earlier versions say nothing of it."""
    claims, solution = found.result.demand, found.result.solution
    known: dict[str, float] = {}
    if claims and found.evaluation is not None and found.formulation.declares("judge_demand"):
        known = found.formulation.judge_demand(found.instance, solution, sorted(claims))
    for name, claimed in claims.items():
        recomputed = known.get(name, np.nan)
        message = "the result's figure must equal the one recomputed from the decisions"
        found.compare("demand", name, claimed, recomputed, TOLERANCE * max(1.0, abs(recomputed)), message)
    for name in known.keys() - claims.keys():
        found.fail("demand", name, "a result that says how much is in use at once must state every figure of it")


def _check_claims(found: Findings) -> None:
    """Check what the result says of itself: name, unit and sense, and a status that fits the gap."""
    result = found.result
    if result.instance_name != found.instance.name:
        message = f"the instance is called {found.instance.name!r}, not {result.instance_name!r}"
        found.fail("instance", "name", message)
    for field, word in (("objective_unit", "unit"), ("sense", "sense")):
        own, claimed = (getattr(one, field) for one in (found.instance, result))
        if own != claimed:
            found.fail("objective", word, f"the {word} of the objective is {own}, not {claimed}")
    closed = closes_gap(result.objective, result.bound, result.gap_target, found.instance.sense)
    if result.status is Status.FEASIBLE and closed:
        found.fail("status", "", "a bound within the gap that was asked for makes the status optimal, not feasible")


def _check_solver(found: Findings) -> bool:
    """Check that the solver exists and gives proofs of the stated kind; False when there is no such solver."""
    result = found.result
    try:
        entry = found.formulation.solver(result.solver)
    except UsageError:
        found.fail("solver", "", f"there is no solver {result.solver!r} of {found.formulation.name}")
        return False
    if result.bound_proof is not BoundProof.NONE and result.bound_proof not in entry.proofs:
        given = ", ".join(sorted(entry.proofs)) or "none"
        message = f"solver {entry.name!r} gives no proof of the kind {result.bound_proof}; it gives {given}"
        found.fail("solver", "proof", message)
    return True
