"""What two answers for searches are compared by: time, cost, proof, and what each stage gets."""

from __future__ import annotations

from optplan.contracts import Plan, Result, Solution
from optplan.formulations.rubberband.data.instance import RubberBandSolution
from optplan.formulations.rubberband.planning import RubberBandPlan
from optplan.reporting.differences import COUNT, GPUS, SECONDS, SHARE, Fact
from optplan.reporting.plain_differences import state_figures

_FIGURES = (
    ("expected time", "expected_s", SECONDS),
    ("expected cost", "expected_usd", "usd"),
    ("of it minimum charges", "minimum_charge_usd", "usd"),
    ("use of the GPUs held", "utilisation", SHARE),
    ("instances at most", "most_instances", COUNT),
    ("instances started", "instances_started", COUNT),
)


def state_answer(answer: Result[Solution] | Plan) -> list[Fact]:
    """State what an answer says, stage by stage."""
    return [*state_figures(answer, _FIGURES), *_state_stages(answer)]


def _state_stages(answer: Result[Solution] | Plan) -> list[Fact]:
    if isinstance(answer, RubberBandPlan):
        listed = [(s.bracket, s.stage, s.nodes, s.gpus * s.at_once) for s in answer.stages]
    elif isinstance(answer, Result) and isinstance(answer.solution, RubberBandSolution):
        listed = [
            (bracket, number, stage.instances, stage.gpus)
            for bracket, chain in enumerate(answer.solution.brackets, start=1)
            for number, stage in enumerate(chain, start=1)
        ]
    else:
        return []
    several = any(bracket > 1 for bracket, *_ in listed)
    facts = []
    for bracket, stage, instances, gpus in listed:
        of = f"bracket {bracket}, stage {stage}" if several else f"stage {stage}"
        path = f"brackets.{bracket - 1}.{stage - 1}"
        facts.append(Fact(of, "instances held", f"{path}.instances", instances, COUNT))
        facts.append(Fact(of, "GPUs used", f"{path}.gpus", gpus, GPUS))
    return facts
