"""``run``: follow a plan on an executor, in a folder from which it can be resumed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from optplan.contracts.plan import Plan, UnitKind, require_size
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.execution.driver import Driver
from optplan.execution.executors import gather_settings, make_executor
from optplan.execution.journal import Beginning, Journal
from optplan.execution.loop import Listener, tell
from optplan.execution.options import RunOptions, make_limits, make_rules, require_training
from optplan.execution.outcomes import RunOutcome, describe
from optplan.execution.protocol import Executor
from optplan.execution.records import Began, Noted, Record, Resumed
from optplan.execution.replanning import Replanner
from optplan.execution.scheduler import Rules, list_trials
from optplan.execution.spaces import draw_configurations
from optplan.execution.state import State
from optplan.execution.step_limits import tell_step_limit
from optplan.execution.trainables import name_trainable

#: What asks a run to pause, and what is added to its number for the exit code.
_SIGNALS, _EXIT_OFFSET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP), 128


def run(
    plan: Plan,
    trainable: object = None,
    *,
    space: object = None,
    out: Path | str | None = None,
    listener: Listener | None = None,
    **options: Any,  # noqa: ANN401 - the fields of RunOptions
) -> RunOutcome:
    """Follow a plan to its end.

    Parameters
    ----------
    plan
        Of a search, or of one job.
    trainable
        A class or generator function at the top level of a module, or where to import it (``module:name``).
    space
        What configurations are drawn from (:mod:`optplan.execution.spaces`); None takes the plan's own, or none.
    out
        Folder of the run; needed where processes are started, and to resume.
    listener
        Is told of every record.
    **options
        Fields of :class:`RunOptions`.

    Returns
    -------
    RunOutcome
        Also when the run is paused, at a limit or by an interruption.

    Raises
    ------
    UsageError
        When the plan is one of streams, the folder holds another run, or options do not fit.
    DataError
        When the space or an option is not understood, or the plan is too large to be followed.
    OutputError
        When the folder cannot be written.
    """
    if trainable is not None:
        options["train"] = trainable if isinstance(trainable, str) else name_trainable(trainable)
    chosen = RunOptions(**options)
    _require_followable(plan)
    require_size(plan)
    require_training(chosen)
    configurations = draw_configurations(plan, list_trials(plan), space, chosen.seed)
    records: list[Record] = [Began(0.0, configurations)]
    if chosen.step_wait_s > 0 and chosen.executor != "virtual":
        waits = f"every iteration waits until {chosen.step_wait_s:g} s are over, however quick this machine is"
        records.append(Noted(0.0, waits))
    if chosen.executor != "virtual":
        planned = [segment.expected.iteration_s for segment in plan.segments]
        records.append(Noted(0.0, tell_step_limit(planned, chosen.step_timeout_s)))
    if chosen.train:
        chosen = chosen.replace(folder=str(Path(chosen.folder).resolve()))
    if out is None:
        return _follow(plan, chosen, None, records, listener=listener)
    with Journal(Path(out)) as journal:
        _require_empty(journal, plan, Path(out))
        # Fields that are None are left out, and this one is something else by default.
        kept = chosen.to_json_data() | {"replan_above": chosen.replan_above}
        journal.begin(Beginning("search", plan.to_json_data(), kept, {}), records)
        return _follow(plan, chosen, journal, records, listener=listener)


def resume(out: Path | str, *, listener: Listener | None = None, **changes: Any) -> RunOutcome:  # noqa: ANN401 - fields
    """Go on with a run that was paused, or whose driver is gone.

    Parameters
    ----------
    out
        Its folder.
    listener
        Is told of every record from now on.
    **changes
        Fields of :class:`RunOptions` that are others from now on: ``budget_usd``, ``deadline_s``, ``node_wait_s``,
        ``slots``, ``retries``, ``replan_above``, ``orphan_after_s``, ``step_timeout_s``.

    Raises
    ------
    UsageError
        When no run is there, another driver follows it, or an option means nothing to its executor.
    DataError
        When its journal is damaged.
    """
    with Journal(Path(out), begun=True) as journal:
        plan, options, records = _read(journal)
        chosen = options.replace(**changes)
        require_training(chosen)
        known = chosen.to_json_data()
        changed = {name: known.get(name) for name in changes}  # what is None is left out there
        return _follow(plan, chosen, journal, records, changed=changed, listener=listener)


def read_run(out: Path | str) -> tuple[State, Rules, RunOptions]:
    """Read the state of a run from its journal, whether or not a driver follows it.

    Raises
    ------
    UsageError
        When no run is there.
    DataError
        When its journal is damaged.
    """
    with Journal(Path(out), writable=False) as journal:
        plan, options, records = _read(journal)
        state = State(plan)
        for record in records:
            state.apply(record)
        return state, make_rules(plan, options), options


def _follow(
    plan: Plan,
    options: RunOptions,
    journal: Journal | None,
    records: Sequence[Record],
    *,
    changed: Mapping[str, Any] | None = None,
    listener: Listener | None,
) -> RunOutcome:
    state, rules = State(plan), make_rules(plan, options)
    for record in records:
        state.apply(record)
        if changed is None:
            tell(listener, record)
    if state.ended is not None:
        return describe(state, rules)
    with TemporaryDirectory() as scratch:
        executor = _make_executor(state.plan, options, rules, state, journal, Path(scratch))
        try:
            limits = make_limits(plan, options)
            replanner = _make_replanner(state, options)
            driver = Driver(
                state, rules, executor, journal=journal, limits=limits, replanner=replanner, listener=listener
            )
            with interruptible(driver.interrupt, driver.leave):
                if changed is not None:
                    driver.resume(changed)
                driver.follow()
        finally:
            executor.close()
    return describe(state, rules)


def _make_executor(
    plan: Plan, options: RunOptions, rules: Rules, state: State, journal: Journal | None, scratch: Path
) -> Executor:
    if options.executor == "virtual":
        from optplan.execution.rehearsal import Rehearsal
        from optplan.execution.virtual import Reality, VirtualExecutor

        training = None
        if options.train:
            root = scratch if journal is None else journal.folder
            training = Rehearsal(plan, options.train, Path(options.folder), root)
        return VirtualExecutor(
            plan,
            seed=options.seed,
            lucky=options.lucky,
            training=training,
            now_s=state.t,
            reality=Reality(options.slower, options.dearer, _retime),
        )
    if journal is None:
        raise UsageError("out: a folder is needed for what the trials write")
    now_s = state.t
    if state.paused is None and state.nodes:  # a driver was killed: time went on, by a clock that may be set back
        now_s += journal.idle_s()
    settings = replace(gather_settings(options, journal.folder), metric=rules.metric)
    if options.executor == "ray":
        settings = replace(settings, slots=options.slots or _count_slots(plan))
    if options.executor != "local":
        _require_room(plan, options)
    gpus = {name: resource.gpus_per_node for name, resource in plan.resources.items()}
    return make_executor(options.executor, gpus, settings, now_s=now_s)


def _retime(plan: Plan) -> Plan:
    """Return a plan with the times of the instance that the run's first plan was made from."""
    from optplan.formulations import formulation_of
    from optplan.instances.parsing import parse_instance

    instance = parse_instance(plan.instance, path="plan.instance")
    return formulation_of(instance).retime(instance, plan)


