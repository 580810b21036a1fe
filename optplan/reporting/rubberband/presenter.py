"""What a terminal and a page show of searches on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from optplan.contracts import Certificate, ParetoFrontier, Relaxation, Result, Solution
from optplan.formulations.rubberband.data.instance import DEADLINE, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.planning import RubberBandPlan, SearchStage, build_plan
from optplan.reporting.pages import Card, Charts, Definitions, Section
from optplan.reporting.pareto import tell_frontier
from optplan.reporting.phrases import (
    NOTHING,
    capitalise,
    format_amount,
    format_cost,
    format_least,
    format_share,
    format_small_duration,
)
from optplan.reporting.presentation import Presenter
from optplan.reporting.presenters import Beside
from optplan.reporting.rubberband import words
from optplan.reporting.rubberband.words import describe_experiment, describe_limit, name_objective, name_sizes
from optplan.reporting.sections import (
    compare_objectives,
    relaxations_of,
    tell_relaxations,
)
from optplan.reporting.segments import Held, draw_held
from optplan.reporting.style import Figure
from optplan.reporting.tables import Column, Columns, Table, numbers, numeric, tabulate
from optplan.units import SECONDS_PER_MINUTE, format_duration

if TYPE_CHECKING:
    from optplan.reporting.rubberband.gathering import Background


_CHECK = (
    "verify trusts no solver: it computes time, cost and every rule again, and derives the bound from the certificate."
)
_ASSUMPTIONS = (
    ("Barriers", "A stage ends when all its trials have done their iterations. Nothing is decided anew on the way."),
    ("Supply", "The provider always has instances of the one type, at a constant price."),
    (
        "Scaling",
        "All trials of a search take the same time on the same GPUs, but for the noise that the profile states.",
    ),
    ("Waiting", "Trials that wait for a GPU run in fixed chains, one after another on the same slot."),
    (
        "Averages",
        "Time and cost are expected values; a single run varies. A confidence asks for a probability instead.",
    ),
)


def draw_sizes(plans: Sequence[tuple[str, RubberBandPlan]]) -> Figure:
    """Draw how many instances each plan holds, by all brackets together."""
    return draw_held([(name, list(_follow_cluster(plan))) for name, plan in plans], "instances held")


def _follow_cluster(plan: RubberBandPlan) -> Iterator[Held]:
    """List when stages begin and end, the instances held from then on, and what runs on them."""
    several = plan.segments[-1].bracket > 1
    times = sorted({0.0, *(time for stage in plan.segments for time in (stage.expected.start_s, stage.end_s))})
    for time in times:
        running = [stage for stage in plan.segments if stage.expected.start_s <= time < stage.end_s]
        held = sum(stage.nodes for stage in running)
        lines = [f"{format_duration(time) if time else 'at the start'}: {_count(held, 'instance')}"]
        lines += [
            f"stage {f'{stage.bracket}.' if several else ''}{stage.stage}: {_count(stage.members, 'trial')} on "
            f"{_count(stage.gpus, 'GPU')} each, on {_count(stage.nodes, 'instance')}"
            for stage in running
        ]
        yield Held(time, held, "<br>".join(lines))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _tell_plan(
    instance: RubberBandInstance, result: Result[Solution], rivals: Sequence[Result[Solution]]
) -> list[Section]:
    plan = plan_of(instance, result)
    plans = [(result.solver, plan)]
    plans += [(rival.solver, plan_of(instance, rival)) for rival in rivals if rival.solution is not None]
    sizes = words.name_plan(instance, result.solution) if result.solution is not None else ""
    chart = (f"Instances held over time; stage by stage: {sizes}.", draw_sizes(plans))
    reading = (
        "The area under a line is what instances cost. Early stages have many trials and can use a large cluster; "
        "late ones cannot."
    )
    bill = [
        ("training", format_cost(sum(stage.training_usd for stage in plan.segments))),
        ("getting instances, and their data", format_cost(sum(stage.growth_usd for stage in plan.segments))),
        ("minimum charges", format_cost(sum(stage.minimum_charge_usd for stage in plan.segments))),
        ("in all", format_cost(plan.totals()["cost_usd"])),
    ]
    return [
        Section("sizes", "The cluster over time", [Charts([chart], reading)]),
        Section("stages", "The plan", [list_stages(plan)]),
        Section("bill", "What is paid for", [Definitions(bill)], place="half"),
    ]


def _tell_relaxations(result: Result[Solution]) -> Section:
    *_, why = (result.infeasibility.reason if result.infeasibility else "").partition(": ")
    said = (f"{capitalise(part)}." for part in why.split("; ") if part)
    relaxations = relaxations_of(result)
    parts = [(name, format_amount(one.limit, amount)) for one in relaxations for name, amount in one.parts.items()]
    return tell_relaxations(result, _write_relaxation, *said, parts=parts)


def _write_relaxation(one: Relaxation) -> tuple[str, str]:
    return format_amount(one.limit, one.given), one.describe(partial(format_least, one.limit))


def _tell_frontier(instance: RubberBandInstance, found: ParetoFrontier, results: Sequence[Result[Solution]]) -> Section:
    limit = instance.limits[instance.limit_name] if instance.has_limit else None
    measure = "expected_s" if instance.limit_name == "deadline" else "expected_usd"
    drawn = [(one, one.measures[measure]) for one in results if one.solution is not None]
    reading = (
        "Each step is a plan that no other beats in both time and cost. The dotted line is the limit that was asked."
    )
    if instance.confidence is not None:
        reading += " Times and costs are expected ones: to be kept with a confidence, a limit has to leave some room."
    return tell_frontier(instance, found, words, drawn, limit=limit, plans="plans", reading=reading)


def _say_certificate(certificate: Certificate) -> tuple[str, str]:
    said = "no plan keeps the limits" if certificate.bound is None else f"bound {certificate.bound:.9g}"
    prices = getattr(certificate, "multipliers", {})
    multipliers = ", ".join(f"{value:.6g} for the {limit}" for limit, value in prices.items())
    return certificate.form, f"{said} by the multiplier {multipliers}" if multipliers else said


def _list_cards(instance: RubberBandInstance, result: Result[Solution]) -> list[Card]:
    measures = result.measures
    cards = [
        Card("expected time", format_duration(measures["expected_s"]), f"{measures['expected_s']:,.6g} s"),
        Card("expected cost", format_cost(measures["expected_usd"]), f"{measures['expected_usd']:,.6g} usd"),
        Card("use of held GPUs", format_share(measures["utilisation"]), "trials keep so much of what is held busy"),
        Card(
            "instances at most", f"{measures['most_instances']:,.0f}", f"{measures['instances_started']:,.0f} started"
        ),
    ]
    if measures["minimum_charge_usd"]:
        cards.append(Card("minimum charges", format_cost(measures["minimum_charge_usd"]), "part of the cost"))
    price = result.shadow_prices.get(instance.limit_name)
    if price is not None:
        minute = instance.limit_name == DEADLINE
        saved = format_cost(price.more * SECONDS_PER_MINUTE) if minute else format_small_duration(price.more)
        cards.append(Card(f"one more {'minute' if minute else 'dollar'} saves", saved, "at the margin, between plans"))
    return cards


def _write_help(one: Relaxation) -> str:
    return f"{format_least(one.limit, one.least_feasible if one.enough is None else one.enough)} or more"


def _choose_rivals(beside: Beside) -> Sequence[Result[Solution]]:
    """Return the rivals, or the best cluster of constant size where there are none."""
    found: Background | None = beside.background
    return beside.rivals or ([found.static] if found is not None and found.static is not None else [])


_COMPARED = (*numbers("cost", "time", "difference"), Column("instances"), Column("GPUs a trial"))


def plan_of(instance: RubberBandInstance, result: Result[Solution]) -> RubberBandPlan:
    """Return the plan of a result that has a solution."""
    return build_plan(instance, cast(Result[RubberBandSolution], result))


def list_facts(instance: RubberBandInstance) -> list[tuple[str, str]]:
    """List what an instance says, by name."""
    cloud, training = instance.cloud, instance.training
    kind = cloud.instance_type or "instance"
    price = f"{format_cost(cloud.price_usd_per_hour)} an hour, {cloud.gpus_per_instance} GPUs"
    facts = [
        ("search", describe_experiment(instance)),
        ("asked", f"least {name_objective(instance)} {describe_limit(instance)}"),
        ("allocations", "any number of trials at a time" if instance.mode == "any" else "fair shares, as in the paper"),
        (kind, f"{price}, billed {cloud.billing.replace('-', ' ')}"),
        ("getting instances", f"{_say_duration(cloud.provision_s)}, then {_say_duration(cloud.initialise_s)} each"),
        ("an iteration", training.seconds_per_iteration.list_known()),
    ]
    if cloud.data_usd_per_instance:
        facts.append(("data", f"{format_cost(cloud.data_usd_per_instance)} for every new instance"))
    if cloud.most_instances is not None:
        facts.append(("most instances", f"{cloud.most_instances:,}"))
    if cloud.price_source:
        facts.append(("source of the price", f"{cloud.price_source} ({cloud.price_date})".replace(" ()", "")))
    return facts


def list_asked(instance: RubberBandInstance) -> Table:
    """List the stages that an instance asks for."""
    rows = []
    for bracket, chain in enumerate(instance.brackets, start=1):
        for number, stage in enumerate(chain, start=1):
            name = f"{bracket}.{number}" if len(instance.brackets) > 1 else str(number)
            rows.append((name, f"{stage.trials:,}", f"{stage.iterations:,}"))
    return Table("The stages of the search", (Column("stage"), *numbers("trials", "iterations")), rows)


def list_stages(plan: RubberBandPlan) -> Table:
    """List the stages of a plan."""
    several = plan.segments[-1].bracket > 1
    columns: Columns[SearchStage] = {
        Column("stage"): lambda stage: f"{stage.bracket}.{stage.stage}" if several else str(stage.stage),
        numeric("trials"): lambda stage: f"{stage.members:,}",
        numeric("iterations"): lambda stage: f"{stage.iterations:,}",
        numeric("instances"): lambda stage: f"{stage.nodes:,}",
        numeric("GPUs a trial"): lambda stage: f"{stage.gpus:,}",
        numeric("at once"): lambda stage: "all" if stage.at_once >= stage.members else f"{stage.at_once:,}",
        numeric("starts"): lambda stage: format_duration(stage.expected.start_s),
        numeric("ends"): lambda stage: format_duration(stage.end_s),
        numeric("cost so far"): lambda stage: format_cost(plan.paid_until_end_of(stage)),
    }
    return tabulate("The stages of the plan", columns, plan.segments)


def compare_results(instance: RubberBandInstance, results: Sequence[Result[Solution]]) -> Table:
    """Set results side by side; the first is what the others are compared with."""

    def write(result: Result[Solution], difference: str) -> tuple[str, ...]:
        if result.solution is None:
            return result.status.value, NOTHING, difference, NOTHING, NOTHING
        cost, time = format_cost(result.measures["expected_usd"]), format_duration(result.measures["expected_s"])
        return cost, time, difference, *name_sizes(instance, result.solution)

    return compare_objectives(results, _COMPARED, write)


def _say_duration(distribution: object) -> str:
    mean = float(getattr(distribution, "expected_s", 0.0))
    deviation = float(getattr(distribution, "deviation_s", 0.0))
    return format_duration(mean) + (f" ± {format_duration(deviation)}" if deviation else "") if mean else "at once"


PRESENTER = Presenter(
    words.require_search,
    facts=list_facts,
    given=lambda search: [list_asked(search)],
    answer=words.say_answer,
    title=partial(words.say_answer, in_full=False),
    how_good=words.say_how_good,
    help=_write_help,
    decided=lambda search, result: [list_stages(plan_of(search, result))],
    compared=lambda search, results: [compare_results(search, results)],
    cards=_list_cards,
    rivals="Other planners",
    beside=_choose_rivals,
    relaxed=lambda _, result: _tell_relaxations(result),
    plan=_tell_plan,
    gathered=lambda search, found, results: [_tell_frontier(search, found.frontier, results)],
    check=lambda _: _CHECK,
    terms=lambda result: map(_say_certificate, result.certificates),
    granted=lambda _: _ASSUMPTIONS,
    run="optplan run plan.json",
    picture=lambda search, result: draw_sizes([(result.solver, plan_of(search, result))]),
)
