"""How many GPUs an own cluster needs: by hand, against all replays, and what users meet."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import DataError, UsageError
from optplan.execution.online.jobs import Order
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.instances.files import read_instance
from optplan.instances.job_traces import JobTrace, draw_trace
from optplan.lab.cluster.jobs import SchedulingPolicy
from optplan.lab.cluster.policies.boa import Scheduled
from optplan.lab.cluster.policies.price_that_fits import PriceThatFits
from optplan.lab.cluster.traced_jobs import simulate_trace
from optplan.lab.sizing import ClusterSize, LoggedCluster, Replay, Sizing, _search_valley, size
from optplan.lab.sizing_page import build_sizing_page, list_sizes, say_sizing
from optplan.progress import Event
from optplan.reporting.pages import build_page
from optplan.solving import build_plan, frontier, result_of

if TYPE_CHECKING:
    from tests.conftest import Runner
    from tests.plugins.pages import Visitor

pytestmark = pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")


def make_instance(speedup: Sequence[float] = (1.0, 1.5), rate: float = 0.5, least: int = 1) -> BoaInstance:
    """Make one class of an hour on its least width, with its speedups from there on."""
    gpus = [*range(least, least + len(speedup))]
    curve = {"v100": {"form": "table", "gpus": gpus, "speedup": list(speedup)}}
    fields = {"arrival_rate_per_hour": rate, "epoch_size_gpu_hours": [1.0], "speedup": curve, "reference_width": least}
    types = {"v100": {"gpus_per_node": 1}}
    return BoaInstance.parse({"name": "one", "formulation": "boa", "classes": {"x": fields}, "gpu_types": types})


def make_trace(
    arrive_s: Sequence[float], gpus: Sequence[float], run_s: Sequence[float], wait_s: Sequence[float]
) -> JobTrace:
    """Make jobs of the class."""
    count = len(arrive_s)
    return JobTrace(
        name="t",
        classes=("x",),
        class_index=np.zeros(count, dtype=np.int64),
        arrive_s=np.array(arrive_s, dtype=float),
        size=np.ones(count),
        ids=np.array([f"job-{number}" for number in range(count)]),
        gpus=np.array(gpus, dtype=float),
        run_s=np.array(run_s, dtype=float),
        wait_s=np.array(wait_s, dtype=float),
        span_s=max(arrive_s),
    )


UNKNOWN = (math.nan, math.nan)
TWO = make_trace([0.0, 600.0], UNKNOWN, UNKNOWN, UNKNOWN)


def test_two_jobs_on_one_and_on_two_gpus() -> None:
    """On one GPU the second job waits for 3,000 s: 3,600 and 6,600 s. On two they take 3,300 s each.

    The first does 900 s of its hour by the time that the other comes, and the rest on one GPU; then the other one has
    900 s left, on both. Side by side from the beginning they would take 3,600 s.
    """
    found = size(make_instance(), TWO, [2, 1])
    one, two = found.sizes
    assert (one.nodes, one.gpus, two.nodes, two.gpus) == (1, 1, 2, 2)
    assert one.best.mean_jct_s == pytest.approx(5100.0)
    assert one.best.p95_jct_s == pytest.approx(3600.0 + 0.95 * 3000.0)
    assert one.best.mean_waited_s == pytest.approx(1500.0)
    assert one.best.use == pytest.approx(1.0)
    assert two.best.mean_jct_s == pytest.approx(3300.0)
    assert two.best.mean_waited_s == pytest.approx(0.0, abs=1e-6)
    assert two.best.use == pytest.approx(1.0)
    assert found.load_gpus == pytest.approx(0.5)
    assert found.log is None


def _replay_all(instance: BoaInstance, trace: JobTrace, nodes: int) -> list[tuple[float, float]]:
    """Return mean and P95 under each policy and each plan of the frontier."""
    line = frontier(instance)
    plans = []
    for budget in line.budgets.tolist():
        limited = instance.replace(budget=f"{budget!r}gpu")
        plan = build_plan(limited, result_of(limited, line.solution_at(budget)))
        assert isinstance(plan, BoaPlan)
        plans.append(plan)
    policies: list[SchedulingPolicy] = [
        PriceThatFits(instance),
        *(Scheduled(plan, order) for plan in plans for order in Order),
    ]
    times_s = [simulate_trace(instance, trace, policy, nodes=nodes).jct_s for policy in policies]
    return [(float(each.mean()), float(np.percentile(each, 95))) for each in times_s]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_policy_that_was_to_be_tried_is_better(seed: int) -> None:
    """With three plans all are tried: the least mean and the least P95 are those of all replays."""
    instance = make_instance((1.0, 1.7, 2.1), rate=0.8)
    trace = draw_trace(instance, jobs=12, seed=seed)
    for each in size(instance, trace, [1, 2, 3]).sizes:
        tried = _replay_all(instance, trace, each.nodes)
        assert each.best.mean_jct_s == min(mean_s for mean_s, _ in tried)
        assert each.best_p95.p95_jct_s == min(p95_s for _, p95_s in tried)
        assert each.replays == len(tried)


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=40), st.data())
def test_a_valley_is_found_wherever_it_is(steps: list[float], data: st.DataObject) -> None:
    """Of values that fall and then rise, the least is found, without a look at all of them."""
    bottom = data.draw(st.integers(0, len(steps)))
    values = [sum(steps[min(place, bottom) : max(place, bottom)]) for place in range(len(steps) + 1)]
    looked: set[int] = set()

    def measure(place: int) -> float:
        looked.add(place)
        return values[place]

    assert _search_valley(measure, len(values)) == bottom
    assert len(looked) <= 3 + 2 * math.log(len(values), 1.6)


def _make_sizing(means_h: dict[int, float], log: LoggedCluster | None = None) -> Sizing:
    sizes = []
    for gpus, mean_h in means_h.items():
        replay = Replay("price-that-fits", None, 3600.0 * mean_h, 7200.0 * mean_h, 0.0, 0.5)
        sizes.append(ClusterSize(gpus // 4, gpus, replay, replay, 900.0 * mean_h, 1))
    return Sizing("mine", 564, 4, 10.4, tuple(sizes), log)


def test_the_knee_is_where_gpus_times_time_are_least() -> None:
    """12 x 25, 16 x 9, 24 x 2.2, 64 x 1.5 GPU-hours: least at 24 GPUs; where they still fall, that is said."""
    found = _make_sizing({12: 25.0, 16: 9.0, 24: 2.2, 64: 1.5})
    assert found.knee.gpus == 24
    assert "In replays, the knee is at 6 nodes of 4 GPUs: 24 GPUs" in say_sizing(found)
    assert found.to_json_data()["knee_nodes"] == 6
    assert "look at larger clusters" in say_sizing(_make_sizing({12: 25.0, 16: 9.0}))


def test_what_a_log_says_of_its_own_cluster() -> None:
    """Two GPUs from 100 to 1,100 s, then four, never six; a job that never ran does not count."""
    trace = make_trace([0.0, 500.0, 700.0], (2.0, 4.0, 1.0), (1000.0, 500.0, math.nan), (100.0, 600.0, math.nan))
    log = LoggedCluster.of(trace)
    assert log == LoggedCluster(jobs=2, mean_jct_s=1100.0, p95_jct_s=1100.0, mean_waited_s=350.0, most_gpus=4.0)
    whose = "the log's own, 2 of 564 jobs"
    row = ["", "4", "18 min 20 s", "", "18 min 20 s", "5 min 50 s", "", whose]
    assert list_sizes(_make_sizing({12: 1.0}, log)).rows[-1] == row


def test_the_least_p95_has_a_line_of_its_own_where_it_is_another_replay() -> None:
    """With the budget of its plan."""
    slow = Replay("first-come", 9.87654, 4000.0, 6000.0, 60.0, 0.5)
    sized = _make_sizing({12: 1.0})
    rows = list_sizes(replace(sized, sizes=(replace(sized.sizes[0], best_p95=slow),))).rows
    assert [list(row)[-1] for row in rows] == ["price-that-fits", "first-come, plan of 9.877"]


def test_bounds_stand_beside_and_events_are_told() -> None:
    """Whoever knows a bound is asked for each size."""
    told: list[Event] = []
    found = size(make_instance(), TWO, [1, 2], bound=lambda *asked: 100.0 * asked[2], on_event=told.append)
    assert [each.bound_s for each in found.sizes] == [100.0, 200.0]
    assert [event.fraction for event in told] == [0.0, 0.5]


@pytest.mark.parametrize(
    ("instance", "nodes", "message"),
    [
        (make_instance(rate=2.5), [2], "got 2, which are 2 GPUs, and the jobs need 2.5 on average, .*; take 3 or more"),
        (
            make_instance(least=4),
            [3, 5],
            "got 3, which are 3 GPUs, and a job of class x needs 4 at once; take 4 or more",
        ),
    ],
)
def test_clusters_that_are_too_small_are_refused(instance: BoaInstance, nodes: list[int], message: str) -> None:
    """Jobs would pile up, or never start."""
    with pytest.raises(DataError, match=message):
        size(instance, TWO, nodes)


def test_jobs_that_all_arrive_at_once_are_refused() -> None:
    """Nobody knows then how often they come."""
    with pytest.raises(DataError, match="all 2 jobs arrive at once; take a log that says when jobs were submitted"):
        size(make_instance(), make_trace([0.0, 0.0], UNKNOWN, UNKNOWN, UNKNOWN), [1])


@pytest.mark.parametrize("nodes", [[], [0, 2]])
def test_numbers_of_nodes_are_needed(nodes: list[int]) -> None:
    """At least one of at least 1."""
    with pytest.raises(UsageError, match="numbers of nodes of at least 1 are needed"):
        size(make_instance(), TWO, nodes)


def _write_log(path: Path, *rows: str) -> tuple[object, ...]:
    path.write_text("\n".join(["id,name,submit,start,end,gpus,state", *rows]))
    return (path, "--by", "gpus", "--from", "csv", "--class-pattern", "^[a-z]+", "--assume", "linear", "--nodes", "1,2")


def test_the_command_goes_from_a_log_to_sizes(run: Runner, tmp_path: Path) -> None:
    """Table, JSON and report say the same; the log's own cluster stands beside, and what is assumed in front."""
    ran = [
        f"{n},a-{n},2026-03-02T0{n}:00:00,2026-03-02T0{n}:10:00,2026-03-02T0{n + 1}:10:00,2,COMPLETED"
        for n in range(1, 4)
    ]
    words = (*_write_log(tmp_path / "log.csv", *ran), "--gpus-per-node", "2")
    shown = run("frontier", *words, "--report", tmp_path / "size.html")
    assert shown.code == 0
    assert shown.out.startswith("Speedups behind the load: ")
    assert "1 h 10 min" in next(line for line in shown.out.splitlines() if "the log's own" in line)
    told = json.loads(run("frontier", *words, "--bound", "--json").out)
    assert all(0.0 < each["bound_s"] <= each["best"]["mean_jct_s"] for each in told["sizes"])
    assert [each["gpus"] for each in told["sizes"]] == [2, 4]
    assert told["log"]["most_gpus"] == 2.0
    assert told["evidence"] == {"assumed": pytest.approx(1.0)}
    assert "Completion time by GPUs of the cluster" in (tmp_path / "size.html").read_text("utf-8")


