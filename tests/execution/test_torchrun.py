"""Several workers of a trial by torchrun: an elastic search on PyTorch, its loss curve unbroken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from optplan.contracts import Plan
from optplan.execution.running import run

pytestmark = pytest.mark.real
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "ddp_digits.py"


def read_curve(out: Path, trial: str) -> list[float]:
    """Return the losses that a trial showed, iteration by iteration."""
    lines = []
    for path in out.glob(f"operations/*.{trial}.*/progress.jsonl"):
        lines += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines.sort(key=lambda line: line["iterations"])
    assert [line["iterations"] for line in lines] == list(range(1, len(lines) + 1))
    return [line["metrics"]["loss"] for line in lines]


def test_a_trial_on_1_then_2_then_4_workers_learns_as_one_does(
    plan_stages: Callable[..., Plan], tmp_path: Path
) -> None:
    """Gradients of equal parts of a batch average to that of the batch: the curve is one worker's to ten digits."""
    pytest.importorskip("torch", reason='PyTorch is not installed; pip install "optplan[torch]" brings it')
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    plan, curves = plan_stages((2, 1, 2), (1, 1, 2), (1, 2, 4)), {}
    for launcher in ("single", "torchrun"):
        out = tmp_path / launcher
        rates = [{"lr": 0.5}, {"lr": 0.01}]
        outcome = run(plan, f"{EXAMPLE}:Digits", executor="local", out=out, space=rates, launcher=launcher)
        assert outcome.winner is not None
        assert (outcome.code, outcome.winner.configuration, outcome.winner.iterations) == (0, {"lr": 0.5}, 12)
        curves[launcher] = read_curve(out, outcome.winner.trial)
    assert curves["torchrun"] == pytest.approx(curves["single"], rel=1e-10)
    assert curves["single"][-1] < 0.7 * curves["single"][0]
