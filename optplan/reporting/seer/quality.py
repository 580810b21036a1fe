"""How plans with an expected final loss are put into words and tables, the prior behind it, and Theorem 2."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts import Result, Solution
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.seer.data.prior import ParametricPrior, TablePrior
from optplan.reporting.phrases import NOTHING, ROUNDING, format_seconds
from optplan.reporting.seer.words import format_loss, format_minutes, name_round, require_brackets, seeks_quality
from optplan.reporting.tables import Column, Table, numbers

_QUALITY_COLUMNS = (
    Column("solver"),
    *numbers("expected loss", "95 % interval", "gain over published", "trials", "to the end"),
    Column("trials x GPUs"),
    Column("solved in", is_number=True),
)
_THEOREM_COLUMNS = (
    Column("Theorem 2"),
    *numbers("bracket", "share u", "first term", "second term", "sum, at most 1", "final loss at most"),
)
#: Probability with which the promise of the theorem that is shown may fail.
DELTA = 0.1


def say_expectation(result: Result[Solution]) -> str:
    """Say how large the expected loss is, how well that is known, and what was gained."""
    if result.objective is None:
        return ""
    measures = result.measures
    loss = (
        f"Expected final loss {format_loss(result.objective)} (95 % interval {_say_interval(measures, '')}, "
        f"{measures['samples']:,.0f} sampled searches)"
    )
    gain = measures.get("gain_loss")
    if gain is None:
        return f"{loss}. Nothing is proven of other plans."
    if abs(gain) <= ROUNDING * abs(result.objective) and measures["gain_low_loss"] == measures["gain_high_loss"]:
        return f"{loss}: that of the published plan. Nothing is proven of other plans."
    word = "less" if gain > 0 else "more"
    return f"{loss}, {format_loss(abs(gain))} {word} than the published plan's. Nothing is proven of other plans."


def list_loss_facts(result: Result[Solution]) -> list[tuple[str, str]]:
    """List what was sampled, by name."""
    measures = result.measures
    if result.objective is None:
        return []
    samples = f"95 % interval {_say_interval(measures, '')}; {measures['samples']:,.0f} samples"
    facts = [("expected loss", f"{format_loss(result.objective)} ({samples})")]
    if "gain_loss" in measures:
        gain = f"{format_loss(measures['gain_loss'])} (95 % interval {_say_interval(measures, 'gain_')})"
        facts.append(("gain over published", f"{gain}, from {format_loss(measures['uninformed_loss'])}"))
    return facts


def compare_losses(results: Sequence[Result[Solution]]) -> Table:
    """Set results side by side."""
    rows: list[tuple[str, ...]] = []
    for result in results:
        seconds = format_seconds(result.solve_seconds)
        if result.objective is None or result.solution is None:
            rows.append((result.solver, result.status.value, *[NOTHING] * 5, seconds))
            continue
        measures = result.measures
        rows.append(
            (
                result.solver,
                format_loss(result.objective),
                _say_interval(measures, ""),
                format_loss(measures["gain_loss"]) if "gain_loss" in measures else NOTHING,
                f"{measures['trials']:,.0f}",
                f"{measures['last_round_trials']:,.0f}",
                name_round(require_brackets(result.solution).brackets, 0),
                seconds,
            )
        )
    return Table("Solvers side by side", _QUALITY_COLUMNS, rows)


def list_prior_facts(instance: SeerInstance) -> list[tuple[str, str]]:
    """List what the prior of an instance says, by name; nothing where there is none."""
    prior = instance.prior
    if prior is None:
        return []
    wanted = "least expected final loss" if seeks_quality(instance) else "most GPU-minutes of training"
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


def list_guarantees(instance: SeerInstance) -> Table | None:
    """List what Theorem 2 says of the published plan, printed and corrected; None where it says nothing."""
    from optplan.formulations.seer.study.theory import evaluate_theorem2

    if instance.prior is None or instance.brackets is None:
        return None
    found = evaluate_theorem2(instance, delta=DELTA)
    rows: list[tuple[str, ...]] = []
    for name, guarantee in (("as printed", found.printed), ("as corrected", found.corrected)):
        term, bound = guarantee.term, guarantee.bound_loss
        figures = (f"{figure:.4g}" for figure in (term.share, term.first, term.second, term.condition))
        rows.append((name, str(term.bracket), *figures, "says nothing" if bound is None else format_loss(bound)))
    return Table("Theorem 2 under this prior", _THEOREM_COLUMNS, rows)


def _say_interval(measures: dict[str, float], prefix: str) -> str:
    low, high = (measures[f"{prefix}{end}_loss"] for end in ("low", "high"))
    return f"{format_loss(low)} to {format_loss(high)}"


def _describe_curves(prior: ParametricPrior | TablePrior) -> str:
    if isinstance(prior, TablePrior):
        runs = "a past run" if prior.runs == 1 else f"{prior.runs:,} past runs"
        return f"those of {runs}, up to {format_minutes(prior.last_min)} on one GPU"
    shape = "uniform" if prior.terminal_shape == 1 else f"shape {prior.terminal_shape:g}"
    ends = f"between {prior.terminal_low_loss:g} and {prior.terminal_high_loss:g} ({shape})"
    rates = f"{prior.rate_low_per_min:g} to {prior.rate_high_per_min:g} per min"
    related = f", rank correlation {prior.rank_correlation:g} with the end" if prior.rank_correlation else ""
    return f"{prior.curve.value}, from {prior.start_loss:g} to an end {ends}; rates {rates}{related}"
