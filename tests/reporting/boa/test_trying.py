"""A page that moves to other budgets, in a real browser: what it says at one is what a page of that says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.library import build_named
from optplan.solving import frontier, solve
from optplan.units import Amount, parse_budget

if TYPE_CHECKING:
    from tests.plugins.pages import Visit, Visitor

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("playwright", reason='playwright is not installed; pip install "optplan[test]" brings it')

from optplan.reporting import trying
from optplan.reporting.presenters import Beside, gather
from optplan.reporting.reports import build_report

DESK, PHONE = 1400, 400


@pytest.fixture(scope="module", autouse=True)
def time_enough() -> Iterator[None]:
    """Let all budgets be solved for, however long a machine takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trying, "_LIMIT_S", 3600.0)
        yield


#: What a page says: the answer, the badge, the cards, the plan's table, and the bars of the picture.
READ = """() => {
    const text = part => part.innerText.replaceAll("\\u00a0", " ");
    const rows = [...document.querySelectorAll("#plan tr")].map(row => [...row.cells].map(text));
    const cards = [...document.querySelectorAll(".card")].filter(card => card.offsetParent)
        .map(card => ["dt", ".value", ".note"].map(part => text(card.querySelector(part))));
    const chart = document.getElementById("chart-widths-1");
    const bars = chart.data.filter(trace => trace.type === "bar")
        .map(({ base, x, y, text, marker }) => ({ base, x, y, text, color: marker.color }));
    const names = chart.layout.yaxis.ticktext;
    return { answer: text(document.querySelector("h1")), badge: text(document.querySelector(".badge")),
        cards: Object.fromEntries(cards.map(([name, ...said]) => [name, said])), rows, bars, names };
}"""


def write(instance: BoaInstance) -> str:
    """Write the page of an instance's best plan, with what its readers may try."""
    result = solve(instance)
    return build_report(instance, result, gather(instance, result, Beside()))


def write_there(instance: BoaInstance) -> str:
    """Write the page of an instance's best plan, from which nothing is tried."""
    return build_report(instance, solve(instance), Beside(background=frontier(instance)))


def read_answer(opened: Visit) -> str:
    """Return the headline."""
    return opened.page.locator("h1").inner_text().replace("\u00a0", " ")


def at_budget(instance: BoaInstance, budget: float) -> BoaInstance:
    """Return an instance with a budget, in the unit in which it has one."""
    assert instance.budget is not None
    return instance.replace(budget=Amount(budget, instance.budget.unit))


@pytest.fixture(scope="module")
def newtrace() -> BoaInstance:
    """Return the demo's instance."""
    return cast(BoaInstance, build_named("boa-newtrace")).replace(budget=parse_budget("120gpu"))


@pytest.fixture(scope="module")
def demo(newtrace: BoaInstance) -> str:
    """Return the page of the demo's plan."""
    return write(newtrace)


