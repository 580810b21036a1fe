"""``optplan import trace --from gavel``: from public files to an instance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.contracts import Instance
from optplan.instances.files import read_instance

if TYPE_CHECKING:
    from tests.conftest import Runner

NOWHERE = ("import", "trace", "nowhere.trace", "--from", "gavel", "--throughput", "nowhere.json")


def test_an_import_writes_an_instance(run: Runner, data_pack: Path, tmp_path: Path) -> None:
    """Trace and throughputs become a file; without prices a budget counts GPUs."""
    gavel, path = data_pack / "gavel", tmp_path / "mine.json"
    told = run(
        *("import", "trace", gavel / "traces" / "physical_cluster" / "max_min_fairness.trace", "--from", "gavel"),
        *("--throughput", gavel / "physical_cluster_throughputs.json", "--gpu", "v100", "--gpu", "p100"),
        *("--budget", "60gpu", "--name", "mine", "-o", path),
    )
    assert (told.code, told.err) == (0, f"wrote {path}\n")
    assert "resnet-50-b128" in told.out
    data = read_instance(path).to_json_data()
    assert (data["name"], data["budget"], data["problem"]) == ("mine", "60gpu", "whole")
    assert list(data["gpu_types"]) == ["v100", "p100"]
    # 96 jobs in 13 hours.
    assert sum(job["arrival_rate_per_hour"] for job in data["classes"].values()) == pytest.approx(96 / 13)


def test_options_reach_the_import(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option becomes the argument of its name, durations in hours; all three types unless told."""
    given: list[tuple[object, ...]] = []

    def build(*paths: object, **options: object) -> Instance:
        given.append((*paths, options))
        return read_instance("boa-one-table")

    monkeypatch.setattr("optplan.lab.traces.gavel.build_gavel_instance", build)
    assert run(*NOWHERE, "--json").code == 0
    told = run(*NOWHERE, "--gpu", "k80", "--unconsolidated", "--span", "2d", "--class", "A3C", "--json")
    assert told.code == 0
    files = (Path("nowhere.trace"), Path("nowhere.json"))
    assert given == [
        (*files, ("v100", "p100", "k80"), {"span_h": None, "job_types": None}),
        (*files, ("k80",), {"consolidated": False, "span_h": 48.0, "job_types": ("A3C",)}),
    ]


def test_wrong_calls(run: Runner) -> None:
    """Somewhere to write is needed, and files that are there."""
    told = run(*NOWHERE)
    assert (told.code, told.out) == (2, "")
    assert "--out: say where to write the instance" in told.err
    half = run(*NOWHERE[:-2], "--json")
    assert "--throughput: is missing; it says how fast the jobs of gavel's traces run" in half.error["message"]
    unnamed = run("import", "trace", "nowhere.csv", "--from", "sia", "--profiles", "nowhere", "--json")
    assert "--gpu: is missing; name a suffix of the profiles, such as aws" in unnamed.error["message"]
    missing = run(*NOWHERE, "--json")
    assert missing.code == 1
    assert "nowhere.json: no such file" in missing.error["message"]
