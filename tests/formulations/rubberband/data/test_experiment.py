from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import DataError
from optplan.formulations.rubberband.data.experiment import (
    Experiment,
    HyperbandExperiment,
    ShaExperiment,
    Stage,
    StagesExperiment,
    brackets,
)
from optplan.instances.files import read_instance

CASES = Path(__file__).parents[3] / "cases"


def _pairs(experiment: Experiment) -> list[list[tuple[int, int]]]:
    return [[(stage.trials, stage.iterations) for stage in chain] for chain in brackets(experiment)]


def test_sha_of_table_3() -> None:
    """SHA(32, 1, 50, 3) is the schedule of the paper's Table 3: epochs 0-1, 1-4, 4-13 and 13-50."""
    experiment = ShaExperiment(trials=32, least_iterations=1, most_iterations=50, eta=3)
    assert _pairs(experiment) == [[(32, 1), (10, 3), (3, 9), (1, 37)]]


def test_sha_of_the_simulated_experiments() -> None:
    """SHA(64, 4, 508, 2) uses up its iterations exactly: 4 * (2**7 - 1) = 508."""
    expected = [(64, 4), (32, 8), (16, 16), (8, 32), (4, 64), (2, 128), (1, 256)]
    assert _pairs(ShaExperiment(trials=64, least_iterations=4, most_iterations=508)) == [expected]


def test_sha_ends_when_the_iterations_are_done() -> None:
    """SHA(64, 4, 20, 2): 4, then 8, then the 8 that are left of 20, with 16 trials still there."""
    assert _pairs(ShaExperiment(trials=64, least_iterations=4, most_iterations=20)) == [[(64, 4), (32, 8), (16, 8)]]


def test_hyperband_of_its_paper() -> None:
    """R = 81, eta = 3, Table 1: r_i = 1, 3, 9, 27, 81 are cumulative, so stages add 1, 2, 6, 18, 54."""
    expected = [
        [(81, 1), (27, 2), (9, 6), (3, 18), (1, 54)],
        [(27, 3), (9, 6), (3, 18), (1, 54)],
        [(9, 9), (3, 18), (1, 54)],
        [(6, 27), (2, 54)],
        [(5, 81)],
    ]
    assert _pairs(HyperbandExperiment(most_iterations=81, order="side-by-side")) == expected
    in_sequence = _pairs(HyperbandExperiment(most_iterations=81))
    assert in_sequence == [[stage for chain in expected for stage in chain]]


def test_hyperband_as_its_algorithm_prints_it() -> None:
    """Algorithm 1: ceil((s_max + 1) / (s + 1) * 3**s) trials: ceil(5/4 * 27) = 34, ceil(5/3 * 9) = 15, and so on."""
    chains = _pairs(HyperbandExperiment(most_iterations=81, order="side-by-side", trials="algorithm"))
    assert [chain[0][0] for chain in chains] == [81, 34, 15, 8, 5]
    assert chains[1] == [(34, 3), (11, 6), (3, 18), (1, 54)]


@given(
    trials=st.integers(1, 3000),
    least=st.integers(1, 20),
    more=st.integers(0, 5000),
    eta=st.sampled_from([1.05, 1.5, 2.0, 2.5, 3.0, 4.0]),
)
def test_searches_drop_trials_and_add_up(trials: int, least: int, more: int, eta: float) -> None:
    """Whatever the parameters, trials never grow, every stage works, and the last trial has done R in all."""
    sha = ShaExperiment(trials=trials, least_iterations=least, most_iterations=least + more, eta=eta)
    hyperband = HyperbandExperiment(
        most_iterations=least + more, least_iterations=least, eta=max(eta, 1.5), order="side-by-side"
    )
    for chain in (*brackets(sha), *brackets(hyperband)):
        assert sum(stage.iterations for stage in chain) == least + more
        assert all(after.trials <= before.trials for before, after in pairwise(chain))
    assert brackets(sha)[0][0].trials == trials


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"form": "stages", "stages": []}, "stages: is empty; give at least one stage"),
        (
            {"form": "stages", "stages": [{"trials": 4, "iterations": 1}, {"trials": 5, "iterations": 1}]},
            r"stages: entry \[1\]: 5 trials after 4; a stage cannot have more trials than the one before it",
        ),
    ],
)
def test_bad_stages_are_refused(data: dict[str, object], message: str) -> None:
    """Stages only drop trials, and there must be some."""
    with pytest.raises(DataError, match=message):
        StagesExperiment.parse(data)


@pytest.mark.parametrize("iterations", [0, -3, 1.5, float("nan"), float("inf"), "4", True])
def test_iterations_are_whole_and_positive(iterations: object) -> None:
    """Zero, negative, broken or no numbers of iterations are refused by name."""
    with pytest.raises(DataError, match="iterations: got"):
        Stage.parse({"trials": 4, "iterations": iterations})


@pytest.mark.parametrize("eta", [1, 0.5, 0, -2, float("nan"), float("inf")])
def test_eta_must_exceed_one(eta: float) -> None:
    """With eta <= 1 nothing is ever stopped."""
    with pytest.raises(DataError, match=r"eta: got .*; input should be (greater than 1|a finite number)"):
        ShaExperiment(trials=4, least_iterations=1, most_iterations=9, eta=eta)
    with pytest.raises(DataError, match="eta: got"):
        HyperbandExperiment(most_iterations=9, eta=eta)


def test_most_iterations_below_the_least_are_refused() -> None:
    """R < r leaves nothing to do."""
    with pytest.raises(DataError, match=r"most_iterations is 3, below least_iterations \(4\); raise it"):
        ShaExperiment(trials=4, least_iterations=4, most_iterations=3)
    with pytest.raises(DataError, match=r"most_iterations is 3, below least_iterations \(4\); raise it"):
        HyperbandExperiment(least_iterations=4, most_iterations=3)


def test_stages_are_bounded_before_they_are_listed() -> None:
    """A search with endless stages is refused with the limit, however it is described; 2,000 stages are allowed."""
    with pytest.raises(DataError, match=r"eta is 1\.0000001, which makes more than the 2,000 stages that are allowed"):
        read_instance(CASES / "endless-stages.json")
    with pytest.raises(DataError, match="stages of the 2,000 allowed; raise it"):
        HyperbandExperiment(most_iterations=1_000_000_000, eta=1.0000001)
    stage = Stage(trials=1, iterations=1)
    assert len(StagesExperiment(stages=(stage,) * 2000).stages) == 2000
    with pytest.raises(DataError, match="has 2,001 entries; at most 2,000 stages are allowed"):
        StagesExperiment(stages=(stage,) * 2001)
