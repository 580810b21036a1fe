"""Spaces: what is drawn, that nothing is drawn twice, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts import Plan
from optplan.contracts.configurations import Range, count_configurations
from optplan.errors import DataError, DataWarning
from optplan.execution.options import draw, draw_configurations

SPACE = {
    "learning_rate": {"loguniform": [1e-4, 1e-1]},
    "momentum": {"uniform": [0.5, 0.9]},
    "layers": {"integer": [2, 4]},
    "optimizer": {"choice": ["sgd", "adam"]},
}


@given(st.integers(0, 100))
def test_values_lie_in_their_ranges(seed: int) -> None:
    """Both ends of whole numbers are included; the same seed draws the same."""
    drawn = draw(SPACE, 20, seed=seed)
    assert drawn == draw(SPACE, 20, seed=seed)
    for each in drawn:
        assert 1e-4 <= each["learning_rate"] <= 1e-1
        assert 0.5 <= each["momentum"] <= 0.9
        assert each["layers"] in {2, 3, 4}
        assert each["optimizer"] in {"sgd", "adam"}


def test_a_finite_space_is_drawn_without_repetition() -> None:
    """3 x 2 configurations: all six are different, in an order that the seed decides."""
    finite = {name: SPACE[name] for name in ("layers", "optimizer")}
    drawn = draw(finite, 6, seed=1)
    assert len({tuple(each.items()) for each in drawn}) == 6
    assert draw(finite, 6, seed=2) != drawn
    with pytest.raises(DataError, match="space: has 6 configurations; the plan has 7 trials; none is tried twice"):
        draw(finite, 7)


def test_a_large_finite_space_is_not_listed() -> None:
    """10^30 configurations, and no list of them."""
    drawn = draw({f"h{number}": {"integer": [1, 1000]} for number in range(10)}, 50)
    assert len({tuple(each.items()) for each in drawn}) == 50


def test_configurations_are_counted() -> None:
    """3 x 2; there is no end of real numbers, and none without a space."""
    assert count_configurations({"layers": range(2, 5), "optimizer": ["sgd", "adam"]}) == 6
    assert count_configurations({"layers": range(2, 5), "momentum": Range(0.5, 0.9)}) is None
    assert count_configurations({}) is None


def test_configurations_can_be_listed() -> None:
    """They are taken in their order."""
    listed = [{"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3}]
    assert draw(listed, 2) == listed[:2]
    with pytest.raises(DataError, match="space: lists 3 configurations; the plan has 4 trials; add the others"):
        draw(listed, 4)


def test_a_plan_has_a_space_of_its_own(plan_of: Callable[..., Plan]) -> None:
    """SEER's intervals and choices: two choices are enough for two trials only, and the others' places stay empty."""
    plan = plan_of("seer-paper-example")
    own: dict[str, dict[str, Any]] = {
        "lr": {"form": "interval", "low": 0.1, "high": 1.0, "scale": "log"},
        "m": {"form": "interval", "low": 2.0, "high": 3.0, "scale": "linear"},
        "opt": {"form": "choices", "values": ["a", "b"]},
    }
    names = ["t1", "t2", "t3"]
    drawn = draw_configurations(plan.replace(plan_id="", search_space=own), names, None, 0)
    assert list(drawn) == names
    for each in drawn.values():
        assert 0.1 <= each["lr"] <= 1.0
        assert 2.0 <= each["m"] <= 3.0
        assert each["opt"] in {"a", "b"}
    with pytest.warns(DataWarning, match="has 2 configurations, and the plan has 3 trials; the last places stay empty"):
        few = draw_configurations(plan.replace(plan_id="", search_space={"opt": own["opt"]}), names, None, 0)
    assert {name: each["opt"] for name, each in few.items()} in ({"t1": "a", "t2": "b"}, {"t1": "b", "t2": "a"})
    assert draw({}, 2) == [{}, {}]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (3, "space: got 3; a mapping by hyperparameter, or a list, is needed"),
        ({"lr": 3}, r"space\.lr: got 3; one of \{uniform: \[lo, hi\]\}"),
        ({"lr": {"uniform": [0, 1], "choice": [1]}}, r"space\.lr: got"),
        ({"lr": {"unifrom": [0, 1]}}, r"space\.lr\.unifrom: no such kind of values; did you mean 'uniform'"),
        ({"lr": {"uniform": [1, 0]}}, r"space\.lr\.uniform: got \[1, 0\]; two numbers, the lower one first"),
        ({"lr": {"uniform": [0, 10**400]}}, r"space\.lr\.uniform: got \[0, 1.*; two numbers, the lower one first"),
        ({"lr": {"uniform": [1]}}, r"space\.lr\.uniform: got \[1\]; two numbers"),
        ({"lr": {"loguniform": [0, 1]}}, r"space\.lr\.loguniform: got \[0, 1\]; numbers above zero have logarithms"),
        ({"lr": {"integer": [0.5, 1]}}, r"space\.lr\.integer: got \[0\.5, 1\]; whole numbers are needed"),
        ({"lr": {"choice": []}}, r"space\.lr\.choice: got \[\]; a list is needed"),
        ([3], r"space\.0: got 3; a configuration names its values"),
    ],
)
def test_spaces_that_are_not_understood_are_refused(space: object, message: str) -> None:
    """With the path, and what is allowed."""
    with pytest.raises(DataError, match=message):
        draw(space, 1)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ([{"a": [1.0, float("inf")]}], r"space\.0\.a\.1: got inf; finite numbers are allowed"),
        ([{1: 2}], r"space\.0: has the name 1; names are text; put it in quotes"),
        ({"a": {"choice": [{"b": {1, 2}}]}}, r"space\.a\.choice\.0\.b: got .*; numbers, text, lists and mappings"),
        ({"a": {"integer": [0, 10**30]}}, r"numbers from -9\.0072e\+15 to 9\.0072e\+15 are allowed"),
        ({"a": {"uniform": [-1e308, 1e308]}}, r"numbers from -1e\+20 to 1e\+20 are allowed"),
    ],
)
def test_values_that_cannot_be_written_or_drawn(space: object, message: str) -> None:
    """They are refused by their place, before anything is drawn."""
    with pytest.raises(DataError, match=message):
        draw(space, 1)
