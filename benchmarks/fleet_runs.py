"""A fleet that trains while VMs of it are lost and replaced: at random, or as a trace tells.

The rules are those of :mod:`optplan.formulations.srift.laws.iteration`, followed VM by VM: training needs the whole
fleet, an interruption undoes what was done since the last complete checkpoint, and a restart follows. What the closed
form does not have: a VM may be missing for a while before another one takes its place, the fleet waits for it (and pays
for the others meanwhile, unless it is handed back), and VMs of a trace are lost together.

With VMs replaced at once and lost at random, this is the closed form's own process, and its means are the same;
:func:`follow_runs` follows many runs of that process at once.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optplan.errors import UsageError
from optplan.formulations.srift.data.instance import Interruptions, SriftInstance, SriftSolution
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.laws.iteration import count_checkpoints
from optplan.schema import FloatArray, IntArray
from optplan.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from optplan.lab.spot.traces import SpotTrace


@dataclass(frozen=True)
class Outage:
    """A while in which the fleet is not whole; it may take no time, when a VM is replaced at once.

    Seconds are since the fleet was asked for; ``saved_usd`` is the price of the VMs that are missing, for as long as
    each is.
    """

    start_s: float
    end_s: float
    saved_usd: float


_NEVER = Outage(math.inf, math.inf, 0.0)


@dataclass(frozen=True)
class FleetRuns:
    """Runs of one fleet.

    ``time_s`` and ``cost_usd`` (N,) are from asking for the fleet to the end of the training, NaN for a run that a
    trace's end cut off; ``interruptions`` (N,) include restarts, ``waited_s`` (N,) the wait for the first VMs.
    """

    time_s: FloatArray
    cost_usd: FloatArray
    interruptions: IntArray
    waited_s: FloatArray

    @property
    def finished(self) -> float:
        """Share of the runs that were not cut off."""
        return float(np.isfinite(self.time_s).mean())

    def share_within(self, time_s: float) -> float:
        """Return the share of the runs that finished within a time; those that were cut off did not."""
        return float((np.nan_to_num(self.time_s, nan=math.inf) <= time_s).mean())


def follow_runs(
    work_s: float, rate_per_s: float, terms: Interruptions, *, samples: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return total seconds, those paid, and interruptions (N,) of runs, each from one interruption to the next."""
    stream = np.random.default_rng(seed)
    pace_s = terms.checkpoint_every_s + terms.checkpoint_s
    length_s = work_s + float(count_checkpoints(work_s, terms)) * terms.checkpoint_s
    total_s, billed_s, counts, done_s, waiting_s = np.zeros((5, samples))  # done: up to the last checkpoint
    active = np.arange(samples)
    while active.size:
        left_s = waiting_s[active] + length_s - done_s[active]
        gap_s = stream.exponential(1.0 / rate_per_s, active.size)
        passed_s = np.minimum(gap_s, left_s)
        total_s[active] += passed_s
        billed_s[active] += passed_s
        hit = gap_s < left_s
        active, passed_s = active[hit], passed_s[hit]
        reached_s = done_s[active] + np.maximum(0.0, passed_s - waiting_s[active])
        done_s[active] = np.floor(reached_s / pace_s) * pace_s
        counts[active] += 1
        if terms.restart_billed:
            waiting_s[active] = terms.restart_s
        else:
            total_s[active] += terms.restart_s
    return total_s, billed_s, counts


def sample_fleet(
    instance: SriftInstance,
    solution: SriftSolution,
    *,
    samples: int,
    seed: int = 0,
    replacement_s: float = 0.0,
) -> FleetRuns:
    """Run a fleet ``samples`` times, its VMs lost at random, each at its type's rate.

    The instance has ``interruptions``; a lost VM is replaced after ``replacement_s`` in the mean, exponentially
    distributed; zero: at once.
    """
    _require_least("replacement_s", replacement_s, 0.0)
    vms = [
        (
            instance.types[group.type].interruptions_per_hour / SECONDS_PER_HOUR,
            instance.types[group.type].price_usd_per_s,
        )
        for group in solution.groups
        for _ in range(group.count)
    ]
    stream = np.random.default_rng(seed)
    return _run_all(instance, solution, samples, lambda begin_s: _draw_outages(vms, replacement_s, begin_s, stream))


