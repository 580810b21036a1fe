"""The report in a real browser: charts drawn, hovering answers, nothing overflows, no script but its own runs."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.contracts import Frontier, Result, Solution
from optplan.formulations.boa.data import BoaInstance, BoaSolution

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page, Request

    from tests.reporting.conftest import ResultMaker

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("playwright", reason='playwright is not installed; pip install "optplan[test]" brings it')

from optplan.reporting.html import build_page, build_report
from optplan.reporting.views import Views

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",  # the sandbox needs a user other than root, which containers rarely have
)
PHONE, TABLET, DESK = 400, 1000, 1280

PAGE_WIDTH = "document.documentElement.scrollWidth"

#: Boxes of every text in a chart, in pixels, but for what hovering shows.
TEXT_BOXES = """id => [...document.getElementById(id).querySelectorAll("svg text")]
    .filter(text => text.textContent.trim() && !text.closest(".hoverlayer"))
    .map(text => ({ words: text.textContent, ...text.getBoundingClientRect().toJSON() }))"""

#: Sections of the views that a report may have.
VIEWS = ("types", "why", "estimates", "frontiers", "changes")

#: Texts of cells that are wider than their cells.
CELLS_TOO_NARROW = """section => [...section.querySelectorAll("th, td")]
    .filter(cell => !cell.querySelector(".visually-hidden") && cell.scrollWidth > cell.clientWidth + 1)
    .map(cell => cell.textContent)"""

#: Where a point of a chart's trace is on the screen.
POINT_ON_SCREEN = """([id, trace, point]) => {
    const chart = document.getElementById(id), layout = chart._fullLayout, box = chart.getBoundingClientRect();
    const data = chart._fullData[trace];
    return [
        box.left + layout.xaxis._offset + layout.xaxis.d2p(data.x[point]),
        box.top + layout.yaxis._offset + layout.yaxis.d2p(data.y[point]),
    ];
}"""


@dataclass
class Visit:
    """An opened page and everything that went wrong on it.

    Parameters
    ----------
    page
        The page.
    complaints
        Errors and warnings of the console, uncaught exceptions, dialogs, and requests for anything but the page.
    """

    page: Page
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the system's Chromium, once for all tests; skip where there is none."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, headless=True, args=list(FLAGS))
        yield started
        started.close()


def visit(browser: Browser, source: str, folder: Path, width: int) -> Visit:
    """Write a page to a file, open it from there in a fresh profile, and wait until every chart is drawn."""
    path = folder / "report.html"
    path.write_text(source, encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    opened = Visit(context.new_page())
    page, complaints = opened.page, opened.complaints
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def refuse(dialog: Dialog) -> None:
        complaints.append(dialog.message)
        dialog.dismiss()

    def note_request(request: Request) -> None:
        if request.url != path.as_uri():
            complaints.append(request.url)

    page.on("dialog", refuse)
    page.on("request", note_request)
    page.goto(path.as_uri())
    page.wait_for_function(
        "[...document.querySelectorAll('.chart')].every(chart => chart.querySelector('.main-svg') && chart._fullLayout)"
    )
    return opened


@pytest.fixture(scope="module")
def report(instance: BoaInstance, result: Result[Solution], rival: Result[Solution], frontier: Frontier) -> str:
    """Return the full report of the plan worked out by hand."""
    return build_report(instance, result, frontier=frontier, comparisons=[rival])


@pytest.fixture(scope="module")
def on_desk(browser: Browser, report: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """Open the full report in a wide window."""
    return visit(browser, report, tmp_path_factory.mktemp("desk"), DESK)


@pytest.fixture(scope="module")
def on_phone(browser: Browser, report: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """Open the full report in a narrow window."""
    return visit(browser, report, tmp_path_factory.mktemp("phone"), PHONE)


@pytest.fixture(scope="module")
def typed_report(
    typed_instance: BoaInstance,
    typed_result: Result[Solution],
    typed_rival: Result[Solution],
    typed_frontier: Frontier,
    views: Views,
) -> str:
    """Return the report of a plan with two GPU types, with every view that there is."""
    return build_report(typed_instance, typed_result, frontier=typed_frontier, comparisons=[typed_rival], views=views)


@pytest.fixture(scope="module")
def typed_on_tablet(browser: Browser, typed_report: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """Open the report with all views in a window of middling width."""
    return visit(browser, typed_report, tmp_path_factory.mktemp("tablet"), TABLET)


@pytest.fixture(scope="module")
def typed_on_phone(browser: Browser, typed_report: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """Open the report with all views in a narrow window."""
    return visit(browser, typed_report, tmp_path_factory.mktemp("typed-phone"), PHONE)


def drawn_points(page: Page) -> dict[str, list[int]]:
    """Count the points of every trace in every chart, as plotly holds them once it has drawn them."""
    counted: dict[str, list[int]] = page.evaluate(
        """Object.fromEntries([...document.querySelectorAll(".chart")].map(
            chart => [chart.id, chart.calcdata.map(trace => trace.length)]))"""
    )
    return counted


def test_every_chart_is_drawn_with_its_data(on_desk: Visit) -> None:
    """Each chart has an SVG with a shape for each trace, and every point of the data in it; nobody complains."""
    page = on_desk.page
    figures = json.loads(page.locator("#figures").text_content() or "")
    counted = drawn_points(page)
    assert set(counted) == set(figures)
    for name, figure in figures.items():
        shown = [trace for trace in figure["data"] if trace.get("mode") != "none"]
        shapes = page.locator(f"#{name} .scatterlayer .trace, #{name} .barlayer .trace")
        assert shapes.count() >= len(shown)
        assert all(count >= 1 for count in counted[name])
    # The line has the eight breakpoints and the even steps between them.
    assert counted["chart-frontier-1"][0] > 100
    assert page.locator("#chart-use-1 .barlayer .point").count() == 4
    assert on_desk.complaints == []


def test_hovering_over_the_frontier_answers(on_desk: Visit) -> None:
    """Pointing at a breakpoint of the line says what it costs, what it buys, and what one more GPU would save."""
    page = on_desk.page
    page.locator("#chart-frontier-1").scroll_into_view_if_needed()
    figure = json.loads(page.locator("#figures").text_content() or "")["chart-frontier-1"]
    line = next(i for i, trace in enumerate(figure["data"]) if trace["name"] == "best possible (proven)")
    point = figure["data"][line]["x"].index(7.4)
    page.mouse.move(*page.evaluate(POINT_ON_SCREEN, ["chart-frontier-1", line, point]))
    words = page.locator("#chart-frontier-1 .hoverlayer .hovertext")
    words.wait_for(state="visible")
    shown = words.text_content() or ""
    assert "7.40 GPUs on average, $10,804 a month" in shown
    assert "best possible: 1 h 14 min" in shown
    assert "one more GPU on average saves 20 min 00 s, one fewer costs 25 min 00 s" in shown


def test_nothing_overflows(on_desk: Visit, on_phone: Visit) -> None:
    """The page is as wide as the window, opened or turned to that width; wide tables scroll by themselves."""
    for opened, opened_at, turned_to in ((on_desk, DESK, 768), (on_phone, PHONE, 320)):
        page = opened.page
        assert page.evaluate(PAGE_WIDTH) == opened_at
        for width in (turned_to, opened_at):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(f"{PAGE_WIDTH} === {width}")


@pytest.mark.parametrize("place", ["typed_on_tablet", "typed_on_phone"])
@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_seen(place: str, view: str, request: pytest.FixtureRequest) -> None:
    """Each view has its section with figures in it, no text of its tables is cut, and nobody complains."""
    opened: Visit = request.getfixturevalue(place)
    section = opened.page.locator(f"section#{view}")
    section.scroll_into_view_if_needed()
    assert section.locator("h2").is_visible()
    assert section.locator("table td").count() > 3
    # A text that is wider than its cell would lie on the next one.
    assert section.evaluate(CELLS_TOO_NARROW) == []
    assert len(section.screenshot()) > 5000  # a blank picture of that size is far smaller
    assert opened.complaints == []


def test_views_do_not_overflow(typed_on_tablet: Visit, typed_on_phone: Visit) -> None:
    """With all views the page is as wide as the window, and wide tables scroll by themselves."""
    for opened, opened_at in ((typed_on_tablet, TABLET), (typed_on_phone, PHONE)):
        assert opened.page.evaluate(PAGE_WIDTH) == opened_at


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_pages_of_frontiers_and_of_comparisons_are_drawn(
    browser: Browser, views: Views, tmp_path: Path, width: int
) -> None:
    """As pages of their own: the chart has its points, the tables are whole, the page is as wide as the window."""
    frontiers = visit(browser, build_page("What budgets buy", Views(curves=views.curves)), tmp_path, width)
    assert min(drawn_points(frontiers.page)["chart-curves-1"]) >= 1
    differences = visit(browser, build_page("What changes", Views(comparison=views.comparison)), tmp_path, width)
    assert drawn_points(differences.page) == {}
    for opened, view in ((frontiers, "frontiers"), (differences, "changes")):
        section = opened.page.locator(f"section#{view}")
        assert section.locator("table td").count() > 3
        assert section.evaluate(CELLS_TOO_NARROW) == []
        assert opened.page.evaluate(PAGE_WIDTH) == width
        assert opened.complaints == []


def test_types_are_told_apart_by_colour(typed_on_tablet: Visit) -> None:
    """The key's swatches, the widths and the bars of a type have one colour; types have different ones."""
    page = typed_on_tablet.page
    swatches = page.locator("#widths .swatch:not(.rival)")
    key = [swatches.nth(i).evaluate("swatch => getComputedStyle(swatch).borderTopColor") for i in range(2)]
    lines = page.locator("#chart-widths-1 .scatterlayer .js-line").evaluate_all(
        "lines => lines.map(line => getComputedStyle(line).stroke)"
    )
    bars = page.locator("#chart-use-1 .barlayer .trace").evaluate_all(
        "traces => traces.map(trace => getComputedStyle(trace.querySelector('.point path')).fill)"
    )
    assert bars == key
    assert set(key) < set(lines)
    assert key[0] != key[1]


