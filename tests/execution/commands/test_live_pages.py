"""``optplan status DIR --serve``: the page that follows a run, on loopback, for whoever knows its address."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.contracts import Plan
from optplan.execution.cli import live
from optplan.execution.journal import Journal
from optplan.execution.records import Noted, Resumed
from optplan.execution.running import run as run_search
from optplan.execution.serving.publisher import Publisher
from optplan.execution.trial_files import hold_lock, take_lock
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import read_instance
from optplan.instances.library import build_named
from optplan.reporting.reports import prepare_report
from optplan.solving import solve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.conftest import Runner


@pytest.fixture
def search(plan_of: Callable[..., Plan], tmp_path: Path) -> Path:
    """Return the folder of a search that is paused by its budget after the first of two stages."""
    run_search(plan_of("rubberband-two-stages"), budget_usd=0.2, out=tmp_path / "search")
    return tmp_path / "search"


@contextmanager
def serving(serve_it: Callable[..., None], *what: object) -> Iterator[str]:
    """Serve a page in a thread, and yield where."""
    told: list[str] = []
    ready = threading.Event()
    served: list[Any] = []
    whole = live._Server.serve_forever

    def serve(server: Any) -> None:  # noqa: ANN401 - of the module under test
        served.append(server)
        ready.set()
        whole(server, 0.02)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live._Server, "serve_forever", serve)
        thread = threading.Thread(target=serve_it, args=(*what, told.append))
        thread.start()
        assert ready.wait(240.0)
        yield told[0]
        served[0].shutdown()
        thread.join()


@pytest.fixture
def address(search: Path) -> Iterator[str]:
    """Return where the page of the search is served."""
    with serving(live.serve_page, search) as told:
        yield told


@pytest.fixture
def report() -> Iterator[str]:
    """Return where the report of the two stages is served, whose least deadline is 160 s."""
    instance = build_named("rubberband-two-stages")
    result = solve(instance)
    with serving(live.serve_report, instance, result, prepare_report(instance, result)) as told:
        yield told


def test_a_report_solves_for_what_is_asked(report: str) -> None:
    """240 s is solved for, 100 s has no plan and 160 would have, and what is no amount is said to be none."""
    page = ask(report, "")[1]
    assert '"serves":true' in page
    assert "connect-src 'self'" in page
    state = json.loads(ask(report, "solve?amount=4")[1])
    there = solve(build_named("rubberband-two-stages").replace(deadline_s=240.0))
    assert (state["amount"], state["objective"]) == (240.0, there.objective)
    assert state["badge"] == "proven optimal"
    assert "the deadline is 4\u00a0min 00\u00a0s" in state["html"]
    none = json.loads(ask(report, f"solve?amount={100 / 60}")[1])
    assert (none["says"], "used" in none) == ("no plan; a deadline of 160 s would help", False)
    for wrong, said in (
        ("", "''"),
        ("nan", "'nan'"),
        ("-1", "'-1'"),
        ("1e999", "'1e999'"),
        ("0", "'0'"),
        ("1.2.3", "'1.2.3'"),
    ):
        told = json.loads(ask(report, f"solve?amount={wrong}")[1])
        assert told == {"says": f"got {said}; a deadline above zero is needed"}
    assert "check the unit" in json.loads(ask(report, "solve?amount=1e300")[1])["says"]
    assert json.loads(ask(report, "solve")[1])["says"].startswith("got ''")
    assert ask(report, "solve?amount=4", Host="evil.example")[0] == 404
    assert ask(report, "solve?amount=4", Origin="http://evil.example")[0] == 404


def test_a_served_page_shows_what_was_solved_for(report: str, browser: Browser) -> None:
    """By its button: what has no plan is said, and what has one is shown as proven."""
    from playwright.sync_api import expect

    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(report)
    page.locator("#try-number").fill("1.5")
    page.locator("#try-solve").click()
    expect(page.locator("#try-says")).to_have_text("1\u00a0min 30\u00a0s: no plan; a deadline of 160\u00a0s would help")
    expect(page.locator("h1")).to_contain_text("No cluster can do it")
    page.locator("#try-number").fill("4")
    page.locator("#try-solve").click()
    expect(page.locator("#try-solve")).to_be_disabled()
    expect(page.locator("#try-says")).to_contain_text("proven optimal")
    expect(page.locator("h1")).to_contain_text("the deadline is 4")
    assert complaints == []
    page.close()


def test_what_cannot_be_served_is_refused(run: Runner, tmp_path: Path) -> None:
    """A folder, no result, a file to write, another instance's result, one without a plan, and one without a limit."""
    result = tmp_path / "result.json"
    assert run("solve", "rubberband-two-stages", "-o", result).code == 0
    for words, said in (
        ((tmp_path,), f"needs a RESULT; `optplan status {tmp_path} --serve` serves a folder's page"),
        (("rubberband-two-stages",), "RESULT is missing"),
        (("rubberband-two-stages", result, "-o", "x.html"), "--out: goes with a page in a file"),
        (("rubberband-two-stages", result, "--deadline", "300s"), "give the instance it was made for"),
    ):
        told = run("report", *words, "--serve")
        assert told.code != 0
        assert said in told.err
    assert run("solve", "rubberband-two-stages", "--deadline", "100s", "-o", result, "--force").code == 3
    assert (
        "no plan to begin with" in run("report", "rubberband-two-stages", result, "--deadline", "100s", "--serve").err
    )
    free = ("--set", "deadline_s=null", "--set", "budget=null")
    assert run("solve", "srift-case3", *free, "-o", result, "--force").code == 0
    told = run("report", "srift-case3", result, "--serve")
    assert "has no limit of which another amount could be tried" in told.err


