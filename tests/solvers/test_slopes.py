"""The slopes engine: independent choices under one budget, against other engines and by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from optplan.errors import DataError, UsageError
from optplan.solvers.slopes import (
    Block,
    Bracket,
    LazyTableBlock,
    OutOfReach,
    SharedTableBlock,
    SlopesFrontier,
    SlopesPoint,
    SlopesSolution,
    SmoothBlock,
    SmoothChoice,
    SmoothForm,
    TableChoice,
    dual_bound,
    evaluate_choices,
    solve_budget,
    trace_frontier,
)
from optplan.solvers.slopes.smooth import FloatArray

RELATIVE = 1e-9
EVERYTHING = Bracket(0.0, math.inf)
SETTINGS = settings(max_examples=80, deadline=None, derandomize=True)


class TableBlock(LazyTableBlock):
    """Rows with their own options, in memory."""

    def __init__(self, consumption: FloatArray, value: FloatArray) -> None:
        rows, options = consumption.shape
        super().__init__(rows, options, lambda start, stop: (consumption[start:stop], value[start:stop]))

    @property
    def consumption(self) -> FloatArray:
        """Return (rows, options) numbers."""
        return np.asarray(self.make(0, self.rows)[0])

    @property
    def value(self) -> FloatArray:
        """Return (rows, options) numbers."""
        return np.asarray(self.make(0, self.rows)[1])


def solved(blocks: list[Block], budget: float, bracket: Bracket | None = None) -> SlopesSolution:
    """Solve, and check what holds of every solution."""
    solution = solve_budget(blocks, budget, bracket=bracket)
    assert isinstance(solution, SlopesSolution)
    size = solution.value + solution.multiplier_right * budget
    assert abs(solution.value - solution.bound) <= RELATIVE * size
    assert solution.consumption <= budget * (1.0 + RELATIVE)
    assert solution.multiplier_left >= solution.multiplier_right >= 0.0
    assert (solution.consumption, solution.value) == evaluate_choices(blocks, solution.choices)
    tables = [choice for choice in solution.choices if isinstance(choice, TableChoice)]
    assert sum(np.count_nonzero(choice.fraction) for choice in tables) <= 1
    return solution


def point_at(frontier: SlopesFrontier, budget: float) -> SlopesPoint:
    """Look a feasible budget up."""
    point = frontier.at(budget)
    assert isinstance(point, SlopesPoint)
    return point


def point_for(frontier: SlopesFrontier, value: float) -> SlopesPoint:
    """Look a value up that can be reached."""
    point = frontier.for_value(value)
    assert isinstance(point, SlopesPoint)
    return point


def solve_linear_program(block: TableBlock, budget: float) -> float:
    """Return the optimum by the general engine: shares of each row's options."""
    rows, options = block.consumption.shape
    allowed = np.isfinite(block.consumption) & np.isfinite(block.value)
    result = linprog(
        np.where(allowed, block.value, 0.0).ravel(),
        A_ub=np.where(allowed, block.consumption, 0.0).reshape(1, -1),
        b_ub=[budget],
        A_eq=np.kron(np.eye(rows), np.ones(options)),
        b_eq=np.ones(rows),
        bounds=[(0.0, float(entry)) for entry in allowed.ravel()],
        method="highs",
    )
    assert result.status == 0
    return float(result.fun)


def least_and_most(block: TableBlock) -> tuple[float, float]:
    """Return the least consumption, and the least consumption that reaches the least value."""
    allowed = np.isfinite(block.consumption) & np.isfinite(block.value)
    consumption = np.where(allowed, block.consumption, math.inf)
    value = np.where(allowed, block.value, math.inf)
    best = value == value.min(axis=1, keepdims=True)
    most = np.where(best, consumption, math.inf).min(axis=1)
    return float(consumption.min(axis=1).sum()), float(most.sum())


@st.composite
def tables(draw: st.DrawFn) -> TableBlock:
    """Draw a few rows; whole numbers make ties, and some options are not allowed."""
    rows, options = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    if draw(st.booleans()):
        number = st.integers(0, 6).map(float)
    else:
        number = st.floats(1e-3, 10.0)
    entries = st.lists(number, min_size=rows * options, max_size=rows * options)
    consumption = np.array(draw(entries)).reshape(rows, options)
    value = np.array(draw(entries)).reshape(rows, options)
    holes = st.lists(st.tuples(st.integers(0, rows - 1), st.integers(1, 6)), max_size=4)
    for row, option in draw(holes):
        if option < options:
            (consumption, value)[(row + option) % 2][row, option] = math.inf
    return TableBlock(consumption, value)


def random_curves(rows: int, options: int, noise: float, seed: int) -> TableBlock:
    """Return rows like speedup tables: k / s and 1 / s, with scales over several magnitudes."""
    rng = np.random.default_rng(seed)
    k = np.arange(1.0, options + 1.0)
    speedup = k ** rng.uniform(0.2, 1.1, (rows, 1)) * np.exp(noise * rng.normal(size=(rows, 1)))
    speedup *= np.exp(noise * rng.normal(size=(rows, options)))
    scale = rng.lognormal(0.0, 1.0, (rows, 1))
    return TableBlock(scale * k / speedup, scale * rng.uniform(0.5, 3.0, (rows, 1)) / speedup)