def test_names_of_types_run_nothing(
    browser: Browser, typed_instance: BoaInstance, typed_solution: BoaSolution, make_result: ResultMaker, tmp_path: Path
) -> None:
    """A type whose name is a script is shown in the key, the tables and the charts, and no dialog opens."""
    nasty = "<img src=x onerror=alert(5)>"
    text = json.dumps(typed_instance.to_json_data()).replace('"a100"', json.dumps(nasty))
    instance = BoaInstance.parse(json.loads(text))
    branches = {
        name: tuple(
            row.replace(gpu_types=tuple(nasty if held == "a100" else held for held in row.gpu_types or ()))
            for row in rows
        )
        for name, rows in typed_solution.branches.items()
    }
    result = make_result(instance, BoaSolution(branches=branches))
    opened = visit(browser, build_report(instance, result, comparisons=[result]), tmp_path, DESK)
    assert opened.complaints == []
    assert opened.page.locator("main img").count() == 0
    assert nasty in (opened.page.locator("#widths .key").text_content() or "")
    assert nasty in (opened.page.locator("#chart-use-1").text_content() or "")


@pytest.mark.parametrize("place", ["on_desk", "on_phone", "typed_on_tablet", "typed_on_phone"])
def test_labels_do_not_overlap(place: str, request: pytest.FixtureRequest) -> None:
    """No two texts of a chart lie on one another, and none is cut off at the chart's edge."""
    page = request.getfixturevalue(place).page
    for chart in drawn_points(page):
        edge = page.locator(f"#{chart}").bounding_box()
        assert edge is not None
        boxes: list[dict[str, Any]] = page.evaluate(TEXT_BOXES, chart)
        assert boxes
        for box in boxes:
            assert box["left"] >= edge["x"] - 1, box["words"]
            assert box["right"] <= edge["x"] + edge["width"] + 1, box["words"]
        for one, other in itertools.combinations(boxes, 2):
            apart = (
                one["right"] <= other["left"] + 1
                or other["right"] <= one["left"] + 1
                or one["bottom"] <= other["top"] + 3  # the boxes of lines of one text touch
                or other["bottom"] <= one["top"] + 3
            )
            assert apart, (one["words"], other["words"])


