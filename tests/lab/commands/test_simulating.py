"""``optplan simulate cluster``: a trace under policies, files, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.lab.cluster.policies.naming import budget_gpus

if TYPE_CHECKING:
    from tests.conftest import Runner
    from tests.plugins.pages import Visitor

HEAD = "name,time,application,num_replicas,batch_size\n"


@pytest.fixture
def profiles(data_pack: Path) -> tuple[str, str]:
    """Return the option that names the profiles."""
    return ("--profiles", str(data_pack / "sia" / "traces"))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Write a trace: two jobs at once, and one that asks for a hundred GPUs."""
    path = tmp_path / "trace.csv"
    path.write_text(f"{HEAD}a,10,cifar10,2,256\nb,10,cifar10,4,256\nc,20,cifar10,100,4096\n")
    return path


def test_jobs_and_sums_as_json(run: Runner, profiles: tuple[str, str], trace: Path) -> None:
    """Two jobs of two GPUs share a node of four; the pack has 1.0326 h for a job, whole-job speedups of 1.757."""
    trace.write_text("\n".join(trace.read_text().splitlines()[:3]))
    told = run("simulate", "cluster", trace, *profiles, "--policy", "one-width:2", "--json")
    assert told.code == 0
    jct_s = 50 + 3600 * 1.0326 / 1.757
    assert told.data["mean_jct_s"] == pytest.approx(jct_s, rel=1e-3)
    assert told.data["p95_jct_s"] == pytest.approx(jct_s, rel=1e-3)
    assert told.data["gpu_hours"] == pytest.approx(4 * jct_s / 3600, rel=1e-3)
    assert told.data["node_gpu_hours"] == pytest.approx(told.data["gpu_hours"])
    assert told.data["most_gpus"] == 4
    assert [job["name"] for job in told.data["jobs"]] == ["a", "b"]
    slow = run("simulate", "cluster", trace, *profiles, "--policy", "one-width:2", "--slowdown", "--json")
    # The least of any policy takes no longer than both do here, and without their pauses of 50 s less still.
    assert 0.0 < told.data["least_mean_jct_s_without_pauses"] < told.data["least_mean_jct_s"] <= jct_s * 1.001
    assert slow.data["mean_jct_s"] - 50 == pytest.approx(1.8 * (told.data["mean_jct_s"] - 50))


def test_a_job_that_never_fits(run: Runner, profiles: tuple[str, str], trace: Path, tmp_path: Path) -> None:
    """It is reported on the terminal, in the file and in the report; the others are completed."""
    files = ("-o", tmp_path / "out.json", "--report", tmp_path / "out.html")
    told = run("simulate", "cluster", trace, *profiles, "--policy", "least-attained", "--nodes", "2", *files)
    assert told.code == 0
    assert "2 of 3" in told.out
    assert "c: least-attained needs 100 GPUs for it, and the cluster has 8" in told.out
    assert "1 of 3 jobs were not completed" in (tmp_path / "out.html").read_text()
    assert '"c": "least-attained needs 100' in (tmp_path / "out.json").read_text()


def test_nothing_completed(run: Runner, profiles: tuple[str, str], trace: Path) -> None:
    """Where no job can run there is no mean, and the exit code says so."""
    told = run("simulate", "cluster", trace, *profiles, "--policy", "one-width:16", "--nodes", "1", "--json")
    assert told.code == 3
    assert told.data["mean_jct_s"] is None
    assert len(told.data["problems"]) == 3


def test_several_simulations(run: Runner, profiles: tuple[str, str], trace: Path, tmp_path: Path) -> None:
    """Each workload with each policy and number of nodes, a row and a file each; what is there is not run again."""
    trace.write_text("\n".join(trace.read_text().splitlines()[:3]))
    sweep = ("--policy", "one-width:2", "--policy", "reservation", "--nodes", "1", "--nodes", "2", "--processes", "1")
    told = run("simulate", "cluster", trace, *profiles, *sweep, "--results", tmp_path / "out")
    assert told.code == 0
    rows = [line.split()[:3] for line in told.out.splitlines()[2:]]
    assert rows == [["trace.csv", policy, nodes] for policy in ("one-width:2", "reservation") for nodes in "12"]
    files = list((tmp_path / "out").iterdir())
    assert len(files) == 4
    for file in files:
        file.write_text(file.read_text().replace('"mean_jct_s": ', '"mean_jct_s": 1'))
    again = run("simulate", "cluster", trace, *profiles, *sweep, "--results", tmp_path / "out", "--json")
    assert [row["most_gpus"] for row in again.data] == [4, 4, 4, 6]
    assert all(row["mean_jct_s"] > 10_000 for row in again.data)
    for options, said in (((), "--results"), (("--results", tmp_path, "--report", tmp_path / "x.html"), "--report")):
        told = run("simulate", "cluster", trace, *profiles, *sweep, *options)
        assert told.code == 2
        assert said in told.err


