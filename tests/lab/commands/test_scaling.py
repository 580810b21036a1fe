"""``optplan frontier --limit vms``: studies as text, JSON and pages, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner

JOB = "srift-interruption"
ASK = ("frontier", JOB, "--limit", "vms")


def test_both_kinds_of_scaling_are_shown(run: Runner) -> None:
    """ResNet50 on 2 p3.8xlarge with 128 samples on each GPU: 381 ms, 2,687 a second, as predicted for section 5.4."""
    told = run(*ASK, "--sizes", "1,2")
    assert told.code == 0
    assert "ResNet50, weak scaling" in told.out
    assert "ResNet50, strong scaling" in told.out
    rows = [line.split() for line in told.out.splitlines() if line.startswith("p3.8xlarge")]
    assert rows[-1][:6] == ["p3.8xlarge", "2", "8", "128", "381", "ms"]
    assert "2,687" in rows[-1]
    assert "left out: 1, 2 g3.8xlarge" in told.out


def test_json_has_points_and_the_average(run: Runner, tmp_path: Path) -> None:
    """Of two jobs; the file holds the same."""
    told = run(
        *("frontier", JOB, "srift-case3", "--limit", "gpus", "--scaling", "weak", "--sizes", "4,8"),
        *("--json", "-o", tmp_path / "s.json"),
    )
    data = told.data
    assert [(one["network"], one["mode"]) for one in data["studies"]] == [
        ("ResNet50", "weak"),
        ("ShuffleNet v2 x2.0", "weak"),
    ]
    assert {point["world"] for study in data["studies"] for point in study["points"]} == {4, 8}
    assert max(one["relative_efficiency"] for one in data["average_efficiency"]) == 1.0
    assert json.loads((tmp_path / "s.json").read_text(encoding="utf-8")) == data
    strong = run(*ASK, "--scaling", "strong", "--json").data
    assert strong["average_efficiency"] == []


def test_fields_and_batches_are_options(run: Runner) -> None:
    """A batch for each GPU; a global batch that one VM can hold."""
    weak = run(*ASK, "--scaling", "weak", "--batch", "16", "--sizes", "1", "--json").data
    assert {point["batch_per_rank"] for point in weak["studies"][0]["points"]} == {16}
    options = ("--scaling", "strong", "--sizes", "1", "--set", "global_batch=64", "--json")
    strong = run(*ASK, *options).data
    assert [point["batch_per_rank"] for point in strong["studies"][0]["points"]] == [16, 32, 64]


def test_charts_and_pages_are_written(run: Runner, tmp_path: Path) -> None:
    """Figure 2 once for all jobs, figure 3 for each: efficiency, throughput and cost."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    plot, page = tmp_path / "plot.html", tmp_path / "page.html"
    told = run(*ASK, "--plot", plot, "--report", page)
    assert told.code == 0
    assert plot.read_text(encoding="utf-8").count('class="chart"') == 3
    assert "How ResNet50 scales with the number of VMs" in page.read_text(encoding="utf-8")
    assert run(*ASK, "--plot", plot).code == 1  # it exists


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*ASK, "--sizes", "1,x"], "--sizes: got '1,x'; whole numbers with commas between them are needed"),
        ([*ASK, "--sizes", "0"], "--sizes: got [0]; whole numbers from 1 on"),
        (
            [*ASK, "--scaling", "strong", "--batch", "8"],
            "--batch: strong scaling shares the global batch; leave it out",
        ),
        (
            ["frontier", "boa-one-table", "--limit", "vms"],
            "'boa-one-table' is no training job on VMs (formulation srift)",
        ),
        ([*ASK, "--scaling", "strong", "--sizes", "1", "--plot", "no.html"], "--plot: there is nothing to draw"),
        ([*ASK, "--budget", "3usd"], "--budget: has no meaning with --limit vms; leave it out"),
        (["frontier", JOB, "--sizes", "1"], "--sizes: goes with --limit vms or gpus; leave it out"),
        (["frontier", JOB, "--nodes", "3"], "--nodes: goes with --by gpus; leave it out"),
        (["frontier", JOB, "--limit", "width"], "width"),
    ],
)
def test_what_does_not_fit_is_refused(
    run: Runner, arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In words, and no file is written."""
    monkeypatch.chdir(tmp_path)
    told = run(*arguments)
    assert told.code == 2
    assert message in told.err
    assert list(tmp_path.iterdir()) == []