def hand_block() -> TableBlock:
    """Two rows whose hulls fit on paper.

    Row 0 goes (1, 10) -> (2, 4) -> (4, 2): slopes 6 and 1; (3, 4) lies above the hull.
    Row 1 goes (2, 9) -> (4, 3): slope 3.
    """
    inf = math.inf
    return TableBlock(
        np.array([[1.0, 2.0, 3.0, 4.0], [4.0, 2.0, inf, 1.0]]),
        np.array([[10.0, 4.0, 4.0, 2.0], [3.0, 9.0, 0.0, inf]]),
    )


class TestOneBudget:
    """``solve_budget`` on tables."""

    def test_hand_case_between_options(self) -> None:
        """Budget 5 pays row 0's first segment and half of row 1's.

        Least consumption 1 + 2 = 3 at value 19. Slope 6 takes 1 (4, 13); slope 3 offers 2 for a
        value of 6, of which 1 is left: half of it gives (5, 10).
        """
        solution = solved([hand_block()], 5.0)
        assert (solution.consumption, solution.value) == (5.0, 10.0)
        assert (solution.multiplier_left, solution.multiplier_right) == (3.0, 3.0)
        (choice,) = solution.choices
        assert isinstance(choice, TableChoice)
        assert choice.lower.tolist() == [1, 1]
        assert choice.upper.tolist() == [1, 0]
        assert choice.fraction.tolist() == [0.0, 0.5]

    @pytest.mark.parametrize(
        ("budget", "value", "left", "right"),
        [(3.0, 19.0, math.inf, 6.0), (4.0, 13.0, 6.0, 3.0), (6.0, 7.0, 3.0, 1.0),
         (8.0, 5.0, 1.0, 0.0), (100.0, 5.0, 0.0, 0.0)],
    )  # fmt: skip
    def test_multipliers_are_one_sided_at_breakpoints(
        self, budget: float, value: float, left: float, right: float
    ) -> None:
        """At a breakpoint less budget costs the slope before it, more saves the slope after it."""
        solution = solved([hand_block()], budget)
        assert solution.value == value
        assert (solution.multiplier_left, solution.multiplier_right) == (left, right)

    @SETTINGS
    @given(tables(), st.floats(0.0, 1.2))
    def test_agrees_with_linear_programming(self, block: TableBlock, share: float) -> None:
        """The optimum over mixtures is the linear program's, from the least budget to beyond."""
        least, most = least_and_most(block)
        budget = least + share * (most - least)
        expected = solve_linear_program(block, budget)
        solution = solved([block], budget)
        size = expected + solution.multiplier_right * budget
        assert solution.value == pytest.approx(expected, rel=1e-7, abs=1e-7 * size)

    @SETTINGS
    @given(tables(), st.floats(0.0, 1.0), st.floats(0.0, 20.0))
    def test_any_multiplier_gives_a_bound(self, block: TableBlock, share: float, multiplier: float) -> None:
        """L(mu) never exceeds the optimum."""
        least, most = least_and_most(block)
        budget = least + share * (most - least)
        solution = solved([block], budget)
        bound = dual_bound([block], multiplier, budget)
        assert bound <= solution.value + RELATIVE * (solution.value + multiplier * budget)

    def test_too_small_a_budget_is_an_answer(self) -> None:
        """Infeasible is told with the least consumption, here 1 + 2."""
        assert solve_budget([hand_block()], 2.5) == OutOfReach(asked=2.5, least=3.0)
        assert trace_frontier([hand_block()]).at(2.5) == OutOfReach(asked=2.5, least=3.0)

    def test_budget_at_the_least_consumption_is_feasible(self) -> None:
        """Neither the order of the sum nor a last-place error makes the least budget infeasible."""
        block = random_curves(3000, 8, 0.05, seed=1)
        least = 0.0
        for consumption in block.consumption.min(axis=1).tolist():
            least += consumption
        for budget in (least, least * (1.0 - 1e-13)):
            solution = solved([block], budget)
            assert solution.multiplier_left == math.inf
            assert solution.value == pytest.approx(
                np.take_along_axis(block.value, block.consumption.argmin(axis=1)[:, None], axis=1).sum(),
                rel=RELATIVE,
            )

    def test_budget_beyond_the_most_costs_nothing(self) -> None:
        """With budget to spare every row has its least value and the multiplier is 0."""
        block = random_curves(50, 8, 0.05, seed=2)
        solution = solved([block], 10.0 * block.consumption.max(axis=1).sum())
        assert solution.multiplier_left == solution.multiplier_right == 0.0
        assert solution.bound == pytest.approx(block.value.min(axis=1).sum(), rel=1e-14)

    def test_equal_rows_split_only_one(self) -> None:
        """Of 1000 equal rows with one segment each, 499 move on and one does half of it.

        Every row: (1, 2) -> (3, 1). Budget 1000 + 2 * 499.5 = 1999; value 2000 - 499.5.
        """
        block = TableBlock(np.tile([1.0, 3.0], (1000, 1)), np.tile([2.0, 1.0], (1000, 1)))
        solution = solved([block], 1999.0)
        assert solution.value == pytest.approx(1500.5, rel=1e-14)
        (choice,) = solution.choices
        assert isinstance(choice, TableChoice)
        assert np.count_nonzero(choice.lower) == 499
        assert choice.fraction.max() == pytest.approx(0.5, rel=1e-9)

    @pytest.mark.parametrize("factor", [1e-9, 1e9])
    def test_units_do_not_matter(self, factor: float) -> None:
        """Scaling consumption and value changes the answer by the scale and nothing else."""
        block = random_curves(40, 12, 0.1, seed=3)
        budget = 1.7 * least_and_most(block)[0]
        plain = solved([block], budget)
        scaled = solved([TableBlock(block.consumption * factor, block.value)], budget * factor)
        dear = solved([TableBlock(block.consumption, block.value * factor)], budget)
        assert scaled.value == pytest.approx(plain.value, rel=RELATIVE)
        assert dear.value == pytest.approx(plain.value * factor, rel=RELATIVE)
        assert dear.bound == pytest.approx(plain.bound * factor, rel=RELATIVE)

    @SETTINGS
    @given(tables(), st.floats(0.0, 1.0), st.randoms(use_true_random=False))
    def test_order_does_not_matter(self, block: TableBlock, share: float, random: object) -> None:
        """Reordering rows and options changes neither value nor bound."""
        shuffle = random.shuffle  # type: ignore[attr-defined]
        rows, options = map(list, map(range, block.consumption.shape))
        shuffle(rows)
        shuffle(options)
        least, most = least_and_most(block)
        budget = least + share * (most - least)
        other = TableBlock(block.consumption[rows][:, options], block.value[rows][:, options])
        plain, shuffled = solved([block], budget), solved([other], budget)
        size = plain.value + plain.multiplier_right * budget
        assert abs(plain.value - shuffled.value) <= RELATIVE * size
        assert abs(plain.bound - shuffled.bound) <= RELATIVE * size

    def test_options_come_in_any_order(self) -> None:
        """Rows all of whose options are on the hull may list them backwards, some or all rows."""
        block = random_curves(40, 12, 0.0, seed=18)
        budget = 1.7 * least_and_most(block)[0]
        expected = solved([block], budget).value
        for rows in (slice(0, 40), slice(0, 40, 2), slice(3, 4)):
            consumption, value = block.consumption.copy(), block.value.copy()
            consumption[rows] = consumption[rows, ::-1]
            value[rows] = value[rows, ::-1]
            backwards = TableBlock(consumption, value)
            assert solved([backwards], budget).value == pytest.approx(expected, rel=1e-13)
            frontier = trace_frontier([backwards])
            assert point_at(frontier, budget).value == pytest.approx(expected, rel=1e-13)

    def test_empty_blocks_do_no_harm(self) -> None:
        """A block without rows decides nothing."""
        empty = TableBlock(np.empty((0, 3)), np.empty((0, 3)))
        assert solved([empty, hand_block()], 5.0).value == 10.0


