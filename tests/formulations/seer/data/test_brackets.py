"""Rounds and brackets as published: the paper's figures, the closed form against bisection, and Fact 1."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from optplan.errors import DataError
from optplan.formulations.seer.data.brackets import (
    ROUNDING,
    SearchBrackets,
    SearchParameters,
    find_ratio,
    floor_loosely,
    minutes_per_trial,
    size_brackets,
)
from optplan.formulations.seer.laws.rounds import count_nodes


def sized(parameters: SearchParameters) -> SearchBrackets:
    """Return the brackets of a feasible instance."""
    found = size_brackets(parameters)
    assert found is not None
    return found


def amounts(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers, whole ones among them: jumps and ties lie there."""
    return st.integers(math.ceil(low), int(high)).map(float) | st.floats(low, high)


@st.composite
def parameters(draw: st.DrawFn) -> SearchParameters:
    """Draw from the whole parameter range; deadline and budget in shortest rounds, so that equality is met."""
    shortest = draw(st.sampled_from([1.0, 0.1, 0.37, 2.0]))
    whole = draw(st.booleans())
    least = draw(st.sampled_from([1.0, 2.0, 3.0] if whole else [1.0, 0.5, 1.7]))
    factor = draw(st.none() | st.sampled_from([1.0, 2.0, 3.0, 8.0]))
    return SearchParameters(
        deadline_min=shortest * draw(amounts(1, 300)),
        budget_gpu_min=shortest * least * draw(amounts(1, 3000)),
        eta=draw(st.sampled_from([2.0, 3.0, 4.0]) | st.floats(1.2, 6.0)),
        nu=draw(st.sampled_from([1.0, 2.0, 3.0]) | st.floats(1.05, 4.0)),
        least_gpus=least,
        most_gpus=None if factor is None else factor * least,
        least_round_min=shortest,
        resize_min=shortest * draw(st.sampled_from([0.0, 0.0, 0.2, 1.5])),
        whole_gpus=whole,
        most_gpus_held=draw(st.none() | st.integers(1, 400).map(lambda trials: trials * least)),
    )


def as_published() -> st.SearchStrategy[SearchParameters]:
    """Draw parameters that the paper has: without a limit of the cluster."""
    return parameters().map(lambda drawn: replace(drawn, most_gpus_held=None))


def test_the_example_of_section_3_4() -> None:
    """T = 10, B = 80, eta = nu = 2, with the corrected bracket budgets.

    R (1 + 1/2 + 1/4) = 10 gives R = 40/7 in (4, 8], so K = 3 and t_1 = R/4 = 10/7; B0 = 3 R = 120/7. From q nu^(q-1)
    <= 80 * 7 / 120 = 4.67 follows q = 2, so two brackets of 2 B0 = 240/7, and 80 - 480/7 = 80/7 for the third.
    """
    found = sized(SearchParameters(10.0, 80.0, eta=2.0, nu=2.0))
    assert found.ratio == pytest.approx(40 / 7, rel=1e-14)
    assert (found.rounds, found.levels, found.capped_levels) == (3, 2, None)
    assert found.round_min == pytest.approx(10 / 7, rel=1e-14)
    assert found.bracket_gpu_min == pytest.approx(120 / 7, rel=1e-14)
    assert [bracket.gpus for bracket in found.brackets] == [1.0, 2.0, 4.0]
    assert [bracket.budget_gpu_min for bracket in found.brackets] == pytest.approx([240 / 7, 240 / 7, 80 / 7])
    assert [bracket.trials for bracket in found.brackets] == [(8, 4, 2), (4, 2, 1), (0, 0, 0)]