def ask(address: str, name: str, **headers: str) -> tuple[int, str]:
    """Ask for something beside the page; return the status and the text."""
    host, token = address.split("/")[2:4]
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("GET", f"/{token}/{name}", headers={name.replace("_", "-"): v for name, v in headers.items()})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def read_state(address: str) -> dict[str, Any]:
    """Return the small thing that the page asks for again and again."""
    state: dict[str, Any] = json.loads(ask(address, "state")[1])
    return state


def test_the_page_is_for_those_who_know_its_address(address: str) -> None:
    """Another token, another name of the host, or another page's request: nothing is there; and nothing but GET."""
    assert ask(address, "")[0] == 200
    host, token = address.split("/")[2:4]
    assert ask(f"http://{host}/{'x' * len(token)}/", "")[0] == 404
    assert ask(f"http://{host}/", "")[0] == 404
    assert ask(address, "", Host="evil.example")[0] == 404
    assert ask(address, "state", Origin="http://evil.example")[0] == 404
    assert ask(address, "state", Sec_Fetch_Site="cross-site")[0] == 404
    assert ask(address, "state", origin="http://evil.example")[0] == 404
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("POST", f"/{token}/state", body="{}")
    assert connection.getresponse().status == 501
    connection.close()


def test_a_state_changes_with_the_journal(address: str, search: Path) -> None:
    """Another record, or another driver, is another version; where nobody follows, that is an alarm."""
    first = read_state(address)
    assert (first["alarm"], first["said"].startswith("nobody follows it")) == (True, True)
    assert f"`optplan run --resume {search}` goes on" in first["said"]
    assert read_state(address) == first
    with Journal(search) as journal:
        journal.commit([Resumed(200.0), Noted(200.0, "a note for readers")])
        second = read_state(address)
        assert (second["said"], second["alarm"]) == (f"followed by process {os.getpid()}", False)
        assert second["version"] != first["version"]
        page = ask(address, "page")[1]
    assert "a note for readers" in page
    assert len(ask(address, "")[1]) > len(page) + 4e5  # the library
    known = (search / "journal.count").read_bytes()
    (search / "journal.count").write_bytes(b"\xff" * 9)
    assert "journal.count beside it does not say how many records" in ask(address, "page")[1]
    (search / "journal.count").write_bytes(known)
    (search / "driver.lock").write_text("nobody", encoding="ascii")
    handle = take_lock(search / "driver.lock")
    assert handle is not None
    unknown = read_state(address)
    assert (unknown["alarm"], "it says no process id" in unknown["said"]) == (True, True)
    os.close(handle)
    (search / "journal.sqlite").unlink()
    gone = read_state(address)
    assert (gone["alarm"], "damaged" in gone["said"]) == (True, True)


def wait_for(page: Page, holds: str) -> None:
    """Wait until an expression holds; asked from outside, as the page's policy lets nothing be evaluated in it."""
    until = time.monotonic() + 240.0
    while not page.evaluate(holds):
        assert time.monotonic() < until, holds
        page.wait_for_timeout(50)


def test_a_browser_follows_a_run(address: str, search: Path, browser: Browser) -> None:
    """A note appears, rows stay sorted, charts drawn, parts open; when the server is gone the page says so."""
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(address)
    wait_for(page, "document.querySelectorAll('.chart .main-svg').length > 2")
    page.locator("#members th button").first.click()
    page.evaluate("document.querySelector('.chart').marked = true")
    page.locator("summary").press("Enter")
    handle = hold_lock(search / "driver.lock", "busy")
    wait_for(page, f"document.getElementById('live').textContent === 'followed by process {os.getpid()}'")
    os.close(handle)
    with Journal(search) as journal:
        journal.commit([Noted(200.0, "a note for readers")])
    wait_for(page, "document.body.textContent.includes('a note for readers')")
    wait_for(page, "document.getElementById('live').classList.contains('warning')")
    assert page.locator("#members th[aria-sort=ascending]").count() == 1
    assert page.locator("#events").is_visible()
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert page.evaluate("document.querySelector('.chart').marked && !!document.querySelector('.chart .main-svg')")
    assert complaints == []
    page.route("**/state", lambda route: route.abort())
    wait_for(page, "document.getElementById('live').textContent.includes('does not answer any more')")
    page.close()


def test_the_page_of_a_service_is_served(tmp_path: Path) -> None:
    """Its state names who runs it, and is another one when widths were calculated."""
    publisher = Publisher(tmp_path / "state", read_instance("boa-two-classes", BoaInstance))
    with serving(live.serve_page, tmp_path / "state") as address:
        before = json.loads(ask(address, "state")[1])
        assert before["said"] == f"runs as process {os.getpid()}"
        publisher.calculate()
        assert json.loads(ask(address, "state")[1])["version"] != before["version"]
        assert "the first calculation" in ask(address, "")[1]
        publisher.stop()
        after = json.loads(ask(address, "state")[1])
    assert (after["said"], after["alarm"]) == (f"nobody runs it: `optplan serve {tmp_path / 'state'}`", True)


def test_one_folder_is_served(run: Runner, search: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not two; the address is printed, with --json on stdout."""
    assert "--serve: serves the page of one folder" in run("status", search, search, "--serve").err
    assert "no run is there" in run("status", tmp_path / "none", "--serve").err
    monkeypatch.setattr(live._Server, "serve_forever", lambda _: None)
    told = run("status", search, "--serve", "--json")
    assert told.code == 0
    assert told.data["address"].startswith("http://127.0.0.1:")
    assert "until Ctrl-C" in run("status", search, "--serve").err
