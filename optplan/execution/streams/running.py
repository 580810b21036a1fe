"""``run_stream``: serve the jobs of a stream by a BOA plan's widths, in a folder from which it can be resumed.

What became of it is told class by class: what was planned beside what happened.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from optplan.contracts.plan import require_size, span
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.execution.fields import AtLeastOne, StreamFields
from optplan.execution.folders import tell_step_limit
from optplan.execution.journal import Kind
from optplan.execution.online.jobs import Rules
from optplan.execution.online.ledger import tell_drift
from optplan.execution.online.messages import Terms
from optplan.execution.online.width_table import WidthTable
from optplan.execution.options import REAL, TrainingOptions
from optplan.execution.protocol import Executor
from optplan.execution.records import Noted, Record
from optplan.execution.runs import Listener, Outcome, Run, name_training
from optplan.execution.state import NodeState
from optplan.execution.streams.learning import Learner
from optplan.execution.streams.state import JobState, StreamJob, StreamState, order_jobs
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.schema import ByName, FrozenModel
from optplan.units import SECONDS_PER_HOUR, format_duration

#: On the virtual clock: epochs of all jobs, and looks at the widths until the last job has come and could be over.
_MOST_EPOCHS = _MOST_LOOKS = 100_000


class StreamOptions(TrainingOptions, StreamFields):
    """What streams take besides; an iteration is an epoch."""

    gpus_per_node: ByName[AtLeastOne] = Field(default_factory=dict)  #: By type of GPU; 1 where it is left out.
    #: The most GPUs at a time by type. The local executor has ``slots`` at most.
    quotas: ByName[AtLeastOne] = Field(default_factory=dict)
    terms: Terms = Terms()  #: Of the calculator.

    LOOKED_AT: ClassVar[Mapping[str, Collection[str]]] = {
        **TrainingOptions.LOOKED_AT,
        **dict.fromkeys(("train", "metric"), REAL),
        "slots": ("local", "ray"),
    }
    FIXED: ClassVar[frozenset[str]] = TrainingOptions.FIXED | {"gpus_per_node"}


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


def run_stream(
    plan: BoaPlan,
    jobs: Iterable[StreamJob],
    trainable: object = None,
    *,
    instance: BoaInstance | None = None,
    truth: BoaInstance | None = None,
    out: Path | str | None = None,
    listener: Listener | None = None,
    **options: Any,  # noqa: ANN401 - the fields of StreamOptions
) -> StreamOutcome:
    """Serve the jobs of a stream until all of them are over.

    Parameters
    ----------
    plan
        Whose widths hold at first.
    jobs
        That will arrive.
    trainable
        A class or generator function at the top level of a module, or where to import it (``module:name``).
    instance
        What is known of the classes, with the budget: with it widths are calculated again as jobs are seen.
    truth
        On the virtual clock, and only there, how long epochs really take; None for what ``instance`` says.
    out
        Folder of the stream; needed where processes are started, and to resume.
    listener
        Is told of every record.
    **options
        Fields of :class:`StreamOptions`.

    Returns
    -------
    StreamOutcome
        Also when it was interrupted.

    Raises
    ------
    UsageError
        When options do not fit, mean nothing to the executor, or the folder holds something else.
    DataError
        When the plan is too large to be followed, two jobs have the same name, rules or types do not fit the plan, or
        on the virtual clock nobody says how long the epochs of a class take, or there would be no end of epochs or of
        looks at the widths.
    """
    chosen = StreamOptions(**name_training(options, trainable))
    require_size(plan)
    known = {"instance": instance, "truth": truth}
    own: dict[str, Any] = {name: None if each is None else each.to_json_data() for name, each in known.items()}
    stream = StreamRun(plan, chosen, {"jobs": [job.to_json_data() for job in order_jobs(jobs)], **own})
    stream.require()
    first: list[Record] = []
    if not chosen.is_virtual:
        epochs_s = [each.expected.seconds / (end - begin) for each in plan.segments for begin, end in [span(each)]]
        first.append(Noted(0.0, tell_step_limit(epochs_s, chosen.step_timeout_s)))
    return stream.begin(out, listener, first)


class StreamRun(Run[BoaPlan, StreamOptions, StreamState, StreamOutcome]):
    """A stream of jobs; its own are the jobs, the instance with which it learns, and the one that is true."""

    kind = "stream"
    options_type = StreamOptions

    def _understand(self) -> None:
        unknown = sorted(self.options.gpus_per_node.keys() - self.plan.resources.keys())
        if unknown:
            known = ", ".join(self.plan.resources)
            raise DataError(f"gpus_per_node.{unknown[0]}", "the plan has no such type", f"known types are {known}")
        self._sizes = {name: self.options.gpus_per_node.get(name, 1) for name in self.plan.resources}
        epochs = {unit.id: unit.epochs for unit in self.plan.units}
        jobs = (StreamJob.parse(each, path="jobs") for each in self.own["jobs"])
        self.jobs = [one if one.epochs else one.replace(epochs=epochs.get(one.job_class, 1)) for one in jobs]
        self._instance, truth = (
            None if self.own[name] is None else BoaInstance.parse(self.own[name], path=name)
            for name in ("instance", "truth")
        )
        self._truth = truth or self._instance

    def require(self) -> None:
        """Raise UsageError or DataError where plan, jobs and options do not fit together."""
        options = self.options
        if not options.is_virtual and self.own["truth"] is not None:
            what = f"executor {options.executor!r} shows how long epochs take"
            raise UsageError(f"truth: {what}; leave it out (--truth)")
        super().require()
        try:
            shlex.split(options.scale_command)
        except ValueError as error:
            raise UsageError(f"scale_command: got {options.scale_command!r} ({error}); close the quotes") from None
        if not self.options.is_virtual:
            self._require_nodes()
            return
        if self._truth is None:
            what = "truth: on the virtual clock an instance says how long epochs take"
            raise UsageError(f"{what}; give one (--truth or --learn), or run the jobs (--executor)")
        _require_known(self.jobs, self._truth, WidthTable.from_plan(self.plan))
        every_s = None if self._instance is None else options.terms.every_s
        _require_an_end(self.jobs, self._truth, every_s)

    def _require_nodes(self) -> None:
        for name, rows in self.plan.width_table.items():
            for row in rows:
                kinds = row.gpu_types or (next(iter(self._sizes)),) * row.gpus.size
                for gpus, kind in zip(row.gpus.tolist(), kinds, strict=True):
                    whose, instead = f"a job of {name} has {gpus} GPUs", f"give --gpus-per-node {gpus}, or "
                    self.options.require_one_node(whose, gpus, self._sizes[kind], instead)

    def make_state(self) -> StreamState:
        """Return the state before the first record."""
        return StreamState(self.plan)

    def describe(self) -> StreamOutcome:
        """Say how it stands."""
        jobs = list(self.state.jobs.values())
        held = [_hold(node, self._sizes[node.resource], self.state.t) for node in self.state.nodes.values()]
        classes = tuple(
            _describe_class(name, [job for job in jobs if job.job_class == name], self.plan)
            for name in dict.fromkeys(job.job_class for job in jobs)
        )
        planned = [(one.jobs, one.planned_jct_s) for one in classes if one.planned_jct_s is not None]
        weights = sum(count for count, _ in planned)
        return StreamOutcome(
            **self._describe_end(),
            classes=classes,
            planned_jct_s=sum(count * jct_s for count, jct_s in planned) / weights if weights else None,
            actual_jct_s=_mean_jct(jobs),
            gpu_hours=sum(job.gpu_s for job in jobs) / SECONDS_PER_HOUR,
            node_gpu_hours=sum(hours for hours, _ in held),
            starting_gpu_hours=sum(starting for _, starting in held),
            tables=self.state.tables,
            changes=sum(max(0, len(job.widths) - 1) for job in jobs),
            dropped={job.name: job.why_dropped for job in jobs if job.why_dropped},
            drift=tell_drift(self.plan, [(job.job_class, job.arrived_s) for job in jobs]),
        )

    @property
    def rules(self) -> Rules:
        """What holds for who holds what."""
        options = self.options
        limits = [each for each in (options.most_gpus, options.slots) if each is not None]
        weights = {unit.id: unit.weight for unit in self.plan.units}
        return Rules(self._sizes, min(limits, default=None), options.quotas, options.order, weights=weights)

    def make_learner(self) -> Learner | None:
        """Return what calculates widths again, having seen what was written down; None where nothing does."""
        if self._instance is None:
            return None
        learner = Learner(self._instance, self.options.terms, self._sizes, self.rules.most)
        learner.recall(self.past, self.make_state())
        return learner

    def _make_executor(self) -> Executor:
        options = self.options
        if self.options.is_virtual:
            from optplan.execution.streams.virtual import VirtualStreamExecutor

            assert self._truth is not None  # checked before
            return VirtualStreamExecutor(self._truth, now_s=self.state.t)
        own: dict[str, Any] = {"slots": options.slots or sum(self._sizes.values())} if options.executor == "ray" else {}
        return self._make_real(self._sizes, **own)


def _require_known(jobs: Sequence[StreamJob], truth: BoaInstance, table: WidthTable) -> None:
    """Raise DataError where nobody says how long a job's epochs take on the types that it will hold."""
    for job in jobs:
        if job.job_class not in truth.classes:
            problem = f"got {job.job_class!r}, and {truth.name} does not say how long its epochs take"
            fix = f"{nearest_name_hint(job.job_class, truth.classes)}, or give an instance that has it (--truth)"
            raise DataError(f"jobs.{job.name}.job_class", problem, fix)
        held = {name for row in table.classes.get(job.job_class, ()) for name in row.gpu_types or ()}
        missing = (held or {table.gpu_types[0]}) - truth.classes[job.job_class].speedup.keys()
        if missing:
            problem = f"{truth.name} does not say how fast {job.job_class} runs on {min(missing)}, as it is planned"
            raise DataError(f"jobs.{job.name}.job_class", problem, "give an instance that does (--truth)")


