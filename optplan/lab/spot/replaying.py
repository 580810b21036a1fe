"""What can be rented where and when, and a job, replayed on that under a policy that sees nothing of the future.

Time is cut into steps of equal length; a trace's tick is one step or several. Within a step nothing changes: a zone has
spot VMs or none, at one price. The work of the job, its deadline, the time of a restart and the training between two
checkpoints are whole numbers of steps: what is needed is rounded up and what is allowed rounded down, so that nothing
looks easier than it is.

At the beginning of a step the job first learns what it lost: the VMs of a zone that has none any more, with the
training since their last checkpoint. Then the policy sees all zones and says where the job is during this step. To
begin somewhere, or to go elsewhere, takes the time of a restart, which is paid. Nothing is paid while idle or when
done.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from optplan.errors import DataError, UsageError, show_value
from optplan.lab.spot.traces import SpotTrace, read_ticks
from optplan.schema import LARGEST_AMOUNT, FloatArray, freeze
from optplan.units import SECONDS_PER_HOUR, format_duration

BoolArray = NDArray[np.bool_]

#: Where a job is that holds nothing, and one that holds VMs on demand; zones count from 0.
IDLE, ON_DEMAND = -2, -1
#: A duration that is a whole number of steps to within this share of a step is that number.
_SAME = 1e-9
#: A time to within this share of itself is the time of a price.
_SAME_TIME = 1e-12
_REGION = re.compile(r"[a-z]+(-[a-z]+)+-\d+")


@dataclass(frozen=True, eq=False)
class SpotPrices:
    """Prices of one spot VM over time: (N,) every ``gap_s`` seconds one, of which the last one holds on."""

    gap_s: float
    usd_per_hour: FloatArray

    def at(self, times_s: FloatArray) -> FloatArray:
        """(T,) The prices that hold at some times."""
        numbers = np.floor(times_s / self.gap_s * (1.0 + _SAME_TIME)).astype(np.int64)
        return self.usd_per_hour[np.minimum(numbers, self.usd_per_hour.size - 1)]


def read_spot_prices(path: Path | str) -> SpotPrices:
    """Read a file with the form of a spot trace (:mod:`optplan.lab.spot.traces`), dollars per hour for VMs."""
    path = Path(path)
    gap_s, prices = read_ticks(path)
    if not isinstance(prices, list) or not prices:
        raise DataError(str(path), "data has no price", "list the dollars per hour at each tick")
    for number, price in enumerate(prices):
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 < price <= LARGEST_AMOUNT:
            problem = f"data[{number}] is {show_value(price)}; dollars per hour above zero are needed"
            raise DataError(str(path), problem, "correct it")
    return SpotPrices(gap_s, freeze(np.array(prices, dtype=np.float64)))


@dataclass(frozen=True)
class SpotJob:
    """A job, in steps: its work, its deadline, a restart (paid) at every start, and work between checkpoints."""

    work: int
    deadline: int
    restart: int
    checkpoint: int
    step_s: float

    def __post_init__(self) -> None:
        """Refuse what is no job."""
        for name, least in (("work", 1), ("deadline", 1), ("restart", 0), ("checkpoint", 1)):
            if getattr(self, name) < least:
                message = f"{name}: got {getattr(self, name)} steps of {format_duration(self.step_s)}; at least"
                raise UsageError(f"{message} {least} is needed; give a longer time or finer steps")

    @classmethod
    def of(
        cls, work_s: float, deadline_s: float, restart_s: float, checkpoint_every_s: float, *, step_s: float
    ) -> Self:
        """Put durations on the grid: work, restart and checkpoint rounded up, the deadline down."""
        up = [math.ceil(seconds / step_s - _SAME) for seconds in (work_s, restart_s, checkpoint_every_s)]
        return cls(up[0], math.floor(deadline_s / step_s + _SAME), up[1], up[2], step_s)

    @property
    def slack(self) -> int:
        """Steps of the deadline that are no training."""
        return self.deadline - self.work

    @property
    def can_be_kept(self) -> bool:
        """Whether VMs on demand alone keep the deadline."""
        return self.slack >= self.restart


@dataclass(frozen=True, eq=False)
class SpotMarket:
    """Zones over time, (Z, T): whether all VMs of the job can be had, and their price; on demand they always can."""

    zones: tuple[str, ...]
    available: BoolArray
    usd_per_hour: FloatArray
    on_demand_usd_per_hour: float
    step_s: float

    @property
    def steps(self) -> int:
        """How long it is known, T."""
        return int(self.available.shape[1])

    def window(self, start: int, stop: int) -> SpotMarket:
        """Return the steps from ``start`` to before ``stop``."""
        return replace(self, available=self.available[:, start:stop], usd_per_hour=self.usd_per_hour[:, start:stop])

    def price_usd(self, step: int) -> FloatArray:
        """(Z + 1,) What a step costs in each zone and, last, on demand."""
        per_hour = np.append(self.usd_per_hour[:, step], self.on_demand_usd_per_hour)
        return np.asarray(per_hour * (self.step_s / SECONDS_PER_HOUR), dtype=np.float64)


def build_market(
    traces: Mapping[str, SpotTrace],
    *,
    nodes: int,
    spot_usd_per_hour: Mapping[str, float | SpotPrices],
    on_demand_usd_per_hour: float,
    finer: int = 1,
) -> SpotMarket:
    """Put traces of one tick and beginning side by side, prices of one VM by zone; a tick has ``finer`` steps."""
    ticks = {trace.tick_s for trace in traces.values()}
    if len(ticks) != 1:
        told = ", ".join(f"{tick_s:g} s" for tick_s in sorted(ticks)) or "no trace"
        raise UsageError(f"traces: got ticks of {told}; give traces that were taken together, with one tick")
    for name, least, number in (("nodes", 1, nodes), ("finer", 1, finer)):
        if number < least:
            raise UsageError(f"{name}: got {number}; at least {least} is needed")
    step_s = ticks.pop() / finer
    count = min(trace.alive.size for trace in traces.values())
    alive = np.stack([trace.alive[:count] for trace in traces.values()])
    if alive.max() < nodes:
        raise UsageError(f"nodes: got {nodes}, but no zone ever has more than {alive.max()} VMs; ask for fewer")
    prices = np.empty((len(traces), count * finer))
    for row, zone in enumerate(traces):
        price = spot_usd_per_hour[zone]
        prices[row] = (
            price.at(np.arange(count * finer, dtype=np.float64) * step_s) if isinstance(price, SpotPrices) else price
        )
    if not (np.isfinite(prices) & (prices > 0)).all() or not 0 < on_demand_usd_per_hour < math.inf:
        raise UsageError("prices: dollars per hour above zero are needed")
    return SpotMarket(
        zones=tuple(traces),
        available=np.repeat(alive >= nodes, finer, axis=1),
        usd_per_hour=prices * nodes,
        on_demand_usd_per_hour=on_demand_usd_per_hour * nodes,
        step_s=step_s,
    )


def zone_of(path: Path | str) -> str:
    """Return the zone that a trace is of: its file's name up to the first underscore."""
    return Path(path).stem.partition("_")[0]


