"""What a solution makes happen in each stage, and which instances come and go when."""

from __future__ import annotations

from typing import Any

import pytest

from optplan.errors import DataError
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.laws.lifetimes import Cohort, StageRun, group_held, list_runs


def build(*stages: tuple[int, int], gpus_per_instance: int = 4, **training: Any) -> RubberBandInstance:  # noqa: ANN401
    """Return a search of (trials, iterations) whose iterations take 8, 5 and 4 s on 1, 2 and 4 GPUs."""
    listed = [{"trials": trials, "iterations": iterations} for trials, iterations in stages]
    fields = {
        "formulation": "rubberband",
        "experiment": {"form": "stages", "stages": listed},
        "training": {"seconds_per_iteration": {1: 8.0, 2: 5.0, 4: 4.0}, "most_gpus": 4} | training,
        "cloud": {"gpus_per_instance": gpus_per_instance, "price_usd_per_hour": 36.0},
    }
    return RubberBandInstance.parse(fields)


def allocate(*stages: tuple[int, int]) -> RubberBandSolution:
    """Return a solution of one bracket from (instances, GPUs)."""
    return RubberBandSolution.parse({"brackets": [[{"instances": m, "gpus": a} for m, a in stages]]})


def shape(run: StageRun) -> tuple[int, int, int]:
    """Return GPUs of a trial, trials at a time and the longest chain."""
    return run.gpus_per_trial, run.slots, run.waves


def test_trials_share_gpus_or_wait() -> None:
    """More GPUs than trials are shared out; with fewer, a trial gets the least it needs and the others wait."""
    instance = build((6, 10), (6, 10), (3, 20), (1, 40))
    runs = list_runs(instance, allocate((1, 4), (2, 6), (3, 12), (1, 2)))
    assert [shape(run) for run in runs] == [(1, 4, 2), (1, 6, 1), (4, 3, 1), (2, 1, 1)]
    assert [(run.held, run.added) for run in runs] == [(1, 1), (2, 1), (3, 1), (1, 0)]
    assert [run.seconds_per_iteration for run in runs] == [8.0, 8.0, 4.0, 5.0]


def test_least_of_a_trial_counts() -> None:
    """Where a trial needs 2 GPUs, 4 GPUs run two of seven trials at a time, in chains of up to four."""
    run = list_runs(build((7, 10), least_gpus=2), allocate((2, 4)))[0]
    assert shape(run) == (2, 2, 4)


def test_a_trial_may_span_instances() -> None:
    """4 GPUs of 2-GPU instances are on two of them, which may cost speed."""
    factors = {"instances": [1, 2], "factor": [1.0, 1.5]}
    instance = build((2, 10), gpus_per_instance=2, factor_by_instances=factors)
    run = list_runs(instance, allocate((4, 8)))[0]
    assert (run.nodes_per_trial, run.seconds_per_iteration) == (2, 6.0)


def test_the_oldest_instances_go_first() -> None:
    """Held 2, 5, 3, 4: of the first two both go after stage 1, and later ones in the order in which they came."""
    instance = build((5, 1), (5, 1), (3, 1), (3, 1), gpus_per_instance=1)
    runs = list_runs(instance, allocate((2, 2), (5, 5), (3, 3), (4, 3)))
    # Added: 2 before stage 0, 3 before stage 1, 1 before stage 3. Released: 2 after stage 1, 4 after stage 3.
    assert group_held([run.held for run in runs]) == (Cohort(2, 0, 1), Cohort(3, 1, 3), Cohort(1, 3, 3))


def test_a_cohort_may_go_in_parts() -> None:
    """Four instances of one age, released one, two and one at a time."""
    runs = list_runs(build((4, 1), (3, 1), (1, 1), gpus_per_instance=1), allocate((4, 4), (3, 3), (1, 1)))
    assert group_held([run.held for run in runs]) == (Cohort(1, 0, 0), Cohort(2, 0, 1), Cohort(1, 0, 2))


@pytest.mark.parametrize(
    ("solution", "bracket", "message"),
    [
        ([[(1, 4)] * 2] * 2, 0, "brackets: got 2 chains of stages; the experiment has 1; give one for each cluster"),
        ([[(1, 4)] * 2], 1, "bracket: got 1; numbers from 0 to 0 are allowed"),
        ([[(1, 4)]], 0, r"brackets\.0: got 1 stages; the experiment has 2; give an allocation for each stage"),
        ([[(1, 1), (1, 2)]], 0, r"brackets\.0\.0\.gpus: got 1; a trial needs at least 2 GPUs"),
        (
            [[(2, 6), (2, 8)]],
            0,
            r"brackets\.0\.1\.gpus: got 8; .*8 GPUs",
        ),
        ([[(1, 8), (1, 2)]], 0, r"brackets\.0\.0\.instances: got 1; 8 GPUs for 4 trials are on 2 instances; hold"),
    ],
)
def test_solutions_that_do_not_fit(solution: list[list[tuple[int, int]]], bracket: int, message: str) -> None:
    """A solution of another search, or one that cannot be executed, is refused with the place and the remedy."""
    chains = [[{"instances": m, "gpus": a} for m, a in chain] for chain in solution]
    instance = build((4, 10), (1, 10), least_gpus=2)
    with pytest.raises(DataError, match=message):
        list_runs(instance, RubberBandSolution.parse({"brackets": chains}), bracket)
