"""What is believed of trials before a search: their learning curves, how they scale, and how noisy rankings are.

A trial that has held p GPUs for some minutes has trained as long as one GPU does in lambda(p) times as many; its loss
depends on the sum of these only (section 4 of the paper: ``l(x, lambda(p) t)``). A *curve* is the loss by minutes on
one GPU. A prior is a distribution of curves, from which the trials of a search are drawn independently of one another:

``parametric``
    ``loss(t) = end + (start - end) d(rate t)`` with ``d(z) = exp(-z)`` (exponential) or ``(1 + z)^-exponent`` (power).
    The terminal loss ``end`` has the distribution function ``F(y) = ((y - low)/(high - low))^shape``, the rate is
    log-uniform, and the two may be correlated.
``table``
    Past runs, each as likely as any other; linear between the epochs that it has, and held after the last one. Where
    they are of several tasks, a search meets one of these, as its trials will be of one task, too; and it may learn
    faster or slower than they did, at one pace for all of its trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from optplan.errors import DataError
from optplan.quantities import PositiveMinutes, require_range
from optplan.schema import (
    LARGEST_AMOUNT,
    NUMBER,
    AmountOrZero,
    FloatArray,
    FrozenModel,
    IntArray,
    Numbers,
    PositiveAmount,
    WholeNumbers,
    freeze,
    require_amounts,
)

#: Samples that the search may be judged by, at least and at most.
_LEAST_SAMPLES, _MOST_SAMPLES = 10, 100_000

#: Multiples of it, less their whole parts, are spread evenly however many there are.
_GOLDEN_SHARE = (math.sqrt(5.0) - 1.0) / 2.0

#: A loss, or anything that is measured like one.
Loss = Annotated[float, NUMBER, AfterValidator(require_range)]

_Samples = Annotated[int, Field(ge=_LEAST_SAMPLES, le=_MOST_SAMPLES, strict=True)]
_Speedups = Annotated[Numbers, AfterValidator(require_amounts)]


class TrialScaling(FrozenModel):
    """How much faster a trial trains on several GPUs than on one: lambda(p)."""

    gpus: WholeNumbers  # (W,) ascending from 1
    speedup: _Speedups  # (W,) over one GPU; linear between, and further GPUs than the last bring nothing

    @model_validator(mode="after")
    def _check(self) -> TrialScaling:
        gpus = self.gpus
        if gpus.ndim != 1 or not gpus.size or gpus[0] != 1 or (np.diff(gpus) <= 0).any():
            raise DataError("gpus", f"got {gpus.tolist()}", "list each number once, ascending from 1")
        if self.speedup.shape != gpus.shape:
            problem = f"{self.speedup.size} values for {gpus.size} numbers of GPUs"
            raise DataError("speedup", problem, "give one for each")
        if self.speedup[0] != 1.0:
            problem = f"got {float(self.speedup[0])!r} for one GPU; 1 is needed"
            raise DataError("speedup", problem, "divide all by that of one GPU")
        return self

    def of(self, gpus: float) -> float:
        """Return lambda(p) for any number of GPUs from 1 on."""
        return float(np.interp(gpus, self.gpus, self.speedup))


class CurveShape(StrEnum):
    """How a parametric curve falls."""

    EXPONENTIAL = "exponential"
    POWER = "power"


class _Prior(FrozenModel):
    """What all priors say."""

    start_loss: Loss  # of a model that has not been trained
    scaling: TrialScaling  # lambda(p)
    #: Deviation of the normal error in every ranking; of a search the true loss of the best-looking trial counts.
    ranking_noise_loss: AmountOrZero = 0.0
    samples: _Samples = 10_000  # searches by which a plan is judged
    choice_samples: _Samples = 2_000  # those, others, by which it is chosen
    samples_seed: Annotated[int, Field(ge=0, strict=True)] = 0  # part of the instance: the objective depends on it


class ParametricPrior(_Prior):
    """Curves of one form with random ends and rates."""

    form: Literal["parametric"] = "parametric"
    #: terminal_low_loss, terminal_high_loss, terminal_shape: The terminal loss has F(y) = ((y - low)/(high -
    #: low))^shape: 1 is uniform; the larger, the rarer are good ones.
    terminal_low_loss: Loss
    terminal_high_loss: Loss
    terminal_shape: PositiveAmount = 1.0
    #: rate_low_per_min, rate_high_per_min: The rate, per minute on one GPU, is log-uniform between them.
    rate_low_per_min: PositiveAmount
    rate_high_per_min: PositiveAmount
    #: curve, exponent: How the loss falls; the exponent belongs to ``power``.
    curve: CurveShape = CurveShape.EXPONENTIAL
    exponent: PositiveAmount | None = None
    #: Spearman's, of terminal loss and rate, from -1 to 1. Above zero those that learn fast end high: then it pays to
    #: be patient. With its absolute value as probability the two ranks are equal (below zero: opposite), otherwise
    #: independent.
    rank_correlation: Annotated[float, Field(ge=-1, le=1), NUMBER] = 0.0

    @model_validator(mode="after")
    def _check(self) -> ParametricPrior:
        low, high = self.terminal_low_loss, self.terminal_high_loss
        if not low < high:
            raise DataError("terminal_low_loss", f"got {low!r}, not below terminal_high_loss ({high!r})", "lower it")
        if self.start_loss < high:
            problem = f"got {self.start_loss!r}, less than terminal_high_loss ({high!r})"
            raise DataError("start_loss", problem, "losses fall from it to the terminal ones: raise it")
        if self.rate_low_per_min > self.rate_high_per_min:
            problem = f"got {self.rate_low_per_min!r}, more than rate_high_per_min ({self.rate_high_per_min!r})"
            raise DataError("rate_low_per_min", problem, "exchange or correct them")
        if (self.exponent is None) is (self.curve is CurveShape.POWER):
            if self.exponent is None:
                raise DataError("exponent", "is missing, and the curve is power", "add it, such as 1")
            problem = f"got {self.exponent!r}, although the curve is exponential"
            raise DataError("exponent", problem, "remove it, or set curve to power")
        return self

    @property
    def has_ties(self) -> bool:
        """Whether different trials may have the same loss."""
        return False

    def draw_trials(self, stream: np.random.Generator, trials: int, samples: int) -> tuple[FloatArray, ...]:
        """Draw terminal losses and rates, (samples, trials) each; earlier trials do not depend on their number."""
        columns = 3 if self.rank_correlation else 2
        end, rate, *alike = np.moveaxis(stream.random((trials, columns, samples)), 1, 0)
        if alike:
            same = alike[0] < abs(self.rank_correlation)
            # A low rank is a low loss, and a slow rate.
            rate = np.where(same, end if self.rank_correlation > 0 else 1.0 - end, rate)
        span = self.terminal_high_loss - self.terminal_low_loss
        ratio = math.log(self.rate_high_per_min / self.rate_low_per_min)
        ends = self.terminal_low_loss + span * end ** (1.0 / self.terminal_shape)
        rates = self.rate_low_per_min * np.exp(ratio * rate)
        return np.ascontiguousarray(ends.T), np.ascontiguousarray(rates.T)

    def losses_after(self, trials: Sequence[FloatArray], minutes: FloatArray) -> FloatArray:
        """Return the true losses of drawn trials after some minutes on one GPU; all arrays are broadcast."""
        ends, rates = trials
        progress = rates * minutes
        decay = np.exp(-progress) if self.exponent is None else (1.0 + progress) ** -self.exponent
        return np.asarray(ends + (self.start_loss - ends) * decay, dtype=np.float64)


class TablePrior(_Prior):
    """Past runs, each as likely as any other of its task."""

    LATER: ClassVar[frozenset[str]] = frozenset({"tasks", "pace_spread"})

    form: Literal["table"] = "table"
    #: losses, accuracies: (C, E) Of C configurations after E epochs; one of the two. The loss of an accuracy, a share
    #: from 0 to 1, is what is missing to 1.
    losses: Numbers | None = None
    accuracies: Numbers | None = None
    #: (E,) After which, ascending; 1, 2, 3, ... by default. Curves are linear between them, and from the start to the
    #: first one; after the last one they are held.
    epochs: Numbers | None = None
    epoch_min: PositiveMinutes = 1.0  #: Minutes of an epoch on one GPU.
    #: (C,) Number of the task that each run was of: all trials of a search are then of one task, each as likely as any
    #: other. All runs are of one task by default.
    tasks: WholeNumbers | None = None
    #: How many times faster or slower than the past runs all trials of a search may learn: log-uniform between the two.
    pace_spread: Annotated[float, Field(ge=1, le=100), NUMBER] = 1.0

    @model_validator(mode="after")
    def _check(self) -> TablePrior:
        if (self.losses is None) is (self.accuracies is None):
            problem = "and accuracies are both missing" if self.losses is None else "and accuracies are both given"
            raise DataError("losses", problem, "give one of the two")
        name, table = ("losses", self.losses) if self.losses is not None else ("accuracies", self.accuracies)
        if table is None or table.ndim != 2 or not table.size:
            problem = f"got an array of shape {() if table is None else table.shape}"
            raise DataError(name, problem, "a row of figures for each configuration is needed, one by epoch")
        if name == "accuracies" and not ((table >= 0) & (table <= 1)).all():
            row, column = np.argwhere((table < 0) | (table > 1))[0].tolist()
            problem = f"entry [{row}][{column}]: got {float(table[row, column])!r}; shares from 0 to 1 are allowed"
            raise DataError(name, problem, "divide percentages by 100")
        if (np.abs(table) > LARGEST_AMOUNT).any():
            row, column = np.argwhere(np.abs(table) > LARGEST_AMOUNT)[0].tolist()
            problem = f"entry [{row}][{column}]: got {float(table[row, column])!r}; numbers up to {LARGEST_AMOUNT:g}"
            raise DataError(name, f"{problem} are allowed", "check the unit")
        if self.epochs is not None:
            self._check_epochs(self.epochs, table.shape[1])
        if self.tasks is not None and self.tasks.size != len(table):
            raise DataError("tasks", f"got {self.tasks.size} numbers for {len(table)} runs", "give one for each")
        return self

    @staticmethod
    def _check_epochs(epochs: FloatArray, columns: int) -> None:
        if epochs.shape != (columns,):
            problem = f"got {epochs.size} numbers for {columns} figures of each configuration"
            raise DataError("epochs", problem, "give one for each")
        if epochs[0] <= 0 or (np.diff(epochs) <= 0).any():
            problem = f"got {epochs.tolist()}; ascending numbers above zero are needed"
            raise DataError("epochs", problem, "before any epoch the loss is start_loss")

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self._table)

    @property
    def task_count(self) -> int:
        """Of how many tasks they are."""
        return int(self._by_task[1].size)

    @property
    def has_ties(self) -> bool:
        """Whether different trials may have the same loss."""
        return self.ranking_noise_loss == 0.0

    @property
    def last_min(self) -> float:
        """Minutes on one GPU up to which curves are known."""
        return float(self._minutes[-1])

    @cached_property
    def _minutes(self) -> FloatArray:
        """(E + 1,) Minutes on one GPU of the table's columns, from zero on."""
        columns = self._table.shape[1] - 1
        epochs = np.arange(1.0, columns + 1) if self.epochs is None else self.epochs
        return freeze(np.concatenate(([0.0], epochs * self.epoch_min)))

    @cached_property
    def _table(self) -> FloatArray:
        """(C, E + 1) Losses from the start on."""
        losses = self.losses if self.accuracies is None else 1.0 - self.accuracies
        assert losses is not None  # by the validator
        return freeze(np.concatenate((np.full((len(losses), 1), self.start_loss), losses), axis=1))

    @cached_property
    def _by_task(self) -> tuple[IntArray, IntArray]:
        """Rows task by task, (C,), and how many each has."""
        tasks = np.zeros(self.runs, dtype=np.int64) if self.tasks is None else self.tasks
        return np.argsort(tasks, kind="stable"), np.unique(tasks, return_counts=True)[1]

    def draw_trials(self, stream: np.random.Generator, trials: int, samples: int) -> tuple[FloatArray, ...]:
        """Draw rows of the table and, where it is not one, their pace, (samples, trials) each.

        The first trials are the same however many there are. Tasks take turns, so that a few samples have as many of
        each, and so do paces.
        """
        order, counts = self._by_task
        turn = np.arange(samples) % counts.size
        within = np.floor(stream.random((trials, samples)) * counts[turn]).astype(np.int64)
        rows = np.ascontiguousarray(order[(np.cumsum(counts) - counts)[turn] + within].T)
        if self.pace_spread == 1.0:
            return (rows,)
        shares = np.arange(samples) // counts.size * _GOLDEN_SHARE % 1.0
        paces = self.pace_spread ** (2.0 * shares - 1.0)
        return rows, np.broadcast_to(paces[:, None], rows.shape)

    def losses_after(self, trials: Sequence[FloatArray], minutes: FloatArray) -> FloatArray:
        """Return the true losses of drawn trials after some minutes on one GPU; all arrays are broadcast."""
        rows = trials[0].astype(np.int64)
        minutes = minutes * trials[1] if len(trials) > 1 else minutes
        known, table = self._minutes, self._table
        left = np.clip(np.searchsorted(known, minutes, side="right") - 1, 0, known.size - 2)
        share = np.minimum((minutes - known[left]) / (known[left + 1] - known[left]), 1.0)
        before = table[rows, left]
        return np.asarray(before + share * (table[rows, left + 1] - before), dtype=np.float64)


SearchPrior = Annotated[ParametricPrior | TablePrior, Field(discriminator="form")]
