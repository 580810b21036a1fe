"""What the calculator knows: the stated instance, what was seen of each class, and the classes that came since.

What is written down of whatever goes on after it was stopped: some of its attributes, as plain data.

What jobs are seen to do is told as it happens: arrivals, speeds, completions.

Streams and the cluster's simulation are told by the same piece, so that they learn the same from the same jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from optplan.errors import DataError, nearest_name_hint
from optplan.execution.online.estimates import (
    ClassEstimate,
    estimate_size,
    estimate_speedups,
    find_speeds,
    mean_row,
    predict,
)
from optplan.execution.online.messages import (
    Arrival,
    Completion,
    HintsReported,
    Measurement,
    NodeStart,
    OnlineEvent,
    Run,
    Terms,
)
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.instances.job_logs.speedups import read_assumption
from optplan.units import SECONDS_PER_HOUR


def write_state(owner: object, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes, of which ``kinds`` says what they are, as plain data."""
    # Loaded on use: most who calculate never write.
    from pydantic_core import to_jsonable_python

    return {name: to_jsonable_python(getattr(owner, name)) for name in kinds}


def read_state(owner: object, kinds: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Set attributes to what :func:`write_state` returned of them."""
    from pydantic import TypeAdapter

    for name, kind in kinds.items():
        setattr(owner, name, TypeAdapter(kind).validate_python(state[name]))


#: What is written down, by attribute.
_WRITTEN = {
    "_instance_hash": str,
    "now_s": float,
    "urgent": str,
    "heard": dict[str, None],
    "classes": dict[str, ClassEstimate],
}
#: Least rate of a class that stays known: no problem has one of zero.
_LEAST_RATE = 1e-12


class Knowledge:
    """What is known of a stream of jobs. It reads no clock: time passes where a moment is given.

    ``classes`` is what was seen of each class, ``urgent`` why widths should be calculated again at once, empty where
    they need not, ``heard`` of which classes something was heard since widths were last looked at; moments are seconds
    since 1970.
    """

    def __init__(self, instance: BoaInstance, terms: Terms, *, now_s: float) -> None:
        self.stated, self.terms, self._window_s = instance, terms, terms.window_h * SECONDS_PER_HOUR
        self.now_s = now_s
        self.urgent, self._instance_hash = "", instance.content_hash()
        self.heard: dict[str, None] = {}
        window_h = terms.window_h  # stated rates and sizes count as if they had been seen
        self.classes: dict[str, ClassEstimate] = {
            name: ClassEstimate(
                each.arrival_rate_per_hour * window_h, window_h, terms.stated_jobs, since_s=now_s, aged_s=now_s
            )
            for name, each in instance.classes.items()
        }
        self._known: BoaInstance | None = None
        # Of the known instance: by class, type, GPUs and epoch, the type, and how much faster that epoch is than the
        # mean one; what is there was not refused.
        self._factors: dict[tuple[str, str | None, int, int | None], tuple[str, float]] = {}
        # By class: after how many changes it was estimated last, and what.
        self._estimated: dict[str, tuple[int, JobClass]] = {}
        #: By class, the rate that counts while jobs wait; empty while none does.
        self.queued: dict[str, float] = {}

    def take(self, events: Iterable[OnlineEvent], now_s: float) -> list[DataError | None]:
        """Take what happened, as :meth:`~optplan.execution.online.calculator.WidthCalculator.take` says."""
        self.advance(now_s)
        refused: list[DataError | None] = []
        for event in events:
            try:
                self._take(event)
                if not isinstance(event, NodeStart):
                    self.heard[event.job_class] = None
                refused.append(None)
            except DataError as error:
                refused.append(error)
        return refused

    def advance(self, now_s: float) -> None:
        """Let time pass until now; new classes that were not heard of for long are forgotten."""
        if now_s == self.now_s:
            return
        window_h = self.terms.window_h
        if now_s < self.now_s:  # a clock that was set back: no time has passed
            for estimate in self.classes.values():
                estimate.age(self.now_s, window_h)
                estimate.aged_s = now_s
        else:
            new = [(name, each) for name, each in self.classes.items() if each.is_new]
            for name in [name for name, each in new if each.is_forgotten(now_s, window_h)]:
                del self.classes[name]
                self._known = None
        self.now_s = now_s

    def _take(self, event: OnlineEvent) -> None:
        at_s = self.now_s if event.at_s is None else min(event.at_s, self.now_s)
        if isinstance(event, Measurement):  # what comes most
            self.see_speed(event.job_class, event.gpus, event.gpu_type, event.speed, event.epoch, at_s)
            return
        if isinstance(event, NodeStart):  # which says nothing of jobs
            types = self.stated.gpu_types
            if (event.gpu_type or (None if len(types) > 1 else next(iter(types)))) not in types:
                raise DataError("gpu_type", f"got {event.gpu_type!r}", f"one of {', '.join(types)} is needed")
            return
        weight = self._weigh(at_s, self.now_s)
        if isinstance(event, Arrival):
            estimate = self._require_known_or_new(event.job_class)
            estimate.age(self.now_s, self.terms.window_h)
            if at_s < estimate.since_s and estimate.is_new:
                estimate.watched_h += self.terms.window_h * (self._weigh(estimate.since_s, self.now_s) - weight)
                estimate.since_s = at_s
            if at_s >= estimate.since_s:  # what lies before the start is in the stated rate
                estimate.arrivals += weight
            return
        estimate = self._require_known(event.job_class)
        estimate.age(self.now_s, self.terms.window_h)
        instance = self.known
        on = next(iter(instance.classes[event.job_class].speedup))
        if isinstance(event, Completion):
            for what, runs in (("ran", event.ran), ("held", event.held)):
                for place, run in enumerate(runs):
                    self._require_type(f"{what}.{place}.gpu_type", event.job_class, run.gpu_type)
            estimate.see_completion(event.ran, on, weight, whole=event.whole)
        elif isinstance(event, HintsReported):
            self._require_type("gpu_type", event.job_class, event.gpu_type)
            predicted = event.hints.speedup(self.terms.gpus_per_node)
            if predicted is not None:  # refuses what cannot be predicted from
                widths = instance.allowed_widths(event.job_class, event.gpu_type or on)
                predict(predicted, widths, instance.classes[event.job_class].reference_width)
            if (event.gpu_type or on) not in estimate.hints:
                self.urgent = f"the first hints for class {event.job_class}"
            estimate.see_hints(event.hints, event.gpu_type or on)

    def see_speed(
        self, name: str, gpus: int, gpu_type: str | None, speed: float, epoch: int | None, at_s: float
    ) -> None:
        """Take what a measurement says: most of what is told, so that its class is aged no more often than it must."""
        on, per_epoch = self._factors.get((name, gpu_type, gpus, epoch)) or self._find_epoch_factor(
            name, gpu_type, gpus, epoch
        )
        estimate = self.classes[name]
        if at_s - estimate.aged_s > self._window_s:
            estimate.age(at_s, self.terms.window_h)
        estimate.see_speed(on, gpus, speed / per_epoch, self._weigh(at_s, estimate.aged_s))
        self.heard[name] = None

    def _weigh(self, at_s: float, than_s: float) -> float:
        """Return what something seen at a moment weighs beside what is seen at another."""
        return math.exp((at_s - than_s) / SECONDS_PER_HOUR / self.terms.window_h)

    def _require_known_or_new(self, name: str) -> ClassEstimate:
        """Return the estimate of a class; its first arrival makes it known."""
        if name not in self.classes:
            new = sum(estimate.is_new for estimate in self.classes.values())
            if new >= self.terms.most_classes:
                problem = f"{name!r} would be new class number {new + 1}; {self.terms.most_classes} are allowed"
                fix = "are names of jobs taken for classes? else raise most_classes"
                raise DataError("job_class", problem, f"{fix}; {nearest_name_hint(name, self.classes)}")
            self.classes[name] = ClassEstimate(
                arrivals=0.0,
                watched_h=self.terms.new_watched_h,
                stated_jobs=1.0,
                is_new=True,
                since_s=self.now_s,
                aged_s=self.now_s,
            )
            self._known = None
            self.urgent = f"the first job of class {name}"
        return self.classes[name]

    def _require_known(self, name: str) -> ClassEstimate:
        if name not in self.classes:
            fix = f"tell of an arrival first, which makes a class known; {nearest_name_hint(name, self.classes)}"
            raise DataError("job_class", f"there is no class {name!r}", fix)
        return self.classes[name]

    def _require_type(self, path: str, name: str, gpu_type: str | None) -> None:
        types = self.known.classes[name].speedup
        if gpu_type is None and len(types) > 1:
            raise DataError(path, "is missing", f"class {name} runs on {', '.join(types)}; say which it was")
        if gpu_type is not None and gpu_type not in types:
            raise DataError(path, f"got {gpu_type!r}", f"class {name} runs on {', '.join(types)}")

    def _find_epoch_factor(self, name: str, gpu_type: str | None, gpus: int, epoch: int | None) -> tuple[str, float]:
        """Return the type that was measured, and by how much its speedup in that epoch is above the mean one there.

        A width so far beyond all allowed ones that it is none is refused: estimates are kept by width.
        """
        self._require_known(name)
        self._require_type("gpu_type", name, gpu_type)
        job_class, most = self.known.classes[name], int(self.known.options(name).widths.max())
        if gpus > 2 * most:
            raise DataError("gpus", f"got {gpus}", f"class {name} may hold up to {most}; allow more in the instance")
        on, factor = gpu_type or next(iter(job_class.speedup)), 1.0
        if epoch is not None:
            if epoch > job_class.num_epochs:
                raise DataError("epoch", f"got {epoch}", f"jobs of {name} have {job_class.num_epochs} epochs")
            curve, widths = job_class.speedup[on], self.known.allowed_widths(name, on)
            nearest = widths[[int(np.argmin(np.abs(widths - gpus)))]]
            rows = curve.at(nearest)
            factor = float(rows[min(epoch, len(rows)) - 1, 0] / mean_row(curve, nearest)[0])
        found = self._factors[name, gpu_type, gpus, epoch] = on, factor
        return found

    @property
    def known(self) -> BoaInstance:
        """The instance with the classes that came since, as they were stated to begin."""
        if self._known is None:
            new = {name: self._state_new() for name, estimate in self.classes.items() if estimate.is_new}
            self._known = self.stated.replace(classes={**self.stated.classes, **new}) if new else self.stated
            self._factors, self._estimated = {}, {}
        return self._known

    def _state_new(self) -> JobClass:
        """Return what a class is taken for of which nothing is known."""
        stated = self.stated
        sizes = [job_class.size_gpu_hours for job_class in stated.classes.values()]
        most = max(int(stated.options(name).widths.max()) for name in stated.classes)
        only = stated.widths.rule() if stated.widths is not None and stated.widths.max is not None else None
        gpu_type = next(iter(stated.gpu_types))
        return JobClass(
            arrival_rate_per_hour=1.0 / self.terms.new_watched_h,
            epoch_size_gpu_hours=[self.terms.new_size_gpu_hours or float(np.median(sizes))],
            speedup={gpu_type: read_assumption(self.terms.new_speedup)},
            rescale_s=float(np.median([job_class.rescale_s for job_class in stated.classes.values()])),
            widths=Widths(max=most) if only is None else Widths(only=only),
        )

    def rate_per_hour(self, name: str) -> float:
        """Return the estimated rate of a class, or that of its queue."""
        rate = self.queued.get(name)
        return max(
            self.classes[name].rate_per_hour(self.now_s, self.terms.window_h) if rate is None else rate, _LEAST_RATE
        )

    def estimate_class(self, name: str) -> JobClass:
        """Return a class as its jobs are estimated now; how often they come is as it was stated."""
        known, estimate = self.known, self.classes[name]
        estimate.age(self.now_s, self.terms.window_h)
        made, found = self._estimated.get(name, (-1, known.classes[name]))
        if made != estimate.changes:
            job_class = known.classes[name]
            speedups = estimate_speedups(known, name, estimate, self.terms.gpus_per_node)
            size = estimate_size(job_class, estimate, find_speeds(speedups, estimate.hours))
            sizes = job_class.epoch_size_gpu_hours * (size / job_class.size_gpu_hours)
            found = job_class.replace(epoch_size_gpu_hours=sizes, speedup=speedups)
            self._estimated[name] = estimate.changes, found
        return found

    def estimate(self) -> BoaInstance:
        """Return the instance as it is estimated now."""
        classes = {
            name: self.estimate_class(name).replace(arrival_rate_per_hour=self.rate_per_hour(name))
            for name in self.classes
        }
        return self.known.replace(classes=classes)

    def count_held(self, runs: Iterable[Run]) -> float:
        """Return what was held in the budget's unit times hours."""
        return math.fsum(self._price(run) * run.seconds / SECONDS_PER_HOUR for run in runs)

    def _price(self, run: Run) -> float:
        """Return what GPUs take of the budget, in its unit."""
        known, on = self.stated, run.gpu_type or next(iter(self.stated.gpu_types))
        return float(known.paid_gpus(on, np.array([float(run.gpus)]))[0]) * known.prices_on_demand[on]

    def to_json_data(self) -> dict[str, Any]:
        """Return all that has to be written down, as plain data."""
        return write_state(self, _WRITTEN)

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Take over what :meth:`to_json_data` returned; say whether the instance is another since.

        Classes that the instance has now and that were seen before go on as they were seen.
        """
        now_s, stated, instance_hash = self.now_s, self.classes, self._instance_hash
        read_state(self, _WRITTEN, state)
        for estimate in stated.values():
            estimate.aged_s = self.now_s
        for name, estimate in self.classes.items():
            estimate.is_new = name not in stated
        self.classes = stated | self.classes
        is_changed, self._instance_hash = self._instance_hash != instance_hash, instance_hash
        if is_changed:
            self.urgent = "the instance was changed"
        self.advance(now_s)
        return is_changed


#: What takes events that have happened by a moment.
Taking: TypeAlias = Callable[[Sequence[OnlineEvent], float], object]


class Witness:
    """Follows jobs by name, and tells who takes events of what they do; speeds go to what is known straight away.

    ``classes`` has the class of every job that is not over.
    """

    def __init__(self, knowledge: Knowledge, take: Taking) -> None:
        self._knowledge, self._take = knowledge, take
        # By class that is stated: how large each epoch is beside the mean one.
        self._parts: dict[str, list[float]] = {
            name: (each.epoch_size_gpu_hours / each.epoch_size_gpu_hours.mean()).tolist()
            for name, each in knowledge.stated.classes.items()
        }
        # By job that is not over, too: by place what it ran there, and what it held until it left it.
        self.classes: dict[str, str] = {}
        self._ran: dict[str, dict[tuple[int, str | None], float]] = {}
        self._held: dict[str, list[Run]] = {}

    def note_arrival(self, job: str, job_class: str, at_s: float, committed: float | None) -> None:
        """Note that a job was submitted, and what it was to take of the budget."""
        self.classes[job], self._ran[job], self._held[job] = job_class, {}, []
        self._tell(Arrival, f"{job} arrived", at_s, job_class=job_class, committed=committed)

    def note_run(self, job: str, gpus: int, seconds: float, gpu_type: str | None = None) -> None:
        """Note that a job trained on GPUs, and that what it did is kept."""
        ran, place = self._ran[job], (gpus, gpu_type)
        ran[place] = ran.get(place, 0.0) + seconds

    def note_epoch(
        self, job: str, epoch: int, gpus: int, seconds: float, at_s: float, gpu_type: str | None = None
    ) -> None:
        """Note how long a whole epoch took, from 1; where nobody states how large it is, it is as large as others."""
        self.note_run(job, gpus, seconds, gpu_type)
        name = self.classes[job]
        parts = self._parts.get(name, ())
        part, known = (parts[epoch - 1], epoch) if epoch <= len(parts) else (1.0, None)
        with suppress(DataError):  # what is refused of others, too
            self._knowledge.see_speed(name, gpus, gpu_type, part / seconds, known, at_s)

    def note_held(self, job: str, gpus: int, seconds: float, gpu_type: str | None = None) -> None:
        """Note for how long a job held what it has left, starts and pauses included."""
        self._held[job].append(Run.of_sound(gpus=gpus, gpu_type=gpu_type, seconds=seconds))

    def note_end(self, job: str, at_s: float, *, whole: bool) -> None:
        """Note that a job is over, and whether it did all of its work."""
        ran, held = self._ran.pop(job), tuple(self._held.pop(job))
        runs = tuple(Run.of_sound(gpus=gpus, gpu_type=kind, seconds=seconds) for (gpus, kind), seconds in ran.items())
        known = {"job_class": self.classes.pop(job), "ran": runs, "whole": whole and bool(runs), "held": held}
        self._tell(Completion, f"{job} ended", at_s, **known)

    def note_start(self, node: str, gpus: int, seconds: float, at_s: float, gpu_type: str | None = None) -> None:
        """Note how long a node took to start: nobody holds it meanwhile, and it is paid."""
        self._tell(NodeStart, node, at_s, gpus=gpus, seconds=seconds, gpu_type=gpu_type)

    def _tell(self, kind: type[OnlineEvent], which: str, at_s: float, **known: Any) -> None:  # noqa: ANN401 - its fields
        """Tell of an event as of when it happened, or of now where that is told late."""
        event = kind.of_sound(kind=kind.model_fields["kind"].default, id=which, at_s=at_s, **known)
        self._take([event], max(at_s, self._knowledge.now_s))
