from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from optplan.errors import DataError
from optplan.schema import FloatArray, IntArray
from optplan.speedup import (
    describe_hull_changes,
    lower_left_hull,
    monotone_concave_hull,
    speed_on_hull,
)
from optplan.speedup.hulls import BoolArray

INF = float("inf")


def mark_by_definition(consumption: FloatArray, value: FloatArray) -> list[bool]:
    """Mark one row's vertices from the definition, in exact arithmetic.

    A point is no vertex when another one is at least as good in both, or when it is on or above the segment between a
    point with less consumption and one with more.
    """
    points = [
        None if np.isinf(x) or np.isinf(y) else (Fraction(float(x)), Fraction(float(y)))
        for x, y in zip(consumption, value, strict=True)
    ]
    return [point is not None and not _is_beaten(index, points) for index, point in enumerate(points)]


def _is_beaten(index: int, points: list[tuple[Fraction, Fraction] | None]) -> bool:
    point = points[index]
    assert point is not None
    x, y = point
    others = [(q[0], q[1], j) for j, q in enumerate(points) if q is not None and j != index]
    dominated = any(qx <= x and qy <= y and ((qx, qy) != (x, y) or j < index) for qx, qy, j in others)
    return dominated or any(
        (ry - qy) * (x - qx) <= (y - qy) * (rx - qx) for qx, qy, _ in others for rx, ry, _ in others if qx < x < rx
    )


@st.composite
def lattice_points(draw: st.DrawFn) -> tuple[FloatArray, FloatArray]:
    """Rows of points on a small lattice: full of ties, coincident and collinear points, some not allowed."""
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 8)))
    entries = st.one_of(st.integers(0, 6).map(float), st.just(INF)) if draw(st.booleans()) else st.integers(-9, 9)
    consumption = draw(hnp.arrays(np.float64, shape, elements=entries))
    value = draw(hnp.arrays(np.float64, shape, elements=entries))
    allowed = draw(st.integers(0, shape[1] - 1))
    for array in (consumption, value):
        array[:, allowed] = np.where(np.isinf(array[:, allowed]), 3.0, array[:, allowed])
    return consumption, value


def lower_left(gpus: IntArray, speedup: FloatArray) -> BoolArray:
    """Mark the vertices of the lower-left hull of (k / s, 1 / s)."""
    return lower_left_hull(gpus / speedup, 1.0 / speedup)


@given(lattice_points(), st.sampled_from([1e-6, 1e-3, 1.0, 0.1, 1e6]), st.sampled_from([1e-6, 1.0, 0.3, 1e6]))
def test_the_hull_is_that_of_the_definition(points: tuple[FloatArray, FloatArray], per_x: float, per_y: float) -> None:
    """Ties, coincident, collinear and excluded points included, and in any units."""
    consumption, value = points
    expected = [mark_by_definition(x, y) for x, y in zip(consumption, value, strict=True)]
    assert lower_left_hull(consumption * per_x, value * per_y).tolist() == expected


@given(st.integers(0, 2**32 - 1), st.integers(1, 24), st.booleans())
def test_the_hull_of_random_points_is_that_of_the_definition(seed: int, num_columns: int, noisy_curve: bool) -> None:
    """Points in general position, scattered or near a convex curve, where the chain pops and pushes in turns."""
    random = np.random.default_rng(seed)
    consumption, value = random.random((4, num_columns)), random.random((4, num_columns))
    if noisy_curve:
        value = 1.0 / (consumption + 0.1) * (1.0 + 0.02 * value)
    expected = [mark_by_definition(x, y) for x, y in zip(consumption, value, strict=True)]
    assert lower_left_hull(consumption, value).tolist() == expected


