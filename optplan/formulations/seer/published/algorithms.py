"""SEER as published: Algorithms 2 and 3, corrected as :mod:`~optplan.formulations.seer.data.brackets` says."""

from __future__ import annotations

from optplan.contracts.result import Answer, SolveRequest
from optplan.formulations.seer.data.instance import Objective, SeerInstance, SeerSolution
from optplan.formulations.seer.exact.answers import answer_with, sampled_answer
from optplan.formulations.seer.exact.feasibility import infeasible_answer
from optplan.formulations.seer.judge.evaluation import evaluate


def solve_published(instance: SeerInstance, request: SolveRequest) -> Answer[SeerSolution]:
    """Return the published numbers of trials.

    The objective is what is spent on training; the bound is the budget, with its certificate, so that the gap says
    how much of it the floors leave unused. Where quality is the objective, it is the expected final loss, without a
    bound; the plan is the same, because it knows no prior. With a resize overhead, which the paper leaves out,
    rounds and brackets are sized with it.
    """
    solution = instance.published
    if solution is None:
        return infeasible_answer(instance)
    if instance.objective is Objective.QUALITY:
        return sampled_answer(instance, solution, evaluate(instance, solution).objective)
    return answer_with(instance, request, solution)
