"""``optplan frontier`` where plans cannot be mixed: those that no other beats in both limit and objective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from optplan.cli.console import Progress, Shown
from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.cli.outputs import Outputs
    from optplan.contracts import Instance, ParetoFrontier


def has_plans(instance: Instance) -> bool:
    """Whether the instance's frontier is one of plans."""
    from optplan.formulations import formulation_of

    return formulation_of(instance).declares("build_pareto")


def show_pareto(
    instance: Instance,
    outputs: Outputs,
    *,
    limit: str,
    most: int,
    time_limit_s: float | None,
    refused: dict[str, Any],
) -> int:
    """Find, print and write the frontier of an instance by a limit, empty for the usual; ``most`` rows are shown."""
    # ``refused`` are options that have a meaning for frontiers of mixed plans only, with what was given.
    from optplan.solving import pareto

    for option, given in refused.items():
        if given:
            message = f"{option}: the frontier of {instance.name!r} is a list of plans, which cannot be mixed;"
            raise UsageError(f"{message} -o writes and --plot draws it, and `optplan solve` answers for any limit")
    with Progress("frontier", instance.objective_unit) as progress:
        found = pareto(instance, limit=limit, time_limit_s=time_limit_s, on_event=progress.listen)
    outputs.answer(found, lambda: _show(instance, found, most))
    outputs.save_table(found.to_json_data, *_list_cells(found))
    outputs.save_text("--plot", lambda _: _write_figure(instance, found))
    return outputs.exit_code(0)


def _show(instance: Instance, found: ParetoFrontier, most: int) -> list[Shown]:
    from optplan.reporting.pareto import pareto_table
    from optplan.reporting.presenters import plan_words_of
    from optplan.reporting.sections import warn_of_untried

    points = [found.points[row] for row in thin(len(found.points), most)]
    title = f"Frontier of {instance.name}: {_count(len(found.points))} no other beats"
    if len(points) < len(found.points):
        title += f", {len(points)} of them shown (-o FILE writes all, --points N shows more)"
    table = pareto_table(instance, found, points, plan_words_of(instance))
    return [title, *warn_of_untried(instance), "", table, "", _say_completeness(found)]


def _count(points: int) -> str:
    return "1 plan that" if points == 1 else f"{points} plans that"


def _say_completeness(found: ParetoFrontier) -> str:
    """Say what may be missing: nothing, limits between those tried, or better plans at these."""
    if found.exact:
        return "Every plan that is best for some limit is among them."
    between = f"Other amounts of the {found.limit_name} were not tried."
    if any(point.low is not None for point in found.points):
        return f"Each is the best plan found for an amount of the {found.limit_name}, by sampling. {between}"
    if all(point.bound is not None and math.isclose(point.bound, point.objective) for point in found.points):
        return f"Each is proven best for an amount of the {found.limit_name}. {between}"
    return f"There may be better ones. {between}"


def _list_cells(found: ParetoFrontier) -> tuple[list[str], Sequence[Sequence[object]]]:
    """List the columns of a table of all plans, and its rows."""
    measures = sorted({name for point in found.points for name in point.measures})
    heading = [f"{found.limit_name}_{found.limit_unit}", f"objective_{found.objective_unit}", "bound", "low", "high"]
    rows = [
        [p.limit, p.objective, p.bound, p.low, p.high, *(p.measures.get(name) for name in measures)]
        for p in found.points
    ]
    return [*heading, *measures], rows


def _write_figure(instance: Instance, found: ParetoFrontier) -> str:
    from optplan.reporting.drawing import build_figures, draw_frontier

    what = f"Plans by {found.limit_name}: {_count(len(found.points))} no other beats"
    return build_figures(instance.name, f"Frontier of {instance.name}", [(what, draw_frontier(instance, found))])


def thin(count: int, most: int) -> list[int]:
    """Choose at most ``most`` of ``count`` rows, the first and the last among them, evenly."""
    rows = min(count, most)
    return [0] if rows == 1 else [round(row * (count - 1) / (rows - 1)) for row in range(rows)]
