"""The independent judge of SEER: what a search takes, and whether it keeps the rules.

It imports no solver. Rounds and brackets as published (:mod:`optplan.formulations.seer.data.brackets`) are part of the
problem and not of any solver. Constraint families, by the names used in every message:

``rounds``
    The solution has as many rounds as published, and every bracket a number of trials for each.
``round-length``
    The first round is as long as published.
``gpus``
    Brackets have the GPUs of published ones, in increasing order.
``trials``
    In no round does a bracket have fewer trials than published.
``halving``
    From round to round a bracket keeps one trial in eta, rounded down: a size x exists with floor(x / eta^(k-1)) trials
    in each round k.
``last-round``
    At least one trial is trained to the end.
``deadline``
    Rounds and pauses end by the deadline.
``budget``
    GPU-minutes, training and pausing, do not exceed the budget: those of the GPUs that trials hold, or, where the
    budget counts them, those of whole nodes.
``cluster``
    In no round do all trials together hold more GPUs than there may be; only where there is such a limit.

For the objective ``quality`` rounds and brackets are free, and the first four families ask for less:

``rounds``
    No more rounds than can be sampled, and in every bracket a number of trials for each.
``round-length``
    The first round is at least as long as the shortest one allowed.
``gpus``
    Brackets have allowed numbers of GPUs, in increasing order.
``trials``
    No more trials than can be sampled.
"""

from __future__ import annotations

import math

from optplan.contracts.judgement import JUDGE_TOLERANCE, Check, Evaluation
from optplan.formulations.seer.data.instance import (
    BUDGET,
    DEADLINE,
    MOST_SAMPLED_ROUNDS,
    MOST_SAMPLED_TRIALS,
    Objective,
    SeerInstance,
    SeerSolution,
)
from optplan.formulations.seer.laws.expectation import Search, estimate_mean, require_prior, sample_report
from optplan.formulations.seer.laws.rounds import Round, count_nodes, list_rounds, sum_spent
from optplan.units import MINUTES_PER_HOUR

#: Relative tolerance of every comparison of the judge; a plan exactly at the budget is feasible.
TOLERANCE = JUDGE_TOLERANCE

#: Sizes, lengths and GPUs nearer than this, relatively, are the same: trials number up to 1e9, and must be told from
#: one more; a search must not save on published figures what its budget lacks.
SAME = 1e-12


def evaluate(instance: SeerInstance, solution: SeerSolution) -> Evaluation:
    """Recompute objective, time, spend and every constraint from a search, which may break any rule.

    The objective is GPU-minutes of training, sum over i of P_i t_1 sum over k of eta^(k-1) n(i,k); for ``quality`` the
    mean final loss over the prior's samples. Consumption: ``budget`` in GPU-minutes, pauses included; ``deadline`` in
    minutes.
    """
    checks = _check_shape(instance, solution)
    if not all(check.holds for check in checks):
        return Evaluation(math.nan, {BUDGET: math.nan, DEADLINE: math.nan}, {}, tuple(checks))
    rounds = list_rounds(instance, solution)
    training = sum(each.gpus * each.training_min for each in rounds)
    pausing = sum(each.gpus * each.pause_min for each in rounds)
    spent = training + pausing if instance.nodes_paid is None else sum_spent(instance, rounds)
    consumption = {BUDGET: spent, DEADLINE: rounds[-1].stop_min}
    measures = {
        "spent_gpu_min": spent,
        "training_gpu_min": training,
        "resize_gpu_min": pausing,
        "unused_gpu_min": instance.budget_gpu_min - spent,
        "last_round_gpu_min": rounds[-1].gpus * rounds[-1].training_min,
        "duration_min": rounds[-1].stop_min,
        "training_min": sum(each.training_min for each in rounds),
        "trials": float(sum(trials for _, trials in rounds[0].groups)),
        "last_round_trials": float(sum(trials for _, trials in rounds[-1].groups)),
        "most_gpus_held": max(each.gpus for each in rounds),
    }
    measures |= _measure_cost(instance, rounds, training + pausing)
    quality = instance.objective is Objective.QUALITY
    checks += _check_free(instance, solution) if quality else _check_published(instance, solution)
    checks += [_check_limit(instance, limit, used) for limit, used in consumption.items()]
    if instance.most_gpus_held is not None:
        held, most = measures["most_gpus_held"], instance.most_gpus_held
        message = "GPUs of all trials together must not exceed most_gpus_held"
        checks.append(_check("cluster", "", held, most, message, holds=held <= most * (1 + TOLERANCE)))
    objective = training
    if quality:
        # What breaks a rule may be too large to be sampled.
        sampled = all(check.holds for check in checks)
        objective, losses = judge_quality(instance, solution) if sampled else (math.nan, {})
        measures |= losses
    return Evaluation(objective, consumption, measures, tuple(checks))