class TestLargeTables:
    """Instances that are sampled to bracket the multiplier."""

    @pytest.mark.parametrize("noise", [0.0, 0.1])
    @pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
    def test_sampling_changes_nothing(self, noise: float, share: float) -> None:
        """The sampled bracket and the full one give the same choices."""
        block = random_curves(20_000, 64, noise, seed=4)
        least, most = least_and_most(block)
        budget = least + share * (most - least)
        sampled, full = solved([block], budget), solved([block], budget, EVERYTHING)
        assert sampled.value == pytest.approx(full.value, rel=1e-12)
        assert sampled.multiplier_right == full.multiplier_right
        for one, other in zip(sampled.choices, full.choices, strict=True):
            assert isinstance(one, TableChoice)
            assert isinstance(other, TableChoice)
            assert np.array_equal(one.lower, other.lower)

    def test_misleading_sample_is_survived(self) -> None:
        """One row, never sampled, that outweighs all others does not spoil the optimum."""
        block = random_curves(20_000, 64, 0.0, seed=5)
        block.consumption[777] *= 1e9
        block.value[777] *= 1e5
        least, most = least_and_most(block)
        budget = least + 0.3 * (most - least)
        full = solved([block], budget, EVERYTHING)
        assert solved([block], budget).value == pytest.approx(full.value, rel=1e-12)

    @pytest.mark.parametrize("bracket", [Bracket(1e3, 1e4), Bracket(1e-8, 1e-7), Bracket(0.0, 0.0)])
    def test_wrong_bracket_is_survived(self, bracket: Bracket) -> None:
        """A caller's bracket that misses the multiplier is replaced."""
        assert solved([hand_block()], 5.0, bracket).value == 10.0

    def test_bracket_ending_at_the_breakpoint(self) -> None:
        """At budget 4 the multipliers are 6 and 3: a bracket that shows one of them is not enough."""
        for bracket in (Bracket(2.0, 5.0), Bracket(4.0, 7.0), Bracket(4.0, 5.0)):
            solution = solved([hand_block()], 4.0, bracket)
            assert (solution.multiplier_left, solution.multiplier_right) == (6.0, 3.0)


