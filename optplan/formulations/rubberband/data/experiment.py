"""Early-stopping searches as stages: how many trials run in each, and for how many iterations more.

Successive halving and Hyperband are known in full before they run (RubberBand, section 3.1). The iterations of a stage
are what each trial adds in it; Hyperband's own tables count them from the trial's beginning.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from optplan.schema import NUMBER, FrozenModel

#: Most trials, which are listed one by one, most iterations, and most stages: a slip of the pen must not fill memory.
MOST_TRIALS = 1_000_000
MOST_ITERATIONS = 1_000_000_000
_MOST_STAGES = 2_000

#: Quotients this close, relatively, to a whole number are that number.
_WHOLE_TOLERANCE = 1e-9

_Trials = Annotated[int, Field(ge=1, le=MOST_TRIALS), NUMBER]
_Iterations = Annotated[int, Field(ge=1, le=MOST_ITERATIONS), NUMBER]
_Eta = Annotated[float, Field(gt=1, le=MOST_TRIALS), NUMBER]


class Stage(FrozenModel):
    """One stage of a search: it ends when all its trials have done their iterations."""

    trials: _Trials  # how many run, n
    iterations: _Iterations  # that each of them adds


class StagesExperiment(FrozenModel):
    """Stages given one by one."""

    form: Literal["stages"] = "stages"
    stages: tuple[Stage, ...]  #: In their order; trial counts never grow, since stages only drop trials.

    @field_validator("stages")
    @classmethod
    def _check(cls, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        if not stages:
            raise ValueError("is empty; give at least one stage, as in {trials: 8, iterations: 10}")
        if len(stages) > _MOST_STAGES:
            raise ValueError(f"has {len(stages):,} entries; at most {_MOST_STAGES:,} stages are allowed")
        for number, (before, after) in enumerate(pairwise(stages), start=1):
            if after.trials > before.trials:
                raise ValueError(
                    f"entry [{number}]: {after.trials} trials after {before.trials}; a stage cannot have more trials "
                    "than the one before it: order the stages, or describe several searches one by one"
                )
        return stages


class ShaExperiment(FrozenModel):
    """Successive halving, SHA(n, r, R, eta).

    Stage k has floor(n / eta**k) trials. Each adds r * eta**k iterations, until a trial has done R; the last stage
    (one trial, or all of R done) adds what is missing.
    """

    form: Literal["sha"] = "sha"
    trials: _Trials  #: At the start, n.
    least_iterations: _Iterations  #: Of a trial before the first are stopped, r.
    most_iterations: _Iterations  #: Of a trial in all, R.
    eta: _Eta = 2.0  #: One of how many trials goes on.

    @model_validator(mode="after")
    def _check(self) -> ShaExperiment:
        _check_iterations(self.least_iterations, self.most_iterations)
        if sum(1 for _ in islice(_halve(self), _MOST_STAGES + 1)) > _MOST_STAGES:
            message = f"eta is {self.eta}, which makes more than the {_MOST_STAGES:,} stages that are allowed; raise it"
            raise ValueError(message)
        return self


class HyperbandExperiment(FrozenModel):
    """Hyperband: successive halving from several starts."""

    form: Literal["hyperband"] = "hyperband"
    most_iterations: _Iterations  #: Of a trial in all, R.
    least_iterations: _Iterations = 1  #: Of a trial before the first are stopped in the bracket that stops soonest.
    eta: _Eta = 3.0  #: One of how many trials goes on.
    #: ``in-sequence``: the brackets follow one another on one cluster; ``side-by-side``: each has its own.
    order: Literal["in-sequence", "side-by-side"] = "in-sequence"
    #: How many trials a bracket starts with, of s_max + 1 brackets, s rounds before its last: ``table``, floor((s_max +
    #: 1) / (s + 1)) * eta**s, as in the Hyperband paper's Table 1 and its authors' program; or ``algorithm``,
    #: ceil((s_max + 1) / (s + 1) * eta**s), as in its Algorithm 1.
    trials: Literal["table", "algorithm"] = "table"

    @model_validator(mode="after")
    def _check(self) -> HyperbandExperiment:
        _check_iterations(self.least_iterations, self.most_iterations)
        rounds = _count_rounds(self)
        stages = (rounds + 1) * (rounds + 2) // 2
        if stages > _MOST_STAGES:
            message = f"eta is {self.eta}, which makes {stages:,} stages of the {_MOST_STAGES:,} allowed; raise it"
            raise ValueError(message)
        return self


#: Any search, as the type of a field; its own field ``form`` says which it is.
Experiment = Annotated[StagesExperiment | ShaExperiment | HyperbandExperiment, Field(discriminator="form")]


def brackets(experiment: Experiment) -> tuple[tuple[Stage, ...], ...]:
    """Return the stages of a search, a chain for each cluster: one, but for Hyperband side by side (3.1)."""
    match experiment:
        case StagesExperiment():
            return (experiment.stages,)
        case ShaExperiment():
            return (tuple(Stage(trials=trials, iterations=added) for trials, added in _halve(experiment)),)
        case HyperbandExperiment():
            chains = _list_brackets(experiment)
            if experiment.order == "side-by-side":
                return chains
            return (tuple(stage for chain in chains for stage in chain),)


def _halve(experiment: ShaExperiment) -> Iterator[tuple[int, int]]:
    done = rung = 0
    while done < experiment.most_iterations:
        trials = _floor(experiment.trials / experiment.eta**rung)
        # r + r * eta + ... + r * eta**rung, in whole iterations
        until = _floor(experiment.least_iterations * (experiment.eta ** (rung + 1) - 1) / (experiment.eta - 1))
        if trials <= 1:
            until = experiment.most_iterations
        until = min(until, experiment.most_iterations)
        yield max(trials, 1), until - done
        done, rung = until, rung + 1


def _count_rounds(experiment: HyperbandExperiment) -> int:
    """Return how often trials are cut in the bracket that begins with most."""
    return _floor(math.log(experiment.most_iterations / experiment.least_iterations) / math.log(experiment.eta))


def _list_brackets(experiment: HyperbandExperiment) -> tuple[tuple[Stage, ...], ...]:
    eta, most = experiment.eta, experiment.most_iterations
    rounds = _count_rounds(experiment)
    chains = []
    for later in range(rounds, -1, -1):
        share = (rounds + 1) / (later + 1)
        started = _floor(share) * eta**later if experiment.trials == "table" else share * eta**later
        trials, done, stages = -_floor(-started), 0, []
        for rung in range(later + 1):
            until = most if rung == later else _floor(most * eta ** (rung - later))
            # Small eta may round two rungs to the same iterations: then the earlier cut happens at once.
            if until > done:
                stages.append(Stage(trials=max(_floor(trials / eta**rung), 1), iterations=until - done))
            done = until
        chains.append(tuple(stages))
    return tuple(chains)


def _check_iterations(least: int, most: int) -> None:
    if most < least:
        raise ValueError(f"most_iterations is {most}, below least_iterations ({least}); raise it")


def _floor(value: float) -> int:
    nearest = round(value)
    return nearest if abs(value - nearest) <= _WHOLE_TOLERANCE * max(abs(value), 1.0) else math.floor(value)
