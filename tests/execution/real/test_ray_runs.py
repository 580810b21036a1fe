"""``optplan run --executor ray`` on real clusters: what survives, several workers, nodes that come and go."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.errors import UsageError
from optplan.execution.journal import Journal
from optplan.execution.records import NodeChanged, OperationFailed, Paused, Record
from optplan.execution.running import run
from optplan.execution.runs import read_run
from optplan.execution.state import Phase, State

pytestmark = pytest.mark.real
ray = pytest.importorskip("ray", reason='Ray is not installed; pip install "optplan[ray]" brings it')

QUADRATIC = f"{Path(__file__).parents[1] / 'trainables' / 'quadratic.py'}:Quadratic"
TUNED = f"{Path(__file__).with_name('tuned.py')}:Tuned"
DIGITS = f"{Path(__file__).parents[3] / 'docs' / 'examples' / 'ddp_digits.py'}:Digits"
RATES = [{"rate": rate, "wait_s": 0.3} for rate in (0.01, 0.3, 0.1, 0.02)]
#: The second descends fastest: 0.3 brings x nearer to 3 by a factor of 0.4 a step.
FAST = "b1-s1-trials-0002"
#: Trials, nodes and GPUs of each stage.
STAGES = ((4, 2, 4), (2, 2, 4), (1, 1, 2))
PlanStages = Callable[..., Plan]
RunAlone = Callable[..., str]


def prepare(folder: Path, plan: Plan, target: str, space: Sequence[dict[str, Any]]) -> None:
    """Write down what a script of runs needs."""
    (folder / "plan.json").write_text(json.dumps(plan.to_json_data()), encoding="utf-8")
    (folder / "space.json").write_text(json.dumps(space), encoding="utf-8")
    (folder / "train").write_text(target, encoding="utf-8")


def read_records(out: Path) -> list[Record]:
    """Return everything that was written down of a run."""
    journal = Journal(out, writable=False)
    try:
        return list(journal.replay())
    finally:
        journal.close()


def require_same_end(out: Path, *, parts: bool = False) -> State:
    """Require the winner and its loss to be those of a run in peace, no trial to be lost, and nothing to be repeated.

    A trial may have ended a stage in ``parts``, where it was stopped in good order.
    """
    state: State = read_run(out).state
    assert state.ended is not None
    assert (state.ended.winner, state.ended.code) == (FAST, 0)
    best = state.trials[FAST]
    assert (best.iterations, best.metrics["loss"]) == (30, pytest.approx(9.0 * 0.4**60, abs=1e-12))
    assert not any(trial.why_dropped for trial in state.trials.values())
    ended = [(o.operation.segment, o.operation.trial) for o in state.past_operations if o.phase is Phase.ENDED]
    assert len(set(ended)) == 7
    assert parts or len(ended) == 7, "each trial ended each of its stages once"
    return state


def test_kills(run_alone: RunAlone, folder: Path, plan_stages: PlanStages) -> None:
    """Of a driver, an actor and a node: actors go on without a driver and are adopted; the same trial wins.

    A driver that is interrupted leaves nothing behind, and its run can be resumed too.
    """
    prepare(folder, plan_stages(*STAGES, iterations=10), QUADRATIC, RATES)
    run_alone("ray_runs.py", folder, "mishaps")
    for name in ("driver", "early"):
        state = require_same_end(folder / name)
        assert {each.operation.attempt for each in state.past_operations} == {1}, "nothing was started twice"
    state = require_same_end(folder / "interrupted", parts=True)
    assert any(isinstance(record, Paused) for record in read_records(folder / "interrupted"))
    state = require_same_end(folder / "actor")
    assert state.trials[FAST].attempts["b1-s1"] == 2
    failed = [record for record in read_records(folder / "actor") if isinstance(record, OperationFailed)]
    assert [(record.blameless, record.why.split(" (")[0]) for record in failed] == [(False, "its actor died")]
    require_same_end(folder / "node")
    records = read_records(folder / "node")
    lost = [record.node for record in records if isinstance(record, NodeChanged) and record.phase == Phase.LOST]
    failed = [record for record in records if isinstance(record, OperationFailed)]
    assert len(lost) == 1
    assert [(record.blameless, record.why) for record in failed] == [(True, f"its node {lost[0]} was lost")] * 2


def test_many_kills(run_alone: RunAlone, folder: Path, plan_stages: PlanStages) -> None:
    """Of drivers, actors, nodes and what supervises or does their work: the same trial wins, and nothing is left.

    What nobody drives any more stores its state, ends, and gives its nodes back.
    """
    prepare(folder, plan_stages(*STAGES, iterations=10), QUADRATIC, RATES)
    run_alone("ray_runs.py", folder, "killed")
    hits = (folder / "hits").read_text(encoding="utf-8").splitlines()
    assert len(hits) >= int(os.environ.get("OPTPLAN_KILLS", "100")) // 5
    assert len(set(hits)) > 4
    require_same_end(folder / "orphan", parts=True)
    for out in folder.glob("killed-*"):
        require_same_end(out, parts=True)


def test_several_workers(run_alone: RunAlone, folder: Path, plan_stages: PlanStages) -> None:
    """A trial on 1, then 2, then 4 workers of two nodes: its loss curve is that of one process on this machine."""
    pytest.importorskip("torch", reason='PyTorch is not installed; pip install "optplan[torch]" brings it')
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    plan, rates = plan_stages((2, 1, 2), (1, 1, 2), (1, 2, 4)), [{"lr": 0.5}, {"lr": 0.01}]
    prepare(folder, plan, DIGITS, rates)
    run_alone("ray_runs.py", folder, "workers")
    run(plan, DIGITS, executor="local", out=folder / "alone", space=rates, replan_above=None)
    curves = {}
    for name in ("workers", "alone"):
        state = read_run(folder / name).state
        assert state.ended is not None
        assert state.ended.winner is not None
        assert state.trials[state.ended.winner].iterations == 12
        paths = (folder / name).glob(f"operations/*.{state.ended.winner}.*/progress.jsonl")
        lines = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
        curves[name] = {line["iterations"]: line["metrics"]["loss"] for line in lines}
    assert curves["workers"] == pytest.approx(curves["alone"], rel=1e-10)


def test_nodes_of_the_autoscaler(run_alone: RunAlone, folder: Path, plan_stages: PlanStages) -> None:
    """None at first; two of the kind that is asked for are launched, and given back; each is paid from its request."""
    prepare(folder, plan_stages(*STAGES, iterations=10), QUADRATIC, RATES)
    run_alone("ray_runs.py", folder, "autoscaled")
    counts = [int(count) for count in (folder / "machines").read_text(encoding="utf-8").split()]
    assert (counts[0], max(counts)) == (0, 2)
    state = require_same_end(folder / "autoscaled")
    for node in state.nodes.values():
        assert node.launch_s is not None
        assert node.ready_s is not None
        assert node.launch_s - node.wanted_s < node.ready_s - node.launch_s  # the launch is what takes its time


def test_a_cluster_made_here(run_alone: RunAlone, folder: Path, plan_stages: PlanStages) -> None:
    """One is made where other programs have the ports that Ray likes, ends with its driver, and is made again.

    What is trained is a ``Trainable`` of Ray Tune.
    """
    prepare(folder, plan_stages(*STAGES, iterations=10), TUNED, RATES)
    run_alone("ray_runs.py", folder, "here")
    require_same_end(folder / "here")
    assert not list(folder.glob("op-*")), "the clusters' own folders are gone"


def test_drivers_killed_in_stage_1(run_alone: RunAlone, folder: Path, plan_stages: PlanStages) -> None:
    """With kill -9, before anything was reported and after, twice each, and the cluster with them: the run goes on.

    Nobody is blamed for what went with the cluster, and the same trial wins.
    """
    prepare(folder, plan_stages(*STAGES, iterations=10), QUADRATIC, RATES)
    run_alone("ray_runs.py", folder, "often")
    for moment in (0, 2):
        require_same_end(folder / f"often-{moment}")
        failed = [each for each in read_records(folder / f"often-{moment}") if isinstance(each, OperationFailed)]
        assert [each.blameless for each in failed] == [True] * 8
        assert all("was gone when the run was resumed" in each.why for each in failed)


def test_capabilities() -> None:
    """Resizing is checkpoint, stop, start; limits may be missed by a hundredth."""
    from optplan.execution.ray_cluster import RayExecutor

    assert (RayExecutor.is_virtual, RayExecutor.lateness) == (False, 0.01)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("127.0.0.1:1", "no Ray cluster at '127.0.0.1:1' .*is it up"),
        ("ray://127.0.0.1:10001", "got 'ray://127.0.0.1:10001'; run on a machine of the cluster, and give HOST:PORT"),
        ("somewhere", "got 'somewhere'; run on a machine of the cluster, and give HOST:PORT or auto"),
    ],
)
def test_addresses(plan_stages: PlanStages, tmp_path: Path, address: str, problem: str) -> None:
    """Nobody listens there, or it is none: said at once, where Ray would try for minutes."""
    with pytest.raises(UsageError, match=f"address: {problem}"):
        run(plan_stages(*STAGES), QUADRATIC, executor="ray", address=address, out=tmp_path / "run", space=RATES)
