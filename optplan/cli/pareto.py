"""``optplan frontier`` where plans cannot be mixed: those that no other beats in both limit and objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from optplan.cli.console import Progress
from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.cli.outputs import Outputs
    from optplan.contracts import Instance, ParetoFrontier

#: How more points of a frontier are seen.
MORE_POINTS = " (-o FILE writes all, --points N shows more)"


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
    from optplan.reporting.pareto import present_pareto
    from optplan.solving import pareto

    for option, given in refused.items():
        if given:
            message = f"{option}: the frontier of {instance.name!r} is a list of plans, which cannot be mixed;"
            raise UsageError(f"{message} -o writes and --plot draws it, and `optplan solve` answers for any limit")
    with Progress("frontier", instance.objective_unit) as progress:
        found = pareto(instance, limit=limit, time_limit_s=time_limit_s, on_event=progress.listen)
    outputs.answer(found, lambda: present_pareto(instance, found, most, more=MORE_POINTS))
    outputs.save_table(found.to_json_data, *_list_cells(found))
    outputs.save_text("--plot", lambda _: _write_figure(instance, found))
    return outputs.exit_code(0)


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
    from optplan.reporting.pareto import count_plans

    what = f"Plans by {found.limit_name}: {count_plans(len(found.points))} no other beats"
    return build_figures(instance.name, f"Frontier of {instance.name}", [(what, draw_frontier(instance, found))])
