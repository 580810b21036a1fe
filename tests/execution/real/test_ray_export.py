"""Exported driver scripts, run on a real Ray."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.execution.exports.exporting import export, write_folder

pytestmark = pytest.mark.real
pytest.importorskip("ray.tune", reason='Ray is not installed; pip install "optplan[ray]" brings it')

RATES = [{"rate": rate} for rate in (0.01, 0.3, 0.1, 0.02)]
STAGES = ((4, 2, 4), (1, 1, 2))
TRAINABLE = """
from ray import tune


class Descent(tune.Trainable):
    def setup(self, config):
        self.x, self.rate = 0.0, config["rate"]

    def step(self):
        self.x -= self.rate * 2 * (self.x - 3)
        return {"loss": (self.x - 3) ** 2}

    def save_checkpoint(self, checkpoint_dir):
        return {"x": self.x}

    def load_checkpoint(self, checkpoint):
        self.x = checkpoint["x"]
"""


@pytest.mark.parametrize("command", ["descent:Descent", "bash count.sh {rate}"])
def test_drivers_follow_the_plan(
    command: str,
    run_alone: Callable[..., str],
    folder: Path,
    plan_stages: Callable[..., Plan],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four trials on one GPU, the best on two: by a trainable and by a command, where the user stood."""
    monkeypatch.chdir(folder)
    (folder / "descent.py").write_text(TRAINABLE)
    (folder / "count.sh").write_text(
        'for ((i = OPTPLAN_DONE; i < OPTPLAN_ITERATIONS; i++)); do echo "{\\"loss\\": 0.$((100 - ${1#0.}))}" '
        '>>"$OPTPLAN_METRICS"; done; echo "$i" >"$OPTPLAN_SAVE/count"\n'
    )
    template: dict[str, Any] = {"per_gpu": {"CPU": 1.0}, "storage_path": str(folder / "results")}
    files = export(plan_stages(*STAGES), "ray", command=command, template=template, space=RATES)
    write_folder(files, folder / "jobs")
    shown = run_alone("exported_driver.py", folder)
    if command.startswith("descent"):
        outcome = json.loads((folder / "jobs/outcome.json").read_text(encoding="utf-8"))
        assert outcome["winner"]["configuration"] == {"rate": 0.3}
        assert [segment["trials"] for segment in outcome["segments"]] == [4, 1]
    else:
        assert "rate=0.3" in shown or "{'rate': 0.3}" in shown, shown[-1500:]