class TestBlockKinds:
    """Other ways of giving the same tables."""

    def test_lazy_rows_equal_rows_in_memory(self) -> None:
        """Rows made on demand, in single precision even, give what the same rows give."""
        block = random_curves(300, 9, 0.1, seed=6)
        low, high = block.consumption.astype(np.float32), block.value.astype(np.float32)
        lazy = LazyTableBlock(300, 9, lambda start, stop: (low[start:stop], high[start:stop]))
        kept = TableBlock(low.astype(np.float64), high.astype(np.float64))
        budget = 1.4 * least_and_most(kept)[0]
        assert solved([lazy], budget).value == solved([kept], budget).value

    @pytest.mark.parametrize("share", [0.0, 0.1, 0.37, 0.8, 1.0])
    @pytest.mark.parametrize("weights", [[1.0], [1.0, 2.0, 0.0]])
    def test_shared_rows_equal_rows_one_by_one(self, share: float, weights: list[float]) -> None:
        """A shared table is its rows: same value, bound and multipliers, one row mixed at most."""
        rng = np.random.default_rng(7)
        consumption = np.array([math.inf, 5.0, 1.0, 2.0, 9.0, 2.5])
        value = np.array([0.0, 3.0, 8.0, 5.0, 2.0, 7.0])
        scale = np.append(rng.lognormal(size=29), 0.0)
        weight = rng.choice(weights, size=30)
        shared = SharedTableBlock(consumption, value, scale, weight)
        allowed = np.isfinite(consumption)
        factor = (scale * weight)[:, None]
        rows = TableBlock(scale[:, None] * consumption[allowed], factor * value[allowed])
        least, most = least_and_most(rows)
        budget = least + share * (most - least)
        one, other = solved([shared], budget), solved([rows], budget)
        size = other.value + other.multiplier_right * budget
        assert abs(one.value - other.value) <= RELATIVE * size
        assert one.multiplier_right == pytest.approx(other.multiplier_right, rel=RELATIVE)
        frontiers = [trace_frontier([block]) for block in (shared, rows)]
        points = [point_at(frontier, budget) for frontier in frontiers]
        assert points[0].value == pytest.approx(points[1].value, rel=RELATIVE)
        assert frontiers[0].slope.size < frontiers[1].slope.size

    def test_nearly_equal_slopes_stay_in_order(self) -> None:
        """Slopes 2e-11 apart, reversed by the rounding of scales, do not take a row's second step first.

        Every row steps from consumption 1e6 by 1 five times, saving 1, 1 - 2e-11, ...; scale and weight round
        each of these.
        """
        steps = np.arange(6.0)
        consumption, value = 1e6 + steps, 10.0 - steps + 1e-11 * steps * (steps - 1.0)
        rng = np.random.default_rng(19)
        scale = rng.uniform(0.9, 1.1, 8)
        block = SharedTableBlock(consumption, value, scale, np.ones(8) + 1e-12 * np.arange(8))
        for added in np.linspace(0.0, 5.0, 101).tolist():
            solution = solved([block], (1e6 + added) * scale.sum())
            assert solution.value == pytest.approx((10.0 - added) * scale.sum(), rel=1e-7)

    def test_blocks_of_all_kinds_together(self) -> None:
        """Splitting rows over blocks changes nothing, and choices come back block by block."""
        block = random_curves(60, 7, 0.1, seed=8)
        c, v = block.consumption, block.value
        parts: list[Block] = [
            TableBlock(c[:20], v[:20]),
            LazyTableBlock(39, 7, lambda i, j: (c[20 + i : 20 + j], v[20 + i : 20 + j])),
            SharedTableBlock(c[59], v[59], np.ones(1), np.ones(1)),
        ]
        budget = 1.3 * least_and_most(block)[0]
        split, whole = solved(parts, budget), solved([block], budget)
        assert split.value == pytest.approx(whole.value, rel=1e-13)
        (reference,) = whole.choices
        assert isinstance(reference, TableChoice)
        joined = np.concatenate([choice.lower for choice in split.choices if isinstance(choice, TableChoice)])
        assert np.array_equal(joined, reference.lower)


def smooth_block(form: SmoothForm, rows: int, seed: int) -> SmoothBlock:
    """Return rows with random scales, weights, parameters and limits."""
    rng = np.random.default_rng(seed)
    least = rng.uniform(0.5, 2.0, rows)
    return SmoothBlock(
        form,
        scale=rng.lognormal(size=rows),
        weight=rng.uniform(0.5, 2.0, rows),
        parameter=rng.uniform(0.05, 0.95, rows),
        width_min=least,
        width_max=least * rng.uniform(1.0, 50.0, rows),
    )


def single(form: SmoothForm, parameter: float, **fields: float) -> SmoothBlock:
    """Return one smooth row; scale and weight 1 and widths 1 to 64 unless given."""
    numbers = {"scale": 1.0, "weight": 1.0, "width_min": 1.0, "width_max": 64.0} | fields
    return SmoothBlock(
        form,
        parameter=np.array([parameter]),
        **{name: np.array([number]) for name, number in numbers.items()},
    )


def width_of(solution: SlopesSolution) -> float:
    """Return the only row's width."""
    (choice,) = solution.choices
    assert isinstance(choice, SmoothChoice)
    return float(choice.width[0])


def smooth_extremes(blocks: list[SmoothBlock]) -> tuple[float, float]:
    """Return the consumption with all widths least, and with all widths largest."""
    return (
        sum(float(block.consumption(block.width_min).sum()) for block in blocks),
        sum(float(block.consumption(block.width_max).sum()) for block in blocks),
    )


