"""From chains of single brackets to answers: what the planners that work bracket by bracket share.

Brackets side by side have a cluster each, and only the limit ties them together. Under a deadline nothing does: each
bracket has to keep it, and costs add up. Under a budget they share it, and the slowest of them counts.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from optplan.contracts.result import Answer, SolveRequest, Status, Termination
from optplan.errors import DataWarning
from optplan.formulations.rubberband.data.experiment import StagesExperiment
from optplan.formulations.rubberband.data.instance import (
    Objective,
    RubberBandInstance,
    RubberBandSolution,
    StageAllocation,
)
from optplan.formulations.rubberband.exact.chains import state_chains
from optplan.formulations.rubberband.exact.feasibility import explain_shortfall, find_cheapest, find_fastest
from optplan.formulations.rubberband.judge.evaluation import TOLERANCE, evaluate


@dataclass(frozen=True)
class JudgedChain:
    """The allocations of one bracket, with expected seconds and US dollars by whoever judged them."""

    allocations: tuple[StageAllocation, ...]
    seconds: float
    usd: float


def isolate_brackets(instance: RubberBandInstance) -> tuple[RubberBandInstance, ...]:
    """Return each bracket as an instance of its own, with the same cloud, profile and limit."""
    if len(instance.brackets) == 1:
        return (instance,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the user has been told when the whole was read
        return tuple(instance.replace(experiment=StagesExperiment(stages=stages)) for stages in instance.brackets)


def judge_chain(alone: RubberBandInstance, allocations: tuple[StageAllocation, ...]) -> JudgedChain:
    """Evaluate (allowed) allocations of an instance with one bracket."""
    measures = evaluate(alone, RubberBandSolution(brackets=(allocations,))).measures
    return JudgedChain(allocations, measures["expected_s"], measures["expected_usd"])


def choose_chains(
    instance: RubberBandInstance, candidates: Sequence[Sequence[JudgedChain]]
) -> tuple[JudgedChain, ...] | None:
    """Choose one candidate for each bracket, best by the instance's objective within its limit.

    Parameters
    ----------
    instance
        The problem, with its limit.
    candidates
        For each bracket, in any order; of equal ones the first is chosen.

    Returns
    -------
    tuple of JudgedChain or None
        By bracket; None when no choice keeps the limit.

    Raises
    ------
    UsageError
        When the instance has no limit.
    """
    most = instance.limits[instance.limit_name] * (1.0 + TOLERANCE)
    if instance.objective is Objective.COST:
        return _choose_cheapest(candidates, most)
    # The completion time is that of some candidate, and the cheapest choice within a time gets no dearer with it.
    times = sorted({candidate.seconds for listed in candidates for candidate in listed})
    first, last = 0, len(times)
    while first < last:
        middle = (first + last) // 2
        chosen = _choose_cheapest(candidates, times[middle])
        if chosen is not None and math.fsum(each.usd for each in chosen) <= most:
            last = middle
        else:
            first = middle + 1
    return _choose_cheapest(candidates, times[first]) if first < len(times) else None


def _choose_cheapest(candidates: Sequence[Sequence[JudgedChain]], most_s: float) -> tuple[JudgedChain, ...] | None:
    within = [[candidate for candidate in listed if candidate.seconds <= most_s] for listed in candidates]
    if not all(within):
        return None
    return tuple(min(listed, key=lambda candidate: candidate.usd) for listed in within)


def write_solution(chosen: Sequence[JudgedChain]) -> RubberBandSolution:
    """Put the chains of all brackets together."""
    return RubberBandSolution(brackets=tuple(each.allocations for each in chosen))


def answer_without_plan(instance: RubberBandInstance, request: SolveRequest, what: str) -> Answer[RubberBandSolution]:
    """Answer where a planner has found nothing: infeasible where nobody can, otherwise unknown, with a warning.

    Parameters
    ----------
    instance
        The problem, with its limit.
    request
        Time limit.
    what
        What was looked for, as in ``static cluster``.
    """
    infeasible = answer_if_infeasible(instance, request)
    if infeasible is not None:
        return infeasible
    amount, unit = instance.limit_as_given(instance.limit_name)
    message = f"no {what} keeps the {instance.limit_name} of {amount:g} {unit}"
    if request.stopwatch.expired:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT, warnings=(message,))
    return Answer(Status.UNKNOWN, Termination.COMPLETED, warnings=(f"{message}; other plans do",))


def answer_if_infeasible(instance: RubberBandInstance, request: SolveRequest) -> Answer[RubberBandSolution] | None:
    """Return the answer that no plan keeps the limit, or None when one does or time runs out.

    Raises
    ------
    UsageError
        When the instance has no limit.
    """
    most = instance.limits[instance.limit_name] * (1.0 + TOLERANCE)
    chains = state_chains(instance)
    if instance.objective is Objective.COST:
        found = [find_fastest(chain, request) for chain in chains]
        least = max(one.least for one in found)
    else:
        found = [find_cheapest(chain, request) for chain in chains]
        least = math.fsum(one.least for one in found)
    if least <= most or any(one.stopped_by is not None for one in found):
        return None
    return explain_shortfall(instance, chains, request)
