"""What became of a stream: what was planned of each class beside what happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from optplan.execution.journal import Kind
from optplan.execution.online.drift import Expectation
from optplan.execution.outcomes import Outcome, describe_end
from optplan.execution.state import NodeState
from optplan.execution.streams.state import JobState, StreamState
from optplan.formulations.boa.planning import BoaPlan
from optplan.schema import FrozenModel
from optplan.units import SECONDS_PER_HOUR


class ClassOutcome(FrozenModel):
    """The jobs of a class."""

    #: job_class, jobs, completed: Which, how many arrived, and how many of them did all their work.
    job_class: str
    jobs: int
    completed: int
    #: planned_jct_s, actual_jct_s: Mean seconds from arrival to completion; None where the plan has no such class, or
    #: none was completed.
    planned_jct_s: float | None = None
    actual_jct_s: float | None = None
    #: planned_gpu_hours, actual_gpu_hours: Of a job, in the mean.
    planned_gpu_hours: float | None = None
    actual_gpu_hours: float
    widths: tuple[int, ...] = ()  #: All that its jobs had, ascending.


class StreamOutcome(Outcome):
    """A stream, as far as it went; on a virtual clock what is called actual is what an instance says of the classes."""

    kind: ClassVar[Kind] = "stream"
    classes: tuple[ClassOutcome, ...]  #: In the order of their first arrivals.
    #: planned_jct_s, actual_jct_s: Mean over all jobs: as the plan has their classes, and as it was.
    planned_jct_s: float | None
    actual_jct_s: float | None
    gpu_hours: float  #: That jobs held.
    node_gpu_hours: float  #: Of the nodes, from the beginning of their launch until they were given back.
    starting_gpu_hours: float = 0.0  #: Of these, until they were ready, or given back before.
    tables: int  #: How often the width table was replaced.
    changes: int  #: How often a running job got another width.
    dropped: dict[str, str]  #: By job that was given up: why.
    drift: str = ""  #: Why the plan that it began with will not hold on arrivals such as these; empty where it may.


def describe_stream(
    state: StreamState, plan: BoaPlan, sizes: dict[str, int], *, virtual: bool = False
) -> StreamOutcome:
    """Describe a stream beside the plan that it began with; ``sizes`` are the GPUs of a node, by type."""
    jobs = list(state.jobs.values())
    held = [_hold(node, sizes[node.resource], state.t) for node in state.nodes.values()]
    classes = tuple(
        _describe_class(name, [job for job in jobs if job.job_class == name], plan)
        for name in dict.fromkeys(job.job_class for job in jobs)
    )
    planned = [(one.jobs, one.planned_jct_s) for one in classes if one.planned_jct_s is not None]
    weights = sum(count for count, _ in planned)
    return StreamOutcome(
        **describe_end(state, virtual=virtual),
        classes=classes,
        planned_jct_s=sum(count * jct_s for count, jct_s in planned) / weights if weights else None,
        actual_jct_s=_mean_jct(jobs),
        gpu_hours=sum(job.gpu_s for job in jobs) / SECONDS_PER_HOUR,
        node_gpu_hours=sum(hours for hours, _ in held),
        starting_gpu_hours=sum(starting for _, starting in held),
        tables=state.tables,
        changes=sum(max(0, len(job.widths) - 1) for job in jobs),
        dropped={job.name: job.why_dropped for job in jobs if job.why_dropped},
        drift=Expectation.of(plan).watch([(job.job_class, job.arrived_s) for job in jobs]),
    )


def _hold(node: NodeState, gpus: int, now_s: float) -> tuple[float, float]:
    """Return the GPU-hours of a node from the beginning of its launch, and those of them before it was ready."""
    end_s = now_s if node.end_s is None else node.end_s
    ready_s = end_s if node.ready_s is None else node.ready_s
    launch_s = ready_s if node.launch_s is None else node.launch_s
    gpu_h = gpus / SECONDS_PER_HOUR
    return gpu_h * (end_s - launch_s), gpu_h * (ready_s - launch_s)


def _describe_class(name: str, jobs: Sequence[JobState], plan: BoaPlan) -> ClassOutcome:
    ways = plan.ways.get(name)
    expected = [(way[0].share, segment.expected) for way in ways for segment in way] if ways else None
    return ClassOutcome(
        job_class=name,
        jobs=len(jobs),
        completed=sum(job.is_over and not job.why_dropped for job in jobs),
        planned_jct_s=None if expected is None else sum(share * each.seconds for share, each in expected),
        actual_jct_s=_mean_jct(jobs),
        planned_gpu_hours=None if expected is None else sum(share * each.gpu_hours for share, each in expected),
        actual_gpu_hours=sum(job.gpu_s for job in jobs) / len(jobs) / SECONDS_PER_HOUR,
        widths=tuple(sorted({gpus for job in jobs for gpus in job.widths})),
    )


def _mean_jct(jobs: Sequence[JobState]) -> float | None:
    took_s = [job.ended_s - job.arrived_s for job in jobs if job.ended_s is not None and not job.why_dropped]
    return sum(took_s) / len(took_s) if took_s else None
