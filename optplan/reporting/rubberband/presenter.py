"""What a terminal and a page show of searches on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from optplan.contracts import Instance, Result, Solution
from optplan.errors import UnsupportedError
from optplan.formulations.rubberband.data.instance import DEADLINE, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.planning import RubberBandPlan, SearchStage, build_plan
from optplan.reporting.pages import Page, ReportWriter
from optplan.reporting.phrases import PROOF_NAMES, format_seconds, format_share, relative_difference
from optplan.reporting.rubberband import words
from optplan.reporting.rubberband.words import (
    describe_experiment,
    describe_limit,
    format_cost,
    name_objective,
    name_sizes,
    require_search,
    say_answer,
    say_how_good,
)
from optplan.reporting.standing import add_trust, name_status
from optplan.reporting.tables import add_row, fact_table, new_table, plain_text
from optplan.units import SECONDS_PER_MINUTE, format_duration

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.console import RenderableType

#: The solver that an elastic plan is set beside.
_STATIC = "static"
_NOTHING = "-"
#: Rows of the table of stages: a heading, whether it is a number, and its text.
STAGE_COLUMNS = (
    ("stage", False),
    ("trials", True),
    ("iterations", True),
    ("instances", True),
    ("GPUs a trial", True),
    ("at once", True),
    ("starts", True),
    ("ends", True),
    ("cost so far", True),
)


def present_instance(instance: Instance) -> list[RenderableType]:
    """Say what an instance asks for."""
    search = require_search(instance)
    facts = fact_table(list_facts(search))
    table = new_table(("stage", False), ("trials", True), ("iterations", True))
    for bracket, chain in enumerate(search.brackets, start=1):
        for number, stage in enumerate(chain, start=1):
            name = f"{bracket}.{number}" if len(search.brackets) > 1 else str(number)
            add_row(table, name, f"{stage.trials:,}", f"{stage.iterations:,}")
    description = [plain_text(search.description), plain_text("")] if search.description else []
    return [*description, facts, plain_text(""), table]


def present_result(instance: Instance, result: Result[Solution]) -> list[RenderableType]:
    """Say what was found, how good it is, and how large the cluster is in each stage."""
    search = require_search(instance)
    parts: list[RenderableType] = [
        plain_text(add_trust(say_answer(search, result), result), "bold"),
        plain_text(say_how_good(search, result)),
        "",
        fact_table(list_result_facts(search, result)),
    ]
    parts += [plain_text(f"note: {warning}") for warning in result.warnings]
    if result.solution is not None:
        table = new_table(*STAGE_COLUMNS)
        for row in list_stages(plan_of(search, result)):
            add_row(table, *row)
        parts += ["", table]
    return parts


def present_comparison(instance: Instance, results: Sequence[Result[Solution]]) -> list[RenderableType]:
    """Set the results of several solvers side by side, ours first."""
    search = require_search(instance)
    table = new_table(*((name, is_number) for name, is_number in COMPARISON_COLUMNS))
    for row in compare_results(search, results):
        add_row(table, *row)
    return [table]


#: Columns of the table of several solvers.
COMPARISON_COLUMNS = (
    ("solver", False),
    ("cost", True),
    ("time", True),
    ("difference", True),
    ("instances x GPUs a trial", False),
    ("gap", True),
    ("proof", False),
    ("solved in", True),
)


def name_plan(instance: Instance, solution: Solution) -> str:
    """Say in a few words what a plan decides."""
    return name_sizes(require_search(instance), solution)


def format_limit(instance: Instance, amount: float, limit: str = "") -> str:  # noqa: ARG001 - there is one limit
    """Write an amount of the frontier's limit with its unit."""
    return words.format_limit(require_search(instance), amount)


def format_objective(instance: Instance, objective: float) -> str:
    """Write an objective with its unit."""
    return words.format_objective(require_search(instance), objective)


def draw_plan(instance: Instance, result: Result[Solution]) -> Figure:
    """Draw how large the cluster is over time."""
    from optplan.reporting.rubberband.report import draw_sizes

    return draw_sizes([(result.solver, plan_of(require_search(instance), result))])


def _build_page(instance: Instance, result: Result[Solution], **shown: Any) -> Page:  # noqa: ANN401 - passed on
    """Gather the report of a result; without rivals the plan is set beside the best cluster of constant size."""
    from optplan.reporting.rubberband.report import build_page

    shown["rivals"] = shown["rivals"] or _solve_static(instance, result)
    return build_page(require_search(instance), result, **shown)


write_report = ReportWriter("searches", _build_page)


