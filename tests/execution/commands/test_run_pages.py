"""The page of a run: what its pictures and tables hold, of every kind, from the journal alone, also of a torn one."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.contracts import Plan
from optplan.execution.cli.kinds import kind_of_folder
from optplan.execution.cli.run_page import draw_curves, draw_gpus, draw_places, draw_spent, pay, tell_history
from optplan.execution.fleets.running import Course, Loss, watch
from optplan.execution.history import History, Moment, Seen, Span, Stay, gather
from optplan.execution.journal import Journal
from optplan.execution.loop import Curves
from optplan.execution.records import (
    MetricsShown,
    OperationEnded,
    OperationFailed,
    OperationStarted,
    Progressed,
    Record,
)
from optplan.execution.running import run
from optplan.execution.runs import open_run
from optplan.execution.state import NodeState
from optplan.execution.streams.running import run_stream
from optplan.execution.streams.state import StreamJob
from optplan.execution.trial_files import take_lock
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.srift.planning import SriftPlan
from optplan.reporting.pages import Page, build_page
from optplan.reporting.tables import Table
from optplan.solving import build_plan, solve

if TYPE_CHECKING:
    from tests.conftest import Runner
    from tests.plugins.pages import Visit, Visitor

QUADRATIC = f"{Path(__file__).parents[1] / 'trainables' / 'quadratic.py'}:Quadratic"
#: The second descends fastest: from 9, a step leaves (1 - 2 rate)^2 of its loss.
RATES = [{"rate": rate} for rate in (0.01, 0.3, 0.1, 0.02)]


def page_of(folder: Path) -> Page:
    """Build the page of a folder."""
    kind = kind_of_folder(folder)
    page: Page = kind.build_page(kind.look(folder))
    return page


def history_of(folder: Path) -> History:
    """Return how the run in a folder went."""
    history = kind_of_folder(folder).look(folder).history
    assert isinstance(history, History)
    return history


def rows_of(page: Page, section: str) -> list[Sequence[Any]]:
    """Return the rows of the first table of a section."""
    (found,) = (each for each in page.sections if each.id == section)
    table: Any = found.blocks[0]
    return list(table.rows)


def read_traces(opened: Visit, chart: str) -> dict[str, dict[str, Any]]:
    """Read back what a browser has drawn, by the names of traces."""
    traces: list[dict[str, Any]] = opened.page.evaluate(
        "id => document.getElementById(id)._fullData.map(({ name, x, y, base }) => ({ name, x, y, base }))"
        ".map(trace => JSON.parse(JSON.stringify(trace)))",
        chart,
    )
    return {trace["name"]: trace for trace in traces}


@pytest.fixture
def search(plan_of: Callable[..., Plan], tmp_path: Path) -> Path:
    """Return the folder of the textbook search, in which the second trial wins."""
    run(plan_of("rubberband-two-stages"), QUADRATIC, space=RATES, out=tmp_path / "search")
    return tmp_path / "search"


@pytest.fixture
def stream(
    make_instance: Callable[..., BoaInstance], make_jobs: Callable[..., list[StreamJob]], tmp_path: Path
) -> Path:
    """Return the folder of six jobs of three epochs."""
    instance = make_instance((1.0, 1.9, 3.0))
    run_stream(build_plan(instance, solve(instance)), make_jobs(6, 1.0), truth=instance, out=tmp_path / "stream")
    return tmp_path / "stream"


@pytest.fixture
def fleet(small_plan: SriftPlan, tmp_path: Path) -> Path:
    """Return the folder of a fleet that loses one of its two VMs after 5 s."""
    course = Course((Loss("spot", 5.0, 0.0),), boots_s=(2.0, 2.0))
    watch(small_plan, course=course, out=tmp_path / "fleet", heartbeat_s=1.0)
    return tmp_path / "fleet"


def test_a_browser_draws_the_search(search: Path, visit: Visitor, tmp_path: Path) -> None:
    """Curves as the losses follow, the trial on its GPUs, what was held and paid; all read back from the browser."""
    page = page_of(search)
    assert page.title.startswith("Virtual run: the winner is b1-s1-trials-0002 with ")
    assert page.title.endswith("e-31 (rate=0.3)")
    opened = visit(build_page(page), tmp_path, 1000)
    curves = read_traces(opened, "chart-curves-1")
    assert set(curves) == {"winner", "eliminated"}
    assert curves["winner"]["x"] == [*range(1, 41), None]
    assert curves["winner"]["y"][:-1] == pytest.approx([9.0 * 0.16**n for n in range(1, 41)], rel=1e-4, abs=1e-12)
    # Lines of a trace are told apart by a gap; those of the three others end after ten iterations.
    assert curves["eliminated"]["x"] == [*range(1, 11), None] * 3
    assert curves["eliminated"]["y"][:10] == pytest.approx([9.0 * 0.98 ** (2 * n) for n in range(1, 11)], rel=1e-4)
    places = read_traces(opened, "chart-places-1")
    won = places["winner"]
    assert sorted((60 * base, 60 * x) for base, x in zip(won["base"], won["x"], strict=True)) == [
        pytest.approx((0, 100)),
        pytest.approx((100, 180)),
    ]
    begins = [60 * x for x, y in zip(places["a stage begins"]["x"], places["a stage begins"]["y"], strict=True) if y]
    assert begins == pytest.approx([0, 0, 100, 100])
    gpus, spent = read_traces(opened, "chart-use-1"), read_traces(opened, "chart-use-2")
    for name in ("held", "planned"):
        assert [60 * x for x in gpus[name]["x"]] == pytest.approx([0, 100, 280])
        assert gpus[name]["y"] == [4, 2, 0]
    assert (gpus["at work"]["y"], spent["spent"]["y"][-1]) == ([4, 2, 0], pytest.approx(0.38))
    assert spent["planned"]["y"] == pytest.approx([0, 0, 0.2, 0.38])
    assert (opened.complaints, opened.list_collisions(), opened.read_back()) == ([], [], [])


def test_readers_sort_the_table(search: Path, visit: Visitor, tmp_path: Path) -> None:
    """The best first; by the rate up, and down; numbers as numbers; by keyboard as well."""
    opened = visit(build_page(page_of(search)), tmp_path, 1000)
    first = "[...document.querySelectorAll('#members tbody tr')].map(row => row.cells[4].textContent)"
    assert opened.page.evaluate(first) == ["0.3", "0.1", "0.02", "0.01"]
    rate = opened.page.locator("#members th button", has_text="rate")
    rate.click()
    assert opened.page.evaluate(first) == ["0.01", "0.02", "0.1", "0.3"]
    rate.press("Enter")
    assert opened.page.evaluate(first) == ["0.3", "0.1", "0.02", "0.01"]
    assert opened.page.locator("#members th[aria-sort=descending]").count() == 1


def test_the_table_says_all_of_a_trial(search: Path) -> None:
    """One GPU for 100 s, then two for 180 s, at $1.80 an hour each: 460 GPU-seconds for 23 cents."""
    rows = rows_of(page_of(search), "members")
    assert (rows[0][:2], rows[0][3:8]) == (("b1-s1-trials-0002", "winner"), ("40", "0.3", "0", "0.128", "0.230"))
    assert rows[0][8].startswith("bracket-1.node-0000")
    assert [row[1] for row in rows] == ["winner", "eliminated", "eliminated", "eliminated"]


def test_a_stream_and_a_fleet_are_drawn(stream: Path, fleet: Path, visit: Visitor, tmp_path: Path) -> None:
    """Jobs on nodes; VMs with their losses; what was planned anew, and why; nothing lies on anything else."""
    page = page_of(stream)
    rows = rows_of(page, "members")
    assert [row[0] for row in rows] == [f"job-{number:02d}" for number in range(6)]
    assert {(row[1], row[2], row[3]) for row in rows} == {("finished", "3", "a")}
    for width in (400, 1400):
        opened = visit(build_page(page), tmp_path, width)
        traces = read_traces(opened, "chart-places-1")
        history = history_of(stream)
        assert len(traces["finished"]["x"]) == sum(len(stay.place) for stay in history.stays)
        # The epochs of a job are a second's work on one GPU: 1.5 GPUs are budgeted, and fewer planned.
        assert read_traces(opened, "chart-use-1")["planned"]["y"][0] == pytest.approx(history.forecasts[0][1][0].gpus)
        assert (opened.complaints, opened.list_collisions(), opened.read_back()) == ([], [], [])
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    page = page_of(fleet)
    assert [row[1:4] for row in rows_of(page, "members")][:2] == [("spot", "released", "1"), ("spot", "lost", "1")]
    ((after, why, *_),) = rows_of(page, "replans")
    assert (re.match(r"\d+ s$", after) is not None, why.startswith("1 spot lost: on with ")) == (True, True)
    opened = visit(build_page(page), tmp_path, 1400)
    places = read_traces(opened, "chart-places-1")
    assert (len(places["node lost"]["x"]), "trains" in places) == (1, True)
    assert (opened.complaints, opened.read_back()) == ([], [])
    assert "planned anew" in read_traces(opened, "chart-use-2")
    history = history_of(fleet)
    ready = {node.name: node.ready_s for node in history.nodes}  # ranks train once all VMs of their fleet are there
    assert [stay.begin_s for stay in history.stays] == [max(ready[n] or 0.0 for n in s.place) for s in history.stays]
    assert all(stay.begin_s > 0.0 for stay in history.stays)


def test_what_ranks_have_shown_is_drawn(fleet: Path, visit: Visitor, tmp_path: Path) -> None:
    """One curve of the job: what it did again after the loss of a VM, from iteration 2 on, is drawn once.

    On the virtual clock nothing is shown, so the metrics are written down here.
    """
    with Journal(fleet, writable=False) as journal:
        followed = open_run(journal, "fleet")
        assert gather(followed, followed.past, lambda _: []).members == []
        shown, records = iter([[(1, 0.9), (2, 0.8)], [(2, 0.5), (3, 0.25)]]), list[Record]()
        for record in followed.past:
            if isinstance(record, OperationEnded | OperationFailed):
                records.append(replace(record, metrics={"note": "text", "loss": 0.25}))
            else:
                records.append(record)
            if isinstance(record, OperationStarted):
                records.append(MetricsShown(record.t, {record.operation: next(shown)}))
        history = gather(followed, records, lambda _: [])
    page = Page("", "A fleet", sections=tell_history(history))
    opened = visit(build_page(page), tmp_path, 800)
    ((name, trace),) = read_traces(opened, "chart-curves-1").items()
    assert (name, trace["x"][:3], trace["y"][:3]) == ("finished", [1, 2, 3], [0.9, 0.5, 0.25])
    assert opened.page.locator("#chart-curves-1 .ytitle").text_content() == "loss"
    assert (opened.complaints, opened.list_collisions()) == ([], [])


def test_what_was_planned_anew_is_told_with_what_it_changed(plan_of: Callable[..., Plan], tmp_path: Path) -> None:
    """Twice as slow: the first stage took 200 s instead of 100, and the rest is planned anew, to its actual end."""
    options: dict[str, Any] = {"slower": 2.0, "budget_usd": 5.0, "deadline_s": 2000.0}
    outcome = run(plan_of("rubberband-two-stages"), out=tmp_path / "run", **options)
    ((after, why, *changes),) = rows_of(page_of(tmp_path / "run"), "replans")
    assert (after, "the rest is planned anew" in why) == ("3 min 20 s", True)
    assert changes[:1] + changes[2:3] == ["4 min 40 s", "0.38"]
    assert float(changes[3]) == pytest.approx(outcome.cost_usd, rel=1e-3)
    spent = draw_spent(history_of(tmp_path / "run"))
    assert [trace.name for trace in spent.data] == ["spent", "planned", "planned anew"]


def test_a_search_that_failed_has_a_page(plan_of: Callable[..., Plan], tmp_path: Path, visit: Visitor) -> None:
    """Every trial shows no number: nobody wins, there are no curves, and the page is whole all the same."""
    silent = [{"rate": rate, "nan": True} for rate in (0.1, 0.2, 0.3, 0.4)]
    outcome = run(plan_of("rubberband-two-stages"), QUADRATIC, space=silent, out=tmp_path / "run")
    page = page_of(tmp_path / "run")
    assert (outcome.code, page.badge) == (1, "failed")
    assert page.title == "Virtual run: the search has no winner"
    assert "curves" not in {section.id for section in page.sections}
    opened = visit(build_page(page), tmp_path, 400)
    assert (opened.complaints, opened.page.locator("#members tbody tr").count()) == ([], 4)


def test_a_run_that_has_just_begun_has_a_page(run: Runner, search: Path, tmp_path: Path) -> None:
    """Whatever number of records there is, from the first on: the page is built, as it would be if it went on."""
    whole = sqlite3.connect(search / "journal.sqlite").execute("SELECT count(*) FROM records").fetchone()[0]
    for count in range(1, whole, 3):
        torn = tmp_path / f"torn-{count}"
        shutil.copytree(search, torn)
        with sqlite3.connect(torn / "journal.sqlite") as connection:
            connection.execute("DELETE FROM records WHERE number >= ?", (count,))
        page = page_of(torn)
        assert f"of {whole} records the first {count} can be read" in page.warnings[0]
        assert build_page(page)
    assert run("status", torn).code == 1
    told = run("report", torn, "-o", tmp_path / "page.html")
    assert (told.code, (tmp_path / "page.html").exists()) == (0, True)


def test_a_run_without_a_folder_has_the_same_page(run: Runner, tmp_path: Path) -> None:
    """What is told is what would be written down."""
    assert run("solve", "rubberband-two-stages", "--plan", tmp_path / "plan.json").code == 0
    for out in ((), ("--out", tmp_path / "run")):
        told = run("run", tmp_path / "plan.json", *out, "--report", tmp_path / f"{len(out)}.html")
        assert told.code == 0
    assert (tmp_path / "0.html").read_bytes() == (tmp_path / "2.html").read_bytes()


def make_large(trials: int, iterations: int) -> History:
    """Make a search by hand: each trial a GPU of a node of eight, in ten pieces, half as many from one to the next."""
    nodes = [NodeState(n, f"node-{n:03d}", "pool", "large", "s", 0.0, ready_s=30.0) for n in range(-(-trials // 8))]
    members, stays = [], []
    for number in range(trials):
        levels = 1 + min(9, (number + 1 & -(number + 1)).bit_length())
        curve = [Moment(n, 1.0 / n + number / trials) for n in range(1, iterations * levels // 10 + 1)]
        name, place = f"trials-{number:04d}", {nodes[number // 8].name: 1}
        state = "winner" if number == trials - 1 else "eliminated"
        members.append(
            Seen(name, state, {"lr": 1e-4 * number, "width": 64, "depth": number % 7}, 10, curve, 60.0, place)
        )
        stays += [Stay(name, f"s{n}", place, 30.0 + 60.0 * n, 90.0 + 60.0 * n, "finished") for n in range(levels)]
    history = History("search", 700.0, "loss", False, False, nodes, {"large": 8}, members, stays)
    history.spent = [Moment(t, t) for t in range(0, 700, 4)]
    history.forecasts.append((Moment(0.0, 0.0), [Span(0.0, 600.0, trials, 500.0)]))
    return history


def test_512_trials_are_one_small_page(visit: Visitor, tmp_path: Path) -> None:
    """Less than 1.5 MB with plotly; few elements for many lines; a row for each trial; no complaint, no collision."""
    source = build_page(Page("large", "512 trials", sections=tell_history(make_large(512, 1000))))
    assert len(source) < 1.5e6
    opened = visit(source, tmp_path, 1400)
    assert opened.page.locator("#members tbody tr").count() == 512
    assert opened.page.locator("#chart-curves-1 .scatterlayer .js-line").count() <= 2 * 512
    assert sum(opened.drawn_points()["chart-curves-1"]) < 8000
    assert (opened.complaints, opened.list_collisions()) == ([], [])


def test_very_many_jobs_are_drawn_in_part() -> None:
    """Of 4,000 trials the longest bars are drawn, a thousand rows are listed, and that is said."""
    history = make_large(4000, 20)
    bars = [trace for trace in draw_places(history).data if trace.type == "bar"]
    assert sum(len(bar.x) for bar in bars) == 2500
    (table,) = next(section.blocks for section in tell_history(history) if section.id == "members")
    assert isinstance(table, Table)
    assert table.rest == "The first 1,000 of 4,000 are shown."
    assert max(len(trace.x) for trace in draw_gpus(history).data) <= 1001


def test_a_few_values_far_away_do_not_flatten_the_others() -> None:
    """One curve of a hundred explodes: the axis ends where the others do; with two curves, both are seen."""
    calm = [Seen(f"t{n}", "eliminated", {}, 2, [Moment(1, 1.0), Moment(2, 0.5)], 0.0) for n in range(99)]
    wild = Seen("wild", "eliminated", {}, 2, [Moment(1, 1.0), Moment(2, 1e6)], 0.0)
    history = History("search", 1.0, "loss", False, False, [], {}, [*calm, wild], [])
    assert draw_curves(history).layout.yaxis.range == pytest.approx((0.475, 1.025))
    history.members = [calm[0], wild]
    assert draw_curves(history).layout.yaxis.range is None


def test_what_is_planned_is_paid_evenly() -> None:
    """$4 over 4 s beside $3 over 1 s from the second on; after $10 at 5 s."""
    assert pay(Moment(5.0, 10.0), [Span(5.0, 9.0, 1, 4.0), Span(7.0, 8.0, 1, 3.0)]) == [
        (5.0, 10.0),
        (5.0, 10.0),
        (7.0, 12.0),
        (8.0, 16.0),
        (9.0, 17.0),
    ]


def test_curves_are_thinned_and_written_in_time() -> None:
    """32 iterations are all kept, of a thousand 32 and sixteen for each doubling; at the latest after 5 s."""
    curves = Curves("loss")
    assert curves.take(0.0, at_once=True) == []
    for n in range(1, 1025):
        curves.see(Progressed(1.0 + n / 1e6, "a.1", n, {"other": 0.0, "loss": float(n)}))
    for wrong in (float("nan"), "high", True, None, 10**400):
        curves.see(Progressed(1.0, "b.1", 1, {"loss": wrong}))
    assert curves.take(3.0, at_once=False) == []
    (record,) = curves.take(6.1, at_once=False)
    assert isinstance(record, MetricsShown)
    assert set(record.curves) == {"a.1"}
    kept = [n for n, _ in record.curves["a.1"]]
    assert (kept[:33], len(kept)) == ([*range(1, 34)], 32 + 16 * 5)
    assert all(value == n for n, value in record.curves["a.1"])
    free = Curves("")
    free.see(Progressed(0.0, "a.1", 7, {"name": "x", "accuracy": 0.5}))
    assert free.take(0.0, at_once=True) == [MetricsShown(0.0, {"a.1": [(7, 0.5)]})]


def test_an_export_has_a_page(run: Runner, tmp_path: Path, visit: Visitor) -> None:
    """Two trials began; one ended after 100 s and won: what files say is shown, as text, as JSON and as a page."""
    plan, out = tmp_path / "plan.json", tmp_path / "export"
    assert run("solve", "rubberband-two-stages", "--plan", plan).code == 0
    space = tmp_path / "space.json"
    space.write_text(json.dumps(RATES), encoding="utf-8")
    options = ("--command", "train {gpus} {rate}", "--space", space, "--gpus-per-node", "4")
    assert run("export", plan, "--to", "script", "--out", out, *options).code == 0
    assert "0 begun" in page_of(out).title
    for number, losses in ((1, (3.0, 2.0)), (2, (3.0, 1.0))):
        place = out / "trials" / f"{number:04d}"
        place.mkdir(parents=True)
        (place / "began-b1-s1").write_text("1000\n", encoding="ascii")
        lines = [json.dumps({"loss": loss}) for loss in losses]
        (place / "metrics-b1-s1.jsonl").write_text("\n".join([*lines, "{cut"]), encoding="utf-8")
    ended = out / "trials" / "0002" / "ended-b1-s1"
    ended.touch()
    os.utime(ended, (1100.0, 1100.0))
    history = history_of(out)
    assert [(each.name, each.state, each.iterations, each.gpu_s) for each in history.members] == [
        ("0001", "running", 2, 0.0),  # what has not ended is not counted
        ("0002", "waiting", 2, 100.0),
    ]
    assert [tuple(each.curve) for each in history.members] == [((1, 3.0), (2, 2.0)), ((1, 3.0), (2, 1.0))]
    winner = {"trial": "0002", "metric": 1.0}
    (out / "winner.json").write_text(json.dumps(winner), encoding="utf-8")
    assert page_of(out).title == "The winner is 0002 with 1"
    opened = visit(build_page(page_of(out)), tmp_path, 400)
    assert read_traces(opened, "chart-curves-1")["winner"]["y"] == [3.0, 1.0, None]
    assert opened.complaints == []
    assert run("status", out, "--json").data["winner"] == "0002"
    assert "running" in run("status", out).out
    assert run("logs", out, "--json").data == {"trials": []}
    handle = take_lock(out / "trials" / "0001" / "lock")  # of a launcher
    assert handle is not None
    seen = [(run("status", out, "--json").data["running"], run("stop", out))]
    os.close(handle)  # it was killed
    seen.append((run("status", out, "--json").data["running"], run("stop", out)))
    assert [(running, stopped.code) for running, stopped in seen] == [(1, 1), (0, 0)]
    assert "nothing of it runs" in seen[1][1].err
    assert f"`optplan submit {out}` runs what has not ended" in run("run", "--resume", out).err


def test_garbage_in_an_export_is_passed_over_or_named(run: Runner, tmp_path: Path) -> None:
    """A mark that holds no time counts from when it was written; what nobody can go on from is named."""
    plan, out = tmp_path / "plan.json", tmp_path / "export"
    assert run("solve", "rubberband-two-stages", "--plan", plan).code == 0
    assert run("export", plan, "--to", "slurm", "--out", out, "--command", "train {gpus} {trial}").code == 0
    (out / "trials" / "0001").mkdir(parents=True)
    mark = out / "trials" / "0001" / "began-b1-s1"
    stopped = run("stop", out)
    assert (stopped.code, "its jobs are those of a scheduler; cancel them there" in stopped.err) == (1, True)
    for garbage in (b"\xff\xfe", b"9" * 400, b"-5", b"nan"):
        mark.write_bytes(garbage)
        assert [(stay.begin_s, stay.how) for stay in history_of(out).stays] == [(0.0, "running")]
    (out / "trials" / "0002" / "began-b1-s1").mkdir(parents=True)
    assert len(history_of(out).stays) == 1  # a folder is no mark
    kind = kind_of_folder(out)
    before = kind.stamp(out)
    (out / "members" / "b1-s2.txt").write_text("0002\n", encoding="ascii")
    assert kind.stamp(out) != before  # who is out has changed
    for winner in ("[]", '{"trial": "0001"}', '{"trial": "0001", "metric": "low"}'):
        (out / "winner.json").write_text(winner, encoding="ascii")
        assert "names no winner and its metric; remove it; `optplan promote --winner`" in run("status", out).err
    (out / "winner.json").write_text('{"trial": null, "metric": null}', encoding="ascii")
    assert run("status", out).code == 0  # nobody ended with a number
    manifest = out / "export.json"
    whole = json.loads(manifest.read_text("utf-8"))
    lacking = {name: each for name, each in whole.items() if name != "target"}
    wrong: list[dict[str, object]] = [{"mode": "up"}, {"configurations": ["one"]}, {"configurations": 3}]
    for changed in (lacking, *(whole | each for each in wrong)):
        manifest.write_text(json.dumps(changed), encoding="utf-8")
        assert "export.json: is not as `optplan export` writes it" in run("status", out).err
