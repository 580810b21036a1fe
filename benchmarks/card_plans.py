"""What plans by card curves are worth: beside the best by measured curves, on as many GPUs, and for the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from fit_cards import PLAYBOOK, PLAYBOOK_MODELS, Row, find_band, list_pairs
from publish import write_table
from scipy.optimize import brentq

from optplan import BoaInstance, GpuType, JobClass, TableSpeedup, evaluate, solve
from optplan.formulations.boa.study.sensitivity import EstimateErrors, solve_robust
from optplan.speedup.cards.records import Constants
from optplan.speedup.cards.steps import VALID_GPUS

#: A load: by model jobs an hour, and GPU-hours of each at its narrowest width.
Load = Mapping[str, tuple[float, float]]
LOAD: Load = {"1B": (0.2, 100.0), "3B": (0.1, 300.0), "80B": (0.02, 3000.0)}
#: Budgets for that load in GPUs.
BUDGETS = (84, 87, 90, 93, 96, 100, 105, 110, 120)
#: Budgets over the least that a load can be planned for by the card: from where on they count as ample, and those that
#: are tried with other loads.
#: Near the least a percent of GPUs is worth many of time, and errors of GPUs end earlier than those of time.
AMPLE, ROOMY, HEADROOMS = 1.3, 1.2, (1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.5, 2.0)
#: Other loads: how many, of how many GPUs by the card at the least; how a model's share is drawn is up to Dirichlet.
LOADS, LOAD_GPUS = 30, 76.0
#: Truths within the bands from which robust plans are made.
SAMPLES = 100


@dataclass(frozen=True)
class Curves:
    """Speedups by model."""

    measured: dict[str, TableSpeedup]
    computed: dict[str, TableSpeedup]  #: By cards, with constants fitted without the model.


@dataclass(frozen=True)
class PlanQuality:
    """A plan made with card curves, judged by the measured ones."""

    headroom: float  #: The budget over the least that the load can be planned for by the card.
    budget: float
    gpus: float  #: What it takes.
    excess: float  #: Of the mean completion time over the best at the same GPUs.
    gpu_excess: float  #: Of its GPUs over the fewest on which the best plan takes as long.
    gain: float  #: By how much the best plan's time falls with a percent of GPUs more.
    stated: tuple[float, float]  #: The range of the best mean completion time that the answer states, in seconds.
    best: float  #: The best mean completion time on the budget, in seconds; infinite if the budget is too small.
    robust_gpus: float  #: What the robust plan for the budget takes; nan where none was made.

    @property
    def is_ample(self) -> bool:
        """Whether the budget leaves room."""
        return self.headroom >= AMPLE

    @property
    def is_roomy(self) -> bool:
        """Whether the budget leaves room to take few more GPUs than needed."""
        return self.headroom >= ROOMY * (1.0 - 1e-9)

    @property
    def is_within(self) -> bool:
        """Whether the truth is in the range that was stated."""
        return self.stated[0] <= self.best * (1.0 + 1e-9) and self.best <= self.stated[1] * (1.0 + 1e-9)


def read_curves(rows: Sequence[Row], left_out: Mapping[tuple[str, str], Constants]) -> Curves:
    """Return the playbook's curves up to the widest that cards are valid for."""
    curves = Curves({}, {})
    for model in PLAYBOOK_MODELS:
        own = [row for row in rows if (row.source, row.model) == (PLAYBOOK, model) and row.gpus <= VALID_GPUS[1]]
        pairs = list_pairs(own, left_out[PLAYBOOK, model])
        first = min(pair.narrow for pair in pairs)
        steps = [pair for pair in pairs if pair.narrow == first]
        gpus = [first, *(pair.row.gpus for pair in steps)]
        curves.measured[model] = TableSpeedup(gpus=gpus, speedup=[first, *(first * pair.measured for pair in steps)])
        curves.computed[model] = TableSpeedup(
            gpus=gpus,
            speedup=[first, *(first * pair.estimated for pair in steps)],
            error=[0.0, *map(find_band, steps)],
        )
    return curves


def try_plans(curves: Curves) -> Iterator[PlanQuality]:
    """Plan the one load for each budget, with robust plans beside."""
    least = find_least(curves.computed, LOAD)
    for budget in BUDGETS:
        yield judge_plan(curves, LOAD, least, float(budget), robust=True)


