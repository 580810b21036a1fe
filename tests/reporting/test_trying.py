"""Pages of all formulations that move along their limits: as data, and in a real browser."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.contracts import Instance, Result, Solution
from optplan.errors import UnsupportedError
from optplan.instances.library import build_named
from optplan.reporting.presenters import Beside, gather
from optplan.reporting.trying import change_limit, solve_others
from optplan.solving import solve

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.plugins.pages import Visit, Visitor

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.pages import Control
from optplan.reporting.presentation import presenter_of
from optplan.reporting.reports import build_report

DESK, PHONE = 1400, 400

#: What a page says: the answer, the badge, the cards, the tables and terms that follow, and what its first chart draws.
READ = """() => {
    const text = part => part.innerText.replaceAll("\\u00a0", " ");
    const open = [...document.querySelectorAll(".sections > section:not([data-stays])")];
    const follows = open.filter(part => !["budgets", "frontier"].includes(part.id));
    const cells = follows.flatMap(part => [...part.querySelectorAll("td, th, dt, dd")].map(text));
    const drawn = follows.flatMap(part => [...part.querySelectorAll(".chart")]).map(
        chart => chart.data.filter(trace => trace.type !== "scatter" || !trace.line?.dash?.includes("dot"))
            .map(({ x, y }) => [[...x ?? []], [...y ?? []]]));
    const cards = [...document.querySelectorAll(".card")].filter(card => card.offsetParent).map(text);
    return { answer: text(document.querySelector("h1")), badge: text(document.querySelector(".badge")), cards, cells,
        drawn };
}"""


@cache
def solve_library(name: str) -> tuple[Instance, Result[Solution], Beside]:
    """Return an instance of the library, its best plan, and what its page's readers may try; each is solved once."""
    instance = build_named(name)
    result = solve(instance)
    return instance, result, gather(instance, result, Beside())


def write(name: str) -> str:
    """Write the page of an instance's best plan, with what its readers may try."""
    return build_report(*solve_library(name))


def control_of(name: str) -> Control:
    """Return the control of the page of an instance's best plan."""
    instance, result, beside = solve_library(name)
    control = presenter_of(instance).build_page(instance, result, beside).control
    assert control is not None
    return control


def read(opened: Visit) -> Any:  # noqa: ANN401 - what the script returns
    """Return what a page says."""
    opened.page.locator("#try:not([hidden])").wait_for(state="attached")
    return opened.page.evaluate(READ)


def words(page: Page, part: str) -> str:
    """Return what a part of a page says."""
    return page.locator(part).inner_text().replace("\u00a0", " ")


def test_limits_are_changed_in_the_units_of_their_fields() -> None:
    """Seconds of a deadline, minutes of another, the money of a budget; what has no field of its own is refused."""
    assert change_limit(build_named("rubberband-two-stages"), "deadline", 300.0).limits == {"deadline": 300.0}
    assert change_limit(build_named("seer-paper-example"), "deadline", 12.0).limits["deadline"] == 12.0
    quotas = build_named("boa-newtrace-quotas")
    assert change_limit(quotas, "budget", 70.0).limit_as_given("budget") == (70.0, "usd/hour")
    with pytest.raises(UnsupportedError, match=r"quota.a100: what other amounts buy is not asked this way; use --set"):
        change_limit(quotas, "quota.a100", 3.0)


def test_others_are_solved_where_they_can_be() -> None:
    """Two stages take 160 s at the least: of 100, 160 and 280 s two have a plan, so not all that is asked is known."""
    instance = build_named("rubberband-two-stages")
    found = solve_others(instance, "deadline", [100.0, 160.0, 280.0], exact=True)
    assert [amount for amount, _, _ in found.results] == [160.0, 280.0]
    assert [result.objective for _, _, result in found.results] == pytest.approx([0.68, 0.38])
    assert not found.exact
    assert solve_others(instance, "deadline", [160.0, 280.0], exact=True).exact
    assert solve_others(instance, "deadline", []).results == []


