"""The HTML report of a search on a cluster: its size over time, its stages, its rivals, its frontier, its proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optplan.contracts import Result, Solution, Verification
from optplan.formulations.rubberband.data import RubberBandInstance
from optplan.formulations.rubberband.planning import RubberBandPlan
from optplan.reporting.pages import Card, Column, Page, PageTable, Section, Term
from optplan.reporting.pareto import draw_pareto
from optplan.reporting.phrases import PROOF_WORDS, format_seconds, format_share
from optplan.reporting.presenters import plan_presenter_of
from optplan.reporting.rubberband.presenter import (
    COMPARISON_COLUMNS,
    STAGE_COLUMNS,
    compare_results,
    list_facts,
    list_stages,
    plan_of,
    say_price,
)
from optplan.reporting.rubberband.words import (
    describe_limit,
    format_cost,
    format_limit,
    name_objective,
    name_status,
    say_answer,
    say_how_good,
)
from optplan.reporting.style import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILLION,
    escape_text,
    load_plotly,
    new_figure,
    time_scale,
)
from optplan.solving import pareto
from optplan.units import format_duration

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_COLORS = (VERMILLION, GREEN, PURPLE, ORANGE)
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
        "Time and cost are expected values; a single run varies. `confidence` asks for a probability instead.",
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
    VerificationError
        When the verification failed.
    MissingExtraError
        When plotly is not installed.
    """
    if verification is not None:
        verification.require()
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
        title=say_answer(instance, result),
        lead=say_how_good(instance, result),
        badge=badge,
        badge_kind=kind,
        warnings=result.warnings,
        cards=_list_cards(instance, result),
        sections=sections,
    )


def draw_sizes(plans: Sequence[tuple[str, RubberBandPlan]]) -> Figure:
    """Draw how large the cluster of each plan is over time.

    Parameters
    ----------
    plans
        At least one, each with its name; side-by-side brackets are drawn one by one.

    Returns
    -------
    Figure
        Horizontal: expected time since the start. Vertical: instances held.
    """
    graph_objects = load_plotly()
    figure = new_figure(height=340, top=36)
    scale = time_scale(max(stage.ends_s for _, plan in plans for stage in plan.stages))
    for number, (name, plan) in enumerate(plans):
        color = BLUE if number == 0 else _COLORS[(number - 1) % len(_COLORS)]
        for bracket in range(1, plan.stages[-1].bracket + 1):
            stages = [stage for stage in plan.stages if stage.bracket == bracket]
            label = name if plan.stages[-1].bracket == 1 else f"{name}, bracket {bracket}"
            hover = [
                f"{escape_text(label)}: stage {stage.stage}<br>"
                f"{stage.trials:,} trials on {stage.gpus_per_trial} GPUs each, {stage.instances:,} instances<br>"
                f"ends after {format_duration(stage.ends_s)}"
                for stage in stages
            ]
            figure.add_trace(
                graph_objects.Scatter(
                    x=[*(stage.starts_s / scale.seconds for stage in stages), stages[-1].ends_s / scale.seconds],
                    y=[*(stage.instances for stage in stages), stages[-1].instances],
                    mode="lines",
                    line={
                        "shape": "hv",
                        "color": color,
                        "width": 3 if number == 0 else 2,
                        "dash": "solid" if number == 0 else "dot",
                    },
                    name=escape_text(label),
                    hovertext=[*hover, hover[-1]],
                    hoverinfo="text",
                )
            )
    figure.update_xaxes(title_text=f"expected time since the start ({scale.unit})", rangemode="tozero")
    figure.update_yaxes(title_text="instances held", rangemode="tozero")
    figure.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.14, "x": 0})
    return figure


def _tell_plan(
    instance: RubberBandInstance, result: Result[Solution], rivals: Sequence[Result[Solution]]
) -> list[Section]:
    plan = plan_of(instance, result)
    plans = [(result.solver, plan)]
    plans += [(rival.solver, plan_of(instance, rival)) for rival in rivals if rival.solution is not None]
    sizes = ", ".join(f"{stage.instances:,}" for stage in plan.stages)
    chart = (f"Instances held over time; stage by stage {sizes}.", draw_sizes(plans))
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
    infeasibility = result.infeasibility
    relaxations = infeasibility.relaxations if infeasibility else ()
    rows = [
        (one.limit, format_limit(instance, one.given), format_limit(instance, one.least_feasible))
        for one in relaxations
    ]
    columns = (Column("Limit"), Column("Given", is_number=True), Column("Least that works", is_number=True))
    parts = [Term(name, format_limit(instance, amount)) for one in relaxations for name, amount in one.parts.items()]
    return Section("help", "What would help", tables=[PageTable("Limits to relax", columns, rows)], terms=parts)


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
    terms = [Term("the bound", PROOF_WORDS[result.bound_proof])]
    for certificate in result.certificates:
        multipliers = ", ".join(f"{value:.6g} for the {limit}" for limit, value in certificate.multipliers.items())
        terms.append(Term(certificate.form, f"bound {certificate.bound:.9g} by the multiplier {multipliers}"))
    if verification is not None:
        terms.append(
            Term("verified", f"{len(verification.checks)} checks hold, in {format_seconds(verification.seconds)}")
        )
        terms += [Term("not checked", text) for text in verification.unproven]
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
        Card(
            "GPUs held in use", format_share(measures["utilisation"]), "of what is paid for, trials keep so much busy"
        ),
        Card(
            "instances at most", f"{measures['most_instances']:,.0f}", f"{measures['instances_started']:,.0f} started"
        ),
    ]
    price = result.shadow_prices.get(instance.limit_name)
    if price is not None:
        cards.append(Card("worth of the limit", say_price(instance, price.more).split(",")[0]))
    return cards


def _columns(columns: Sequence[tuple[str, bool]]) -> list[Column]:
    return [Column(name.capitalize(), is_number) for name, is_number in columns]
