"""What differs between two answers, results or plans: completion time, bound, GPUs, cost, and what limits are worth."""

from __future__ import annotations

import math
from collections.abc import Mapping

from optplan.contracts import Plan, Result, Solution
from optplan.contracts.result import relative_gap
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA
from optplan.reporting.differences import (
    COUNT,
    GPUS,
    LEAST,
    ROUNDING,
    SECONDS,
    SHARE,
    Answer,
    Difference,
    Fact,
    pair_facts,
    unit_words,
)
from optplan.units import HOURS_PER_DAY, HOURS_PER_MONTH, BudgetUnit

_ANSWER = "answer"
_TYPE = "gpus."


def compare_answers(a: Answer, b: Answer, *, types: tuple[str, str] = ("", "")) -> list[Difference]:
    """List what two answers say as a whole; what only results have is listed where both are results.

    ``types`` are the GPU types of answers that name none, because there is one only; empty to leave them unnamed.
    """
    weighted = any(_is_weighted(measures_of(answer)) for answer in (a, b))
    figures = (_state_figures(answer, only, weighted=weighted) for answer, only in zip((a, b), types, strict=True))
    if not (isinstance(a, Result) and isinstance(b, Result)):
        return pair_facts(*figures)
    status = ([Fact(_ANSWER, "status", "status", answer.status.value)] for answer in (a, b))
    return [*pair_facts(*status), *pair_facts(*figures), *pair_facts(_state_limits(a), _state_limits(b))]


def compare_class_answers(name: str, a: Answer, b: Answer) -> list[Difference]:
    """List completion time and GPUs of a class; empty where one of the answers has no plan."""
    facts_a, facts_b = _state_class(name, a), _state_class(name, b)
    return pair_facts(facts_a, facts_b) if facts_a and facts_b else []


def measures_of(answer: Answer) -> Mapping[str, float]:
    """Return what the evaluator measured; empty without a solution."""
    return answer.expected if isinstance(answer, Plan) else answer.measures


def _state_class(name: str, answer: Answer) -> list[Fact]:
    measures, path = measures_of(answer), f"classes.{name}"
    figures = (("mean completion time", "mean_jct_s", SECONDS), ("GPUs on average", "gpus", GPUS))
    return [
        Fact(name, what, f"{path}.{part}", measures[f"{path}.{part}"], unit)
        for what, part, unit in figures
        if f"{path}.{part}" in measures
    ]


def _is_weighted(measures: Mapping[str, float]) -> bool:
    mean, weighted = measures.get("mean_jct_s"), measures.get("weighted_mean_jct_s")
    return mean is not None and weighted is not None and abs(mean - weighted) > ROUNDING * abs(mean)


def _state_figures(answer: Answer, only_type: str, *, weighted: bool) -> list[Fact]:
    """State solver, completion time, proof, GPUs and cost."""
    measures = measures_of(answer)
    facts = [Fact(_ANSWER, "solver", "solver", answer.solver)]
    times = [("mean completion time", "mean_jct_s")]
    times += [("weighted mean completion time", "weighted_mean_jct_s")] if weighted else []
    facts += [Fact(_ANSWER, what, part, measures[part], SECONDS) for what, part in times if part in measures]
    if answer.bound is not None:
        facts.append(Fact(_ANSWER, "proven bound", "bound", answer.bound, answer.objective_unit))
    gap = relative_gap(answer.objective, answer.bound)
    if gap is not None and math.isfinite(gap):
        facts.append(Fact(_ANSWER, "gap", "gap", gap, SHARE))
    counts = (("GPUs on average", "gpus"), ("of them rescaling", "gpus_rescaling"))
    facts += [Fact(_ANSWER, what, part, measures[part], GPUS) for what, part in counts if part in measures]
    by_type = {part.removeprefix(_TYPE): used for part, used in measures.items() if part.startswith(_TYPE)}
    if only_type and "gpus" in measures:
        by_type = {only_type: measures["gpus"]}
    facts += [Fact(_ANSWER, f"{name} GPUs on average", f"{_TYPE}{name}", used, GPUS) for name, used in by_type.items()]
    facts += _state_cost(measures)
    if "rescales_per_job" in measures:
        facts.append(Fact(_ANSWER, "pauses a job", "rescales_per_job", measures["rescales_per_job"], COUNT))
    return facts


def _state_cost(measures: Mapping[str, float]) -> list[Fact]:
    usd_per_hour = measures.get("cost_usd_per_hour")
    if usd_per_hour is None:
        return []
    periods = (("an hour", "hour", 1.0), ("a day", "day", HOURS_PER_DAY), ("a month", "month", HOURS_PER_MONTH))
    return [
        Fact(_ANSWER, f"cost {words}", f"cost_usd_per_{period}", usd_per_hour * hours, f"usd/{period}")
        for words, period, hours in periods
    ]


def _state_limits(result: Result[Solution]) -> list[Fact]:
    """State what limits are worth, or how far they would have to be relaxed."""
    facts = []
    for limit, price in result.shadow_prices.items():
        one, path = _name_one(limit, price.unit), f"shadow_prices.{limit}"
        eased, tightened = ("less", "more") if limit.startswith(FLOOR) else ("more", "less")
        facts.append(Fact(_ANSWER, f"one {eased} {one} saves", f"{path}.more", price.more, price.unit))
        if price.less is not None:
            facts.append(Fact(_ANSWER, f"one {one} {tightened} costs", f"{path}.less", price.less, price.unit))
    relaxations = result.infeasibility.relaxations if result.infeasibility is not None else ()
    return facts + [
        Fact(
            _ANSWER,
            f"{'highest' if r.limit.startswith(FLOOR) else 'least'} {r.limit} that works, in {unit_words(r.unit)}",
            f"{LEAST}{r.limit}.least_feasible",
            r.least_feasible,
            r.unit,
        )
        for r in relaxations
    ]


def _name_one(limit: str, unit: str) -> str:
    """Name one unit of a limit: ``GPU``, ``dollar an hour``, ``GPU of a100's quota``."""
    if limit.startswith(DUE):
        return f"second of {limit.removeprefix(DUE)}'s due date"
    if limit.startswith(FLOOR):
        return f"GPU of {limit.removeprefix(FLOOR)}'s floor"
    one = unit.rpartition(" per ")[2].replace(BudgetUnit.USD_PER_HOUR, "dollar an hour")
    return one if limit == BUDGET else f"{one} of {limit.removeprefix(QUOTA)}'s quota"
