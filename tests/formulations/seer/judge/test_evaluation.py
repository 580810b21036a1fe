"""The judge: figures by hand, every rule by a mutation that breaks it, and pauses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from optplan.formulations.seer.data.instance import Bracket, SeerInstance, SeerSolution
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.laws.rounds import list_rounds

MakeInstance = Callable[..., SeerInstance]


def broken(instance: SeerInstance, solution: SeerSolution) -> set[str]:
    """Return the families that a solution breaks."""
    return {check.family for check in evaluate(instance, solution).checks if not check.holds}


@pytest.fixture(scope="module")
def published() -> SeerSolution:
    """Return the plan of section 3.4."""
    brackets = (Bracket(gpus=1, trials=(8, 4, 2)), Bracket(gpus=2, trials=(4, 2, 1)))
    return SeerSolution(round_min=10 / 7, rounds=3, brackets=brackets)


def test_the_example_by_hand(example: SeerInstance, published: SeerSolution) -> None:
    """Each of three rounds takes 8 * 10/7 GPU-minutes in both brackets: 480/7 in all, in 10 minutes.

    The last round has 2 trials on 1 GPU and 1 on 2 GPUs for 40/7 minutes.
    """
    judged = evaluate(example, published)
    assert all(check.holds for check in judged.checks)
    assert judged.objective == pytest.approx(480 / 7)
    assert judged.consumption == {"budget": pytest.approx(480 / 7), "deadline": pytest.approx(10.0)}
    expected = {
        "spent_gpu_min": 480 / 7,
        "training_gpu_min": 480 / 7,
        "resize_gpu_min": 0.0,
        "unused_gpu_min": 80 / 7,
        "last_round_gpu_min": 160 / 7,
        "duration_min": 10.0,
        "training_min": 10.0,
        "trials": 12.0,
        "last_round_trials": 3.0,
        "most_gpus_held": 16.0,
    }
    assert judged.measures == pytest.approx(expected)


def test_pauses_and_prices(make_instance: MakeInstance) -> None:
    """A pause of 0.5 min before the second of two rounds of 3 and 6 min; 6 and 3 trials of 1 GPU, nodes of 4 GPUs.

    Training: 6 * 3 + 3 * 6 = 36 GPU-minutes, pausing 3 * 0.5 = 1.5; 2 nodes for 3 min and 1 for 6.5: 50 GPU-minutes.
    """
    instance = make_instance(
        deadline_min=9.5,
        budget="2usd",
        price_usd_per_gpu_hour=3.0,
        most_gpus=1,
        least_round_min=2,
        resize_s=30,
        gpus_per_node=4,
        budget_counts="held",
    )
    assert instance.brackets is not None
    assert (instance.brackets.rounds, instance.brackets.round_min) == (2, 3.0)
    assert instance.brackets.brackets[0].trials == (6, 3)
    solution = SeerSolution(round_min=3.0, rounds=2, brackets=(Bracket(gpus=1, trials=(6, 3)),))
    judged = evaluate(instance, solution)
    assert all(check.holds for check in judged.checks)
    assert judged.objective == pytest.approx(36.0)
    assert judged.consumption == {"budget": pytest.approx(37.5), "deadline": pytest.approx(9.5)}
    figures = {"spent_gpu_min": 37.5, "resize_gpu_min": 1.5, "training_min": 9.0, "duration_min": 9.5}
    figures |= {"cost_usd": 1.875, "node_gpu_min": 50.0, "node_cost_usd": 2.5, "most_nodes_held": 2.0}
    assert {name: judged.measures[name] for name in figures} == pytest.approx(figures)
    second = list_rounds(instance, solution)[1]
    assert (second.start_min, second.pause_min, second.training_min, second.stop_min) == (3.0, 0.5, 6.0, 9.5)


@pytest.mark.parametrize(
    ("changes", "families"),
    [
        ({"rounds": 2}, {"rounds"}),
        ({"brackets": [(1, (8, 4)), (2, (4, 2))]}, {"rounds"}),
        ({"round_min": 1.5}, {"round-length", "deadline"}),
        ({"round_min": 1.4}, {"round-length"}),
        ({"brackets": [(1, (8, 4, 2)), (3, (4, 2, 1))]}, {"gpus", "trials", "budget"}),
        ({"brackets": [(2, (4, 2, 1)), (1, (8, 4, 2))]}, {"gpus"}),
        ({"brackets": [(1, (8, 4, 2)), (1, (8, 4, 2)), (2, (4, 2, 1))]}, {"gpus", "budget"}),
        ({"brackets": [(1, (7, 3, 1)), (2, (4, 2, 1))]}, {"trials"}),
        ({"brackets": [(1, (8, 4, 1)), (2, (4, 2, 1))]}, {"trials", "halving"}),
        ({"brackets": [(1, (8, 4, 2))]}, {"trials"}),
        ({"brackets": []}, {"trials", "last-round"}),
        ({"brackets": [(1, (9, 5, 2)), (2, (4, 2, 1))]}, {"halving"}),
        ({"brackets": [(1, (8, 4, 3)), (2, (4, 2, 1))]}, {"halving"}),
        ({"brackets": [(1, (12, 6, 3)), (2, (4, 2, 1))]}, {"budget"}),
    ],
)
def test_every_rule_has_a_mutation_that_breaks_it(
    example: SeerInstance, published: SeerSolution, changes: dict[str, Any], families: set[str]
) -> None:
    """Nothing else is called broken; a shape that cannot be evaluated has no objective."""
    if "brackets" in changes:
        changes = {"brackets": tuple(Bracket(gpus=gpus, trials=trials) for gpus, trials in changes["brackets"])}
    mutated = published.replace(**changes)
    assert broken(example, mutated) == families
    assert math.isnan(evaluate(example, mutated).objective) == ("rounds" in families)


def test_an_infeasible_instance_has_no_plan(make_instance: MakeInstance) -> None:
    """Whatever is said to be a plan breaks the deadline that there is."""
    solution = SeerSolution(round_min=1.0, rounds=1, brackets=(Bracket(gpus=1, trials=(1,)),))
    assert broken(make_instance(deadline_min=0.5), solution) == {"deadline", "gpus"}


def test_trials_of_a_billion_are_told_from_one_more(make_instance: MakeInstance) -> None:
    """Half of 999,999,999 is 499,999,999, not 500,000,000."""
    two = make_instance(deadline_min=4, budget="1e9gpu-min", most_gpus=1)
    assert two.brackets is not None
    assert two.brackets.rounds == 2
    wrong = SeerSolution(
        round_min=two.brackets.round_min, rounds=2, brackets=(Bracket(gpus=1, trials=(999_999_999, 500_000_000)),)
    )
    assert "halving" in broken(two, wrong)


#: Trials end where the drawing says, at once.
PRIOR: dict[str, Any] = {
    "form": "parametric",
    "start_loss": 1.0,
    "terminal_low_loss": 0.0,
    "terminal_high_loss": 1.0,
    "rate_low_per_min": 1e4,
    "rate_high_per_min": 1e4,
    "scaling": {"gpus": [1, 2], "speedup": [1.0, 1.5]},
    "samples": 10,
}


def free(*brackets: tuple[float, tuple[int, ...]], round_min: float = 1.0, rounds: int = 2) -> SeerSolution:
    """Return a plan of any rounds and brackets."""
    parts = tuple(Bracket(gpus=gpus, trials=trials) for gpus, trials in brackets)
    return SeerSolution(round_min=round_min, rounds=rounds, brackets=parts)


def test_for_quality_rounds_and_brackets_are_free(make_instance: MakeInstance) -> None:
    """Other lengths, widths and fewer trials than published; what spending would not allow. The loss is sampled."""
    instance = make_instance(objective="quality", prior=PRIOR, most_gpus=4)
    solution = free((1.0, (7, 3)), (3.0, (2, 1)), round_min=1.5)
    assert broken(instance, solution) == set()
    judged = evaluate(instance, solution)
    assert 0.0 < judged.measures["low_loss"] < judged.objective < judged.measures["high_loss"] < 1.0
    assert judged.measures["training_gpu_min"] == pytest.approx(1.5 * 13 + 3 * 6)
    assert broken(instance.replace(objective="spend"), solution) >= {"rounds"}


@pytest.mark.parametrize(
    ("family", "solution"),
    [
        ("rounds", free((1.0, (512, 256, 128, 64, 32, 16, 8, 4, 2)), rounds=9)),
        ("rounds", free((1.0, (4, 2)), (2.0, (2,)))),
        ("round-length", free((1.0, (7, 3)), round_min=0.99)),
        ("gpus", free((2.0, (4, 2)), (1.0, (4, 2)))),
        ("gpus", free((5.0, (2, 1)))),
        ("gpus", free((1.5, (4, 2)))),
        ("halving", free((1.0, (7, 4)))),
        ("trials", free((1.0, (5001, 2500)))),
        ("last-round", free((1.0, (1, 0)))),
        ("deadline", free((1.0, (2, 1)), round_min=3.5)),
        ("budget", free((1.0, (42, 21)))),
    ],
)
def test_every_rule_for_quality_is_judged(make_instance: MakeInstance, family: str, solution: SeerSolution) -> None:
    """One mutation each; what breaks a rule is not sampled."""
    instance = make_instance(objective="quality", prior=PRIOR, most_gpus=4)
    assert family in broken(instance, solution)
    assert math.isnan(evaluate(instance, solution).objective)