def _count_gpus(options: RunOptions) -> int | None:
    """Return the GPUs, or slots, that there are; None where there are as many as are asked for."""
    if options.executor != "local" or options.slots is not None:
        return options.slots
    from optplan.execution.local import list_devices

    return len(list_devices()) or None


def _make_replanner(state: State, options: RunOptions) -> Replanner | None:
    if options.replan_above is None:
        return None
    own = {"deadline": options.deadline_s, "budget": options.budget_usd, "gpus": _count_gpus(options)}
    limits = {name: amount for name, amount in own.items() if amount is not None}
    require = None
    if options.executor not in ("virtual", "local"):
        slots = _count_slots(state.plan) if options.executor == "ray" else None
        require = partial(_require_room, options=options.replace(slots=options.slots or slots))
    return Replanner(state, above=options.replan_above, limits=limits, require=require)


def _require_room(plan: Plan, options: RunOptions) -> None:
    """Refuse plans for which a cluster has no room, or in which one process has GPUs on several machines."""
    for name in options.setup.nodes.keys() - plan.resources.keys():
        raise UsageError(f"setup.nodes: the plan has no resource {name!r}; {nearest_name_hint(name, plan.resources)}")
    for segment in plan.segments:
        gpus = plan.resources[segment.resource].gpus_per_node
        if segment.gpus > gpus and options.launcher == "single":
            what = f"{segment.label or segment.id} has {segment.gpus} GPUs for a trial, on nodes of {gpus}"
            if options.executor == "command":
                raise UsageError(f"executor: {what}; use --executor slurm or ray with --launcher torchrun")
            raise UsageError(f"launcher: {what}; give --launcher torchrun, which makes a process for each worker")
    wanted, slots = _count_slots(plan), options.slots
    if not options.address and slots is not None and wanted > slots:
        raise UsageError(f"slots: {wanted} GPUs are wanted at a time; the cluster made here has {slots}")