def replay_fleet(
    instance: SriftInstance,
    solution: SriftSolution,
    traces: Mapping[str, SpotTrace],
    *,
    samples: int,
    seed: int = 0,
) -> FleetRuns:
    """Run a fleet through traces, from moments drawn at random within the first of them.

    Of types without a trace the VMs stay. A run that begins too late to finish within a trace is cut off.
    """
    counts: dict[str, int] = {}
    for group in solution.groups:
        counts[group.type] = counts.get(group.type, 0) + group.count
    for name, trace in traces.items():
        if name not in counts:
            raise UsageError(f"traces: the fleet has no VM of type {name!r}; it has {', '.join(counts)}")
        if counts[name] > trace.wanted:
            message = f"traces: {trace.name} tells of {trace.wanted} VMs at a time, and the fleet has {counts[name]}"
            raise UsageError(f"{message} {name}")
    if not traces:
        raise UsageError("traces: there are none; give one by type of VM, or use sample_fleet")
    stream = np.random.default_rng(seed)
    end_s = min(trace.duration_s for trace in traces.values())
    missing = [
        (start_s, until_s, instance.types[name].price_usd_per_s)
        for name, trace in traces.items()
        for times in down_times(trace, stream=stream)[: counts[name]]
        for start_s, until_s in times
    ]
    missing.sort()

    def replay(_: float) -> Iterator[Outage]:
        begin_s = float(stream.uniform(0.0, end_s))
        ahead = ((start - begin_s, end - begin_s, price) for start, end, price in missing if end > begin_s)
        yield from _merge((max(0.0, start), end, price) for start, end, price in ahead)
        yield Outage(end_s - begin_s, math.inf, 0.0)

    return _run_all(instance, solution, samples, replay)


def _run_all(
    instance: SriftInstance, solution: SriftSolution, samples: int, make_outages: Callable[[float], Iterator[Outage]]
) -> FleetRuns:
    terms = instance.interruptions
    if terms is None:
        raise UsageError(
            f"interruptions: {instance.name!r} does not say what a loss does; give the field interruptions"
        )
    _require_least("samples", samples, 1)
    measures = evaluate(instance, solution).measures
    launch_s, usd_per_s = measures["launch_s"], measures["price_usd_per_hour"] / SECONDS_PER_HOUR
    runs = [_run_once(measures["work_s"], terms, make_outages(launch_s), launch_s, usd_per_s) for _ in range(samples)]
    unpaid_usd = 0.0 if instance.launch_billed else usd_per_s * launch_s
    times, costs, counts, waits = (np.array(column) for column in zip(*runs, strict=True))
    return FleetRuns(times, costs - unpaid_usd, counts.astype(np.int64), waits)


