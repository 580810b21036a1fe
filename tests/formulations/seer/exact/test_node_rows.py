"""Budgets that count whole nodes: a search by hand, the exact solver against every choice, its limits."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from optplan.contracts import BoundProof, SolveRequest, Status, Termination
from optplan.errors import UsageError
from optplan.formulations.seer.data.instance import Bracket, SeerInstance, SeerSolution
from optplan.formulations.seer.exact import rows
from optplan.formulations.seer.exact.answers import describe
from optplan.formulations.seer.exact.spending import solve_spend_exact
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.models.statement import solve_cp_sat, solve_enumeration
from optplan.formulations.seer.published.policy import solve_published
from optplan.solving import solve
from optplan.verification import verify

MakeInstance = Callable[..., SeerInstance]

#: Two rounds of 1.5 and 3 minutes; on nodes of 4 GPUs they cost 6 and 12 GPU-minutes a node.
BY_HAND = {"deadline_min": 4.5, "budget": "36gpu-min", "nu": 1, "gpus_per_node": 4}


@st.composite
def node_instances(draw: st.DrawFn) -> SeerInstance:
    """Draw small instances whose budget counts whole nodes, evenly divided or not."""
    least = draw(st.sampled_from([1, 1, 2, 3]))
    fields = {
        "formulation": "seer",
        "deadline_min": draw(st.integers(1, 20) | st.floats(1, 20)),
        "budget": f"{least * draw(st.integers(1, 70) | st.floats(1, 70))!r}gpu-min",
        "eta": draw(st.sampled_from([2, 3, 4, 2.5, 1.7])),
        "nu": draw(st.sampled_from([1, 1.5, 2, 3])),
        "least_gpus": least,
        "resize_s": draw(st.sampled_from([0, 20, 47.3])),
        "gpus_per_node": draw(st.integers(1, 10)),
        "budget_counts": "nodes",
    }
    cluster = draw(st.none() | st.integers(1, 15))
    return SeerInstance.parse(fields if cluster is None else fields | {"most_gpus_held": cluster * least})


def list_searches(instance: SeerInstance) -> Iterator[SeerSolution]:
    """Yield every search whose GPUs alone keep the budget: no nodes are fewer."""
    published = instance.brackets
    assert published is not None
    powers = [instance.eta**k for k in range(published.rounds)]
    options = []
    for bracket in published.brackets:
        own, trials = [], bracket.trials
        most = instance.budget_gpu_min / (bracket.gpus * published.round_min) * (1 + 1e-9)
        while sum(map(operator.mul, trials, powers)) <= most:
            own.append((bracket.gpus, trials))
            size = min((n + 1) * power for n, power in zip(trials, powers, strict=True))
            trials = tuple(math.floor(size / power * (1 + 1e-12)) for power in powers)
        options.append(own)
    assume(math.prod(len(each) for each in options) < 1_000)
    for choice in itertools.product(*options):
        brackets = tuple(Bracket(gpus=gpus, trials=trials) for gpus, trials in choice if trials[0])
        yield SeerSolution(round_min=published.round_min, rounds=published.rounds, brackets=brackets)


def test_whole_nodes_by_hand(make_instance: MakeInstance) -> None:
    """Of GPUs held, 36 GPU-minutes pay 12 trials, and then 6: 12 * 1.5 + 6 * 3.

    On nodes of 4, 9 trials take 3 nodes, and 4 of them 1: 3 * 6 + 1 * 12 = 30. A tenth leaves 5, on 2 nodes: 42. So 9
    and 4 is all that can be trained: 9 * 1.5 + 4 * 3 = 25.5.
    """
    held = solve_spend_exact(make_instance(**BY_HAND, budget_counts="held"), SolveRequest())
    assert held.objective == pytest.approx(36.0)
    instance = make_instance(**BY_HAND)
    for solver in (solve_spend_exact, solve_published, solve_cp_sat, solve_enumeration):
        answer = solver(instance, SolveRequest())
        assert answer.solution is not None
        assert answer.solution.brackets == (Bracket(gpus=1, trials=(9, 4)),)
        assert answer.objective == pytest.approx(25.5)
        assert answer.warnings == ()  # that nodes take more than the budget
    assert answer.solution is not None
    judged = evaluate(instance, answer.solution)
    assert judged.consumption["budget"] == pytest.approx(30.0)
    assert judged.measures["unused_gpu_min"] == pytest.approx(6.0)
    assert judged.measures["node_gpu_min"] == pytest.approx(30.0)


def test_trials_of_two_brackets_share_nodes(make_instance: MakeInstance) -> None:
    """A round of 1 minute, 8 GPU-minutes, nodes of 4: 3 trials of 1 GPU, 2 of 2 and one of 1 fill two nodes."""
    instance = make_instance(deadline_min=1, budget="8gpu-min", gpus_per_node=4, budget_counts="nodes", most_gpus=2)
    answer = solve_spend_exact(instance, SolveRequest())
    assert answer.solution is not None
    assert sum(each.gpus * each.trials[0] for each in answer.solution.brackets) == 8
    assert answer.objective == pytest.approx(8.0)
    assert answer.bound_proof is BoundProof.LAGRANGIAN


@given(instance=node_instances())
def test_it_agrees_with_every_choice(instance: SeerInstance) -> None:
    """No search that keeps the rules trains for longer; all engines say the same, and the proof stands alone."""
    result = solve(instance, solver="spend-exact")
    verification = verify(instance, result)
    assert verification.ok
    assert verification.on_trust == ()
    assert (result.status is Status.INFEASIBLE) == (instance.brackets is None)
    assume(instance.brackets is not None)
    judged = [evaluate(instance, solution) for solution in list_searches(instance)]
    best = max(each.objective for each in judged if all(check.holds for check in each.checks))
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(best, rel=1e-9)
    answer = solve_enumeration(instance, SolveRequest())
    assert answer.objective == pytest.approx(best, rel=1e-9)
    assert answer.solution == result.solution
    if not describe(instance).features:
        assert solve_cp_sat(instance, SolveRequest()).objective == pytest.approx(best, rel=1e-9)
    assert verify(instance, solve(instance, solver="published-seer")).ok


def test_one_trial_needs_a_whole_node(make_instance: MakeInstance) -> None:
    """A minute on one GPU is a minute of a node of 8: 7 GPU-minutes are not enough, and 8 are, for 8 trials even."""
    fields = {"gpus_per_node": 8, "budget_counts": "nodes"}
    instance = make_instance(**fields, budget="7gpu-min")
    result = solve(instance)
    assert result.infeasibility is not None
    assert "(1 min on 8 GPUs of whole nodes) needs a budget of at least 8" in result.infeasibility.reason
    assert verify(instance, result).ok
    assert solve(make_instance(**fields, budget="8gpu-min")).objective == pytest.approx(8.0)


def test_uneven_sizes_are_not_for_cp_sat(make_instance: MakeInstance) -> None:
    """Nodes of 3 do not divide into trials of 2: how they pack is more than a sum."""
    instance = make_instance(gpus_per_node=3, budget_counts="nodes")
    with pytest.raises(UsageError, match="solver 'cp-sat' cannot handle uneven-nodes"):
        solve(instance, solver="cp-sat")
    assert solve(instance).status is Status.OPTIMAL


@pytest.mark.parametrize(("limit", "bound"), [("MOST_CHOICES", 80.0), ("MOST_COUNTED", 72.857142857)])
def test_what_was_not_looked_at_bounds(
    make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch, limit: str, bound: float
) -> None:
    """Where choices are left out the budget is the bound, and where nodes are not counted, what trains longest."""
    monkeypatch.setattr(rows, limit, 0)
    answer = solve_spend_exact(make_instance(gpus_per_node=4, budget_counts="nodes"), SolveRequest())
    assert answer.termination is Termination.WORK_LIMIT
    assert answer.status is Status.FEASIBLE
    assert answer.bound == pytest.approx(bound)