def test_the_13_trials_of_section_6_5() -> None:
    """T = 30, B = 240, eta = 4, nu = 2, p_max = 4, t_min = 2: R (1 + 1/4) = 15, K = 2, t_1 = 2 * 12 / 4 = 6."""
    found = sized(SearchParameters(30.0, 240.0, most_gpus=4.0, least_round_min=2.0))
    assert (found.ratio, found.rounds, found.round_min) == (12.0, 2, 6.0)
    assert [bracket.gpus for bracket in found.brackets] == [1.0, 2.0, 4.0]
    assert [bracket.trials for bracket in found.brackets] == [(8, 2), (4, 1), (1, 0)]
    minutes = (6.0, 24.0)
    spent = sum(b.gpus * n * t for b in found.brackets for n, t in zip(b.trials, minutes, strict=True))
    assert spent == pytest.approx(216.0)


def test_most_gpus_cuts_brackets_off() -> None:
    """T = 10, B = 1000, eta = 2, p_max = 3: P = [1, 2, 3] and a third of the budget each; q' = 1."""
    found = sized(SearchParameters(10.0, 1000.0, eta=2.0, most_gpus=3.0))
    assert [bracket.gpus for bracket in found.brackets] == [1.0, 2.0, 3.0]
    assert [bracket.budget_gpu_min for bracket in found.brackets] == pytest.approx([1000 / 3] * 3)
    assert found.capped_levels == 1
    # 1000/3 over K t_1 P = 30/7 P: 77.8, 38.9 and 25.9
    assert [bracket.trials[0] for bracket in found.brackets] == [77, 38, 25]


@pytest.mark.parametrize("nu", [1.0, 2.0])
def test_one_bracket_has_the_whole_budget(nu: float) -> None:
    """With p_max = p_min, and with nu = 1, there is one bracket; 80 over 30/7 is 18.67 trials."""
    capped = SearchParameters(10.0, 80.0, eta=2.0, nu=nu, most_gpus=1.0 if nu > 1 else None)
    (only,) = sized(capped).brackets
    assert (only.gpus, only.budget_gpu_min, only.trials) == (1.0, 80.0, (18, 9, 4))


@pytest.mark.parametrize(
    ("gpus", "rounds", "round_min", "trials"),
    [
        (10.0, 3, 10 / 7, [(4, 2, 1), (3, 1, 0)]),
        (4.0, 3, 10 / 7, [(4, 2, 1), (0, 0, 0)]),
        (3.0, 2, 10 / 3, [(2, 1), (0, 0)]),
        (1.0, 1, 10.0, [(1,), (0,)]),
    ],
)
def test_a_small_cluster_has_fewer_rounds_and_longer_ones(
    gpus: float, rounds: int, round_min: float, trials: list[tuple[int, ...]]
) -> None:
    """Three rounds are for 4 trials at least, two for 2; with fewer rounds the deadline of 10 min leaves each longer.

    On 10 GPUs a trial takes 30/7 min of each, so 300/7 GPU-minutes are divided: B0 = 120/7, and 180/7 for the second
    bracket, whose size is 180/7 over 60/7: 3. Together they hold 4 + 6 GPUs.
    """
    found = sized(SearchParameters(10.0, 80.0, eta=2.0, nu=2.0, most_gpus_held=gpus))
    assert found.rounds == rounds
    assert found.round_min == pytest.approx(round_min)
    assert [bracket.trials for bracket in found.brackets] == trials


@given(given=parameters())
def test_a_cluster_is_never_exceeded_and_a_large_one_changes_nothing(given: SearchParameters) -> None:
    """Published trials fit on the cluster; one that has room for what is published without it has the same brackets."""
    found, free = size_brackets(given), size_brackets(replace(given, most_gpus_held=None))
    if found is None or free is None:
        assert found is free
        return
    held = sum(bracket.gpus * bracket.trials[0] for bracket in found.brackets)
    assert held <= (given.most_gpus_held or math.inf) * (1 + 1e-9)
    size = free.bracket_gpu_min / free.round_min
    large = given.least_gpus * given.eta**free.rounds + max(given.budget_gpu_min, size) / free.round_min
    assert size_brackets(replace(given, most_gpus_held=large)) == free


