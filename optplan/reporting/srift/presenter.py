"""What a terminal and a page show of training jobs and the VMs that train them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from optplan.contracts import ParetoFrontier, Result, Solution
from optplan.contracts.time_and_money import DEADLINE
from optplan.formulations.srift.data.instance import SriftInstance, write_fleet
from optplan.formulations.srift.study.pareto import OneMoreVm
from optplan.formulations.srift.study.replanning import FleetContinuation, Timeline
from optplan.reporting.pages import Block, Card, Charts, Definitions, Page, Section
from optplan.reporting.pareto import tell_frontier
from optplan.reporting.phrases import ROUNDING, format_cost, format_objective, frontier_limit
from optplan.reporting.presentation import Presenter
from optplan.reporting.presenters import Beside
from optplan.reporting.sections import relaxations_of, tell_relaxations
from optplan.reporting.srift import tables, words
from optplan.reporting.srift.continuations import draw_timeline, list_segments, say_continuation
from optplan.reporting.tables import Column, Table, numbers
from optplan.units import format_duration

_CHECK = (
    "verify trusts no solver: it predicts the iteration again, and checks every rule, from the fleet alone. That no "
    "fleet is better it finds by dividing all fleets as the certificate says, and bounding each part itself."
)
#: What the frontier's limit is measured by.
_MEASURES = {"deadline": "time_s", "budget": "cost_usd"}

_ASSUMPTIONS = (
    (
        "Predictions",
        "Times are predicted from the profile and the bandwidth model, and no better than these; the paper's own "
        "predictions are off by 8.9 % on average. The proof is about the predicted times.",
    ),
    (
        "Batches",
        "How samples are shared between VMs changes the time of an iteration and not what is learned: ranks with "
        "different batches weight their losses, as the plan says.",
    ),
    ("Stragglers", "Every VM's compute time varies on its own, from iteration to iteration, and all wait for all."),
    ("Overlap", "Gradients travel as soon as they are ready and share the slowest network's bandwidth fairly."),
    ("Supply", "VMs can be had up to the number available, at a constant price."),
)


def build_continuation_page(continuation: FleetContinuation, timeline: Timeline, beside: Beside) -> Page:
    """Put the report of the rest of a run together, the whole run's timeline first."""
    page = PRESENTER.build_page(continuation.remainder.instance, continuation.result, beside)
    reading = "Numbers count VMs; hatched bars are predictions; dotted lines are the loss and any deadline."
    chart = Charts([("The run over time, as the table below lists it.", draw_timeline(timeline))], reading)
    said = say_continuation(continuation, timeline)
    told = Section("run", "The whole run", [said, chart, list_segments(timeline)])
    return page._replace(sections=[told, *page.sections])


def _tell_fleet(instance: SriftInstance, result: Result[Solution]) -> list[Section]:
    fleet, plan, measures = words.require_fleet(result.solution), tables.plan_of(instance, result), result.measures
    one = tables.list_parts(measures)[0]
    label = f"One iteration of {write_fleet(fleet.groups)}: {one.value} ({one.note})."
    reading = (
        "Gradients travel while the backward pass goes on. What is still on its way when the slowest VM is done "
        "is what the exchange adds to the iteration; the paler part of a row is time that a VM waits for the slowest."
    )
    bill = [(f"{vms.count} {vms.type}", format_cost(vms.cost_usd)) for vms in plan.fleet]
    bill.append(("in all", f"{format_cost(plan.total_usd)}, {format_cost(plan.price_usd_per_hour)} an hour"))
    return [
        Section("iteration", "One iteration", [Charts([(label, tables.draw_iteration(instance, fleet))], reading)]),
        Section("fleet", "The plan", [tables.list_fleet(instance, plan)]),
        Section("bill", "What is paid for", [Definitions(bill)], place="half"),
    ]


