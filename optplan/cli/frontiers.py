"""``optplan frontier``: what every budget buys."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.console import Progress, print_answer, print_json
from optplan.cli.options import (
    Command,
    amend,
    amendments,
    force_option,
    instance_argument,
    output_option,
    read_amended,
    read_budget,
    read_duration,
    read_many,
)
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.contracts import Frontier, FrontierPoint, Instance
    from optplan.units import Amount

_CSV = ".csv"


@click.command(
    cls=Command,
    short_help="Show what every budget buys, and what a completion time costs.",
    examples=(
        "optplan frontier boa-newtrace",
        "optplan frontier boa-newtrace --at 120gpu --at 150gpu --for-jct 50min",
        "optplan frontier boa-newtrace -o frontier.csv --plot frontier.html",
        "optplan frontier mine.yaml --json",
    ),
)
@instance_argument
@click.option("--points", type=click.IntRange(min=2), default=20, show_default=True, metavar="N", help="Rows at most.")
@click.option("--at", multiple=True, metavar="AMOUNT", callback=read_many(read_budget), help="Ask what 120gpu buys.")
@click.option(
    "--for-jct",
    multiple=True,
    metavar="TIME",
    callback=read_many(read_duration),
    help="Ask what a mean of 50min costs.",
)
@amendments
@output_option("every breakpoint, as JSON, or as CSV when the name ends in .csv")
@click.option("--plot", metavar="FILE", type=click.Path(path_type=Path), help="Write a figure as HTML.")
@force_option
def frontier(
    instance_name: str,
    *,
    points: int,
    at: list[Amount],
    for_jct: list[float],
    output: Path | None,
    plot: Path | None,
    force: bool,
    as_json: bool,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Show the best mean completion time for every budget of an INSTANCE (a file or a name of the library).

    The frontier is that of mixed plans; each of its breakpoints is a pure plan. With --json, all of them, with what a
    little more and a little less budget would change there, and the answers to --at and --for-jct in that order. The
    instance's own budget plays no role.
    """
    from optplan.solving import frontier as build_frontier

    outputs = Outputs({"--output": output, "--plot": plot}, force=force, as_json=as_json)
    instance = read_amended(instance_name, changes)
    with Progress("frontier"):
        line = build_frontier(instance)
        asked = [line.at(_count_gpus(instance, amount)) for amount in at]
        asked += [line.budget_for(objective_s) for objective_s in for_jct]
    if as_json:
        print_json(_frontier_record(line, asked))
    else:
        _print_frontier(instance, line, asked, points)

    def save_points(path: Path) -> None:
        from optplan.instances.files import format_json, write_text

        wants_csv = path.suffix.lower() == _CSV
        text = _write_csv(line) if wants_csv else format_json(_frontier_record(line, asked)) + "\n"
        write_text(text, path, overwrite=outputs.force)

    outputs.save("--output", save_points)
    outputs.save("--plot", lambda path: _write_figure(instance, line, path, overwrite=outputs.force))
    return outputs.exit_code(0)


def _count_gpus(instance: Instance, amount: Amount) -> float:
    """Express an amount in the unit of the frontier's budgets."""
    from optplan.formulations.boa.data import BoaInstance

    with_budget = amend(instance, {"budget": amount})
    if not isinstance(with_budget, BoaInstance):
        message = f"--at: frontiers of {getattr(instance, 'formulation', '')!r} have no budgets to look up"
        raise UsageError(message)
    return with_budget.budget_gpus()


def _frontier_record(line: Frontier, asked: list[FrontierPoint]) -> dict[str, Any]:
    """Write a frontier as plain data: every breakpoint, and the answers to the questions in their order."""
    return {
        "formulation": line.formulation,
        "instance_name": line.instance_name,
        "instance_hash": line.instance_hash,
        "budget_unit": line.budget_unit,
        "objective_unit": line.objective_unit,
        "exact_between": line.exact_between,
        "solve_seconds": line.solve_seconds,
        "points": [point.to_json_data() for point in line.points()],
        "answers": [point.to_json_data() for point in asked],
    }


def _write_csv(line: Frontier) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    unit = f"{line.objective_unit}_per_{line.budget_unit}"
    table.writerow([f"budget_{line.budget_unit}", f"objective_{line.objective_unit}", f"less_{unit}", f"more_{unit}"])
    for point in line.points():
        price = point.shadow_price
        table.writerow([point.budget, point.objective, price.less, price.more])
    return text.getvalue()


def _write_figure(instance: Instance, line: Frontier, path: Path, *, overwrite: bool) -> None:
    from optplan.instances.files import write_text
    from optplan.reporting.breakdown import require_boa
    from optplan.reporting.figures import draw_frontier

    page: str = draw_frontier(require_boa(instance), line).to_html(include_plotlyjs=True)
    write_text(page, path, overwrite=overwrite)


def _print_frontier(instance: Instance, line: Frontier, asked: list[FrontierPoint], most: int) -> None:
    from optplan.reporting.tables import frontier_table

    budgets = line.budgets
    shown = thin(len(budgets), most)
    title = f"Frontier of {line.instance_name}: {len(budgets)} points"
    if len(shown) < len(budgets):
        title += f", {len(shown)} of them shown (-o FILE writes all, --points N shows more)"
    print_answer(title, "", frontier_table(instance, [line.at(float(budgets[row])) for row in shown]))
    if asked:
        print_answer("", "As asked:", "", frontier_table(instance, asked))


def thin(count: int, most: int) -> list[int]:
    """Choose at most ``most`` of ``count`` rows, the first and the last among them, evenly."""
    rows = min(count, most)
    return [0] if rows == 1 else [round(row * (count - 1) / (rows - 1)) for row in range(rows)]
