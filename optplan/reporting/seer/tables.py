"""What is listed of SEER's searches, their plans and expected losses, for a terminal and a page."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts import Result, Solution
from optplan.formulations.seer.data.instance import MEASURED_RESIZE_S, SeerInstance, SeerSolution
from optplan.formulations.seer.data.prior import ParametricPrior, TablePrior
from optplan.formulations.seer.data.search_space import Choices, count_configurations
from optplan.formulations.seer.laws.rounds import Round, list_rounds
from optplan.reporting.pages import Card
from optplan.reporting.phrases import NOTHING, ROUNDING, format_usd
from optplan.reporting.sections import compare_objectives
from optplan.reporting.seer import words
from optplan.reporting.tables import Column, Columns, Table, numbers, numeric, tabulate

_BRACKET_COLUMNS = (
    Column("GPUs of a trial"),
    *numbers("share of the budget", "trials as published", "trials here", "trained to the end"),
)


def list_facts(instance: SeerInstance) -> list[tuple[str, str]]:
    """List what an instance says, and the rounds that follow from it, by name."""
    most = "or more" if instance.most_gpus is None else f"to {instance.most_gpus:g}"
    gpus = f"{instance.least_gpus:g} {most}{'' if instance.whole_gpus else ', also fractions'}"
    held = "as many as the first round asks for (most_gpus_held sets a limit)"
    if instance.most_gpus_held is not None:
        held = f"{instance.most_gpus_held:g} at most"
    facts = [
        ("deadline", words.format_minutes(instance.deadline_min)),
        ("budget", words.describe_budget(instance)),
        ("GPUs of a trial", gpus),
        ("GPUs at a time", held),
        ("eta, nu", f"{instance.eta:g}, {instance.nu:g}"),
        ("shortest round", words.format_minutes(instance.least_round_min)),
    ]
    if instance.resize_s:
        usual = " (the default, as measured)" if instance.resize_s == MEASURED_RESIZE_S else ""
        facts.append(("a resize takes", f"{words.format_minutes(instance.resize_min)} without training{usual}"))
    if instance.price_usd_per_gpu_hour is not None:
        source = ", ".join(part for part in (instance.price_source, instance.price_date) if part)
        price = f"{format_usd(instance.price_usd_per_gpu_hour)} an hour of one {instance.gpu_type}"
        facts.append(("price", price + (f" ({source})" if source else "")))
    if instance.gpus_per_node is not None:
        what = "whole ones are measured besides" if instance.nodes_paid is None else "paid whole by the budget"
        facts.append(("nodes", f"of {instance.gpus_per_node} GPUs, {what}"))
    if instance.search_space:
        facts.append(("search space", _describe_space(instance)))
    published = instance.brackets
    if published is not None:
        rounds = ", ".join(
            words.format_minutes(published.round_min * instance.eta**number) for number in range(published.rounds)
        )
        of = "published rounds" if words.seeks_quality(instance) else "rounds"
        facts += [(of, f"{published.rounds}, of {rounds}"), ("R*", f"{published.ratio:.8g}")]
    return facts + list_prior_facts(instance)


def say_unused(instance: SeerInstance, measures: dict[str, float]) -> str:
    """Write what is left of the budget; rounding errors are nothing."""
    unused = measures["unused_gpu_min"]
    return words.format_gpu_min(unused if abs(unused) > ROUNDING * instance.budget_gpu_min else 0.0)


def list_rest_of_spending(instance: SeerInstance, measures: dict[str, float]) -> list[tuple[str, str]]:
    """List what the budget pays besides training: pauses, and where whole nodes are paid what is idle on them."""
    resizing = measures["resize_gpu_min"]
    facts = [("resizing", words.format_gpu_min(resizing))] if resizing else []
    idle = measures["spent_gpu_min"] - measures["training_gpu_min"] - resizing
    if idle > ROUNDING * instance.budget_gpu_min:
        facts.append(("idle on whole nodes", words.format_gpu_min(idle)))
    return facts


def list_costs(instance: SeerInstance, measures: dict[str, float]) -> list[tuple[str, str]]:
    """List what a search costs by what the budget counts, and what whole nodes take, as far as that was measured."""
    facts, paid = [], "cost_usd" if instance.nodes_paid is None else "node_cost_usd"
    if paid in measures:
        facts.append(("cost", format_usd(measures[paid])))
    if "node_gpu_min" in measures:
        cost = f", {format_usd(measures['node_cost_usd'])}" if "node_cost_usd" in measures else ""
        cost = cost if paid == "cost_usd" else ""
        nodes = f"{measures['most_nodes_held']:,.0f} at most, {words.format_gpu_min(measures['node_gpu_min'])}{cost}"
        facts.append(("in whole nodes", nodes))
    return facts


def list_rounds_of(instance: SeerInstance, solution: SeerSolution) -> Table:
    """List who trains in each round."""
    rounds = list_rounds(instance, solution)
    trials = [sum(count for _, count in each.groups) for each in rounds]
    columns: Columns[Round] = {
        Column("round"): lambda now: str(now.number),
        numeric("trials"): lambda now: f"{trials[now.number - 1]:,}",
        Column("trials x GPUs"): lambda now: words.name_groups([(count, gpus) for gpus, count in reversed(now.groups)]),
        numeric("go on"): lambda now: f"{trials[now.number]:,}" if now.number < len(rounds) else "the best wins",
        numeric("GPUs"): lambda now: f"{now.gpus:,g}",
        numeric("starts"): lambda now: words.format_minutes(now.start_min),
        numeric("ends"): lambda now: words.format_minutes(now.stop_min),
        numeric("GPU-min"): lambda now: words.format_number(now.gpus * now.duration_min),
    }
    return tabulate("Who trains in each round", columns, rounds)


def compare_results(results: Sequence[Result[Solution]]) -> Table:
    """Set results side by side; the first is what the others are compared with."""
    sampled = results[0].objective_unit == "loss"
    objective, loss = ("expected loss", ("95 % interval", "gain over published")) if sampled else ("GPU-min", ())
    columns = (*numbers(objective, "difference", *loss, "trials", "to the end"), Column("trials x GPUs"))

    def write(result: Result[Solution], difference: str) -> tuple[str, ...]:
        if result.objective is None:
            return result.status.value, difference, *[NOTHING] * (len(columns) - 2)
        measures, first_round = result.measures, words.require_brackets(result.solution).brackets
        counts = (f"{measures[name]:,.0f}" for name in ("trials", "last_round_trials"))
        counted = (*counts, words.name_round(first_round, 0))
        if not sampled:
            return words.format_number(result.objective), difference, *counted
        gain = words.format_loss(measures["gain_loss"]) if "gain_loss" in measures else NOTHING
        return words.format_loss(result.objective), difference, _say_interval(measures, ""), gain, *counted

    return compare_objectives(results, columns, write)


def list_brackets(instance: SeerInstance, solution: SeerSolution | None = None) -> list[Table]:
    """List the published brackets, and what a solution makes of them; no table where nothing was published."""
    published = instance.brackets
    rows: list[tuple[str, ...]] = []
    for bracket in () if published is None else published.brackets:
        row: tuple[str, ...] = (
            f"{bracket.gpus:g}",
            words.format_gpu_min(bracket.budget_gpu_min),
            f"{bracket.trials[0]:,}",
        )
        if solution is not None:
            alike = (one for one in solution.brackets if abs(one.gpus - bracket.gpus) <= ROUNDING * bracket.gpus)
            own = next((one.trials for one in alike), (0,))
            row = (*row, f"{own[0]:,}", f"{own[-1]:,}")
        rows.append(row)
    columns = _BRACKET_COLUMNS if solution is not None else _BRACKET_COLUMNS[:3]
    return [Table("The brackets", columns, rows)] if rows else []


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


def say_quality(instance: SeerInstance, result: Result[Solution]) -> str:
    """Say how good a result is: what it trains at most, or what loss it may expect, how well known, and the gain."""
    if not words.seeks_quality(instance) or result.objective is None:
        return words.say_how_good(instance, result)
    measures = result.measures
    loss = (
        f"Expected final loss {words.format_loss(result.objective)} (95 % interval {_say_interval(measures, '')}, "
        f"{measures['samples']:,.0f} sampled searches)"
    )
    gain = measures.get("gain_loss")
    if gain is None:
        return f"{loss}. Nothing is proven of other plans."
    if abs(gain) <= ROUNDING * abs(result.objective) and measures["gain_low_loss"] == measures["gain_high_loss"]:
        return f"{loss}: that of the published plan. Nothing is proven of other plans."
    word = "less" if gain > 0 else "more"
    return f"{loss}, {words.format_loss(abs(gain))} {word} than the published plan's. Nothing is proven of other plans."


def list_loss_cards(result: Result[Solution]) -> list[Card]:
    """List what was sampled."""
    measures, loss = result.measures, result.objective or 0.0
    samples = f"95 % interval {_say_interval(measures, '')}; {measures['samples']:,.0f} samples"
    cards = [Card("expected loss", words.format_loss(loss), samples)]
    if "gain_loss" in measures:
        gain, base = words.format_loss(measures["gain_loss"]), words.format_loss(measures["uninformed_loss"])
        cards.append(
            Card("gain over published", gain, f"95 % interval {_say_interval(measures, 'gain_')}; from {base}")
        )
    return cards


def list_prior_facts(instance: SeerInstance) -> list[tuple[str, str]]:
    """List what the prior of an instance says, by name; nothing where there is none."""
    prior = instance.prior
    if prior is None:
        return []
    wanted = "least expected final loss" if words.seeks_quality(instance) else "most GPU-minutes of training"
    speedups = ", ".join(f"{speedup:.4g}" for speedup in prior.scaling.speedup)
    gpus = ", ".join(str(gpus) for gpus in prior.scaling.gpus)
    facts = [
        ("wanted", wanted),
        ("learning curves", _describe_curves(prior)),
        ("a trial is", f"{speedups} times as fast on {gpus} GPUs"),
        ("samples", f"{prior.choice_samples:,} to choose, {prior.samples:,} others to judge"),
    ]
    if prior.ranking_noise_loss:
        facts.insert(3, ("rankings", f"see losses with a deviation of {prior.ranking_noise_loss:g}"))
    return facts


def _say_interval(measures: dict[str, float], prefix: str) -> str:
    low, high = (measures[f"{prefix}{end}_loss"] for end in ("low", "high"))
    return f"{words.format_loss(low)} to {words.format_loss(high)}"


def _describe_curves(prior: ParametricPrior | TablePrior) -> str:
    if isinstance(prior, TablePrior):
        runs = "a past run" if prior.runs == 1 else f"{prior.runs:,} past runs"
        runs += f" of {prior.task_count} tasks, one for each search" if prior.task_count > 1 else ""
        if prior.pace_spread > 1.0:
            runs += f", up to {prior.pace_spread:g} times faster or slower in each"
        return f"those of {runs}, up to {words.format_minutes(prior.last_min)} on one GPU"
    shape = "uniform" if prior.terminal_shape == 1 else f"shape {prior.terminal_shape:g}"
    ends = f"between {prior.terminal_low_loss:g} and {prior.terminal_high_loss:g} ({shape})"
    rates = f"{prior.rate_low_per_min:g} to {prior.rate_high_per_min:g} per min"
    related = f", rank correlation {prior.rank_correlation:g} with the end" if prior.rank_correlation else ""
    return f"{prior.curve.value}, from {prior.start_loss:g} to an end {ends}; rates {rates}{related}"
