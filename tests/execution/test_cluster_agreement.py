"""The virtual-clock executor and the cluster simulator agree event for event on what both can run.

Both can run a search whose trials hold other numbers of GPUs in each stage: for the simulator, stages are epochs, and
a trial is a job with as many epochs as stages in which it took part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts.plan import Plan
from optplan.execution.records import OperationEnded, OperationStarted, OperationWanted, Record
from optplan.execution.running import run
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.lab.cluster.jobs import Job, Sight, TabledApplication
from optplan.lab.cluster.policies.in_turn import InTurn
from optplan.lab.cluster.replaying import replay

#: Trials of each stage, GPUs of each of them, and seconds of an iteration on so many.
TRIALS, WIDTHS = (4, 2, 1), (1, 2, 4)
ITERATION_S = {1: 10.0, 2: 6.0, 4: 4.0}

#: When a trial began and ended a stage, and on how many GPUs.
Event = tuple[str, int, int, float, float]


def _list_events(records: list[Record]) -> list[Event]:
    """List what the executor did."""
    wanted = {one.operation: one for one in records if isinstance(one, OperationWanted)}
    begun = {one.operation: one.t for one in records if isinstance(one, OperationStarted)}
    return sorted(
        (wanted[name].trial, int(wanted[name].segment[-1]), sum(wanted[name].place.values()), begun[name], one.t)
        for one in records
        if isinstance(one, OperationEnded) and (name := one.operation)
    )


class _Staged(InTurn):
    """GPUs by stage; notes who began what when."""

    def __init__(self) -> None:
        super().__init__("staged", lambda job: WIDTHS[job.epochs_done])
        self.begun: dict[tuple[str, int], tuple[int, float]] = {}

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """As ever."""
        wishes = super().allocate(sight)
        for job, gpus in wishes.items():
            self.begun[job.name, job.epochs_done + 1] = gpus, sight.now_s
        return wishes


@settings(max_examples=25)
@given(
    iterations=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    start_s=st.sampled_from([0.0, 3.0, 17.5]),
    price=st.sampled_from([1.0, 3.6]),
)
def test_stages_of_a_search(
    plan_chain: Callable[..., Plan], iterations: list[int], start_s: float, price: float
) -> None:
    """Every trial begins and ends every stage at the same time on as many GPUs; nodes are held, and paid, as long."""
    instance = RubberBandInstance.parse(
        {
            "formulation": "rubberband",
            "experiment": {
                "form": "stages",
                "stages": [{"trials": n, "iterations": k} for n, k in zip(TRIALS, iterations, strict=True)],
            },
            "training": {"seconds_per_iteration": {str(k): s for k, s in ITERATION_S.items()}, "start_s": start_s},
            "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": price, "minimum_charge_s": 0.0},
            "deadline_s": 1e6,
        }
    )
    records: list[Record] = []
    ran = run(plan_chain(instance, [{"instances": 2, "gpus": 4}] * 3), listener=records.append, replan_above=None)
    events = _list_events(records)
    assert len(events) == sum(TRIALS)

    stages = Counter(trial for trial, *_ in events)
    stage_s = np.array([k * ITERATION_S[gpus] for k, gpus in zip(iterations, WIDTHS, strict=True)])
    jobs = [
        Job(trial, "trial", 0.0, TabledApplication(dict.fromkeys(WIDTHS, stage_s[:count]), count, start_s))
        for trial, count in stages.items()
    ]
    policy = _Staged()
    outcome = replay(jobs, policy, gpus_per_node=2)
    simulated: list[Event] = []
    for (trial, stage), (gpus, begun_s) in policy.begun.items():
        following = policy.begun.get((trial, stage + 1))
        ended_s = following[1] if following else next(job.completed_s for job in jobs if job.name == trial)
        assert ended_s is not None
        simulated.append((trial, stage, gpus, begun_s, ended_s))
    for one, other in zip(sorted(simulated), events, strict=True):
        assert one[:3] == other[:3]
        assert one[3:] == pytest.approx(other[3:])
    assert outcome.span_s == pytest.approx(ran.time_s)
    assert outcome.node_gpu_hours / 2 * price == pytest.approx(ran.cost_usd)
