"""Tables for the terminal, as rich renderables; whoever calls prints them.

Every cell is a ``Text``, so that brackets in users' names are not read as markup. rich loads on use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from optplan.contracts import FrontierPoint, Instance, Result, Solution
from optplan.errors import show_text
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting.boa.breakdown import break_down, has_types, load_gpus, require_boa, type_prices
from optplan.reporting.boa.budgets import (
    BUDGET_NAMES,
    UNIT_WORTHS,
    WORTH_NAMES,
    cost_of_month,
    cost_usd_per_hour,
    say_worth,
)
from optplan.reporting.boa.explanations import describe_classes, describe_type
from optplan.reporting.boa.rows import compare_solvers, list_budgets, list_classes, list_limits, list_plan
from optplan.reporting.phrases import (
    NOTHING,
    PROBLEM_WORDS,
    compare_durations,
    count_gpus,
    describe_budget,
    format_gpus,
    format_seconds,
    format_share,
    format_usd,
    name_objective,
    price_words,
    say_answer,
    say_how_good,
    shadow_price,
)
from optplan.reporting.standing import add_trust, name_status
from optplan.units import HOURS_PER_MONTH, format_duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from optplan.reporting.boa.sweeps import SweepPoint

#: Largest number that a table of records writes with all its digits before the point.
_MOST_DIGITS = 6

#: Classes that a table lists before it says how many more there are: laying out tens of thousands takes longer than
#: solving them.
_MOST_CLASSES = 1000


def instance_summary(instance: Instance) -> RenderableType:
    """Summarise an instance: what is asked, and the data of each class.

    Parameters
    ----------
    instance
        Of any formulation; those that tables do not know yet are shown by name and description.
    """
    from rich.console import Group

    facts = [("instance", instance.name), ("formulation", str(getattr(instance, "formulation", "")))]
    if instance.description:
        facts.append(("description", instance.description))
    if not isinstance(instance, BoaInstance):
        return fact_table(facts)
    facts += [
        ("problem", f"{instance.problem.value}: {PROBLEM_WORDS[instance.problem]}"),
        ("policy", instance.policy.value),
        ("budget", describe_budget(instance) if instance.budget is not None else NOTHING),
        ("load", count_gpus(load_gpus(instance)) + (", where sizes were measured" if has_types(instance) else "")),
        *((f"price of {name}", price_words(gpu_type)) for name, gpu_type in instance.gpu_types.items()),
        *(fact for name, gpu_type in instance.gpu_types.items() for fact in describe_type(name, gpu_type)),
        *((f"source: {kind}", text) for kind, text in instance.source.items()),
        ("hash", instance.content_hash()),
    ]
    table = new_table(
        ("class", False),
        ("jobs/h", True),
        ("epochs", True),
        ("size on one GPU", True),
        ("speedup", False),
        ("widths", False),
        ("pause", True),
        ("weight", True),
    )
    for row in describe_classes(instance, _MOST_CLASSES):
        add_row(
            table, row.name, row.jobs_per_hour, row.epochs, row.size, row.speedup, row.widths, row.pause, row.weight
        )
    _add_rest(table, instance)
    return Group(fact_table(facts), plain_text(""), table)


def result_summary(instance: Instance, result: Result[Solution]) -> RenderableType:
    """Summarise a result: the answer in a sentence, how good it is, and the main figures.

    Parameters
    ----------
    instance
        The problem, with its budget.
    result
        Its result, of any status.

    Raises
    ------
    UsageError
        When the instance is of a formulation that tables cannot show.
    """
    from rich.console import Group

    boa = require_boa(instance)
    answer = add_trust(say_answer(boa, result), result)
    parts: list[RenderableType] = [plain_text(answer, "bold"), plain_text(say_how_good(boa, result))]
    limits = list_limits(result)
    if limits:
        table = new_table(("limit", False), ("given", True), ("least that works", True))
        for row in limits:
            add_row(table, row.name, row.given, row.least)
        parts += [plain_text(""), table]
    parts += [plain_text(""), fact_table(_result_facts(boa, result))]
    parts += [plain_text(f"note: {warning}") for warning in result.warnings]
    return Group(*parts)


def width_table(instance: Instance, result: Result[Solution]) -> Table:
    """List who gets how many GPUs in which epochs; consecutive epochs of one width share a row.

    Parameters
    ----------
    instance
        The problem.
    result
        Its result; the table is empty where it has no solution.

    Raises
    ------
    UsageError
        When the instance is of a formulation that tables cannot show.
    """
    boa = require_boa(instance)
    classes = list_plan(break_down(boa, result, _MOST_CLASSES))
    shares = any(len(c.paths) > 1 for c in classes)
    columns = [("class", False), ("share", True), ("epochs", True), ("GPUs", True), ("expected time", True)]
    table = new_table(*(column for column in columns if shares or column[0] != "share"))
    for part in classes:
        name = part.name
        for path in part.paths:
            share = [path.share] if shares else []
            for row in path.rows:
                add_row(table, name, *share, row.epochs, row.gpus, row.duration)
                name, share = "", [""] if shares else []
            if path.rest:
                add_row(table, "", *share, path.rest, "", "")
        table.add_section()
    if classes:
        _add_rest(table, boa)
    return table


def class_table(instance: Instance, result: Result[Solution]) -> Table:
    """List what each class uses and how long its jobs take.

    Parameters
    ----------
    instance
        The problem.
    result
        Its result; the table is empty where it has no solution.

    Raises
    ------
    UsageError
        When the instance is of a formulation that tables cannot show.
    """
    boa = require_boa(instance)
    prices = type_prices(boa)
    columns = [("class", False), ("GPUs running", True), ("GPUs rescaling", True)]
    columns += [("by type", False)] if has_types(boa) else []
    columns.append(("share of GPUs", True))
    columns += [("share of the cost", True)] if prices is not None else []
    table = new_table(*columns, ("one job takes", True), ("share of the mean", True))
    classes = list_classes(break_down(boa, result), prices)
    for row in classes[:_MOST_CLASSES]:
        by_type = [", ".join(row.by_type)] if has_types(boa) else []
        cost = [] if prices is None else [row.cost_share]
        add_row(
            table, row.name, row.running, row.rescaling, *by_type, row.gpus_share, *cost, row.mean_jct, row.time_share
        )
    if classes:
        _add_rest(table, boa)
    return table


def comparison_table(instance: Instance, results: Sequence[Result[Solution]]) -> Table:
    """Put results of the same problem side by side.

    Parameters
    ----------
    instance
        The problem.
    results
        At least one; the first is what the others are compared with.

    Raises
    ------
    UsageError
        When the instance is of a formulation that tables cannot show.
    """
    boa = require_boa(instance)
    priced = type_prices(boa) is not None
    columns = [("solver", False), (name_objective(boa), True), ("difference", True), ("GPUs", True)]
    columns += [("cost an hour", True)] if priced else []
    table = new_table(*columns, ("bound", True), ("gap", True), ("proof", False), ("solved in", True))
    for row in compare_solvers(boa, results):
        cost = [row.cost] if priced else []
        add_row(
            table, row.solver, row.objective, row.above, row.gpus, *cost, row.bound, row.gap, row.proof, row.seconds
        )
    return table


def frontier_table(
    instance: Instance,
    points: Sequence[FrontierPoint],
    *,
    reference: float | None = None,
    bounds: Sequence[float] | None = None,
) -> Table:
    """List what budgets buy at best.

    Parameters
    ----------
    instance
        The problem.
    points
        Of its frontier.
    reference
        An objective, in seconds, that the points are compared with; None for no comparison.
    bounds
        For each point, what its certificate proves, in seconds; None to leave it out.

    Raises
    ------
    UsageError
        When the instance is of a formulation that tables cannot show.
    """
    boa = require_boa(instance)
    priced = cost_of_month(boa, 1.0) is not None
    columns = [(BUDGET_NAMES[boa.budget_unit], True)]
    columns += [("cost a month", True)] if priced else []
    columns.append((f"best possible {name_objective(boa)}", True))
    columns += [("proven bound", True)] if bounds is not None else []
    columns += [("against the plan", True)] if reference is not None else []
    table = new_table(*columns, (WORTH_NAMES[boa.budget_unit], True), ("", False))
    for position, row in enumerate(list_budgets(boa, points, reference=reference)):
        money = [row.money] if priced else []
        proven = [] if bounds is None else [f"{bounds[position]:.6g} s"]
        change = [row.change] if reference is not None else []
        add_row(table, row.gpus, *money, row.objective, *proven, *change, row.marginal, row.note)
    return table


def sweep_table(instance: Instance, points: Sequence[SweepPoint]) -> Table:
    """List what a solver reaches at budgets, and how far above the frontier that is.

    Parameters
    ----------
    instance
        The problem.
    points
        Of one solver; where none of its results has a bound, no column for bounds is shown.

    Raises
    ------
    UsageError
        When the instance is of a formulation that tables cannot show.
    """
    boa = require_boa(instance)
    columns = [(BUDGET_NAMES[boa.budget_unit], True), ("best possible", True), (name_objective(boa), True)]
    columns.append(("above the best", True))
    has_bounds = any(point.result.bound is not None for point in points)
    columns += [("own bound", True), ("gap", True), ("proof", False)] if has_bounds else []
    table = new_table(*columns, ("solved in", True))
    for point, row in zip(points, list_budgets(boa, [point.best for point in points]), strict=True):
        (found,) = compare_solvers(boa, [point.result])
        above = NOTHING if point.above is None else compare_durations(point.above)
        proof = [found.bound, found.gap, found.proof] if has_bounds else []
        add_row(table, row.gpus, row.objective, found.objective, above, *proof, found.seconds)
    return table


def record_table(name: str, records: Iterable[Mapping[str, object]]) -> RenderableType:
    """Show records of any kind, such as the registry's solvers or a benchmark's rows, one row each.

    Parameters
    ----------
    name
        Title of the table.
    records
        With the same fields in the same order. Mappings inside them are written as ``name=value``; what is empty in
        every record is left out.
    """
    rows = [{field: _write_value(value) for field, value in record.items()} for record in records]
    if not rows:
        return plain_text(f"{name}: none")
    fields = [field for field in rows[0] if any(row[field] != NOTHING for row in rows)]
    numeric = {field for field in fields if all(_is_number(row[field]) for row in rows)}
    table = new_table(*((field.replace("_", " "), field in numeric) for field in fields))
    table.title, table.title_justify, table.title_style = plain_text(f"{name} ({len(rows)})", "bold"), "left", ""
    for row in rows:
        add_row(table, *(row[field] for field in fields))
    return table


def _result_facts(instance: BoaInstance, result: Result[Solution]) -> list[tuple[str, str]]:
    measures, objective = result.measures, result.objective
    facts = [("status", f"{name_status(result)[0]} (stopped: {result.termination.value})")]
    if objective is not None:
        rescaling = f" ({format_gpus(measures['gpus_rescaling'])} of them rescaling)"
        facts.append((name_objective(instance), f"{format_duration(objective)} ({objective:.6g} s)"))
        facts.append(("GPUs on average", f"{format_gpus(measures['gpus'])}{rescaling}"))
        usd = cost_usd_per_hour(instance, result)
        if usd is not None:
            facts.append(("cost a month", format_usd(usd * HOURS_PER_MONTH)))
        facts.append(
            (
                "pauses a job",
                f"{measures['rescales_per_job']:.3g}, of these {measures['width_changes_per_job']:.3g} "
                "changes of width",
            )
        )
    if result.bound is not None:
        gap = "" if result.gap is None else f", gap {format_share(result.gap)}"
        proof = result.bound_proof.value
        facts.append(("bound", f"{format_duration(result.bound)} ({result.bound:.6g} s{gap}; {proof})"))
    price = shadow_price(instance, result, None)
    if price is not None and objective is not None:
        facts.append((UNIT_WORTHS[instance.budget_unit], say_worth(instance, price)))
    engine = f"{result.engine} {result.engine_version}".strip()
    facts.append(("solver", f"{result.solver} (engine {engine}, seed {result.seed})"))
    verified = f", verified in {format_seconds(result.verify_seconds)}" if result.verify_seconds else ", not verified"
    facts.append(("time", f"{format_seconds(result.solve_seconds)}{verified}"))
    return facts


def _write_value(value: object) -> str:
    """Write a value of a record for readers."""
    match value:
        case None | "":
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.0f}" if value.is_integer() and abs(value) < 10**_MOST_DIGITS else f"{value:.6g}"
        case Mapping():
            return ", ".join(f"{name}={_write_value(item)}" for name, item in value.items()) or NOTHING
        case list() | tuple():
            return ", ".join(_write_value(item) for item in value) or NOTHING
        case _:
            return str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == NOTHING
    return True


def fact_table(facts: Iterable[tuple[str, str]]) -> Table:
    """Make a table of names and what is said of them."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, text in facts:
        add_row(table, name, text)
    return table


def new_table(*columns: tuple[str, bool]) -> Table:
    """Make a table; each column has a heading and whether it holds numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for position, (heading, is_number) in enumerate(columns):
        justify: Literal["left", "right"] = "right" if is_number else "left"
        # The first column names the row; the others wrap before a name is broken.
        table.add_column(plain_text(heading, "bold"), justify=justify, overflow="fold", no_wrap=position == 0)
    return table


def _add_rest(table: Table, instance: BoaInstance) -> None:
    """Say how many classes a table leaves out, if any."""
    more = len(instance.classes) - _MOST_CLASSES
    if more > 0:
        add_row(table, f"... {more:,} more (--json)")


def add_row(table: Table, *cells: str) -> None:
    """Add a row of plain texts."""
    table.add_row(*(plain_text(cell) for cell in cells))


def plain_text(text: str, style: str = "") -> Text:
    """Make a text in which nothing is markup, and nothing is for the terminal to obey."""
    from rich.text import Text

    return Text(show_text(text), style=style)
