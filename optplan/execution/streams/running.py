"""``run_stream``: serve the jobs of a stream by a BOA plan's widths, in a folder from which it can be resumed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from optplan.contracts.plan import require_size, span
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.execution.executors import gather_settings, make_executor
from optplan.execution.journal import Beginning, Journal
from optplan.execution.loop import Listener, tell
from optplan.execution.online.jobs import Order, Rules
from optplan.execution.online.rows import Outlook
from optplan.execution.online.terms import Terms
from optplan.execution.online.width_table import WidthTable
from optplan.execution.options import require_effect, require_starter
from optplan.execution.protocol import Executor
from optplan.execution.records import Noted, Record
from optplan.execution.running import interruptible
from optplan.execution.step_limits import tell_step_limit
from optplan.execution.streams.arrivals import StreamJob, order_jobs
from optplan.execution.streams.driving import StreamDriver, StreamTerms
from optplan.execution.streams.expanders import ask_command, ask_ray
from optplan.execution.streams.learning import Learner, Reporter, ServiceReporter
from optplan.execution.streams.outcomes import StreamOutcome, describe_stream
from optplan.execution.streams.state import StreamState
from optplan.execution.trainables import name_trainable
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.schema import ByName, FrozenModel
from optplan.units import SECONDS_PER_HOUR, format_duration

_AtLeastOne = Annotated[int, Field(ge=1)]
_Amount = Annotated[float, Field(ge=0)]
_Limit = Annotated[float, Field(gt=0)]

_REAL = ("local", "command", "ray", "slurm")
#: Executors that look at an option; others refuse it.
_LOOKED_AT = {
    **dict.fromkeys(("train", "command", "metric", "retries", "grace_s"), _REAL),
    **dict.fromkeys(("orphan_after_s", "step_timeout_s"), _REAL),
    "launcher": ("local", "ray", "slurm"),
    "slots": ("local", "ray"),
    **dict.fromkeys(("address", "storage"), ("ray",)),
    "sbatch": ("slurm",),
    "gres": ("slurm",),
    "node_start_s": ("virtual",),
}
#: On the virtual clock: epochs of all jobs, and looks at the widths until the last job has come and could be over.
_MOST_EPOCHS = _MOST_LOOKS = 100_000


class StreamOptions(FrozenModel):
    """How a stream is served; stored with it, so that resuming needs nothing else.

    Parameters
    ----------
    executor
        Where its jobs run.
    train, command, folder, metric, launcher, address, storage
        As in :class:`~optplan.execution.running.RunOptions`; an iteration is an epoch.
    gpus_per_node
        By type of GPU; 1 where it is left out.
    most_gpus, quotas
        The most GPUs at a time, in all and by type. The local executor has ``slots`` at most.
    order
        Who comes first where jobs queue.
    slots
        GPUs or CPU slots of this machine, or of a Ray cluster that is made here.
    retries, grace_s, orphan_after_s, step_timeout_s
        As in :class:`~optplan.execution.running.RunOptions`.
    node_start_s
        On the virtual clock: seconds until a node can be used.
    scale_command
        Is run whenever the wanted nodes change, with ``OPTPLAN_NODES`` and ``OPTPLAN_GPU_TYPE`` for each type.
    sbatch, gres
        On Slurm: options of sbatch by their long name, and what a GPU is called in ``--gres``.
    table, inbox
        The file of a table that ``optplan serve`` publishes, which is followed, and the folder that it watches, which
        is told what jobs show.
    terms
        Of the calculator.
    """

    executor: Literal["virtual", "local", "command", "ray", "slurm"] = "virtual"
    train: str = ""
    command: str = ""
    folder: str = "."
    metric: str = "loss"
    launcher: Literal["single", "torchrun"] = "single"
    address: str = ""
    storage: str = ""
    gpus_per_node: ByName[_AtLeastOne] = Field(default_factory=dict)
    most_gpus: _AtLeastOne | None = None
    quotas: ByName[_AtLeastOne] = Field(default_factory=dict)
    order: Order = Order.FIRST_COME
    slots: _AtLeastOne | None = None
    retries: Annotated[int, Field(ge=0)] = 2
    grace_s: _Amount = 30.0
    orphan_after_s: _Limit = 600.0
    step_timeout_s: _Limit | None = None
    node_start_s: _Amount = 0.0
    scale_command: str = ""
    sbatch: ByName[str] = Field(default_factory=dict)
    gres: str = "gpu"
    table: str = ""
    inbox: str = ""
    terms: Terms = Terms()


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
    if trainable is not None:
        options["train"] = trainable if isinstance(trainable, str) else name_trainable(trainable)
    chosen = StreamOptions(**options)
    if chosen.train:
        chosen = chosen.replace(folder=str(Path(chosen.folder).resolve()))
    require_size(plan)
    _check(chosen, truth, instance, out)
    truth = truth or instance
    ordered = order_jobs(jobs)
    if chosen.executor == "virtual" and truth is not None:
        _require_known(ordered, truth, WidthTable.from_plan(plan))
        _require_an_end(ordered, truth, plan, None if instance is None else chosen.terms.every_s)
    if out is None:
        return _Stream(plan, ordered, instance, truth, chosen, None).run(listener)
    with Journal(Path(out)) as journal:
        if journal.beginning is not None:
            raise UsageError(f"{out}: a run is there; go on with --resume {out}, or give another folder")
        own = {
            "jobs": [job.to_json_data() for job in ordered],
            "instance": None if instance is None else instance.to_json_data(),
            "truth": None if truth is None else truth.to_json_data(),
        }
        records: list[Record] = []
        if chosen.executor != "virtual":
            records = [Noted(0.0, tell_step_limit(_list_epochs(plan), chosen.step_timeout_s))]
        journal.begin(Beginning("stream", plan.to_json_data(), chosen.to_json_data(), own), records)
        for record in records:
            tell(listener, record)
        return _Stream(plan, ordered, instance, truth, chosen, journal).run(listener)


def resume_stream(out: Path | str, *, listener: Listener | None = None) -> StreamOutcome:
    """Go on with a stream that was paused, or whose driver is gone.

    Raises
    ------
    UsageError
        When no stream is there, or another driver serves it.
    """
    with Journal(Path(out), begun=True) as journal:
        return _read(journal).run(listener, resumed=True)


def read_stream(out: Path | str) -> StreamOutcome:
    """Describe the stream in a folder, whether or not a driver serves it."""
    with Journal(Path(out), writable=False) as journal:
        return _read(journal).describe()


def _list_epochs(plan: BoaPlan) -> list[float]:
    """Return what epochs are planned to take."""
    segments = [segment for ways in plan.ways.values() for way in ways for segment in way]
    return [segment.expected.seconds / (end - first) for segment in segments for first, end in [span(segment)]]


def _read(journal: Journal) -> _Stream:
    beginning = journal.require("stream")
    plan = BoaPlan.parse(beginning.plan, path="plan")
    jobs = [StreamJob.parse(each, path="jobs") for each in beginning.own["jobs"]]
    instance, truth = (_parse_known(beginning.own[name]) for name in ("instance", "truth"))
    return _Stream(plan, jobs, instance, truth, StreamOptions.parse(beginning.options, path="options"), journal)


def _parse_known(data: Any) -> BoaInstance | None:  # noqa: ANN401 - plain data, as it was written
    return None if data is None else BoaInstance.parse(data, path="instance")


def _check(options: StreamOptions, truth: BoaInstance | None, instance: BoaInstance | None, out: object) -> None:
    require_effect(options, options.executor, _LOOKED_AT, {"slots": "most_gpus bounds the GPUs"})
    if options.inbox and not Path(options.inbox).is_dir():
        raise UsageError(f"inbox: there is no folder {options.inbox}; give the one that `optplan serve --inbox` names")
    if options.executor == "virtual":
        if truth is None and instance is None:
            what = "truth: on the virtual clock an instance says how long epochs take"
            raise UsageError(f"{what}; give one (--truth or --learn), or run the jobs (--executor)")
        return
    if truth is not None:
        raise UsageError(f"truth: executor {options.executor!r} shows how long epochs take; leave it out (--truth)")
    require_starter(options.executor, options.train, options.command)
    if bool(options.train) is bool(options.command) and options.executor != "command":
        raise UsageError(f"train: executor {options.executor!r} needs one thing to train; give --train or --command")
    if out is None:
        raise UsageError("out: a folder is needed for what the jobs write")


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


class _Stream:
    """What a stream is made from."""

    def __init__(
        self,
        plan: BoaPlan,
        jobs: Sequence[StreamJob],
        instance: BoaInstance | None,
        truth: BoaInstance | None,
        options: StreamOptions,
        journal: Journal | None,
    ) -> None:
        unknown = sorted(options.gpus_per_node.keys() - plan.resources.keys())
        if unknown:
            known = ", ".join(plan.resources)
            raise DataError(f"gpus_per_node.{unknown[0]}", "the plan has no such type", f"known types are {known}")
        self._plan, self._jobs, self._options, self._journal = plan, jobs, options, journal
        self._instance, self._truth = instance, truth
        self._sizes = {name: options.gpus_per_node.get(name, 1) for name in plan.resources}
        self._outlook = Outlook(plan)
        self._state = StreamState(WidthTable.from_plan(plan), self._outlook)
        for record in () if journal is None else journal.replay():
            self._state.apply(record)

    def describe(self) -> StreamOutcome:
        """Say how it stands."""
        virtual = self._options.executor == "virtual"
        return describe_stream(self._state, self._plan, self._sizes, virtual=virtual)

    def run(self, listener: Listener | None, *, resumed: bool = False) -> StreamOutcome:
        """Serve it."""
        if self._state.ended is not None:
            return self.describe()
        options = self._options
        limits = [each for each in (options.most_gpus, options.slots) if each is not None]
        terms = StreamTerms(
            rules=Rules(self._sizes, min(limits, default=None), options.quotas, options.order),
            epochs={unit.id: unit.epochs for unit in self._plan.units},
            outlook=self._outlook,
            retries=options.retries,
            grace_s=options.grace_s,
        )
        executor = self._make_executor()
        try:
            driver = StreamDriver(
                self._state,
                self._jobs,
                terms,
                executor,
                learner=self._make_reporter(),
                expander=self._make_expander(),
                journal=self._journal,
                listener=listener,
            )
            with interruptible(driver.interrupt, driver.leave):
                if resumed:
                    driver.resume()
                driver.follow()
        finally:
            executor.close()
        return self.describe()

    def _make_reporter(self) -> Reporter | None:
        options, folder = self._options, self._journal and self._journal.folder
        reporter: Reporter
        if options.table:
            inbox = Path(options.inbox) if options.inbox else None
            reporter = ServiceReporter(Path(options.table), inbox, folder.resolve().name if folder else "stream")
        elif self._instance is not None:
            reporter = Learner(self._instance, options.terms)
        else:
            return None
        reporter.recall(() if self._journal is None else self._journal.replay())
        return reporter

    def _make_expander(self) -> Callable[[Any], None] | None:
        if self._options.scale_command:
            return partial(ask_command, self._options.scale_command)
        if self._options.executor == "ray" and self._options.address:
            return partial(ask_ray, sizes=self._sizes)
        return None

    def _make_executor(self) -> Executor:
        options, now_s = self._options, self._state.t
        if options.executor == "virtual":
            from optplan.execution.streams.virtual import VirtualStreamExecutor

            assert self._truth is not None  # checked before
            return VirtualStreamExecutor(self._truth, node_start_s=options.node_start_s, now_s=now_s)
        assert self._journal is not None  # checked before
        if self._state.paused is None and self._state.nodes:  # a driver was killed: time went on
            now_s += self._journal.idle_s()
        settings = gather_settings(options, self._journal.folder)
        if options.executor == "ray":
            settings = replace(settings, slots=options.slots or sum(self._sizes.values()))
        return make_executor(options.executor, self._sizes, settings, now_s=now_s)
