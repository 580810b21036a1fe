"""``optplan compare``: what differs between two instances, results or plans, figure by figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import optplan
from optplan.cli.amending import amend, amendments, naming
from optplan.cli.commands import command, refuse_but
from optplan.cli.console import Progress, Shown
from optplan.cli.options import TIME, argument, complete_instance, option
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.reporting.comparison import Compared, Comparison


@command(
    short_help="Show what differs between two instances, results or plans.",
    examples=(
        "optplan compare january.json february.json",
        "optplan compare boa-newtrace boa-newtrace-tables --solve --budget 120gpu",
        "optplan compare pure.json mixed.json --all",
        "optplan compare plan.json new-plan.json -o changes.csv --report changes.html",
    ),
    writes={
        "output": "the differences as JSON, or as CSV when the name ends in .csv",
        "report": "Write an HTML report.",
    },
)
@amendments
def compare(
    name_a: str = argument(metavar="A", shell_complete=complete_instance),
    name_b: str = argument(metavar="B", shell_complete=complete_instance),
    *,
    with_equal: bool = option("--all", is_flag=True, help="Show equal figures too."),
    solves: bool = option("--solve", is_flag=True, help="Solve each instance first, and compare the results as well."),
    time_limit: float | None = option(type=TIME, help="For each --solve, such as 60s."),
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Show every figure in which A and B differ, and the change from A to B.

    Each is an instance (a file or a name of the library), a result (a file of `optplan solve -o`) or a plan (a file of
    `optplan solve --plan`). What both have is compared: of instances their data, of results and plans completion times,
    bounds, cost and widths. Of long lists, such as speedups by epoch, the first difference is shown.

    --set, --budget, --problem and --policy change both instances. Differences are no error: the exit code is 0.
    """
    from optplan.reporting.comparison import tell_comparison
    from optplan.reporting.differences import Difference
    from optplan.reporting.pages import Page

    sides = [_read_side(name) for name in (name_a, name_b)]
    sides = _change_sides(sides, changes, solves=solves, time_limit=time_limit)
    comparison = optplan.compare(*sides)
    data = comparison.to_json_data(with_equal=with_equal)
    outputs.answer(data, lambda: _show(comparison, with_equal=with_equal))
    outputs.save_table(lambda: data, Difference.COLUMNS, ([*row.values()] for row in data["rows"]))
    title = f"What changes from {comparison.a.name} to {comparison.b.name}"
    outputs.save_page("--report", lambda: Page("", title, sections=[tell_comparison(comparison)]))
    return outputs.exit_code(0)


def _read_side(name: str) -> Compared:
    from optplan.instances.files import read_record
    from optplan.reporting.comparison import Compared

    record = read_record(name)
    return Compared(name, instance=record) if isinstance(record, optplan.Instance) else Compared(name, answer=record)


def _change_sides(
    sides: list[Compared], changes: dict[str, Any], *, solves: bool, time_limit: float | None
) -> list[Compared]:
    """Change and solve the instances among the two, as the user asked."""
    from optplan.reporting.comparison import Compared

    if time_limit is not None and not solves:
        raise UsageError("--time-limit: nothing is solved; give --solve too, or leave it out")
    if all(side.instance is None for side in sides):
        why = f"neither {sides[0].name} nor {sides[1].name} is an instance"
        refuse_but("with_equal", "output", "report", why=why)
    changed = []
    for side in sides:
        if side.instance is None:
            changed.append(side)
            continue
        with naming(side.name):  # a change that fits one instance need not fit the other
            instance = amend(side.instance, changes)
        answer = None
        if solves:
            with Progress(f"solving {side.name}", instance.objective_unit) as progress:
                answer = optplan.solve(instance, time_limit_s=time_limit, on_event=progress.listen)
        changed.append(Compared(side.name, instance, answer))
    return changed


def _show(comparison: Comparison, *, with_equal: bool) -> list[Shown]:
    from optplan.reporting.differences import difference_table

    rows = comparison.rows if with_equal else comparison.differing
    parts: list[Shown] = [f"{side}  {one.describe()}" for side, one in (("A", comparison.a), ("B", comparison.b))]
    parts += [f"note: {text}" for text in comparison.notes]
    if rows:
        parts += ["", difference_table(rows)]
    return [*parts, "", comparison.summarise(with_equal=with_equal)]