def _run_once(
    work_s: float, terms: Interruptions, outages: Iterator[Outage], launch_s: float, usd_per_s: float
) -> tuple[float, float, int, float]:
    """Follow one run; return its time, its cost from the beginning, its interruptions and its waiting time."""
    pace_s = terms.checkpoint_every_s + terms.checkpoint_s
    length_s = work_s + float(count_checkpoints(work_s, terms)) * terms.checkpoint_s
    now_s, saved_s, count, waited_s, unpaid_usd = launch_s, 0.0, 0, 0.0, 0.0
    restarting, upcoming = False, next(outages, _NEVER)
    while True:
        # The fleet is whole when no outage goes on; what is past is dropped.
        whole_s, missing_usd = now_s, 0.0
        while upcoming.start_s <= whole_s < math.inf:
            if upcoming.end_s > whole_s:
                lasts_s = upcoming.end_s - upcoming.start_s
                share = (upcoming.end_s - whole_s) / lasts_s if upcoming.saved_usd else 0.0
                whole_s, missing_usd = upcoming.end_s, missing_usd + share * upcoming.saved_usd
            if whole_s < math.inf:
                upcoming = next(outages, _NEVER)
        waited_s += whole_s - now_s
        unpaid_usd += missing_usd if terms.restart_billed else (whole_s - now_s) * usd_per_s
        if math.isinf(whole_s):
            return math.nan, math.nan, count, math.nan
        now_s = whole_s
        pause_s = terms.restart_s if restarting else 0.0
        if pause_s and not terms.restart_billed:
            now_s, pause_s, restarting = now_s + pause_s, 0.0, False
            unpaid_usd += terms.restart_s * usd_per_s
            continue  # VMs are asked for again, and need not be there
        lost_s = upcoming.start_s
        if lost_s >= now_s + pause_s + length_s - saved_s:
            now_s += pause_s + length_s - saved_s
            return now_s, usd_per_s * now_s - unpaid_usd, count, waited_s
        reached_s = saved_s + max(0.0, lost_s - now_s - pause_s)
        saved_s = math.floor(reached_s / pace_s) * pace_s
        now_s, count, restarting = lost_s, count + 1, True


def _draw_outages(
    vms: Sequence[tuple[float, float]], replacement_s: float, begin_s: float, stream: np.random.Generator
) -> Iterator[Outage]:
    """Draw the outages of VMs (rate per second and price per second of each) one after the other."""

    def draw() -> Iterator[tuple[float, float, float]]:
        losses = [(begin_s + float(stream.exponential(1.0 / rate)), vm) for vm, (rate, _) in enumerate(vms) if rate > 0]
        heapq.heapify(losses)
        while losses:
            lost_s, vm = losses[0]
            rate, price = vms[vm]
            back_s = lost_s + (float(stream.exponential(replacement_s)) if replacement_s else 0.0)
            heapq.heapreplace(losses, (back_s + float(stream.exponential(1.0 / rate)), vm))
            yield lost_s, back_s, price

    return _merge(draw())


def _merge(missing: Iterator[tuple[float, float, float]]) -> Iterator[Outage]:
    """Join what is missing (start, end and price per second, by start) where it overlaps."""
    current: Outage | None = None
    for start_s, end_s, price in missing:
        saved_usd = (end_s - start_s) * price
        if current is None or start_s > current.end_s:
            if current is not None:
                yield current
            current = Outage(start_s, end_s, saved_usd)
        else:
            current = Outage(current.start_s, max(current.end_s, end_s), current.saved_usd + saved_usd)
    if current is not None:
        yield current


def _require_least(name: str, number: float, least: float) -> None:
    if not (math.isfinite(number) and number >= least):
        raise UsageError(f"{name}: got {number!r}; a number of at least {least:g} is needed")


def down_times(trace: SpotTrace, *, stream: np.random.Generator) -> list[list[tuple[float, float]]]:
    """Tell the wanted VMs of a trace apart: by VM, (start, end) of the times when it is missing, in seconds.

    The trace says how many VMs are lost, not which: they are drawn from those alive. A new VM takes the place that has
    been empty for longest. The last time may end with the trace.
    """
    found: list[list[tuple[float, float]]] = [[] for _ in range(trace.wanted)]
    first = int(trace.alive[0])
    alive, empty = list(range(first)), [(place, 0.0) for place in range(first, trace.wanted)]
    for tick, change in enumerate(np.diff(trace.alive).tolist(), start=1):
        now_s = tick * trace.tick_s
        for _ in range(change):
            place, since_s = empty.pop(0)
            found[place].append((since_s, now_s))
            alive.append(place)
        empty += [(alive.pop(int(stream.integers(len(alive)))), now_s) for _ in range(-change)]
    for place, since_s in empty:
        found[place].append((since_s, trace.duration_s))
    return found
