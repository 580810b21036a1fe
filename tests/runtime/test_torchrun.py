"""Several workers of a trial by torchrun: an elastic search on PyTorch, its loss curve unbroken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import BoundProof, Plan, Result, Status, Termination
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.judge.evaluation import evaluate
from optplan.formulations.rubberband.planning import build_plan
from optplan.runtime.running import run

pytestmark = pytest.mark.real
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "ddp_digits.py"


def plan_resizes() -> Plan:
    """Plan two trials of one GPU, then the best on two, then on four of two nodes, 4 iterations each."""
    data: dict[str, Any] = {
        "formulation": "rubberband",
        "experiment": {
            "form": "stages",
            "stages": [{"trials": n, "iterations": 4} for n in (2, 1, 1)],
        },
        "training": {"seconds_per_iteration": {"1": 10.0, "2": 6.0, "4": 4.0}},
        "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6},
        "deadline_s": 1e6,
    }
    instance = RubberBandInstance.parse(data)
    chain = [{"instances": m, "gpus": a} for m, a in ((1, 2), (1, 2), (2, 4))]
    solution = RubberBandSolution.parse({"brackets": [chain]})
    result = Result[RubberBandSolution](
        formulation="rubberband",
        instance_name="resizes",
        instance_hash=instance.content_hash(),
        solver="by-hand",
        engine="none",
        engine_version="0",
        optplan_version="0",
        status=Status.FEASIBLE,
        termination=Termination.COMPLETED,
        objective=evaluate(instance, solution).objective,
        objective_unit="usd",
        gap_target=0.0,
        bound_proof=BoundProof.NONE,
        solution=solution,
    )
    return build_plan(instance, result)


def read_curve(out: Path, trial: str) -> list[float]:
    """Return the losses that a trial showed, iteration by iteration."""
    lines = []
    for path in out.glob(f"operations/*.{trial}.*/progress.jsonl"):
        lines += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines.sort(key=lambda line: line["iterations"])
    assert [line["iterations"] for line in lines] == list(range(1, len(lines) + 1))
    return [line["metrics"]["loss"] for line in lines]


def test_a_trial_on_1_then_2_then_4_workers_learns_as_one_does(tmp_path: Path) -> None:
    """Gradients of equal parts of a batch average to that of the batch: the curve is one worker's to ten digits."""
    pytest.importorskip("torch", reason='PyTorch is not installed; pip install "optplan[torch]" brings it')
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    plan, curves = plan_resizes(), {}
    for launcher in ("single", "torchrun"):
        out = tmp_path / launcher
        rates = [{"lr": 0.5}, {"lr": 0.01}]
        outcome = run(plan, f"{EXAMPLE}:Digits", executor="local", out=out, space=rates, launcher=launcher)
        assert outcome.winner is not None
        assert (outcome.code, outcome.winner.configuration, outcome.winner.iterations) == (0, {"lr": 0.5}, 12)
        curves[launcher] = read_curve(out, outcome.winner.trial)
    assert curves["torchrun"] == pytest.approx(curves["single"], rel=1e-10)
    assert curves["single"][-1] < 0.7 * curves["single"][0]
