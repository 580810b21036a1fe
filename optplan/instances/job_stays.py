"""Who waited for GPUs and who held them, from when until when, by a log or a replay; and how many that is at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.instances.job_traces import JobTrace
from optplan.schema import FloatArray, IntArray
from optplan.units import SECONDS_PER_HOUR


@dataclass(frozen=True, eq=False)
class Level:
    """How many GPUs at once: ``gpus`` (T,) from each of ``times_s`` (T,) on; none before the first."""

    times_s: FloatArray
    gpus: FloatArray

    @classmethod
    def of(cls, from_s: FloatArray, until_s: FloatArray, gpus: FloatArray) -> Level:
        """Add up spans (N,) of time, each of so many GPUs."""
        at_s, change = np.concatenate([from_s, until_s]), np.concatenate([gpus, -gpus])
        order = np.argsort(at_s, kind="stable")
        times_s, gpus = at_s[order], np.cumsum(change[order])
        lasts = np.flatnonzero(np.diff(times_s, append=np.inf))  # of several changes at once
        return cls(times_s[lasts], gpus[lasts])

    @property
    def most(self) -> float:
        """The most at once."""
        return float(self.gpus.max(initial=0.0))

    def average(self, edges_s: FloatArray) -> FloatArray:
        """Return the time averages (B,) between edges (B + 1,)."""
        if not self.times_s.size:
            return np.zeros(edges_s.size - 1)
        passed = np.append(0.0, np.cumsum(self.gpus[:-1] * np.diff(self.times_s)))
        averages: FloatArray = np.diff(np.interp(edges_s, self.times_s, passed)) / np.diff(edges_s)
        return averages

    def enough(self, share: float, from_s: float, until_s: float) -> float:
        """Return the GPUs that are enough for a share of the time between two times, around all others."""
        times_s = np.concatenate([[from_s], self.times_s, [until_s]])
        gpus, lasted_s = np.append(0.0, self.gpus), np.diff(times_s)
        order = np.argsort(gpus, kind="stable")
        passed = np.cumsum(lasted_s[order]) >= share * lasted_s.sum() * (1.0 - 1e-9)
        return float(gpus[order[int(np.argmax(passed))]])


@dataclass(frozen=True, eq=False)
class Stays:
    """S times that jobs waited (``queued_s`` to ``begun_s``) and held GPUs (to ``ended_s``), seconds from the start."""

    classes: tuple[str, ...]
    class_index: IntArray
    queued_s: FloatArray
    begun_s: FloatArray
    ended_s: FloatArray
    gpus: FloatArray

    @classmethod
    def of(cls, trace: JobTrace) -> Stays | None:
        """Take the jobs of which a log says what they held; None without any; unknown waits are none."""
        known = np.flatnonzero(np.isfinite(trace.gpus * trace.run_s))
        if not known.size:
            return None
        arrive_s = trace.arrive_s[known]
        begun_s = arrive_s + np.nan_to_num(trace.wait_s[known])
        ended_s = begun_s + trace.run_s[known]
        return cls(trace.classes, trace.class_index[known], arrive_s, begun_s, ended_s, trace.gpus[known])

    def held(self, *names: str) -> Level:
        """Return the GPUs that jobs held: all, or those of some classes."""
        return self._add_up(self.begun_s, self.ended_s, names)

    def queued(self, *names: str) -> Level:
        """Return the GPUs that jobs waited for: all, or those of some classes."""
        return self._add_up(self.queued_s, self.begun_s, names)

    @property
    def span_s(self) -> tuple[float, float]:
        """When the first arrives, and when the last is over, a second later at least."""
        first_s = float(self.queued_s.min())
        return first_s, max(float(self.ended_s.max()), first_s + 1.0)

    def gpu_hours(self) -> FloatArray:
        """Return what each class held in all (C,)."""
        held_h = self.gpus * (self.ended_s - self.begun_s) / SECONDS_PER_HOUR
        return np.bincount(self.class_index, held_h, minlength=len(self.classes)).astype(np.float64)

    def _add_up(self, from_s: FloatArray, until_s: FloatArray, names: tuple[str, ...]) -> Level:
        places = [place for place, name in enumerate(self.classes) if name in names or not names]
        which = np.isin(self.class_index, places)
        return Level.of(from_s[which], until_s[which], self.gpus[which])