def _measure_cost(instance: SeerInstance, rounds: list[Round], spent_gpu_min: float) -> dict[str, float]:
    """Measure what the GPUs cost where there is a price, and what whole nodes take where there are nodes."""
    measures: dict[str, float] = {}
    price = instance.price_usd_per_gpu_hour
    if price is not None:
        measures["cost_usd"] = price * spent_gpu_min / MINUTES_PER_HOUR
    per_node = instance.gpus_per_node
    if per_node is not None:
        nodes = [count_nodes(per_node, each.groups) for each in rounds]
        held = per_node * sum(n * each.duration_min for n, each in zip(nodes, rounds, strict=True))
        measures |= {"most_nodes_held": float(max(nodes)), "node_gpu_min": held}
        if price is not None:
            measures["node_cost_usd"] = price * held / MINUTES_PER_HOUR
    return measures


def _check_shape(instance: SeerInstance, solution: SeerSolution) -> list[Check]:
    """Check everything that must hold before a search can be evaluated at all."""
    published = instance.brackets
    rounds = 1 if published is None else published.rounds
    if instance.objective is Objective.QUALITY:
        rounds = min(solution.rounds, max(rounds, MOST_SAMPLED_ROUNDS))
    lengths = [solution.rounds, *(len(bracket.trials) for bracket in solution.brackets)]
    wrong = next((length for length in lengths if length != rounds), rounds)
    message = f"rounds, and numbers of trials of each bracket, must be {rounds}"
    return [_check("rounds", "", wrong, rounds, message, holds=wrong == rounds)]


def _check_published(instance: SeerInstance, solution: SeerSolution) -> list[Check]:
    """Check what the published algorithm fixes, and what it is the least for."""
    published = instance.brackets
    round_min = instance.least_round_min if published is None else published.round_min
    message = "the first round must be as long as published"
    same = abs(solution.round_min - round_min) <= SAME * round_min
    checks = [_check("round-length", "", solution.round_min, round_min, message, holds=same)]
    known = [] if published is None else [bracket.gpus for bracket in published.brackets]
    last = 0.0
    for number, bracket in enumerate(solution.brackets, start=1):
        nearest = min(known, key=lambda each: abs(each - bracket.gpus), default=0.0)
        holds = abs(nearest - bracket.gpus) <= SAME * bracket.gpus and bracket.gpus > last * (1 + TOLERANCE)
        message = "brackets must have the GPUs of published ones, in increasing order"
        checks.append(_check("gpus", f"bracket {number}", bracket.gpus, nearest, message, holds=holds))
        checks.append(_check_halving(instance, number, bracket.trials))
        last = bracket.gpus
    checks += _check_trials(instance, solution)
    final = sum(bracket.trials[-1] for bracket in solution.brackets)
    checks.append(_check("last-round", "", 1, final, "at least one trial must reach the last round", holds=final >= 1))
    return checks