@pytest.mark.parametrize(
    ("name", "limit", "unit", "own", "said"),
    [
        ("rubberband-two-stages", "deadline", "min", 280.0 / 60.0, "the lesser one's plan stays the best"),
        ("seer-paper-example", "budget", "gpu-min", 80.0, "not proven best there"),
        ("boa-newtrace-quotas", "budget", "usd/hour", 90.0, "not proven best there"),
    ],
)
def test_controls_say_what_their_plans_are(name: str, limit: str, unit: str, own: float, said: str) -> None:
    """Of a frontier, the best between two plans, too; elsewhere each for its own amount."""
    control = control_of(name)
    assert (control.name, control.unit, control.data["own"]) == (limit, unit, pytest.approx(own))
    assert said in control.said
    assert control.command == f"optplan solve instance.json --{limit} AMOUNT{unit} --report report.html"


@pytest.mark.parametrize(
    ("name", "there", "link"),
    [
        ("rubberband-resnet101-20min", {"deadline_s": 1500.0}, "#deadline=25min"),
        ("seer-paper-example", {"budget": "160gpu-min"}, "#budget=160gpu-min"),
        ("boa-newtrace-quotas", {"budget": "180usd/hour"}, "#budget=180usd/hour"),
    ],
)
def test_a_page_moved_says_what_a_page_solved_there_says(
    visit: Visitor, tmp_path: Path, name: str, there: dict[str, Any], link: str
) -> None:
    """Headline, badge, cards, plan, bill and picture; of deadlines also between two plans, 19 min 15 s and 27 min."""
    moved = visit(write(name), tmp_path, DESK, link)
    found = read(moved)
    other = build_named(name).replace(**there)
    (tmp_path / "there").mkdir()
    solved = visit(build_report(other, solve(other), Beside()), tmp_path / "there", DESK)
    wanted = solved.page.evaluate(READ)
    if name.startswith("boa"):  # what a frontier says besides
        found.pop("cards")
    assert found == {key: wanted[key] for key in found}
    assert moved.complaints == []


def test_the_keyboard_moves_a_search(visit: Visitor, tmp_path: Path) -> None:
    """Of plans from 13 min 44 s on: typed, by button, too little, nonsense, and back."""
    opened = visit(write("rubberband-resnet101-20min"), tmp_path, PHONE)
    before, page = read(opened), opened.page
    page.locator("#try-number").fill("10")
    assert words(page, "h1") == "No plan keeps a deadline of 10 min 00 s."
    assert words(page, "#lead").endswith("has a plan is 13 min 44 s.")
    assert not page.locator("#stages").is_visible()
    page.locator("#try-more").click()
    assert words(page, "#try-says") == "13 min 44 s: expected cost $21.23, proven optimal"
    mark = page.evaluate("document.getElementById('chart-frontier-1').data.find(each => each.mode === 'markers')")
    assert (mark["x"][0], mark["y"][0]) == (pytest.approx(13.74, abs=0.01), pytest.approx(21.23, abs=0.01))
    page.locator("#try-number").fill("1e300")
    assert words(page, "#try-says") == "Write a number above zero."
    page.locator("#try-range").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE
    assert opened.list_collisions() == []
    page.locator("#try-reset").click()
    assert read(opened) == before
    assert page.locator("#try-solve").is_hidden()
    assert opened.complaints == []


def test_between_amounts_of_searches_nothing_is_proven(visit: Visitor, tmp_path: Path) -> None:
    """For 100 GPU-minutes the page has the plan of 80, and says so; other budgets' table is of no plan."""
    opened = visit(write("seer-paper-example"), tmp_path, DESK, "#budget=100gpu-min")
    assert "80 of 80 GPU-min" in read(opened)["answer"]
    page = opened.page
    assert page.locator(".badge").inner_text() == "best known here"
    assert "This is the plan for 80 GPU-min; for more there may be a better one." in words(page, "#lead")
    assert words(page, "#try-says") == "100 GPU-min: training 80 GPU-min, best known here"
    marks = page.evaluate(
        "['next', 'budgets'].map(id => getComputedStyle(document.getElementById(id), '::before').content)"
    )
    assert marks == ['"This part is about the plan for a budget of 80 GPU-min."', "none"]
    assert opened.complaints == []


def test_pages_with_plans_stay_small(visit: Visitor, tmp_path: Path) -> None:
    """Of 51 plans 40 are taken, so that between two there may be a better one; the page has less than a megabyte."""
    source = write("rubberband-resnet101-per-function")
    assert len(source.encode()) < 1_000_000
    opened = visit(source, tmp_path, DESK, "#deadline=1h")
    assert "best known here" in read(opened)["badge"]
    assert opened.complaints == []
