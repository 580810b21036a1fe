"""Ray Tune following plans: a real cluster of two nodes, in a network of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.errors import UsageError
from optplan.instances.files import read_instance
from optplan.solving import build_plan, solve

pytestmark = pytest.mark.real
ray_tune = pytest.importorskip("optplan.execution.ray_tune", reason='pip install "optplan[ray]" brings Ray')
PlanScheduler = ray_tune.PlanScheduler

RATES = [{"rate": rate} for rate in (0.01, 0.3, 0.1, 0.02)]
#: Trials, nodes and GPUs of each stage.
STAGES = ((4, 2, 4), (2, 2, 4), (1, 2, 4))
#: How many trials have to be there at a time, by the iterations that they have done.
COMPANIONS = {"0": 4, "4": 2}
Search = Callable[..., dict[str, Any]]
PlanStages = Callable[..., Plan]


@pytest.fixture
def search(run_alone: Callable[..., str], folder: Path) -> Callable[..., dict[str, Any]]:
    """Return what lets Ray Tune follow a plan and returns the outcome."""

    def search_by(plan: Plan, **case: Any) -> dict[str, Any]:  # noqa: ANN401 - plain data
        (folder / "plan.json").write_text(json.dumps(plan.to_json_data()), encoding="utf-8")
        (folder / "case.json").write_text(json.dumps(case), encoding="utf-8")
        run_alone("tune_search.py", folder)
        outcome: dict[str, Any] = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
        return outcome

    return search_by


def read_lines(folder: Path, rate: float) -> list[dict[str, Any]]:
    """Return what the trial with a rate wrote down, an entry for each iteration."""
    lines = (folder / f"{rate}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def loss_after(rate: float, steps: int) -> float:
    """Return (x - 3)^2 after so many steps from 0: 9 (1 - 2 rate)^(2 steps)."""
    return float(9.0 * (1.0 - 2.0 * rate) ** (2 * steps))


def test_an_elastic_search(search: Search, folder: Path, plan_stages: PlanStages) -> None:
    """Four trials on 1 CPU, two on 2, one on 4 of both nodes: beside one another, and from their checkpoints."""
    outcome = search(plan_stages(*STAGES), space=RATES, companions=COMPANIONS)
    assert (outcome["status"], outcome["failed"], outcome["trials"]) == ("ended", {}, 4)
    assert outcome["winner"]["configuration"]["trial"] == {"rate": 0.3}
    assert outcome["winner"]["iterations"] == 12
    assert [segment["trials"] for segment in outcome["segments"]] == [4, 2, 1]
    lines = {rate: read_lines(folder, rate) for rate in (0.01, 0.02, 0.1, 0.3)}
    assert {rate: len(own) for rate, own in lines.items()} == {0.01: 4, 0.02: 4, 0.1: 8, 0.3: 12}
    for rate, own in lines.items():
        assert [line["iteration"] for line in own] == list(range(1, len(own) + 1))
        assert [line["loss"] for line in own] == pytest.approx([loss_after(rate, n) for n in range(1, len(own) + 1)])
        assert [line["company"] for line in own] == ([4] * 4 + [2] * 4 + [1] * 4)[: len(own)]
        assert [line["cpus"] for line in own] == ([[1]] * 4 + [[2]] * 4 + [[2, 2]] * 4)[: len(own)]


def test_trials_that_fail(search: Search, folder: Path, plan_stages: PlanStages) -> None:
    """One crashes in stage 2 whatever is tried, one shows NaN: the search goes on with the others."""
    space = [{"rate": 0.01}, {"rate": 0.3, "crash_at": 6}, {"rate": 0.1}, {"rate": 0.4, "nan": True}]
    outcome = search(plan_stages(*STAGES), space=space, companions=COMPANIONS, failures=1)
    assert outcome["status"] == "ended"
    assert list(outcome["failed"]) == ["b1-s1-trials-0002"]
    assert "the loss exploded" in outcome["failed"]["b1-s1-trials-0002"]
    assert outcome["winner"]["configuration"]["trial"] == {"rate": 0.1}
    assert [line["iteration"] for line in read_lines(folder, 0.3)] == [1, 2, 3, 4, 5, 5]  # twice, from the checkpoint
    assert len(read_lines(folder, 0.4)) == 4
    assert "no number for 'loss' from b1-s1-trials-0004: ranked last" in outcome["notes"][0]


def test_rounds_that_end_by_the_clock(search: Search, folder: Path) -> None:
    """SEER's rounds of 12 and 24 s: trials on 2, 1 and 1 CPUs beside one another, then the best of them alone."""
    example = read_instance("seer-paper-example")
    instance = example.replace(deadline_min=0.6, budget="2.25gpu-min", least_round_min=0.15)
    plan = build_plan(instance, solve(instance, solver="published-seer"))
    space = [{"rate": rate, "wait_s": 0.2} for rate in (0.02, 0.05, 0.01)]
    outcome = search(plan, space=space, companions={"0": 3})
    assert (outcome["status"], outcome["failed"]) == ("ended", {})
    assert [segment["trials"] for segment in outcome["segments"]] == [1, 2, 1]
    lines = {each["rate"]: read_lines(folder, each["rate"]) for each in space}
    assert {line["company"] for own in lines.values() for line in own[:1]} == {3}
    assert [lines[rate][0]["cpus"] for rate in (0.02, 0.05, 0.01)] == [[2], [1], [1]]
    best = min(lines, key=lambda rate: min(line["loss"] for line in lines[rate]))
    assert outcome["winner"]["configuration"]["trial"]["rate"] == best
    assert outcome["winner"]["iterations"] == len(lines[best]) > max(len(lines[rate]) for rate in lines if rate != best)


def test_what_a_tuner_gets_wrong(search: Search, folder: Path, plan_stages: PlanStages) -> None:
    """Five trials where the plan has four: said before anything is trained, and what to write instead."""
    with pytest.raises(AssertionError, match=r"the plan's 4 trials; give TuneConfig\(num_samples=4\)"):
        search(plan_stages(*STAGES), space=[*RATES, {"rate": 0.2}], companions=COMPANIONS)
    assert not list(folder.glob("*.jsonl"))


def test_whose_metric_counts(plan_stages: PlanStages, plan_of: Callable[..., Plan]) -> None:
    """The scheduler's own, else the Tuner's, else the plan's; two that differ are refused, and plans of no search."""
    plan = plan_stages(*STAGES)
    own = PlanScheduler(plan, metric="accuracy", mode="max")
    assert (own.metric, own.num_samples) == ("accuracy", 4)
    assert own.set_search_properties(None, None)
    assert own.set_search_properties("accuracy", "max")
    assert not own.set_search_properties("loss", "min")
    assert own.metric == "accuracy"
    free = PlanScheduler(plan)
    assert free.set_search_properties(None, None)
    assert free.metric == "loss"
    assert free.set_search_properties("error", "max")
    assert free.metric == "error"
    with pytest.raises(UsageError, match=r"plan: its units are fleet-group; Ray Tune follows plans of searches"):
        PlanScheduler(plan_of("srift-case1"))
