"""Learning curves: the record's rules by hand, users' tables, and what is claimed of the library's."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import DataError, OutputError, UsageError
from optplan.instances.learning_curves import (
    LearningCurves,
    load_curves,
    read_curves,
    table_names,
    write_curves,
)

NAN = math.nan
LIBRARY = files("optplan.instances.library").joinpath("curves")
#: Configurations of each table: 9 learning rates, 4 weight decays, 4 momenta, and 5 embedding sizes.
SIZES = {"digits": 144, "digits-embedding": 720, "digits-low-rates": 144}
HEADER = "config,seed,epoch,accuracy\n"


def make_curves(**changes: Any) -> LearningCurves:  # noqa: ANN401 - any field
    """Make two configurations, two seeds, three epochs; the second configuration fails under seed 7."""
    accuracy = [[[0.1, 0.4, 0.3], [0.2, 0.2, 0.5]], [[0.1, 0.2, 0.3], [0.1, NAN, NAN]]]
    fields: dict[str, Any] = {
        "name": "small",
        "configurations": ("slow", "fast"),
        "hyperparameters": {"rate": (0.01, 1.0), "optimiser": ("sgd", "adam")},
        "seeds": (3, 7),
        "accuracy": np.array(accuracy),
    }
    return LearningCurves(**fields | changes)


def write(folder: Path, text: str) -> Path:
    """Write a table."""
    path = folder / "curves.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_last_and_best_by_hand() -> None:
    """The first curve's best is its second epoch; a failed run has its best before it failed, and no last."""
    curves = make_curves()
    np.testing.assert_array_equal(curves.last, [[0.3, 0.5], [0.3, NAN]])
    np.testing.assert_array_equal(curves.best, [[0.4, 0.5], [0.3, 0.1]])
    np.testing.assert_array_equal(curves.of_seed(7), [[0.2, 0.2, 0.5], [0.1, NAN, NAN]])


def test_levels_are_places_among_the_sorted_values() -> None:
    """0.01 is below 1, adam before sgd; without hyperparameters there are no columns."""
    np.testing.assert_array_equal(make_curves().levels, [[0, 1], [1, 0]])
    assert make_curves(hyperparameters={}).levels.shape == (2, 0)


@pytest.mark.parametrize(
    ("epochs", "value", "held"),
    [
        (0.0, NAN, False),
        (0.99, NAN, False),
        (1.0, 0.1, False),
        (1.9, 0.1, False),
        (2.0 - 1e-12, 0.4, False),  # 2 epochs, as a sum of time steps may have it
        (3.0, 0.3, False),
        (3.5, 0.3, True),
        (1e6, 0.3, True),
    ],
)
def test_the_last_completed_epoch_counts_and_the_end_is_held(epochs: float, value: float, held: bool) -> None:
    """Fractions are rounded down, and beyond the third epoch its value is held, which is said."""
    curves = make_curves()
    assert curves.value_at(0, 3, epochs) == pytest.approx(value, nan_ok=True)
    assert curves.is_held(epochs) is held


@given(st.floats(0, 10), st.integers(0, 1), st.sampled_from((3, 7)))
def test_values_are_those_of_the_curve(epochs: float, configuration: int, seed: int) -> None:
    """Nothing is interpolated."""
    curves = make_curves()
    value = curves.value_at(configuration, seed, epochs)
    shown = curves.of_seed(seed)[configuration]
    assert (math.isnan(value) and (epochs < 1 or np.isnan(shown).any())) or value in shown


def test_the_record_is_frozen() -> None:
    """Neither arrays nor mappings can be changed, and the caller's array stays his."""
    mine = np.full((2, 2, 1), 0.5)
    curves = make_curves(accuracy=mine)
    mine[:] = 0.0
    assert (curves.accuracy == 0.5).all()
    with pytest.raises(ValueError, match="read-only"):
        curves.accuracy[0, 0, 0] = 1.0
    with pytest.raises(TypeError, match="does not support item assignment"):
        curves.hyperparameters["rate"] = ()  # type: ignore[index]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"accuracy": np.zeros((2, 3, 4))},
            r"small\.accuracy: got an array of shape \(2, 3, 4\); 2 configurations by 2",
        ),
        ({"accuracy": np.zeros((2, 2, 0))}, r"small\.accuracy: got an array of shape \(2, 2, 0\)"),
        ({"loss": np.zeros((2, 2, 2))}, r"small\.loss: has 2 epochs, and accuracy 3; give both after each epoch"),
        ({"configurations": ("a", "a")}, r"small\.configurations: 'a' occurs twice; name each once"),
        ({"seeds": (3, 3)}, r"small\.seeds: 3 occurs twice"),
        ({"seeds": (7, 3)}, r"small\.seeds: got \(7, 3\); list them in ascending order"),
        ({"hyperparameters": {"rate": (1.0,)}}, r"small\.hyperparameters\.rate: 1 values for 2 configurations"),
        (
            {"accuracy": np.full((2, 2, 3), 97.0)},
            r"small\.accuracy: 'slow', seed 3: got 97 after epoch 1; shares from 0 to 1 are allowed; divide",
        ),
    ],
)
def test_what_does_not_agree_is_refused(changes: dict[str, Any], message: str) -> None:
    """Every complaint names the field and what is allowed."""
    with pytest.raises(DataError, match=message):
        make_curves(**changes)


def test_look_ups_outside_the_table_are_refused() -> None:
    """A wrong row, seed or number of epochs is no value."""
    curves = make_curves()
    with pytest.raises(UsageError, match=r"configuration: got -1; rows from 0 to 1 are allowed"):
        curves.value_at(-1, 3, 1.0)
    with pytest.raises(UsageError, match=r"seed: small has no seed 4; it has 3, 7"):
        curves.value_at(0, 4, 1.0)
    with pytest.raises(UsageError, match=r"epochs: got -1; a finite number from zero on is needed"):
        curves.value_at(0, 3, -1)
    with pytest.raises(UsageError, match=r"epochs: got nan; a finite number from zero on is needed"):
        curves.is_held(NAN)


