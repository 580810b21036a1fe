"""SEER on the virtual clock: Algorithm 1 with the rounds and brackets of any of its solvers."""

from __future__ import annotations

from itertools import islice

import numpy as np

from optplan.errors import UsageError
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.published.policy import SeerPolicy
from optplan.lab.searches.clock import TOLERANCE, SearchClock, SearchOutcome, SearchSetting, Trial


def run_seer(
    setting: SearchSetting, rng: np.random.Generator, *, instance: SeerInstance, solution: SeerSolution
) -> SearchOutcome:
    """Run the rounds and brackets of a solution; the returned trial is the best of the last round.

    Parameters
    ----------
    setting
        What there is; its deadline has to leave room for all rounds.
    rng
        Draws configurations, without repetition.
    instance, solution
        The problem that was solved, and how many trials train in each round.

    Raises
    ------
    UsageError
        When a trial holds a fraction of a GPU, or the rounds end after the deadline.
    """
    places = sum(bracket.trials[0] for bracket in solution.brackets)
    configurations = list(islice(setting.draw(rng), places))
    policy = SeerPolicy(instance, solution, configurations)
    clock = SearchClock(setting)
    trials: dict[int, Trial] = {}
    while (stage := policy.next_stage()) is not None:
        if stage.stop_min > setting.deadline_min * (1 + TOLERANCE):
            message = f"round {stage.number} ends after {stage.stop_min:g} min, and the deadline is"
            raise UsageError(f"{message} {setting.deadline_min:g} min; simulate the instance that was solved")
        for request in stage.requests:
            trial = trials.get(request.trial) or trials.setdefault(request.trial, clock.add(request.configuration))
            pause_min = request.minutes - request.training_min
            if request.gpus != int(request.gpus):
                message = f"a trial on {request.gpus:g} GPUs cannot be simulated; set whole_gpus in the instance"
                raise UsageError(message)
            clock.train(trial, int(request.gpus), minutes=request.minutes, pause_min=pause_min)
        clock.wait_all()
        policy.report({request.trial: -clock.value(trials[request.trial]) for request in stage.requests})
    return clock.finish(best=trials[policy.best])
