"""Every check of one result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts import BoundProof, Evaluation, Frontier, Instance, Result, Solution, Status, Verification
from optplan.contracts.faces import remember
from optplan.contracts.judgement import Judged
from optplan.contracts.parts import load
from optplan.contracts.registry import is_outside
from optplan.contracts.result import OPTIMAL_GAP, closes_gap, require_gap, require_result, status_of
from optplan.errors import UnsupportedError, UsageError
from optplan.formulations import formulation_of
from optplan.instances.changes import restore_changes
from optplan.progress import VERIFY_LIMIT_S, Stopwatch
from optplan.speedup import UNTRIED
from optplan.verification.bounds import BoundJudge
from optplan.verification.findings import TOLERANCE, UNCHECKED, Findings
from optplan.verification.frontiers import verify_frontier
from optplan.verification.infeasibility import InfeasibilityJudge
from optplan.verification.ranges import check_range

if TYPE_CHECKING:
    from optplan.instances.job_traces import JobTrace


def evaluate(instance: Instance, solution: Solution) -> Evaluation:
    """Compute what decisions mean on an instance, by the judge's own statement: they may come from another one.

    Parameters
    ----------
    solution
        Decisions of the instance's formulation, such as ``result.solution``.

    Returns
    -------
    Evaluation
        Objective and measures, with a check of every limit and rule; broken ones are no error.

    Raises
    ------
    UnsupportedError
        When the decisions are of another formulation.
    """
    formulation = formulation_of(instance)
    if not isinstance(solution, formulation.solution_type):
        own, given = formulation.solution_type.__name__, type(solution).__name__
        raise UnsupportedError(f"{formulation.name}: decisions are a {own}, not a {given}")
    return formulation.evaluate(instance, solution)


def verify(
    instance: Instance,
    result: Result[Solution] | Frontier | Judged,
    *,
    jobs: JobTrace | None = None,
    gap: float = OPTIMAL_GAP,
    as_given: bool = True,
    time_limit_s: float | None = VERIFY_LIMIT_S,
) -> Verification:
    """Check everything that a result claims, and say what it is; or every point of a frontier, or bound of an audit.

    Parameters
    ----------
    result
        What was returned or read for it; or a frontier of the instance, of which gap and changes are not asked. Of its
        points decisions and certificates are checked, and what lies between two of them is said. Of an audit each bound
        is derived again from its price.
    jobs
        Those that an audit is of; without them their number and sizes, and what they had, are taken on trust.
    gap
        The largest relative gap at which the plan is called optimal, whatever gap the result names.
    as_given
        Whether the result must be of the instance as it is; otherwise the changes that it carries are made again.
    time_limit_s
        Seconds of processor time after which the certificates that are left are taken on trust, and named; None for no
        limit. However busy the machine is, the verdict is the same.

    Returns
    -------
    Verification
        Status and gap, the changes, every check, failures first, what is taken on trust, and what is never checked.

    Raises
    ------
    UsageError
        When the result belongs to another instance, or the gap is none.
    """
    if isinstance(result, Frontier):
        return verify_frontier(instance, result, time_limit_s=time_limit_s)
    if isinstance(result, Judged):
        judged: Verification = load(result.JUDGED_BY)(instance, result, jobs, time_limit_s=time_limit_s)
        return judged
    return judge(instance, result, gap=gap, as_given=as_given, time_limit_s=time_limit_s)


def judge(
    instance: Instance,
    result: Result[Solution],
    *,
    gap: float,
    as_given: bool,
    time_limit_s: float | None,
    tell: Callable[[Verification], object] | None = None,
) -> Verification:
    """Judge a result as :func:`verify` does, and tell what is known before certificates are looked at."""
    require_gap(gap)
    require_result(result)
    own, infeasibility = instance if as_given else restore_changes(instance, result), result.infeasibility
    require_own(own, result)
    found = Findings(formulation_of(own), own, result, Stopwatch(time_limit_s, clock=time.thread_time))
    changes = result.changes if own is not instance else ()
    with np.errstate(over="ignore", invalid="ignore"):  # absurd claims overflow, and fail their check by that
        _check_solution(found)
        _check_claims(found)
        _check_demand(found)
        _check_evidence(found)
        if result.range is not None:
            check_range(found, result.range)
        if tell is not None:
            tell(_conclude(found, gap, changes))
        if _check_solver(found):
            bounds = BoundJudge(found)
            bounds.check_certificates()
            bounds.check_bound()
            _check_in_time(found, "shadow prices:", bounds.check_prices)
        if infeasibility is not None:
            _check_in_time(found, "infeasibility: it was", InfeasibilityJudge(found, infeasibility).check)
    return _conclude(found, gap, changes)


def _conclude(found: Findings, gap: float, changes: tuple[str, ...]) -> Verification:
    """Say what was found so far, and what the result is called where all of it holds."""
    result, status = found.result, None
    if all(check.holds for check in found.checks):
        status = status_of(result.objective, result.bound, gap, result.sense)
        status = status if result.infeasibility is None else Status.INFEASIBLE
    verification = found.conclude(
        status=status, gap=result.gap, changes=changes, unlisted=tuple(found.unlisted), evidence=found.evidence
    )
    return remember(verification, found.instance, result, gap)


def _check_in_time(found: Findings, what: str, check: Callable[[], None]) -> None:
    """Check something, or say what was too short for it: at most one pass of best paths goes beyond the time."""
    try:
        check()
    except UNCHECKED as error:
        found.leave(what, error)


def require_own(instance: Instance, result: Result[Solution]) -> None:
    """Raise a UsageError unless a result was made for an instance."""
    formulation = formulation_of(instance)
    require_result(result)
    if restore_changes(instance, result) is not instance:
        raise UsageError(
            f"the result was made for {instance.name!r} with changes ({'; '.join(result.changes)}), and not for the "
            "instance as given; give the changed one, or have the changes made again (as_given=False, no --as-given)"
        )
    if (result.formulation, result.instance_hash) != (formulation.name, instance.content_hash()):
        raise UsageError(
            f"the result was made for {result.formulation} instance {result.instance_name!r} with hash "
            f"{result.instance_hash[:12]}, this one is {formulation.name} instance {instance.name!r} with hash "
            f"{instance.content_hash()[:12]}; give the instance it was made for"
        )


def _check_solution(found: Findings) -> None:
    """Recompute constraints, objective and measures from the decisions; every measure must be there, and no other."""
    result = found.result
    known: dict[str, float] = {}
    if result.solution is not None:
        evaluation = found.formulation.evaluate(found.instance, result.solution)
        found.checks.extend(evaluation.checks)
        if np.isfinite(evaluation.objective):
            found.evaluation = evaluation
        known = evaluation.measures
        _compare_figures(found, "objective", {"": result.objective or 0.0}, {"": evaluation.objective}, 0.0)
    _compare_figures(found, "measure", result.measures, known, 0.0)


def _compare_figures(
    found: Findings, family: str, claims: Mapping[str, float], known: Mapping[str, float], least: float
) -> None:
    """Compare figures by name with those recomputed, up to rounding of them or of the least amount that counts."""
    for name, claimed in claims.items():
        recomputed = known.get(name, np.nan)
        message = "the result's figure must equal the one recomputed from the decisions"
        tolerance = TOLERANCE * max(least, abs(claimed), abs(recomputed))
        found.compare(family, name, claimed, recomputed, tolerance, message)
    for name in known.keys() - claims.keys():
        found.fail(family, name, "the result must state every figure that its decisions amount to")


def _check_demand(found: Findings) -> None:
    """Recompute what the result says of how much is in use at once; those of earlier versions say nothing of it."""
    claims, solution = found.result.demand, found.result.solution
    known: dict[str, float] = {}
    if claims and found.evaluation is not None and found.formulation.declares("judge_demand"):
        known = found.formulation.judge_demand(found.instance, solution, sorted(claims))
    _compare_figures(found, "demand", claims, known, 1.0)


def _check_evidence(found: Findings) -> None:
    """Recompute what the result says its speedups rest on; earlier versions, without assumed ones, said nothing."""
    result = found.result
    known: dict[str, float] = {}
    if found.formulation.declares("share_evidence") and (result.solution is None or found.evaluation is not None):
        known = found.evidence = found.formulation.share_evidence(found.instance, result.solution)
    if not result.evidence and not UNTRIED.keys() & known.keys():
        return
    message = "the share of what rests on such speedups must equal the one recomputed from the decisions"
    for kind in sorted(known.keys() | result.evidence.keys()):
        found.compare("evidence", kind, result.evidence.get(kind, 0.0), known.get(kind, 0.0), TOLERANCE, message)


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
    most = min(result.gap_target, OPTIMAL_GAP)
    if result.status is Status.FEASIBLE and closes_gap(result.objective, result.bound, most, found.instance.sense):
        message = f"a bound within {OPTIMAL_GAP:g}, and the gap asked for, makes the status optimal, not feasible"
        found.fail("status", "", message)


def _check_solver(found: Findings) -> bool:
    """Whether there is the solver; its proofs must be of the stated kind, those from outside stand for themselves."""
    result = found.result
    if is_outside(result.solver):
        return True
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