class TestSmooth:
    """Closed-form curves."""

    def test_power_law_by_hand(self) -> None:
        """Power s = sqrt(k), budget 3: consumption sqrt(k) = 3 is width 9, value 1/3.

        mu = a / ((1 - a) k) = 1 / 9.
        """
        solution = solved([single(SmoothForm.POWER_LAW, 0.5)], 3.0)
        assert width_of(solution) == pytest.approx(9.0, rel=1e-12)
        assert solution.value == pytest.approx(1.0 / 3.0, rel=1e-12)
        assert solution.multiplier_left == pytest.approx(1.0 / 9.0, rel=1e-12)
        assert solution.multiplier_left == solution.multiplier_right

    def test_amdahl_by_hand(self) -> None:
        """Fraction f = 1/5, budget 2: consumption k/5 + 4/5 = 2 is width 6, value 1/5 + 4/30 = 1/3.

        mu = (1 - f) / (f k^2) = 4 / 36.
        """
        solution = solved([single(SmoothForm.AMDAHL, 0.2)], 2.0)
        assert width_of(solution) == pytest.approx(6.0, rel=1e-12)
        assert solution.value == pytest.approx(1.0 / 3.0, rel=1e-12)
        assert solution.multiplier_right == pytest.approx(1.0 / 9.0, rel=1e-12)

    @pytest.mark.parametrize(
        ("form", "parameter", "width", "least"),
        [
            (SmoothForm.POWER_LAW, 1.0, 64.0, 1.0),
            (SmoothForm.POWER_LAW, 0.0, 1.0, 1.0),
            (SmoothForm.AMDAHL, 0.0, 64.0, 1.0),
            (SmoothForm.AMDAHL, 1.0, 1.0, 1.0),
        ],
    )
    def test_extreme_parameters(self, form: SmoothForm, parameter: float, width: float, least: float) -> None:
        """Where width is free the widest is taken, where it is useless the narrowest."""
        block = single(form, parameter)
        for budget in (least, 5.0):
            solution = solved([block], budget)
            assert width_of(solution) == width
            assert solution.consumption == least
        assert solve_budget([block], 0.9) == OutOfReach(asked=0.9, least=least)

    @pytest.mark.parametrize("form", list(SmoothForm))
    def test_both_ends(self, form: SmoothForm) -> None:
        """At the least budget all widths are least, at the most all are largest."""
        block = smooth_block(form, 6, seed=9)
        least, most = smooth_extremes([block])
        first, last, rich = (solved([block], b) for b in (least, most, 2.0 * most))
        assert first.multiplier_left == math.inf
        assert first.value == pytest.approx(block.value(block.width_min).sum(), rel=1e-13)
        assert last.multiplier_right == 0.0 < last.multiplier_left
        assert rich.multiplier_left == 0.0
        assert rich.value == last.value == pytest.approx(block.value(block.width_max).sum())

    @pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
    @pytest.mark.parametrize("form", list(SmoothForm))
    def test_agrees_with_general_optimisation(self, form: SmoothForm, share: float) -> None:
        """The optimum is what a general engine finds over log widths."""
        block = smooth_block(form, 4, seed=10)
        least, most = smooth_extremes([block])
        budget = least + share * (most - least)
        solution = solved([block], budget)
        limits = np.log(block.width_min), np.log(block.width_max)
        result = minimize(
            lambda x: float(block.value(np.exp(x)).sum()),
            0.5 * (limits[0] + limits[1]) - 0.4,
            method="SLSQP",
            bounds=list(zip(*limits, strict=True)),
            constraints={
                "type": "ineq",
                "fun": lambda x: budget - float(block.consumption(np.exp(x)).sum()),
            },
            options={"ftol": 1e-12, "maxiter": 500},
        )
        assert result.success
        assert solution.value == pytest.approx(result.fun, rel=1e-6)
        assert solution.consumption == pytest.approx(budget, rel=1e-12)

    def test_widths_may_be_huge(self) -> None:
        """Limits that never bind do no harm: s = sqrt(k) and budget b give k = b^2."""
        block = single(SmoothForm.POWER_LAW, 0.5, width_max=1e30)
        for budget in (2.0, 1e5, 1e14):
            assert width_of(solved([block], budget)) == pytest.approx(budget**2, rel=1e-10)
        frontier = trace_frontier([block])
        assert point_at(frontier, 1e5).value == pytest.approx(1e-5, rel=1e-10)
        assert point_for(frontier, 1e-5).consumption == pytest.approx(1e5, rel=1e-10)

    def test_amdahl_has_a_least_value(self) -> None:
        """With f = 1/4 a width of 12 takes 1/4 + 3/48 = 5/16; less cannot be reached."""
        frontier = trace_frontier([single(SmoothForm.AMDAHL, 0.25, width_max=12.0)])
        assert frontier.for_value(0.3) == OutOfReach(asked=0.3, least=0.3125)
        # 1/4 + 3/4 / k = 1/2 at k = 3, which consumes 3/4 + 3/4.
        assert point_for(frontier, 0.5).consumption == pytest.approx(1.5, rel=1e-12)

    def test_rows_without_weight_or_scale_stay_narrow(self) -> None:
        """What brings nothing gets nothing."""
        block = SmoothBlock(
            SmoothForm.POWER_LAW,
            scale=np.array([1.0, 1.0, 0.0]),
            weight=np.array([1.0, 0.0, 1.0]),
            parameter=np.full(3, 0.5),
            width_min=np.ones(3),
            width_max=np.full(3, 64.0),
        )
        # Row 1 consumes 1 and row 2 nothing, so row 0 has 2: width 4.
        (choice,) = solved([block], 3.0).choices
        assert isinstance(choice, SmoothChoice)
        assert choice.width.tolist() == pytest.approx([4.0, 1.0, 1.0], rel=1e-12)

    @pytest.mark.parametrize("factor", [1e-9, 1e9])
    def test_units_do_not_matter(self, factor: float) -> None:
        """Scaling scales or weights by 1e9 either way scales the answer."""
        block = smooth_block(SmoothForm.AMDAHL, 5, seed=11)
        least, most = smooth_extremes([block])
        budget = 0.5 * (least + most)
        fields = vars(block) | {"scale": block.scale * factor}
        big = SmoothBlock(**{name: fields[name] for name in SmoothBlock.__dataclass_fields__})
        plain, scaled = solved([block], budget), solved([big], budget * factor)
        assert scaled.value == pytest.approx(plain.value * factor, rel=RELATIVE)
        assert scaled.multiplier_right == pytest.approx(plain.multiplier_right, rel=RELATIVE)


