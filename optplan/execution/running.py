"""``run``: follow a plan of a search or of one job on an executor, in a folder from which it can be resumed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from optplan.contracts.plan import Plan, UnitKind, require_size
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.execution.driver import Driver
from optplan.execution.executors import make_executor
from optplan.execution.folders import tell_step_limit
from optplan.execution.loop import Listener
from optplan.execution.options import SearchOptions, make_limits, make_rules
from optplan.execution.outcomes import RunOutcome, describe
from optplan.execution.protocol import Executor
from optplan.execution.records import Began, Noted, Record
from optplan.execution.replanning import Replanner
from optplan.execution.runs import Run, name_training
from optplan.execution.scheduler import Rules, list_trials
from optplan.execution.spaces import draw_configurations
from optplan.execution.state import State


def run(
    plan: Plan,
    trainable: object = None,
    *,
    space: object = None,
    out: Path | str | None = None,
    listener: Listener | None = None,
    **options: Any,  # noqa: ANN401 - the fields of SearchOptions
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
        Fields of :class:`SearchOptions`.

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
    chosen = SearchOptions(**name_training(options, trainable))
    _require_followable(plan)
    require_size(plan)
    followed = SearchRun(plan, chosen)
    followed.require()
    first: list[Record] = [Began(0.0, draw_configurations(plan, list_trials(plan), space, chosen.seed))]
    if not followed.is_virtual:
        if chosen.step_wait_s > 0:
            waits = f"every iteration waits until {chosen.step_wait_s:g} s are over, however quick this machine is"
            first.append(Noted(0.0, waits))
        planned = [segment.expected.iteration_s for segment in plan.segments]
        first.append(Noted(0.0, tell_step_limit(planned, chosen.step_timeout_s)))
    return followed.begin(out, listener, first)


class SearchRun(Run[Plan, SearchOptions, State, RunOutcome]):
    """A run of a search, or of one job."""

    kind = "search"
    options_type = SearchOptions

    @property
    def rules(self) -> Rules:
        """What holds for the whole run."""
        return make_rules(self.plan, self.options)

    def make_state(self) -> State:
        """Return the state before the first record."""
        return State(self.plan)

    def describe(self) -> RunOutcome:
        """Say how it stands."""
        return describe(self.state, self.rules)

    def _make_driver(self, executor: Executor, listener: Listener | None) -> Driver:
        return Driver(
            self.state,
            self.rules,
            executor,
            journal=self.journal,
            limits=make_limits(self.plan, self.options),
            replanner=self._make_replanner(),
            listener=listener,
        )

    def _make_executor(self) -> Executor:
        plan, options = self.state.plan, self.options
        if self.is_virtual:
            return self._make_virtual(plan)
        own: dict[str, Any] = {"metric": self.rules.metric}
        if options.executor == "ray":
            own["slots"] = options.slots or _count_slots(plan)
        if options.executor == "local":
            _require_slots(plan, _count_gpus(options), "this machine")
        else:
            _require_room(plan, options)
        gpus = {name: resource.gpus_per_node for name, resource in plan.resources.items()}
        return make_executor(options.executor, gpus, self._gather_settings(**own), now_s=self._clock_s())

    def _make_virtual(self, plan: Plan) -> Executor:
        from optplan.execution.virtual import Reality, Rehearsal, VirtualExecutor

        options, training = self.options, None
        if options.train:
            root = Path(self._held.enter_context(TemporaryDirectory())) if self.journal is None else self.journal.folder
            training = Rehearsal(plan, options.train, Path(options.folder), root)
        reality = Reality(options.slower, options.dearer, _retime)
        return VirtualExecutor(
            plan,
            seed=options.seed,
            lucky=options.lucky,
            training=training,
            now_s=self.state.t,
            reality=reality,
        )

    def _make_replanner(self) -> Replanner | None:
        options, require = self.options, None
        if options.replan_above is None:
            return None
        own = {"deadline": options.deadline_s, "budget": options.budget_usd, "gpus": _count_gpus(options)}
        limits = {name: amount for name, amount in own.items() if amount is not None}
        if options.executor not in ("virtual", "local"):
            slots = _count_slots(self.state.plan) if options.executor == "ray" else None
            require = partial(_require_room, options=options.replace(slots=options.slots or slots))
        return Replanner(self.state, above=options.replan_above, limits=limits, require=require)


def _retime(plan: Plan) -> Plan:
    """Return a plan with the times of the instance that the run's first plan was made from."""
    from optplan.formulations import formulation_of
    from optplan.instances.parsing import parse_instance

    instance = parse_instance(plan.instance, path="plan.instance")
    return formulation_of(instance).retime(instance, plan)


def _count_gpus(options: SearchOptions) -> int | None:
    """Return the GPUs, or slots, that there are; None where there are as many as are asked for."""
    if options.executor != "local" or options.slots is not None:
        return options.slots
    from optplan.execution.local import list_devices

    return len(list_devices()) or None


def _require_room(plan: Plan, options: SearchOptions) -> None:
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
    if not options.address:
        _require_slots(plan, options.slots, "the cluster made here")


def _require_slots(plan: Plan, slots: int | None, where: str) -> None:
    wanted = _count_slots(plan)
    if slots is not None and wanted > slots:
        raise UsageError(f"slots: {wanted} GPUs are wanted at a time; {where} has {slots} that may be used")


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
    for segment in plan.segments:
        gpus = segment.nodes * plan.resources[segment.resource].gpus_per_node
        if plan.units[0].kind is not UnitKind.FLEET_GROUP and segment.gpus > gpus:
            problem = f"a member has {segment.gpus} GPUs, and the segment's nodes {gpus}"
            raise DataError(f"segments.{segment.id}.workers", problem, "give it more nodes, or make the plan anew")
