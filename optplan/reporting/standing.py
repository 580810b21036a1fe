"""What a result knows, in the first words that people read: its status, and whether they have to trust somebody."""

from __future__ import annotations

from optplan.contracts import BoundProof, Result, Sense, Solution, Status
from optplan.reporting.phrases import format_share


def name_status(result: Result[Solution]) -> tuple[str, str]:
    """Name what is known in a few words, and how good that is: ``good``, ``fair`` or ``bad``."""
    if result.status is Status.OPTIMAL:
        said = f"optimal, says {_name_source(result)}"
        return (said, "fair") if result.rests_on_trust else ("proven optimal", "good")
    if result.status is Status.FEASIBLE:
        side = "lower" if result.sense is Sense.MINIMISE else "higher"
        words = (
            "no bound"
            if result.gap is None or bounds_nothing(result)
            else f"the best is at most {format_share(result.gap)} {side}"
        )
        return words, "fair"
    if result.status is Status.INFEASIBLE:
        said = f"infeasible, says {_name_source(result)}"
        return (said if result.rests_on_trust else "infeasible: proven"), "bad"
    return "no plan found", "bad"


def bounds_nothing(result: Result[Solution]) -> bool:
    """Whether the bound is one that every plan keeps: a time or a cost of zero, where the plan's own is above it."""
    could_be_less = result.objective_unit not in ("s", "usd")
    if could_be_less or result.status is Status.OPTIMAL or result.sense is not Sense.MINIMISE:
        return False
    return result.bound is not None and result.bound <= 0.0


def add_trust(answer: str, result: Result[Solution]) -> str:
    """Add to the first sentence about a result what it claims without a certificate, if there is anything."""
    if not result.rests_on_trust:
        return answer
    claim = {
        Status.OPTIMAL: "That nothing is better",
        Status.FEASIBLE: "How much better it could be",
        Status.INFEASIBLE: "That there is none",
        Status.UNKNOWN: "The bound",
    }[result.status]
    return f"{answer} {claim} rests on trust: {_name_source(result)} says so, without a certificate."


def _name_source(result: Result[Solution]) -> str:
    """Name who says what has no certificate: an engine, or a search of ours."""
    if result.bound_proof is BoundProof.ENGINE:
        return f"{result.engine} {result.engine_version}".strip()
    return "a search"
