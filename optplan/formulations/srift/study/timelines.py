"""What happens to a run that loses VMs, from its beginning to its predicted end (figure 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from optplan.contracts.time_and_money import BUDGET, DEADLINE
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, count_vms, write_fleet
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.study.replanning import (
    FleetStanding,
    Remainder,
    derive_spent_usd,
    name_vms,
    ready_after_s,
)


class Happening(StrEnum):
    """What a run does for a while."""

    LAUNCH = "launch"
    TRAIN = "train"
    #: Save the training, wait for what a lost VM has stored, load it.
    PAUSE = "pause"


@dataclass(frozen=True)
class TimelineSegment:
    """A while in which a run does one thing."""

    #: Since the beginning of the run.
    start_s: float
    end_s: float
    happening: Happening
    vms: Mapping[str, int]  # types that it has or, while they are launched, waits for, and how many VMs of each
    fleet: str  # the same in words, with the samples of each where they are known
    #: Done at its start and at its end.
    iterations_from: int
    iterations_to: int
    #: Spent by then.
    spent_from_usd: float
    spent_to_usd: float
    predicted: bool  # whether it is still to come


@dataclass(frozen=True)
class Timeline:
    """A run that loses VMs, from its beginning to its predicted end."""

    segments: tuple[TimelineSegment, ...]  # one after the other, without gaps
    lost: Mapping[str, int]  # VMs, by type
    interrupted_s: float  # when
    limits: Mapping[str, float]  # of the whole run: seconds of ``deadline``, US dollars of ``budget``

    @property
    def end_s(self) -> float:
        """When the last segment ends."""
        return self.segments[-1].end_s if self.segments else 0.0

    @property
    def spent_usd(self) -> float:
        """What is spent by then."""
        return self.segments[-1].spent_to_usd if self.segments else 0.0

    @property
    def spare(self) -> dict[str, float]:
        """What is left of each limit at the end; negative where it is exceeded."""
        used = {DEADLINE: self.end_s, BUDGET: self.spent_usd}
        return {limit: amount - used[limit] for limit, amount in self.limits.items()}


def build_timeline(
    instance: SriftInstance, state: FleetStanding, remainder: Remainder, *, new: SriftSolution | None = None
) -> Timeline:
    """Lay a run out in time, up to the loss and, with a ``new`` fleet, beyond; what takes no time is left out."""
    ready_s, spent_usd = ready_after_s(instance, state), derive_spent_usd(instance, state)
    launch_usd = spent_usd * ready_s / state.elapsed_s if instance.launch_billed and state.elapsed_s else 0.0
    before, kept = (state.vms, name_vms(state.vms)), (dict(state.running), name_vms(state.running))
    # Each is a happening, the VMs, and the seconds, iterations and US dollars that it adds.
    past = [
        (Happening.LAUNCH, before, ready_s, 0, launch_usd),
        (Happening.TRAIN, before, state.elapsed_s - ready_s, state.iterations_done, spent_usd - launch_usd),
    ]
    ahead = [(Happening.PAUSE, kept, state.pause_s, -state.iterations_lost, remainder.used[BUDGET] - spent_usd)]
    if new is not None:
        rest, fleet = remainder.instance, (count_vms(new.groups), write_fleet(new.groups))
        measures = evaluate(rest, new).measures
        launch_s, cost_usd = measures["launch_s"], measures["cost_usd"]
        launch_usd = cost_usd / measures["billed_s"] * launch_s if instance.launch_billed else 0.0
        ahead.append((Happening.LAUNCH, fleet, launch_s, 0, launch_usd))
        ahead.append((Happening.TRAIN, fleet, measures["training_s"], rest.iterations, cost_usd - launch_usd))
    segments = []
    end_s, done, spent = 0.0, 0, 0.0
    for number, (happening, (vms, words), seconds, iterations, usd) in enumerate([*past, *ahead]):
        start_s, had_done, had_spent = end_s, done, spent
        end_s, done, spent = end_s + seconds, done + iterations, spent + usd
        if seconds > 0:
            sums = had_done, done, had_spent, spent
            segments.append(TimelineSegment(start_s, end_s, happening, vms, words, *sums, number >= len(past)))
    return Timeline(tuple(segments), dict(state.lost), state.elapsed_s, instance.limits)
