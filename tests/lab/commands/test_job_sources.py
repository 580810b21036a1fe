"""LOG_OR_INSTANCE: commands take a log, a jobs table with its instance, or an instance from which jobs are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from optplan.cli.commands import Command
from optplan.errors import UsageError
from optplan.instances.changes import parse_change
from optplan.instances.job_traces import JobTrace
from optplan.lab.cli.job_sources import JobSource, log_or_instance

if TYPE_CHECKING:
    from optplan.formulations.boa.data.instance import BoaInstance
    from tests.conftest import Runner

EXAMPLE = Path(__file__).parents[3] / "docs/examples/sacct.txt"
LOG = (EXAMPLE, "--from", "sacct", "--class-pattern", "^[a-z]+")
INSTANCE = "boa-newtrace-tables"

pytestmark = pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")


@pytest.fixture
def tables(run: Runner, tmp_path: Path) -> tuple[Path, Path]:
    """Return an instance of a log, and its jobs table."""
    mine, jobs = tmp_path / "mine.json", tmp_path / "jobs.csv"
    assert run("import", "log", *LOG, "-o", mine, "--jobs", jobs).code == 0
    return mine, jobs


def _read(*arguments: object, taken: tuple[str, ...] = (), setting: str = "") -> tuple[BoaInstance, JobTrace | None]:
    found: list[tuple[BoaInstance, JobTrace | None]] = []

    @click.command(cls=Command)
    @log_or_instance
    def ask(source: JobSource, **_: object) -> None:
        changes = {"set": (parse_change(setting, what="--set"),)} if setting else None
        found.append(source.read(changes, taken))

    result = CliRunner().invoke(ask, [str(each) for each in arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return found[0]


def test_a_log_and_its_table_are_the_same_jobs(tables: tuple[Path, Path]) -> None:
    """The log itself, and what `import log` wrote of it, give the same jobs in the same order."""
    mine, jobs = tables
    instance, of_log = _read(*LOG)
    given, of_table = _read(jobs, "--instance", mine)
    assert of_log is not None
    assert of_table is not None
    assert list(instance.classes) == list(given.classes)
    assert of_log.ids.tolist() == of_table.ids.tolist()
    assert of_log.class_index.tolist() == of_table.class_index.tolist()
    assert of_log.arrive_s.tolist() == of_table.arrive_s.tolist()
    assert of_log.size.tolist() == pytest.approx(of_table.size.tolist(), rel=1e-9)
    assert of_log.gpus.tolist() == of_table.gpus.tolist()


def test_an_instance_draws_its_jobs() -> None:
    """So many, or for so long, by a seed; none unless asked for, and at the rates to which it was changed."""
    assert _read(INSTANCE)[1] is None
    _, trace = _read(INSTANCE, "--jobs", 50, "--seed", 3)
    assert trace is not None
    assert len(trace) == 50
    _, day = _read(INSTANCE, "--span", "24h")
    _, busy = _read(INSTANCE, "--span", "24h", setting="classes.*.arrival_rate_per_hour*=4")
    assert day is not None
    assert busy is not None
    assert 3.5 < len(busy) / len(day) < 4.5


def test_what_does_not_belong_together(tables: tuple[Path, Path]) -> None:
    """Options that would do nothing are refused by name, and a log is not taken for an instance."""
    mine, jobs = tables
    for arguments, message in (
        ((*LOG, "--instance", mine), "--instance: a log has its own jobs"),
        ((*LOG, "--jobs", 3), "--jobs: a log has its own jobs"),
        ((jobs, "--instance", mine, "--span", "3h"), "--span: a jobs table has its own jobs"),
        ((INSTANCE, "--timezone", "UTC"), "--timezone: says how a log is read; add --from"),
        ((INSTANCE, "--seed", 3), "--seed: no job is drawn without --jobs or --span"),
        ((EXAMPLE,), "sacct.txt is no instance; say who wrote this log"),
    ):
        with pytest.raises(UsageError, match=message):
            _read(*arguments)
    assert _read(INSTANCE, "--gpu", "t4", taken=("gpu_type",))[1] is None