def mixed_blocks() -> list[Block]:
    """Return tables and both smooth forms."""
    return [
        smooth_block(SmoothForm.POWER_LAW, 3, seed=12),
        random_curves(6, 8, 0.1, seed=13),
        smooth_block(SmoothForm.AMDAHL, 3, seed=14),
    ]


def sampled_table(block: SmoothBlock, points: int) -> TableBlock:
    """Return the curves of a smooth block as tables of many widths."""
    shares = np.linspace(0.0, 1.0, points)
    widths = [block.width_min * (block.width_max / block.width_min) ** share for share in shares]
    return TableBlock(
        np.stack([block.consumption(width) for width in widths], axis=1),
        np.stack([block.value(width) for width in widths], axis=1),
    )


class TestMixed:
    """Tables and smooth curves in one instance."""

    @pytest.mark.parametrize("share", np.linspace(0.0, 1.0, 9).tolist())
    def test_agrees_with_finely_sampled_curves(self, share: float) -> None:
        """Replacing the curves by 2001 points each worsens the optimum by next to nothing."""
        blocks = mixed_blocks()
        tables_only: list[Block] = [
            sampled_table(block, 2001) if isinstance(block, SmoothBlock) else block for block in blocks
        ]
        frontier = trace_frontier(blocks)
        least, most = frontier.least_consumption, frontier.most_consumption
        budget = least + share * (most - least)
        exact, approximate = solved(blocks, budget), solved(tables_only, budget)
        assert exact.value <= approximate.value * (1.0 + RELATIVE)
        assert exact.value == pytest.approx(approximate.value, rel=1e-5)

    def test_look_ups_solve_exactly(self) -> None:
        """``at``, ``for_value`` and ``select`` agree with ``solve_budget`` at every budget."""
        frontier = trace_frontier(mixed_blocks())
        least, most = frontier.least_consumption, frontier.most_consumption
        for budget in np.linspace(least, most, 41).tolist():
            solution, point = solved(mixed_blocks(), budget), point_at(frontier, budget)
            assert point.value == pytest.approx(solution.value, rel=RELATIVE)
            assert point.multiplier_right == pytest.approx(solution.multiplier_right, rel=1e-7)
            assert point_for(frontier, point.value).consumption == pytest.approx(budget, rel=1e-8)
            selected = frontier.select(budget)
            assert isinstance(selected, SlopesSolution)
            assert selected.value == pytest.approx(solution.value, rel=RELATIVE)

    def test_curve_lies_on_the_frontier(self) -> None:
        """Drawn points reach from end to end, fall, are convex, and are optimal."""
        frontier = trace_frontier(mixed_blocks())
        curve = frontier.curve(200)
        assert curve.consumption.size <= 200
        assert curve.consumption[0] == pytest.approx(frontier.least_consumption, rel=1e-12)
        assert curve.value[-1] == pytest.approx(frontier.least_value, rel=1e-12)
        assert_convex_and_falling(curve.consumption, curve.value)
        for consumption, value in zip(*curve, strict=True):
            assert point_at(frontier, consumption).value == pytest.approx(value, rel=1e-9)


def assert_convex_and_falling(consumption: FloatArray, value: FloatArray) -> None:
    """Check a curve; steps too short for a slope are left out."""
    distinct = np.append(True, np.diff(consumption) > 1e-9 * consumption[1:])
    slopes = np.diff(value[distinct]) / np.diff(consumption[distinct])
    assert (np.diff(consumption) >= 0.0).all()
    assert (np.diff(value) <= 1e-12 * value[:-1]).all()
    assert (slopes[1:] >= slopes[:-1] - 1e-6 * np.abs(slopes[:-1])).all()


