"""The HTML report of a search on a cluster: its size over time, its stages, its rivals, its frontier, its proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optplan.contracts import Result, Solution, Verification
from optplan.formulations.rubberband.data.instance import DEADLINE, RubberBandInstance
from optplan.formulations.rubberband.planning import RubberBandPlan
from optplan.reporting.pages import Card, Column, Page, PageTable, Section, Term
from optplan.reporting.pareto import RESULT_COLORS, draw_pareto
from optplan.reporting.phrases import PROOF_WORDS, format_seconds, format_share
from optplan.reporting.presenters import plan_presenter_of
from optplan.reporting.rubberband.presenter import (
    COMPARISON_COLUMNS,
    STAGE_COLUMNS,
    compare_results,
    list_facts,
    list_stages,
    plan_of,
)
from optplan.reporting.rubberband.words import (
    describe_limit,
    format_cost,
    format_least,
    format_limit,
    name_objective,
    name_sizes,
    say_answer,
    say_how_good,
)
from optplan.reporting.standing import add_trust, name_status
from optplan.reporting.style import escape_text, load_plotly, new_figure, time_scale
from optplan.solving import pareto
from optplan.units import SECONDS_PER_MINUTE, format_duration

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Seconds that the frontier of the report may take; what it has by then is shown, and said to be partial.
_FRONTIER_LIMIT_S = 10.0

_ASSUMPTIONS = (
    Term(
        "Barriers", "A stage ends when all its trials have done their iterations. Nothing is decided anew on the way."
    ),
    Term("Supply", "The provider always has instances of the one type, at a constant price."),
    Term(
        "Scaling",
        "All trials of a search take the same time on the same GPUs, but for the noise that the profile states.",
    ),
    Term("Waiting", "Trials that wait for a GPU run in fixed chains, one after another on the same slot."),
    Term(
        "Averages",
        "Time and cost are expected values; a single run varies. A confidence asks for a probability instead.",
    ),
)


def build_page(
    instance: RubberBandInstance,
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
        sections.append(_tell_relaxations(instance, result))
    if result.solution is not None:
        sections += _tell_plan(instance, result, rivals)
    if rivals:
        rows = compare_results(instance, [result, *rivals])
        table = PageTable("Solvers side by side", _columns(COMPARISON_COLUMNS), rows)
        sections.append(Section("solvers", "Other planners", tables=[table]))
    sections.append(_tell_frontier(instance, result, rivals))
    sections.append(Section("question", "What was asked", terms=[Term(*fact) for fact in list_facts(instance)]))
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


def draw_sizes(plans: Sequence[tuple[str, RubberBandPlan]]) -> Figure:
    """Draw how many instances each plan holds over time.

    Parameters
    ----------
    plans
        At least one, each with its name.

    Returns
    -------
    Figure
        Horizontal: expected time since the start. Vertical: instances held, by all brackets together.
    """
    graph_objects = load_plotly()
    figure = new_figure(height=340, top=36)
    scale = time_scale(max(stage.ends_s for _, plan in plans for stage in plan.stages))
    for number, (name, plan) in enumerate(plans):
        times, held, hover = _follow_cluster(plan)
        figure.add_trace(
            graph_objects.Scatter(
                x=[time / scale.seconds for time in times],
                y=held,
                mode="lines",
                line={
                    "shape": "hv",
                    "color": RESULT_COLORS[number % len(RESULT_COLORS)],
                    "width": 3 if number == 0 else 2,
                    "dash": "solid" if number == 0 else "dot",
                },
                name=escape_text(name),
                hovertext=[f"{escape_text(name)}, {text}" for text in hover],
                hoverinfo="text",
            )
        )
    figure.update_xaxes(title_text=f"expected time since the start ({scale.unit})", rangemode="tozero")
    figure.update_yaxes(title_text="instances held", rangemode="tozero")
    figure.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.14, "x": 0})
    return figure


def _follow_cluster(plan: RubberBandPlan) -> tuple[list[float], list[int], list[str]]:
    """List when stages begin and end, the instances held from then on, and what runs on them."""
    several = plan.stages[-1].bracket > 1
    times = sorted({0.0, *(time for stage in plan.stages for time in (stage.starts_s, stage.ends_s))})
    held, hover = [], []
    for time in times:
        running = [stage for stage in plan.stages if stage.starts_s <= time < stage.ends_s]
        held.append(sum(stage.instances for stage in running))
        lines = [f"{format_duration(time) if time else 'at the start'}: {_count(held[-1], 'instance')}"]
        lines += [
            f"stage {f'{stage.bracket}.' if several else ''}{stage.stage}: {_count(stage.trials, 'trial')} on "
            f"{_count(stage.gpus_per_trial, 'GPU')} each, on {_count(stage.instances, 'instance')}"
            for stage in running
        ]
        hover.append("<br>".join(lines))
    return times, held, hover


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _tell_plan(
    instance: RubberBandInstance, result: Result[Solution], rivals: Sequence[Result[Solution]]
) -> list[Section]:
    plan = plan_of(instance, result)
    plans = [(result.solver, plan)]
    plans += [(rival.solver, plan_of(instance, rival)) for rival in rivals if rival.solution is not None]
    sizes = name_sizes(instance, result.solution) if result.solution is not None else ""
    chart = (f"Instances held over time; instances and GPUs of a trial, stage by stage: {sizes}.", draw_sizes(plans))
    reading = (
        "The area under a line is what instances cost. Early stages have many trials and can use a large cluster; "
        "late ones cannot."
    )
    rows = list_stages(plan)
    table = PageTable("The stages of the plan", _columns(STAGE_COLUMNS), rows)
    bill = [
        Term("training", format_cost(sum(stage.training_usd for stage in plan.stages))),
        Term("getting instances, and their data", format_cost(sum(stage.growth_usd for stage in plan.stages))),
        Term("minimum charges", format_cost(plan.minimum_charges_usd)),
        Term("in all", format_cost(plan.total_usd)),
    ]
    return [
        Section("sizes", "The cluster over time", charts=[chart], reading=reading),
        Section("stages", "The plan", tables=[table]),
        Section("bill", "What is paid for", terms=bill),
    ]


def _tell_relaxations(instance: RubberBandInstance, result: Result[Solution]) -> Section:
    relaxations = result.infeasibility.relaxations if result.infeasibility else ()
    *_, why = (result.infeasibility.reason if result.infeasibility else "").partition(": ")
    rows = [
        (one.limit, format_limit(instance, one.given), format_least(instance, one.least_feasible))
        for one in relaxations
    ]
    columns = (Column("Limit"), Column("Given", is_number=True), Column("Least that works", is_number=True))
    parts = [Term(name, format_limit(instance, amount)) for one in relaxations for name, amount in one.parts.items()]
    paragraphs = [f"{part[0].upper()}{part[1:]}." for part in why.split("; ") if part]
    tables = [PageTable("Limits to relax", columns, rows)]
    return Section("help", "What would help", paragraphs=paragraphs, tables=tables, terms=parts)


def _tell_frontier(
    instance: RubberBandInstance, result: Result[Solution], rivals: Sequence[Result[Solution]]
) -> Section:
    found = pareto(instance, time_limit_s=_FRONTIER_LIMIT_S)
    presenter = plan_presenter_of(instance)
    limit = instance.limits[instance.limit_name] if instance.has_limit else None
    measure = "expected_s" if instance.limit_name == "deadline" else "expected_usd"
    drawn = [(one, one.measures[measure]) for one in (result, *rivals) if one.solution is not None]
    figure = draw_pareto(instance, found, presenter, results=drawn, limit=limit)
    label = f"Least {name_objective(instance)} for every {instance.limit_name}: {len(found.points)} plans."
    reading = (
        "Each step is a plan that no other beats in both time and cost. The dotted line is the limit that was asked."
    )
    complete = "Every such plan is shown." if found.exact else "Not every such plan is shown: the search was cut short."
    return Section("frontier", "Time against cost", charts=[(label, figure)], reading=f"{reading} {complete}")


def _tell_proof(result: Result[Solution], verification: Verification | None, command: str) -> Section:
    terms = [] if result.infeasibility is not None else [Term("the bound", PROOF_WORDS[result.bound_proof])]
    for certificate in result.certificates:
        multipliers = ", ".join(f"{value:.6g} for the {limit}" for limit, value in certificate.multipliers.items())
        terms.append(Term(certificate.form, f"bound {certificate.bound:.9g} by the multiplier {multipliers}"))
    if verification is not None:
        terms.append(
            Term("verified", f"{len(verification.checks)} checks hold, in {format_seconds(verification.seconds)}")
        )
        terms += [Term("taken on trust", text) for text in verification.on_trust]
        terms += [Term("never checked", text) for text in verification.never_checked]
    said = (
        "verify trusts no solver: it computes time, cost and every rule again, and derives the bound from the "
        "certificate."
    )
    return Section("proof", "How to check this", paragraphs=[said], terms=terms, command=command)


def _list_cards(instance: RubberBandInstance, result: Result[Solution]) -> list[Card]:
    if result.objective is None:
        return []
    measures = result.measures
    cards = [
        Card("expected cost", format_cost(measures["expected_usd"])),
        Card("expected time", format_duration(measures["expected_s"]), describe_limit(instance)),
        Card("use of held GPUs", format_share(measures["utilisation"]), "trials keep so much of what is held busy"),
        Card(
            "instances at most", f"{measures['most_instances']:,.0f}", f"{measures['instances_started']:,.0f} started"
        ),
    ]
    price = result.shadow_prices.get(instance.limit_name)
    if price is not None:
        cards.append(_card_of_price(instance, price.more))
    return cards


def _card_of_price(instance: RubberBandInstance, more: float) -> Card:
    """Say what a little more of the limit is worth: a figure, and of what."""
    if instance.limit_name == DEADLINE:
        return Card("one more minute saves", format_cost(more * SECONDS_PER_MINUTE), "at the margin, between plans")
    return Card("one more dollar saves", format_duration(more), "at the margin, between plans")


def _columns(columns: Sequence[tuple[str, bool]]) -> list[Column]:
    return [Column(name[0].upper() + name[1:], is_number) for name, is_number in columns]
