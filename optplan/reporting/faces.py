"""What a person sees of a record in Python: at most 15 lines in the words of the command line, and its picture."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from optplan.contracts import (
    Frontier,
    ParetoFrontier,
    Plan,
    Relaxation,
    Result,
    Solution,
    Verification,
    faces,
)
from optplan.contracts.result import write_amount, write_headline
from optplan.errors import MissingExtraError, UnsupportedError, UsageError
from optplan.instances import library
from optplan.instances.changes import restore_changes
from optplan.reporting.differences import COUNT, GPUS, SECONDS, SHARE, format_value, state_answer
from optplan.reporting.pareto import present_pareto, thin
from optplan.reporting.phrases import count_gpus
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import find_module
from optplan.reporting.reports import build_figures, draw_frontier, draw_plan
from optplan.reporting.sections import list_knowledge, present_answer, say_bound
from optplan.reporting.segments import draw_segments
from optplan.reporting.style import Figure
from optplan.reporting.tables import Shown, fact_table, plain_text, write_parts
from optplan.reporting.verification_tables import say_verdict, verification_table

#: Lines and characters of a line at most, points of a frontier and what a plan takes that are no main figures.
_MOST_LINES, _WIDTH, _MOST_POINTS = 15, 110, 8
_LEFT_OUT = ("busy_gpu_hours", "mean_jct_s", "weighted_mean_jct_s")
#: Kinds of checks that are shown of a verification, besides those of limits and whatever fails.
_CLAIMS = ("objective", "bound")
_NO_INSTANCE = (
    "it does not know its instance, as it was read from a file or made by hand; draw it with the instance, as in "
    "optplan.{call}"
)
#: Height of a notebook's page around its picture, in pixels.
_AROUND = 200


class Face(NamedTuple):
    """What is shown of a record."""

    shown: Sequence[Shown]
    draw: Callable[[], Figure]  #: Draws the picture.
    name: str  #: What it is called.
    last: int = 0  #: Lines at the end that are kept where there are too many.

    def write(self) -> str:
        """Write what is shown, cut to so many lines."""
        from rich.console import Console

        console = Console(width=_WIDTH, color_system=None, highlight=False, emoji=False)
        lines = write_parts(console, self.shown).rstrip().splitlines()
        if len(lines) > _MOST_LINES:
            lines = [line for line in lines if line]
        more = len(lines) - (_MOST_LINES - 1)
        if more > 1:
            first = _MOST_LINES - 1 - self.last
            lines = [*lines[:first], f"… {more} more lines", *lines[len(lines) - self.last :]]
        return "\n".join(lines)

    def write_html(self) -> str:
        """Write the lines, and below them the picture on a page of its own, where that can be drawn."""
        text = f'<pre style="white-space: pre-wrap">{html.escape(self.write())}</pre>'
        try:
            figure = self.draw()
            page = build_figures(self.name, self.name, [("The picture", figure)])
        except (MissingExtraError, UnsupportedError, UsageError):
            return text
        height = f"width: 100%; height: {figure.layout.height + _AROUND}px; border: 0"
        return f'{text}<iframe sandbox="allow-scripts" style="{height}" srcdoc="{html.escape(page)}"></iframe>'


def face_of(record: faces.Shown) -> Face:
    """Return what is shown of a record of the core."""
    known = _find_about(record)
    draw = partial(_draw, record, known)
    match record:
        case Result():
            return Face(_show_result(record, known), draw, f"Result for {record.instance_name}")
        case Solution():
            return Face(_show_solution(record, known), draw, "Solution")
        case Plan():
            return Face(_show_plan(record), draw, repr(record))
        case Frontier() | ParetoFrontier():
            return Face(_show_frontier(record, known), draw, repr(record))
        case Verification():
            return Face(_show_verification(record, known), draw, "Verification", last=1)
    raise UnsupportedError(f"{type(record).__name__}: names nobody who shows it (SHOWN_BY)")


def _show_result(result: Result[Any], known: faces.About | None) -> Sequence[Shown]:
    # The words of a formulation are about all plans, and not those that keep its user's own constraints.
    if known is not None and not result.own_constraints:
        return presenter_of(known.instance).present_result(known.instance, result, in_short=True)
    write = partial(write_amount, unit=result.objective_unit)
    facts = list_knowledge(result, (), write, Relaxation.describe)
    if result.range is not None:
        least, most = ("unknown" if end is None else write(end) for end in result.range.best)
        most = "none" if result.range.may_have_no_plan else most
        facts.append(("range", f"{least} to {most} within the errors of speedups"))
    plan = "plan that keeps the constraints of its user" if result.own_constraints else "plan"
    how_good = "" if result.infeasibility is not None else say_bound(result, write, plan=plan)
    return present_answer(result, f"{write_headline(result)}.", how_good, facts)


def _show_solution(solution: Solution, known: faces.About | None) -> Sequence[Shown]:
    if known is None:
        return [fact_table((name.replace("_", " "), str(value)) for name, value in solution.to_json_data().items())]
    return presenter_of(known.instance).present_decisions(known.instance, known.result)


def _show_plan(plan: Plan) -> Sequence[Shown]:
    totals = {name: value for name, value in plan.totals().items() if name not in _LEFT_OUT}
    stated = [fact for fact in state_answer(plan, totals) if fact.path != "solver"]
    facts = [(fact.what, _write_amount(fact.value, fact.unit)) for fact in stated]
    for name, limit in plan.limits.items():
        facts.append((name.replace("_", " "), f"{_write_amount(limit.amount, limit.unit)} ({limit.binding.value})"))
    labels = [(segment.label or segment.id).partition(", ") for segment in plan.segments]
    held = ((who, "; ".join(filter(None, (rest for _, _, rest in own)))) for who, own in groupby(labels, itemgetter(0)))
    segments = [plain_text(", ".join(filter(None, each))) for each in held]
    title = f"Plan {plan.plan_id[:12]} for {plan.instance_name} by {plan.solver}"
    return [title, fact_table(facts), "", *segments]


def _write_amount(value: float | str, unit: str) -> str:
    if unit == GPUS and isinstance(value, float):
        return count_gpus(value)
    known = unit in ("", SECONDS, SHARE, COUNT) or unit.startswith("usd")
    return format_value(value, unit) if known else f"{format_value(value, unit)} {unit}"


def _show_frontier(frontier: Frontier | ParetoFrontier, known: faces.About | None) -> Sequence[Shown]:
    tables = find_module(frontier.formulation, "frontier_tables")
    if known is not None and isinstance(frontier, ParetoFrontier):
        return present_pareto(known.instance, frontier, _MOST_POINTS)
    if known is None or isinstance(frontier, ParetoFrontier) or tables is None:
        return [plain_text(repr(frontier))]
    points = [frontier.at(float(frontier.budgets[row])) for row in thin(len(frontier.budgets), _MOST_POINTS)]
    shown: Sequence[Shown] = tables.present_frontier(known.instance.name, known.instance, frontier, points)
    return shown


def _show_verification(found: Verification, known: faces.About | None) -> Sequence[Shown]:
    if known is None:
        return [verification_table(found, _CLAIMS)]
    verdict = say_verdict(known.instance, known.result, found, known.gap)
    return [verdict, "", verification_table(found, {*_CLAIMS, *known.instance.limits})]


def _draw(record: faces.Shown, known: faces.About | None) -> Figure:
    if isinstance(record, Verification):
        raise UnsupportedError("a verification has no picture; that of the result that it is about is `result.plot()`")
    if isinstance(record, Frontier | ParetoFrontier):
        if known is None:
            raise UsageError(_NO_INSTANCE.format(call="draw_frontier(instance, frontier)"))
        return draw_frontier(known.instance, record)
    if known is not None:
        return draw_plan(known.instance, known.result)
    if isinstance(record, Plan):
        return draw_segments(record)
    raise UsageError(_NO_INSTANCE.format(call="draw_plan(instance, result)"))


def _find_about(record: faces.Shown) -> faces.About | None:
    """Return of what a record was made; of a result from a file, that of the library whose hash it has."""
    known = faces.about(record)
    if isinstance(record, Frontier) and record.origin is not None:
        return faces.About(record.origin[1], None, 0.0)
    if known is not None or not isinstance(record, Result) or record.instance_name not in library.names():
        return known
    instance = restore_changes(library.build_named(record.instance_name), record)
    return faces.About(instance, record, 0.0) if instance.content_hash() == record.instance_hash else None