def _tell_frontier(
    instance: SriftInstance, found: ParetoFrontier, results: Sequence[Result[Solution]]
) -> list[Section]:
    if not found.points:
        return []
    drawn = [(one, one.measures[_MEASURES[found.limit_name]]) for one in results if one.solution is not None]
    limit = instance.limits.get(frontier_limit(instance))
    reading = "Each step is a fleet that no other beats in both time and cost."
    if limit is not None:
        reading += " The dotted line is the limit that was asked."
    return [tell_frontier(instance, found, words, drawn, limit=limit, plans="fleets", reading=reading)]


def _tell_more(instance: SriftInstance, found: Sequence[OneMoreVm]) -> list[Section]:
    """Tell what one more VM of each type would be worth; nothing where as many as are wanted can be had."""
    if not found:
        return []
    columns = (Column("one more"), *numbers("available", "used", "saves"), Column("with the fleet"))
    rows = [(one.type, f"{one.available:,}", f"{one.used:,}", *_say_worth(instance, one)) for one in found]
    reading = "VMs are whole: one more may help although not all are used, and may not help although all are."
    table = Table(f"What it would save of the {words.name_objective(instance)}", columns, rows)
    return [Section("more", "One more VM", [reading, table])]


def _say_worth(instance: SriftInstance, one: OneMoreVm) -> tuple[str, str]:
    """Say what one more VM saves, and the fleet that does; or that there still is none."""
    if one.objective is None:
        return ("no fleet yet" if one.proven else "not known"), ""
    at_least = "" if one.proven else "at least "
    fleet = write_fleet(one.groups)
    if one.saving is None:
        return f"{at_least}makes one possible, {format_objective(instance, one.objective)}", fleet
    if one.saving <= ROUNDING * one.objective:
        return ("nothing" if one.proven else "not known"), ""
    return f"{at_least}{format_objective(instance, one.saving)}", fleet


def _list_cards(instance: SriftInstance, result: Result[Solution]) -> list[Card]:
    measures, kind = result.measures, "expected" if instance.interruptions is not None else "predicted"
    cards = [
        Card(f"{kind} time", format_duration(measures["time_s"]), f"{measures['time_s']:,.6g} s"),
        Card(f"{kind} cost", format_cost(measures["cost_usd"]), f"{measures['cost_usd']:,.6g} usd"),
        *tables.list_parts(measures),
        Card("samples a second", words.format_count(measures["samples_per_s"]), f"on {measures['ranks']:,.0f} GPUs"),
    ]
    if DEADLINE in instance.limits:
        spare = instance.limits[DEADLINE] - measures["time_s"]
        cards.append(Card("spare time", format_duration(spare), "before the deadline"))
    return cards


def _compare(_: SriftInstance, results: Sequence[Result[Solution]]) -> list[Block]:
    return [tables.compare_results(results), Definitions(tables.list_fleets(results))]


def _tell_relaxations(_: SriftInstance, result: Result[Solution]) -> Section:
    said = [] if relaxations_of(result) else ["No limit alone helps."]
    return tell_relaxations(result, words.write_relaxation, *said, least="nearest that works")


PRESENTER = Presenter(
    words.require_job,
    facts=tables.list_facts,
    given=lambda job: [tables.list_offers(job)],
    answer=words.say_answer,
    title=partial(words.say_answer, in_full=False),
    how_good=words.say_how_good,
    help=words.format_relaxation,
    decided=lambda job, result: [tables.list_fleet(job, tables.plan_of(job, result))],
    compared=_compare,
    cards=_list_cards,
    rivals="Other planners",
    relaxed=_tell_relaxations,
    plan=lambda job, result, _: _tell_fleet(job, result),
    gathered=lambda job, found, results: [*_tell_frontier(job, found[0], results), *_tell_more(job, found[1])],
    question=lambda job: [tables.list_offers(job), Definitions(tables.list_facts(job))],
    check=lambda _: _CHECK,
    granted=lambda _: _ASSUMPTIONS,
    run="optplan run plan.json",
    picture=lambda job, result: tables.draw_iteration(job, words.require_fleet(result.solution)),
)
