"""Fleets on Slurm, as scripts play it: a job for each VM, none of which is submitted twice or left behind."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from optplan.errors import UsageError
from optplan.execution.fleets.folder import SlurmFleet
from optplan.execution.fleets.running import watch
from optplan.execution.folders import FolderSettings
from optplan.execution.protocol import Operation
from optplan.execution.records import OperationEnded, Reported
from optplan.formulations.srift.planning import SriftPlan

pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')

COUNTING = shlex.join([sys.executable, str(Path(__file__).with_name("count.py"))])


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> None:
    """Nothing that a test has started is there when it ends; Slurm's daemons were there before."""
    if "slurm" in request.fixturenames:
        request.getfixturevalue("slurm")
    request.getfixturevalue("processes")


def test_a_fleet_of_two_jobs_does_what_it_has_to(
    small_plan: SriftPlan,
    tmp_path: Path,
    played_slurm: Path,
    processes: Any,  # noqa: ANN401 - the fixture's
) -> None:
    """Two VMs of one GPU are two jobs, each in the partition of its type, and all of 60 iterations are done."""
    out = tmp_path / "run"
    # Nothing is to be missed here, however busy the machine is.
    options: dict[str, Any] = {"heartbeat_s": 60.0, "sbatch": {"partition": "{type}"}, "gres": "gpu:v100"}
    outcome = watch(small_plan, out=out, executor="slurm", command=COUNTING, **options)
    assert (outcome.status, outcome.code, outcome.iterations) == ("ended", 0, 60)
    noted = sorted(path.read_text(encoding="utf-8").partition(".")[2] for path in played_slurm.iterdir())
    assert noted == ["fleet-001.spot.vm-001 gpu:v100:1 spot", "fleet-001.spot.vm-002 gpu:v100:1 spot"]
    # A job says that it has ended, and then ends.
    processes.wait_until(lambda: not processes.find(), "the jobs to end")


def test_another_monitor_submits_nothing_again(
    tmp_path: Path,
    played_slurm: Path,
    processes: Any,  # noqa: ANN401 - the fixture's
) -> None:
    """A monitor dies before it has noted one of its jobs: another one finds it by its name, and ends both."""
    place = {"spot.vm-001": 1, "spot.vm-002": 1}
    operation = Operation("fleet-001", "train", "job", 1, place, 2, 1, to_iterations=10**9)
    settings = FolderSettings(root=tmp_path, command=COUNTING, gres="")
    SlurmFleet({"spot": 1}, settings).start(operation)
    folder = tmp_path / "operations" / "fleet-001"
    reports = folder / "ranks"
    processes.wait_until(lambda: len(list(reports.iterdir())) == 2, "both ranks to report")
    (folder / "spot.vm-002.submitted").unlink()
    second = SlurmFleet({"spot": 1}, settings)
    assert second.observe((), [operation]).operations == {"fleet-001"}
    assert len(list(played_slurm.iterdir())) == 2
    assert {heard.rank for heard in second.poll(60.0) if isinstance(heard, Reported)} <= {0, 1}
    second.stop("fleet-001", 0.0)
    processes.wait_until(lambda: any(isinstance(each, OperationEnded) for each in second.poll(0.0)), "its end")
    processes.wait_until(lambda: not processes.find(), "the ranks to end")
    pids = [json.loads(path.read_text(encoding="utf-8").splitlines()[0])["pid"] for path in sorted(reports.iterdir())]
    assert len(set(pids)) == 2


@pytest.mark.real
def test_a_fleet_on_slurms_daemons(
    small_plan: SriftPlan,
    tmp_path: Path,
    slurm: Any,  # noqa: ANN401 - the fixture's
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of 60 iterations are done by two jobs of one fake GPU, and no job is left."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    options: dict[str, Any] = {"heartbeat_s": 60.0, "sbatch": {"partition": "gpu"}}
    outcome = watch(small_plan, out=tmp_path / "run", executor="slurm", command=COUNTING, **options)
    assert (outcome.status, outcome.code, outcome.iterations) == ("ended", 0, 60)
    slurm.wait()


def test_options_of_slurm_mean_nothing_elsewhere(small_plan: SriftPlan, tmp_path: Path) -> None:
    """They are refused by name, and a fleet on Ray needs its cluster."""
    with pytest.raises(UsageError, match=r"sbatch: got .*, which means nothing to executor 'local'; leave it out"):
        watch(small_plan, out=tmp_path / "run", executor="local", command="true", sbatch={"partition": "gpu"})
    with pytest.raises(UsageError, match="address: VMs of a fleet are machines of a Ray cluster; give its HOST:PORT"):
        watch(small_plan, out=tmp_path / "run", executor="ray", command="true")
