"""Jobs of a trace of an instance's classes, and how a plan or a policy serves them."""

from __future__ import annotations

import warnings

import numpy as np

from optplan.errors import DataError, DataWarning, UsageError, nearest_name_hint
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.instances.job_traces import JobTrace
from optplan.lab.cluster.jobs import Job, SchedulingPolicy, TabledApplication
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.boa import follow_plan
from optplan.lab.cluster.policies.naming import make_policy
from optplan.lab.cluster.replaying import replay
from optplan.lab.cluster.world import World
from optplan.units import SECONDS_PER_HOUR, format_duration

#: The longest job that is simulated, in seconds: policies that look again and again do so for all of that time.
_LONGEST_S = 10 * 365.25 * 86_400.0


def tabulate_class(instance: BoaInstance, name: str, gpu_type: str) -> TabledApplication:
    """Return what an instance says of a class on one type of GPU; no width, where it does not run there."""
    job_class = instance.classes[name]
    if gpu_type not in job_class.speedup:
        return TabledApplication({}, job_class.num_epochs)
    times_s = job_class.epoch_size_gpu_hours[:, None] * SECONDS_PER_HOUR / instance.speeds(name, gpu_type)
    widths = instance.allowed_widths(name, gpu_type).tolist()
    return TabledApplication(
        dict(zip(widths, times_s.T, strict=True)), job_class.num_epochs, job_class.rescale_s_of(gpu_type)
    )


def make_jobs(instance: BoaInstance, trace: JobTrace, gpu_type: str | None = None) -> list[Job]:
    """Make the jobs of a trace, on a GPU type of the instance (the only one); a log's GPUs are what they asked for."""
    gpu_type = _find_type(instance, gpu_type)
    for name in trace.classes:
        if name not in instance.classes:
            problem = f"class {name!r} of the trace is not in the instance {instance.name!r}"
            raise DataError("classes", problem, nearest_name_hint(name, instance.classes))
    if instance.gpu_types[gpu_type].spot is not None:
        message = f"gpu_types.{gpu_type}.spot: nodes are taken away only as often as is said (--interruptions)"
        warnings.warn(message, DataWarning, stacklevel=2)
    if instance.whole_nodes:
        warnings.warn("whole_nodes: in a simulation jobs share nodes", DataWarning, stacklevel=2)
    truths = [tabulate_class(instance, name, gpu_type) for name in trace.classes]
    fastest_s = [min((float(times_s.sum()) for times_s in each.epoch_s.values()), default=0.0) for each in truths]
    longest_s = trace.size * np.array(fastest_s)[trace.class_index]
    if longest_s.max() > _LONGEST_S:
        which = int(longest_s.argmax())
        problem = f"takes {format_duration(float(longest_s[which]))} even on the fastest width"
        raise DataError(
            f"jobs.{trace.ids[which]}", problem, "correct its size; ten years are the most that is simulated"
        )
    weights = [instance.classes[name].weight for name in trace.classes]
    asked = np.where(trace.gpus >= 1.0, trace.gpus, 0.0).astype(np.int64)  # NaN where nobody says it
    columns = (trace.ids, trace.class_index, trace.arrive_s, trace.size, asked)
    return [
        Job(name, trace.classes[which], at_s, truths[which], gpus or None, size=size, weight=weights[which])
        for name, which, at_s, size, gpus in zip(*(column.tolist() for column in columns), strict=True)
    ]


def count_gpus(instance: BoaInstance, gpu_type: str | None = None, given: int | None = None) -> int:
    """Return the GPUs of a node: those given, or else what the instance says of the type."""
    gpu_type = _find_type(instance, gpu_type)
    said = instance.gpu_types[gpu_type].gpus_per_node if given is None else given
    if said is None:
        fix = "say how many GPUs a node has (--gpus-per-node)"
        raise DataError(f"gpu_types.{gpu_type}.gpus_per_node", "is missing", fix)
    return said


def _find_type(instance: BoaInstance, gpu_type: str | None) -> str:
    if gpu_type is None and len(instance.gpu_types) > 1:
        message = f"gpu: the instance has {', '.join(instance.gpu_types)}, and nodes are of one type; name it (--gpu)"
        raise UsageError(message)
    if gpu_type is not None and gpu_type not in instance.gpu_types:
        raise UsageError(f"gpu: no GPU type {gpu_type!r}; {nearest_name_hint(gpu_type, instance.gpu_types)}")
    return instance.only_gpu_type if gpu_type is None else gpu_type


def simulate_trace(  # noqa: PLR0913 - what is replayed, and on what
    instance: BoaInstance,
    trace: JobTrace,
    policy: SchedulingPolicy | BoaPlan | str,
    *,
    gpus_per_node: int | None = None,
    nodes: int | None = None,
    gpu_type: str | None = None,
    start_s: float | None = None,
    world: World | None = None,
    seed: int = 0,
) -> Outcome:
    """Replay a trace under a plan or a policy, on rented nodes or on so many of one's own.

    Parameters
    ----------
    instance
        What is true of the jobs: epochs take its sizes, times the size of the job, over its speedups; a start and every
        change of width pause a job as it says.
    trace
        Its jobs; see :func:`~optplan.instances.job_traces.draw_trace` and
        :func:`~optplan.instances.job_traces.read_trace`.
    policy
        A plan, a policy, or what ``optplan simulate cluster --policy`` takes.
    gpus_per_node
        GPUs of each node; None takes what the instance says of the GPU type.
    nodes
        How many there are; None rents as many as are needed when they are needed.
    gpu_type
        Of all nodes; may be left out where the instance has one.
    start_s
        Seconds until a rented node can be used; None takes what the instance says, or else nothing.
    world, seed
        What makes the cluster less than ideal, and the seed of what is drawn of that.

    Returns
    -------
    Outcome
        Of each job when it was completed, or why not; GPU-hours held and rented.

    Raises
    ------
    DataError
        When a class of the trace is not in the instance, or nobody says how many GPUs a node has.
    UsageError
        When the instance has several GPU types and none is named, or there is no such policy.
    """
    gpu_type = _find_type(instance, gpu_type)
    if isinstance(policy, str):
        policy = make_policy(policy)
    elif isinstance(policy, BoaPlan):
        policy = follow_plan(policy)
    return replay(
        make_jobs(instance, trace, gpu_type),
        policy,
        gpus_per_node=count_gpus(instance, gpu_type, gpus_per_node),
        nodes=nodes,
        start_s=(instance.gpu_types[gpu_type].start_s or 0.0) if start_s is None else start_s,
        world=world,
        seed=seed,
    )