def test_a_cluster_that_is_less_than_ideal(run: Runner, profiles: tuple[str, str], trace: Path) -> None:
    """Every option has its effect: later, slower, interrupted, and paid for longer."""
    trace.write_text("\n".join(trace.read_text().splitlines()[:3]))
    ideal = run("simulate", "cluster", trace, *profiles, "--policy", "one-width:2", "--json").data
    starts = ("--node-start", "2min", "--warm-start", "20s", "--reclaim", "1h", "--interference", "0.1")
    losses = ("--interruptions", "4", "--loses-epoch", "--stragglers", "normal:0.2", "--seed", "7")
    told = run("simulate", "cluster", trace, *profiles, "--policy", "one-width:2", "--json", *starts, *losses).data
    assert told["mean_jct_s"] > ideal["mean_jct_s"]
    assert told["billed_gpu_hours"] > told["node_gpu_hours"]
    assert ideal["billed_gpu_hours"] == ideal["node_gpu_hours"]
    assert told["interruptions"] == sum(job["interruptions"] for job in told["jobs"]) > 0
    assert told["world"]["straggling_law"] == "normal"
    assert told["cost_usd"] is None


def test_options_without_effect_are_refused(run: Runner, profiles: tuple[str, str], trace: Path) -> None:
    """By their own names, with the option that they need."""
    told = run("simulate", "cluster", trace, *profiles, "--policy", "one-width:2", "--warm-start", "20s")
    assert told.code == 1
    assert told.err.startswith("error: --warm-start: got ")
    assert "--reclaim" in told.err


def test_nodes_that_stay_are_not_reclaimed(run: Runner, profiles: tuple[str, str], trace: Path) -> None:
    """A cluster of fixed size gives no node back, unless the policy sizes it."""
    told = run("simulate", "cluster", trace, *profiles, "--policy", "one-gpu", "--nodes", "4", "--reclaim", "3min")
    assert told.code == 1
    assert told.err.startswith("error: --reclaim: got 180, and one-gpu gives none of its 4 nodes back; let nodes be")
    sized = run(
        "simulate",
        "cluster",
        trace,
        *profiles,
        "--policy",
        "pollux-autoscaled:0.5",
        "--nodes",
        "4",
        "--reclaim",
        "3min",
    )
    assert sized.code == 0


def test_the_cost_of_nodes(run: Runner, profiles: tuple[str, str], trace: Path) -> None:
    """Whole nodes are paid, until they are reclaimed, at the price of each of their GPUs."""
    trace.write_text("\n".join(trace.read_text().splitlines()[:3]))
    asked = (
        "simulate",
        "cluster",
        trace,
        *profiles,
        "--policy",
        "one-width:2",
        "--reclaim",
        "30min",
        "--price",
        "24usd/day",
    )
    told = run(*asked, "--json").data
    assert told["cost_usd"] == pytest.approx(told["node_gpu_hours"] + 4 * 0.5)
    assert f"cost of the nodes                 ${told['cost_usd']:.2f}" in run(*asked).out
    assert "0.978usd/hour" in run("simulate", "cluster", trace, *profiles, "--policy", "one-gpu", "--price", "3gpu").err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--stragglers", "nrmal:0.1"), "--stragglers: got 'nrmal'"),
        (("--stragglers", "much"), "--stragglers: got 'much'; give something like 0.036"),
        (("--interruptions", "often"), "--interruptions: got 'often'; give something like 0.05"),
        (("--interruptions", "-1"), "--interruptions: got -1.0"),
        (("--interruptions", "none.json"), "none.json"),
    ],
)
def test_wrong_clusters(
    run: Runner, profiles: tuple[str, str], trace: Path, options: tuple[str, ...], said: str
) -> None:
    """The option that is wrong is named."""
    told = run("simulate", "cluster", trace, *profiles, "--policy", "one-gpu", *options)
    assert told.code in {1, 2}
    assert said in told.err


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("d,30,cifar11,1,128", "unknown application 'cifar11'"),
        ("d,-5,cifar10,1,128", "time"),
        ("a,30,cifar10,1,128", "a second job is named 'a'"),
    ],
)
def test_wrong_traces(run: Runner, profiles: tuple[str, str], trace: Path, row: str, said: str) -> None:
    """The line that is wrong is named."""
    trace.write_text(trace.read_text() + row + "\n")
    told = run("simulate", "cluster", trace, *profiles, "--policy", "one-gpu")
    assert told.code == 1
    assert f"{trace}:5" in told.err
    assert said in told.err


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("one-gpus", "did you mean 'one-gpu'"),
        ("one-width:0", "at least 1 GPU"),
        ("equal-share", "--nodes"),
    ],
)
def test_wrong_policies(run: Runner, profiles: tuple[str, str], trace: Path, policy: str, said: str) -> None:
    """The message says what would do."""
    told = run("simulate", "cluster", trace, *profiles, "--policy", policy)
    assert told.code == 2
    assert said in told.err


