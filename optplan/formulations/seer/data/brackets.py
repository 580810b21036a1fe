"""SEER's Algorithms 2 and 3: how many rounds, how long, and what each bracket gets, from deadline and budget.

For R trainings of the shortest round at the end, K = ceil(log_eta R) rounds and pauses of w minutes between rounds, the
paper's two conditions read

    t_min R sum_{j<K} eta^-j + (K - 1) w                    <= T    (sum = eta (1 - eta^-K)/(eta - 1))
    p_min (t_min R K + w sum_{j<K-1} eta^j)                 <= B

with w = 0 in the paper. For each K they are linear in R, so the largest R is a closed form; the paper's own bisection
agrees to a relative 1e-9 (a test). A trial of a bracket costs P (K t_1 + w sum_{0<j<K} eta^-j) GPU-minutes
over all rounds, later ones by its share; a bracket's budget divided by that is its size x, and round k has
floor(x / eta^(k-1)) of its trials.

Deviations from the paper (its line numbers in brackets), all of them where the printed text fails:

- R = 1 is one round, although ceil(log 1) = 0: a deadline of exactly t_min is feasible.
- One floor per round instead of nested ones (Algorithm 1, lines 6 and 9): the same for whole eta, and never an empty
  last round for others.
- p_max = p_min is one bracket with the whole budget. Brackets of equal P are merged.
- Whole GPUs: P = floor(p_min nu^i), and sizes are computed from the rounded P; rounding afterwards breaks the budget.

A cluster of at most G GPUs, which the paper does not have, is a third condition on K: floor(eta^(K-1)) trials on p_min
GPUs, the least that K rounds are for, have to fit. Where that leaves fewer rounds than deadline and budget do, R is not
kept below eta^K: the rounds get as long as those allow. Algorithm 3 then divides what G GPUs take at most, if that
is less than the budget: with G (K t_1 + ...) instead of B all sizes times their GPUs add up to G.

Where the budget counts whole nodes of g GPUs, which the paper does not have either, K rounds and the bracket of B0 are
paid as such: g times the nodes of eta^(K-k) trials, rounded up, on p_min GPUs instead of p_min eta^(K-k) GPUs in round
k, so that the second condition stays linear in R. A bracket has the trials of its size, or, where nodes of its own
would take more than its part of the budget, the most with which they do not. Together brackets need no more nodes than
apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from optplan.errors import DataError

#: Relative tolerance of floors, of logarithms and of strict inequalities: amounts nearer than this are the same.
ROUNDING = 1e-10
#: Relative tolerance of feasibility: a limit that falls short of one shortest round by less is enough.
SHORTFALL = 1e-9
#: Most rounds, and most brackets before merging, that are computed; more of them mean nothing.
MOST_ROUNDS = 10_000
MOST_BRACKETS = 10_000
#: Halvings that find a size among as many as doubles can tell apart.
_HALVINGS = 60


@dataclass(frozen=True)
class SearchParameters:
    """What Algorithm 1 asks for, with what the paper leaves out; fields as of the instance, None for no limit."""

    deadline_min: float
    budget_gpu_min: float
    eta: float = 4.0
    nu: float = 2.0
    least_gpus: float = 1.0
    most_gpus: float | None = None
    least_round_min: float = 1.0
    resize_min: float = 0.0
    whole_gpus: bool = True
    most_gpus_held: float | None = None
    gpus_per_node: int | None = None


@dataclass(frozen=True)
class SizedBracket:
    """One bracket as published."""

    gpus: float  # of each of its trials, P[i]
    budget_gpu_min: float  # B[i]
    size: float  # x: trials of its first round before the floor
    trials: tuple[int, ...]  # (K,) trials of each round; N[i] is the first of them


@dataclass(frozen=True)
class SearchBrackets:
    """Everything that Algorithms 2 and 3 compute."""

    ratio: float  #: R*: minutes of the last round by minutes of the shortest round.
    rounds: int  #: K.
    round_min: float  #: t_1: minutes of the first round; round k takes ``round_min * eta**(k - 1)``, and a pause.
    #: B0: GPU-minutes of a bracket of ``eta**(K - 1)`` trials on p_min GPUs, as the budget counts them.
    bracket_gpu_min: float
    levels: int  #: q*.
    capped_levels: int | None  #: q'*; None where p_max does not cut brackets off.
    brackets: tuple[SizedBracket, ...]  #: By increasing GPUs, merged; those without trials are among them.


def size_brackets(parameters: SearchParameters) -> SearchBrackets | None:
    """Compute everything from deadline and budget (Algorithms 2 and 3); None when not even one trial fits."""
    found = find_ratio(parameters)
    if found is None:
        return None
    ratio, rounds = found
    eta = parameters.eta
    round_min = parameters.least_round_min * ratio / eta ** (rounds - 1)
    trial_min = minutes_per_trial(parameters, rounds, round_min)
    bracket_gpu_min = held_gpu_min = parameters.least_gpus * eta ** (rounds - 1) * trial_min
    if parameters.gpus_per_node is not None:
        per_ratio, pauses = _weigh_nodes(parameters, rounds)
        bracket_gpu_min = per_ratio * ratio + pauses
    most = math.inf if parameters.most_gpus_held is None else parameters.most_gpus_held * trial_min
    budget = max(min(parameters.budget_gpu_min, most), bracket_gpu_min)  # it may be less by rounding
    levels = _count_levels(parameters, budget / bracket_gpu_min)
    gpus, budgets, capped_levels = _divide(parameters, budget, bracket_gpu_min, levels)
    brackets = []
    for each, amount in _merge(parameters, gpus, budgets):
        size = amount / (trial_min * each)
        if parameters.gpus_per_node is not None:
            # A cluster may have room for less than the nodes of the first bracket would be paid for.
            size *= min(1.0, max(most, held_gpu_min) / budget)
            size = _fit_nodes(parameters, rounds, round_min, SizedBracket(each, amount, size, ()))
        trials = tuple(floor_loosely(size / eta**k) for k in range(rounds))
        brackets.append(SizedBracket(each, amount, size, trials))
    return SearchBrackets(ratio, rounds, round_min, bracket_gpu_min, levels, capped_levels, tuple(brackets))


def find_ratio(parameters: SearchParameters) -> tuple[float, int] | None:
    """Return R* and K in closed form; None when not even one trial of the shortest round fits (Algorithm 2, line 2)."""
    best: tuple[float, int] | None = None
    cluster_gpus = math.inf if parameters.most_gpus_held is None else parameters.most_gpus_held
    shrinking = growing = last = 0.0  # sum of eta^-j over j < K, and of eta^j over j < K - 1
    for rounds in range(1, MOST_ROUNDS + 1):
        least = parameters.eta ** (rounds - 1)
        shrinking += 1.0 / least
        most = _most_ratio(parameters, rounds, shrinking, growing)
        if rounds == 1:
            if not _fits_one_trial(parameters):
                return None
        elif not most > least * (1.0 + ROUNDING):
            return best
        elif parameters.least_gpus * floor_loosely(least) > cluster_gpus * (1.0 + ROUNDING):
            return _most_ratio(parameters, rounds - 1, shrinking - 1.0 / least, growing - last), rounds - 1
        best = max(least, min(most, parameters.eta**rounds)), rounds
        growing, last = growing + least, least
    problem = f"got {parameters.eta!r}, with which deadline and budget allow more than {MOST_ROUNDS:,} rounds"
    raise DataError("eta", problem, "a number further above 1 is needed; the paper has 4")


def minutes_per_trial(parameters: SearchParameters, rounds: int, round_min: float) -> float:
    """Return K t_1 + w sum_{0<j<K} eta^-j: minutes of a trial of the first round, with its share of later ones."""
    pauses = sum(parameters.eta**-j for j in range(1, rounds)) if parameters.resize_min else 0.0
    return rounds * round_min + parameters.resize_min * pauses


def floor_loosely(number: float) -> int:
    """Return the floor of a number; one that lies a relative :data:`ROUNDING` below a whole number counts as that."""
    return math.floor(number * (1.0 + ROUNDING))


def paid_gpus(gpus_per_node: int | None, gpus: float, trials: int) -> float:
    """Return the GPUs that a budget counts for trials of as many GPUs each: those of their nodes, or those held."""
    if gpus_per_node is None:
        return gpus * trials
    whole, rest = divmod(round(gpus), gpus_per_node)
    shared = -(-trials // (gpus_per_node // rest)) if rest else 0
    return float(gpus_per_node * (whole * trials + shared))


def _weigh_nodes(parameters: SearchParameters, rounds: int) -> tuple[float, float]:
    """Return what the nodes of the least search of so many rounds take by unit of R, and in pauses, in GPU-minutes."""
    eta = parameters.eta
    trials = [math.ceil(eta ** (rounds - 1 - k) * (1.0 - ROUNDING)) for k in range(rounds)]
    paid = [paid_gpus(parameters.gpus_per_node, parameters.least_gpus, number) for number in trials]
    per_ratio = parameters.least_round_min * sum(each * eta ** (k + 1 - rounds) for k, each in enumerate(paid))
    return per_ratio, parameters.resize_min * sum(paid[1:])


def _fit_nodes(parameters: SearchParameters, rounds: int, round_min: float, bracket: SizedBracket) -> float:
    """Return the size of a bracket, or the largest one below it of which whole nodes take no more than its budget."""
    eta, amount = parameters.eta, bracket.budget_gpu_min * (1.0 + ROUNDING)
    minutes = [round_min * eta**k + (parameters.resize_min if k else 0.0) for k in range(rounds)]

    def fits(size: float) -> bool:
        trials = (floor_loosely(size / eta**k) for k in range(rounds))
        paid = (paid_gpus(parameters.gpus_per_node, bracket.gpus, number) for number in trials)
        return sum(each * m for each, m in zip(paid, minutes, strict=True)) <= amount

    if fits(bracket.size):
        return bracket.size
    least, most = 0.0, bracket.size
    for _ in range(_HALVINGS):
        middle = (least + most) / 2.0
        least, most = (middle, most) if fits(middle) else (least, middle)
    # It lies just below a size at which several rounds may change. The least size with the same trials lies apart.
    least *= 1.0 - 4.0 * ROUNDING
    return max(floor_loosely(least / eta**k) * eta**k for k in range(rounds))


def _fits_one_trial(parameters: SearchParameters) -> bool:
    """Whether one trial of the shortest round keeps deadline and budget."""
    shortest = parameters.least_round_min
    gpus = paid_gpus(parameters.gpus_per_node, parameters.least_gpus, 1)
    least = (shortest, parameters.deadline_min), (gpus * shortest, parameters.budget_gpu_min)
    return all(needed <= amount * (1.0 + SHORTFALL) for needed, amount in least)


def _most_ratio(parameters: SearchParameters, rounds: int, shrinking: float, growing: float) -> float:
    """Return the largest R that keeps both conditions with so many rounds."""
    pause, shortest = parameters.resize_min, parameters.least_round_min
    by_deadline = (parameters.deadline_min - (rounds - 1) * pause) / (shortest * shrinking)
    by_budget = (parameters.budget_gpu_min / parameters.least_gpus - pause * growing) / (shortest * rounds)
    if parameters.gpus_per_node is not None:
        per_ratio, pauses = _weigh_nodes(parameters, rounds)
        by_budget = (parameters.budget_gpu_min - pauses) / per_ratio
    return min(by_deadline, by_budget)


def _count_levels(parameters: SearchParameters, quotient: float) -> int:
    """Return q*, the largest q >= 1 with q nu^(q-1) <= B / B0 (Algorithm 3, line 2)."""
    if parameters.nu == 1.0:
        return max(1, floor_loosely(quotient))
    for level in range(1, MOST_BRACKETS + 1):
        if (level + 1) * parameters.nu**level > quotient * (1.0 + ROUNDING):
            return level
    problem = f"got {parameters.nu!r}, with which the budget makes more than {MOST_BRACKETS:,} brackets"
    raise DataError("nu", problem, "1, or a number further above it, is needed; the paper has 2")


def _divide(
    parameters: SearchParameters, budget: float, bracket_gpu_min: float, levels: int
) -> tuple[list[float], list[float], int | None]:
    """Return P and B of Algorithm 3 as printed, and q'* where p_max cuts brackets off."""
    least, most, nu = parameters.least_gpus, parameters.most_gpus, parameters.nu
    limit = math.inf if most is None else most * (1.0 - ROUNDING)
    if nu == 1.0:
        return [least], [budget], None
    if least * nu ** (levels - 1) < limit:
        each = bracket_gpu_min * nu ** (levels - 1)
        last = least * nu**levels
        gpus = [*(least * nu**i for i in range(levels)), last if most is None else min(most, last)]
        return gpus, [*[each] * levels, max(0.0, budget - levels * each)], None
    gpus = []
    while least * nu ** len(gpus) < limit:
        gpus.append(least * nu ** len(gpus))
    capped_levels = len(gpus) - 1
    gpus.append(least if most is None else most)
    return gpus, [budget / len(gpus)] * len(gpus), capped_levels


def _merge(parameters: SearchParameters, gpus: list[float], budgets: list[float]) -> list[tuple[float, float]]:
    """Round GPUs down where they are whole, and put brackets of equal GPUs together."""
    merged: list[tuple[float, float]] = []
    for each, budget in zip(gpus, budgets, strict=True):
        number = float(floor_loosely(each)) if parameters.whole_gpus else each
        if merged and number <= merged[-1][0] * (1.0 + ROUNDING):
            merged[-1] = (merged[-1][0], merged[-1][1] + budget)
        else:
            merged.append((number, budget))
    return merged
