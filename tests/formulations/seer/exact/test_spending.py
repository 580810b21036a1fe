"""Spending the budget: figures by hand, the exact solver against brute force and CP-SAT, ties, and its limits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from optplan.contracts import BoundProof, SolveRequest, Status, Termination
from optplan.errors import UnsupportedError
from optplan.formulations.seer.data.instance import Bracket, SeerInstance, SeerSolution
from optplan.formulations.seer.exact import spending
from optplan.formulations.seer.exact.rows import MOST_ROWS, list_rows
from optplan.formulations.seer.exact.spending import solve_spend_exact
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.models.statement import solve_cp_sat, solve_enumeration
from optplan.formulations.seer.published.policy import solve_published
from optplan.progress import Stopwatch

MakeInstance = Callable[..., SeerInstance]

SOLVERS = [solve_spend_exact, solve_cp_sat, solve_enumeration, solve_published]
every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.__name__)


def trials_of(solution: SeerSolution | None) -> dict[float, tuple[int, ...]]:
    """Return the trials of each round by GPUs."""
    assert solution is not None
    return {bracket.gpus: bracket.trials for bracket in solution.brackets}


@st.composite
def instances(draw: st.DrawFn) -> SeerInstance:
    """Draw small instances from the whole parameter range."""
    whole = draw(st.booleans())
    least = draw(st.sampled_from([1, 2, 3] if whole else [1, 0.5, 1.7]))
    factor = draw(st.none() | st.sampled_from([1, 2, 3, 5]))
    fields: dict[str, object] = {
        "formulation": "seer",
        "deadline_min": draw(st.integers(1, 30) | st.floats(1, 60)),
        "budget": f"{least * draw(st.integers(1, 200) | st.floats(1, 300))!r}gpu-min",
        "eta": draw(st.sampled_from([2, 3, 4, 2.5]) | st.floats(1.5, 5)),
        "nu": draw(st.sampled_from([1, 2, 1.5, 3]) | st.floats(1.2, 3)),
        "least_gpus": least,
        "resize_s": draw(st.sampled_from([0, 0, 20])),
        "whole_gpus": whole,
    }
    cluster = draw(st.none() | st.integers(1, 80))
    if cluster is not None:
        fields["most_gpus_held"] = cluster * least
    return SeerInstance.parse(fields if factor is None else fields | {"most_gpus": factor * least})


def brute_force(instance: SeerInstance) -> tuple[tuple[int, ...], ...] | None:
    """Look at all trials of the first rounds in exact fractions: whole eta, whole GPUs, no pauses.

    Returns the trials of the first round of each bracket, the best by all rules, or None where they are too many.
    """
    published = instance.brackets
    assert published is not None
    eta, rounds = round(instance.eta), published.rounds
    budget = Fraction(instance.budget_gpu_min) / Fraction(published.round_min)
    budget = budget.limit_denominator(10**6)  # t_1 is rounded; in its units amounts are whole numbers
    ranges = []
    for bracket in published.brackets:
        most = int(budget / Fraction(bracket.gpus)) // rounds + eta ** (rounds - 1) * rounds
        ranges.append(range(bracket.trials[0], max(bracket.trials[0], most) + 1))
    size = 1
    for each in ranges:
        size *= len(each)
    if size > 3_000:
        return None
    best: tuple[Fraction, Fraction, int, tuple[int, ...]] | None = None
    for numbers in itertools.product(*ranges):
        spent = last = Fraction(0)
        for bracket, number in zip(published.brackets, numbers, strict=True):
            spent += Fraction(bracket.gpus) * sum(eta**k * (number // eta**k) for k in range(rounds))
            last += Fraction(bracket.gpus) * (number // eta ** (rounds - 1))
        key = (spent, last, sum(numbers), numbers[::-1])
        held = sum(bracket.gpus * number for bracket, number in zip(published.brackets, numbers, strict=True))
        if held > (instance.most_gpus_held or math.inf):
            continue
        if spent <= budget and (best is None or key > best):
            best = key
    assert best is not None
    return tuple(tuple(number // eta**k for k in range(rounds)) for number in best[3][::-1])


def test_the_example_spends_everything(example: SeerInstance) -> None:
    """80 GPU-minutes are 56 units of t_1 = 10/7, of which the published plan takes 48.

    8 more units: two more trials of 1 GPU take 2 + 2 (10 = 8 + 2: 10, 5, 2), one of 4 GPUs takes 4. No third one gets
    to the last round, which takes 1 GPU * 12 units. Among the ways to spend 8 the one with most trials adds 3, to 15.
    """
    answer = solve_spend_exact(example, SolveRequest())
    assert (answer.status, answer.termination) == (Status.OPTIMAL, Termination.COMPLETED)
    assert answer.bound_proof is BoundProof.LAGRANGIAN  # nobody trains for more than the budget
    assert answer.objective == pytest.approx(80.0)
    assert answer.bound == pytest.approx(80.0)
    assert trials_of(answer.solution) == {1.0: (10, 5, 2), 2.0: (4, 2, 1), 4.0: (1, 0, 0)}


def test_the_published_plan_has_the_budget_as_bound(example: SeerInstance) -> None:
    """The gap is what the floors leave unused: 80/7 of 480/7."""
    answer = solve_published(example, SolveRequest())
    assert (answer.status, answer.bound, answer.bound_proof) == (Status.FEASIBLE, 80.0, BoundProof.LAGRANGIAN)
    assert answer.certificates[0].multipliers == {"budget": 1.0, "deadline": 0.0}
    assert answer.objective == pytest.approx(480 / 7)
    assert trials_of(answer.solution) == {1.0: (8, 4, 2), 2.0: (4, 2, 1)}


def test_a_cluster_leaves_room_for_fewer_trials(make_instance: MakeInstance) -> None:
    """On 12 GPUs: 12 * 30/7 GPU-minutes are divided, 3 B0, so there are brackets of 4 and of 4 trials, 12 GPUs in all.

    On 11 GPUs the second has 3, and 1 GPU is left for a trial more of 1 GPU: 11 in all. In units of t_1 the brackets
    take 5 + 4 + 4 and 2 (3 + 2): 23; the fifth trial is eliminated after the first round.
    """
    answer = solve_spend_exact(make_instance(most_gpus_held=12), SolveRequest())
    assert trials_of(answer.solution) == {1.0: (4, 2, 1), 2.0: (4, 2, 1)}
    answer = solve_spend_exact(make_instance(most_gpus_held=11), SolveRequest())
    assert trials_of(answer.solution) == {1.0: (5, 2, 1), 2.0: (3, 1, 0)}
    assert answer.objective == pytest.approx(23 * 10 / 7)
    assert (answer.status, answer.bound_proof) == (Status.OPTIMAL, BoundProof.TREE)


def test_the_last_round_breaks_ties(make_instance: MakeInstance) -> None:
    """T = 60, B = 960, p_max = 4: 48 units remain, which is one block of 16 trials on 1 GPU with one in the last round.

    The widest bracket could take four more trials and one to the last round as well, for 4 * (4 + 4 + 16) = 96 units.
    """
    instance = make_instance(deadline_min=60, budget="960gpu-min", eta=4, most_gpus=4)
    answer = solve_spend_exact(instance, SolveRequest())
    assert answer.objective == pytest.approx(960.0)
    assert trials_of(answer.solution) == {1.0: (48, 12, 3), 2.0: (16, 4, 1), 4.0: (12, 3, 0)}


@every_solver
def test_solvers_agree_on_what_cannot_be(make_instance: MakeInstance, solver: Callable[..., object]) -> None:
    """Too short a deadline has the same answer from each of them."""
    instance = make_instance(deadline_min=0.5)
    assert solver(instance, SolveRequest()) == solve_spend_exact(instance, SolveRequest())


@given(instance=instances())
def test_spend_is_between_the_published_one_and_the_budget(instance: SeerInstance) -> None:
    """Every check of the judge holds for both plans; the better one keeps all published trials."""
    published = solve_published(instance, SolveRequest())
    assume(published.status is not Status.INFEASIBLE)
    best = solve_spend_exact(instance, SolveRequest())
    assert published.solution is not None
    assert best.solution is not None
    for solution in (published.solution, best.solution):
        judged = evaluate(instance, solution)
        assert [check for check in judged.checks if not check.holds] == []
        assert judged.consumption["budget"] <= instance.budget_gpu_min * (1 + 1e-9)
    assert published.objective is not None
    assert best.objective is not None
    assert published.objective * (1 - 1e-12) <= best.objective <= instance.budget_gpu_min * (1 + 1e-9)
    # Where the lists would be too long, the budget is the bound if that closes the gap.
    met = best.bound == pytest.approx(best.objective, rel=1e-12)
    by_budget = best.bound == instance.budget_gpu_min and best.status is Status.OPTIMAL
    assert met or by_budget or best.termination is Termination.WORK_LIMIT


@given(instance=instances())
def test_the_exact_solver_against_looking_at_every_row(instance: SeerInstance) -> None:
    """The same plan, ties included."""
    assume(instance.brackets is not None)
    try:
        every = solve_enumeration(instance, SolveRequest())
    except UnsupportedError:
        assume(False)
    best = solve_spend_exact(instance, SolveRequest())
    assert best.solution == every.solution
    assert best.objective == every.objective


@given(
    deadline=st.integers(1, 20),
    budget=st.integers(1, 60),
    eta=st.integers(2, 4),
    least=st.integers(1, 3),
    most=st.none() | st.integers(3, 6),
)
def test_the_exact_solver_against_fractions(deadline: int, budget: int, eta: int, least: int, most: int | None) -> None:
    """Every number of trials from the published one on, in exact arithmetic, by all four rules."""
    fields: dict[str, object] = {"formulation": "seer", "deadline_min": deadline, "budget": f"{budget * least}gpu-min"}
    instance = SeerInstance.parse(fields | {"eta": eta, "least_gpus": least, "most_gpus": most, "resize_s": 0})
    assume(instance.brackets is not None)
    wanted = brute_force(instance)
    assume(wanted is not None)
    assert instance.brackets is not None
    assert wanted is not None
    names = [bracket.gpus for bracket in instance.brackets.brackets]
    expected = {gpus: trials for gpus, trials in zip(names, wanted, strict=True) if trials[0]}
    assert trials_of(solve_spend_exact(instance, SolveRequest()).solution) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"deadline_min": 60, "budget": "960gpu-min", "eta": 4, "most_gpus": 4},
        {"deadline_min": 60, "budget": "960gpu-min", "eta": 2.7, "nu": 1.5, "resize_s": 20},
        {"deadline_min": 60, "budget": "960gpu-min", "eta": 4, "resize_s": 30},
        {"deadline_min": 45.5, "budget": "300gpu-min", "eta": 2.5, "least_gpus": 1.7, "whole_gpus": False},
    ],
)
def test_cp_sat_finds_the_same_plan(make_instance: MakeInstance, fields: dict[str, object]) -> None:
    """By sums of whole numbers and a solve for each tie; also where amounts are rounded."""
    instance = make_instance(**fields)
    answer, best = solve_cp_sat(instance, SolveRequest(seed=1)), solve_spend_exact(instance, SolveRequest())
    assert answer.status is Status.OPTIMAL
    spends_all = answer.objective == pytest.approx(instance.budget_gpu_min, rel=1e-12)
    assert answer.bound_proof is (BoundProof.LAGRANGIAN if spends_all else BoundProof.ENGINE)
    assert answer.solution == best.solution
    assert answer.bound == pytest.approx(best.objective, rel=1e-9)
    assert answer.engine == "CP-SAT"


def test_out_of_time_there_is_a_plan_and_the_budget_as_bound(make_instance: MakeInstance) -> None:
    """The published plan with what the narrowest bracket adds; CP-SAT stays with the published one."""
    instance = make_instance(deadline_min=60, budget="961gpu-min", eta=4, nu=1.7)
    request = SolveRequest(stopwatch=Stopwatch(limit_s=1e-9))
    for solver in (solve_spend_exact, solve_cp_sat):
        answer = solver(instance, request)
        assert answer.termination is Termination.TIME_LIMIT
        assert answer.solution is not None
        assert all(check.holds for check in evaluate(instance, answer.solution).checks)
        assert answer.bound == 961.0


def test_too_many_pairs_end_the_search(make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been found by then keeps all rules, and the bound is the budget."""
    monkeypatch.setattr(spending, "MOST_PAIRS", 4)
    instance = make_instance(deadline_min=60, budget="9610gpu-min", eta=2.7, nu=1.7)
    answer = solve_spend_exact(instance, SolveRequest())
    assert answer.termination is Termination.WORK_LIMIT
    assert answer.bound == 9610.0
    assert answer.solution is not None
    assert all(check.holds for check in evaluate(instance, answer.solution).checks)