def test_a_log_of_which_no_job_ran_or_says_when_it_came_is_refused(run: Runner, tmp_path: Path) -> None:
    """The import says what is missing."""
    words = _write_log(tmp_path / "log.csv", *(f"{n},a-{n},2026-03-02T0{n}:00:00,,,2,PENDING" for n in range(3)))
    assert "no job has a known size" in run("frontier", *words).err
    (tmp_path / "log.csv").write_text("id,name,elapsed,gpus,state\n1,a-1,3600,2,COMPLETED\n")
    assert "no column says when jobs were submitted" in run("frontier", *words).err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "2..3"), "--jobs, --span: how many jobs of the instance come?"),
        (("--nodes", "3..2", "--jobs", "9"), "--nodes: got '3..2'; a first and a last number of nodes, to 1,000,000"),
        (("--nodes", "1", "--jobs", "9", "--gpus-per-node", "4"), "--nodes: got 1, which are 4 GPUs"),
        (("--nodes", "3..5000", "--jobs", "9", "--gpus-per-node", "4"), "--nodes: got 4,998 sizes; at most 1,000 are"),
        (("--nodes", "2..100000000", "--jobs", "9"), "a first and a last number of nodes, to 1,000,000, are needed"),
        (
            ("--nodes", "9999999", "--jobs", "9", "--gpus-per-node", "4"),
            "--nodes: got 9999999; from 1 to 1,000,000",
        ),
        (
            ("--nodes", "9", "--jobs", "9", "--gpus-per-node", "9999999"),
            "--gpus-per-node: got 9999999; from 1 to 1,",
        ),
        (("--jobs", "9"), "Missing option '--nodes'"),
    ],
)
def test_what_is_wrong_with_the_words(run: Runner, words: tuple[str, ...], message: str) -> None:
    """Each message names the option."""
    assert message in run("frontier", "boa-newtrace-tables", "--by", "gpus", *words).err


