"""What machines need before they train, and what must not be written anywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.errors import DataError, UsageError
from optplan.execution.cli.searches import KIND
from optplan.execution.options import Setup
from optplan.execution.records import encode
from optplan.execution.running import RunOutcome, run
from optplan.execution.worker import set_up
from optplan.instances.files import write_json
from optplan.reporting.pages import build_page

PlanOf = Callable[..., Plan]
pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')

QUADRATIC = f"{Path(__file__).parent / 'trainables' / 'quadratic.py'}:Quadratic"
RATES = [{"rate": rate} for rate in (0.01, 0.3, 0.1, 0.02)]
SECRET = "s3cr3t-of-the-environment"


def run_here(plan: Plan, out: Path, **options: Any) -> RunOutcome:  # noqa: ANN401 - options
    """Run a plan's trials as processes."""
    return run(plan, QUADRATIC, space=RATES, executor="local", out=out, **options)


def test_commands_are_run_once_on_a_machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In their order; a second trial finds that they were."""
    commands = [f"echo one >> {tmp_path}/done", f"echo two >> {tmp_path}/done", "echo said"]
    for _ in range(2):
        set_up(tmp_path, commands)
    assert (tmp_path / "done").read_text(encoding="utf-8") == "one\ntwo\n"
    assert capfd.readouterr().out == "said\n"


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    """And the next trial tries again."""
    commands = ["true", "exit 3"]
    for _ in range(2):
        with pytest.raises(DataError, match=r"setup\.commands\.1: 'exit 3' ended with exit code 3 on "):
            set_up(tmp_path, commands)


def test_trials_begin_when_their_machine_is_set_up(plan_of: PlanOf, tmp_path: Path) -> None:
    """Once for all processes here; where it fails, no trial trains, and the log says why."""
    plan = plan_of("rubberband-two-stages")
    outcome = run_here(plan, tmp_path / "run", setup={"commands": [f"echo ready >> {tmp_path}/done"]})
    assert outcome.code == 0
    assert (tmp_path / "done").read_text(encoding="utf-8") == "ready\n"
    outcome = run_here(plan, tmp_path / "failing", setup={"commands": ["echo no network; exit 7"]})
    assert outcome.code == 1
    logs = [path.read_text(encoding="utf-8") for path in (tmp_path / "failing").glob("trials/*/output.log")]
    assert all("no network" in log and "'echo no network; exit 7' ended with exit code 7" in log for log in logs)


def test_an_image_is_for_ray(plan_of: PlanOf) -> None:
    """Processes of this machine have none."""
    with pytest.raises(UsageError, match=r"setup\.image: trials are processes of this machine"):
        run(plan_of("rubberband-two-stages"), setup={"image": "pytorch/pytorch"})
    with pytest.raises(DataError, match=r"setup\.imag: unknown field 'imag'; did you mean 'image'"):
        run(plan_of("rubberband-two-stages"), setup={"imag": "pytorch/pytorch"})
    assert Setup().commands == ()


def test_secrets_of_the_environment_are_written_nowhere(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials and commands have the variable; no file of the run has it, nor plan, events and page."""
    monkeypatch.setenv("OPTPLAN_TEST_SECRET", SECRET)
    plan, events = plan_of("rubberband-two-stages"), list[str]()

    def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
        if hasattr(record, "t") and type(record).__name__ != "Progressed":
            events.append(encode(record))

    commands = ['test -n "$OPTPLAN_TEST_SECRET"']
    outcome = run_here(plan, tmp_path / "run", setup={"commands": commands}, listener=listen)
    assert outcome.code == 0, "the command has seen the variable"
    write_json(plan, tmp_path / "run" / "plan.json")
    (tmp_path / "run" / "page.html").write_text(
        build_page(KIND.build_page(KIND.look(tmp_path / "run"))), encoding="utf-8"
    )
    (tmp_path / "run" / "events.jsonl").write_text("\n".join(events), encoding="utf-8")
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert any(path.name == "journal.sqlite" for path in files)
    assert any(path.name == "operation.json" for path in files)
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