def _require_an_end(jobs: Sequence[StreamJob], truth: BoaInstance, every_s: float | None) -> None:
    """Raise DataError where a virtual clock would be busy for minutes: too many epochs, or looks at the widths."""
    total, latest_s = 0, 0.0
    for job in jobs:
        epochs = job.epochs or 1
        total += epochs
        if total > _MOST_EPOCHS:
            problem = f"got {epochs:,}; with the jobs before it these are {total:,} epochs"
            raise DataError(f"jobs.{job.name}.epochs", problem, f"a virtual clock has up to {_MOST_EPOCHS:,}")
        epoch_h = float(np.max(truth.classes[job.job_class].epoch_size_gpu_hours))
        latest_s = max(latest_s, job.at_s + epochs * epoch_h * SECONDS_PER_HOUR)
    if every_s is not None and latest_s > every_s * _MOST_LOOKS:
        problem = f"got {every_s:g}, and the jobs may take {format_duration(latest_s)}"
        fix = f"a virtual clock looks up to {_MOST_LOOKS:,} times; {math.ceil(latest_s / _MOST_LOOKS)} will do"
        raise DataError("terms.every_s", problem, fix)


def _hold(node: NodeState, gpus: int, now_s: float) -> tuple[float, float]:
    """Return the GPU-hours of a node from the beginning of its launch, and those of them before it was ready."""
    end_s = now_s if node.end_s is None else node.end_s
    ready_s = end_s if node.ready_s is None else node.ready_s
    launch_s = ready_s if node.launch_s is None else node.launch_s
    gpu_h = gpus / SECONDS_PER_HOUR
    return gpu_h * (end_s - launch_s), gpu_h * (ready_s - launch_s)


def _describe_class(name: str, jobs: Sequence[JobState], plan: BoaPlan) -> ClassOutcome:
    planned = [segment for segment in plan.segments if segment.unit == name]
    return ClassOutcome(
        job_class=name,
        jobs=len(jobs),
        completed=sum(job.is_over and not job.why_dropped for job in jobs),
        planned_jct_s=sum(each.share * each.expected.seconds for each in planned) if planned else None,
        actual_jct_s=_mean_jct(jobs),
        planned_gpu_hours=sum(each.share * each.expected.gpu_hours for each in planned) if planned else None,
        actual_gpu_hours=sum(job.gpu_s for job in jobs) / len(jobs) / SECONDS_PER_HOUR,
        widths=tuple(sorted({gpus for job in jobs for gpus in job.widths})),
    )


def _mean_jct(jobs: Sequence[JobState]) -> float | None:
    took_s = [job.ended_s - job.arrived_s for job in jobs if job.ended_s is not None and not job.why_dropped]
    return sum(took_s) / len(took_s) if took_s else None
