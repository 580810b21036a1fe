"""Taking stock: where a run stands, and what it has measured, from its state alone."""

from __future__ import annotations

from collections.abc import Mapping

from optplan.contracts.standing import MeasuredNode, MeasuredTrial, Standing, Took
from optplan.execution.cluster import paid_s, segment_usd, spent_gpu_hours, spent_usd
from optplan.execution.state import Phase, State


def take_stock(
    state: State, now_s: float, *, since_s: float = 0.0, limits: Mapping[str, float] | None = None
) -> Standing:
    """Say where a run stands; measurements count from ``since_s`` on, and limits take the place of the instance's."""
    ended = [each for each in state.segments.values() if each.phase is Phase.ENDED]
    took = {
        each.segment.id: Took(
            each.opened_s or 0.0,
            (each.ended_s or 0.0) - (each.opened_s or 0.0),
            segment_usd(state, each, now_s, minima=False),
        )
        for each in ended
    }
    alive = {each.segment.id: sum(not state.trials[trial].why_dropped for trial in each.ranking) for each in ended}
    return Standing(
        now_s=now_s,
        origin_s=state.origin_s or 0.0,
        spent_usd=spent_usd(state, now_s, minima=False),
        spent_gpu_hours=spent_gpu_hours(state, now_s),
        took=took,
        alive=alive,
        held={pool: paid_s(state, pool, now_s) for pool in state.pools},
        limits=limits or {},
        trials=tuple(_list_trials(state, since_s)),
        nodes=tuple(_list_nodes(state, since_s)),
    )


def _list_trials(state: State, since_s: float) -> list[MeasuredTrial]:
    """List the operations that ended in good order, and did iterations.

    Where what was seen of one does not tell its iterations from its start, they are taken for what they were planned to
    take, and all else for the start.
    """
    measured = []
    for each in state.operations.values():
        operation, timings = each.operation, each.timings
        steps = int(timings.get("steps", 0.0))
        if each.phase is not Phase.ENDED or each.wanted_s < since_s or not steps:
            continue
        step_s = timings.get("step_s")
        if step_s is None:
            planned_s = state.segments[operation.segment].segment.expected.iteration_s
            if planned_s is None:
                continue
            step_s = min(planned_s, each.busy_s / steps)
        measured.append(
            MeasuredTrial(
                segment=operation.segment,
                gpus=operation.workers * operation.gpus_per_worker,
                nodes=max(1, len(operation.place)),
                iterations=steps,
                iteration_s=step_s,
                iteration_sd_s=timings.get("step_sd_s"),
                overhead_s=max(0.0, each.busy_s - steps * step_s),
                start_s=timings.get("start_s", 0.0),
            )
        )
    return measured


def _list_nodes(state: State, since_s: float) -> list[MeasuredNode]:
    return [
        MeasuredNode(node.resource, node.launch_s - node.wanted_s, node.ready_s - node.launch_s, node.usd_per_hour)
        for node in state.nodes.values()
        if node.ready_s is not None and node.launch_s is not None and node.wanted_s >= since_s
    ]
