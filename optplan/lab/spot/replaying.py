"""A job, replayed step by step over a market under a policy that sees nothing of the future.

At the beginning of a step the job first learns what it lost: the VMs of a zone that has none any more, with the
training since their last checkpoint. Then the policy sees all zones and says where the job is during this step. To
begin somewhere, or to go elsewhere, takes the time of a restart, which is paid. Nothing is paid while idle or when
done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from optplan.errors import UsageError
from optplan.lab.spot.market import IDLE, ON_DEMAND, SpotJob, SpotMarket, name_place


@dataclass(frozen=True)
class Situation:
    """What a policy sees at the beginning of a step.

    A zone that was just lost is no longer ``held``; else it is a zone's number, ``ON_DEMAND`` or ``IDLE``. Steps:
    ``step`` are over, ``pending`` of the restart still to come, ``since`` of training after the last checkpoint,
    ``left`` to do. ``prices_usd`` (Z + 1,) are of this step in each zone and, last, on demand.
    """

    job: SpotJob
    step: int
    held: int
    pending: int
    since: int
    left: int
    available: tuple[bool, ...]
    prices_usd: tuple[float, ...]

    @property
    def steps_left(self) -> int:
        """Steps until the deadline."""
        return self.job.deadline - self.step

    @property
    def slack(self) -> int:
        """Steps until the deadline that are no training."""
        return self.steps_left - self.left

    @property
    def cheapest_spot(self) -> int:
        """The cheapest zone that has spot VMs now, the first of several; ``IDLE`` without any."""
        zones = [zone for zone, is_there in enumerate(self.available) if is_there]
        return min(zones, key=lambda zone: self.prices_usd[zone], default=IDLE)


class SpotPolicy(Protocol):
    """Says where a job is next."""

    @property
    def name(self) -> str:
        """As people give it."""

    def choose(self, situation: Situation) -> int:
        """Return the place for the step that begins: a zone that is available, ``ON_DEMAND`` or ``IDLE``."""


@dataclass
class Stretch:
    """A time in one place, from step ``start`` until before ``stop``; ``trained`` are steps that counted in the end."""

    start: int
    place: int
    stop: int = 0
    cost_usd: float = 0.0
    trained: int = 0
    is_lost: bool = False


@dataclass(frozen=True)
class SpotOutcome:
    """What came of a job: stretches until it ended or its deadline, and the steps of training left by then."""

    job: SpotJob
    zones: tuple[str, ...]
    policy: str
    stretches: tuple[Stretch, ...]
    left: int

    @property
    def is_kept(self) -> bool:
        """Whether the job was done by its deadline."""
        return self.left == 0

    @property
    def cost_usd(self) -> float:
        """Of all that was held."""
        return sum(stretch.cost_usd for stretch in self.stretches)

    @property
    def losses(self) -> int:
        """How often VMs were taken away."""
        return sum(stretch.is_lost for stretch in self.stretches)

    @property
    def starts(self) -> int:
        """How often it started somewhere."""
        return sum(stretch.place != IDLE for stretch in self.stretches)

    def seconds_at(self, place: int | None) -> float:
        """Return the time in one place, or, for None, in all zones."""
        is_there = [s.place >= 0 if place is None else s.place == place for s in self.stretches]
        held = [s.stop - s.start for s, there in zip(self.stretches, is_there, strict=True) if there]
        return sum(held) * self.job.step_s

    def to_json_data(self) -> dict[str, object]:
        """Return the figures and the stretches as segments, with seconds since the start."""
        step_s = self.job.step_s
        return {
            "policy": self.policy,
            "is_kept": self.is_kept,
            "cost_usd": self.cost_usd,
            "done_s": self.stretches[-1].stop * step_s if self.is_kept else None,
            "losses": self.losses,
            "starts": self.starts,
            "segments": [
                {
                    "start_s": stretch.start * step_s,
                    "end_s": stretch.stop * step_s,
                    "place": name_place(stretch.place, self.zones),
                    "trained_s": stretch.trained * step_s,
                    "cost_usd": stretch.cost_usd,
                    "is_lost": stretch.is_lost,
                }
                for stretch in self.stretches
            ],
        }


def replay(job: SpotJob, market: SpotMarket, policy: SpotPolicy) -> SpotOutcome:
    """Run a job from the beginning of a market until it is done or its deadline is over."""
    if market.steps < job.deadline or market.step_s != job.step_s:
        told = f"{market.steps} steps of {market.step_s:g} s"
        raise UsageError(f"market: got {told}; the job's deadline is {job.deadline} steps of {job.step_s:g} s")
    pending, since, left = 0, 0, job.work
    current, stretches = Stretch(0, IDLE), []
    for step in range(job.deadline):
        seen = tuple(bool(there) for there in market.available[:, step])
        prices = market.price_usd(step).tolist()
        if current.place >= 0 and not seen[current.place]:
            left, current.trained = left + since, current.trained - since
            current.stop, current.is_lost = step, True
            stretches.append(current)
            current, pending, since = Stretch(step, IDLE), 0, 0
        chosen = policy.choose(Situation(job, step, current.place, pending, since, left, seen, tuple(prices)))
        if not (chosen in (IDLE, ON_DEMAND) or (0 <= chosen < len(seen) and seen[chosen])):
            raise UsageError(f"policy {policy.name}: chose place {chosen} at step {step}, where there is no VM")
        if chosen != current.place:
            if current.start < step:
                current.stop = step
                stretches.append(current)
            current, pending, since = Stretch(step, chosen), job.restart, 0
        if chosen == IDLE:
            continue
        current.cost_usd += prices[chosen]  # -1 is the last one: on demand
        if pending:
            pending -= 1
            continue
        left, since, current.trained = left - 1, (since + 1) % job.checkpoint, current.trained + 1
        if not left:
            break
    current.stop = step + 1
    return SpotOutcome(job, market.zones, policy.name, (*stretches, current), left)