def test_rows_have_an_end(make_instance: MakeInstance) -> None:
    """A budget of far more trials than anyone runs: not all rows are listed, and no solver says they were."""
    instance = make_instance(deadline_min=1, budget="9e8gpu-min", nu=2)
    assert instance.brackets is not None
    problem = list_rows(instance, instance.brackets)
    assert not problem.complete
    assert max(each.size for each in problem.brackets) <= MOST_ROWS + 1
    assert solve_spend_exact(instance, SolveRequest()).termination is Termination.WORK_LIMIT
    with pytest.raises(UnsupportedError, match=r"^enumeration looks at 300,000 choices at most and this problem has "):
        solve_enumeration(instance, SolveRequest())


def test_a_bracket_may_be_added(make_instance: MakeInstance) -> None:
    """The bracket of 4 GPUs has no published trial in the example, and one where the budget is spent."""
    published, best = (
        solve(make_instance(), SolveRequest()).solution for solve in (solve_published, solve_spend_exact)
    )
    assert 4.0 not in trials_of(published)
    assert trials_of(best)[4.0] == (1, 0, 0)
    assert best is not None
    assert best.brackets[-1] == Bracket(gpus=4, trials=(1, 0, 0))


def test_what_the_user_should_know(make_instance: MakeInstance) -> None:
    """A search space that ends before the plan's trials do, and whole nodes that take more than the budget."""
    space = {"lr": {"form": "choices", "values": [0.1, 0.2, 0.3]}}
    instance = make_instance(search_space=space, gpus_per_node=8, budget_counts="held")
    for solver in (solve_spend_exact, solve_published):
        shortage, nodes = solver(instance, SolveRequest()).warnings
        assert shortage.startswith("search_space: has 3 configurations, fewer than the 1")
        assert nodes.startswith("gpus_per_node: whole nodes of 8 GPUs take ")
        assert nodes.endswith("more than the budget of 80, which counts the GPUs that trials hold")
    assert solve_spend_exact(make_instance(), SolveRequest()).warnings == ()
