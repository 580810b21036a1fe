"""How pages are laid out: how long they are, in which order, without overlaps, in colours that can be read."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.instances.library import build_named
from optplan.solving import solve

if TYPE_CHECKING:
    from tests.plugins.pages import Visitor

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.pages import Page, Section, build_page
from optplan.reporting.presenters import Beside, gather_background
from optplan.reporting.reports import build_report

#: Pixels of a page at most, and the width at which that holds.
LONGEST, WIDE = 4500, 1400
#: The first sections of a formulation's page: the picture, the plan, and what to do next.
FIRST = {
    "boa-newtrace": ["widths", "plan", "next"],
    "rubberband-resnet101-20min": ["sizes", "stages", "bill", "next"],
    "seer-resnet18-30min": ["search", "rounds", "bill", "next"],
    "srift-case2": ["iteration", "fleet", "bill", "next"],
}
HEIGHT = "document.documentElement.scrollHeight"
#: Sections beside which another one stands.
BESIDE = """[...document.querySelectorAll(".sections > section")].filter(one =>
    one.nextElementSibling && one.nextElementSibling.getBoundingClientRect().top === one.getBoundingClientRect().top
).map(one => one.id)"""


@pytest.mark.parametrize("name", FIRST)
def test_pages_are_short_and_begin_with_the_answer(visit: Visitor, tmp_path: Path, name: str) -> None:
    """Picture, plan and next steps first, the rest folded: at most 4,500 pixels; one column on a phone."""
    instance = build_named(name)
    result = solve(instance)
    source = build_report(instance, result, Beside(background=gather_background(instance, result)))
    opened = visit(source, tmp_path, WIDE, unfold=False)
    page = opened.page
    assert page.evaluate(HEIGHT) <= LONGEST
    shown = page.evaluate("[...document.querySelectorAll('main section[id]')].map(one => one.id)")
    assert shown[: len(FIRST[name])] == FIRST[name]
    folded = page.evaluate("[...document.querySelectorAll('details > section')].map(one => one.id)")
    assert {"question", "proof", "provenance"} <= set(folded)
    assert not page.locator("#proof").is_visible()
    assert page.evaluate(BESIDE)
    for width in (2000, 800, 400):
        page.set_viewport_size({"width": width, "height": 900})
        opened.wait_until(f"document.documentElement.scrollWidth === {width}")
    assert page.evaluate(BESIDE) == []
    assert opened.complaints == []


def test_folded_parts_need_no_script(visit: Visitor, tmp_path: Path) -> None:
    """A page without charts has no script: a key opens a folded part, a link does, and paper shows all of it."""
    sections = [Section("first", "First", ["Seen."]), Section("last", "Last", ["Folded."], place="folded")]
    opened = visit(build_page(Page("x", "Title", sections=sections)), tmp_path, WIDE, unfold=False)
    page = opened.page
    assert page.locator("script").count() == 0
    text = page.get_by_text("Folded.")
    assert not text.is_visible()
    page.emulate_media(media="print")
    assert text.is_visible()
    page.emulate_media(media="screen")
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    assert text.is_visible()
    page.keyboard.press("Enter")
    page.locator("nav a[href='#last']").click()
    assert text.is_visible()
    assert opened.complaints == []


def test_reduced_motion_is_kept(visit: Visitor, tmp_path: Path) -> None:
    """Links jump for those who asked for less motion, and glide for others."""
    opened = visit(build_page(Page("x", "Title", sections=[Section("a", "A", ["b"])])), tmp_path, WIDE)
    look = "getComputedStyle(document.documentElement).scrollBehavior"
    assert opened.page.evaluate(look) == "smooth"
    opened.page.emulate_media(reduced_motion="reduce")
    assert opened.page.evaluate(look) == "auto"


def measure_contrast(one: str, other: str) -> float:
    """Return the ratio of two colours' luminances, as WCAG 2 defines it."""

    def measure_light(color: str) -> float:
        digits = color.lstrip("#")
        digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
        parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((measure_light(one), measure_light(other)))
    return (light + 0.05) / (dark + 0.05)


def test_black_on_white_is_21() -> None:
    """The largest contrast there is."""
    assert measure_contrast("#000", "#fff") == pytest.approx(21.0)


@pytest.mark.parametrize("dark", [False, True])
def test_texts_have_enough_contrast(*, dark: bool) -> None:
    """AA: every ink is 4.5 times as light or dark as every paper on which it stands."""
    css = files("optplan.reporting").joinpath("templates", "report.css").read_text(encoding="utf-8")
    light_theme, dark_theme = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    colors = dict(re.findall(r"--([\w-]+): (#\w+);", light_theme))
    colors |= dict(re.findall(r"--([\w-]+): (#\w+);", dark_theme)) if dark else {}
    papers = ["paper", "shade"]
    pairs = [(ink, paper) for ink in ("ink", "soft", "link", "fair") for paper in papers]
    pairs += [(kind, f"{kind}-shade") for kind in ("good", "fair", "bad")]
    pairs += [("ink", "warn-shade"), ("ink", "own-shade")]
    weak = [(ink, on) for ink, on in pairs if measure_contrast(colors[ink], colors[on]) < 4.5]
    assert weak == []