def test_help_is_of_what_varies(run: Runner) -> None:
    """`optplan frontier --by gpus --help` lists the options of logs, `optplan frontier --help` does not."""
    assert "--gpus-per-node" in run("frontier", "--by", "gpus", "--help").out
    assert "--gpus-per-node N" not in run("frontier", "--help").out
    assert "'bytes' is not" in run("frontier", "boa-newtrace", "--by", "bytes").err


def test_the_page_draws_the_sizes(visit: Visitor, tmp_path: Path) -> None:
    """Mean, P95, bound and knee are lines of the figure, and of what a browser draws of it."""
    page = build_sizing_page(_make_sizing({12: 25.0, 16: 9.0, 24: 2.2}), ["assumed"])
    figure = page.sections[0].blocks[0].figures[0][1]  # type: ignore[union-attr]
    assert [line.name for line in figure.data] == ["mean", "P95", "no scheduler's mean is below", "knee"]
    assert page.warnings == ["assumed"]
    opened = visit(build_page(page), tmp_path, 400)
    assert (opened.complaints, opened.list_collisions(), opened.read_back()) == ([], [], [])


def test_sizes_are_shown_in_python() -> None:
    """Printed they say the knee and list the sizes; drawn, they are means and P95 by GPUs, the knee marked."""
    pytest.importorskip("plotly")
    found = _make_sizing({1: 3.0, 2: 1.2, 4: 0.9})
    assert str(found).startswith(say_sizing(found)[:60])
    assert [list(line.x) for line in found.plot().data][:2] == [[1, 2, 4], [1, 2, 4]]
    assert "srcdoc" in found._repr_html_()


def test_sizes_of_a_library_instance_are_the_same_again() -> None:
    """The same jobs give the same figures."""
    instance = read_instance("boa-two-epochs", BoaInstance)
    trace = draw_trace(instance, jobs=20, seed=1)
    first = size(instance, trace, [64], gpus_per_node=1)
    assert first.to_json_data() == size(instance, trace, [64], gpus_per_node=1).to_json_data()
