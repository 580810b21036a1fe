"""The policy: who trains on what, who goes on, ties, failures, short search spaces, and the same search for a seed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts import SolveRequest
from optplan.errors import DataWarning, UsageError
from optplan.formulations.seer.data.instance import Bracket, SeerInstance, SeerSolution
from optplan.formulations.seer.exact.spending import solve_spend_exact
from optplan.formulations.seer.published.policy import SeerPolicy, Stage, solve_published, start_policy

MakeInstance = Callable[..., SeerInstance]


def published(instance: SeerInstance) -> SeerSolution:
    """Return the published plan of a feasible instance."""
    assert instance.published is not None
    return instance.published


def by_gpus(stage: Stage[int] | None) -> dict[float, list[int]]:
    """Return the trials of a stage by their GPUs, the best first."""
    assert stage is not None
    groups: dict[float, list[int]] = {}
    for request in stage.requests:
        groups.setdefault(request.gpus, []).append(request.trial)
    return groups


def test_the_example_of_section_3_4(example: SeerInstance) -> None:
    """12 trials; each bracket keeps half of its own; the best two, then the best one, hold 2 GPUs.

    Trials 0 to 3 start on 2 GPUs, 4 to 11 on 1 GPU. By loss, 11 is the best and 0 the worst, so 2 and 3 are kept of the
    first group, 8 to 11 of the second: the best of all are 11 and 10.
    """
    policy = SeerPolicy(example, published(example), range(12))
    first = policy.next_stage()
    assert first is not None
    assert by_gpus(first) == {2.0: [0, 1, 2, 3], 1.0: [4, 5, 6, 7, 8, 9, 10, 11]}
    assert [request.minutes for request in first.requests] == pytest.approx([10 / 7] * 12)
    policy.report({trial: 1.0 - trial / 100 for trial in range(12)})
    second = policy.next_stage()
    assert by_gpus(second) == {2.0: [11, 10], 1.0: [9, 8, 3, 2]}
    assert second is not None
    assert second.number == 2
    assert [second.start_min, second.stop_min] == pytest.approx([10 / 7, 30 / 7])
    assert {request.trial: request.last_gpus for request in second.requests}[3] == 2.0
    # Now the order turns: 2 is the best of its group, and the last of the other one.
    policy.report({11: 0.5, 10: 0.6, 9: 0.4, 8: 0.3, 3: 0.2, 2: 0.1})
    assert by_gpus(policy.next_stage()) == {2.0: [2], 1.0: [3, 11]}
    with pytest.raises(UsageError, match=r"^round 3 of 3 has not been reported yet; the search goes on$"):
        _ = policy.best
    policy.report({2: 0.3, 3: 0.2, 11: 0.1})
    assert policy.finished
    assert policy.best == 11
    assert policy.next_stage() is None


def test_equal_losses_keep_the_order_of_drawing(example: SeerInstance) -> None:
    """Nothing is left to the order of a dictionary."""
    policy = SeerPolicy(example, published(example), range(12))
    policy.next_stage()
    policy.report(dict.fromkeys(reversed(range(12)), 0.5))
    assert by_gpus(policy.next_stage()) == {2.0: [0, 1], 1.0: [4, 5, 6, 7]}


@pytest.mark.parametrize("failure", [math.nan, math.inf, -math.inf, None, "missing"])
def test_failed_trials_are_the_worst(example: SeerInstance, failure: float | str | None) -> None:
    """A crash, not a number or no report at all: the first to be dropped."""
    policy = SeerPolicy(example, published(example), range(12))
    policy.next_stage()
    losses: dict[int, float | None] = dict.fromkeys(range(12), 1e9)
    if isinstance(failure, str):
        del losses[0], losses[4]
    else:
        losses[0] = losses[4] = failure
    policy.report(losses)
    assert by_gpus(policy.next_stage()) == {2.0: [1, 2], 1.0: [5, 6, 7, 8]}
    assert math.isnan(policy.losses[0])


def test_a_search_in_which_all_fail_ends(example: SeerInstance) -> None:
    """Somebody is returned, and has no loss."""
    policy = SeerPolicy(example, published(example), range(12))
    while policy.next_stage() is not None:
        policy.report({})
    assert policy.best == 0
    assert math.isnan(policy.losses[policy.best])


def test_a_short_search_space_leaves_the_narrowest_places_empty(example: SeerInstance) -> None:
    """Five configurations for twelve places: four on 2 GPUs and one on 1 GPU."""
    policy = SeerPolicy(example, published(example), list("abcde"))
    first = policy.next_stage()
    assert first is not None
    assert [(request.configuration, request.gpus) for request in first.requests] == [
        *(("a", 2.0), ("b", 2.0), ("c", 2.0), ("d", 2.0)),
        ("e", 1.0),
    ]
    policy.report({trial: float(trial) for trial in range(5)})
    second = policy.next_stage()
    assert second is not None
    assert [(request.trial, request.gpus) for request in second.requests] == [(0, 2.0), (1, 2.0), (4, 1.0)]


def test_rounds_pause_and_train(make_instance: MakeInstance) -> None:
    """Every round but the first begins with a pause, during which GPUs are held."""
    instance = make_instance(resize_s=30)
    policy = SeerPolicy(instance, published(instance), range(100))
    pauses = []
    stop = 0.0
    while (stage := policy.next_stage()) is not None:
        pauses.append(stage.requests[0].minutes - stage.requests[0].training_min)
        assert stage.start_min == stop
        stop = stage.stop_min
        policy.report({request.trial: 0.0 for request in stage.requests})
    assert pauses == pytest.approx([0.0] + [0.5] * (len(pauses) - 1))
    assert stop <= 10 * (1 + 1e-9)


def test_a_seed_makes_a_search(make_instance: MakeInstance) -> None:
    """The same configurations in the same places; the search space's end is told."""
    rate = {"form": "choices", "values": [0.1 * i for i in range(1, 9)]}
    momentum = {"form": "interval", "low": 0.9, "high": 0.99}
    instance = make_instance(search_space={"lr": rate, "momentum": momentum})
    solution = published(instance)
    first, again, other = (start_policy(instance, solution, seed=seed).configurations for seed in (5, 5, 6))
    assert len(first) == 12
    assert first == again
    assert first != other
    small = make_instance(search_space={"lr": rate})
    with pytest.warns(DataWarning, match=r"^search_space: has 8 configurations, fewer than the 12 trials of the plan"):
        assert len(start_policy(small, solution).configurations) == 8