def test_a_users_table(tmp_path: Path) -> None:
    """Columns in any order, rows of several curves mixed, other columns are hyperparameters."""
    text = "seed,config,rate,epoch,accuracy,optimiser\n2,a,0.1,1,0.5,sgd\n1,b,1,1,nan,adam\n1,a,0.1,1,0.25,sgd\n"
    curves = read_curves(write(tmp_path, text + "2,b,1,1,0.75,adam\n"))
    assert (curves.name, curves.configurations, curves.seeds, curves.num_epochs) == ("curves", ("a", "b"), (1, 2), 1)
    assert dict(curves.hyperparameters) == {"rate": (0.1, 1.0), "optimiser": ("sgd", "adam")}
    np.testing.assert_array_equal(curves.last, [[0.25, 0.5], [NAN, 0.75]])
    assert curves.loss is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"curves\.csv: the file is empty; its first line must name"),
        (HEADER, r"curves\.csv: the file holds no curve; give a row for each configuration, seed and epoch"),
        ("config,seed,epoch\na,1,1\n", r"curves\.csv: no column accuracy; found config, seed, epoch; needed"),
        ("config,seed,epoch,accuracy,\na,1,1,0.5,\n", r"curves\.csv: column 5 has no name; name it, or remove it"),
        (HEADER + ",1,1,0.5\n", r"curves\.csv:2: config is empty; name the configuration"),
        (HEADER + "a,one,1,0.5\n", r"curves\.csv:2: seed is 'one'; a whole number is needed"),
        (HEADER + "a,1,0,0.5\n", r"curves\.csv:2: epoch is '0'; a whole number of at least 1 is needed"),
        (HEADER + "a,1,1,0.5\na,1,3,0.5\n", r"curves\.csv:3: epoch is 3, where 2 is due .*; give every epoch from 1"),
        (HEADER + "a,1,1,0.5\na,1,1,0.5\n", r"curves\.csv:3: epoch is 1, where 2 is due for this configuration"),
        (HEADER + "a,1,2,0.5\na,1,1,0.5\n", r"curves\.csv:2: epoch is 2, where 1 is due for this configuration"),
        (
            HEADER + "a,1,1,97.5\n",
            r"curves\.csv:2: accuracy is '97\.5'; a share from 0 to 1, or nan, is needed; divide",
        ),
        (HEADER + "a,1,1,inf\n", r"curves\.csv:2: accuracy is 'inf'; a share from 0 to 1, or nan, is needed"),
        (HEADER + "a,1,1,\n", r"curves\.csv:2: accuracy is ''; a number or nan is needed"),
        (HEADER + "a,1,1,0.5\na,1,2,0.5\nb,1,1,0.5\n", r"'b', seed 1 has 1 epochs, and the longest curve has 2; add"),
        (HEADER + "a,1,1,0.5\na,2,1,0.5\nb,1,1,0.5\n", r"'b', seed 2 has 0 epochs, and the longest curve has 1"),
        (
            "config,seed,epoch,accuracy,rate\na,1,1,0.5,0.1\na,1,2,0.5,0.2\n",
            r"curves\.csv:3: rate of 'a' changes within the file; give other settings another name",
        ),
    ],
)
def test_a_users_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    """File, line, what stands there and what is needed; nothing is filled in or left out."""
    with pytest.raises(DataError, match=message):
        read_curves(write(tmp_path, text))


def test_written_tables_are_read_back(tmp_path: Path) -> None:
    """To the last digit, failed epochs and losses included."""
    loss = np.arange(12.0).reshape(2, 2, 3) / 7
    loss[1, 1, 1:] = NAN, math.inf
    curves = make_curves(loss=loss)
    path = tmp_path / "small.csv"
    write_curves(curves, path)
    again = read_curves(path)
    assert (again.name, again.configurations, again.seeds) == ("small", ("slow", "fast"), (3, 7))
    assert again.hyperparameters == curves.hyperparameters
    np.testing.assert_array_equal(again.accuracy, curves.accuracy)
    np.testing.assert_array_equal(again.loss, loss)
    with pytest.raises(OutputError, match="exists"):
        write_curves(curves, path)
    with pytest.raises(UsageError, match=r"hyperparameters: 'loss' is also the name of another column; rename it"):
        write_curves(make_curves(hyperparameters={"loss": (1.0, 2.0)}), path, overwrite=True)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=4))
def test_any_table_survives_the_file(tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]]) -> None:
    """Whatever the accuracies."""
    path = tmp_path_factory.mktemp("curves") / "any.csv"
    names = tuple(f"c{number}" for number in range(len(rows)))
    curves = LearningCurves("any", names, {}, (0,), np.array(rows)[:, None, :])
    write_curves(curves, path)
    np.testing.assert_array_equal(read_curves(path).accuracy, curves.accuracy)


def test_the_library_has_a_table_for_each_search_space() -> None:
    """Few megabytes, each with its provenance."""
    assert table_names() == sorted(SIZES)
    assert sum(len(each.read_bytes()) for each in LIBRARY.iterdir()) < 4e6
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
    mean = curves.last.mean(axis=1)
    assert (mean >= mean.max() - 0.005).sum() <= 10
    assert ((curves.last == curves.last.max(axis=0)).sum(axis=0) <= 3).all()
    order = np.argsort(np.argsort(curves.last, axis=0), axis=0)
    assert np.asarray(np.corrcoef(order.T)).min() > 0.9
