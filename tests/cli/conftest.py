"""The command line as a function, and tiny instances for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from optplan.cli import main


@dataclass(frozen=True)
class Run:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:  # noqa: ANN401 - whatever the command prints
        """What stdout holds, as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The error object on stderr."""
        found: dict[str, str] = json.loads(self.err.splitlines()[-1])["error"]
        return found


Runner = Callable[..., Run]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Run a command in this process and return its exit code and what it wrote."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*argv: str | Path) -> Run:
        capsys.readouterr()
        code = main([str(part) for part in argv])
        written = capsys.readouterr()
        return Run(code, written.out, written.err)

    return call


@pytest.fixture
def write_instance(tmp_path: Path) -> Callable[..., Path]:
    """Write the textbook instance of one table with some fields changed, and return its path."""

    def write(**changes: object) -> Path:
        path = tmp_path / "mine.json"
        path.write_text(json.dumps({**ONE_TABLE, **changes}), encoding="utf-8")
        return path

    return write


#: One job an hour of one GPU-hour on 1, 2 or 4 GPUs: GPU-hours 1, 1.25, 2; hours 1, 0.625, 0.5.
ONE_TABLE: dict[str, object] = {
    "name": "mine",
    "formulation": "boa",
    "version": 1,
    "classes": {
        "job": {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [1.0],
            "speedup": {"v100": {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}},
        }
    },
    "gpu_types": {"v100": {"price_usd_per_hour": 2.0}},
    "budget": "1.25gpu",
    "problem": "whole",
}