def _solve_static(instance: Instance, result: Result[Solution]) -> list[Result[Solution]]:
    """Return what the best cluster of constant size reaches, where that solver takes the instance and finds one."""
    from optplan.solving import choose_solver, solve

    if result.solution is None or result.solver == _STATIC:
        return []
    try:
        choose_solver(instance, _STATIC)
    except UnsupportedError:
        return []
    found = solve(instance, solver=_STATIC)
    return [found] if found.solution is not None else []


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


def list_result_facts(instance: RubberBandInstance, result: Result[Solution]) -> list[tuple[str, str]]:
    """List what a result says, by name."""
    measures = result.measures
    facts = [("status", f"{name_status(result)[0]} (stopped: {result.termination.value})")]
    if result.objective is not None:
        facts.append(("expected time", f"{format_duration(measures['expected_s'])} ({measures['expected_s']:.6g} s)"))
        facts.append(("expected cost", f"{format_cost(measures['expected_usd'])} ({measures['expected_usd']:.6g} usd)"))
        if measures["minimum_charge_usd"]:
            facts.append(("minimum charges", f"{format_cost(measures['minimum_charge_usd'])} of it"))
        facts.append(("use of held GPUs", format_share(measures["utilisation"])))
    facts += [
        ("would help", f"a {one.limit} of {words.format_least(instance, one.least_feasible)} or more")
        for one in (result.infeasibility.relaxations if result.infeasibility is not None else ())
    ]
    if result.bound is not None:
        gap = "" if result.gap is None else f"gap {format_share(result.gap)}; "
        facts.append(("bound", f"{words.format_objective(instance, result.bound)} ({gap}{result.bound_proof.value})"))
    price = result.shadow_prices.get(instance.limit_name)
    if price is not None:
        facts.append(("worth of the limit", say_price(instance, price.more)))
    facts.append(("solver", f"{result.solver} (engine {result.engine} {result.engine_version}, seed {result.seed})"))
    verified = f", verified in {format_seconds(result.verify_seconds)}" if result.verify_seconds else ", not verified"
    facts.append(("time", f"{format_seconds(result.solve_seconds)}{verified}"))
    return facts


def say_price(instance: RubberBandInstance, more: float) -> str:
    """Say what a little more of the limit saves."""
    if more == 0:
        return f"a little more {'time' if instance.limit_name == DEADLINE else 'money'} saves nothing"
    if instance.limit_name == DEADLINE:
        return f"one more minute saves {format_cost(more * SECONDS_PER_MINUTE)}, at the margin"
    return f"one more dollar saves {format_duration(more)}, at the margin"


def list_stages(plan: RubberBandPlan) -> list[tuple[str, ...]]:
    """Write the stages of a plan as rows of :data:`STAGE_COLUMNS`."""
    several = plan.stages[-1].bracket > 1
    return [_write_stage(stage, several=several) for stage in plan.stages]


def compare_results(instance: RubberBandInstance, results: Sequence[Result[Solution]]) -> list[tuple[str, ...]]:
    """Write results as rows of :data:`COMPARISON_COLUMNS`; the first is what the others are compared with."""
    reference = results[0].objective
    rows: list[tuple[str, ...]] = []
    for number, result in enumerate(results):
        above = relative_difference(result.objective, reference)
        found = result.objective is not None and result.solution is not None
        rows.append(
            (
                result.solver,
                format_cost(result.measures["expected_usd"]) if found else result.status.value,
                format_duration(result.measures["expected_s"]) if found else _NOTHING,
                _NOTHING if number == 0 or above is None else _say_above(above),
                name_sizes(instance, result.solution) if result.solution is not None else _NOTHING,
                _NOTHING if result.gap is None else format_share(result.gap),
                PROOF_NAMES[result.bound_proof],
                format_seconds(result.solve_seconds),
            )
        )
    return rows


def _say_above(above: float) -> str:
    if abs(above) < 1e-9:
        return "the same"
    return f"{format_share(abs(above))} {'more' if above > 0 else 'less'}"


def _write_stage(stage: SearchStage, *, several: bool) -> tuple[str, ...]:
    return (
        f"{stage.bracket}.{stage.stage}" if several else str(stage.stage),
        f"{stage.trials:,}",
        f"{stage.iterations:,}",
        f"{stage.instances:,}",
        f"{stage.gpus_per_trial:,}",
        "all" if stage.trials_at_once >= stage.trials else f"{stage.trials_at_once:,}",
        format_duration(stage.starts_s) if stage.starts_s else "0 s",
        format_duration(stage.ends_s),
        format_cost(stage.cost_so_far_usd),
    )


def _say_duration(distribution: object) -> str:
    mean = float(getattr(distribution, "expected_s", 0.0))
    deviation = float(getattr(distribution, "deviation_s", 0.0))
    return format_duration(mean) + (f" ± {format_duration(deviation)}" if deviation else "") if mean else "at once"
