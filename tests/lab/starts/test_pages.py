"""The page of rules of starting, of jobs made by hand, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from optplan.lab.pages import build_starts_page
from optplan.lab.starts import DailyPrices, JobUse, RuleOutcome, StartStudy
from optplan.reporting.pages import build_page

if TYPE_CHECKING:
    from tests.plugins.pages import Visitor

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')

HOUR = 3600.0
NAME = "<img src=x onerror=alert(1)>"


def make_study(rule: str = "least cost") -> StartStudy:
    """Make a study of one job at 20:00 that holds 2 GPUs for 1.5 h: 9 dollars at once, 3 after waiting for midnight."""
    use = JobUse("a", NAME, 20.0 * HOUR, np.array([0.0, 1.5]) * HOUR, np.array([2.0]))
    rules = [
        RuleOutcome("at once", np.array([0.0]), np.array([9.0]), 18.0),
        RuleOutcome(rule, np.array([4.0 * HOUR]), np.array([3.0]), 6.0),
    ]
    prices = DailyPrices([1.0] * 12 + [3.0] * 12)
    saved, waits_s = np.array([np.inf, 1.5]), np.array([0.0, 4.0 * HOUR])
    cost = np.array([9.0, 3.0])
    return StartStudy("one-width:2", prices, [use], {NAME: 6.0 * HOUR}, rules, saved, waits_s, cost, {})


@pytest.mark.parametrize("width", [400, 1400])
def test_a_browser_draws_what_waiting_saves(visit: Visitor, tmp_path: Path, width: int) -> None:
    """Two thirds are saved by four hours; the line of least cost, the rules on it, and prices by the hour."""
    opened = visit(build_page(build_starts_page(make_study(), "night")), tmp_path, width)
    page = opened.page
    assert "save 67" in page.locator("h1").inner_text()
    assert page.locator("#rules tbody tr").count() == 2
    first = page.locator("#trade-off tbody tr").first.inner_text().replace("\N{NO-BREAK SPACE}", " ")
    assert first.split("\t")[:2] == ["0 s", "1 h 30 min"]
    drawn = opened.drawn_points()
    assert (drawn["chart-trade-off-1"], drawn["chart-prices-1"]) == ([2, 2], [25])
    assert (opened.complaints, opened.list_collisions(), opened.read_back()) == ([], [], [])
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("main img").count() == 0
