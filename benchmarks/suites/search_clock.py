"""A hyperparameter search on a virtual clock: trials follow recorded learning curves and hold GPUs while they train.

A policy starts and stops trials and waits for the next one that reaches its mark. Time is in minutes, training in
epochs: a trial on p GPUs passes lambda(p) / epoch_min epochs a minute, where lambda is the speedup over one GPU (SEER,
section 4, writes it that way). Curves are those of one GPU and a fixed batch, so that GPUs change the pace only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from optplan.errors import InfeasibleError, UsageError
from optplan.execution.progress import VirtualClock
from optplan.schema import FloatArray

#: Relative tolerance of times and of completed epochs: sums of thousands of steps are off by less.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class SearchSetting:
    """What a search has, and what its trials would do.

    Raises
    ------
    UsageError
        When a number is out of its range.
    """

    #: (C, E) What validation shows of each configuration after each epoch; more is better, NaN for a failed one.
    values: FloatArray
    scaling: Callable[[int], float]  #: Speedup of a trial on so many GPUs over one GPU.
    deadline_min: float  #: When the search ends.
    budget_gpu_min: float  #: GPU-minutes that it may take.
    epoch_min: float = 1.0  #: Minutes of an epoch on one GPU.
    #: Minutes without progress whenever a trial goes on after a pause, or with another number of GPUs.
    resize_min: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("deadline_min", "budget_gpu_min", "epoch_min"):
            amount = getattr(self, name)
            if not (math.isfinite(amount) and amount > 0):
                raise UsageError(f"{name}: got {amount!r}; a finite number above zero is needed")
        if not (math.isfinite(self.resize_min) and self.resize_min >= 0):
            raise UsageError(f"resize_min: got {self.resize_min!r}; a finite number from zero on is needed")
        if self.values.ndim != 2 or not self.values.size:
            raise UsageError(f"values: got an array of shape {self.values.shape}; configurations by epochs are needed")

    @property
    def cluster_gpus(self) -> int:
        """GPUs that the budget pays from the start to the deadline: what a fixed cluster has, one at least."""
        gpus = math.floor(self.budget_gpu_min / self.deadline_min * (1 + TOLERANCE))
        if gpus < 1:
            message = f"{self.budget_gpu_min:g} GPU-minutes do not pay one GPU for {self.deadline_min:g} min"
            raise InfeasibleError(f"{message}; raise the budget to {self.deadline_min:g} GPU-minutes")
        return gpus

    @property
    def most_epochs(self) -> float:
        """Epochs that one GPU passes until the deadline."""
        return self.deadline_min / self.epoch_min

    def draw(self, rng: np.random.Generator) -> Iterator[int]:
        """Yield configurations in random order, each once: sampling without replacement ends with the search space."""
        yield from rng.permutation(len(self.values)).tolist()


@dataclass(slots=True)
class Trial:
    """One configuration being tried."""

    number: int  # by which it was started, from 0
    configuration: int  # row of the curves
    epochs: float = 0.0  # passed so far; a fraction of the last one counts for training, not for what validation shows
    gpus: int = 0  # held now; 0 while it does not train
    #: When training last started or stopped, the pause included; and which event is the one that counts.
    since_min: float = 0.0
    begins_min: float = 0.0
    ends_min: float = -1.0
    last_gpus: int = 0
    ticket: int = -1
    until_epochs: float | None = None


@dataclass(frozen=True)
class Stretch:
    """Some GPUs held by a trial for some time, for pictures and for the bill."""

    trial: int
    gpus: int
    start_min: float
    stop_min: float


@dataclass(frozen=True)
class SearchOutcome:
    """What a search came to."""

    value: float  #: What validation shows of the trial that it returns; NaN where no trial has completed an epoch.
    configuration: int  #: That trial's; -1 where there is none.
    epochs: float  #: That trial's.
    configurations: tuple[int, ...]  #: (trials,) Those tried, in the order in which they were started.
    spent_gpu_min: float  #: GPU-minutes taken; a fixed cluster takes all of them, busy or idle.
    minutes: float  #: When the last trial stopped.
    held: bool  #: Whether the trial returned was trained beyond the end of its curve, whose last value was held.
    stretches: tuple[Stretch, ...] = field(repr=False, default=())  #: Who held which GPUs when.

    @property
    def trials(self) -> int:
        """How many were started."""
        return len(self.configurations)


class SearchClock:
    """Trains trials on a virtual clock until the deadline."""

    def __init__(self, setting: SearchSetting) -> None:
        self.setting = setting
        self.trials: list[Trial] = []
        self.spent_gpu_min = 0.0
        self.stretches: list[Stretch] = []
        self._clock: VirtualClock[Trial] = VirtualClock()
        self._stop_min = setting.deadline_min * (1 + TOLERANCE)
        self._pace: dict[int, float] = {}

    @property
    def now_min(self) -> float:
        """What the clock shows."""
        return self._clock.now

    @property
    def left_min(self) -> float:
        """Minutes left until the deadline."""
        return self.setting.deadline_min - self.now_min

    def pace(self, gpus: int) -> float:
        """Return epochs a minute on so many GPUs."""
        if gpus not in self._pace:
            self._pace[gpus] = self.setting.scaling(gpus) / self.setting.epoch_min
        return self._pace[gpus]

    def add(self, configuration: int) -> Trial:
        """Start a trial; it holds nothing until it trains."""
        trial = Trial(len(self.trials), configuration)
        self.trials.append(trial)
        return trial

    def train(
        self,
        trial: Trial,
        gpus: int,
        *,
        epochs: float | None = None,
        minutes: float | None = None,
        pause_min: float | None = None,
    ) -> None:
        """Let a trial hold GPUs and train, until it has passed so many epochs in all, or for so many minutes.

        Minutes include the pause at first, which, where it is not given, is that of a resize, if it is one.
        """
        if pause_min is None:
            goes_on = trial.last_gpus == gpus and trial.ends_min == self.now_min
            pause_min = 0.0 if trial.last_gpus == 0 or goes_on else self.setting.resize_min
        trial.gpus = trial.last_gpus = gpus
        trial.since_min, trial.begins_min = self.now_min, self.now_min + pause_min
        trial.until_epochs = epochs
        if epochs is not None:
            end = trial.begins_min + max(0.0, epochs - trial.epochs) / self.pace(gpus)
        else:
            end = self.now_min + (minutes or 0.0)
        trial.ticket = self._clock.schedule(end, trial)

    def wait(self) -> Trial | None:
        """Move the clock to the next trial that reaches its mark, and stop it; None when the deadline comes first."""
        trial = self._clock.advance(self._stop_min)
        if trial is None:
            return None
        self._clock.now = min(self._clock.now, self.setting.deadline_min)
        self.stop(trial)
        if trial.until_epochs is not None:
            trial.epochs = max(trial.epochs, trial.until_epochs)
        return trial

    def wait_all(self) -> None:
        """Move the clock until nothing trains any more, or the deadline comes."""
        while self.wait() is not None:
            pass

    def stop(self, trial: Trial) -> None:
        """Let a trial give back its GPUs now; what it has passed stays."""
        if trial.gpus == 0:
            return
        trial.epochs += max(0.0, self.now_min - trial.begins_min) * self.pace(trial.gpus)
        self.spent_gpu_min += trial.gpus * (self.now_min - trial.since_min)
        if self.now_min > trial.since_min:
            self.stretches.append(Stretch(trial.number, trial.gpus, trial.since_min, self.now_min))
        self._clock.cancel(trial.ticket)
        trial.gpus, trial.ends_min, trial.ticket = 0, self.now_min, -1

    def value(self, trial: Trial) -> float:
        """Return what validation shows of a trial: after the last epoch that it completed, NaN before the first."""
        completed = math.floor(trial.epochs * (1 + TOLERANCE) + TOLERANCE)
        row = self.setting.values[trial.configuration]
        return float(row[min(completed, row.size) - 1]) if completed else math.nan

    def finish(self, *, cluster_gpus: int | None = None, best: Trial | None = None) -> SearchOutcome:
        """Stop everything that trains at the deadline and return the best trial, unless the search says which.

        A fixed cluster is paid for until the deadline.
        """
        training = [trial for trial in self.trials if trial.gpus]
        if training:
            self._clock.now = self.setting.deadline_min
        for trial in training:
            self.stop(trial)
        spent = self.spent_gpu_min if cluster_gpus is None else cluster_gpus * self.setting.deadline_min
        best = best or self.best(self.trials)
        return SearchOutcome(
            value=math.nan if best is None else self.value(best),
            configuration=-1 if best is None else best.configuration,
            epochs=0.0 if best is None else best.epochs,
            configurations=tuple(trial.configuration for trial in self.trials),
            spent_gpu_min=spent,
            minutes=self.now_min,
            held=best is not None and best.epochs > self.setting.values.shape[1] * (1 + TOLERANCE),
            stretches=tuple(self.stretches),
        )

    def best(self, trials: list[Trial]) -> Trial | None:
        """Return the trial of which validation shows most; of equal ones the first started."""
        return max(trials, key=self.merit, default=None)

    def merit(self, trial: Trial) -> tuple[float, int]:
        """Return what trials are ranked by, more first: a failed one, or one without an epoch, is worst."""
        value = self.value(trial)
        return (-math.inf if math.isnan(value) else value, -trial.number)
