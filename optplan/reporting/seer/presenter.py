"""What a terminal and a page show of SEER's searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from optplan.contracts import Instance, Result, Solution
from optplan.errors import UsageError
from optplan.formulations.seer.data.instance import BUDGET, SeerInstance, SeerSolution
from optplan.formulations.seer.data.search_space import Choices, count_configurations
from optplan.formulations.seer.laws.rounds import Round, list_rounds
from optplan.reporting.pages import Page, ReportWriter
from optplan.reporting.phrases import (
    NOTHING,
    PROOF_NAMES,
    format_seconds,
    format_share,
    format_usd,
    relative_difference,
)
from optplan.reporting.seer import quality, words
from optplan.reporting.seer.quality import (
    DELTA,
    QUALITY_COLUMNS,
    THEOREM_COLUMNS,
    compare_losses,
    list_guarantees,
    list_loss_facts,
    list_prior_facts,
    say_expectation,
    seeks_quality,
)
from optplan.reporting.seer.words import (
    describe_budget,
    format_gpu_min,
    format_minutes,
    format_number,
    name_groups,
    name_round,
    name_search,
    require_brackets,
    require_seer,
    say_answer,
    say_how_good,
)
from optplan.reporting.standing import add_trust, name_status
from optplan.reporting.tables import add_row, fact_table, new_table, plain_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.console import RenderableType

#: Parts of the budget below this are rounding.
_ROUNDING = 1e-9
#: Columns of the table of rounds: a heading, and whether it is a number.
ROUND_COLUMNS = (
    ("round", False),
    ("trials", True),
    ("trials x GPUs", False),
    ("go on", True),
    ("GPUs", True),
    ("starts", True),
    ("ends", True),
    ("GPU-min", True),
)
#: Columns of the table of several solvers.
COMPARISON_COLUMNS = (
    ("solver", False),
    ("GPU-min", True),
    ("difference", True),
    ("trials", True),
    ("to the end", True),
    ("trials x GPUs", False),
    ("gap", True),
    ("proof", False),
    ("solved in", True),
)
#: Columns of the table of brackets.
BRACKET_COLUMNS = (
    ("GPUs of a trial", False),
    ("share of the budget", True),
    ("trials as published", True),
    ("trials here", True),
    ("trained to the end", True),
)


def present_instance(instance: Instance) -> list[RenderableType]:
    """Say what an instance asks for, and the rounds and brackets that follow from it."""
    search = require_seer(instance)
    description = [plain_text(search.description), plain_text("")] if search.description else []
    parts: list[RenderableType] = [*description, fact_table(list_facts(search))]
    rows = list_brackets(search, None)
    if rows:
        table = new_table(*BRACKET_COLUMNS[:3])
        for row in rows:
            add_row(table, *row[:3])
        parts += [plain_text(""), table]
    promised = list_guarantees(search)
    if promised:
        table = new_table(*THEOREM_COLUMNS)
        for row in promised:
            add_row(table, *row)
        said = f"What the paper's Theorem 2 promises of the published plan with probability {1 - DELTA:g}:"
        parts += [plain_text(""), plain_text(said), plain_text(""), table]
    return parts


def present_result(instance: Instance, result: Result[Solution]) -> list[RenderableType]:
    """Say what was found, how good it is, and who trains in each round."""
    search = require_seer(instance)
    parts: list[RenderableType] = [
        plain_text(add_trust(say_answer(search, result), result), "bold"),
        plain_text(say_quality(search, result)),
        "",
        fact_table(list_result_facts(search, result)),
    ]
    parts += [plain_text(f"note: {warning}") for warning in result.warnings]
    if result.solution is not None:
        table = new_table(*ROUND_COLUMNS)
        for row in write_rounds(search, require_brackets(result.solution)):
            add_row(table, *row)
        parts += ["", table]
    return parts


def present_comparison(instance: Instance, results: Sequence[Result[Solution]]) -> list[RenderableType]:
    """Set the results of several solvers side by side, ours first."""
    if seeks_quality(require_seer(instance)):
        table, rows = new_table(*QUALITY_COLUMNS), compare_losses(results)
    else:
        table, rows = new_table(*COMPARISON_COLUMNS), compare_results(results)
    for row in rows:
        add_row(table, *row)
    return [table]


def name_plan(instance: Instance, solution: Solution) -> str:  # noqa: ARG001 - what presenters are asked with
    """Say in a few words what a plan decides."""
    return name_search(require_brackets(solution))


def format_limit(instance: Instance, amount: float, limit: str = "") -> str:
    """Write an amount of the deadline or, by default, of the budget with its unit."""
    return words.format_limit(require_seer(instance), limit or BUDGET, amount)


def format_objective(instance: Instance, objective: float) -> str:
    """Write an objective with its unit."""
    return quality.format_objective(require_seer(instance), objective)


def draw_plan(instance: Instance, result: Result[Solution]) -> Figure:
    """Draw who trains on how many GPUs over time.

    Raises
    ------
    UsageError
        When the result has no solution.
    """
    from optplan.reporting.seer.round_figures import draw_rounds

    if result.solution is None:
        raise UsageError(f"the result has no solution to draw (status {result.status})")
    return draw_rounds(require_seer(instance), require_brackets(result.solution))


def _build_page(instance: Instance, result: Result[Solution], **shown: Any) -> Page:  # noqa: ANN401 - passed on
    """Gather the report of a result, with the picture of the search."""
    from optplan.reporting.seer.report import build_page

    return build_page(require_seer(instance), result, **shown)


write_report = ReportWriter("searches", _build_page)


def list_facts(instance: SeerInstance) -> list[tuple[str, str]]:
    """List what an instance says, and the rounds that follow from it, by name."""
    most = "or more" if instance.most_gpus is None else f"to {instance.most_gpus:g}"
    gpus = f"{instance.least_gpus:g} {most}{'' if instance.whole_gpus else ', also fractions'}"
    facts = [
        ("deadline", format_minutes(instance.deadline_min)),
        ("budget", describe_budget(instance)),
        ("GPUs of a trial", gpus),
        ("eta, nu", f"{instance.eta:g}, {instance.nu:g}"),
        ("shortest round", format_minutes(instance.least_round_min)),
    ]
    if instance.resize_s:
        facts.append(("a resize takes", f"{format_minutes(instance.resize_min)} without training"))
    if instance.price_usd_per_gpu_hour is not None:
        source = ", ".join(part for part in (instance.price_source, instance.price_date) if part)
        price = f"{format_usd(instance.price_usd_per_gpu_hour)} an hour of one {instance.gpu_type}"
        facts.append(("price", price + (f" ({source})" if source else "")))
    if instance.gpus_per_node is not None:
        facts.append(("nodes", f"of {instance.gpus_per_node} GPUs, whole ones are measured besides"))
    if instance.search_space:
        facts.append(("search space", _describe_space(instance)))
    published = instance.brackets
    if published is not None:
        rounds = ", ".join(
            format_minutes(published.round_min * instance.eta**number) for number in range(published.rounds)
        )
        of = "published rounds" if seeks_quality(instance) else "rounds"
        facts += [(of, f"{published.rounds}, of {rounds}"), ("R*", f"{published.ratio:.8g}")]
    return facts + list_prior_facts(instance)


def list_result_facts(instance: SeerInstance, result: Result[Solution]) -> list[tuple[str, str]]:
    """List what a result says, by name."""
    measures = result.measures
    facts = [("status", f"{name_status(result)[0]} (stopped: {result.termination.value})")]
    if result.objective is not None:
        share = measures["spent_gpu_min"] / instance.budget_gpu_min
        if seeks_quality(instance):
            facts += [*list_loss_facts(result), ("training", format_gpu_min(measures["training_gpu_min"]))]
        else:
            facts.append(("training", f"{format_gpu_min(result.objective)} ({result.objective:.9g})"))
        if measures["resize_gpu_min"]:
            facts.append(("resizing", format_gpu_min(measures["resize_gpu_min"])))
        facts.append(("of the budget", f"{format_share(share)}, {say_unused(instance, measures)} unused"))
        facts.append(("in the last round", format_gpu_min(measures["last_round_gpu_min"])))
        facts += list_costs(measures)
    if result.bound is not None:
        gap = "" if result.gap is None else f"gap {format_share(result.gap)}; "
        facts.append(("bound", f"{format_gpu_min(result.bound)} ({gap}{result.bound_proof.value})"))
    facts.append(("solver", f"{result.solver} (engine {result.engine} {result.engine_version}, seed {result.seed})"))
    verified = f", verified in {format_seconds(result.verify_seconds)}" if result.verify_seconds else ", not verified"
    facts.append(("time", f"{format_seconds(result.solve_seconds)}{verified}"))
    return facts


def say_quality(instance: SeerInstance, result: Result[Solution]) -> str:
    """Say how good a result is: what it trains at most, or what loss it may expect."""
    if seeks_quality(instance) and result.objective is not None:
        return say_expectation(result)
    return say_how_good(instance, result)


def say_unused(instance: SeerInstance, measures: dict[str, float]) -> str:
    """Write what is left of the budget; rounding errors are nothing."""
    unused = measures["unused_gpu_min"]
    return format_gpu_min(unused if abs(unused) > _ROUNDING * instance.budget_gpu_min else 0.0)


def list_costs(measures: dict[str, float]) -> list[tuple[str, str]]:
    """List what a search costs, and what whole nodes take, as far as that was measured."""
    facts = []
    if "cost_usd" in measures:
        facts.append(("cost", format_usd(measures["cost_usd"])))
    if "node_gpu_min" in measures:
        cost = f", {format_usd(measures['node_cost_usd'])}" if "node_cost_usd" in measures else ""
        nodes = f"{measures['most_nodes_held']:,.0f} at most, {format_gpu_min(measures['node_gpu_min'])}{cost}"
        facts.append(("in whole nodes", nodes))
    return facts


def write_rounds(instance: SeerInstance, solution: SeerSolution) -> list[tuple[str, ...]]:
    """Write the rounds of a search as rows of :data:`ROUND_COLUMNS`."""
    rounds = list_rounds(instance, solution)
    return [_write_round(each, rounds[each.number : each.number + 1]) for each in rounds]


def compare_results(results: Sequence[Result[Solution]]) -> list[tuple[str, ...]]:
    """Write results as rows of :data:`COMPARISON_COLUMNS`; the first is what the others are compared with."""
    reference = results[0].objective
    rows: list[tuple[str, ...]] = []
    for number, result in enumerate(results):
        above = relative_difference(result.objective, reference)
        measures = result.measures
        found = result.objective is not None and result.solution is not None
        rows.append(
            (
                result.solver,
                format_number(result.objective) if result.objective is not None else result.status.value,
                NOTHING if number == 0 or above is None else _say_above(above),
                f"{measures['trials']:,.0f}" if found else NOTHING,
                f"{measures['last_round_trials']:,.0f}" if found else NOTHING,
                name_round(require_brackets(result.solution).brackets, 0) if result.solution is not None else NOTHING,
                NOTHING if result.gap is None else format_share(result.gap),
                PROOF_NAMES[result.bound_proof],
                format_seconds(result.solve_seconds),
            )
        )
    return rows


def list_brackets(instance: SeerInstance, solution: SeerSolution | None) -> list[tuple[str, ...]]:
    """Write the brackets as published, and what a solution makes of them, as rows of :data:`BRACKET_COLUMNS`."""
    published = instance.brackets
    rows: list[tuple[str, ...]] = []
    for bracket in () if published is None else published.brackets:
        chosen = () if solution is None else solution.brackets
        own = next((each.trials for each in chosen if abs(each.gpus - bracket.gpus) <= 1e-9 * bracket.gpus), (0,))
        share = format_gpu_min(bracket.budget_gpu_min)
        rows.append((f"{bracket.gpus:g}", share, f"{bracket.trials[0]:,}", f"{own[0]:,}", f"{own[-1]:,}"))
    return rows


def _describe_space(instance: SeerInstance) -> str:
    count = count_configurations(instance.search_space)
    size = "no limit" if count is None else f"{count:,} configurations"
    parts = (
        f"{name} ({len(each.values)} values)"
        if isinstance(each, Choices)
        else f"{name} ({each.low:g} to {each.high:g})"
        for name, each in instance.search_space.items()
    )
    return f"{size}: {', '.join(parts)}"


def _write_round(now: Round, following: Sequence[Round]) -> tuple[str, ...]:
    trials = sum(number for _, number in now.groups)
    kept = sum(number for _, number in following[0].groups) if following else None
    return (
        str(now.number),
        f"{trials:,}",
        name_groups([(number, gpus) for gpus, number in reversed(now.groups)]),
        "the best wins" if kept is None else f"{kept:,}",
        f"{now.gpus:,g}",
        format_minutes(now.start_min),
        format_minutes(now.stop_min),
        format_number(now.gpus * now.duration_min),
    )


def _say_above(above: float) -> str:
    if abs(above) < 1e-9:
        return "the same"
    return f"{format_share(abs(above))} {'more' if above > 0 else 'less'}"
