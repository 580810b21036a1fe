"""Starts of jobs: against hand arithmetic, a fine grid of starts, and all combinations of starts of few jobs."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.lab.starts import DailyPrices, JobUse, find_bargains, list_waits, read_daily_prices, trade, wait_for_price

HOUR = 3600.0
#: 1 dollar an hour from midnight to noon, 3 dollars after that.
TWO_PRICES = DailyPrices([1.0] * 12 + [3.0] * 12)


def make_use(submitted_h: float, edges_h: list[float], gpus: list[int]) -> JobUse:
    """Make what a job holds, in hours."""
    return JobUse("a", "bert", submitted_h * HOUR, np.array(edges_h) * HOUR, np.array(gpus, dtype=float))


def draw(seed: int) -> tuple[JobUse, DailyPrices, float]:
    """Draw a job of up to three widths, prices, and the seconds that it may wait."""
    rng = np.random.default_rng(seed)
    edges_h = np.append(0.0, np.cumsum(rng.uniform(0.05, 9.0, int(rng.integers(1, 4)))))
    use = make_use(float(rng.uniform(0.0, 30.0)), edges_h.tolist(), rng.integers(1, 9, edges_h.size - 1).tolist())
    prices = DailyPrices(rng.choice([0.0, 0.4, 1.0, 2.5], 24), int(rng.integers(24)))
    return use, prices, float(rng.uniform(0.1, 23.0)) * HOUR


def test_a_cost_by_hand() -> None:
    """From 10:30, 2 GPUs for an hour and 4 for another: 1.5 h at 1 and 0.5 h at 3 dollars, so 2 + 2 + 6 dollars."""
    use = make_use(10.5, [0.0, 1.0, 2.0], [2, 4])
    assert use.cost(TWO_PRICES, np.array([10.5, 34.5, 11.0]) * HOUR) == pytest.approx([10.0, 10.0, 2.0 + 12.0])
    # At hour zero of the trace it is 23:00.
    late = DailyPrices(TWO_PRICES.usd_per_gpu_hour, 23)
    assert use.cost(late, np.array([0.0])) == pytest.approx([2 * 3.0 + 4 * 1.0])
    assert late.price_at(0) == 3.0
    assert late.price_at(1) == 1.0


def test_the_best_start_by_hand() -> None:
    """From 20:00 a job of an hour and a half on 2 GPUs waits for midnight, or until its end is cheap, or not at all."""
    use = make_use(20.0, [0.0, 1.5], [2])
    found = find_bargains(use, TWO_PRICES, 6 * HOUR)
    # Until 22:30 all of it is dear; then each hour waited is one of 2 GPUs that is 2 dollars cheaper.
    assert found.wait_s.tolist() == [0.0, 4 * HOUR]
    assert found.cost_usd == pytest.approx([9.0, 3.0])
    assert found.saved_per_hour == pytest.approx([1.5])
    assert [found.wait_at(usd) for usd in (0.0, 1.4, 1.6)] == [4 * HOUR, 4 * HOUR, 0.0]
    assert find_bargains(use, TWO_PRICES, 3 * HOUR).cost_usd == pytest.approx([9.0, 7.0])
    assert find_bargains(use, TWO_PRICES, 2 * HOUR).wait_s.tolist() == [0.0]


def test_waiting_for_a_price_by_hand() -> None:
    """The first hour at the price, begun or to come; at the latest when the job may wait no longer."""
    use = make_use(20.25, [0.0, 1.0], [1])
    assert wait_for_price(use, TWO_PRICES, 6 * HOUR, 1.0) == 3.75 * HOUR
    assert wait_for_price(use, TWO_PRICES, 2 * HOUR, 1.0) == 2 * HOUR
    assert wait_for_price(use, TWO_PRICES, 6 * HOUR, 3.0) == 0.0
    assert wait_for_price(use, TWO_PRICES, 6 * HOUR, 0.5) == 6 * HOUR
    assert wait_for_price(use, TWO_PRICES, 60 * HOUR, 0.5) == 24 * HOUR


def test_no_start_of_a_fine_grid_is_better() -> None:
    """For 60 jobs and three worths of an hour, starts a minute apart never cost less than the best breakpoint."""
    better = 0
    for seed in range(60):
        use, prices, longest_s = draw(seed)
        found = find_bargains(use, prices, longest_s)
        grid_s = np.append(np.arange(0.0, longest_s, 60.0), longest_s)
        costs = use.cost(prices, use.submitted_s + grid_s)
        for usd in (0.0, 0.7, 3.0):
            wait_s = found.wait_at(usd)
            assert 0.0 <= wait_s <= longest_s
            cost = float(use.cost(prices, np.array([use.submitted_s + wait_s]))[0])
            best = float((costs + usd * grid_s / HOUR).min())
            assert cost + usd * wait_s / HOUR <= best + 1e-9 * max(1.0, best), (seed, usd)
        better += found.cost_usd[-1] < costs[0] - 1e-6
    assert better > 30


def test_costs_are_linear_between_the_waits_in_question() -> None:
    """Halfway between two of them the cost is the mean of both: no breakpoint is missing."""
    for seed in range(40):
        use, prices, longest_s = draw(seed)
        waits_s = list_waits(use, longest_s)
        costs = use.cost(prices, use.submitted_s + waits_s)
        between = use.cost(prices, use.submitted_s + (waits_s[:-1] + waits_s[1:]) / 2.0)
        assert between == pytest.approx((costs[:-1] + costs[1:]) / 2.0, abs=1e-9)


def test_the_trade_off_is_below_all_combinations() -> None:
    """Of three jobs no combination of starts lies below the line; its points are starts, the first all at once."""
    for seed in range(0, 60, 3):
        drawn = [draw(seed + number) for number in range(3)]
        prices = drawn[0][1]
        saved, wait_s, cost_usd = trade([find_bargains(use, prices, longest_s) for use, _, longest_s in drawn])
        assert saved[0] == math.inf
        assert (np.diff(saved[1:]) <= 0.0).all()
        assert wait_s[0] == 0.0
        single = []
        for use, _, longest_s in drawn:
            waits = np.linspace(0.0, longest_s, 13)
            single.append(list(zip(waits.tolist(), use.cost(prices, use.submitted_s + waits).tolist(), strict=True)))
        for starts in itertools.product(*single):
            waited, cost = (sum(part) for part in zip(*starts, strict=True))
            assert cost >= np.interp(waited, wait_s, cost_usd) - 1e-9 * max(1.0, cost)


def test_prices_of_a_file(tmp_path: Path) -> None:
    """Hours in any order are read; a missing, a second or an impossible one is named, and a wrong price."""
    path = tmp_path / "hours.csv"
    rows = [f"{hour},{1.0 + hour}" for hour in reversed(range(24))]

    def write(*lines: str) -> None:
        path.write_text("\n".join(["hour,usd_per_gpu_hour", *lines]))

    write(*rows)
    assert read_daily_prices(path, 5).price_at(0) == 6.0
    for lines, said in (
        (rows[1:], "has 23 of 24 hours; no price for 23"),
        ([*rows, "3,1"], "hour 3 is there twice"),
        ([*rows, "24,1"], "hour is 24; a whole one from 0 to 23"),
        ([*rows[:-1], "0.5,1"], "hour is 0.5"),
        ([*rows[:-1], "0,-1"], "usd_per_gpu_hour is '-1'; a number of at least 0"),
        ([*rows[:-1], "0,nan"], "usd_per_gpu_hour is 'nan'"),
    ):
        write(*lines)
        with pytest.raises(DataError, match=said):
            read_daily_prices(path)
