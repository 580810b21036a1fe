"""Policies side by side: a job that starts at many times of a market's second part, against the hindsight optimum.

What policies learn from is the first part of the market, which no trial touches. Starts are drawn with equal chances
from those whose deadline lies within the market; windows may overlap, so that trials are not independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.errors import InfeasibleError, UsageError
from optplan.lab.spot.policies import Hindsight, make_policy
from optplan.lab.spot.replaying import ON_DEMAND, SpotJob, SpotMarket, SpotOutcome, replay
from optplan.progress import Listener, Stopwatch
from optplan.units import SECONDS_PER_HOUR, format_duration

#: Share of trials whose ratio to the hindsight optimum is no larger than the one that is reported.
_MOST = 0.95


@dataclass(frozen=True)
class Trial:
    """One start at a step of the market; the hindsight optimum's outcome comes first, then one for each policy."""

    start: int
    outcomes: tuple[SpotOutcome, ...]

    @property
    def least_usd(self) -> float:
        """The hindsight optimum."""
        return self.outcomes[0].cost_usd


@dataclass(frozen=True)
class Score:
    """How a policy did over all trials, on average; ``ratio`` is to the hindsight optimum, ``high_ratio`` its P95."""

    policy: str
    deadline_s: float
    trials: int
    kept: float
    cost_usd: float
    ratio: float
    high_ratio: float
    spot_hours: float
    on_demand_hours: float
    starts: float
    losses: float


def try_policies(
    job: SpotJob,
    market: SpotMarket,
    names: Sequence[str],
    *,
    train_share: float,
    trials: int,
    seed: int,
    start: int | None = None,
    on_event: Listener | None = None,
) -> list[Trial]:
    """Replay a job under each policy from random starts, or from one; what is before is learned from, or a share."""
    if start is None:
        learned, starts = _draw_starts(job, market, train_share, trials, seed)
    elif not 2 <= start <= market.steps - job.deadline:
        last = format_duration((market.steps - job.deadline) * market.step_s)
        message = f"start: got {format_duration(start * market.step_s)}; from two steps after the beginning, to learn"
        raise UsageError(f"{message} from, to {last}, before the end of the traces, is allowed")
    else:
        learned, starts = start, [start]
    if not job.can_be_kept:
        needed = format_duration((job.work + job.restart) * job.step_s)
        got = format_duration(job.deadline * job.step_s)
        raise InfeasibleError(
            f"deadline: got {got}, but the work and a restart take {needed} on demand; give at least that"
        )
    watch, found = Stopwatch(listener=on_event), []
    history = market.window(0, learned)
    policies = {name: make_policy(name, job, history) for name in names}
    for number, at in enumerate(starts):
        watch.require()
        window = market.window(at, at + job.deadline)
        every = {"hindsight": Hindsight(job, window).choose} | policies
        outcomes = [replay(job, window, choose, name) for name, choose in every.items()]
        found.append(Trial(at, tuple(outcomes)))
        watch.emit(f"{number + 1} of {len(starts)} starts", fraction=(number + 1) / len(starts))
    return found


def _draw_starts(job: SpotJob, market: SpotMarket, train_share: float, trials: int, seed: int) -> tuple[int, list[int]]:
    """Return how many steps are learned from, and starts in the rest."""
    split = round(market.steps * train_share)
    if split < 2:
        raise UsageError(f"train share: got {train_share:g}, which is {split} of {market.steps} steps; give more")
    most = market.steps - job.deadline
    if most < split:
        left = format_duration((market.steps - split) * market.step_s)
        needed = format_duration(job.deadline * market.step_s)
        raise UsageError(f"deadline: {needed}, but after the part that is learned from {left} of the traces are left")
    if trials < 1:
        raise UsageError(f"trials: got {trials}; at least 1 is needed")
    return split, np.random.default_rng(seed).integers(split, most, size=trials, endpoint=True).tolist()


def score(trials: Sequence[Trial]) -> list[Score]:
    """Sum up trials of one job, the hindsight optimum's first."""
    least = np.array([trial.least_usd for trial in trials])
    scores = []
    for outcomes in zip(*(trial.outcomes for trial in trials), strict=True):
        cost = np.array([outcome.cost_usd for outcome in outcomes])
        job = outcomes[0].job
        scores.append(
            Score(
                policy=outcomes[0].policy,
                deadline_s=job.deadline * job.step_s,
                trials=len(trials),
                kept=float(np.mean([outcome.is_kept for outcome in outcomes])),
                cost_usd=float(cost.mean()),
                ratio=float(cost.sum() / least.sum()),
                high_ratio=float(np.quantile(cost / least, _MOST)),
                spot_hours=float(np.mean([outcome.seconds_at(None) for outcome in outcomes])) / SECONDS_PER_HOUR,
                on_demand_hours=float(np.mean([o.seconds_at(ON_DEMAND) for o in outcomes])) / SECONDS_PER_HOUR,
                starts=float(np.mean([outcome.starts for outcome in outcomes])),
                losses=float(np.mean([outcome.losses for outcome in outcomes])),
            )
        )
    return scores
