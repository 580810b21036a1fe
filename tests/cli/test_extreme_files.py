"""Files with figures that nobody means: each is refused by field, or judged, and never ends as an internal error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.formulations.rubberband.exact import both_limits
from optplan.instances.files import read_plan, write_json

if TYPE_CHECKING:
    from tests.conftest import Runner

CASES = Path(__file__).resolve().parents[1] / "cases"
JOBS = ("--rescale", "60s", "--assume", "linear", "--price", "1usd/hour", "--gpu", "v100", "--json")


@pytest.mark.parametrize(
    ("file", "options", "said"),
    [
        (
            "log-of-1e30-gpus.csv",
            ("--from", "csv", "--class-column", "class"),
            f"line 8, gpus is '1{'0' * 30}'; a whole number from 0 to 1,000,000 is needed",
        ),
        (
            "jobs-of-2-to-63-pods.json",
            ("--from", "kubernetes", "--class-column", "app"),
            "item 1, spec.parallelism is 9223372036854775808; a whole number from 0 to 1,000,000 is needed",
        ),
        (
            "gpus-of-minus-1e308.json",
            ("--from", "kubernetes", "--class-column", "app"),
            "item 4, nvidia.com/gpu is -1e+308; a whole number from 0 to 1,000,000 is needed",
        ),
    ],
)
def test_jobs_of_more_gpus_than_there_are_cannot_be_read(
    run: Runner, file: str, options: tuple[str, ...], said: str
) -> None:
    """They are left out like other rows that are broken, and the instance says how many and where the first one was."""
    told = run("import", "log", CASES / file, *options, *JOBS)
    assert told.code == 0, told.err
    assert "1 rows that cannot be read (first: " in told.out
    assert said in told.out


@pytest.mark.wings
def test_a_space_holds_what_json_has(run: Runner, tmp_path: Path) -> None:
    """Configurations are written into the export as they are, and JSON has no NaN."""
    plan = tmp_path / "plan.json"
    assert run("solve", "rubberband-two-stages", "--plan", plan).code == 0
    export = ("export", plan, "--to", "slurm", "--command", "train {gpus}", "--out", tmp_path / "out")
    told = run(*export, "--space", CASES / "nan-in-a-space.json")
    assert told.code == 1
    assert "space.b.choice.2: got nan; finite numbers are allowed; write it as text" in told.err


def test_a_report_is_refused_as_verify_refuses(run: Runner, tmp_path: Path) -> None:
    """The result states all measures but one, from which the page would have been made."""
    files = CASES / "without-a-measure.instance.json", CASES / "without-a-measure.result.json"
    assert run("verify", *files).code == 5
    told = run("report", *files, "-o", tmp_path / "page.html")
    assert told.code == 5
    # Whoever gave the file is told of it, and not of a bug.
    start = "error: the result does not hold what it says: measure iteration_s: the result must state every figure"
    assert told.err.startswith(start)
    assert not (tmp_path / "page.html").exists()


def test_times_beyond_reckoning_are_refused(run: Runner) -> None:
    """30 iterations of 2**63 s are 2.8e20 s, and numbers end at 1e20."""
    told = run("solve", CASES / "iteration-of-9e18-seconds.yaml")
    assert told.code == 1
    assert "training.seconds_per_iteration: takes 9.22337e+18 s on some GPUs, and a stage has 30 of them" in told.err
    assert "numbers up to 1e+20 are allowed; check the unit" in told.err


def test_a_stage_of_more_gpus_than_can_be_counted_fails(run: Runner) -> None:
    """A forged solution is judged, and not taken for an array of 64 bits."""
    told = run("verify", "rubberband-two-stages", CASES / "stage-of-2-to-63-gpus.json")
    assert told.code == 5
    assert "more than 9,007,199,254,740,992 GPUs cannot be counted" in told.out


def test_a_file_does_not_stand_for_its_content(run: Runner, tmp_path: Path) -> None:
    """A path where an object is needed is said to be one."""
    path = tmp_path / "mine.yaml"
    path.write_text("formulation: srift\njob: profile.json\nglobal_batch: 8\niterations: 1\ntypes: {}\n", "utf-8")
    told = run("show", path)
    assert told.code == 1
    said = "job: got 'profile.json'; an object with named fields is needed; files do not read others: write its content"
    assert said in told.err


@pytest.mark.wings
def test_counts_of_plans_are_those_of_instances(run: Runner, tmp_path: Path) -> None:
    """A job of 10^19 epochs would be listed epoch by epoch."""
    path = tmp_path / "plan.json"
    assert run("solve", "boa-two-classes", "--plan", path).code == 0
    forged = path.read_text("utf-8").replace('"epochs": 3', f'"epochs": {10**19}')
    path.write_text(forged, "utf-8")
    told = run("export", path, "--to", "slurm", "--command", "train", "--out", tmp_path / "out")
    assert told.code == 1
    assert ".epochs: got 10000000000000000000; input should be less than or equal to 1000000" in told.err


def test_a_quota_of_nothing_is_shown(run: Runner, write_instance: Callable[..., Path]) -> None:
    """No share of nothing is used, neither with a due date beside it."""
    types = {"v100": {"price_usd_per_hour": 2.0}, "a100": {"price_usd_per_hour": 3.0, "quota_gpus": 0}}
    told = run("solve", write_instance(gpu_types=types, budget="9usd/hour"))
    assert told.code == 0, told.err
    row = next(line for line in told.out.splitlines() if line.startswith("quota of a100"))
    assert row.split()[3:8] == ["0", "GPUs", "0", "GPUs", "-"]


@pytest.mark.wings
def test_a_plan_beyond_the_virtual_clock_is_refused(run: Runner, tmp_path: Path) -> None:
    """VMs that are there after 1e19 s train for times that vanish beside that: the run would not end."""
    path = tmp_path / "plan.json"
    assert run("solve", "rubberband-two-stages", "--plan", path).code == 0
    plan = read_plan(path)
    late = {name: resource.replace(launch_s=1e19) for name, resource in plan.resources.items()}
    write_json(plan.replace(resources=late, plan_id=""), path, overwrite=True)
    told = run("run", path, "--sample")
    assert told.code == 1
    assert "plan: leads to 1e+19 s on the virtual clock, which cannot tell seconds apart there" in told.err


@pytest.mark.wings
def test_a_deadline_that_is_over_when_nodes_are_there_ends_the_run(run: Runner, tmp_path: Path) -> None:
    """What was started 10 days late is stopped at once: the virtual clock does not wait for a time that is past."""
    path = tmp_path / "plan.json"
    assert run("solve", "rubberband-two-stages", "--plan", path).code == 0
    plan = read_plan(path)
    late = {name: resource.replace(launch_s=1e6, launch_sd_s=1.0) for name, resource in plan.resources.items()}
    write_json(plan.replace(resources=late, plan_id=""), path, overwrite=True)
    told = run("run", path, "--sample", "--deadline", "500s", "--replan-above", "never")
    assert told.code == 4
    assert "paused: the deadline of 8 min 20 s is over" in told.out


@pytest.mark.wings
def test_a_plan_in_which_nothing_runs_is_refused(run: Runner, tmp_path: Path) -> None:
    """Without segments nothing would ever end."""
    path = tmp_path / "plan.json"
    assert run("solve", "srift-interruption", "--plan", path).code == 0
    write_json(read_plan(path).replace(segments=(), plan_id=""), path, overwrite=True)
    told = run("run", path)
    assert told.code == 1
    assert "plan.segments: has none, so that nothing would run; make the plan anew" in told.err


@pytest.mark.wings
def test_times_beyond_the_largest_number_are_refused(run: Runner, tmp_path: Path) -> None:
    """A trial of 1e308 s that takes three times as long never ends, and nothing else is to happen."""
    path = tmp_path / "plan.json"
    assert run("solve", "rubberband-two-stages", "--plan", path).code == 0
    plan = read_plan(path)
    first, *others = plan.segments
    long = first.replace(expected=first.expected.replace(member_s=1e308))
    write_json(plan.replace(segments=(long, *others), plan_id=""), path, overwrite=True)
    told = run("run", path, "--sample", "--slower", 3)
    assert told.code == 1
    assert "plan: leads to inf s on the virtual clock" in told.err


@pytest.mark.wings
@pytest.mark.parametrize(
    ("expected", "code", "said"),
    [
        ({"member_sd_s": 1e308}, 0, "wrote 11 files"),
        ({"member_s": 1.7e308, "member_sd_s": 1e308}, 1, "segment 'b1-s1': a member may take inf s; check member_s"),
    ],
)
def test_limits_of_jobs_are_numbers(
    run: Runner, tmp_path: Path, expected: dict[str, float], code: int, said: str
) -> None:
    """No spread makes the longest trial longer than without end; one of more seconds than there are has no limit."""
    path = tmp_path / "plan.json"
    assert run("solve", "rubberband-two-stages", "--plan", path).code == 0
    plan = read_plan(path)
    segments = tuple(segment.replace(expected=segment.expected.replace(**expected)) for segment in plan.segments)
    write_json(plan.replace(segments=segments, plan_id=""), path, overwrite=True)
    told = run("export", path, "--to", "slurm", "--command", "train {trial} {gpus}", "--out", tmp_path / "out")
    assert told.code == code
    assert said in told.out + told.err


@pytest.mark.wings
def test_a_fleet_of_types_that_its_instance_has_not_is_refused(run: Runner, tmp_path: Path) -> None:
    """Nobody would say what its VMs cost."""
    path = tmp_path / "plan.json"
    assert run("solve", "srift-case1", "--plan", path).code == 0
    plan = read_plan(path)
    types = {f"{name}s": fields for name, fields in plan.instance["types"].items()}
    write_json(plan.replace(instance={**plan.instance, "types": types}, plan_id=""), path, overwrite=True)
    told = run("run", path)
    assert told.code == 1
    assert "plan.units.0.type: is 'g4dn.8xlarge', and the plan's instance has no such type of VM" in told.err
    assert "did you mean 'g4dn.8xlarges'?" in told.err


@pytest.mark.wings
def test_training_of_more_heartbeats_than_are_simulated_is_refused(run: Runner, tmp_path: Path) -> None:
    """400 iterations of 1e20 s, told by 2 VMs every 5 s, would keep the virtual clock busy for ever."""
    path = tmp_path / "plan.json"
    assert run("solve", "srift-interruption", "--plan", path).code == 0
    write_json(read_plan(path).replace(iteration_s=1e20, plan_id=""), path, overwrite=True)
    told = run("run", path)
    assert told.code == 2
    assert "--heartbeat: training that long takes 1.6e+22 of them, more than 1,000,000" in told.err


@pytest.mark.wings
def test_segments_that_end_before_they_begin_are_refused(run: Runner, tmp_path: Path) -> None:
    """Epochs of a class are done one after the other: a segment from 2 epochs on does not end after none."""
    path = tmp_path / "plan.json"
    assert run("solve", "boa-two-classes", "--plan", path).code == 0
    plan = json.loads(path.read_text("utf-8")) | {"plan_id": ""}
    plan["segments"][1]["exit"]["epochs"] = 0
    path.write_text(json.dumps(plan), encoding="utf-8")
    told = run("run", path, tmp_path / "jobs.json")
    assert told.code == 1
    assert "segments.1.exit: is after 0 epochs, and the segment begins after 2; let it end after more" in told.err


def test_gradients_beyond_all_networks_are_refused(run: Runner) -> None:
    """Bytes are counted one by one: 1e308 of them are no gradient."""
    told = run("solve", "srift-interruption", "--set", "job.layers.gradient_bytes=[1e308]")
    assert told.code == 1
    assert "gradient_bytes: adds up to 1e+308 bytes; give bytes, of all layers at most 2^53" in told.err


def test_a_cap_of_a_part_of_a_gpu_has_figures(run: Runner, tmp_path: Path) -> None:
    """More than 9.25 GPUs in use are more than 9, in the solver's figures and in the judge's."""
    result = tmp_path / "result.json"
    told = run("solve", "boa-one-table", "--set", "most_gpus={gpus: 9.25, probability: 0.5}", "-o", result)
    assert told.code == 0, told.err
    assert "over 9" in told.out
    assert "steady_over_9" in json.loads(result.read_text("utf-8"))["demand"]
    assert run("verify", "boa-one-table", result).code == 0


def test_spot_gpus_on_which_nothing_finishes_have_no_wider_width(
    run: Runner, write_instance: Callable[..., Path]
) -> None:
    """Where all widths of a type are left out, --explain looks for no wider one there."""
    spot = {"interruptions_per_gpu_hour": 60.0, "restart_s": 3600}
    types = {"v100": {"price_usd_per_hour": 2.0}, "a100": {"price_usd_per_hour": 3.0, "spot": spot}}
    curve = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}
    job = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"v100": curve, "a100": curve}}
    path = write_instance(gpu_types=types, classes={"job": job}, budget="9usd/hour")
    assert run("solve", path, "--explain").code == 0


def test_limits_of_which_nothing_is_proven_in_time_are_unknown(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a proof of either limit no plan was found, and none excluded."""
    monkeypatch.setattr(both_limits, "_look_at", lambda *_: None)
    told = run("solve", "rubberband-two-stages", "--deadline", "300s", "--budget", "0.2usd", "--json")
    assert (told.code, told.data["status"]) == (4, "unknown")
    assert "there was no time to prove what would" in told.data["warnings"][0]