def try_loads(curves: Curves) -> Iterator[PlanQuality]:
    """Plan other loads, of any mix of the models, for each headroom."""
    rng = np.random.default_rng(0)
    for shares in rng.dirichlet(np.ones(len(LOAD)), LOADS).tolist():
        load = {}
        for share, (model, (_, hours)) in zip(shares, LOAD.items(), strict=True):
            curve = curves.computed[model]
            each = hours * min(np.array(curve.gpus) / np.array(curve.speedup))
            load[model] = (LOAD_GPUS * share / each, hours)
        least = find_least(curves.computed, load)
        for headroom in HEADROOMS:
            yield judge_plan(curves, load, least, headroom * least)


def judge_plan(curves: Curves, load: Load, least: float, budget: float, *, robust: bool = False) -> PlanQuality:
    """Plan by card curves, and say what the plan amounts to by the measured ones."""
    stated, real = state(curves.computed, load, budget), state(curves.measured, load, budget)
    found = solve(stated)
    if found.solution is None:
        raise RuntimeError(f"the card's curves have no plan for {budget} GPUs")
    judged = evaluate(real, found.solution)
    gpus, seconds = judged.consumption["budget"], judged.objective

    def find_best(budget: float) -> float:
        return solve(real.replace(budget=f"{budget!r}gpu"), ranges=False).objective or np.inf

    best, true_least = find_best(gpus * (1.0 + 1e-9)), find_least(curves.measured, load)
    fewest = gpus
    if seconds > best * (1.0 + 1e-3):
        fewest = brentq(lambda gpus: find_best(gpus) / seconds - 1.0, true_least * (1.0 + 1e-6), gpus, rtol=1e-4)
    least_end, most_end = found.range.best if found.range else (found.objective, found.objective)
    robust_gpus = np.nan
    if robust:
        own = solve_robust(stated, EstimateErrors(), first=0, samples=SAMPLES, seed=0).solution
        robust_gpus = evaluate(real, own).consumption["budget"]
    return PlanQuality(
        headroom=budget / least,
        budget=budget,
        gpus=gpus,
        excess=seconds / best - 1.0,
        gpu_excess=gpus / fewest - 1.0,
        gain=1.0 - find_best(1.01 * gpus) / best,
        stated=(least_end or 0.0, np.inf if most_end is None else most_end),
        best=find_best(budget) if budget >= true_least else np.inf,
        robust_gpus=robust_gpus,
    )


def find_least(curves: Mapping[str, TableSpeedup], load: Load) -> float:
    """Return the least budget in GPUs that a load can be planned for: what refusing one GPU proves."""
    refused = solve(state(curves, load, 1.0), ranges=False).infeasibility
    if refused is None or not refused.relaxations:
        raise RuntimeError("one GPU is enough for this load")
    return refused.relaxations[0].least_feasible


def state(curves: Mapping[str, TableSpeedup], load: Load, budget: float) -> BoaInstance:
    """Return a load of the playbook's models with these curves."""
    kind = GpuType(price_usd_per_hour=3.0, price_source="no matter", price_date="2026-11")
    classes = {
        model: JobClass(
            arrival_rate_per_hour=rate, epoch_size_gpu_hours=[hours], rescale_s=120, speedup={"h100": curves[model]}
        )
        for model, (rate, hours) in load.items()
    }
    return BoaInstance(name="cards", policy="mixed", gpu_types={"h100": kind}, budget=f"{budget!r}gpu", classes=classes)


# ------------------------------------------------------------------------------------------------------------ the page


def write_plans(curves: Curves, plans: Sequence[PlanQuality], sampled: Sequence[PlanQuality]) -> Iterator[str]:
    """Write what plans by card curves are worth."""
    yield from ("## Plans", "")
    least = plans[0].budget / plans[0].headroom
    yield "BOA makes mixed plans for the three models of the playbook by card curves, fitted without each. Measured"
    yield "curves say how many GPUs such a plan takes, how long the best plan on as many takes, and on how few GPUs"
    yield "the best one takes as long as it. *The least* is the smallest budget for which there is a plan by the card,"
    yield f"here {least:.1f} GPUs; `optplan solve` says it where a budget is too small. *Ample* is a budget that is"
    yield f"{say_percent(AMPLE - 1.0, 0)} or more above it."
    yield ""
    table = [
        (
            f"{plan.budget:.0f} GPUs",
            f"+{say_percent(plan.headroom - 1.0, 0)}",
            f"{plan.gpus:.1f} GPUs",
            f"{100.0 * (plan.gpus / plan.budget - 1.0):+.1f} %",
            say_percent(plan.excess),
            say_percent(plan.gpu_excess),
            say_percent(plan.gain),
            f"{plan.robust_gpus:.1f} GPUs",
        )
        for plan in plans
    ]
    head = ("budget", "over the least", "it takes", "over the budget", "time over the best at as many GPUs")
    more = ("GPUs over the fewest for its time", "what 1 % more GPUs save of the time", "a robust plan takes")
    yield from list(write_table("", (*head, *more), table))[2:]
    yield from write_arithmetic(curves, plans)
    yield from write_reasons(curves)
    yield from write_sampled(sampled)
    yield from write_stated(plans)