@pytest.fixture(scope="module")
def desk(visit: Visitor, demo: str, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """Open the page of the demo's plan."""
    return visit(demo, tmp_path_factory.mktemp("desk"), DESK)


@pytest.fixture
def opened(desk: Visit) -> Visit:
    """Return the page of the demo's plan as it was written, whatever the test before did to it."""
    desk.page.evaluate(
        """() => {
            document.getElementById("try").reset();
            document.querySelectorAll("details").forEach(part => { part.open = true; });
            window.scrollTo(0, 0);
        }"""
    )
    return desk


def follow_link(opened: Visit, link: str) -> None:
    """Have the page follow a link to another budget, as it does when it is opened by one; return when it has."""
    opened.page.evaluate(
        """link => new Promise(done => {
            window.addEventListener("hashchange", () => done(), { once: true });
            location.hash = `#budget=${link}`;
        })""",
        link,
    )


@pytest.mark.parametrize(("policy", "budget"), [("mixed", 95.0), ("mixed", 225.0), ("pure", 140.0)])
def test_a_page_moved_says_what_a_page_solved_there_says(
    visit: Visitor, newtrace: BoaInstance, tmp_path: Path, policy: str, budget: float
) -> None:
    """Headline, badge, every card, the plan's table and its picture are those of the page that is written there."""
    instance = newtrace.replace(policy=policy)
    moved = visit(write(instance), tmp_path, DESK, f"#budget={budget:g}gpu")
    (tmp_path / "there").mkdir()
    solved = visit(write_there(at_budget(instance, budget)), tmp_path / "there", DESK)
    found, wanted = moved.page.evaluate(READ), solved.page.evaluate(READ)
    assert found == wanted
    assert found["badge"] == "proven optimal"
    assert moved.complaints == []


def test_between_two_budgets_the_lesser_plan_is_shown(opened: Visit) -> None:
    """For 142 GPUs the page has the plan of 140, and does not call it proven; the mark moves to what that plan uses."""
    follow_link(opened, "142gpu")
    page = opened.page
    assert read_answer(opened).startswith("With 140 GPUs on average, jobs finish in")
    assert page.locator(".badge").inner_text() == "best known here"
    assert "This is the plan for 140 GPUs; for more there may be a better one." in page.locator(
        "#lead"
    ).inner_text().replace("\u00a0", " ")
    # What does not follow is said to be about another plan.
    marks = page.evaluate("getComputedStyle(document.getElementById('next'), '::before').content")
    assert marks == '"This part is about the plan for a budget of 120 GPUs."'
    used, label = page.evaluate(
        """() => { const { data, layout } = document.getElementById("chart-budgets-1");
            return [data.find(trace => trace.name === "this plan").x[0],
                layout.annotations.find(note => note.showarrow).text]; }"""
    )
    assert 138.0 < used <= 140.0
    assert label == f"<b>{page.locator('.card .value').first.inner_text()}</b>".replace("\u00a0", " ")


def test_money_by_type_follows(visit: Visitor, tmp_path: Path) -> None:
    """With several types in money, GPUs are split by type, and the page at another budget is that of its own plan."""
    instance = cast(BoaInstance, build_named("boa-newtrace-types")).replace(policy="mixed")
    moved = visit(write(instance), tmp_path, DESK, "#budget=60usd/hour")
    (tmp_path / "there").mkdir()
    solved = visit(write_there(at_budget(instance, 60.0)), tmp_path / "there", DESK)
    found, wanted = moved.page.evaluate(READ), solved.page.evaluate(READ)
    assert found == wanted
    assert " rtx-2080-ti + " in found["cards"]["GPUs in use, on average"][1]


def test_the_keyboard_moves_the_page(opened: Visit) -> None:
    """Arrows move by a GPU, typing goes anywhere, the buttons from plan to plan, and back to the page as written."""
    page = opened.page
    before = page.evaluate(READ)
    page.locator("#try-range").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#try-number").input_value() == "121"
    assert page.locator("#try-says").inner_text().startswith("121")
    assert read_answer(opened).startswith("With 120 GPUs on average, jobs finish in")
    assert page.locator("#try-range").get_attribute("aria-valuetext") == page.locator("#try-says").inner_text()
    page.keyboard.press("Tab")
    page.keyboard.type("7")
    page.locator("#try-number").fill("139.5")
    assert read_answer(opened).startswith("With 135 GPUs")
    page.locator("#try-less").click()
    assert read_answer(opened).startswith("With 135 GPUs")
    assert page.locator(".badge").inner_text() == "proven optimal"
    page.locator("#try-more").click()
    assert read_answer(opened).startswith("With 140 GPUs")
    assert page.locator(".badge").inner_text() == "proven optimal"
    opened.wait_until("location.hash.startsWith('#budget=1')")
    page.locator("#try-reset").click()
    assert page.evaluate(READ) == before
    assert page.locator("body[data-moved]").count() == 0
    assert opened.complaints == []


def test_odd_amounts_are_said(opened: Visit) -> None:
    """Below the least the page has no plan, beyond the most more buys nothing, and what is no number is refused."""
    page = opened.page
    page.locator("#try-number").fill("70")
    assert read_answer(opened) == "This page has no plan for a budget of 70 GPUs."
    assert page.locator(".badge").inner_text() == "not known here"
    assert page.locator("#lead").inner_text().replace("\u00a0", " ").endswith("has a plan is 74.6 GPUs.")
    assert not page.locator("#plan").is_visible()
    page.locator("#try-number").fill("100000")
    assert read_answer(opened).startswith("With 230 GPUs on average, of which 227 are used")
    assert page.evaluate(READ)["cards"]["One more GPU on average saves"] == ["nothing", "one fewer costs nothing"]
    for wrong in ("", "-3", "0"):
        page.locator("#try-number").fill(wrong)
        assert page.locator("#try-says").inner_text() == "Write a number above zero."
        assert page.locator("#try-number").get_attribute("aria-invalid") == "true"
    page.locator("#try-number").fill("120")
    assert page.locator("#try-number").get_attribute("aria-invalid") == "false"
    assert opened.complaints == []


@pytest.mark.parametrize(("link", "answer"), [("140gpu", "With 140 GPUs"), ("x", "With 120 GPUs")])
def test_links_open_the_page_at_their_budgets(
    visit: Visitor, demo: str, tmp_path: Path, link: str, answer: str
) -> None:
    """What is none leaves the page as it is."""
    opened = visit(demo, tmp_path, DESK, f"#budget={link}", unfold=False)
    assert read_answer(opened).startswith(answer)
    assert opened.page.locator("#try-number").input_value() == answer.split()[1]
    assert opened.complaints == []


@pytest.mark.parametrize(
    ("link", "answer"),
    [
        ("140", "With 140 GPUs"),
        ("1,400e-1GPU", "With 140 GPUs"),
        ("100%", "With 120 GPUs"),
        ("-5gpu", "With 120 GPUs"),
        ("1e999", "With 120 GPUs"),
    ],
)
def test_links_name_budgets(opened: Visit, link: str, answer: str) -> None:
    """With and without the unit, as people write numbers; what is none leaves the page as it is."""
    follow_link(opened, link)
    assert read_answer(opened).startswith(answer)
    assert opened.page.locator("#try-number").input_value() == answer.split()[1]
    assert opened.complaints == []


def test_links_in_another_unit_are_refused(opened: Visit) -> None:
    """The page says in which unit it counts."""
    opened.page.evaluate("location.hash = '#budget=3usd/hour'")
    opened.wait_until("document.getElementById('try-says').innerText.includes('counts in gpu')")
    for link in ("-5gpu", "0", ""):
        opened.page.evaluate("link => location.hash = `#budget=${link}`", link)
        opened.wait_until("document.getElementById('try-says').innerText.includes('above zero')")


def test_the_state_is_printed(opened: Visit) -> None:
    """On paper stand the amount and what it buys, and neither dial nor buttons; folded parts are open."""
    page = opened.page
    page.locator("#try-number").fill("140")
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = false; })")
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#proof").is_visible()
    assert not page.locator("#try-range").is_visible()
    assert page.locator("#try-says").is_visible()
    assert read_answer(opened).startswith("With 140 GPUs")
    assert page.locator(".chart:not(:has(.main-svg))").count() == 0
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert not page.locator("#proof").is_visible()
    assert opened.complaints == []


