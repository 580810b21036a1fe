"""What the tests of all pages share: a terminal, and a browser."""

from __future__ import annotations

import functools
import io
import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page, Request

Show = Callable[..., str]


@pytest.fixture(scope="session")
def show() -> Show:
    """Return a function that returns what a terminal shows, of 160 columns or as many as ``width`` says."""

    def render(*parts: object, width: int = 160) -> str:
        from rich.console import Console

        file = io.StringIO()
        console = Console(file=file, width=width, highlight=False)
        for part in parts:
            console.print(part, markup=False)
        return file.getvalue()

    return render


#: Seconds until a page that has not come to what is waited for never will.
PATIENCE_S = 120.0
#: The first one draws pages and no window around them, at half of the others' processor time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
#: What a page from a file needs nothing of. The pop-ups of the address bar are pages of their own, drawn anew for every
#: window; the others are what playwright turns off, whose list this one replaces.
_NOT_NEEDED = (
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),
    *("AimEnabled", "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying"),
    *("OptimizationHints", "PaintHolding", "PreconnectToSearch", "ThirdPartyStoragePartitioning"),
)
FLAGS = (
    f"--disable-features={','.join(_NOT_NEEDED)}",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",  # the sandbox needs a user other than root, which containers rarely have
)

#: Boxes of every text that is seen in a chart, in pixels, but for what hovering shows.
TEXT_BOXES = """id => [...document.getElementById(id).querySelectorAll("svg text")]
    .filter(text => text.textContent.trim() && !text.closest(".hoverlayer"))
    .map(text => ({ words: text.textContent, ...text.getBoundingClientRect().toJSON() }))
    .filter(box => box.width)"""

#: Texts of cells that are wider than their cells.
CELLS_TOO_NARROW = """section => [...section.querySelectorAll("th, td")]
    .filter(cell => !cell.querySelector(".visually-hidden") && cell.scrollWidth > cell.clientWidth + 1)
    .map(cell => cell.textContent)"""


#: See there; it returns how much it compared, and what is wrong.
READ_BACK = Path(__file__).with_name("read_back.js")


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

    def wait_until(self, holds: str) -> None:
        """Wait until an expression of JavaScript is true; the page's own policy lets it evaluate none by itself."""
        end = time.monotonic() + PATIENCE_S
        while not self.page.evaluate(holds):
            assert time.monotonic() < end, holds
            self.page.wait_for_timeout(20)

    def drawn_points(self) -> dict[str, list[int]]:
        """Count the points of every trace in every chart, as plotly holds them once it has drawn them."""
        counted: dict[str, list[int]] = self.page.evaluate(
            """Object.fromEntries([...document.querySelectorAll(".chart")].map(
                chart => [chart.id, chart.calcdata.map(trace => trace.length)]))"""
        )
        return counted

    def read_back(self) -> list[str]:
        """List what is drawn elsewhere than where the data of the page's charts are; there is something to compare."""
        compared, wrong = self.page.evaluate(READ_BACK.read_text(encoding="utf-8"))
        assert compared
        found: list[str] = wrong
        return found

    def list_collisions(self) -> list[str]:
        """List texts of charts that lie on one another, or are cut off at the chart's edge."""
        found = []
        for chart in self.drawn_points():
            edge = self.page.locator(f"#{chart}").bounding_box()
            assert edge is not None
            boxes: list[dict[str, Any]] = self.page.evaluate(TEXT_BOXES, chart)
            assert boxes
            left, right = edge["x"] - 1, edge["x"] + edge["width"] + 1
            found += [str(box["words"]) for box in boxes if box["left"] < left or box["right"] > right]
            found += [f"{a['words']} on {b['words']}" for a, b in itertools.combinations(boxes, 2) if _collide(a, b)]
        return found

    def list_narrow_cells(self, section: str) -> list[str]:
        """List texts of a section's tables that are wider than their cells, and so would lie on the next one."""
        found: list[str] = self.page.locator(f"section#{section}").evaluate(CELLS_TOO_NARROW)
        return found


def _collide(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two boxes lie on one another; those of lines of one text touch."""
    beside = one["right"] <= other["left"] + 1 or other["right"] <= one["left"] + 1
    return not (beside or one["bottom"] <= other["top"] + 3 or other["bottom"] <= one["top"] + 3)


Visitor = Callable[..., Visit]


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="module")
def visit(browser: Browser) -> Iterator[Visitor]:
    """Return a function that opens a page: its source, a folder for it, the width of the window.

    The pages of a module are closed after it: a hundred open ones take gigabytes.
    """
    before = set(browser.contexts)
    yield functools.partial(_open_page, browser)
    for context in browser.contexts:
        if context not in before:
            context.close()


def _open_page(
    browser: Browser, source: str, folder: Path, width: int, fragment: str = "", *, unfold: bool = True
) -> Visit:
    """Write a page to a file, open it and its folded parts from there, and wait until every chart is drawn."""
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
        if request.url.partition("#")[0] != path.as_uri():
            complaints.append(request.url)

    page.on("dialog", refuse)
    page.on("request", note_request)
    page.goto(path.as_uri() + fragment)
    if unfold:
        page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    opened.wait_until(
        """[...document.querySelectorAll('.chart')].every(chart => chart.closest('details:not([open])')
            || (chart.querySelector('.main-svg') && chart._fullLayout))"""
    )
    return opened
