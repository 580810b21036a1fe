"""Programs in CP-SAT: what rounding may and may not do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from optplan.contracts import SolveRequest, Status, Termination
from optplan.errors import EngineError, MissingExtraError, UnsupportedError
from optplan.progress import Stopwatch
from optplan.solvers.programs import cpsat
from optplan.solvers.programs.program import Program

MakeProgram = Callable[..., Program]
REQUEST = SolveRequest(gap=1e-9)
INF = math.inf


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw two groups of columns of which one is one each, and rows between ends that some choice keeps exactly."""
    groups = [draw(st.integers(1, 4)) for _ in range(2)]
    size = sum(groups)
    number = st.sampled_from([-2.5, -1.0, 0.0, 0.1, 0.3, 1.0, 2.0, math.pi, 1e3])
    numbers = st.lists(number, min_size=size, max_size=size)
    choices = np.repeat(np.eye(2), groups, axis=1)
    own = np.array([draw(numbers) for _ in range(draw(st.integers(1, 3)))])
    places = [draw(st.integers(0, groups[0] - 1)), groups[0] + draw(st.integers(0, groups[1] - 1))]
    some = own[:, places].sum(axis=1)
    room = [draw(st.sampled_from([0.0, 0.5, INF])) for _ in range(2)]
    return Program(
        cost=np.array(draw(numbers)),
        lower=np.zeros(size),
        upper=np.ones(size),
        integral=np.ones(size, dtype=np.bool_),
        matrix=csr_array(np.concatenate([choices, own])),
        row_lower=np.concatenate([np.ones(2), some - room[0]]),
        row_upper=np.concatenate([np.ones(2), some + room[1]]),
        offset=draw(st.sampled_from([0.0, 7.0])),
    )


def find_least(program: Program) -> float:
    """Return the optimum by looking at everything, rows kept up to the rounding of sums."""
    every = np.array(list(itertools.product((0.0, 1.0), repeat=program.cost.size)))
    sums = every @ program.matrix.toarray().T
    kept = ((sums <= program.row_upper + 1e-9) & (sums >= program.row_lower - 1e-9)).all(axis=1)
    return float((every[kept] @ program.cost).min() + program.offset)


@settings(max_examples=60)
@given(program=programs())
def test_optimum_is_that_of_enumeration(program: Program) -> None:
    """At the default resolution rounding changes nothing, also where rows are kept exactly."""
    expected = find_least(program)
    outcome = cpsat.solve_program(program, REQUEST)
    assert outcome.status is Status.OPTIMAL
    assert outcome.values is not None
    assert outcome.bound is not None
    assert program.cost @ outcome.values + program.offset == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert outcome.bound == pytest.approx(expected, rel=1e-9, abs=1e-6)
    assert outcome.bound <= expected + 1e-12 * max(1.0, abs(expected))


def test_fixed_columns_may_have_coefficients_of_any_size(make_program: MakeProgram) -> None:
    """A column fixed at zero, or at one, with huge coefficients: within 1.4 besides it there is room for 1.3."""
    for fixed, huge in ((0.0, 1e30), (1.0, 1e9)):
        program = make_program(
            [huge, -2.5, -1.3], ([huge, 2.5, 1.3], -INF, huge * fixed + 1.4), lower=[fixed, 0, 0], upper=[fixed, 1, 1]
        )
        outcome = cpsat.solve_program(program, REQUEST)
        assert outcome.status is Status.OPTIMAL
        assert outcome.values is not None
        assert outcome.values.tolist() == [fixed, 0, 1]


@pytest.mark.parametrize(("least", "most"), [(3.0, 3.0), (-INF, 1.0)])
def test_fixed_columns_that_break_a_row_are_infeasible(make_program: MakeProgram, least: float, most: float) -> None:
    """One and one are neither 3 nor at most 1."""
    program = make_program([1, 1], ([1, 1], least, most), lower=[1, 1])
    assert cpsat.solve_program(program, REQUEST).status is Status.INFEASIBLE


