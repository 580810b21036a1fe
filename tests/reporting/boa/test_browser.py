"""The report in a real browser: charts drawn, hovering answers, nothing overflows, no script but its own runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.contracts import Frontier, Result, Solution
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution

if TYPE_CHECKING:
    from tests.plugins.pages import Visit, Visitor
    from tests.reporting.boa.conftest import ResultMaker

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("playwright", reason='playwright is not installed; pip install "optplan[test]" brings it')

from optplan.reporting.boa.figures import FrontierCurve
from optplan.reporting.boa.frontier_tables import tell_curves
from optplan.reporting.comparison import Comparison, tell_comparison
from optplan.reporting.pages import Page, build_page
from optplan.reporting.presenters import Beside
from optplan.reporting.reports import build_report

PHONE, TABLET, DESK = 400, 1000, 1280

PAGE_WIDTH = "document.documentElement.scrollWidth"

#: Sections of the views that a report may have.
VIEWS = ("types", "why", "estimates", "frontiers", "changes")

#: Where a point of a chart's trace is on the screen.
POINT_ON_SCREEN = """([id, trace, point]) => {
    const chart = document.getElementById(id), layout = chart._fullLayout, box = chart.getBoundingClientRect();
    const data = chart._fullData[trace];
    return [
        box.left + layout.xaxis._offset + layout.xaxis.d2p(data.x[point]),
        box.top + layout.yaxis._offset + layout.yaxis.d2p(data.y[point]),
    ];
}"""


@pytest.fixture(scope="module")
def report(instance: BoaInstance, result: Result[Solution], rival: Result[Solution], frontier: Frontier) -> str:
    """Return the full report of the plan worked out by hand."""
    return build_report(instance, result, Beside(background=frontier, rivals=[rival]))


@pytest.fixture(scope="module")
def on_desk(visit: Visitor, report: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """Open the full report in a wide window."""
    return visit(report, tmp_path_factory.mktemp("desk"), DESK)


@pytest.fixture(scope="module")
def on_phone(visit: Visitor, report: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """Open the full report in a narrow window."""
    return visit(report, tmp_path_factory.mktemp("phone"), PHONE)


@pytest.fixture(scope="module")
def typed_on_tablet(visit: Visitor, typed_report: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """Open the report with all views in a window of middling width."""
    return visit(typed_report, tmp_path_factory.mktemp("tablet"), TABLET)


@pytest.fixture(scope="module")
def typed_on_phone(visit: Visitor, typed_report: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """Open the report with all views in a narrow window."""
    return visit(typed_report, tmp_path_factory.mktemp("typed-phone"), PHONE)


def test_every_chart_is_drawn_with_its_data(on_desk: Visit) -> None:
    """Each chart has an SVG with a shape for each trace, and every point of the data in it; nobody complains."""
    page = on_desk.page
    figures = json.loads(page.locator("#figures").text_content() or "")
    counted = on_desk.drawn_points()
    assert set(counted) == set(figures)
    for name, figure in figures.items():
        shown = [trace for trace in figure["data"] if trace.get("mode") != "none"]
        shapes = page.locator(f"#{name} .scatterlayer .trace, #{name} .barlayer .trace")
        assert shapes.count() >= len(shown)
        assert all(count >= 1 for count in counted[name])
    # The line has the eight breakpoints and the even steps between them.
    assert counted["chart-budgets-1"][0] > 100
    assert page.locator("#chart-widths-1 .barlayer .point").count() == 3
    assert on_desk.complaints == []


def test_hovering_over_the_frontier_answers(on_desk: Visit) -> None:
    """Pointing at a breakpoint of the line says what it costs, what it buys, and what one more GPU would save."""
    page = on_desk.page
    page.locator("#chart-budgets-1").scroll_into_view_if_needed()
    figure = json.loads(page.locator("#figures").text_content() or "")["chart-budgets-1"]
    line = next(i for i, trace in enumerate(figure["data"]) if trace["name"] == "best possible (proven)")
    point = figure["data"][line]["x"].index(7.4)
    page.mouse.move(*page.evaluate(POINT_ON_SCREEN, ["chart-budgets-1", line, point]))
    words = page.locator("#chart-budgets-1 .hoverlayer .hovertext")
    words.wait_for(state="visible")
    shown = words.text_content() or ""
    assert "7.40 GPUs on average, $10,804 a month" in shown
    assert "best possible: 1 h 14 min" in shown
    assert "20 min 00 s" in shown
    assert "25 min 00 s" in shown


def test_nothing_overflows(on_desk: Visit, on_phone: Visit) -> None:
    """The page is as wide as the window, opened or turned to that width; wide tables scroll by themselves."""
    for opened, opened_at, turned_to in ((on_desk, DESK, 768), (on_phone, PHONE, 320)):
        page = opened.page
        assert page.evaluate(PAGE_WIDTH) == opened_at
        for width in (turned_to, opened_at):
            page.set_viewport_size({"width": width, "height": 900})
            opened.wait_until(f"{PAGE_WIDTH} === {width}")


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
    assert opened.list_narrow_cells(view) == []
    assert len(section.screenshot()) > 5000  # a blank picture of that size is far smaller
    assert opened.complaints == []


def test_a_table_shows_that_there_is_more_of_it(on_phone: Visit) -> None:
    """At the right edge of a table too wide for a phone lies a shadow, until it is scrolled to its end."""
    page = on_phone.page
    wide = page.locator(".scroll").filter(has=page.locator("table")).all()
    table = next(each for each in wide if each.evaluate("box => box.scrollWidth > box.clientWidth + 40"))
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    assert box is not None
    x, y, height = box["x"] + box["width"] - 12, box["y"], box["height"]
    looks = []
    for share in (0.0, 1.0):
        table.evaluate("(box, share) => { box.scrollLeft = share * box.scrollWidth; }", share)
        table.locator("table").evaluate("table => { table.style.visibility = 'hidden'; }")  # the paper below it
        looks.append(page.screenshot(clip={"x": x, "y": y, "width": 12, "height": height}))
    table.evaluate("box => { box.scrollLeft = 0; box.querySelector('table').style.visibility = ''; }")
    shaded, plain = looks
    assert len(shaded) > len(plain)  # one colour takes less room than a gradient


def test_views_do_not_overflow(typed_on_tablet: Visit, typed_on_phone: Visit) -> None:
    """With all views the page is as wide as the window, and wide tables scroll by themselves."""
    for opened, opened_at in ((typed_on_tablet, TABLET), (typed_on_phone, PHONE)):
        assert opened.page.evaluate(PAGE_WIDTH) == opened_at


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_pages_of_frontiers_and_of_comparisons_are_drawn(
    visit: Visitor, curves: tuple[FrontierCurve, ...], comparison: Comparison, tmp_path: Path, width: int
) -> None:
    """As pages of their own: the chart has its points, the tables are whole, the page is as wide as the window."""
    frontiers = visit(build_page(Page("", "What budgets buy", sections=[tell_curves(curves)])), tmp_path, width)
    assert min(frontiers.drawn_points()["chart-frontiers-1"]) >= 1
    differences = visit(build_page(Page("", "What changes", sections=[tell_comparison(comparison)])), tmp_path, width)
    assert differences.drawn_points() == {}
    for opened, view in ((frontiers, "frontiers"), (differences, "changes")):
        section = opened.page.locator(f"section#{view}")
        assert section.locator("table td").count() > 3
        assert opened.list_narrow_cells(view) == []
        assert opened.page.evaluate(PAGE_WIDTH) == width
        assert opened.complaints == []


def test_types_are_told_apart_by_colour(typed_on_tablet: Visit) -> None:
    """The key's swatches and the widths of a type have one colour; types have different ones."""
    page = typed_on_tablet.page
    swatches = page.locator("#widths .swatch")
    key = [swatches.nth(i).evaluate("swatch => getComputedStyle(swatch).borderTopColor") for i in range(2)]
    widths = page.locator("#chart-widths-1 .barlayer .point path").evaluate_all(
        "cells => cells.map(cell => getComputedStyle(cell).fill)"
    )
    assert key == list(dict.fromkeys(widths))
    assert key[0] != key[1]