def _count_slots(plan: Plan) -> int:
    """Return the most GPUs that a plan's nodes have together."""
    most: dict[str, int] = {}
    for segment in plan.segments:
        gpus = segment.nodes * plan.resources[segment.resource].gpus_per_node
        most[segment.pool] = max(most.get(segment.pool, 0), gpus)
    return sum(most.values())


def _require_followable(plan: Plan) -> None:
    if any(unit.kind is UnitKind.JOB_CLASS for unit in plan.units):
        raise UsageError(
            "plan: it is one of streams of jobs; `optplan run PLAN JOBS` serves jobs by it as they arrive, and this "
            "function follows searches and single jobs"
        )
    if not plan.segments:
        raise DataError("plan.segments", "has none, so that nothing would run", "make the plan anew")


def _require_empty(journal: Journal, plan: Plan, out: Path) -> None:
    if journal.beginning is None:
        return
    followed = journal.require("search").plan["plan_id"]
    if followed == plan.plan_id:
        raise UsageError(f"{out}: a run of this plan is there; go on with --resume {out}, or give another folder")
    raise UsageError(f"{out}: holds the run of another plan ({followed[:12]}...); give another folder")


def _read(journal: Journal) -> tuple[Plan, RunOptions, list[Record]]:
    """Return what a run follows, with the options that hold now, and its records."""
    from optplan.instances.parsing import parse_plan

    beginning, records = journal.require("search"), list(journal.replay())
    known = dict(beginning.options)
    for record in records:
        if isinstance(record, Resumed):
            known |= record.options
    return parse_plan(beginning.plan, path="plan"), RunOptions.parse(known, path="options"), records


@contextmanager
def interruptible(interrupt: Callable[[int], None], leave: Callable[[], None] | None = None) -> Iterator[None]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into a request: the loop stores everything and pauses. A second one ends it.

    Parameters
    ----------
    interrupt
        Is called with the exit code that is due.
    leave
        Is called when the loop is ended at once; None calls nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    terminals = [number for number in range(3) if os.isatty(number)]
    asked = False

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if number == signal.SIGHUP:  # nobody reads there any more, and writing would fail
            for terminal in terminals:
                os.dup2(nowhere, terminal)
        if asked:
            raise KeyboardInterrupt
        asked = True
        interrupt(_EXIT_OFFSET + number)

    nowhere = os.open(os.devnull, os.O_RDWR)
    # Who has started this process so that it survives a hang-up, as nohup does, means it.
    heeded = [each for each in _SIGNALS if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, handle) for each in heeded}
    try:
        yield
    except KeyboardInterrupt:
        if leave is not None:
            leave()
        raise
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        os.close(nowhere)