def test_values_that_miss_a_row_are_discarded(make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """One and one weigh 2.5 where 2 are allowed; the bound stays."""
    program = make_program([-1, -1], ([1, 1.5], -INF, 2.0))
    wrong = replace(cpsat.nothing_yet(), status=Status.OPTIMAL, values=np.ones(2), bound=-2.0)
    monkeypatch.setattr(cpsat, "_solve_rounded", lambda *_: wrong)
    outcome = cpsat.run_cp_sat(program, 0.0, 0, cpsat.DEFAULT_RESOLUTION, Stopwatch())
    assert (outcome.status, outcome.values, outcome.bound) == (Status.UNKNOWN, None, -2.0)


@pytest.mark.parametrize("seed", range(8))
def test_large_coefficients_are_added_up_rightly(seed: int) -> None:
    """A presolve step of OR-Tools 9.15 adds coefficients in 32 bits; left on, it cuts optima off."""
    stream = np.random.default_rng(seed)
    choices = np.repeat(np.eye(4), 3, axis=1)
    used = stream.random(12)
    program = Program(
        cost=stream.random(12),
        lower=np.zeros(12),
        upper=np.ones(12),
        integral=np.ones(12, dtype=np.bool_),
        matrix=csr_array(np.concatenate([choices, used[None]])),
        row_lower=np.array([1.0] * 4 + [-INF]),
        row_upper=np.array([1.0] * 4 + [4 / 3 * used.reshape(4, 3).min(axis=1).sum()]),
    )
    outcome = cpsat.solve_program(program, REQUEST)
    assert outcome.values is not None
    assert program.cost @ outcome.values == pytest.approx(find_least(program), rel=1e-9)


@settings(max_examples=60)
@given(program=programs(), resolution=st.sampled_from([1, 3, 64]))
def test_coarse_rounding_keeps_bound_and_rows_true(program: Program, resolution: int) -> None:
    """However coarse the units, the bound is not above the optimum, and what is returned keeps the real rows."""
    expected = find_least(program)
    outcome = cpsat.solve_program(program, REQUEST, resolution=resolution)
    assert outcome.bound is not None
    assert outcome.bound <= expected + 1e-9
    if outcome.values is not None:
        sums = program.matrix @ outcome.values
        room = 1e-9 * np.maximum(1.0, abs(program.matrix) @ outcome.values)
        assert (sums <= program.row_upper + room).all()
        assert (sums >= program.row_lower - room).all()
        assert program.cost @ outcome.values + program.offset >= expected - 1e-9


@pytest.fixture
def knapsack(make_program: MakeProgram) -> Callable[[float], Program]:
    """Return what makes a choice of one of three of weight 1, 1.3 and 1.6 that cost 4, 2 and 1, by the most weight."""
    return lambda most: make_program([4, 2, 1], ([1, 1, 1], 1, 1), ([1, 1.3, 1.6], -INF, most))


@pytest.mark.parametrize("resolution", [2, 12])
def test_values_that_only_rounding_allows_are_discarded(knapsack: Callable[[float], Program], resolution: int) -> None:
    """In units of 1 the weight 1.5 has 1, as 1.6 has, rounded down; in units of 1/8 both have 12: 1.6 is too much."""
    # Two units of 1.5 are 0.75 each; the power of two above it is 1.
    outcome = cpsat.solve_program(knapsack(1.5), REQUEST, resolution=resolution)
    assert outcome.bound == 1.0
    assert outcome.values is None or outcome.values.tolist() != [0, 0, 1]


def test_each_row_is_rounded_on_its_own_scale(make_program: MakeProgram) -> None:
    """Values that miss the second row only are discarded, too, whatever the units of the two rows are."""
    program = make_program(
        [4, 2, 1], ([1, 1, 1], 1, 1), ([1e9, 1.1e9, 1.2e9], -INF, 2.1e9), ([1e-3, 1.3e-3, 1.6e-3], -INF, 1.5e-3)
    )
    assert cpsat.solve_program(program, REQUEST).bound == pytest.approx(2.0, rel=1e-9)
    coarse = cpsat.solve_program(program, REQUEST, resolution=12)
    assert coarse.bound == 1.0
    assert coarse.values is None or coarse.values.tolist() != [0, 0, 1]


def test_multiples_of_one_number_lose_nothing(make_program: MakeProgram) -> None:
    """Of 0.1, 0.2 and 0.3 those of 0.3 together are the most within 0.3, exactly, in units of a third of it."""
    program = make_program([-0.1, -0.2, -0.3], ([0.1, 0.2, 0.3], -INF, 0.3))
    outcome = cpsat.solve_program(program, REQUEST, resolution=1)
    assert outcome.status is Status.OPTIMAL
    assert outcome.bound == pytest.approx(-0.3, rel=1e-15)


@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_columns_that_are_no_whole_numbers_count_units(make_program: MakeProgram, sense: float) -> None:
    """The slower of two that take 1.7 and pi, or 2.2 and 1.1 when it pays; the least is 2.2, the most within 5 is pi.

    Column 3 is real and lies between the times and 5, or where most is asked for below what is left of them.
    """
    x = [1, 1]
    if sense > 0:
        program = make_program(
            [0, 0, 1],
            ([*x, 0], 1, 1),
            ([-1.7, -2.2, 1], 0, INF),
            ([-math.pi, -1.1, 1], 0, INF),
            upper=[1, 1, 5],
            integral=[True, True, False],
        )
        expected = 2.2
    else:
        program = make_program(
            [0, 0, -1],
            ([*x, 0], 1, 1),
            ([-math.pi, -2.2, 1], -INF, 0),
            upper=[1, 1, 5],
            integral=[True, True, False],
        )
        expected = -math.pi
    outcome = cpsat.solve_program(program, REQUEST)
    assert outcome.status is Status.OPTIMAL
    assert outcome.values is not None
    assert outcome.bound is not None
    assert program.cost @ outcome.values == pytest.approx(expected, rel=1e-11)
    assert expected - 1e-10 <= outcome.bound <= expected


def test_bounds_that_rows_say_are_bounds(make_program: MakeProgram) -> None:
    """A column without an upper bound has that of a row of its own; without one it is named."""
    program = make_program([-1], ([2.0], -INF, 7.0), upper=[INF])
    assert cpsat.solve_program(program, REQUEST).bound == -3
    free = make_program([-1, 0], ([2.0, 1.0], -INF, 7.0), upper=[INF, 1])
    with pytest.raises(UnsupportedError, match="bound of every variable, and number 1 has not both"):
        cpsat.solve_program(free, REQUEST)
    with pytest.raises(UnsupportedError, match="every variable, and trucks has not both"):
        cpsat.solve_program(replace(free, columns=("trucks", "men")), REQUEST)


def test_an_infeasible_program_is_recognised(knapsack: Callable[[float], Program]) -> None:
    """A weight below the least leaves nothing, and rounding does not hide it."""
    outcome = cpsat.solve_program(knapsack(0.99), REQUEST)
    assert (outcome.status, outcome.values, outcome.bound) == (Status.INFEASIBLE, None, None)


def test_bounds_that_leave_nothing_are_infeasible(make_program: MakeProgram) -> None:
    """A column from 0 to 1 of which a row says that it is 2 at least, and one of 0.4 to 0.6 that is whole."""
    for program in (
        make_program([1], ([1], 2, INF)),
        make_program(
            [1],
            (
                [
                    1,
                ],
                -INF,
                1,
            ),
            lower=[0.4],
            upper=[0.6],
        ),
    ):
        outcome = cpsat.solve_program(program, REQUEST)
        assert (outcome.status, outcome.values, outcome.bound) == (Status.INFEASIBLE, None, None)


def test_no_time_means_no_incumbent(knapsack: Callable[[float], Program]) -> None:
    """With the time used up before the start there is nothing; a bound, if any, is below the optimum."""
    outcome = cpsat.solve_program(knapsack(1.5), SolveRequest(stopwatch=Stopwatch(limit_s=1e-9)))
    assert (outcome.status, outcome.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert outcome.values is None
    assert outcome.bound is None or outcome.bound <= 2.0


@given(program=programs())
@settings(max_examples=5)
def test_the_same_request_gives_the_same_answer(program: Program) -> None:
    """Two solves with one seed agree to the last bit."""
    first, second = (cpsat.solve_program(program, SolveRequest(seed=7)) for _ in range(2))
    assert (first.bound, first.counters) == (second.bound, second.counters)


@pytest.mark.parametrize(("value", "weight"), [(1e9, 1e-9), (1e-6, 1e6)])
def test_units_do_not_matter(knapsack: Callable[[float], Program], value: float, weight: float) -> None:
    """Costs and weights in other units give the scaled optimum, 2 within 1.5."""
    program = knapsack(1.5)
    factors = np.array([1.0, weight])
    scaled = replace(
        program,
        cost=value * program.cost,
        matrix=csr_array(factors[:, None] * program.matrix.toarray()),
        row_lower=factors * program.row_lower,
        row_upper=factors * program.row_upper,
    )
    assert cpsat.solve_program(scaled, REQUEST).bound == pytest.approx(2 * value, rel=1e-9)


def test_an_unknown_status_is_a_failure(monkeypatch: pytest.MonkeyPatch, knapsack: Callable[[float], Program]) -> None:
    """A status that the table does not know is not guessed at."""
    monkeypatch.setattr(cpsat, "_ENDINGS", {})
    with pytest.raises(EngineError, match="CP-SAT ended with status OPTIMAL, which has no meaning for this problem"):
        cpsat.run_cp_sat(knapsack(2.0), 0.0, 0, cpsat.DEFAULT_RESOLUTION, Stopwatch())


def test_without_or_tools_the_message_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, knapsack: Callable[[float], Program]
) -> None:
    """It is known before anything is started."""
    monkeypatch.setattr(cpsat, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r'ortools is not installed; run: pip install "optplan\[cp-sat\]"'):
        cpsat.solve_program(knapsack(2.0), REQUEST)