def test_what_cannot_be_asked(example: SeerInstance) -> None:
    """Out of turn, unknown trials, nothing to try, no rounds."""
    policy = SeerPolicy(example, published(example), range(12))
    with pytest.raises(UsageError, match=r"^no round waits for losses; call next_stage\(\) first$"):
        policy.report({})
    with pytest.raises(UsageError, match=r"^round 1 of 3 has not been reported yet; the search goes on$"):
        _ = policy.best
    policy.next_stage()
    with pytest.raises(UsageError, match=r"^round 1 has not been reported; call report\(losses\) first$"):
        policy.next_stage()
    with pytest.raises(UsageError, match=r"^losses: trial 99 did not train in round 1$"):
        policy.report({99: 0.1})
    with pytest.raises(UsageError, match=r"^configurations: there is none; at least one is needed$"):
        SeerPolicy(example, published(example), [])
    wrong = SeerSolution(round_min=1.0, rounds=2, brackets=(Bracket(gpus=1, trials=(2,)),))
    with pytest.raises(UsageError, match=r"^solution: got brackets of \[1\] rounds; 2 are needed, with trials$"):
        SeerPolicy(example, wrong, range(2))


@given(
    deadline=st.floats(1, 60),
    budget=st.floats(1, 400),
    eta=st.floats(1.5, 5),
    seed=st.integers(0, 99),
    shortage=st.sampled_from([1.0, 0.5]),
)
def test_every_search_keeps_its_plan(deadline: float, budget: float, eta: float, seed: int, shortage: float) -> None:
    """With any losses, a round trains as many trials on as many GPUs as planned, each of them once, to the end."""
    fields = {"formulation": "seer", "deadline_min": deadline, "budget": f"{budget!r}gpu-min", "eta": eta}
    instance = SeerInstance.parse(fields)
    rng = np.random.default_rng(seed)
    for solver in (solve_published, solve_spend_exact):
        solution = solver(instance, SolveRequest()).solution
        assert solution is not None
        places = sum(bracket.trials[0] for bracket in solution.brackets)
        policy = SeerPolicy(instance, solution, range(max(1, int(places * shortage))))
        spent, rounds = 0.0, 0
        while (stage := policy.next_stage()) is not None:
            planned = {bracket.gpus: bracket.trials[rounds] for bracket in solution.brackets if bracket.trials[rounds]}
            groups = {gpus: len(trials) for gpus, trials in by_gpus(stage).items()}
            assert groups == planned or (shortage < 1 and all(groups[gpus] <= planned[gpus] for gpus in groups))
            assert len({request.trial for request in stage.requests}) == len(stage.requests) >= 1
            spent += sum(request.gpus * request.minutes for request in stage.requests)
            policy.report({request.trial: float(rng.random()) for request in stage.requests})
            rounds += 1
        assert rounds == solution.rounds
        assert spent <= budget * (1 + 1e-9)
        assert policy.losses[policy.best] == min(policy.losses[request] for request in policy.finalists)