EXAMPLE = Path(__file__).parents[3] / "docs/examples/sacct.txt"
LOG = (EXAMPLE, "--from", "sacct", "--class-pattern", "^[a-z]+", "--throughput", EXAMPLE.parent / "throughput.csv")


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_a_log_and_its_table(run: Runner, tmp_path: Path) -> None:
    """A log in one command, and the jobs table with the instance that was imported of it, come to the same."""
    mine, jobs = tmp_path / "mine.json", tmp_path / "jobs.csv"
    assert run("import", "log", *LOG, "-o", mine, "--jobs", jobs).code == 0
    options = ("--policy", "one-width:4", "--gpus-per-node", "8", "--nodes", "12", "--json")
    of_log = run("simulate", "cluster", *LOG, *options).data
    of_table = run("simulate", "cluster", jobs, "--instance", mine, *options).data
    assert of_log["completed"] == of_log["num_jobs"] > 100
    assert (of_table["instance"], of_table["workload"]) == ("mine.json", "jobs.csv")
    for figure in ("jobs", "mean_jct_s", "gpu_hours", "applications", "span_s"):
        assert of_log[figure] == of_table[figure]


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_the_report_sets_the_log_above_the_replay(run: Runner, visit: Visitor, tmp_path: Path) -> None:
    """Both on one axis of dates; the plan's budget and the cluster's capacity are marked, and P95 is the answer's."""
    mine, plan, report = tmp_path / "mine.json", tmp_path / "plan.json", tmp_path / "week.html"
    assert run("import", "log", *LOG, "-o", mine).code == 0
    assert run("solve", mine, "--budget", "7gpu", "--plan", plan).code == 0
    options = ("--policy", f"first-come:{plan}", "--gpus-per-node", "8", "--nodes", "2", "--json", "--report", report)
    told = run("simulate", "cluster", *LOG, *options).data
    page = report.read_text(encoding="utf-8")
    figures = json.loads(page.partition('id="figures">')[2].partition("</script>")[0])
    traces = {(trace["name"], trace["yaxis"]): trace for trace in figures["chart-over-time-1"]["data"]}
    assert {name for name, axis in traces if axis == "y"} == {"vision", "language", "speech", "P95"}
    marks = {name: traces[name, "y3"]["y"][0] for name in ("budget", "capacity", "P95")}
    assert marks == {"budget": 7.0, "capacity": 16.0, "P95": told["p95_gpus"]}
    vision = traces["vision", "y3"]
    hours = vision["dx"] / 3_600_000.0
    assert sum(vision["y"][:-1]) * hours == pytest.approx(told["applications"]["vision"]["gpu_hours"], rel=1e-3)
    assert "Left out of the log: the sizes of 2 jobs" in page.replace("\xa0", " ")
    opened = visit(page, tmp_path, 400)
    assert (opened.complaints, opened.list_collisions(), opened.read_back()) == ([], [], [])


