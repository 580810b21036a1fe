"""How a run goes on after a loss, for a terminal and a page."""

from __future__ import annotations

from optplan.formulations.srift.data.instance import BUDGET, DEADLINE, SriftInstance, write_fleet
from optplan.formulations.srift.study.replanning import FleetContinuation, FleetStanding, name_vms
from optplan.formulations.srift.study.timelines import Timeline
from optplan.reporting.pages import Page
from optplan.reporting.presenters import Beside
from optplan.reporting.srift.timeline_figures import list_segments
from optplan.reporting.srift.words import format_relaxation, require_fleet, say_condition
from optplan.reporting.tables import Shown, fact_table, plain_text
from optplan.reporting.time_and_money import format_amount
from optplan.units import format_duration


def present_continuation(
    instance: SriftInstance, state: FleetStanding, continuation: FleetContinuation, timeline: Timeline
) -> list[Shown]:
    """Say where a run stands, what is left of its limits, how it goes on, and when it ends."""
    facts = list_continuation_facts(instance, state, continuation, timeline)
    return [
        plain_text(say_continuation(continuation, timeline), "bold"),
        "",
        fact_table(facts),
        "",
        list_segments(timeline),
    ]


def say_continuation(continuation: FleetContinuation, timeline: Timeline) -> str:
    """Say in a sentence how the run goes on, or why the limits cannot be kept and what they would have to be."""
    found = continuation.infeasibility
    if found is not None:
        helps = " or ".join(f"a {one.limit} of {format_relaxation(one)}" for one in found.relaxations)
        return f"The limits cannot be kept any more: {found.reason}." + (f" What would do: {helps}." if helps else "")
    if continuation.result.solution is None:
        return "No fleet was found for the rest of the run."
    fleet = require_fleet(continuation.result.solution)
    sentence = f"Go on with {write_fleet(fleet.groups)}: it ends after {format_duration(timeline.end_s)}"
    condition = say_condition(continuation.remainder.instance, fleet)
    if continuation.remainder.gone:
        return f"{sentence}{condition}; nothing was left of the {' and the '.join(continuation.remainder.gone)}."
    words = {DEADLINE: "before the deadline", BUDGET: "under the budget"}
    spare = [f"{format_amount(limit, amount)} {words[limit]}" for limit, amount in timeline.spare.items()]
    return f"{', '.join([sentence, *spare])}{condition}."


def list_continuation_facts(
    instance: SriftInstance, state: FleetStanding, continuation: FleetContinuation, timeline: Timeline
) -> list[tuple[str, str]]:
    """List the old and the new fleet and what is left of iterations and limits."""
    remainder, solution = continuation.remainder, continuation.result.solution
    left = remainder.instance
    facts = [
        ("until the loss", timeline.segments[0].fleet if timeline.segments else name_vms(state.vms)),
        ("lost", name_vms(state.lost) or "nothing"),
        ("kept", name_vms(state.running) or "nothing"),
        ("from then on", write_fleet(require_fleet(solution).groups) if solution is not None else "no fleet"),
        ("iterations left", f"{left.iterations:,} of {instance.iterations:,}"),
    ]
    for limit, amount in instance.limits.items():
        rest = left.limits.get(limit)
        words = "nothing" if rest is None else format_amount(limit, rest)
        launch = _say_launch(left) if limit == DEADLINE and rest is not None else ""
        facts.append((f"left of the {limit}", f"{words}, of {format_amount(limit, amount)}{launch}"))
    return facts


def build_continuation_page(continuation: FleetContinuation, timeline: Timeline, beside: Beside) -> Page:
    """Gather the report of the rest of a run, with the whole run's timeline first."""
    from optplan.reporting.srift.presenter import build_page, tell_timeline

    page = build_page(continuation.remainder.instance, continuation.result, beside)
    first = tell_timeline(timeline, "run", "The whole run", say_continuation(continuation, timeline))
    return page._replace(sections=[first, *page.sections])


def _say_launch(left: SriftInstance) -> str:
    return f"; new VMs take {format_duration(left.launch_s)} of it" if left.launch_s else ""
