"""The dynamic program behind the hindsight optimum and the plan by hazard rates.

State, n steps before the deadline: the slack s (steps of the n that are no training, so n - s is the training still to
do), where the job is, how far its restart is, how much training is not saved yet, and which zones are available. The
slack is what the job can lose: training keeps it, idling and restarting take one step from it, a loss takes the
training since the last checkpoint. Below zero the deadline cannot be kept: infinite cost, so that no plan ever risks
it.

Places of a job in a zone are numbered in the order in which they follow one another: R steps of restart, then 0 to K -
1 steps of training since the last checkpoint; on demand R steps of restart, then training. To start somewhere is to be
at the first place and stay. Availability is one of A joint states: one only in hindsight, where the future is known,
all 2^Z where each zone is a Markov chain of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.errors import UsageError
from optplan.lab.spot.market import IDLE, ON_DEMAND, BoolArray, SpotJob
from optplan.lab.spot.replaying import Situation
from optplan.schema import FloatArray

#: Memory that a table may take.
MOST_BYTES = 2e9


@dataclass(frozen=True, eq=False)
class Table:
    """What is best in each state.

    ``value_usd`` (A,) is the expected cost from the start, idle, by what is available in the first step. ``leaves`` (T
    + 1, M, (S + 8) // 8, A) says whether to leave where one is, by steps left, place, slack and what is available; a
    bit for each slack, since there are many states. ``away`` (T + 1, Z + 1, S + 1, A) says where to go, from each zone
    and, last, from elsewhere: zones count from 0, then on demand, then idle.
    """

    job: SpotJob
    zones: int
    value_usd: FloatArray
    leaves: NDArray[np.uint8]
    away: NDArray[np.int8]

    def choose(self, situation: Situation, state: int) -> int:
        """Return the best place in a situation, with what is available numbered."""
        job, n, slack, held = self.job, situation.steps_left, situation.slack, situation.held
        if slack < 0:
            return ON_DEMAND  # too late: what is fastest
        if held != IDLE:
            width = job.restart + job.checkpoint
            start = width * (held if held >= 0 else self.zones)
            training = 0 if held == ON_DEMAND else situation.since
            place = start + (job.restart - situation.pending if situation.pending else job.restart + training)
            if not self.leaves[n, place, slack >> 3, state] >> (7 - slack % 8) & 1:
                return held
        going = int(self.away[n, held if held >= 0 else self.zones, slack, state])
        return going if going < self.zones else (ON_DEMAND, IDLE)[going - self.zones]


def tabulate(
    job: SpotJob,
    up_at: Callable[[int], BoolArray],
    price_at: Callable[[int], FloatArray],
    chain: FloatArray | None = None,
) -> Table:
    """Work back from the deadline, which can be kept on demand.

    ``up_at`` (Z, A) says which zones are available in a step, in each joint state; ``price_at`` (Z + 1,) is dollars of
    a step in each zone and on demand; ``chain`` (A, A) has the probabilities from one joint state to the next, all
    above zero; None where there is one state.
    """
    zones, states = up_at(0).shape
    width, slack = job.restart + job.checkpoint, job.slack
    places = zones * width + job.restart + 2
    size_bytes = (job.deadline + 1) * states * ((zones + 1) * (slack + 1) + places * (slack + 8) // 8)
    if size_bytes > MOST_BYTES:
        message = (
            f"deadline: {job.deadline:,} steps of {job.step_s:g} s, {slack:,} of them slack, with {zones} zones need a"
        )
        raise UsageError(
            f"{message} table of {size_bytes / 1e9:.1f} GB; use coarser traces, fewer zones or a shorter deadline"
        )
    leaves = np.zeros((job.deadline + 1, places, (slack + 8) // 8, states), dtype=np.uint8)
    away = np.zeros((job.deadline + 1, zones + 1, slack + 1, states), dtype=np.int8)
    values = np.zeros((places, slack + 1, states))
    for n in range(1, job.deadline + 1):
        ahead = values if chain is None else values @ chain.T
        step = job.deadline - n
        values, is_better = _step_back(job, ahead, up_at(step), price_at(step), away[n])
        leaves[n] = np.packbits(is_better, axis=1)
        values[:, n:] = 0.0  # done
    return Table(job, zones, values[-1, slack], leaves, away)


def _step_back(
    job: SpotJob,
    ahead: FloatArray,
    up: BoolArray,
    price_usd: FloatArray,
    away: NDArray[np.int8],
) -> tuple[FloatArray, BoolArray]:
    """Return the values of all places one step earlier and where leaving is better, and fill in where to go."""
    zones, width = up.shape[0], job.restart + job.checkpoint
    stay = [
        _stay(job, ahead[zone * width : (zone + 1) * width], float(price_usd[zone]), job.checkpoint)
        for zone in range(zones)
    ]
    stay.append(_stay(job, ahead[zones * width : -1], float(price_usd[zones]), 1))
    starts = [np.where(up[zone], stay[zone][0], np.inf) for zone in range(zones)]
    options = np.stack([*starts, stay[zones][0], _later(ahead[-1])])
    away[zones] = options.argmin(axis=0)
    best = options.min(axis=0)
    values, leaves = np.empty_like(ahead), np.zeros(ahead.shape, dtype=np.bool_)
    for zone in range(zones):
        elsewhere = options.copy()
        elsewhere[zone] = np.inf  # to go where one is would be a restart that saves: the replay has no such thing
        away[zone] = elsewhere.argmin(axis=0)
        going = elsewhere.min(axis=0)
        block = slice(zone * width, (zone + 1) * width)
        values[block] = np.where(up[zone], np.minimum(stay[zone], going), _losing(job, going))
        leaves[block] = going < stay[zone]
    block = slice(zones * width, -1)
    values[block] = np.minimum(stay[zones], best)
    leaves[block] = best < stay[zones]
    values[-1] = best
    return values, leaves


def _stay(job: SpotJob, ahead: FloatArray, price_usd: float, checkpoint: int) -> FloatArray:
    """Return the cost of staying, for each place of a zone or on demand."""
    after = [*range(1, job.restart + checkpoint), job.restart]
    stay = ahead[after] + price_usd
    stay[: job.restart] = _later(stay[: job.restart])
    return stay


def _later(values: FloatArray) -> FloatArray:
    """Return the values with one step less slack."""
    moved = np.full_like(values, np.inf)
    moved[..., 1:, :] = values[..., :-1, :]
    return moved


def _losing(job: SpotJob, going: FloatArray) -> FloatArray:
    """Return the values of a zone's places when its VMs are lost: of going elsewhere, less the training not saved."""
    lost = np.full((job.restart + job.checkpoint, *going.shape), np.inf)
    lost[: job.restart + 1] = going
    for since in range(1, min(job.checkpoint, going.shape[0])):
        lost[job.restart + since, since:] = going[:-since]
    return lost