def test_whole_nodes_leave_a_bracket_fewer_trials() -> None:
    """Ten minutes, 80 GPU-minutes, nodes of 4: rounds of 10/7, 20/7 and 40/7 min for 4, 2 and 1 trial, a node each.

    So B0 = 4 (10 + 20 + 40) / 7 = 40, and 2 * 2 * 40 is over the budget: one bracket of 40, and one of 2 GPUs with the
    rest. 40 GPU-minutes would be 9 1/3 trials of 30/7 min, but a fifth one needs a second node in the first round.
    The second bracket has a size of 4 2/3; a fourth trial would make that two nodes, one and one: 320/7.
    """
    found = sized(SearchParameters(10.0, 80.0, eta=2.0, nu=2.0, gpus_per_node=4))
    assert found.rounds == 3
    assert found.bracket_gpu_min == pytest.approx(40.0)
    assert [bracket.budget_gpu_min for bracket in found.brackets] == pytest.approx([40.0, 40.0])
    assert [bracket.trials for bracket in found.brackets] == [(4, 2, 1), (3, 1, 0)]


@given(given=parameters(), per_node=st.integers(1, 9))
def test_published_trials_keep_a_budget_of_whole_nodes(given: SearchParameters, per_node: int) -> None:
    """Each bracket is on nodes of its own, and all of them on the cluster; somebody is trained to the end."""
    assume(given.whole_gpus)
    found = size_brackets(replace(given, gpus_per_node=per_node))
    assume(found is not None)
    assert found is not None
    minutes = [found.round_min * given.eta**k + (given.resize_min if k else 0.0) for k in range(found.rounds)]
    spent = sum(
        per_node * count_nodes(per_node, ((bracket.gpus, trials),)) * length
        for bracket in found.brackets
        for trials, length in zip(bracket.trials, minutes, strict=True)
    )
    assert spent <= given.budget_gpu_min * (1 + 1e-9)
    held = sum(bracket.gpus * bracket.trials[0] for bracket in found.brackets)
    assert held <= (given.most_gpus_held or math.inf) * (1 + 1e-9)
    assert found.brackets[0].trials[-1] >= 1


def test_whole_gpus_are_rounded_before_trials_are_counted() -> None:
    """With nu = 1.5, P is 1, 1.5, 2.25, 3.375: whole GPUs 1 (two brackets merged), 2 and 3, within the budget."""
    exact = sized(SearchParameters(10.0, 300.0, eta=2.0, nu=1.5, whole_gpus=False))
    whole = sized(SearchParameters(10.0, 300.0, eta=2.0, nu=1.5))
    count = exact.levels + 1
    assert [bracket.gpus for bracket in exact.brackets] == pytest.approx([1.5**i for i in range(count)])
    assert [bracket.gpus for bracket in whole.brackets] == sorted({float(int(1.5**i)) for i in range(count)})
    assert whole.brackets[0].budget_gpu_min == pytest.approx(2 * exact.brackets[0].budget_gpu_min)
    for bracket in whole.brackets:
        trial_min = minutes_per_trial(SearchParameters(10.0, 300.0), whole.rounds, whole.round_min)
        assert bracket.trials[0] == floor_loosely(bracket.budget_gpu_min / trial_min / bracket.gpus)


def test_an_eta_that_is_not_whole_has_trials_in_the_last_round() -> None:
    """T = 9.25, B = 27, eta = 2.5: R (1 + 0.4 + 0.16) = 9.25 is R = 5.93 in (2.5, 6.25]: K = 2.

    By K = 2, R <= 9.25/1.4 = 6.607 is cut at 6.25; by K = 3 it would have to exceed it. t_1 = 2.5, B0 = 12.5, and the
    first bracket of 25 has x = 25 / 5 = 5 trials, and floor(5 / 2.5) = 2 in the last round.
    """
    found = sized(SearchParameters(9.25, 27.0, eta=2.5, nu=2.0, most_gpus=1.0))
    assert (found.ratio, found.rounds, found.round_min) == (6.25, 2, 2.5)
    assert found.brackets[0].trials == (5, 2)


