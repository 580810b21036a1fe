"""Learning curves by hand, and what is claimed of our tables and scaling profiles."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from suites.learning_curves import LearningCurves, load_curves, table_names

from optplan.errors import DataError, UsageError

NAN = math.nan
LIBRARY = Path(__file__).resolve().parents[3] / "benchmarks" / "suites" / "curves"
#: Configurations of each table: 9 learning rates, 4 weight decays, 4 momenta, and 5 embedding sizes.
SIZES = {"digits": 144, "digits-embedding": 720, "digits-low-rates": 144}


def make_curves() -> LearningCurves:
    """Make two configurations, two seeds, three epochs; the second configuration fails under seed 7."""
    accuracy = np.array([[[0.1, 0.4, 0.3], [0.2, 0.2, 0.5]], [[0.1, 0.2, 0.3], [0.1, NAN, NAN]]])
    return LearningCurves("small", {"rate": (0.01, 1.0), "decay": (0.5, 0.1)}, (3, 7), accuracy, {})


def test_the_curves_of_a_seed() -> None:
    """Those of the second seed, a failed run among them; a seed that is not there has none."""
    curves = make_curves()
    np.testing.assert_array_equal(curves.of_seed(7), [[0.2, 0.2, 0.5], [0.1, NAN, NAN]])
    with pytest.raises(UsageError, match=r"seed: small has no seed 4; it has 3, 7"):
        curves.of_seed(4)


def test_levels_are_places_among_the_sorted_values() -> None:
    """0.01 is below 1, and 0.1 below 0.5."""
    np.testing.assert_array_equal(make_curves().levels, [[0, 1], [1, 0]])
    assert make_curves().configurations == ("rate=0.01 decay=0.5", "rate=1 decay=0.1")


def test_the_library_has_a_table_for_each_search_space() -> None:
    """Less than a megabyte, each with its provenance."""
    assert table_names() == sorted(SIZES)
    assert sum(len(each.read_bytes()) for each in LIBRARY.iterdir()) < 1e6
    with pytest.raises(DataError, match=r"no learning curves named 'digit' in the library; did you mean 'digits'\?"):
        load_curves("digit")


@pytest.mark.parametrize("name", SIZES)
def test_a_library_table_is_what_it_says(name: str) -> None:
    """The whole grid, three seeds, enough epochs for 60 min on 8 GPUs at 5.4 epochs a minute, accuracies exact."""
    curves, told = load_curves(name), json.loads(LIBRARY.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    assert curves.accuracy.shape == (SIZES[name], 3, 330)
    assert not np.isnan(curves.accuracy).any()
    counts = curves.accuracy * told["validation_examples"]
    np.testing.assert_allclose(counts, counts.round(), rtol=0, atol=1e-9)
    grid = set(zip(*curves.hyperparameters.values(), strict=True))
    sizes = [len(set(values)) for values in curves.hyperparameters.values()]
    assert len(grid) == math.prod(sizes) == SIZES[name]
    assert [len(set(column)) for column in curves.levels.T] == sizes
    assert len(set(curves.configurations)) == SIZES[name]
    for what in ("search space", "data", "network", "training", "versions", "script", "date"):
        assert curves.source[what]


def test_the_library_has_the_papers_search_spaces() -> None:
    """Table 1; a tenth of its rates; three times its rates with embedding sizes."""
    table_1 = (1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0)
    for name, factor in (("digits", 1.0), ("digits-low-rates", 0.1), ("digits-embedding", 3.0)):
        hyperparameters = load_curves(name).hyperparameters
        assert sorted(set(hyperparameters["learning_rate"])) == pytest.approx([factor * rate for rate in table_1])
        assert set(hyperparameters["weight_decay"]) == {0.0001, 0.0005, 0.001, 0.005}
        assert set(hyperparameters["momentum"]) == {0.9, 0.95, 0.99, 0.997}
    assert set(load_curves("digits-embedding").hyperparameters["embedding_size"]) == {8, 16, 32, 64, 128}


def test_few_configurations_of_table_1_tie() -> None:
    """A table on which many tie tells little: few come close to the best, and seeds agree on the ranking."""
    curves = load_curves("digits")
    last = curves.accuracy[:, :, -1]
    mean = last.mean(axis=1)
    assert (mean >= mean.max() - 0.005).sum() <= 10
    assert ((last == last.max(axis=0)).sum(axis=0) <= 3).all()
    order = np.argsort(np.argsort(last, axis=0), axis=0)
    assert np.asarray(np.corrcoef(order.T)).min() > 0.9