class TestFrontier:
    """``trace_frontier`` on tables."""

    def test_hand_case(self) -> None:
        """The frontier of the hand case is (3, 19), (4, 13), (6, 7), (8, 5)."""
        frontier = trace_frontier([hand_block()])
        assert frontier.consumption.tolist() == [3.0, 4.0, 6.0, 8.0]
        assert frontier.value.tolist() == [19.0, 13.0, 7.0, 5.0]
        assert frontier.slope.tolist() == [6.0, 3.0, 1.0]
        assert frontier.at(5.0) == SlopesPoint(5.0, 10.0, 3.0, 3.0)
        assert frontier.at(6.0) == SlopesPoint(6.0, 7.0, 3.0, 1.0)
        assert frontier.at(3.0) == SlopesPoint(3.0, 19.0, math.inf, 6.0)
        assert frontier.at(50.0) == SlopesPoint(8.0, 5.0, 0.0, 0.0)

    def test_least_budget_for_a_value(self) -> None:
        """Value 12 needs a sixth of the segment from (4, 13) to (6, 7); 19 or more needs 3."""
        frontier = trace_frontier([hand_block()])
        assert frontier.for_value(10.0) == SlopesPoint(5.0, 10.0, 3.0, 3.0)
        assert point_for(frontier, 12.0).consumption == pytest.approx(4.0 + 1.0 / 3.0, rel=1e-14)
        assert frontier.for_value(5.0) == SlopesPoint(8.0, 5.0, 1.0, 0.0)
        for value in (19.0, 100.0):
            assert frontier.for_value(value) == SlopesPoint(3.0, 19.0, math.inf, 6.0)
        assert frontier.for_value(4.0) == OutOfReach(asked=4.0, least=5.0)

    @SETTINGS
    @given(tables(), st.lists(st.floats(0.0, 1.1), min_size=1, max_size=4))
    def test_look_ups_agree_with_solving(self, block: TableBlock, shares: list[float]) -> None:
        """A look-up gives the value, and ``select`` the choices, that solving afresh gives."""
        frontier = trace_frontier([block])
        assert_convex_and_falling(frontier.consumption, frontier.value)
        least, most = least_and_most(block)
        for share in shares:
            budget = least + share * (most - least)
            solution, point = solved([block], budget), point_at(frontier, budget)
            size = solution.value + solution.multiplier_right * budget
            assert abs(point.value - solution.value) <= RELATIVE * size
            selected = frontier.select(budget)
            assert isinstance(selected, SlopesSolution)
            assert abs(selected.value - solution.value) <= RELATIVE * size
            back = point_for(frontier, point.value)
            assert back.consumption <= point.consumption * (1.0 + 1e-6)

    def test_more_budget_never_hurts(self) -> None:
        """Along the frontier the value falls, and so does what more budget saves."""
        frontier = trace_frontier([random_curves(200, 16, 0.2, seed=15)])
        assert_convex_and_falling(frontier.consumption, frontier.value)
        budgets = np.linspace(frontier.least_consumption, frontier.most_consumption, 50)
        points = [point_at(frontier, budget) for budget in budgets.tolist()]
        for before, after in pairwise(points):
            assert after.value <= before.value
            assert after.multiplier_left <= before.multiplier_right

    def test_both_ends_keep_their_accuracy(self) -> None:
        """Value falling over twelve magnitudes is still exact at the far end.

        One row goes (1, 1e6) -> (2, 1), the other (1, 1e-6) -> (2, 5e-7).
        """
        block = TableBlock(np.array([[1.0, 2.0]] * 2), np.array([[1e6, 0.0], [1e-6, 5e-7]]))
        frontier = trace_frontier([block])
        assert frontier.value[-1] == 5e-7
        assert point_at(frontier, 3.5).value == pytest.approx(7.5e-7, rel=1e-13)

    def test_selection_out_of_reach(self) -> None:
        """Choices for an infeasible budget are refused in the same way."""
        frontier = trace_frontier([hand_block()])
        assert frontier.select(1.0) == OutOfReach(asked=1.0, least=3.0)

    def test_curve_is_thinned(self) -> None:
        """A long frontier is drawn by as many breakpoints as asked, ends included."""
        frontier = trace_frontier([random_curves(100, 32, 0.0, seed=16)])
        curve = frontier.curve(20)
        assert curve.consumption.size == 20
        assert curve.consumption[0] == frontier.least_consumption
        assert curve.value[-1] == frontier.least_value
        assert np.isin(curve.value, frontier.value).all()

    def test_drawing_counts_fixed_smooth_rows(self) -> None:
        """Smooth rows that cannot move shift the curve: a width of 4 at s = sqrt(k) adds (2, 1/2)."""
        still = single(SmoothForm.POWER_LAW, 0.5, width_min=4.0, width_max=4.0)
        curve = trace_frontier([hand_block(), still]).curve()
        assert curve.consumption.tolist() == [5.0, 6.0, 8.0, 10.0]
        assert curve.value.tolist() == [19.5, 13.5, 7.5, 5.5]