def write_arithmetic(curves: Curves, plans: Sequence[PlanQuality]) -> Iterator[str]:
    """Write why no curves with such errors keep a gate of time near the least: two classes, by hand; and plans here."""
    pairs = (curves.measured["1B"], curves.measured["3B"], curves.computed["1B"], curves.computed["3B"])
    first, second, said_first, said_second = (2.0 * float(curve.speedup[0] / curve.speedup[1]) - 1.0 for curve in pairs)
    if not (second < first and said_first < said_second):
        raise RuntimeError("the card has the right class first: the example of two classes is none")
    yield "Can plans by card curves be within 2 % of the best time on every budget? Take 1B and 3B on 8 or 16 GPUs, as"
    yield f"many jobs of each, equal on 8. On 16, jobs of 1B take {say_percent(first)} more GPU-hours and"
    yield f"those of 3B {say_percent(second)}; the card says {say_percent(said_first)} and {say_percent(said_second)},"
    yield "so its plan widens 1B first. Of the time and the GPUs with all on 8:"
    yield ""
    # A wide job takes half as long times its GPU-hours; all of 1B wide is the card's plan, as dear as the best with all
    # of 3B and a part of 1B, and as fast as the one with a part of 3B.
    gain, better = 0.5 - first / 2.0, 0.5 - second / 2.0
    part, share = 1.0 - second / first, gain / better
    table = [
        ("the card's, all of 1B on 16", first / 2.0, 1.0 - gain / 2.0),
        (
            f"the best on as many GPUs, 3B and {say_percent(part, 0)} of 1B",
            first / 2.0,
            1.0 - (better + part * gain) / 2.0,
        ),
        (f"the best of the same time, {say_percent(share, 0)} of 3B", share * second / 2.0, 1.0 - gain / 2.0),
    ]
    cells = [(name, f"+{say_percent(gpus, 2)}", say_percent(time)) for name, gpus, time in table]
    yield from list(write_table("", ("plan", "GPUs", "mean time"), cells))[2:]
    longer, more = table[0][2] / table[1][2] - 1.0, (1.0 + table[0][1]) / (1.0 + table[2][1]) - 1.0
    yield f"Errors of {say_percent(abs(said_first - first))} and {say_percent(abs(said_second - second))}, within what"
    yield f"speedups may err, are {say_percent(more)} of GPUs and {say_percent(longer, 0)} of time. In general a plan"
    yield "that takes $r$ percent more GPUs than needed takes about $\\eta r$ percent more time, where $\\eta$ is what"
    yield "a percent of GPUs saves on the frontier of the best plans (the last but"
    tight = plans[0]
    product = 100.0 * tight.gain * tight.gpu_excess
    yield f"one column): at {tight.budget:.0f} GPUs {100.0 * tight.gain:.1f} times {say_percent(tight.gpu_excess)} are"
    yield f"{say_percent(product, 0)}, and {say_percent(tight.excess, 0)} was found. To keep 2 % of time there,"
    yield f"GPU-hours would have to be right within {say_percent(0.0002 / tight.gain, 2)}."
    yield ""


