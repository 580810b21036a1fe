"""The HTML report of a training job: an iteration, the fleet, its rivals, the frontier, a loss, the proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from optplan.contracts import Result, Solution, Verification
from optplan.errors import OptplanError
from optplan.formulations.srift.data.instance import DEADLINE, SriftInstance, SriftSolution
from optplan.formulations.srift.study.replanning import Continuation, State, continue_run
from optplan.formulations.srift.study.scarcity import OneMoreVm, value_of_one_more
from optplan.formulations.srift.study.timelines import Timeline, build_timeline
from optplan.reporting.pages import Card, Column, Page, PageTable, Section, Term
from optplan.reporting.pareto import draw_pareto
from optplan.reporting.phrases import PROOF_WORDS, format_seconds
from optplan.reporting.presenters import plan_presenter_of
from optplan.reporting.srift.iteration_figures import draw_iteration
from optplan.reporting.srift.presenter import (
    COMPARISON_COLUMNS,
    FLEET_COLUMNS,
    OFFER_COLUMNS,
    compare_results,
    list_facts,
    list_fleet,
    list_notes,
    list_offers,
    list_parts,
    plan_of,
)
from optplan.reporting.srift.timeline_figures import SEGMENT_COLUMNS, draw_timeline, list_segments
from optplan.reporting.srift.words import (
    describe_limits,
    format_amount,
    format_cost,
    format_count,
    format_objective,
    format_relaxation,
    format_short,
    frontier_limit,
    name_fleet,
    name_objective,
    require_fleet,
    say_answer,
    say_how_good,
)
from optplan.reporting.standing import add_trust, name_status
from optplan.solving import pareto, solve
from optplan.units import format_duration

#: Seconds that the frontier, and planning again after a loss, may take; what is known by then is shown.
_FRONTIER_LIMIT_S = 10.0
_LOSS_LIMIT_S = 5.0
#: Seconds that finding the worth of one more VM may take for each type.
_MORE_LIMIT_S = 2.0
#: Savings below this, relatively, are rounding.
_ROUNDING = 1e-9
#: What the frontier's limit is measured by.
_MEASURES = {"deadline": "time_s", "budget": "cost_usd"}

_ASSUMPTIONS = (
    Term(
        "Predictions",
        "Times are predicted from the profile and the bandwidth model, and no better than these; the paper's own "
        "predictions are off by 8.9 % on average. The proof is about the predicted times.",
    ),
    Term(
        "Batches",
        "How samples are shared between VMs changes the time of an iteration and not what is learned: ranks with "
        "different batches weight their losses, as the plan says.",
    ),
    Term("Stragglers", "Every VM's compute time varies on its own, from iteration to iteration, and all wait for all."),
    Term("Overlap", "Gradients travel as soon as they are ready and share the slowest network's bandwidth fairly."),
    Term("Supply", "VMs can be had up to the number available, at a constant price."),
)


def build_page(
    instance: SriftInstance,
    result: Result[Solution],
    *,
    rivals: Sequence[Result[Solution]] = (),
    verification: Verification | None = None,
    verify_command: str,
) -> Page:
    """Gather the report of a result.

    Parameters
    ----------
    instance, result
        The problem and its result, of any status.
    rivals
        Results of other solvers for the same problem.
    verification
        Of the result, when it is at hand.
    verify_command
        The command line that checks the result.

    Raises
    ------
    MissingExtraError
        When plotly is not installed.
    """
    sections = []
    if result.infeasibility is not None:
        sections.append(_tell_relaxations(result))
    if result.solution is not None:
        sections += _tell_fleet(instance, result)
    if rivals:
        table = PageTable("Solvers side by side", _columns(COMPARISON_COLUMNS), compare_results([result, *rivals]))
        notes = [Term(*note) for note in list_notes([result, *rivals])]
        sections.append(Section("solvers", "Other planners", tables=[table], terms=notes))
    sections += [*_tell_frontier(instance, result, rivals), *_tell_more(instance, result)]
    if result.solution is not None:
        sections += _tell_loss(instance, require_fleet(result.solution), result)
    offers = PageTable("VMs on offer", _columns(OFFER_COLUMNS), list_offers(instance))
    asked = [Term(*fact) for fact in list_facts(instance)]
    sections.append(Section("question", "What was asked", tables=[offers], terms=asked))
    sections.append(_tell_proof(result, verification, verify_command))
    sections.append(Section("assumptions", "What is taken for granted", terms=_ASSUMPTIONS))
    sources = [Term(name, text) for name, text in instance.source.items()]
    sources.append(Term("instance", f"{instance.name}, hash {result.instance_hash}"))
    sections.append(Section("provenance", "Where this comes from", terms=sources))
    badge, kind = name_status(result)
    return Page(
        name=instance.name,
        title=add_trust(say_answer(instance, result, in_full=False), result),
        lead=say_how_good(instance, result),
        badge=badge,
        badge_kind=kind,
        warnings=result.warnings,
        cards=_list_cards(instance, result),
        sections=sections,
    )


def tell_timeline(timeline: Timeline, *, heading: str, paragraphs: Sequence[str] = ()) -> Section:
    """Tell a run that loses VMs: its picture, and what happens when.

    Parameters
    ----------
    timeline
        The run.
    heading, paragraphs
        Of the section.
    """
    said = "; ".join(f"{row[2]} {row[3]} until {row[1]}" for row in list_segments(timeline))
    reading = "Hatched bars are predictions. The dotted lines are the loss and, where there is one, the deadline."
    table = PageTable("What happens when", _columns(SEGMENT_COLUMNS), list_segments(timeline))
    return Section(
        "loss",
        heading,
        paragraphs=paragraphs,
        charts=[(f"The run over time: {said}.", draw_timeline(timeline))],
        reading=reading,
        tables=[table],
    )


def _tell_fleet(instance: SriftInstance, result: Result[Solution]) -> list[Section]:
    fleet, plan, measures = require_fleet(result.solution), plan_of(instance, result), result.measures
    label = f"One iteration of {name_fleet(fleet)}: {list_parts(measures)[0][1]}."
    reading = (
        "Gradients travel while the backward pass goes on. What is still on its way when the slowest VM is done "
        "is what the exchange adds to the iteration; the paler part of a row is time that a VM waits for the slowest."
    )
    table = PageTable("The fleet", _columns(FLEET_COLUMNS), list_fleet(instance, plan))
    bill = [Term(f"{vms.count} {vms.type}", format_cost(vms.cost_usd)) for vms in plan.fleet]
    bill.append(Term("in all", f"{format_cost(plan.total_usd)}, {format_cost(plan.price_usd_per_hour)} an hour"))
    return [
        Section("iteration", "One iteration", charts=[(label, draw_iteration(instance, fleet))], reading=reading),
        Section("fleet", "The plan", tables=[table]),
        Section("bill", "What is paid for", terms=bill),
    ]


def _tell_relaxations(result: Result[Solution]) -> Section:
    relaxations = result.infeasibility.relaxations if result.infeasibility else ()
    rows = [
        (one.limit.replace("_", " "), format_amount(one.limit, one.given), format_relaxation(one))
        for one in relaxations
    ]
    if not rows:
        return Section("help", "What would help", paragraphs=["No limit alone helps."])
    columns = (Column("Limit"), Column("Given", is_number=True), Column("Nearest that works", is_number=True))
    return Section("help", "What would help", tables=[PageTable("Limits to relax", columns, rows)])


def _tell_frontier(
    instance: SriftInstance, result: Result[Solution], rivals: Sequence[Result[Solution]]
) -> list[Section]:
    found = pareto(instance, time_limit_s=_FRONTIER_LIMIT_S)
    if not found.points:
        return []
    drawn = [(one, one.measures[_MEASURES[found.limit_name]]) for one in (result, *rivals) if one.solution is not None]
    limit = instance.limits.get(frontier_limit(instance))
    figure = draw_pareto(instance, found, plan_presenter_of(instance), results=drawn, limit=limit)
    label = f"Least {name_objective(instance)} for every {found.limit_name}: {len(found.points)} fleets."
    reading = "Each step is a fleet that no other beats in both time and cost."
    if limit is not None:
        reading += " The dotted line is the limit that was asked."
    complete = (
        "Every such fleet is shown." if found.exact else "Not every such fleet is shown: the search was cut short."
    )
    return [Section("frontier", "Time against cost", charts=[(label, figure)], reading=f"{reading} {complete}")]


def _tell_more(instance: SriftInstance, result: Result[Solution]) -> list[Section]:
    """Tell what one more VM of each type would be worth; nothing where as many as are wanted can be had."""
    found = value_of_one_more(instance, cast(Result[SriftSolution], result), time_limit_s=_MORE_LIMIT_S)
    if not found:
        return []
    columns = (
        Column("One more"),
        Column("Available", is_number=True),
        Column("Used", is_number=True),
        Column("Saves", is_number=True),
        Column("With the fleet"),
    )
    rows = [(one.type, f"{one.available:,}", f"{one.used:,}", *_say_worth(instance, one)) for one in found]
    reading = "VMs are whole: one more may help although not all are used, and may not help although all are."
    tables = [PageTable(f"What it would save of the {name_objective(instance)}", columns, rows)]
    return [Section("more", "One more VM", paragraphs=[reading], tables=tables)]


def _say_worth(instance: SriftInstance, one: OneMoreVm) -> tuple[str, str]:
    """Say what one more VM saves, and the fleet that does; or that there still is none."""
    if one.objective is None:
        return ("no fleet yet" if one.proven else "not known"), ""
    at_least = "" if one.proven else "at least "
    fleet = name_fleet(SriftSolution(groups=one.groups))
    if one.saving is None:
        return f"{at_least}makes one possible, {format_objective(instance, one.objective)}", fleet
    if one.saving <= _ROUNDING * one.objective:
        return ("nothing" if one.proven else "not known"), ""
    return f"{at_least}{format_objective(instance, one.saving)}", fleet


def _tell_loss(instance: SriftInstance, fleet: SriftSolution, result: Result[Solution]) -> list[Section]:
    """Tell what would be done if a spot VM were lost in the middle of the run; nothing where there is none."""
    spot = [group for group in fleet.groups if instance.types[group.type].spot]
    if not spot or instance.iterations < 2:
        return []
    lost = max(spot, key=lambda group: group.count).type
    state = _lose_one(instance, fleet, lost, result)
    try:
        continuation = continue_run(instance, state, _solve_shortly)
    except OptplanError as error:
        return [Section("loss", "If a VM is lost", paragraphs=[f"There is no plan for the rest of the run: {error}."])]
    new = continuation.result.solution
    timeline = build_timeline(
        instance, state, continuation.remainder, new=None if new is None else require_fleet(new), old=fleet
    )
    return [tell_timeline(timeline, heading="If a VM is lost", paragraphs=_say_loss(lost, continuation))]


def _lose_one(instance: SriftInstance, fleet: SriftSolution, lost: str, result: Result[Solution]) -> State:
    """Return the state of the run when one VM of a type is lost after half of the iterations."""
    running: dict[str, int] = {}
    for group in fleet.groups:
        running[group.type] = running.get(group.type, 0) + group.count
    running[lost] -= 1
    done = instance.iterations // 2
    launch_s = result.measures["launch_s"]
    losses = instance.interruptions
    return State(
        elapsed_s=launch_s + done * result.measures["iteration_s"],
        ready_s=launch_s,
        iterations_done=done,
        running={name: count for name, count in running.items() if count},
        lost={lost: 1},
        restart_s=losses.restart_s if losses is not None else 0.0,
    )


def _solve_shortly(instance: SriftInstance) -> Result[SriftSolution]:
    return solve(instance, time_limit_s=_LOSS_LIMIT_S)


def _say_loss(lost: str, continuation: Continuation) -> list[str]:
    """Say what is supposed, and how the run goes on or why it cannot."""
    supposed = (
        f"Suppose that one {lost} is taken back when half of the iterations are done, and that no other can be had. "
        "The VMs that are left stay."
    )
    infeasibility, new = continuation.infeasibility, continuation.result.solution
    if infeasibility is None:
        kept = " and keep all limits" if continuation.remainder.instance.limits else ""
        return [supposed, f"Then {name_fleet(require_fleet(new))} go on{kept}." if new else "No fleet was found."]
    help_words = [f"a {one.limit} of {format_relaxation(one)}" for one in infeasibility.relaxations]
    helps = f" What would help: {', or '.join(help_words)}." if help_words else ""
    return [supposed, f"Then no fleet can do it: {infeasibility.reason}.{helps}"]


def _tell_proof(result: Result[Solution], verification: Verification | None, command: str) -> Section:
    terms = [] if result.infeasibility is not None else [Term("the bound", PROOF_WORDS[result.bound_proof])]
    if verification is not None:
        seconds = format_seconds(verification.seconds)
        terms.append(Term("verified", f"{len(verification.checks)} checks hold, in {seconds}"))
        terms += [Term("taken on trust", text) for text in verification.on_trust]
        terms += [Term("never checked", text) for text in verification.never_checked]
    said = (
        "verify trusts no solver: it predicts the iteration again, and checks every rule, from the fleet alone. That "
        "no fleet is better it finds by dividing all fleets as the certificate says, and bounding each part itself."
    )
    return Section("proof", "How to check this", paragraphs=[said], terms=terms, command=command)


def _list_cards(instance: SriftInstance, result: Result[Solution]) -> list[Card]:
    if result.objective is None:
        return []
    measures, average = result.measures, "on average" if instance.interruptions is not None else ""
    cards = [
        Card("cost", format_cost(measures["cost_usd"]), average or describe_limits(instance)),
        Card("time", format_duration(measures["time_s"]), average or describe_limits(instance)),
        Card("an iteration", format_short(measures["iteration_s"]), f"{instance.iterations:,} of them"),
        Card("samples a second", format_count(measures["samples_per_s"]), f"on {measures['ranks']:,.0f} GPUs"),
    ]
    if DEADLINE in instance.limits:
        spare = instance.limits[DEADLINE] - measures["time_s"]
        cards.append(Card("spare time", format_duration(spare), "before the deadline"))
    return cards


def _columns(columns: Sequence[tuple[str, bool]]) -> list[Column]:
    return [Column(f"{name[:1].upper()}{name[1:]}", is_number) for name, is_number in columns]
