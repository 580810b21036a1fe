"""A scheduler for Ray Tune that follows the plan of a search in an ordinary ``Tuner``.

Tune starts, stores and stops trials; what is decided is decided by the runtime's own scheduler
(:mod:`optplan.execution.scheduler`): who is in a stage, who is promoted, who waits for a turn. Here its decisions
become Tune's: a trial that has done its iterations is paused with a checkpoint, its resources are changed while it is
paused, and it goes on when Tune asks for a trial to run.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optplan.contracts.conditions import waits_for
from optplan.contracts.modes import Mode
from optplan.contracts.plan import Plan, UnitKind
from optplan.errors import MissingExtraError, UsageError
from optplan.execution import records as told
from optplan.execution.options import SearchOptions
from optplan.execution.protocol import Operation
from optplan.execution.running import RunOutcome, SearchRun
from optplan.execution.scheduler import Scheduler, list_trials
from optplan.execution.state import Phase
from optplan.execution.trainables import time_steps

try:
    from ray.tune import PlacementGroupFactory
    from ray.tune.experiment import Trial
    from ray.tune.result import TIME_THIS_ITER_S, TRAINING_ITERATION
    from ray.tune.schedulers import TrialScheduler
except ModuleNotFoundError:
    raise MissingExtraError("ray", "ray") from None


@dataclass
class _Turn:
    """A trial's operation: what its iterations took, and whether it ends as soon as Tune has paused it."""

    operation: Operation
    steps: list[float] = field(default_factory=list)
    start_s: float = 0.0  #: Until its first iteration.
    is_ending: bool = False