def write_reasons(curves: Curves) -> Iterator[str]:
    """Write why plans near the least are not worth what others are: what a job holds at each width."""
    yield "Near the least, small errors turn the choice of widths: those left to choose from take almost as many GPUs"
    yield "for a job as one another, and a percent of GPUs is worth up to ten of time. What a job takes at a width, in"
    yield "GPUs for the work of one at the narrowest:"
    yield ""
    rows = []
    for model, curve in curves.measured.items():
        for name, one in (("measured", curve), ("card", curves.computed[model])):
            taken = dict(zip(np.array(one.gpus).tolist(), (np.array(one.gpus) / one.speedup).tolist(), strict=True))
            rows.append((model, name, *(f"{taken[gpus]:.3f}" if gpus in taken else "" for gpus in WIDTHS)))
    yield from list(write_table("", ("model", "curve", *map(str, WIDTHS)), rows))[2:]
    yield "At 64 GPUs the measured curves of 1B and 3B have a dent, which the law does not have: they take as much"
    yield "there as at 128, or nearly. The card sees the next step after 32 in it, and its plan takes it, where who"
    yield "knows better goes to 128. The card has 80B too fast on 64, too: its fastest layout there (data 2 x tensor"
    yield "4 x pipeline 8) was measured at 74 GB and 167 s, above what a layout may need; the next one takes 25 s. That"
    yield f"is not one class's error: plans miss with any one of the curves measured, {say_single(curves)}."
    yield ""


#: Widths of the table of what jobs take; and where single curves are tried.
WIDTHS, SINGLE_BUDGET = (8, 16, 32, 64, 128, 256), 84.0


def say_single(curves: Curves) -> str:
    """Write by how much plans miss in which one curve is measured."""
    least, said = find_least(curves.computed, LOAD), []
    for model in curves.computed:
        some = Curves(curves.measured, {**curves.computed, model: curves.measured[model]})
        plan = judge_plan(some, LOAD, least, SINGLE_BUDGET)
        said.append(f"{say_percent(plan.excess, 0)} with that of {model}")
    return f"at {SINGLE_BUDGET:.0f} GPUs by {', '.join(said)}"


def write_sampled(sampled: Sequence[PlanQuality]) -> Iterator[str]:
    """Write what plans of other loads are worth, by headroom."""
    yield f"{LOADS} other loads, of any mix of the models (shares of the GPUs by a Dirichlet distribution):"
    yield ""
    rows = []
    for headroom in HEADROOMS:
        own = [plan for plan in sampled if np.isclose(plan.headroom, headroom)]
        cells = []
        for values in ([plan.excess for plan in own], [plan.gpu_excess for plan in own]):
            cells += [say_percent(each) for each in np.quantile(values, (0.5, 0.9, 1.0)).tolist()]
        within = float(np.mean([plan.is_within for plan in own]))
        rows.append((f"+{say_percent(headroom - 1.0, 0)}", *cells, say_percent(within, 0)))
    names = [f"{what}: {which}" for what in ("time", "GPUs") for which in ("median", "nine in ten", "worst")]
    head = ("budget over the least", *names, "best time within the range stated")
    yield from list(write_table("", head, rows))[2:]
    few = say_percent(float(np.mean([plan.gpu_excess <= 0.02 for plan in sampled])), 0)
    yield f"So plans keep 2 % of time where budgets are {say_percent(AMPLE - 1.0, 0)} or more above the least, and 2 %"
    yield f"of GPUs from {say_percent(ROOMY - 1.0, 0)} on (of all of these plans, {few} do); both limits are read off"
    yield "these tables. Below, a plan needs a few percent more GPUs than one by curves without errors, and times are"
    yield "known no better than the range says. Measure what `optplan explain` names, or raise the budget."
    yield ""


def write_stated(plans: Sequence[PlanQuality]) -> Iterator[str]:
    """Write the ranges that answers state, and the truth."""
    yield "What the answers say, for the budgets above, and the best plan by the measured curves:"
    yield ""
    rows = [
        (
            f"{plan.budget:.0f} GPUs",
            f"{say_hours(plan.stated[0])} to {say_hours(plan.stated[1])}",
            say_hours(plan.best),
            "yes" if plan.is_within else "no",
        )
        for plan in plans
    ]
    head = ("budget", "best mean completion time, the range stated", "in truth", "within")
    yield from list(write_table("", head, rows))[2:]
    yield "Robust plans (`optplan explain --robust`), which use the bands, keep every budget; that costs time where"
    yield "budgets are tight."
    yield ""


def say_hours(seconds: float) -> str:
    """Write a time in hours; without a plan it is infinite."""
    return f"{seconds / 3600.0:.2f} h" if np.isfinite(seconds) else "no plan"


def say_percent(share: float, digits: int = 1) -> str:
    """Write a share as ``3.8 %``."""
    return f"{100.0 * share:.{digits}f} %"