def test_nested_floors_would_leave_the_last_round_empty() -> None:
    """R just above eta^2 = 6.25: x = 6.25 trials are 6, 2 and 1; floors of floors would be 6, 2, 0."""
    found = sized(SearchParameters(1000.0, 3 * 6.2500001, eta=2.5, nu=2.0))
    assert found.rounds == 3
    assert found.brackets[0].trials == (6, 2, 1)


@pytest.mark.parametrize(
    ("deadline", "budget", "expected"),
    [(1.0, 9.0, (1.0, 1)), (9.0, 1.0, (1.0, 1)), (1.0, 1.0, (1.0, 1)), (0.999, 9.0, None), (9.0, 0.999, None)],
)
def test_the_least_that_is_feasible(deadline: float, budget: float, expected: tuple[float, int] | None) -> None:
    """T = t_min and B = p_min t_min are one round of one trial; anything less is infeasible."""
    parameters = SearchParameters(deadline, budget, eta=2.0)
    assert find_ratio(parameters) == expected
    assert (size_brackets(parameters) is None) == (expected is None)


@pytest.mark.parametrize("shortest", [0.1, 0.7, 1 / 3, 1e-9, 1e9])
def test_rounding_loses_no_trial_and_no_round(shortest: float) -> None:
    """In units of any shortest round, 21 of them are 1 + 4 + 16 (K = 3), and 3 * 16 pay a bracket of 16 trials."""
    found = sized(SearchParameters(21 * shortest, 48 * shortest, least_round_min=shortest))
    # R = 16 is the end of K = 2; from there on only K = 3 could be, and 21 is where it begins.
    assert found.ratio == pytest.approx(16.0, rel=1e-12)
    assert found.rounds == 2
    # B0 = 2 * 16 leaves 16 of 48 for a second bracket; a trial costs 2 * 4 minutes.
    assert [bracket.trials for bracket in found.brackets] == [(4, 1), (1, 0)]
    more = sized(SearchParameters(42 * shortest, 96 * shortest, least_round_min=shortest))
    assert more.rounds == 3
    assert more.brackets[0].trials == (16, 4, 1)


def test_pauses_take_time_and_budget() -> None:
    """With eta = 2, w = 1, T = 11 and K = 2: R * 1.5 + 1 <= 11 is R <= 6.67, cut at 4, so t_1 = 2.

    K = 3 needs R * 1.75 + 2 <= 11, so R <= 5.14 in (4, 8]: t_1 = 1.2857. A trial costs 3 t_1 + (1/2 + 1/4) minutes.
    """
    given_pauses = SearchParameters(11.0, 1000.0, eta=2.0, most_gpus=1.0, resize_min=1.0)
    found = sized(given_pauses)
    assert found.rounds == 3
    assert found.round_min == pytest.approx(9 / 7)
    assert minutes_per_trial(given_pauses, 3, found.round_min) == pytest.approx(27 / 7 + 0.75)
    assert found.brackets[0].trials[0] == 217  # 1000 / 4.607


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            SearchParameters(1e5, 1e9, eta=1.0000001),
            r"^eta: got 1.0000001, with which .* allow more than 10,000 rounds; a number further above 1",
        ),
        (
            SearchParameters(10.0, 1e9, nu=1.0000001),
            r"^nu: got 1.0000001, with which the budget makes more than 10,000 brackets; 1, or a number",
        ),
    ],
)
def test_no_end_of_rounds_or_brackets_is_refused(parameters: SearchParameters, message: str) -> None:
    """An eta or a nu that is all but 1 has no sensible meaning."""
    with pytest.raises(DataError, match=message):
        size_brackets(parameters)