def test_names_run_nothing(
    browser: Browser,
    nasty_instance: BoaInstance,
    nasty_result: Result[Solution],
    frontier: Frontier,
    tmp_path: Path,
) -> None:
    """Names that are scripts are shown in text and charts, and no dialog opens."""
    nasty_frontier = Frontier(**{**vars(frontier), "instance_name": nasty_instance.name})
    source = build_report(nasty_instance, nasty_result, frontier=nasty_frontier, comparisons=[nasty_result])
    opened = visit(browser, source, tmp_path, DESK)
    assert opened.complaints == []
    assert opened.page.locator("main img").count() == 0
    assert "<script>alert(1)</scrip…" in (opened.page.locator("#chart-use-1").text_content() or "")


def test_policy_stops_foreign_scripts_and_connections(on_phone: Visit) -> None:
    """Even if something slipped into the page, the browser would neither run it nor fetch for it."""
    page = on_phone.page
    with page.expect_console_message(lambda message: "img-src" in message.text):
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.intruder = true";
                const image = document.createElement("img");
                image.src = "https://example.org/pixel.png";
                document.body.append(script, image);
            }"""
        )
    assert page.evaluate("window.intruder === undefined")
    assert sum("Content Security Policy" in complaint for complaint in on_phone.complaints) == 2


def test_charts_fit_the_paper(on_desk: Visit) -> None:
    """While printing, charts are as wide as the paper leaves room for; afterwards as wide as before."""
    page, widths = on_desk.page, "[...document.querySelectorAll('.chart')].map(chart => chart._fullLayout.width)"
    before = json.dumps(page.evaluate(widths), separators=(",", ":"))
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(f"Math.max(...{widths}) === 660")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.wait_for_function(f"JSON.stringify({widths}) === '{before}'")


def test_mixed_and_empty_reports_open(
    browser: Browser,
    instance: BoaInstance,
    mixed_solution: BoaSolution,
    unknown_result: Result[Solution],
    make_result: ResultMaker,
    tmp_path: Path,
) -> None:
    """A mixed plan draws a line for each share; a report without charts opens without complaint."""
    mixed = instance.replace(policy="mixed")
    opened = visit(browser, build_report(mixed, make_result(mixed, mixed_solution)), tmp_path, DESK)
    assert len(drawn_points(opened.page)["chart-widths-1"]) == 2
    empty = visit(browser, build_report(instance, unknown_result), tmp_path, DESK)
    assert drawn_points(empty.page) == {}
    assert opened.complaints == empty.complaints == []
