"""The page of a service in a real browser: what holds stands there, and an alarm where it exceeds the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, HttpCredentials, Page

    from tests.execution.serving.conftest import Asking

pytestmark = pytest.mark.skipif(find_spec("aiohttp") is None, reason="aiohttp is not installed")
pytest.importorskip("playwright", reason='playwright is not installed; pip install "optplan[test]" brings it')

Change = Callable[[dict[str, Any]], None]


Opener = Callable[..., Any]


@pytest.fixture
def open_page(browser: Browser, service: Asking) -> Iterator[Opener]:
    """Return a function that opens the page with a state that is changed on the way, until the frontier is drawn.

    It returns the page and what went wrong there. The pages are closed before the service ends: they ask it again.
    """
    contexts: list[BrowserContext] = []

    def open_with(change: Change = lambda _: None, width: int = 1280) -> tuple[Page, list[str]]:
        state = service.read("/v1/state")
        change(state)
        password: HttpCredentials = {"username": "any", "password": service.token}
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, http_credentials=password))
        page, complaints = contexts[-1].new_page(), list[str]()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.route("**/v1/state", lambda route: route.fulfill(json=state))
        page.goto(f"http://{service.host}/")
        page.wait_for_selector("#frontier polyline")
        return page, complaints

    yield open_with
    for context in contexts:
        context.close()


@pytest.mark.parametrize("width", [400, 800, 1400, 2000])
def test_what_holds_stands_there_without_an_alarm(open_page: Opener, width: int) -> None:
    """Two classes hold 2 GPUs a job on 2.5 in all; nothing is wider than the window, and nobody complains."""
    page, complaints = open_page(width=width)
    assert page.locator("h1").inner_text().startswith("2.5 GPUs planned of 2.5 GPUs: jobs take ")
    assert page.locator("#alarm").is_hidden()
    rows = page.locator("#widths tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["a", "b"]
    assert all("2 t4 (epoch 1)" in row for row in rows)
    assert page.locator("#widths .map").nth(0).locator("rect").get_attribute("fill-opacity") == "0.333"  # one doubling
    assert page.locator("#spent").get_attribute("aria-label") == "Planned 2.5 of 2.5 gpu"
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert complaints == []


def _exceed(state: dict[str, Any]) -> None:
    state["budget"].update(planned=5.0, exceeded=True)


def _find_none(state: dict[str, Any]) -> None:
    state["calculations"][0].update(verdict="over-budget", notes=["2.6 gpu are needed"])
    state["budget"]["needed"] = 2.6


def _have_left(state: dict[str, Any]) -> None:
    state["budget"].update(planned=3.0, followed=3.0, debt_h=-4.0)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (_exceed, "bad", "The widths take 5 GPUs, and the budget is 2.5 GPUs: 100 % more."),
        (_find_none, "bad", "No table keeps the limits: 2.6 gpu are needed. The table from before stays."),
        (_have_left, "fair", "The widths take 3 GPUs, and the budget is 2.5 GPUs; they are made for 3 GPUs now"),
    ],
)
def test_a_plan_beyond_its_budget_raises_an_alarm(open_page: Opener, change: Change, kind: str, words: str) -> None:
    """It stands above all figures, is read out, and in the window's title; what may be spent for a while is a note."""
    page, complaints = open_page(change)
    alarm = page.locator("#alarm")
    assert alarm.inner_text().startswith(words)
    assert (alarm.get_attribute("class"), alarm.get_attribute("role")) == (f"alarm {kind}", "alert")
    assert page.title().startswith("⚠") is (kind == "bad")
    assert (page.locator("#badge").inner_text() == "alarm") is (kind == "bad")
    assert page.locator("#spent .beyond").count() == (change is not _find_none)
    assert complaints == []