class TestWrongInput:
    """What is refused, and how it is said."""

    @pytest.mark.parametrize("budget", [-1.0, math.inf, math.nan])
    def test_budget(self, budget: float) -> None:
        """A budget is a finite number of at least 0."""
        message = f"budget: got {budget:g}; a finite number of at least 0 is needed"
        with pytest.raises(UsageError, match=message):
            solve_budget([hand_block()], budget)
        with pytest.raises(UsageError, match=message):
            trace_frontier([hand_block()]).at(budget)

    def test_value_and_multiplier(self) -> None:
        """So are a wanted value and a multiplier."""
        with pytest.raises(UsageError, match="value: got nan; a finite number of at least 0"):
            trace_frontier([hand_block()]).for_value(math.nan)
        with pytest.raises(UsageError, match="multiplier: got -1; a finite number of at least 0"):
            dual_bound([hand_block()], -1.0, 1.0)

    def test_bracket(self) -> None:
        """A bracket has its ends in order."""
        with pytest.raises(UsageError, match="bracket: got 2 to 1; 0 <= low <= high is needed"):
            solve_budget([hand_block()], 5.0, bracket=Bracket(2.0, 1.0))

    def test_no_rows(self) -> None:
        """There must be something to decide."""
        with pytest.raises(UsageError, match="blocks has no row; give at least one choice"):
            solve_budget([], 1.0)

    def test_points_of_a_curve(self) -> None:
        """A curve has room for its ends."""
        with pytest.raises(UsageError, match="limit: got 3; at least 8 points are needed"):
            trace_frontier([hand_block()]).curve(3)

    @pytest.mark.parametrize("wrong", [-1.0, math.nan])
    @pytest.mark.parametrize("path", ["consumption", "value"])
    def test_entries(self, path: str, wrong: float) -> None:
        """A negative entry or NaN is named by its place, also beyond the first piece read."""
        block = random_curves(9000, 64, 0.0, seed=17)
        getattr(block, path)[8500, 3] = wrong
        message = rf"{path}\[8500\]\[3\]: got {wrong:g}; numbers of at least 0, or inf, are allowed"
        for bracket in (None, Bracket(0.1, 0.2)):
            with pytest.raises(DataError, match=message):
                solve_budget([block], 1e9, bracket=bracket)

    def test_row_without_options(self) -> None:
        """A row needs an option whose consumption and value are both finite."""
        inf = math.inf
        block = TableBlock(np.array([[1.0, 2.0], [1.0, inf]]), np.array([[2.0, 1.0], [inf, 0.0]]))
        message = r"consumption\[1\]: no option has both a finite consumption and a finite value"
        with pytest.raises(DataError, match=message):
            solve_budget([block], 5.0)

    def test_shapes_of_tables(self) -> None:
        """Consumption and value describe the same options."""
        lazy = LazyTableBlock(2, 3, lambda start, stop: (np.ones((stop - start, 3)), np.ones((2, 2))))
        message = r"make\(0, 2\) returned shapes \(2, 3\) and \(2, 2\); both must be \(2, 3\)"
        with pytest.raises(UsageError, match=message):
            solve_budget([lazy], 5.0)

    def test_shared_tables(self) -> None:
        """Shared tables have one row of options, and one scale and weight per row."""
        one, two = np.ones(1), np.ones(2)
        with pytest.raises(UsageError, match=r"consumption has shape \(2,\) and value \(1,\)"):
            SharedTableBlock(two, one, one, one)
        with pytest.raises(UsageError, match=r"scale has shape \(1,\) and weight \(2,\)"):
            SharedTableBlock(one, one, one, two)
        with pytest.raises(DataError, match=r"scale\[0\]: got -1; finite numbers of at least 0"):
            SharedTableBlock(one, one, -one, one)
        with pytest.raises(DataError, match=r"weight\[0\]: got inf; finite numbers of at least 0"):
            SharedTableBlock(one, one, one, math.inf * one)
        with pytest.raises(DataError, match=r"value\[0\]\[0\]: got -1; numbers of at least 0"):
            SharedTableBlock(one, -one, one, one)

    @pytest.mark.parametrize(
        ("field", "number", "message"),
        [
            ("scale", -1.0, r"scale\[0\]: got -1; finite numbers of at least 0 are allowed"),
            ("weight", math.nan, r"weight\[0\]: got nan; finite numbers of at least 0 are allowed"),
            ("width_min", 0.0, r"width_min\[0\]: got 0; finite numbers above 0 are allowed"),
            ("width_max", 0.5, r"width_max\[0\]: got 0.5; finite numbers of at least width_min"),
            ("width_max", math.inf, r"width_max\[0\]: got inf; finite numbers of at least width"),
        ],
    )
    def test_smooth_numbers(self, field: str, number: float, message: str) -> None:
        """Each number of a smooth row has its range."""
        with pytest.raises(DataError, match=message):
            single(SmoothForm.AMDAHL, 0.5, **{field: number})

    def test_smooth_parameter_and_lengths(self) -> None:
        """Parameters lie between 0 and 1, and every field has one number per row."""
        with pytest.raises(DataError, match=r"parameter\[0\]: got 1.5; numbers from 0 to 1"):
            single(SmoothForm.POWER_LAW, 1.5)
        one = np.ones(1)
        with pytest.raises(DataError, match=r"weight: got shape \(2,\) next to scales of shape"):
            SmoothBlock(SmoothForm.AMDAHL, one, np.ones(2), one, one, one)

    def test_choices_of_another_instance(self) -> None:
        """Choices are evaluated against the blocks that they were made for."""
        choice = SmoothChoice(np.ones(1))
        with pytest.raises(UsageError, match="got 0 choices for 1 blocks; one per block is needed"):
            evaluate_choices([hand_block()], [])
        with pytest.raises(UsageError, match="a SmoothChoice was given for a TableBlock"):
            evaluate_choices([hand_block()], [choice])