@given(st.integers(0, 2**32 - 1))
def test_the_hull_agrees_with_qhull(seed: int) -> None:
    """SciPy's convex hull, restricted to its lower-left part, has the same vertices."""
    from scipy.spatial import ConvexHull

    points = np.random.default_rng(seed).random((40, 2))
    corners = points[ConvexHull(points).vertices]
    leftmost, lowest = corners[np.argmin(corners[:, 0])], corners[np.argmin(corners[:, 1])]
    # The decreasing part lies between the two ends and on or below the segment that joins them.
    along, across = lowest - leftmost, corners - leftmost
    side = along[0] * across[:, 1] - along[1] * across[:, 0]
    is_end = (corners == leftmost).all(axis=1) | (corners == lowest).all(axis=1)
    expected = corners[is_end | ((side < 0) & (corners[:, 0] <= lowest[0]) & (corners[:, 1] <= leftmost[1]))]
    found = points[lower_left_hull(points[None, :, 0], points[None, :, 1])[0]]
    assert sorted(found.tolist()) == sorted(expected.tolist())


@given(lattice_points(), st.randoms(use_true_random=False))
def test_rows_and_columns_may_come_in_any_order(points: tuple[FloatArray, FloatArray], random: object) -> None:
    """The vertices, as points, do not depend on where they stand or on how many rows are handled together."""
    consumption, value = points
    order = np.random.default_rng(random.getrandbits(32)).permutation(consumption.shape[1])  # type: ignore[attr-defined]
    marked = lower_left_hull(consumption, value)
    shuffled = lower_left_hull(consumption[::-1, order], value[::-1, order])[::-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("optplan.speedup.hulls._BLOCK_ROWS", 1)
        assert (lower_left_hull(consumption, value) == marked).all()
    for row in range(len(marked)):
        there = consumption[row, order][shuffled[row]], value[row, order][shuffled[row]]
        here = consumption[row][marked[row]], value[row][marked[row]]
        assert sorted(zip(*there, strict=True)) == sorted(zip(*here, strict=True))


def test_the_hull_of_a_table_by_hand() -> None:
    """With s = 1, 1.8, 2, 3 on 1, 2, 3, 4 GPUs (k/s, 1/s) is (1, 1), (1.11, 0.556), (1.5, 0.5), (1.33, 0.333).

    Three GPUs cost more than four and are slower, so they are no vertex; the others turn left: the slope from 1 to 2 is
    -0.444 / 0.111 = -4, from 2 to 4 it is -0.222 / 0.222 = -1.
    """
    assert lower_left(np.arange(1, 5), np.array([[1.0, 1.8, 2.0, 3.0]])).tolist() == [[True, True, False, True]]


def test_the_hull_starts_at_the_least_consumption_even_when_superlinear() -> None:
    """With s = 1, 2.5, 3 on 1, 2, 4 GPUs: k/s = 1, 0.8, 1.33, so one GPU is dominated by two."""
    assert lower_left(np.array([1, 2, 4]), np.array([[1.0, 2.5, 3.0]])).tolist() == [[False, True, True]]


def test_convex_rows_keep_every_point_beside_rows_that_do_not() -> None:
    """A row that is convex as it stands is recognised without hiding its neighbours."""
    gpus = np.array([1, 2, 4, 8])
    speedup = np.array([[1.0, 1.8, 3.0, 4.4], [1.0, 1.8, 1.0, 4.4], [1.0, 1.9, 3.4, 5.5]])
    assert lower_left(gpus, speedup).tolist() == [[True] * 4, [True, True, False, True], [True] * 4]


@pytest.mark.parametrize("load", [1.0, 0.1, 1 / 3, 1e6 / 7, 1e-6])
def test_rounding_makes_no_vertices(load: float) -> None:
    """With s(k) = k each width costs the same but for rounding; the widest is the one vertex, at any load."""
    gpus = np.arange(1.0, 65.0)
    marked = lower_left_hull((load * gpus / gpus)[None], (load / gpus)[None])
    assert np.flatnonzero(marked[0]).tolist() == [63]
    # s = 0.4 + 0.6 k is a line, and so is its image: two vertices.
    line = 0.4 + 0.6 * gpus
    assert np.flatnonzero(lower_left_hull((load * gpus / line)[None], (load / line)[None])[0]).tolist() == [0, 63]


@pytest.mark.parametrize("per_unit", [1.0, 1e-6, 1e6])
def test_rounding_makes_no_vertices_in_convex_order_either(per_unit: float) -> None:
    """A row that looks sorted and convex by a few units in the last place only is treated like any other."""
    same_cost = np.array([[1.0, 1.0 + 1e-15, 2.0]]), np.array([[3.0, 2.0, 1.0]])
    same_slope = np.array([[1.0, 2.0, 3.0]]), np.array([[3.0, 2.0 - 1e-14, 1.0]])
    assert lower_left_hull(same_cost[0] * per_unit, same_cost[1]).tolist() == [[False, True, True]]
    assert lower_left_hull(same_slope[0] * per_unit, same_slope[1]).tolist() == [[True, False, True]]
    # A difference of 1e-9 is the user's own.
    assert lower_left_hull(np.array([[1.0, 1.0 + 1e-9, 2.0]]), same_cost[1]).all()


@given(st.integers(0, 2**32 - 1))
def test_the_concave_hull_is_nowhere_below_the_table(seed: int) -> None:
    """Not even by the rounding of an interpolation, as between the ends of a table that is a line."""
    slope, start = np.random.default_rng(seed).random((2, 5, 1))
    gpus = np.arange(1, 33)
    line = start + slope * gpus
    hull = monotone_concave_hull(gpus, line)
    assert (hull >= line).all()
    assert hull == pytest.approx(line, rel=1e-12)
    assert describe_hull_changes(gpus, line) == ""


def test_flat_ends_stop_at_the_least_consumption() -> None:
    """With s = 1, 2, 2 on 1, 2, 4 GPUs: two GPUs are as fast as four and cost half."""
    assert lower_left(np.array([1, 2, 4]), np.array([[1.0, 2.0, 2.0]])).tolist() == [[False, True, False]]


@pytest.mark.parametrize(
    ("consumption", "value", "message"),
    [
        (
            [[1.0], [np.nan]],
            [[1.0], [1.0]],
            r"^consumption: entry \[1\]\[0\]: got nan; numbers, or inf, are",
        ),
        (
            [[1.0, 2.0]],
            [[2.0, -INF]],
            r"^value: entry \[0\]\[1\]: got -inf; .*; give inf for a width that is",
        ),
        (
            [[1.0], [INF]],
            [[1.0], [1.0]],
            r"^consumption: row 1 has no point whose consumption and value are",
        ),
        ([[1.0, INF]], [[INF, 1.0]], r"^consumption: row 0 has no point .* both finite; allow at least one"),
    ],
)
def test_points_without_a_hull_are_refused(
    consumption: list[object], value: list[object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN, minus infinity and empty rows are named with their place."""
    monkeypatch.setattr("optplan.speedup.hulls._BLOCK_ROWS", 1)
    with pytest.raises(DataError, match=message):
        lower_left_hull(np.array(consumption, dtype=np.float64), np.array(value, dtype=np.float64))


tables = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 3), st.integers(1, 8)),
    elements=st.integers(1, 24).map(lambda quarters: quarters / 4),
)
steps = st.lists(st.integers(1, 5), min_size=8, max_size=8)


@given(tables, steps)
def test_the_concave_hull_is_the_highest_chord_of_the_running_maximum(speedup: FloatArray, step: list[int]) -> None:
    """By definition: the best mixture of two widths, each with idle GPUs allowed, that uses k GPUs on average."""
    gpus = np.cumsum(step)[: speedup.shape[1]]
    hull = monotone_concave_hull(gpus, speedup)
    best = np.maximum.accumulate(speedup, axis=1)
    for row, at in np.ndindex(*speedup.shape):
        chords = [
            best[row, i] + (best[row, j] - best[row, i]) * (gpus[at] - gpus[i]) / max(gpus[j] - gpus[i], 1)
            for i in range(at + 1)
            for j in range(at, len(gpus))
        ]
        assert hull[row, at] == pytest.approx(max(chords), rel=1e-12)
    assert (hull >= speedup).all()
    assert (np.diff(hull, axis=1) >= 0).all()
    assert monotone_concave_hull(gpus, hull) == pytest.approx(hull, rel=1e-12)
    # One row alone gives the same in one dimension.
    assert (monotone_concave_hull(gpus, speedup[0]) == hull[0]).all()


@given(tables, steps)
def test_the_lower_left_hull_is_the_concave_hull_less_its_dominated_piece(speedup: FloatArray, step: list[int]) -> None:
    """The map to (k/s, 1/s) takes hull to hull; what lies left of the largest s(k)/k costs more and is slower."""
    gpus = np.cumsum(step)[: speedup.shape[1]]
    efficiency = speedup / gpus
    # Of equally efficient widths the widest is fastest.
    start = efficiency.shape[1] - 1 - np.argmax(efficiency[:, ::-1] >= efficiency.max(axis=1)[:, None] - 1e-12, axis=1)
    undominated = np.arange(gpus.size) >= start[:, None]
    concave = lower_left_hull(
        np.broadcast_to(gpus.astype(float), speedup.shape), -np.maximum.accumulate(speedup, axis=1)
    )
    assert (lower_left(gpus, speedup) == (concave & undominated)).all()


def test_the_concave_hull_by_hand() -> None:
    """With s = 1, 3, 2, 5 on 1, 2, 3, 5 GPUs: idle GPUs give 1, 3, 3, 5; from 2 to 5 GPUs the chord is 3 + 2/3 at 3."""
    gpus, speedup = np.array([1, 2, 3, 5]), np.array([1.0, 3.0, 2.0, 5.0])
    assert monotone_concave_hull(gpus, speedup) == pytest.approx([1.0, 3.0, 3 + 2 / 3, 5.0], rel=1e-15)
    # Beyond the fastest width the hull is flat, and a curve that starts above k keeps its start.
    assert monotone_concave_hull(gpus, np.array([2.0, 3.0, 1.0, 2.0])).tolist() == [2.0, 3.0, 3.0, 3.0]


def test_changes_of_the_hull_are_described() -> None:
    """A warning names the widths that are raised, the largest raise and where more GPUs are slower."""
    gpus = np.array([1, 2, 3, 4])
    assert describe_hull_changes(gpus, np.array([1.0, 1.5, 1.75, 1.8])) == ""
    # The chord from 1 to 3 GPUs is 2 at 2 GPUs instead of 1.6: 25 % more. Nothing falls.
    assert describe_hull_changes(gpus, np.array([1.0, 1.6, 3.0, 3.5])) == (
        "the non-decreasing concave hull raises the speedup at 2 GPUs, at most by 25 % (at 2 GPUs, from 1.6 to 2)"
    )
    # In the second epoch 4 GPUs fall from 2.5 to 2: up 25 %; 2 GPUs need 1.75 and have 1.7.
    assert describe_hull_changes(gpus, np.array([[1.0, 1.5, 1.75, 1.8], [1.0, 1.7, 2.5, 2.0]])) == (
        "the non-decreasing concave hull raises the speedup at 2, 4 GPUs, at most by 25 % "
        "(at 4 GPUs in epoch 2 of 2, from 2 to 2.5); at 4 GPUs the table is slower than with fewer GPUs in some epoch"
    )


def test_a_mixture_of_two_widths_by_hand() -> None:
    """With s = 1, 1.8, 2, 3 on 1, 2, 3, 4 GPUs: three GPUs are a mixture of two and four, (1.8 + 3) / 2 = 2.4, not 2.

    Running half of the GPUs' work at 2 and half at 4 GPUs is a fraction p of jobs at 4 with p k/s = 1.5 p:
    (1 - p) 2/1.8 + p 4/3 = 3/2.4 at p = 5/8, and the time (1 - p)/1.8 + p/3 = 1/2.4 is that of the mixture.
    """
    gpus, speedup = np.arange(1, 5), np.array([[1.0, 1.8, 2.0, 3.0]])
    assert speed_on_hull(np.array([3.0]), gpus, speedup) == pytest.approx([2.4], rel=1e-15)
    points = speed_on_hull(np.array([[1.0, 1.5, 2.0, 4.0]]), gpus, speedup)
    assert points == pytest.approx(np.array([[1.0, 1.4, 1.8, 3.0]]), rel=1e-15)
    p = 5 / 8
    assert (1 - p) * 2 / 1.8 + p * 4 / 3 == pytest.approx(3 / 2.4, rel=1e-15)
    assert (1 - p) / 1.8 + p / 3 == pytest.approx(1 / 2.4, rel=1e-15)


@given(tables, steps, st.floats(0.0, 1.0))
def test_mixtures_lie_on_the_hull(speedup: FloatArray, step: list[int], share: float) -> None:
    """The point (k/s, 1/s) of a real width is on the segment between the neighbouring vertices, in every row."""
    gpus = np.cumsum(step)[: speedup.shape[1]]
    marked = lower_left(gpus, speedup)
    ends = [(gpus[row].min(), gpus[row].max()) for row in marked]
    width = np.array([low + share * (high - low) for low, high in ends])
    speed = speed_on_hull(width, gpus, speedup)
    for row, vertices in enumerate(marked):
        corner_k, corner_s = gpus[vertices], speedup[row, vertices]
        on_segment = np.interp(width[row] / speed[row], corner_k / corner_s, 1.0 / corner_s)
        assert 1.0 / speed[row] == pytest.approx(on_segment, rel=1e-9)


@pytest.mark.parametrize("width", [1.0, 1.999, 4.001, np.nan])
def test_widths_off_the_hull_are_refused(width: float) -> None:
    """With s = 1, 2.5, 3 on 1, 2, 4 GPUs: one GPU is dominated, so the hull reaches from 2 to 4."""
    gpus, speedup = np.array([1, 2, 4]), np.array([[1.0, 1.5, 2.0], [1.0, 2.5, 3.0]])
    message = (
        rf"^widths: row 1: got {width:g} GPUs; the row's hull reaches from 2 to 4 GPUs; choose widths in that range$"
    )
    with pytest.raises(DataError, match=message):
        speed_on_hull(np.array([[1.0, 4.0], [3.0, width]]), gpus, speedup)


def test_rounding_at_the_ends_of_the_hull_is_forgiven() -> None:
    """A width beyond the end by a few units in the last place is the end."""
    gpus, speedup = np.array([1, 2, 4]), np.array([[1.0, 1.5, 2.0]])
    assert speed_on_hull(np.array([[1.0 - 1e-15, 4.0 + 2e-15]]), gpus, speedup).tolist() == [[1.0, 2.0]]


def test_rows_keep_their_places_where_others_need_no_hull() -> None:
    """With one width a row vertices are read from the table; what is off its hull is named by its row in the whole."""
    gpus, speedup = np.array([1, 2, 4]), np.array([[1.0, 1.5, 2.0], [1.0, 1.8, 3.0], [1.0, 1.1, 3.0]])
    assert speed_on_hull(np.array([2.0, 3.0, 2.0]), gpus, speedup).tolist() == pytest.approx([1.5, 2.4, 5 / 3])
    with pytest.raises(DataError, match=r"^widths: row 2: got 4\.1 GPUs; the row's hull reaches from 1 to 4 GPUs"):
        speed_on_hull(np.array([2.0, 3.0, 4.1]), gpus, speedup)
    assert speed_on_hull(np.array([2.0, 3.0, 4.1]), gpus, speedup, tolerance=0.1)[2] == 3.0