def keeps_both(parameters: SearchParameters, ratio: float) -> bool:
    """Whether R keeps the paper's two conditions, as printed but for pauses and the first round."""
    eta, pause = parameters.eta, parameters.resize_min
    rounds = max(1, math.ceil(math.log(ratio * (1.0 - ROUNDING)) / math.log(eta)))
    minutes = ratio * eta / (eta - 1.0) * -math.expm1(-rounds * math.log(eta)) * parameters.least_round_min
    minutes += (rounds - 1) * pause
    pauses = pause * math.expm1((rounds - 1) * math.log(eta)) / (eta - 1.0) if pause else 0.0
    gpu_min = parameters.least_gpus * (ratio * rounds * parameters.least_round_min + pauses)
    slack = 1.0 + ROUNDING
    return minutes <= parameters.deadline_min * slack and gpu_min <= parameters.budget_gpu_min * slack


def bisect_ratio(parameters: SearchParameters, high: float) -> float:
    """Find R* as the paper does, by bisection between 1 and what is too high."""
    low = 1.0
    for _ in range(120):  # to the last bit
        middle = math.sqrt(low * high)
        low, high = (middle, high) if keeps_both(parameters, middle) else (low, middle)
    return low


@given(given_parameters=as_published())
@example(given_parameters=SearchParameters(21.0, 48.0))
@example(given_parameters=SearchParameters(7.0, 100.0, eta=2.0))
def test_the_closed_form_is_what_bisection_finds(given_parameters: SearchParameters) -> None:
    """To a relative 1e-9, jumps at powers of eta included."""
    closed = find_ratio(given_parameters)
    assert closed is not None
    bisected = bisect_ratio(given_parameters, 2.0 * closed[0])
    assert closed[0] == pytest.approx(bisected, rel=1e-9)
    assert given_parameters.eta ** (closed[1] - 1) <= closed[0] <= given_parameters.eta ** closed[1]


@given(given_parameters=parameters())
def test_fact_1(given_parameters: SearchParameters) -> None:
    """Time is at most T and GPU-minutes are at most B, pauses included; a trial reaches the last round of K."""
    found = sized(given_parameters)
    eta, pause = given_parameters.eta, given_parameters.resize_min
    training = [found.round_min * eta**k for k in range(found.rounds)]
    minutes = [training[0], *(pause + each for each in training[1:])]
    spent = sum(b.gpus * n * t for b in found.brackets for n, t in zip(b.trials, minutes, strict=True))
    assert sum(minutes) <= given_parameters.deadline_min * (1 + 1e-9)
    assert spent <= given_parameters.budget_gpu_min * (1 + 1e-9)
    assert found.round_min >= given_parameters.least_round_min * (1 - 1e-9)
    assert found.brackets[0].trials[-1] >= 1
    assert all(later <= earlier for b in found.brackets for earlier, later in pairwise(b.trials))


@given(given_parameters=as_published())
def test_brackets_keep_to_their_gpus(given_parameters: SearchParameters) -> None:
    """From p_min to at most p_max, increasing, whole where they should be; their budgets add up to the whole one."""
    found = sized(given_parameters)
    gpus = [bracket.gpus for bracket in found.brackets]
    assert gpus[0] == given_parameters.least_gpus
    assert gpus == sorted(set(gpus))
    assert gpus[-1] <= (given_parameters.most_gpus or math.inf)
    assert not given_parameters.whole_gpus or all(each == round(each) for each in gpus)
    assert sum(b.budget_gpu_min for b in found.brackets) == pytest.approx(given_parameters.budget_gpu_min)


@given(given_parameters=parameters())
def test_whole_etas_halve_by_nested_floors(given_parameters: SearchParameters) -> None:
    """For whole eta one floor per round is the paper's floor of a floor."""
    eta = max(2, round(given_parameters.eta))
    found = sized(replace(given_parameters, eta=float(eta)))
    for bracket in found.brackets:
        assert bracket.trials == tuple(bracket.trials[0] // eta**k for k in range(found.rounds))
