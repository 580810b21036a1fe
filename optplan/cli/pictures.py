"""``optplan show --dag`` and ``--plot``: what the best plan for an instance looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from optplan.cli.console import Progress, print_answer
from optplan.errors import InfeasibleError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from networkx import DiGraph

    from optplan.cli.outputs import Outputs
    from optplan.contracts import Instance, Result, Solution


def show_pictures(instance: Instance, outputs: Outputs, *, dag: bool) -> int:
    """Solve an instance; print its plan's execution graph, or write a figure of that or of the plan over time."""
    if outputs.as_json:
        raise UsageError("--dag and --plot show pictures, which are no JSON; leave out --json")
    _require_pictures(instance, dag=dag)
    result = _solve(instance)
    if dag and "--plot" not in outputs:
        _print_graphs(instance, result)

    outputs.save_text("--plot", lambda _: _write_figures(instance, result, dag=dag))
    return outputs.exit_code(0)


def _require_pictures(instance: Instance, *, dag: bool) -> None:
    from optplan.formulations import formulation_of

    name = formulation_of(instance).name
    if dag and name != "rubberband":
        raise UnsupportedError(f"--dag: plans of formulation {name!r} have no execution graph; leave it out")


def _solve(instance: Instance) -> Result[Solution]:
    from optplan.solving import solve

    with Progress("solving", instance.objective_unit) as progress:
        result = solve(instance, ranges=False, on_event=progress.listen)
    if result.solution is None:
        reason = result.infeasibility.reason if result.infeasibility else f"none was found ({result.termination})"
        raise InfeasibleError(f"there is no plan to draw: {reason}")
    return result


def _print_graphs(instance: Instance, result: Result[Solution]) -> None:
    """Print the execution graph of each bracket."""
    from optplan.reporting.rubberband.dag_figures import write_dag

    graphs = _build_graphs(instance, result)
    for number, graph in enumerate(graphs, start=1):
        print_answer(*([f"bracket {number}"] if len(graphs) > 1 else []), *write_dag(graph))


def _build_graphs(instance: Instance, result: Result[Solution]) -> list[DiGraph]:
    """Build the execution graph of each bracket."""
    from optplan.formulations.rubberband.data.instance import RubberBandSolution
    from optplan.formulations.rubberband.laws.execution import build_dag
    from optplan.reporting.rubberband.words import require_search

    solution = cast(RubberBandSolution, result.solution)
    search = require_search(instance)
    return [build_dag(search, solution, bracket) for bracket in range(len(search.brackets))]


def _write_figures(instance: Instance, result: Result[Solution], *, dag: bool) -> str:
    """Write the page of the plan over time, or of each bracket's graph."""
    from optplan.reporting.drawing import build_figures, draw_plan

    if not dag:
        return build_figures(instance.name, f"The plan of {result.solver}", [("The plan", draw_plan(instance, result))])
    from optplan.reporting.rubberband.dag_figures import draw_dag

    figures = [
        (f"Execution graph of bracket {number}", draw_dag(graph))
        for number, graph in enumerate(_build_graphs(instance, result), start=1)
    ]
    return build_figures(instance.name, f"What the plan of {result.solver} does, task by task", figures)
