"""``run_stream``: serve the jobs of a stream by a BOA plan's widths, in a folder from which it can be resumed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from optplan.contracts.plan import require_size, span
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.execution.executors import make_executor
from optplan.execution.folders import tell_step_limit
from optplan.execution.loop import Listener
from optplan.execution.online.jobs import Order, Rules
from optplan.execution.online.rows import RemainingTimes
from optplan.execution.online.terms import Terms
from optplan.execution.online.width_table import WidthTable
from optplan.execution.options import REAL, AtLeastOne, TrainingOptions
from optplan.execution.protocol import Executor
from optplan.execution.records import Noted, Record
from optplan.execution.runs import Run, name_training
from optplan.execution.streams.arrivals import StreamJob, order_jobs
from optplan.execution.streams.driver import StreamDriver, StreamTerms
from optplan.execution.streams.expanders import ask_command
from optplan.execution.streams.learning import Learner, Reporter, ServiceReporter
from optplan.execution.streams.outcomes import StreamOutcome, describe_stream
from optplan.execution.streams.state import StreamState
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.schema import ByName
from optplan.units import SECONDS_PER_HOUR, format_duration

#: On the virtual clock: epochs of all jobs, and looks at the widths until the last job has come and could be over.
_MOST_EPOCHS = _MOST_LOOKS = 100_000


class StreamOptions(TrainingOptions):
    """What streams take besides; an iteration is an epoch."""

    metric: str | None = "loss"
    gpus_per_node: ByName[AtLeastOne] = Field(default_factory=dict)  #: By type of GPU; 1 where it is left out.
    #: most_gpus, quotas: The most GPUs at a time, in all and by type. The local executor has ``slots`` at most.
    most_gpus: AtLeastOne | None = None
    quotas: ByName[AtLeastOne] = Field(default_factory=dict)
    order: Order = Order.FIRST_COME  #: Who comes first where jobs queue.
    #: Is run whenever the wanted nodes change, with ``OPTPLAN_NODES`` and ``OPTPLAN_GPU_TYPE`` for each type.
    scale_command: str = ""
    #: table, inbox: The file of a table that ``optplan serve`` publishes, which is followed, and the folder that it
    #: watches, which is told what jobs show.
    table: str = ""
    inbox: str = ""
    terms: Terms = Terms()  #: Of the calculator.

    LOOKED_AT: ClassVar[Mapping[str, Collection[str]]] = {
        **TrainingOptions.LOOKED_AT,
        **dict.fromkeys(("train", "metric"), REAL),
        "slots": ("local", "ray"),
    }
    FIXED: ClassVar[frozenset[str]] = TrainingOptions.FIXED | {"gpus_per_node"}


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
    if not stream.is_virtual:
        first.append(Noted(0.0, tell_step_limit(_list_epochs(plan), chosen.step_timeout_s)))
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
        self._jobs = [StreamJob.parse(each, path="jobs") for each in self.own["jobs"]]
        self._instance, truth = (
            None if self.own[name] is None else BoaInstance.parse(self.own[name], path=name)
            for name in ("instance", "truth")
        )
        self._truth = truth or self._instance

    def require(self) -> None:
        """Raise UsageError or DataError where plan, jobs and options do not fit together."""
        options = self.options
        if not self.is_virtual and self.own["truth"] is not None:
            what = f"executor {options.executor!r} shows how long epochs take"
            raise UsageError(f"truth: {what}; leave it out (--truth)")
        super().require()
        if options.inbox and not Path(options.inbox).is_dir():
            fix = "give the one that `optplan serve --inbox` names"
            raise UsageError(f"inbox: there is no folder {options.inbox}; {fix}")
        if not self.is_virtual:
            return
        if self._truth is None:
            what = "truth: on the virtual clock an instance says how long epochs take"
            raise UsageError(f"{what}; give one (--truth or --learn), or run the jobs (--executor)")
        _require_known(self._jobs, self._truth, WidthTable.from_plan(self.plan))
        every_s = None if self._instance is None else options.terms.every_s
        _require_an_end(self._jobs, self._truth, self.plan, every_s)

    def make_state(self) -> StreamState:
        """Return the state before the first record."""
        return StreamState(WidthTable.from_plan(self.plan), RemainingTimes(self.plan))

    def describe(self) -> StreamOutcome:
        """Say how it stands."""
        return describe_stream(self.state, self.plan, self._sizes, virtual=self.is_virtual)

    def _make_driver(self, executor: Executor, listener: Listener | None) -> StreamDriver:
        options = self.options
        limits = [each for each in (options.most_gpus, options.slots) if each is not None]
        rules = Rules(self._sizes, min(limits, default=None), options.quotas, options.order)
        terms = StreamTerms(
            rules=rules,
            epochs={unit.id: unit.epochs for unit in self.plan.units},
            remaining=self.state.remaining,
            retries=options.retries,
            grace_s=options.grace_s,
            metric=options.metric or "",
        )
        expander = partial(ask_command, options.scale_command) if options.scale_command else None
        own: dict[str, Any] = {"learner": self._make_reporter(rules), "expander": expander}
        return StreamDriver(self.state, self._jobs, terms, executor, journal=self.journal, listener=listener, **own)

    def _make_reporter(self, rules: Rules) -> Reporter | None:
        options, folder = self.options, self.journal and self.journal.folder
        reporter: Reporter
        if options.table:
            inbox = Path(options.inbox) if options.inbox else None
            reporter = ServiceReporter(
                Path(options.table), inbox, folder.resolve().name if folder else "stream", self._sizes
            )
        elif self._instance is not None:
            reporter = Learner(self._instance, options.terms, self._sizes, rules.most)
        else:
            return None
        reporter.recall(self.past)
        return reporter

    def _make_executor(self) -> Executor:
        options = self.options
        if self.is_virtual:
            from optplan.execution.streams.virtual import VirtualStreamExecutor

            assert self._truth is not None  # checked before
            return VirtualStreamExecutor(self._truth, now_s=self.state.t)
        own = {"slots": options.slots or sum(self._sizes.values())} if options.executor == "ray" else {}
        return make_executor(options.executor, self._sizes, self._gather_settings(**own), now_s=self._clock_s())


def _list_epochs(plan: BoaPlan) -> list[float]:
    """Return what epochs are planned to take."""
    segments = [segment for ways in plan.ways.values() for way in ways for segment in way]
    return [segment.expected.seconds / (end - first) for segment in segments for first, end in [span(segment)]]


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


def _require_an_end(jobs: Sequence[StreamJob], truth: BoaInstance, plan: BoaPlan, every_s: float | None) -> None:
    """Raise DataError where a virtual clock would be busy for minutes: too many epochs, or looks at the widths."""
    planned = {unit.id: unit.epochs for unit in plan.units}
    total, latest_s = 0, 0.0
    for job in jobs:
        epochs = job.epochs or planned.get(job.job_class, 1)
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
