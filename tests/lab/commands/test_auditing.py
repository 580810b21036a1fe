"""``optplan audit``: from a log to what no scheduler could have beaten, and to a certificate that is checked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from optplan.errors import DataError
from optplan.instances.files import read_plan

if TYPE_CHECKING:
    from tests.conftest import Runner
    from tests.plugins.pages import Visitor

EXAMPLE = Path(__file__).parents[3] / "docs/examples/sacct.txt"
LOG = (EXAMPLE, "--from", "sacct", "--class-pattern", "^[a-z]+")
DRAWN = ("boa-newtrace-tables", "--jobs", "50", "--seed", "1")

pytestmark = pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")


def test_one_command_audits_a_log_and_another_checks_it(run: Runner, visit: Visitor, tmp_path: Path) -> None:
    """The audit of a log is checked with its instance and jobs table, in part without the jobs, and not when forged."""
    audit, mine, jobs = tmp_path / "audit.json", tmp_path / "mine.json", tmp_path / "jobs.csv"
    page = tmp_path / "audit.html"
    found = run("audit", *LOG, "-o", audit, "--new-instance", mine, "--report", page)
    assert found.code == 0
    assert "184 jobs took 2 h 54 min on average with 1,860.8 GPU-hours" in " ".join(found.out.split())
    assert found.out.startswith("However good the speedups of vision and speech are within their bands")
    assert "no policy at all takes less than" in " ".join(found.out.split())
    assert "to gain: waiting" in found.out
    opened = visit(page.read_text(encoding="utf-8"), tmp_path, 400)
    assert opened.page.locator("#curve h2").inner_text() == "Had, and the least there is"
    assert (opened.complaints, opened.list_collisions(), opened.read_back()) == ([], [], [])
    assert run("import", "log", *LOG, "--jobs", jobs, "--json").code == 0

    assert run("verify", mine, audit, "--jobs", jobs).code == 0
    without = run("verify", mine, audit, "--json")
    assert (without.code, without.data["nothing_wrong"]) == (6, True)
    assert "an audit whose bounds are proven" in run("verify", mine, audit).out
    forged = json.loads(audit.read_text(encoding="utf-8"))
    forged["bounds"][0]["bound"] *= 1.01
    audit.write_text(json.dumps(forged), encoding="utf-8")
    refused = run("verify", mine, audit, "--jobs", jobs)
    assert refused.code == 5
    assert "refused, bound 1 does not hold" in refused.out


def test_drawn_jobs_are_audited_for_what_was_had(run: Runner) -> None:
    """Of an instance what was had is said by options; the schema accepts what is printed."""
    found = run("audit", *DRAWN, "--gpu-hours", "300gpu-h", "--mean-jct", "2h", "--json")
    assert found.code == 0
    assert [each["of"] for each in found.data["bounds"]] == ["mean_jct_s", "gpu_hours"] * 2
    jsonschema.validate(found.data, run("schema", "audit").data)
    minutes = run("audit", *DRAWN, "--gpu-hours", "18000gpu-min", "--mean-jct", "2h", "--json")
    assert minutes.data == found.data
    few = run("audit", *DRAWN, "--gpu-hours", "1gpu-h")
    assert "no policy at all has so little: they need at least" in " ".join(few.out.split())


def test_what_cannot_have_been_is_said(run: Runner) -> None:
    """Fewer GPU-hours than any job takes at that mean, or a mean with so many that no policy has."""
    few = run("audit", *DRAWN, "--gpu-hours", "1gpu-h", "--mean-jct", "2h")
    assert few.code == 0
    told = " ".join(few.out.split())
    assert "; for that no policy that pauses as the instance says takes less than" in told
    assert "What was had is less than there is, by the instance: look at its sizes and speedups." in told
    enough = run("audit", *DRAWN, "--gpu-hours", "300gpu-h", "--mean-jct", "2h")
    assert "What was had" not in enough.out


def test_the_bound_of_a_cluster_stands_beside_and_is_checked_with_the_jobs(run: Runner, tmp_path: Path) -> None:
    """The larger bound is said first; without the jobs that of the cluster is on trust, and a higher one is refused."""
    table, instance, audit = tmp_path / "few.csv", tmp_path / "mine.json", tmp_path / "audit.json"
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    few = tmp_path / "few.txt"
    few.write_text("".join(lines[:60]), encoding="utf-8")
    log = (few, *LOG[1:])
    assert run("import", "log", *log, "--jobs", table, "-o", instance).code == 0
    said = " ".join(run("audit", table, "--instance", instance, "--cluster-gpus", "8", "-o", audit).out.split())
    assert "on 8 GPUs no policy that pauses as the instance says takes less than" in said
    own = json.loads(audit.read_text(encoding="utf-8"))
    enough = tmp_path / "enough.json"
    many = " ".join(run("audit", table, "--instance", instance, "--cluster-gpus", "500", "-o", enough).out.split())
    rich = json.loads(enough.read_text(encoding="utf-8"))
    for found, text, gpus in ((own, said, 8), (rich, many, 500)):
        other = next(each["bound"] for each in found["bounds"] if each["of"] == "mean_jct_s")
        is_first = text.index(f"on {gpus} GPUs no policy") < text.index("with as many")
        assert is_first is (found["capacity"]["mean_jct_s"] >= other)
    assert rich["capacity"]["mean_jct_s"] == pytest.approx(
        other, rel=1e-3
    )  # with GPUs for all both are the least times
    assert run("verify", instance, audit, "--jobs", table).code == 0
    assert "bound: it is of jobs that arrive at some times; give the jobs" in run("verify", instance, audit).out
    own["capacity"]["mean_jct_s"] *= 1.001
    audit.write_text(json.dumps(own), encoding="utf-8")
    refused = run("verify", instance, audit, "--jobs", table)
    assert refused.code == 5
    assert "bound 8 GPUs" in refused.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("boa-newtrace-tables",), "--jobs, --span: how many jobs"),
        (DRAWN, "give the GPU-hours that all jobs held (--gpu-hours)"),
        ((*DRAWN, "--gpu-hours", "300gpu"), "--gpu-hours: got '300gpu'; GPU-hours are needed"),
        ((*DRAWN, "--gpu-hours", "0gpu-h"), "--gpu-hours: got '0gpu-h'; a finite number"),
        ((EXAMPLE,), "say who wrote this log"),
    ],
)
def test_what_is_missing_is_asked_for(run: Runner, arguments: tuple[str, ...], said: str) -> None:
    """Jobs and what they had are needed, each with its unit."""
    refused = run("audit", *arguments)
    assert refused.code == 2
    assert said in refused.err


def test_audits_and_results_are_not_taken_for_one_another(run: Runner, tmp_path: Path) -> None:
    """Only audits have jobs, and only BOA has audits; a plan is neither."""
    result, audit = tmp_path / "result.json", tmp_path / "audit.json"
    assert run("solve", "boa-two-epochs", "-o", result).code == 0
    assert "--jobs: only audits are of jobs" in run("verify", "boa-two-epochs", result, "--jobs", EXAMPLE).err
    assert run("audit", *DRAWN, "--gpu-hours", "300gpu-h", "-o", audit).code == 0
    assert "audits are of BOA instances" in run("verify", "rubberband-two-stages", audit).err
    for file, kind in ((audit, "an audit"), (result, "a result")):
        made = f"is {kind}, not a plan; give a plan; `optplan solve INSTANCE --plan FILE` makes one"
        with pytest.raises(DataError, match=re.escape(made)):
            read_plan(file)
    assert "the audit was made for" in run("verify", "boa-two-epochs", audit).err
