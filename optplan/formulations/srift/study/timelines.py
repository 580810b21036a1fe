"""What happens to a run that loses VMs, from its beginning to its predicted end (figure 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from optplan.errors import UsageError
from optplan.formulations.srift.data.instance import BUDGET, DEADLINE, SriftInstance, SriftSolution, count_vms
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.study.replanning import (
    FleetStanding,
    Remainder,
    derive_spent_usd,
    name_vms,
    ready_after_s,
    unpaid_s,
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
    #: Samples per VM by type, where they are known; several where the VMs of a type differ.
    batches: Mapping[str, tuple[int, ...]]
    #: Done at its start and at its end.
    iterations_from: int
    iterations_to: int
    #: Spent by then.
    spent_from_usd: float
    spent_to_usd: float
    predicted: bool  # whether it is still to come

    @property
    def fleet(self) -> str:
        """Write the VMs for a reader: ``1 p3.8xlarge@512 + 8 g3.8xlarge@64``."""
        parts = []
        for name, count in self.vms.items():
            batches = "/".join(str(batch) for batch in self.batches.get(name, ()))
            parts.append(f"{count} {name}@{batches}" if batches else f"{count} {name}")
        return " + ".join(parts)


@dataclass(frozen=True)
class Timeline:
    """A run that loses VMs, from its beginning to its predicted end."""

    segments: tuple[TimelineSegment, ...]  # one after the other, without gaps
    lost: Mapping[str, int]  # VMs, by type
    interrupted_s: float  # when
    iterations: int  # of the whole run
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
    instance: SriftInstance,
    state: FleetStanding,
    remainder: Remainder,
    *,
    new: SriftSolution | None = None,
    old: SriftSolution | None = None,
) -> Timeline:
    """Lay a run out in time, up to the loss and, with a ``new`` fleet, beyond; the ``old`` one says batches."""
    draft = _Draft()
    draft.vms, draft.batches = state.vms, {} if old is None else _batches(old)
    if old is not None and count_vms(old.groups) != state.vms:
        had, has = name_vms(count_vms(old.groups)), name_vms(state.vms) or "no VMs"
        raise UsageError(f"old: the fleet has {had}, but the state counts {has}, running and lost")
    ready_s, spent_usd = ready_after_s(instance, state), derive_spent_usd(instance, state)
    paid_s = state.elapsed_s - unpaid_s(instance, state)
    launch_usd = spent_usd * ready_s / paid_s if instance.launch_billed and paid_s else 0.0
    draft.add(Happening.LAUNCH, ready_s, spent_usd=launch_usd)
    draft.add(
        Happening.TRAIN, state.elapsed_s - ready_s, iterations=state.iterations_done, spent_usd=spent_usd - launch_usd
    )
    draft.predicted, draft.vms = True, dict(state.running)
    draft.add(
        Happening.PAUSE, state.pause_s, iterations=-state.iterations_lost, spent_usd=remainder.used[BUDGET] - spent_usd
    )
    if new is not None:
        draft.vms, draft.batches = count_vms(new.groups), _batches(new)
        measures = evaluate(remainder.instance, new).measures
        launch_s, usd_per_s = measures["launch_s"], measures["cost_usd"] / measures["billed_s"]
        launch_usd = usd_per_s * launch_s if instance.launch_billed else 0.0
        draft.add(Happening.LAUNCH, launch_s, spent_usd=launch_usd)
        draft.add(
            Happening.TRAIN,
            measures["training_s"],
            iterations=remainder.instance.iterations,
            spent_usd=measures["cost_usd"] - launch_usd,
        )
    return Timeline(tuple(draft.segments), dict(state.lost), state.elapsed_s, instance.iterations, instance.limits)


class _Draft:
    """A timeline in the making: segments are added at its end; those that take no time are left out."""

    def __init__(self) -> None:
        self.segments: list[TimelineSegment] = []
        self.vms: Mapping[str, int] = {}
        self.batches: Mapping[str, tuple[int, ...]] = {}
        self.predicted = False
        self._now_s, self._done, self._spent_usd = 0.0, 0, 0.0

    def add(self, happening: Happening, seconds: float, *, iterations: int = 0, spent_usd: float = 0.0) -> None:
        start_s, done, spent = self._now_s, self._done, self._spent_usd
        self._now_s, self._done, self._spent_usd = start_s + seconds, done + iterations, spent + spent_usd
        if seconds > 0:
            self.segments.append(
                TimelineSegment(
                    start_s=start_s,
                    end_s=self._now_s,
                    happening=happening,
                    vms=self.vms,
                    batches=self.batches,
                    iterations_from=done,
                    iterations_to=self._done,
                    spent_from_usd=spent,
                    spent_to_usd=self._spent_usd,
                    predicted=self.predicted,
                )
            )


def _batches(fleet: SriftSolution) -> dict[str, tuple[int, ...]]:
    batches: dict[str, tuple[int, ...]] = {}
    for group in fleet.groups:
        batches[group.type] = (*batches.get(group.type, ()), group.batch)
    return batches