@pytest.mark.parametrize("budget", ["7gpu", "14usd/hour", "10220usd/month"])
@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_budgets_of_policies_are_gpus(run: Runner, tmp_path: Path, budget: str) -> None:
    """Two dollars a GPU-hour: 14 an hour, or 10,220 a month of 730 hours, are 7 GPUs; who has no budget has none."""
    mine, plan = tmp_path / "mine.json", tmp_path / "plan.json"
    assert run("import", "log", *LOG, "--price", "2usd/hour", "--budget", budget, "-o", mine).code == 0
    assert run("solve", mine, "--plan", plan).code == 0
    assert budget_gpus("one-gpu") is None
    assert budget_gpus(f"price-that-fits:{mine}") is None
    assert budget_gpus(str(plan)) == budget_gpus(f"autoscaled:{plan}") == pytest.approx(7.0)
    assert budget_gpus(f"boa-online:{mine}") == pytest.approx(7.0)


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_a_sweep_of_a_log(run: Runner, tmp_path: Path) -> None:
    """What the log came to lies beside the results, and nothing is simulated twice."""
    options = ("--policy", "one-gpu", "--policy", "equal-share", "--gpus-per-node", "8", "--nodes", "12", "--json")
    told = run("simulate", "cluster", *LOG, *options, "--results", tmp_path / "sweep", "--processes", "1")
    assert [row["policy"] for row in told.data] == ["one-gpu", "equal-share"]
    assert {path.name for path in (tmp_path / "sweep").iterdir()} >= {"sacct.json", "sacct.jobs.csv"}
    again = run("simulate", "cluster", *LOG, *options, "--results", tmp_path / "sweep", "--processes", "1")
    assert again.data == told.data


def test_jobs_of_an_instance(run: Runner) -> None:
    """So many are drawn of an instance of the library; its GPU type does not say what a node has."""
    asked = ("simulate", "cluster", "boa-newtrace", "--policy", "one-gpu", "--json")
    told = run(*asked, "--jobs", 30, "--gpus-per-node", 4)
    assert told.data["completed"] == told.data["num_jobs"] == 30
    other = run(*asked, "--jobs", 30, "--gpus-per-node", 4, "--seed", 1)
    assert other.data["span_s"] != told.data["span_s"]
    missing = run(*asked, "--jobs", 30)
    assert missing.code == 1
    assert "gpus_per_node: is missing; say how many GPUs a node has" in missing.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("boa-newtrace",), "--jobs, --span: give one of them"),
        (("boa-newtrace", "--jobs", 3, "--slowdown"), "--slowdown: got True, and it belongs to a workload of Sia's"),
        (("boa-newtrace", "--jobs", 3, "--timezone", "UTC"), "--timezone: says how a log is read; add --from"),
        (("t.csv", "--profiles", "p", "--jobs", 3), "--jobs: got 3, and the profiles (--profiles) say it"),
        (("t.csv", "--profiles", "p", "--from", "csv"), "--from: a log says how its jobs ran"),
        (("t.csv",), "t.csv is no instance; say who wrote this log"),
        (("boa-newtrace", "--jobs", 3, "--gpu", "a100"), "--gpu: no GPU type 'a100'"),
    ],
)
def test_what_does_not_belong_together(run: Runner, arguments: tuple[object, ...], message: str) -> None:
    """Options of one kind of jobs are refused by name with another."""
    told = run("simulate", "cluster", *arguments, "--policy", "one-gpu")
    assert told.code in {1, 2}
    assert message in " ".join(told.err.split())


def test_jobs_of_a_trace_by_its_instance(run: Runner, profiles: tuple[str, str], trace: Path, tmp_path: Path) -> None:
    """Sia's jobs as a table come to the same by the instance as by the profiles, where GPUs lie together."""
    mine, jobs = tmp_path / "mine.json", tmp_path / "jobs.csv"
    wanted = ("--from", "sia", *profiles, "--gpu", "aws", "--max-width", "8")
    assert run("import", "trace", trace, *wanted, "-o", mine, "--jobs", jobs).code == 0
    asked = ("--policy", "one-width:4", "--json")
    by_table = run("simulate", "cluster", jobs, "--instance", mine, *asked).data
    by_profiles = run("simulate", "cluster", trace, *profiles, *asked).data
    assert by_table["gpus_per_node"] == by_profiles["gpus_per_node"] == 4
    assert by_table["completed"] == 3
    times = zip(by_table["jobs"], by_profiles["jobs"], strict=True)
    assert all(one["jct_s"] == pytest.approx(other["jct_s"], rel=1e-6) for one, other in times)
