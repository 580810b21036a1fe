"""Rows of options and curves: the best choice under multipliers, mixtures, and one limit to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import DataError
from optplan.solvers.choices.alternatives import CurveWidths, LinkedChoices, TableOptions
from optplan.solvers.choices.one_limit import (
    consumption_at,
    find_crossing,
    least_consumption,
    limit_for_value,
    solve_one_limit,
    value_at,
)
from optplan.solvers.paths.bounds import LinkedShortfall, maximise_bound
from optplan.solvers.paths.families import PathBatch
from optplan.solvers.paths.mixing import mix_columns
from optplan.solvers.slopes import SmoothBlock, SmoothForm

ROW = np.array([0])


def options(value: list[float], amount: list[float], counts: list[list[float]]) -> TableOptions:
    """Make the options of one row."""
    return TableOptions(ROW, np.array([value]), np.array([amount]), np.array(counts))


def curve(form: SmoothForm, parameter: float, *, widest: float = 16.0) -> CurveWidths:
    """Make a curve of one row, of scale and weight 1, that counts once in one limit."""
    one = np.ones(1)
    return CurveWidths(ROW, SmoothBlock(form, one, one, np.array([parameter]), one, widest * one), one)


def root(*, widest: float = 16.0) -> CurveWidths:
    """Make the curve of s = k^0.5: with u = k^0.5 it consumes u and has value 1 / u."""
    return curve(SmoothForm.POWER_LAW, 0.5, widest=widest)


def test_the_best_choice_weighs_value_and_every_limit() -> None:
    """Values 4 and 1, amounts 1 and 2 that count 1 and 3 in the first limit: at 0.5 the second costs 1 + 3, not 4.5."""
    family = LinkedChoices(1, np.ones(2), (options([4.0, 1.0], [1.0, 2.0], [[1.0, 3.0], [0.0, 1.0]]),))
    best = family.best_paths(np.array([0.5, 0.0]))
    assert (best.value.tolist(), best.consumption.tolist()) == ([1.0], [[6.0, 2.0]])
    assert best.payload.tolist() == [[0.0, 1.0]]
    # With 0.3 on the second limit as well it costs 1 + 3 + 0.6, more than 4.5.
    assert family.best_paths(np.array([0.5, 0.3])).value.tolist() == [4.0]
    assert family.best_paths(np.array([1.0, 0.0]), value_weight=0.0).consumption.tolist() == [[1.0, 0.0]]


def test_a_curve_takes_its_width_in_closed_form() -> None:
    """S = k^0.5 at a price of 1/4 per GPU: 1 / u + u / 4 is least at u = 2, so 4 GPUs and value 1/2."""
    family = LinkedChoices(1, np.ones(1), (options([0.9], [2.0], [[1.0]]), root()))
    best = family.best_paths(np.array([0.25]))
    assert best.payload.tolist() == [[1.0, 4.0]]
    assert (best.value.tolist(), best.consumption.tolist()) == ([0.5], [[2.0]])
    assert family.best_paths(np.zeros(1)).payload.tolist() == [[1.0, 16.0]]
    assert family.best_paths(np.ones(1), value_weight=0.0).payload.tolist() == [[1.0, 1.0]]


def test_of_equals_the_leanest_is_taken() -> None:
    """Without a price, of options and of alternatives of the same value the one that takes least counts."""
    same = options([1.0, 1.0], [3.0, 2.0], [[1.0, 1.0]])
    leaner = options([1.0], [1.0], [[1.0]])
    best = LinkedChoices(1, np.ones(1), (same, leaner)).best_paths(np.zeros(1))
    assert best.payload.tolist() == [[1.0, 0.0]]
    assert LinkedChoices(1, np.ones(1), (same,)).best_paths(np.zeros(1)).payload.tolist() == [[0.0, 1.0]]


def test_a_row_without_alternatives_is_refused() -> None:
    """The message says which row."""
    with pytest.raises(DataError, match=r"rows\[1\]: no alternative has it"):
        LinkedChoices(2, np.ones(1), (options([1.0], [1.0], [[1.0]]),))


@pytest.mark.parametrize(
    ("form", "parameter", "expected"),
    [
        # u = k^0.5: a quarter at 1 and the rest at 3 is 2.5, so 6.25 GPUs.
        (SmoothForm.POWER_LAW, 0.5, 6.25),
        # u = 0.5 + 0.5 k: the mean of the widths, 0.25 + 6.75.
        (SmoothForm.AMDAHL, 0.5, 7.0),
        # s = k: u is 1 whatever k is, and the widest is quickest.
        (SmoothForm.POWER_LAW, 1.0, 9.0),
    ],
)
def test_widths_of_one_row_become_one_that_is_no_slower(form: SmoothForm, parameter: float, expected: float) -> None:
    """A quarter of the jobs on 1 GPU and the rest on 9 consume what all do on one width between."""
    part = curve(form, parameter)
    family = LinkedChoices(1, np.ones(1), (part,))
    widths = np.array([1.0, 9.0])
    pairs = [part.follow_one(0, width) for width in widths.tolist()]
    columns = PathBatch(
        np.array([value for value, _ in pairs]),
        np.array([used for _, used in pairs]),
        np.stack([np.zeros(2), widths], axis=1),
    )
    mixture = mix_columns(np.zeros(2, dtype=np.int64), np.array([0.25, 0.75]), columns)
    merged = family.merge_widths(mixture)
    assert merged.columns.payload.tolist() == [[0.0, pytest.approx(expected)]]
    assert merged.fraction.tolist() == [1.0]
    assert merged.consumption == pytest.approx(mixture.consumption)
    assert merged.value <= mixture.value * (1.0 + 1e-12)


def test_options_of_one_row_stay_apart() -> None:
    """Whole widths have nothing between them."""
    family = LinkedChoices(1, np.ones(1), (options([3.0, 1.0], [1.0, 3.0], [[1.0, 1.0]]),))
    columns = PathBatch(np.array([3.0, 1.0]), np.array([[1.0], [3.0]]), np.array([[0.0, 0.0], [0.0, 1.0]]))
    mixture = mix_columns(np.zeros(2, dtype=np.int64), np.array([0.5, 0.5]), columns)
    assert family.merge_widths(mixture).fraction.tolist() == [0.5, 0.5]


def test_a_curve_under_one_limit() -> None:
    """U = 3 GPUs of time give 1 / 3; the slope of 1 / u there is 1/9."""
    found = solve_one_limit(LinkedChoices(1, np.array([3.0]), (root(),)))
    assert found is not None
    assert found.mixture.value == pytest.approx(1.0 / 3.0, rel=1e-14)
    assert found.mixture.columns.payload.tolist() == [[0.0, pytest.approx(9.0)]]
    assert found.bound == pytest.approx(1.0 / 3.0, rel=1e-14)
    assert (found.price_less, found.price_more) == pytest.approx((1.0 / 9.0, 1.0 / 9.0))


def test_between_two_options_a_row_is_divided() -> None:
    """Two rows with options (1, 3) and (3, 1), limit 3: one goes over by half; its slope is 1."""
    part = TableOptions(np.arange(2), np.array([[3.0, 1.0]] * 2), np.array([[1.0, 3.0]] * 2), np.ones((1, 2)))
    found = solve_one_limit(LinkedChoices(2, np.array([3.0]), (part,)))
    assert found is not None
    assert found.mixture.graph.tolist() == [0, 0, 1]
    assert found.mixture.fraction.tolist() == pytest.approx([0.5, 0.5, 1.0])
    assert found.mixture.value == pytest.approx(5.0)
    assert (found.price_less, found.price_more) == pytest.approx((1.0, 1.0))


def test_at_a_vertex_prices_differ_by_side() -> None:
    """Options (1, 9), (2, 4), (4, 2): at 2 a little less loses 5 per unit, a little more gains 1."""
    family = LinkedChoices(1, np.array([2.0]), (options([9.0, 4.0, 2.0], [1.0, 2.0, 4.0], [[1.0] * 3]),))
    found = solve_one_limit(family)
    assert found is not None
    assert found.mixture.graph.tolist() == [0]
    assert (found.price_less, found.price_more) == pytest.approx((5.0, 1.0))


def test_the_ends_of_one_limit() -> None:
    """Below the least consumption there is nothing, at it nothing less fits, beyond the most nothing is gained."""
    part = root(widest=9.0)
    assert solve_one_limit(LinkedChoices(1, np.array([0.99]), (part,))) is None
    least = solve_one_limit(LinkedChoices(1, np.array([1.0]), (part,)))
    assert least is not None
    assert np.isinf(least.price_less)
    assert least.price_more == pytest.approx(1.0)
    ample = solve_one_limit(LinkedChoices(1, np.array([5.0]), (part,)))
    assert ample is not None
    assert (ample.price_less, ample.price_more, ample.multiplier) == (0.0, 0.0, 0.0)
    assert ample.mixture.value == pytest.approx(1.0 / 3.0)


@given(
    parameters=st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]), min_size=1, max_size=4),
    forms=st.sampled_from(list(SmoothForm)),
    share=st.floats(0.01, 0.99),
)
def test_one_limit_agrees_with_column_generation(parameters: list[float], forms: SmoothForm, share: float) -> None:
    """Two algorithms, one optimum; at most one row is divided; a wanted value is reached at the limit that has it."""
    rows = len(parameters)
    ones = np.ones(rows)
    block = SmoothBlock(forms, ones, ones, np.array(parameters), ones, 8.0 * ones)
    table = TableOptions(
        np.arange(rows), np.tile([1.1, 0.27], (rows, 1)), np.tile([0.8, 2.0], (rows, 1)), np.array([[1.0, 1.5]])
    )
    family = LinkedChoices(rows, ones[:1], (CurveWidths(np.arange(rows), block, np.array([1.2])), table))
    least, most = least_consumption(family), consumption_at(family, 0.0)
    limit = least + share * (most - least)
    family = LinkedChoices(rows, np.array([limit]), family.alternatives)
    found, other = solve_one_limit(family), maximise_bound(family)
    assert found is not None
    assert not isinstance(other, LinkedShortfall)
    assert other.mixture is not None
    assert found.mixture.value == pytest.approx(family.merge_widths(other.mixture).value, rel=1e-8)
    assert found.bound == pytest.approx(found.mixture.value, rel=1e-12)
    assert found.mixture.consumption[0] <= limit * (1.0 + 1e-12)
    assert found.mixture.graph.size <= rows + 1
    if most > least:
        assert limit_for_value(family, found.mixture.value) == pytest.approx(limit, rel=1e-6)
    crossings = [find_crossing(family, limit, near=near).above for near in (None, 0.3)]
    assert crossings[0] == pytest.approx(crossings[1], rel=1e-12)


def test_any_value_is_had_within_the_least_consumption() -> None:
    """A wanted value above that of the leanest choices needs no more than these; the least value needs the most."""
    family = LinkedChoices(1, np.ones(1), (root(widest=9.0),))
    assert limit_for_value(family, 7.0) == 1.0
    assert limit_for_value(family, value_at(family, 0.0)) == pytest.approx(3.0)
    assert limit_for_value(family, 0.5) == pytest.approx(2.0)
