"""Traces of spot VMs: how many were alive at each tick, and what they say about interruptions and availability.

A file is JSON, ``{"metadata": {"gap_seconds": 300}, "data": [4, 4, 3, ...]}``: VMs at each tick, of some number that
was wanted all the time. Traces of *preemption* count VMs that were held and replaced when lost; traces of
*availability* count VMs that could be had when asked for, and say nothing certain about those that are held.

A fall from one tick to the next is a loss of as many VMs; losses that are made up for within a tick are not seen, so
that a rate is, if anything, too low.

References
----------
Wu et al., "Can't Be Late: optimizing spot instance savings under deadlines", NSDI 2024; repository
skypilot-org/spot-traces, commit 221da1ab9bdfe7966da296265d7694d52dc0c5a6. The data pack's README, section 7, describes
the files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optplan.errors import DataError, UsageError, nearest_name_hint, show_value
from optplan.formulations.srift.data.instance import Interruptions, SriftInstance
from optplan.instances.plain_data import read_data
from optplan.schema import LARGEST_AMOUNT, IntArray, freeze
from optplan.units import SECONDS_PER_HOUR

#: VMs of a trace at a time, which the simulator tells apart.
MOST_VMS = 1_000_000
#: Share of intervals that hold the true rate, were losses a compound Poisson process.
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class SpotTrace:
    """VMs (T,) alive at each tick, every ``tick_s`` seconds, of those that were wanted all the time."""

    name: str
    tick_s: float
    alive: IntArray
    wanted: int

    @property
    def duration_s(self) -> float:
        """From the first tick to one after the last."""
        return self.alive.size * self.tick_s

    @property
    def losses(self) -> IntArray:
        """(T - 1,) VMs lost from each tick to the next."""
        return np.asarray(np.maximum(0, -np.diff(self.alive)), dtype=np.int64)


@dataclass(frozen=True)
class SpotEstimate:
    """What a trace says about its VMs."""

    interruptions_per_hour: float  #: Of a VM that is held.
    #: Ends of the 95 % interval, were losses a compound Poisson process, several at a time, at a constant rate.
    low: float
    high: float
    losses: int
    events: int  #: Ticks at which VMs were lost.
    vm_hours: float
    availability: float  #: Share of the wanted VM-hours.
    #: Until there is one in a lost one's place: VM-hours missing over losses (Little's law).
    replacement_s: float | None

    @property
    def events_per_vm_hour(self) -> float:
        """The rate with VMs that are lost together counted as one loss: for a fleet as large as the trace's."""
        return self.interruptions_per_hour * (self.events / self.losses if self.losses else 1.0)


def read_spot_trace(path: Path | str, *, wanted: int | None = None) -> SpotTrace:
    """Read a trace of one type of VM in one zone, of ``wanted`` VMs, or of the most that were alive."""
    path = Path(path)
    tick_s, ticks = read_ticks(path)
    if not isinstance(ticks, list) or len(ticks) < 2:
        raise DataError(str(path), "data has fewer than two ticks", "list the VMs alive at each tick")
    for number, count in enumerate(ticks):
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_VMS:
            problem = f"data[{number}] is {show_value(count)}; a number of VMs, from 0 to {MOST_VMS:,}, is needed"
            raise DataError(str(path), problem, "correct it")
    most = max(ticks)
    if wanted is not None and wanted > MOST_VMS:
        raise UsageError(f"wanted: got {show_value(wanted)}; up to {MOST_VMS:,} VMs are allowed")
    if wanted is not None and wanted < most:
        message = f"wanted: got {wanted}, but {path.name} has {most} VMs at a time; leave it out, or give at least that"
        raise UsageError(message)
    alive = freeze(np.array(ticks, dtype=np.int64))
    return SpotTrace(path.stem, tick_s, alive, most if wanted is None else wanted)


def read_ticks(path: Path) -> tuple[float, object]:
    """Read the seconds from one tick to the next, and what there is at each."""
    data = read_data(path)
    if not isinstance(data, dict):
        raise DataError(str(path), "is not an object with the fields metadata and data", "give a trace file")
    metadata = data.get("metadata")
    tick_s = metadata.get("gap_seconds") if isinstance(metadata, dict) else None
    if isinstance(tick_s, bool) or not isinstance(tick_s, int | float) or not 0 < tick_s <= LARGEST_AMOUNT:
        problem = f"metadata.gap_seconds is {show_value(tick_s)}; seconds above zero are needed"
        raise DataError(str(path), problem, "give the time from one tick to the next")
    return float(tick_s), data.get("data")


def estimate_spot(trace: SpotTrace) -> SpotEstimate:
    """Estimate how often VMs are lost, how long they are missed, and how many of those wanted there are."""
    # A VM alive at a tick is lost by the next with a probability p, and 1 - p = e^(-rate tick): that takes account of
    # when in a tick it is lost. A loss of several VMs at a time counts as one event in the interval.
    from scipy.stats import chi2

    losses = trace.losses
    at_risk = int(trace.alive[:-1].sum())
    if not at_risk:
        raise DataError(trace.name, "no VM was ever alive", "a rate needs a trace of VMs that were held")
    lost = int(losses.sum())
    clump = float((losses**2).sum() / lost) if lost else 1.0  # variance over mean of a compound Poisson count
    tail = (1.0 - CONFIDENCE) / 2.0
    events = lost / clump
    ends = (
        clump * (float(chi2.ppf(tail, 2.0 * events)) if lost else 0.0) / 2.0,
        clump * float(chi2.ppf(1.0 - tail, 2.0 * events + 2.0)) / 2.0,
    )
    tick_h = trace.tick_s / SECONDS_PER_HOUR
    rate, low, high = (_rate_per_hour(number / at_risk, tick_h) for number in (lost, *ends))
    had = int(trace.alive.sum())
    missing = trace.wanted * trace.alive.size - had
    return SpotEstimate(
        interruptions_per_hour=rate,
        low=low,
        high=high,
        losses=lost,
        events=int((losses > 0).sum()),
        vm_hours=had * tick_h,
        availability=had / (trace.wanted * trace.alive.size),
        replacement_s=missing * trace.tick_s / lost if lost else None,
    )


def set_interruptions(
    instance: SriftInstance,
    rates_per_hour: Mapping[str, float],
    *,
    interruptions: Interruptions | None = None,
) -> SriftInstance:
    """Fill rates of one VM into types by name; ``interruptions`` say what a loss does where the instance does not."""
    types = dict(instance.types)
    for name, per_hour in rates_per_hour.items():
        if name not in types:
            raise UsageError(f"type: no type of VM {name!r}; {nearest_name_hint(name, types)}")
        if not types[name].spot:
            raise UsageError(f"type: {name!r} is no spot VM, and is not interrupted; set types.{name}.spot first")
        types[name] = types[name].replace(interruptions_per_hour=per_hour)
    terms = interruptions or instance.interruptions
    if terms is None:
        message = f"interruptions: {instance.name!r} does not say what a loss does; give the time between checkpoints"
        raise UsageError(f"{message}, and of a restart")
    return instance.replace(types=types, interruptions=terms)


def _rate_per_hour(probability: float, tick_h: float) -> float:
    """Return the rate at which a VM is lost within a tick with a probability; infinite from a probability of 1 on."""
    return math.inf if probability >= 1.0 else -math.log1p(-probability) / tick_h