def test_links_open_folded_parts(visit: Visitor, demo: str, tmp_path: Path) -> None:
    """From the contents to a folded part: it opens, and its chart is drawn then."""
    opened = visit(demo, tmp_path, DESK, unfold=False)
    page = opened.page
    assert page.locator("#chart-speedups-1 .main-svg").count() == 0
    page.locator("nav a[href='#speedups']").click()
    page.wait_for_selector("#chart-speedups-1 .main-svg")
    assert page.locator("#speedups").is_visible()
    assert opened.complaints == []


@pytest.mark.parametrize("width", [PHONE, 800, 2000])
def test_moved_pages_have_room(visit: Visitor, demo: str, tmp_path: Path, width: int) -> None:
    """At every width nothing overflows, and no label lies on another, where the page was moved to."""
    require_room(visit(demo, tmp_path, width, "#budget=160gpu"), width)


def test_a_page_moved_on_a_desk_has_room(opened: Visit) -> None:
    """The same at the width at which the page is open."""
    follow_link(opened, "160gpu")
    require_room(opened, DESK)


def require_room(opened: Visit, width: int) -> None:
    """Require that nothing is wider than the window, and that no label of a chart lies on another."""
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    assert opened.list_collisions() == []
    assert opened.complaints == []


def test_names_run_nothing_where_the_page_is_moved(visit: Visitor, nasty_instance: BoaInstance, tmp_path: Path) -> None:
    """Names that are scripts are text in the table and the picture that are put in place."""
    opened = visit(write(nasty_instance), tmp_path, DESK, "#budget=9gpu")
    page = opened.page
    assert page.locator("body[data-moved]").count() == 1
    assert page.locator("main img").count() == 0
    assert "<script>alert(1)</script>" in page.locator("#plan table").inner_text()
    assert opened.complaints == []


def test_four_facts_are_read_from_the_demo(opened: Visit) -> None:
    """From the picture and the headlines alone: who gets how many GPUs and when, the cost, 20 % more, the proof."""
    page = opened.page
    bars = page.evaluate(
        """() => { const { data, layout } = document.getElementById("chart-widths-1");
            const bars = data.filter(trace => trace.type === "bar");
            return bars.flatMap(bar => bar.x.map((size, place) => [layout.yaxis.ticktext[bar.y[place]],
                Math.round(bar.base[place]), Math.round(bar.base[place] + size), bar.hovertext[place]])); }"""
    )
    held: dict[str, list[tuple[int, int, str]]] = {}
    for name, first, last, words in bars:
        held.setdefault(name, []).append((first, last, words.partition(": ")[2].partition(" GPU")[0]))
    assert held == {
        "bert": [(0, 100, "16")],
        "cifar10": [(0, 8, "4"), (8, 100, "13")],
        "deepspeech2": [(0, 3, "4"), (3, 100, "13")],
        "imagenet": [(0, 34, "22"), (34, 100, "47")],
        "yolov3": [(0, 2, "1"), (2, 44, "4"), (44, 100, "16")],
    }
    line = page.evaluate(
        """() => { const { data } = document.getElementById("chart-budgets-1");
            const { x, y } = data.find(trace => trace.name === "best possible (proven)");
            return [[...x], [...y]]; }"""
    )
    assert np.interp(1.2 * 120.0, *line) == pytest.approx(23.4, abs=0.02)  # minutes: 23 min 24 s
    labels = page.locator("#chart-widths-1 .bartext").all_text_contents()
    assert {"16", "22", "47"} <= set(labels)
    cards = page.evaluate(READ)["cards"]
    assert cards["Cost a month"][0] == "$85,672"
    assert cards["20 % more buys, at best"] == ["23 min 24 s", "13 % shorter; 144 GPUs on average, $102,807 a month"]
    assert page.locator(".badge").inner_text() == "proven optimal"
    assert json.dumps(opened.complaints) == "[]"
