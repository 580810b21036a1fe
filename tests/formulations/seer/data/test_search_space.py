"""Search spaces: their size, drawing without repetition, and the end of the space."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from optplan.errors import DataError, DataWarning
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.seer.data.search_space import count_configurations, describe_shortage, draw_configurations

#: The paper's Table 1.
VISION = {
    "learning_rate": {"form": "choices", "values": [1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1]},
    "weight_decay": {"form": "choices", "values": [1e-4, 5e-4, 1e-3, 5e-3]},
    "momentum": {"form": "choices", "values": [0.9, 0.95, 0.99, 0.997]},
}
MakeInstance = Callable[..., SeerInstance]


def test_the_space_of_table_1_has_144_configurations(make_instance: MakeInstance) -> None:
    """9 learning rates, 4 weight decays, 4 momenta; each configuration is drawn once."""
    space = make_instance(search_space=VISION).search_space
    assert count_configurations(space) == 144
    drawn = draw_configurations(space, 144, seed=3)
    assert len({tuple(each.items()) for each in drawn}) == 144
    assert drawn[:10] == draw_configurations(space, 144, seed=3)[:10]
    assert drawn != draw_configurations(space, 144, seed=4)
    assert describe_shortage(space, 144) == ""


def test_a_space_that_is_too_small_ends(make_instance: MakeInstance) -> None:
    """Drawing stops at the space's size, and says so."""
    space = make_instance(search_space={"lr": {"form": "choices", "values": [0.1, 0.2, "auto"]}}).search_space
    with pytest.warns(
        DataWarning, match=r"^search_space: has 3 configurations, fewer than the 5 trials .* 2 places of"
    ):
        drawn = draw_configurations(space, 5)
    assert sorted(str(each["lr"]) for each in drawn) == ["0.1", "0.2", "auto"]


def test_intervals_have_no_end(make_instance: MakeInstance) -> None:
    """Values lie between the ends; on a log scale half of them below the geometric mean. No space: no values."""
    space = make_instance(
        search_space={
            "lr": {"form": "interval", "low": 1e-4, "high": 1.0, "scale": "log"},
            "dropout": {"form": "interval", "low": 0.0, "high": 0.5},
            "layers": {"form": "choices", "values": [1, 2]},
        }
    ).search_space
    assert count_configurations(space) is None
    drawn = draw_configurations(space, 400, seed=1)
    rates = [float(each["lr"]) for each in drawn]
    assert 1e-4 <= min(rates) <= max(rates) <= 1.0
    assert 150 < sum(rate < 1e-2 for rate in rates) < 250
    assert all(0 <= float(each["dropout"]) <= 0.5 and each["layers"] in (1, 2) for each in drawn)
    assert draw_configurations({}, 2) == [{}, {}]
    assert math.isfinite(rates[0])


def test_a_space_beyond_counting_has_no_end_either(make_instance: MakeInstance) -> None:
    """More than 2^62 configurations: none is met twice."""
    digits = {f"digit{i}": {"form": "choices", "values": list(range(10))} for i in range(20)}
    space = make_instance(search_space=digits).search_space
    assert count_configurations(space) is None
    assert len(draw_configurations(space, 3)) == 3


@pytest.mark.parametrize(
    ("hyperparameter", "message"),
    [
        ({"form": "choices", "values": []}, r"^search_space.lr.values: is empty; give at least one value, or remove"),
        ({"form": "choices", "values": [1, 2, 1]}, r"^search_space.lr.values: has 1 twice; remove one of the two$"),
        ({"form": "choices", "values": [True]}, r"got True; a number or a text is needed$"),
        ({"form": "choices", "values": [math.nan]}, r"^search_space.lr.values.0.* got nan"),
        ({"form": "interval", "low": 2, "high": 1}, r"^search_space.lr.low: got 2.0, not below high \(1.0\); exchange"),
        (
            {"form": "interval", "low": 0, "high": 1, "scale": "log"},
            r"lr.low: got 0.0; a log scale needs numbers above",
        ),
        ({"form": "interval", "low": 0, "high": math.inf}, r"^search_space.lr.high: got inf"),
        ({"form": "grid"}, r"^search_space.lr.form: got 'grid'; allowed: choices, interval$"),
    ],
)
def test_wrong_spaces_are_refused(make_instance: MakeInstance, hyperparameter: object, message: str) -> None:
    """By the hyperparameter's name, with what is allowed."""
    with pytest.raises(DataError, match=message):
        make_instance(search_space={"lr": hyperparameter})