def region_of(zone: str) -> str:
    """Return the region of a zone: ``us-east-1`` of ``us-east-1a``."""
    found = _REGION.match(zone)
    return found[0] if found else zone


def name_place(place: int, zones: Sequence[str]) -> str:
    """Return what people call a place."""
    return {IDLE: "idle", ON_DEMAND: "on demand"}.get(place) or zones[place]


@dataclass(frozen=True)
class Situation:
    """What a policy sees at the beginning of a step; a zone that was just lost is no longer ``held``."""

    # In steps: ``step`` over, ``pending`` of the restart, ``since`` the last checkpoint, ``left`` to train.

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


#: Says where a job is in the step that begins: in a zone that is available, ``ON_DEMAND`` or ``IDLE``.
SpotPolicy = Callable[[Situation], int]


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


def replay(job: SpotJob, market: SpotMarket, choose: SpotPolicy, policy: str = "") -> SpotOutcome:
    """Run a job from the beginning of a market until it is done or its deadline is over; a policy has a name."""
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
        chosen = choose(Situation(job, step, current.place, pending, since, left, seen, tuple(prices)))
        if not (chosen in (IDLE, ON_DEMAND) or (0 <= chosen < len(seen) and seen[chosen])):
            raise UsageError(f"policy {policy}: chose place {chosen} at step {step}, where there is no VM")
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
    return SpotOutcome(job, market.zones, policy, (*stretches, current), left)