def _check_free(instance: SeerInstance, solution: SeerSolution) -> list[Check]:
    """Check what holds for rounds and brackets of any kind."""
    least = instance.least_round_min
    message = "the first round must be at least as long as the shortest one allowed"
    holds = solution.round_min >= least * (1 - TOLERANCE)
    checks = [_check("round-length", "", least, solution.round_min, message, holds=holds)]
    most, last = math.inf if instance.most_gpus is None else instance.most_gpus, 0.0
    for number, bracket in enumerate(solution.brackets, start=1):
        allowed = instance.least_gpus * (1 - TOLERANCE) <= bracket.gpus <= most * (1 + TOLERANCE)
        whole = bracket.gpus == round(bracket.gpus) or not instance.whole_gpus
        holds = allowed and whole and bracket.gpus > last * (1 + TOLERANCE)
        nearest = min(max(bracket.gpus if whole else round(bracket.gpus), instance.least_gpus), most)
        message = "brackets must have allowed numbers of GPUs, in increasing order"
        checks.append(_check("gpus", f"bracket {number}", bracket.gpus, nearest, message, holds=holds))
        checks.append(_check_halving(instance, number, bracket.trials))
        last = bracket.gpus
    trials, final = (sum(bracket.trials[k] for bracket in solution.brackets) for k in (0, -1))
    message = f"at most {MOST_SAMPLED_TRIALS:,} trials can be sampled"
    checks.append(_check("trials", "", trials, MOST_SAMPLED_TRIALS, message, holds=trials <= MOST_SAMPLED_TRIALS))
    message = "at least one trial must reach the last round"
    checks.append(_check("last-round", "", 1, final, message, holds=final >= 1))
    return checks


def judge_quality(instance: SeerInstance, solution: SeerSolution) -> tuple[float, dict[str, float]]:
    """Sample a search's expected final loss, its 95 % interval, and the gain over the published search, as measures."""
    published = instance.published
    searches = [Search.of(instance, each) for each in (solution, published) if each is not None]
    figures = sample_report(require_prior(instance), searches)
    found = estimate_mean(figures[0])
    measures = {"low_loss": found.low, "high_loss": found.high, "samples": float(figures.shape[1])}
    if published is not None:
        gain = estimate_mean(figures[1] - figures[0])
        measures |= {
            "uninformed_loss": estimate_mean(figures[1]).mean,
            "gain_loss": gain.mean,
            "gain_low_loss": gain.low,
            "gain_high_loss": gain.high,
        }
    return found.mean, measures


def _check_trials(instance: SeerInstance, solution: SeerSolution) -> list[Check]:
    """Compare the trials of each published bracket with those of the solution's bracket of as many GPUs."""
    checks: list[Check] = []
    for bracket in () if instance.brackets is None else instance.brackets.brackets:
        own = next((b.trials for b in solution.brackets if abs(b.gpus - bracket.gpus) <= TOLERANCE * b.gpus), None)
        trials = (0,) * len(bracket.trials) if own is None else own
        short = [(n, least) for n, least in zip(trials, bracket.trials, strict=True) if n < least]
        have, least = short[0] if short else (trials[0], bracket.trials[0])
        message = "a bracket must have at least the published number of trials in each round"
        checks.append(_check("trials", f"{bracket.gpus:g} GPUs", least, have, message, holds=not short))
    return checks


def _check_halving(instance: SeerInstance, number: int, trials: tuple[int, ...]) -> Check:
    """Check that n_k <= x / eta^(k-1) < n_k + 1 has an x for all rounds k."""
    least = max(n * instance.eta**k for k, n in enumerate(trials))
    most = min((n + 1) * instance.eta**k for k, n in enumerate(trials))
    message = "the trials of the rounds must come from one size by dividing by eta and rounding down"
    return _check("halving", f"bracket {number}", least, most, message, holds=least < most * (1 - SAME))


def _check_limit(instance: SeerInstance, limit: str, used: float) -> Check:
    amount = instance.limits[limit]
    what = "GPU-minutes, training and pausing," if limit == BUDGET else "rounds and pauses"
    return Check.at_most(limit, used, amount, f"{what} must not exceed the {limit}")


def _check(family: str, index: str, left: float, right: float, message: str, *, holds: bool) -> Check:
    sides = {"left": float(left), "right": float(right), "tolerance": TOLERANCE * abs(right)}
    return Check(family=family, index=index, **sides, holds=holds, message=message)
