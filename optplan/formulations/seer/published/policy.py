"""Algorithm 1 as a policy that any executor or simulator can run: it says who trains, and is told the losses.

After each round every bracket keeps its best trials, as many as it has in the next round; all that are kept are ordered
by loss and moved, the best to the bracket with the most GPUs. After the last round nothing is eliminated, and the least
loss wins. Where the paper is silent:

- equal losses: the trial drawn earlier counts as the better one;
- a trial without a loss (NaN, infinite, or none because it crashed) counts as the worst, among themselves in the order
  of drawing; it is dropped with the worst and not before;
- fewer trials than places, because the search space has no more: places of the narrowest bracket stay empty;
- a round ends by the clock, in the middle of an epoch if need be: the executor writes a checkpoint there and evaluates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from optplan.contracts.configurations import Configuration
from optplan.contracts.result import Answer, SolveRequest
from optplan.errors import UsageError, show_value
from optplan.formulations.seer.data.instance import Objective, SeerInstance, SeerSolution
from optplan.formulations.seer.data.search_space import draw_configurations
from optplan.formulations.seer.exact.answers import answer_with, infeasible_answer
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.laws.rounds import Round, list_rounds

ConfigurationT = TypeVar("ConfigurationT")


@dataclass(frozen=True)
class TrialRequest(Generic[ConfigurationT]):
    """One trial that trains in a round."""

    trial: int  #: Its number, from 0, in the order of drawing.
    configuration: ConfigurationT  #: What it tries.
    gpus: float  #: How many it holds during the round.
    minutes: float  #: How long it holds them, the pause of a resize included.
    training_min: float  #: How long of that it trains; then it writes a checkpoint and is evaluated.
    last_gpus: float  #: How many it held in the round before; 0 where it starts.


@dataclass(frozen=True)
class Stage(Generic[ConfigurationT]):
    """A round with everybody who trains in it."""

    number: int  #: Of the round, from 1.
    #: start_min, stop_min: When it begins and ends, in minutes from the start of the search.
    start_min: float
    stop_min: float
    #: By trial, the best of the last round first; in the first round in the order of drawing.
    requests: tuple[TrialRequest[ConfigurationT], ...]


class SeerPolicy(Generic[ConfigurationT]):
    """The state of one search.

    Parameters
    ----------
    instance, solution
        The problem, and how many trials train in each round; of any solver.
    configurations
        What is tried, in the order of drawing. Those beyond the places of the first round are left out; where there are
        fewer, places stay empty.

    Raises
    ------
    UsageError
        When there is no configuration, or the solution is not one of rounds.
    """

    def __init__(
        self, instance: SeerInstance, solution: SeerSolution, configurations: Sequence[ConfigurationT]
    ) -> None:
        lengths = {len(bracket.trials) for bracket in solution.brackets}
        if lengths != {solution.rounds} or not any(bracket.trials[0] for bracket in solution.brackets):
            message = f"solution: got brackets of {sorted(lengths)} rounds; {solution.rounds} are needed, with trials"
            raise UsageError(message)
        if not configurations:
            raise UsageError("configurations: there is none; at least one is needed")
        self._brackets = solution.brackets[::-1]  # the widest first
        self._rounds: list[Round] = list_rounds(instance, solution)
        places = sum(bracket.trials[0] for bracket in self._brackets)
        self.configurations: tuple[ConfigurationT, ...] = tuple(configurations[:places])
        self._next = 0
        #: Numbers of the trials that go on, the best first; before the first round in the order of drawing.
        self._order = list(range(len(self.configurations)))
        self._groups: list[list[int]] = []
        self._gpus = dict.fromkeys(self._order, 0.0)
        #: By trial, the loss of the last round that it was trained in; NaN where it failed.
        self.losses: dict[int, float] = {}

    @property
    def finished(self) -> bool:
        """Whether all rounds have been trained and reported."""
        return self._next == len(self._rounds) and not self._groups

    @property
    def best(self) -> int:
        """The trial with the least loss after the last round.

        Raises
        ------
        UsageError
            When the search has not ended.
        """
        return self.finalists[0]

    @property
    def finalists(self) -> tuple[int, ...]:
        """The trials of the last round, the best first.

        Raises
        ------
        UsageError
            When the search has not ended.
        """
        if not self.finished:
            message = f"round {self._next or 1} of {len(self._rounds)} has not been reported yet; the search goes on"
            raise UsageError(message)
        return tuple(self._order)

    def next_stage(self) -> Stage[ConfigurationT] | None:
        """Return the next round, or None when there is none left.

        Raises
        ------
        UsageError
            When the round before has not been reported.
        """
        if self._groups:
            raise UsageError(f"round {self._next} has not been reported; call report(losses) first")
        if self._next == len(self._rounds):
            return None
        now, waiting = self._rounds[self._next], iter(self._order)
        requests: list[TrialRequest[ConfigurationT]] = []
        for bracket in self._brackets:
            group = list(islice(waiting, bracket.trials[self._next]))
            self._groups.append(group)
            requests += [
                TrialRequest(
                    trial=trial,
                    configuration=self.configurations[trial],
                    gpus=bracket.gpus,
                    minutes=now.duration_min,
                    training_min=now.training_min,
                    last_gpus=self._gpus[trial],
                )
                for trial in group
            ]
            self._gpus |= dict.fromkeys(group, bracket.gpus)
        self._next += 1
        return Stage(now.number, now.start_min, now.stop_min, tuple(requests))

    def report(self, losses: Mapping[int, float | None]) -> None:
        """Take the losses of the round that was asked for last, and decide who goes on.

        Parameters
        ----------
        losses
            By trial, less is better; None, NaN or infinite for one that failed. A trial that is missing failed, too.

        Raises
        ------
        UsageError
            When no round was asked for, or a trial is named that did not train in it.
        """
        if not self._groups:
            raise UsageError("no round waits for losses; call next_stage() first")
        training = {trial for group in self._groups for trial in group}
        unknown = next((trial for trial in losses if trial not in training), None)
        if unknown is not None:
            raise UsageError(f"losses: trial {show_value(unknown)} did not train in round {self._next}")
        for trial in training:
            loss = losses.get(trial)
            self.losses[trial] = float(loss) if loss is not None and math.isfinite(loss) else math.nan
        kept: list[int] = []
        for bracket, group in zip(self._brackets, self._groups, strict=True):
            last = self._next == len(self._rounds)
            kept.extend(sorted(group, key=self._merit)[: None if last else bracket.trials[self._next]])
        self._order = sorted(kept, key=self._merit)
        self._groups = []

    def _merit(self, trial: int) -> tuple[float, int]:
        """Return what trials are ordered by, the best first."""
        loss = self.losses[trial]
        return (math.inf if math.isnan(loss) else loss), trial


def start_policy(instance: SeerInstance, solution: SeerSolution, *, seed: int = 0) -> SeerPolicy[Configuration]:
    """Draw configurations from the instance's search space and start a search.

    Parameters
    ----------
    instance, solution
        The problem and how many trials train in each round.
    seed
        Draws the configurations; the same seed gives the same search.

    Returns
    -------
    SeerPolicy
        Where the space has fewer configurations than the first round has places, with fewer trials and a
        :class:`~optplan.errors.DataWarning`.
    """
    places = sum(bracket.trials[0] for bracket in solution.brackets)
    return SeerPolicy(instance, solution, draw_configurations(instance.search_space, places, seed=seed))


def solve_published(instance: SeerInstance, request: SolveRequest) -> Answer[SeerSolution]:
    """Return the published numbers of trials; with the budget as bound, the gap says what the floors leave unused.

    With a resize overhead, which the paper leaves out, rounds and brackets are sized with it.
    """
    solution = instance.published
    if solution is None:
        return infeasible_answer(instance)
    loss = evaluate(instance, solution).objective if instance.objective is Objective.QUALITY else None
    return answer_with(instance, request, solution, loss=loss)
