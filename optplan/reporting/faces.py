"""What a person sees of a record in Python: at most 15 lines in the words of the command line, and its picture."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from optplan.contracts import (
    Frontier,
    Instance,
    ParetoFrontier,
    Plan,
    Result,
    Solution,
    Verification,
    faces,
)
from optplan.contracts.result import write_amount, write_headline
from optplan.errors import MissingExtraError, UnsupportedError, UsageError
from optplan.instances import library
from optplan.instances.changes import restore_changes
from optplan.reporting.differences import COUNT, GPUS, HOURS, SECONDS, SHARE, format_value, state_answer
from optplan.reporting.drawing import build_figures, draw_frontier, draw_plan
from optplan.reporting.pareto import present_pareto, thin
from optplan.reporting.phrases import count_gpus
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import find_module
from optplan.reporting.sections import list_knowledge, present_answer, say_bound
from optplan.reporting.segments import draw_segments
from optplan.reporting.style import Figure
from optplan.reporting.tables import Shown, fact_table, plain_text, write_parts
from optplan.reporting.verification_tables import say_verdict, verification_table

#: Lines and characters of a line at most, points of a frontier and what a plan takes that are no main figures.
_MOST_LINES, _WIDTH, _MOST_POINTS = 15, 110, 8
_LEFT_OUT = ("busy_gpu_hours", "weighted_mean_jct_s")
#: Kinds of checks that are shown of a verification, besides those of limits and whatever fails.
_CLAIMS = ("objective", "bound")
#: Height of a notebook's page around its picture, in pixels.
_AROUND = 200


class Face(NamedTuple):
    """What is shown of a record."""

    shown: Sequence[Shown]
    picture: Callable[[], Figure]
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

    def draw(self) -> Figure:
        """Draw the picture."""
        return self.picture()

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
    match record:
        case Result():
            return _show_result(record)
        case Verification():
            return _show_verification(record)
        case Frontier() | ParetoFrontier():
            return _show_frontier(record)
        case Plan():
            return _show_plan(record)
        case Solution():
            return _show_solution(record)
    raise UnsupportedError(f"{type(record).__name__}: names nobody who shows it (SHOWN_BY)")


def _show_result(result: Result[Any]) -> Face:
    instance = _find_instance(result)
    # The words of a formulation are about all plans, and not those that keep its user's own constraints.
    if instance is not None and not result.own_constraints:
        shown = presenter_of(instance).present_result(instance, result, in_short=True)
    else:
        write = partial(write_amount, unit=result.objective_unit)
        known = list_knowledge(result, (), write, lambda one: one.describe(partial(write_amount, unit=one.unit)))
        if result.range is not None:
            least, most = ("unknown" if end is None else write(end) for end in result.range.best)
            most = "none" if result.range.may_have_no_plan else most
            known.append(("range", f"{least} to {most} within the errors of speedups"))
        plan = "plan that keeps the constraints of its user" if result.own_constraints else "plan"
        how_good = "" if result.infeasibility is not None else say_bound(result, write, plan=plan)
        shown = present_answer(result, f"{write_headline(result)}.", how_good, known)
    return Face(shown, partial(_draw_plan, instance, result), f"Result for {result.instance_name}")


def _show_solution(solution: Solution) -> Face:
    known = faces.about(solution)
    if known is None or known.result is None:
        data = [(name.replace("_", " "), str(value)) for name, value in solution.to_json_data().items()]
        return Face([fact_table(data)], partial(_draw_plan, None, None), "Solution")
    shown = presenter_of(known.instance).present_decisions(known.instance, known.result)
    return Face(shown, partial(_draw_plan, known.instance, known.result), f"Solution for {known.instance.name}")


def _show_verification(found: Verification) -> Face:
    known = faces.about(found)
    if known is None or known.result is None:
        return Face([verification_table(found, _CLAIMS)], _draw_nothing, "Verification", last=1)
    verdict = say_verdict(known.instance, known.result, found, known.gap)
    table = verification_table(found, {*_CLAIMS, *known.instance.limits})
    return Face([verdict, "", table], _draw_nothing, f"Verification for {known.instance.name}", last=1)


def _show_frontier(frontier: Frontier | ParetoFrontier) -> Face:
    known = faces.about(frontier)
    instance = known.instance if known is not None else None
    if instance is None and isinstance(frontier, Frontier) and frontier.origin is not None:
        instance = frontier.origin[1]
    shown: list[Shown] = [repr(frontier)]
    if instance is not None and isinstance(frontier, ParetoFrontier):
        shown = present_pareto(instance, frontier, _MOST_POINTS)
    tables = find_module(frontier.formulation, "frontier_tables")
    if instance is not None and isinstance(frontier, Frontier) and tables is not None:
        points = [frontier.at(float(frontier.budgets[row])) for row in thin(len(frontier.budgets), _MOST_POINTS)]
        shown = tables.present_frontier(instance.name, instance, frontier, points)

    def draw() -> Figure:
        return draw_frontier(_require_instance(instance, "draw_frontier(instance, frontier)"), frontier)

    return Face(shown, draw, f"Frontier of {frontier.instance_name}")


def _show_plan(plan: Plan) -> Face:
    totals = {
        name: value
        for name, value in plan.totals().items()
        if name not in _LEFT_OUT and not math.isclose(value, plan.objective)
    }
    stated = [fact for fact in state_answer(plan, totals) if fact.path != "solver"]
    facts = [(fact.what, _write_amount(fact.value, fact.unit)) for fact in stated]
    facts += [
        (name.replace("_", " "), f"{_write_amount(limit.amount, limit.unit)} ({limit.binding.value})")
        for name, limit in plan.limits.items()
    ]
    title = f"Plan {plan.plan_id[:12]} for {plan.instance_name} by {plan.solver}"
    segments = [plain_text(segment.label or segment.id) for segment in plan.segments]
    known = faces.about(plan)

    def draw() -> Figure:
        if known is None or known.result is None:
            return draw_segments(plan)
        return draw_plan(known.instance, known.result)

    return Face([title, fact_table(facts), "", *segments], draw, title)


def _write_amount(value: float | str, unit: str) -> str:
    if unit == GPUS and isinstance(value, float):
        return count_gpus(value)
    known = unit in ("", SECONDS, HOURS, SHARE, COUNT) or unit.startswith("usd")
    return format_value(value, unit) if known else f"{format_value(value, unit)} {unit}"


def _draw_plan(instance: Instance | None, result: Result[Any] | None) -> Figure:
    known = _require_instance(instance, "draw_plan(instance, result)")
    return draw_plan(known, cast(Result[Any], result))


def _draw_nothing() -> Figure:
    raise UnsupportedError("a verification has no picture; that of the result that it is about is `result.plot()`")


def _require_instance(instance: Instance | None, call: str) -> Instance:
    if instance is None:
        problem = "it does not know its instance, as it was read from a file or made by hand"
        raise UsageError(f"{problem}; draw it with the instance, as in optplan.{call}")
    return instance


def _find_instance(result: Result[Any]) -> Instance | None:
    """Return the instance of a result: that which it was made from, or of a file that of the library, if it is that."""
    known = faces.about(result)
    if known is not None:
        return cast(Instance, known.instance)
    if result.instance_name not in library.names():
        return None
    instance = restore_changes(library.build_named(result.instance_name), result)
    return instance if instance.content_hash() == result.instance_hash else None