class PlanScheduler(TrialScheduler):
    """Follows the plan of a search in Ray Tune.

    Parameters
    ----------
    plan
        Of a search: RubberBand's or SEER's.
    per_gpu
        What Ray reserves for one GPU of the plan, such as ``{"CPU": 1}`` where trials run on CPUs; one GPU and one CPU
        by default.
    metric, mode
        By what trials are ranked; None takes those of ``TuneConfig``, or else the plan's.

    Raises
    ------
    MissingExtraError
        On import, when Ray is not installed.
    UsageError
        When the plan is not one of a search; later, when the ``Tuner`` adds more trials than the plan has, adds some
        after the first stage has begun, or restores an experiment.
    """

    _supports_buffered_results = False  # a trial must not run past its iterations

    def __init__(
        self,
        plan: Plan,
        *,
        per_gpu: Mapping[str, float] | None = None,
        metric: str | None = None,
        mode: Mode | str | None = None,
    ) -> None:
        if any(unit.kind is not UnitKind.TRIALS for unit in plan.units):
            kinds = ", ".join(sorted({str(unit.kind) for unit in plan.units}))
            raise UsageError(f"plan: its units are {kinds}; Ray Tune follows plans of searches (RubberBand, SEER)")
        super().__init__()
        self._plan = plan
        self._per_gpu = dict(per_gpu or {"CPU": 1, "GPU": 1})
        self._given = metric
        chosen = None if mode is None else Mode(mode)
        self._run = SearchRun(plan, SearchOptions(executor="ray", metric=metric, mode=chosen))
        self._metric = metric
        self._names = list_trials(plan)
        self._trials: dict[str, Trial] = {}
        self._by_id: dict[str, str] = {}
        self._state = self._run.state
        self._scheduler: Scheduler | None = None
        self._zero = 0.0
        self._to_start: deque[str] = deque()
        self._turns: dict[str, _Turn] = {}  # by trial

    @property
    def num_samples(self) -> int:
        """How many trials the plan has: what ``TuneConfig(num_samples=...)`` is to be."""
        return len(self._names)

    def outcome(self) -> RunOutcome:
        """Return what the search came to: planned beside actual, segment by segment."""
        return self._run.describe()

    # ------------------------------------------------------------------------------------------- what Tune tells

    def set_search_properties(self, metric: str | None, mode: str | None, **_: object) -> bool:
        """Take the ``Tuner``'s metric and mode; refused where the scheduler was given another metric of its own."""
        if self._given and metric and metric != self._given:
            return False
        options, rules = self._run.options, self._run.rules
        self._run.options = options.replace(metric=metric or rules.metric, mode=mode or rules.mode)
        self._metric = self._run.metric
        return True

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:  # noqa: ANN401, ARG002 - Tune's
        """Give a new trial the next place in the plan; it waits until its segment begins."""
        if trial.trial_id in self._by_id:
            return  # it has failed, and Tune starts it again
        if trial.status != Trial.PENDING or trial.has_checkpoint():
            raise UsageError(
                "Tuner: it restores an experiment, of which PlanScheduler knows no stages; "
                "`optplan run --executor ray` can be resumed"
            )
        if self._scheduler is not None:
            raise UsageError("Tuner: adds a trial after the first stage has begun; leave out max_concurrent_trials")
        if len(self._trials) == len(self._names):
            many = self.num_samples
            raise UsageError(f"Tuner: adds more than the plan's {many} trials; give TuneConfig(num_samples={many})")
        name = self._names[len(self._trials)]
        self._trials[name], self._by_id[trial.trial_id] = trial, name
        trial.set_status(Trial.PAUSED)  # Tune starts whatever is pending, at once and with the resources of its own

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: Mapping[str, Any]) -> str:  # noqa: ANN401, ARG002 - Tune's
        """Pause a trial that has done its iterations, or would end after its segment with another one."""
        turn = self._turns[self._by_id[trial.trial_id]]
        operation, now_s, took_s = turn.operation, self._now_s(), float(result.get(TIME_THIS_ITER_S, 0.0))
        if not turn.steps:
            turn.start_s = max(0.0, now_s - took_s - operation.wanted_s)
        turn.steps.append(took_s)
        is_done = operation.to_iterations is not None and result[TRAINING_ITERATION] >= operation.to_iterations
        is_rung = operation.until_s is not None and now_s + took_s >= operation.until_s
        if is_done or is_rung or self._state.operations[operation.id].phase is Phase.STOPPING:
            turn.is_ending = True
            return str(TrialScheduler.PAUSE)
        return str(TrialScheduler.CONTINUE)

    def on_trial_error(self, *_: object) -> None:
        """Wait for the next round, which sees that the trial has ended, or that Tune starts it again."""

    on_trial_complete = on_trial_remove = on_trial_error

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:  # noqa: ANN401 - Tune's
        """Take note of what has happened, decide, and return a trial that is to be started.

        Tune asks once in each of its rounds and starts the actor itself; while that takes its seconds the trial is
        pending. Only a trial that is still paused is returned: whoever goes on returning the pending one keeps the
        others of a stage from being started beside it.
        """
        if self._scheduler is None:
            self._begin()
        now_s = self._now_s()
        self._take_note(now_s)
        if self._decide(now_s):
            self._stop_losers(tune_controller)
        while self._to_start:
            trial = self._trials[self._to_start[0]]
            turn = self._turns.get(self._to_start[0])
            if turn is not None and trial.status == Trial.PAUSED:
                if self._holds_back(turn.operation):
                    return None
                trial.update_resources(self._reserve(turn.operation))
                return trial
            self._to_start.popleft()
        return None

    def debug_string(self) -> str:
        """Say which segments are open, and how many trials run in them."""
        opened = [self._state.segments[name] for name in sorted(self._state.open)]
        stages = [f"{each.segment.label or each.segment.id} ({len(each.running)} running)" for each in opened]
        return f"PlanScheduler: {'; '.join(stages) or 'no stage is open'}"

    # ------------------------------------------------------------------------------------------------- what it does

    def _now_s(self) -> float:
        return time.monotonic() - self._zero

    def _begin(self) -> None:
        self._zero = time.monotonic()
        self._state.apply(
            told.Began(0.0, {name: told.plain(dict(trial.config)) for name, trial in self._trials.items()})
        )
        self._scheduler = Scheduler(self._state, self._run.rules)

    def _take_note(self, now_s: float) -> None:
        for name, turn in list(self._turns.items()):
            trial = self._trials[name]
            if trial.status == Trial.ERROR:
                del self._turns[name]
                self._state.apply(told.OperationFailed(now_s, turn.operation.id, _read_error(trial), hopeless=True))
            elif trial.status == Trial.TERMINATED or (trial.status == Trial.PAUSED and turn.is_ending):
                self._end(name, now_s)

    def _end(self, name: str, now_s: float) -> None:
        """Take note that an operation has ended in good order: its work done, its time up, or nothing left to do."""
        turn, shown = self._turns.pop(name), self._trials[name].last_result or {}
        operation = turn.operation
        iterations = int(shown.get(TRAINING_ITERATION, operation.from_iterations))
        metrics = told.plain({key: shown[key] for key in (self._run.metric,) if key in shown})
        timings = time_steps(turn.steps) | ({"start_s": turn.start_s} if turn.steps else {})
        busy_s = now_s - operation.wanted_s
        self._state.apply(
            told.OperationEnded(now_s, operation.id, iterations, metrics, None, busy_s, complete=True, timings=timings)
        )

    def _decide(self, now_s: float) -> bool:
        """Let the runtime's scheduler decide until nothing follows any more; say whether a segment has ended."""
        assert self._scheduler is not None
        ended = False
        while decided := self._scheduler.decide(now_s):
            for record in decided:
                self._follow(record, now_s)
                ended = ended or isinstance(record, told.SegmentEnded)
            if any(isinstance(record, told.OperationWanted) for record in decided):
                waiting = (name for name in self._to_start if name in self._turns)
                self._to_start = deque(sorted(waiting, key=lambda name: -self._turns[name].operation.gpus))
        return ended

    def _follow(self, record: told.Record, now_s: float) -> None:
        match record:
            case told.NodeWanted():  # Ray finds the places itself; that a node is there is all that matters here
                self._state.apply(told.NodeChanged(now_s, record.node, Phase.READY))
            case told.NodeReleasing():
                self._state.apply(told.NodeChanged(now_s, record.node, Phase.RELEASED))
            case told.OperationWanted():
                self._turns[record.trial] = _Turn(self._state.operations[record.operation].operation)
                self._to_start.append(record.trial)
            case told.StopWanted():
                name = self._state.operations[record.operation].operation.trial
                if name in self._turns and self._trials[name].status == Trial.PAUSED:
                    self._end(name, now_s)  # its time was up before Tune had started it

    def _stop_losers(self, tune_controller: Any) -> None:  # noqa: ANN401 - Tune's
        state = self._state
        awaited = {
            other
            for each in state.segments.values()
            if each.phase is Phase.WAITING
            for other in waits_for(each.segment.enter)
        }
        wanted = {trial for name in awaited | state.open for trial in state.segments[name].members}
        for name, trial in self._trials.items():
            if trial.status == Trial.PAUSED and (state.ended is not None or name not in wanted):
                tune_controller.stop_trial(trial)

    def _holds_back(self, operation: Operation) -> bool:
        """Whether a wider trial has no GPUs yet: narrow ones would take a part of every node that it needs."""
        wider = (name for name, each in self._turns.items() if each.operation.gpus > operation.gpus)
        return any(self._trials[name].status == Trial.PENDING for name in wider)

    def _reserve(self, operation: Operation) -> PlacementGroupFactory:
        """Return what Ray is to reserve: a bundle for each node on which the trial has GPUs.

        A plan that counts GPUs one by one knows no nodes: there it is one bundle for all of them.
        """
        resource = self._plan.resources[self._state.segments[operation.segment].segment.resource]
        is_single = resource.gpus_per_node == 1 and not resource.instance_type
        gpus = [sum(operation.place.values())] if is_single else list(operation.place.values())
        bundles = [{what: many * each for what, many in self._per_gpu.items()} for each in gpus]
        return PlacementGroupFactory(bundles, strategy="PACK" if len(bundles) == 1 else "STRICT_SPREAD")


def _read_error(trial: Trial) -> str:
    """Return the last line of a trial's errors: of the driver's own file, which Tune copies to the storage later."""
    lines = Path(trial.error_file).read_text(encoding="utf-8").strip().splitlines() if trial.error_file else []
    return lines[-1] if lines else "failed"