def test_names_of_types_run_nothing(
    visit: Visitor, typed_instance: BoaInstance, typed_solution: BoaSolution, make_result: ResultMaker, tmp_path: Path
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
    opened = visit(build_report(instance, result, Beside(rivals=[result])), tmp_path, DESK)
    assert opened.complaints == []
    assert opened.page.locator("main img").count() == 0
    assert nasty in (opened.page.locator("#widths .key").text_content() or "")
    assert nasty in (opened.page.locator("#chart-demand-1").text_content() or "")
    assert nasty in (opened.page.locator("#use").text_content() or "")


@pytest.mark.parametrize("place", ["on_desk", "on_phone", "typed_on_tablet", "typed_on_phone"])
def test_labels_do_not_overlap(place: str, request: pytest.FixtureRequest) -> None:
    """No two texts of a chart lie on one another, and none is cut off at the chart's edge."""
    opened: Visit = request.getfixturevalue(place)
    assert opened.list_collisions() == []


@pytest.mark.parametrize("place", ["on_desk", "on_phone", "typed_on_tablet", "typed_on_phone"])
def test_pictures_show_their_data(place: str, request: pytest.FixtureRequest) -> None:
    """Every mark, bar and line of the map, the frontiers, the classes, the panels and the views is where it belongs."""
    opened: Visit = request.getfixturevalue(place)
    assert opened.read_back() == []


def test_what_is_drawn_elsewhere_is_found(visit: Visitor, report: str, tmp_path: Path) -> None:
    """A bar half as long, a point that is moved, and a line without its end are not what the data say."""
    opened = visit(report, tmp_path, DESK)
    opened.page.evaluate(
        """() => {
            const text = document.getElementById("figures"), figures = JSON.parse(text.textContent);
            figures["chart-widths-1"].data[0].x[0] /= 2;
            const [line] = figures["chart-budgets-1"].data.filter(trace => trace.name === "best possible (proven)");
            line.x.pop();
            const [mark] = figures["chart-budgets-1"].data.filter(trace => trace.name === "this plan");
            mark.y[0] *= 1.5;
            text.textContent = JSON.stringify(figures);
        }"""
    )
    found = " ".join(opened.read_back())
    assert all(each in found for each in ("chart-widths-1, ", "bar 0", "best possible (proven): the line", "mark 0"))


def test_names_run_nothing(
    visit: Visitor,
    nasty_instance: BoaInstance,
    nasty_result: Result[Solution],
    frontier: Frontier,
    tmp_path: Path,
) -> None:
    """Names that are scripts are shown in text and charts, and no dialog opens."""
    nasty_frontier = Frontier(**{**vars(frontier), "instance_name": nasty_instance.name})
    source = build_report(nasty_instance, nasty_result, Beside(background=nasty_frontier, rivals=[nasty_result]))
    opened = visit(source, tmp_path, DESK)
    assert opened.complaints == []
    assert opened.page.locator("main img").count() == 0
    assert "<script>alert(1)</scrip…" in (opened.page.locator("#chart-widths-1").text_content() or "")


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


def test_dark_screens_get_a_dark_page(on_desk: Visit) -> None:
    """Paper darker than ink, charts without paper of their own; a printer gets white paper all the same."""
    brightness = """() => {
        const of = name => getComputedStyle(document.body)[name].match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0);
        return [of("backgroundColor"), of("color"), getComputedStyle(document.querySelector(".chart")).filter];
    }"""
    page = on_desk.page
    page.emulate_media(color_scheme="dark")
    paper, ink, turned = page.evaluate(brightness)
    assert paper < 150
    assert ink > 600
    assert turned.startswith("invert")
    backgrounds = page.evaluate(
        "[...document.querySelectorAll('.chart .main-svg')].map(one => getComputedStyle(one).backgroundColor)"
    )
    assert set(backgrounds) == {"rgba(0, 0, 0, 0)"}
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(brightness)[0] == 3 * 255
    page.emulate_media(color_scheme="light", media="screen")
    assert page.evaluate(brightness)[2] == "none"


def test_charts_fit_the_paper(on_desk: Visit) -> None:
    """While printing, charts are as wide as the paper leaves room for; afterwards as wide as before."""
    page, widths = on_desk.page, "[...document.querySelectorAll('.chart')].map(chart => chart._fullLayout.width)"
    before = json.dumps(page.evaluate(widths), separators=(",", ":"))
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    on_desk.wait_until(f"Math.max(...{widths}) === 660")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    on_desk.wait_until(f"JSON.stringify({widths}) === '{before}'")


def test_mixed_and_empty_reports_open(
    visit: Visitor,
    instance: BoaInstance,
    mixed_solution: BoaSolution,
    unknown_result: Result[Solution],
    make_result: ResultMaker,
    tmp_path: Path,
) -> None:
    """A mixed plan draws a row for each share; a report without charts opens without complaint."""
    mixed = instance.replace(policy="mixed")
    opened = visit(build_report(mixed, make_result(mixed, mixed_solution)), tmp_path, DESK)
    rows = opened.page.locator("#chart-widths-1 .ytick").all_text_contents()
    assert [row.partition(",")[0] for row in rows if row] == ["vision", "vision", "speech"]
    empty = visit(build_report(instance, unknown_result), tmp_path, DESK)
    assert empty.drawn_points() == {}
    assert opened.complaints == empty.complaints == []
