"""The replay: arrivals, epochs and rounds in the order of time, each at its exact time.

What happens at one time happens at once: all of it is applied, in the order of the jobs, before the policy is asked.
So the order in which simultaneous jobs stand in a file, or in which events were scheduled, changes nothing.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from optplan.errors import DataError, InternalError, UsageError
from optplan.execution.clock import VirtualClock
from optplan.instances.job_stays import Stays
from optplan.lab.cluster.jobs import (
    Application,
    Job,
    PatientPolicy,
    SchedulingPolicy,
    Sight,
    SizingPolicy,
    Spread,
    Wish,
    check_jobs,
    consolidate,
    least_gpu_s,
    spread_of,
)
from optplan.lab.cluster.nodes import Nodes
from optplan.lab.cluster.outcome import Bins, Outcome, Usage
from optplan.lab.cluster.world import Interference, NodeLosses, World

#: The event that is nobody's: the policy's next round. Those below it are interruptions.
_ROUND = -1
#: After so many interruptions a job is given up: it might never complete an epoch.
_MOST_INTERRUPTIONS = 1000
#: What rounding may leave of an epoch, and of a time, relative to it.
_ROUNDING = 1e-12
#: GPUs that a job may need: far above all profiles, and few enough to list the nodes on which they are.
_MOST_GPUS = 10_000


def replay(
    jobs: Iterable[Job],
    policy: SchedulingPolicy,
    *,
    gpus_per_node: int,
    nodes: int | None = None,
    start_s: float = 0.0,
    world: World | None = None,
    seed: int = 0,
) -> Outcome:
    """Replay jobs, which are changed, under a policy, a new one for each replay; return the checked outcome."""
    # Without ``nodes`` as many are rented as are needed; a policy that chooses their number begins with one.
    ordered = sorted(jobs, key=lambda job: (job.submitted_s, job.name))
    check_jobs(ordered)
    if policy.interval_s is not None and not (math.isfinite(policy.interval_s) and policy.interval_s > 0.0):
        raise UsageError(f"interval_s: got {policy.interval_s!r}; seconds above zero are allowed")
    if nodes is None and isinstance(policy, SizingPolicy):
        nodes = 1
    world = world or World()
    if nodes is not None and world.reclaim_s and not isinstance(policy, SizingPolicy):
        problem = f"got {world.reclaim_s:g}, and {policy.name} gives none of its {nodes} nodes back"
        raise DataError("reclaim_s", problem, "let nodes be rented when they are needed (no --nodes), or leave it out")
    there = Nodes(gpus_per_node, nodes, start_s=start_s, warm_start_s=world.warm_start_s, reclaim_s=world.reclaim_s)
    outcome = _Cluster(ordered, policy, there, world, seed).run()
    outcome.check()
    return outcome


class _Course(NamedTuple):
    """What each epoch takes (E,), and what all before it do (E + 1,): seconds, or GPU-seconds."""

    each: list[float]
    until: list[float]

    @classmethod
    def of(cls, each: Iterable[float]) -> _Course:
        """Add up."""
        listed = list(each)
        return cls(listed, list(accumulate(listed, initial=0.0)))

    def at(self, epoch: int, left: float) -> float:
        """Return what has been done when so much of an epoch is left."""
        return self.until[epoch + 1] - left * self.each[epoch]


class _Cluster:
    """The state of a replay."""

    def __init__(self, jobs: Sequence[Job], policy: SchedulingPolicy, nodes: Nodes, world: World, seed: int) -> None:
        self._jobs, self._policy, self._nodes, self._world, self._seed = jobs, policy, nodes, world, seed
        self._sizing = policy if isinstance(policy, SizingPolicy) else None
        # Nodes that come after a start are noticed when the policy is asked next: then it had better be asked often.
        # Where jobs slow one another down, nobody knows when they end an epoch.
        is_plain = not (world.interference or (nodes.is_fixed and nodes.start_s and world.takes_nodes))
        self._patient = policy if isinstance(policy, PatientPolicy) and is_plain else None
        self._number = {job: number for number, job in enumerate(jobs)}
        self._clock: VirtualClock[int] = VirtualClock()
        self._active: dict[Job, None] = {}
        self._running = 0
        self._changed: set[int] = set()
        self._round: int | None = None
        self._next_round = 0
        # By job: its next event, how many epochs it will have done then, and the times of its epochs.
        self._ticket: list[int | None] = [None] * len(jobs)
        self._next_done = [0] * len(jobs)
        self._course: list[_Course] = [_Course([], [])] * len(jobs)
        # By application and how its GPUs are spread: the same of a job of size 1.
        self._courses: dict[tuple[Application, Spread], _Course | None] = {}
        # Jobs that choose their batch by what they learn.
        self._learners = {number: job.agent for number, job in enumerate(jobs) if job.agent is not None}
        self._timeline = Usage(nodes.rented)
        # By job: since when it waits, or until when it waited for what it holds, and since when it holds that.
        self._since_s = [(job.submitted_s, job.submitted_s) for job in jobs]
        self._stays = array("d")  # rows of job, waits since, holds since, until and GPUs: there may be many
        self._interruptions = NodeLosses(world, seed, self._clock, nodes)
        self._interference = Interference(world.interference)
        self._work = Bins()
        # By application: GPU-seconds of each epoch on the fewest GPUs on which it runs.
        self._least_gpu_s: dict[Application, _Course] = {}

    def run(self) -> Outcome:
        """Let everything happen, and return what came of it."""
        clock = self._clock
        for number, job in enumerate(self._jobs):
            clock.schedule(job.submitted_s, number)
        while self._goes_on:
            at_s = clock.next_at
            happened: list[int] = []
            while clock.next_at == at_s:
                item = clock.advance()
                assert item is not None
                happened.append(item)
            happened.sort()
            self._apply(happened)
            self._ask(rounds=_ROUND in happened)
            if self._round is not None and not self._active and len(clock) - self._interruptions.num_events == 1:
                clock.cancel(self._round)  # nobody is there, and nobody will come
            if self._nodes.came or self._nodes.went:
                self._interruptions.watch_nodes()
            self._note()
        for job in list(self._active):
            self._drop(job, f"{self._policy.name} never gave it the GPUs to go on, and nothing else was to happen")
        self._note(last=True)
        times_s, used, rented = self._timeline.columns()
        return Outcome(
            policy=self._policy.name,
            gpus_per_node=self._nodes.gpus_per_node,
            jobs=self._jobs,
            times_s=times_s,
            gpus_used=used,
            nodes_rented=rented,
            work_gpu_s=self._work.close(float(times_s[-1])),
            stretch_s=self._work.stretch_s,
            stays=self._list_stays(),
            reclaimed_s=self._nodes.reclaimed_s,
        )

    def _list_stays(self) -> Stays:
        """Return who waited for GPUs and held them when, by application."""
        classes = tuple(sorted({job.application for job in self._jobs}))
        places = {name: place for place, name in enumerate(classes)}
        of_job = np.array([places[job.application] for job in self._jobs], dtype=np.int64)
        number, queued_s, begun_s, ended_s, gpus = np.frombuffer(self._stays).reshape(-1, 5).T
        return Stays(classes, of_job[number.astype(np.int64)], queued_s, begun_s, ended_s, gpus)

    @property
    def _goes_on(self) -> bool:
        """Whether something is to happen to jobs, or a round is to come."""
        return len(self._clock) > self._interruptions.num_events

    def _apply(self, numbers: Sequence[int]) -> None:
        """Apply what happens at one time: to jobs in their order, then to nodes."""
        own = [number for number in numbers if number >= 0]
        for number in own:
            self._ticket[number] = None
        for number in own:
            self._advance(number, self._jobs[number])
        for number in numbers:
            if number == _ROUND:
                self._round = None
            elif number < 0:
                self._interrupt(number)

    def _advance(self, number: int, job: Job) -> None:
        """Let a job arrive, or end its epoch."""
        if job not in self._active:
            self._admit(number, job)
            return
        self._settle(number, job)
        self._learn(number, job)
        job.epochs_done, job.left = self._next_done[number], 1.0
        if job.epochs_done == job.truth.num_epochs:
            self._complete(number, job)
        else:
            self._changed.add(number)
            self._choose_batch(number, job)
            self._go_on(number, job)

    def _admit(self, number: int, job: Job) -> None:
        """Let a job arrive, unless it is empty or can never run."""
        if not job.truth.num_epochs:
            self._complete(number, job)
            return
        need = self._policy.need(job)
        if need > self._nodes.gpus and self._sizing is None:
            self._drop(job, f"{self._policy.name} needs {need} GPUs for it, and the cluster has {self._nodes.gpus:g}")
        elif need > _MOST_GPUS:
            self._drop(job, f"{self._policy.name} needs {need} GPUs for it; up to {_MOST_GPUS:,} are simulated")
        elif need < 1:
            self._drop(job, f"{job.application} cannot run on any number of these GPUs")
        elif job.truth.epoch_times_s(consolidate(need, self._nodes.gpus_per_node)) is None:
            self._drop(job, f"{self._policy.name} needs {need} GPUs for it, on which {job.application} cannot run")
        else:
            self._active[job] = None
            self._changed.add(number)

    def _ask(self, *, rounds: bool) -> None:
        """Ask the policy, if it is its time, and do what it says: those that shrink first."""
        interval_s = self._policy.interval_s
        if rounds:
            self._adapt_batches()
        if interval_s is None or rounds:
            leaving = self._resize()
            self._share(self._policy.allocate(self._see(leaving)))
            self._nodes.retire(leaving, self._clock.now)
            self._changed.clear()
        if interval_s is None or self._round is not None or not self._active:
            return
        # A round in which nobody runs and after which nothing happens by itself would be followed by its like forever;
        # nodes that start are something that happens.
        if self._running or self._goes_on or not rounds or self._nodes.list_starting(self._clock.now):
            self._next_round = max(self._next_round, math.ceil(self._clock.now / interval_s))
            self._round = self._clock.schedule(self._next_round * interval_s, _ROUND)
            self._next_round += 1

    def _see(self, leaving: Collection[int] = ()) -> Sight:
        """Return what the policy sees, without nodes that are about to leave."""
        changed = [job for number in sorted(self._changed) if (job := self._jobs[number]) in self._active]
        nodes = self._nodes
        gpus, free = nodes.gpus - len(leaving) * nodes.gpus_per_node, nodes.gpus - nodes.used
        staying: Sequence[int] = nodes.names if nodes.is_fixed else ()
        if leaving:
            staying = [node for node in staying if node not in leaving]
        starting = nodes.list_starting(self._clock.now)
        now_s = self._clock.now
        return Sight(now_s, self._active, changed, gpus, free, staying, nodes.gpus_per_node, starting, self._look)

    def _look(self, job: Job) -> tuple[int, float]:
        """Return how many epochs a job that holds GPUs has done, and when it ends the present one."""
        number, begun_s = self._number[job], max(job.settled_s, job.goes_on_s)
        course, stretch, epoch = self._course[number], self._stretch(number, job), job.epochs_done
        if self._next_done[number] == epoch + 1:
            return epoch, begun_s + job.left * self._epoch_s(number, job)
        at = course.at(epoch, job.left) + max(self._clock.now - begun_s, 0.0) / stretch
        epoch = min(bisect_right(course.until, at * (1.0 + _ROUNDING), epoch) - 1, self._next_done[number] - 1)
        return epoch, max(self._clock.now, begun_s) + (course.until[epoch + 1] - at) * stretch

    def _resize(self) -> tuple[int, ...]:
        """Rent more nodes where the policy wants them; return those that it is to give up."""
        if self._sizing is None:
            return ()
        more = self._sizing.choose_nodes(self._see()) - self._nodes.rented
        self._nodes.rent(max(more, 0), self._clock.now)
        return self._nodes.emptiest(max(-more, 0))

    def _share(self, wishes: Mapping[Job, Wish]) -> None:
        """Do what the policy says: those that shrink first, and nobody takes a place before its holder has left it."""
        changes: list[tuple[bool, int, Wish]] = []
        for job, wish in wishes.items():
            if isinstance(wish, int):
                if wish != job.gpus:
                    changes.append((wish > job.gpus, self._number[job], wish))
            elif sorted(wish) != sorted(job.places):
                number = self._number[job]
                self._settle(number, job)
                self._release(number, job)
                changes.append((bool(wish), number, wish))
        for _, number, wish in sorted(changes, key=lambda change: change[:2]):
            self._hold(number, self._jobs[number], wish)

    def _hold(self, number: int, job: Job, wish: Wish) -> None:
        """Change what a job holds; it pauses for its rescaling and, where nodes have to start, for those."""
        if job not in self._active or (isinstance(wish, int) and wish < 0):
            raise InternalError(f"{self._policy.name}: {job.name} cannot be given {wish} GPUs")
        self._settle(number, job)
        self._release(number, job)
        if not wish:
            return
        now_s = self._clock.now
        if isinstance(wish, int):
            places, ready_s = self._nodes.take(wish, now_s)
        else:
            places, ready_s = wish, self._nodes.take_places(wish, now_s)
        spread = spread_of(places)
        course = self._look_up(job, spread)
        if course is None:
            self._nodes.release(places, now_s)
            self._drop(job, f"{job.application} cannot run on {sum(spread)} GPUs spread as {spread}")
            return
        job.rescales += job.started_s is not None
        job.started_s = now_s if job.started_s is None else job.started_s
        job.gpus, job.places = sum(spread), places
        self._since_s[number] = self._since_s[number][0], now_s
        self._course[number] = course
        self._running += 1
        job.goes_on_s = ready_s + job.truth.rescale_s
        self._choose_batch(number, job)
        self._turn(self._interference.join(number, places))
        self._go_on(number, job)

    def _look_up(self, job: Job, spread: Spread) -> _Course | None:
        """Return what the epochs of a job take on GPUs that are spread so, at size 1; None where it cannot run."""
        key = job.truth, spread
        if key not in self._courses:
            epochs_s = job.truth.epoch_times_s(spread)
            self._courses[key] = None if epochs_s is None else _Course.of(epochs_s.tolist())
        course = self._courses[key]
        if course is None:
            return None
        factors = self._world.draw_factors(job.name, job.truth.num_epochs, self._seed)
        if factors is not None:
            return _Course.of((np.array(course.each) * factors).tolist())
        return course if job.agent is None else _Course(course.each.copy(), [])

    def _adapt_batches(self) -> None:
        """Let jobs that run learn, and choose their batch anew, as agents do in every round."""
        for number in self._learners:
            job = self._jobs[number]
            if job.gpus and job.goes_on_s < self._clock.now:
                self._settle(number, job)
                self._learn(number, job)
                before_s = self._epoch_s(number, job)
                self._choose_batch(number, job)
                if self._epoch_s(number, job) != before_s and self._cancel(number):
                    self._go_on(number, job)

    def _learn(self, number: int, job: Job) -> None:
        learner = self._learners.get(number)
        if learner is not None:
            learner.learn(spread_of(job.places), job.epochs_done)

    def _choose_batch(self, number: int, job: Job) -> None:
        """Let a job that learns choose its batch for the rest of its epoch."""
        learner = self._learners.get(number)
        if learner is not None:
            epoch_s = learner.choose_batch(spread_of(job.places), job.epochs_done)
            factors = self._world.draw_factors(job.name, job.truth.num_epochs, self._seed)
            self._course[number].each[job.epochs_done] = epoch_s * (
                1.0 if factors is None else factors[job.epochs_done]
            )

    def _go_on(self, number: int, job: Job) -> None:
        """Schedule when the policy is to be asked again; a job that is pausing goes on after its pause."""
        if not job.gpus:
            return
        done = after = job.epochs_done + 1
        if self._patient is not None and job.agent is None and job.size:
            done = min(max(self._patient.keeps_until(job), after), job.truth.num_epochs)
        takes_s = job.left * self._epoch_s(number, job)
        if done > after:
            until = self._course[number].until
            takes_s += (until[done] - until[after]) * self._stretch(number, job)
        self._next_done[number] = done
        self._ticket[number] = self._clock.schedule(max(self._clock.now, job.goes_on_s) + takes_s, number)

    def _epoch_s(self, number: int, job: Job) -> float:
        """Return the seconds of a job's present epoch on what it holds."""
        return self._course[number].each[job.epochs_done] * self._stretch(number, job)

    def _stretch(self, number: int, job: Job) -> float:
        """Return how much longer the epochs of a job take than those of size 1 that nobody slows down."""
        slowed = self._interference.slowed
        return job.size * self._interference.stretch if slowed and number in slowed else job.size

    def _settle(self, number: int, job: Job) -> None:
        """Account for the time since a job was last looked at."""
        now_s, since_s = self._clock.now, job.settled_s
        if job.gpus:
            job.gpu_s += job.gpus * (now_s - since_s)
            job.held_s += now_s - since_s
            from_s = min(max(since_s, job.goes_on_s), now_s)
            job.paused_s += from_s - since_s
            if self._next_done[number] > job.epochs_done + 1:
                self._train(number, job, from_s)
            else:
                epoch_s = self._epoch_s(number, job)
                done = min((now_s - from_s) / epoch_s, job.left) if epoch_s else job.left
                job.trained_s += done * epoch_s
                job.left -= done
                work_gpu_s = done * self._least(job.truth).each[job.epochs_done] * job.size
                job.work_gpu_s += work_gpu_s
                self._work.add(from_s, now_s, work_gpu_s)
        job.settled_s = now_s

    def _train(self, number: int, job: Job, from_s: float) -> None:
        """Account for several epochs; an epoch of which nothing but rounding is left is done."""
        now_s, course, least = self._clock.now, self._course[number], self._least(job.truth)
        stretch, last = self._stretch(number, job), self._next_done[number] - 1
        at = begun = course.at(job.epochs_done, job.left)
        work_gpu_s = least.at(job.epochs_done, job.left)
        while from_s < now_s:  # by stretches of the bins, in each of which work counts as even
            to_s = min(now_s, (from_s // self._work.stretch_s + 1.0) * self._work.stretch_s)
            at = min(at + (to_s - from_s) / stretch, course.until[last + 1])
            epoch = min(bisect_right(course.until, at, job.epochs_done) - 1, last)
            left = (course.until[epoch + 1] - at) / course.each[epoch] if course.each[epoch] else 0.0
            job.epochs_done, job.left = (epoch + 1, 1.0) if left <= _ROUNDING and epoch < last else (epoch, left)
            before, work_gpu_s = work_gpu_s, least.at(job.epochs_done, job.left)
            job.work_gpu_s += (work_gpu_s - before) * job.size
            self._work.add(from_s, to_s, (work_gpu_s - before) * job.size)
            from_s = to_s
        job.trained_s += (at - begun) * stretch

    def _least(self, truth: Application) -> _Course:
        if truth not in self._least_gpu_s:
            self._least_gpu_s[truth] = _Course.of(least_gpu_s(truth, self._nodes.gpus_per_node))
        return self._least_gpu_s[truth]

    def _release(self, number: int, job: Job) -> None:
        """Take a job's GPUs away."""
        self._cancel(number)
        if job.gpus:
            now_s = self._clock.now
            self._nodes.release(job.places, now_s)
            self._stays.extend((number, *self._since_s[number], now_s, job.gpus))
            self._since_s[number] = now_s, now_s
            self._turn(self._interference.leave(number))
            job.gpus, job.places = 0, ()
            self._running -= 1

    def _cancel(self, number: int) -> bool:
        """Forget when a job's epoch ends, and return whether that was known."""
        ticket, self._ticket[number] = self._ticket[number], None
        if ticket is not None:
            self._clock.cancel(ticket)
        return ticket is not None

    def _turn(self, numbers: Iterable[int]) -> None:
        """Change how fast jobs are beside others; what they did so far is accounted for first."""
        for number in numbers:
            job = self._jobs[number]
            self._settle(number, job)
            self._interference.turn(number)
            if self._cancel(number):
                self._go_on(number, job)

    def _interrupt(self, event: int) -> None:
        """Take nodes away; those who were there wait until the policy gives them others."""
        now_s = self._clock.now
        lost = self._interruptions.list_lost(event)
        for job in list(self._active):
            if any(node in lost for node, _ in job.places):
                number = self._number[job]
                self._settle(number, job)
                self._release(number, job)
                if self._world.loses_epoch:
                    work_gpu_s = (1.0 - job.left) * self._least(job.truth).each[job.epochs_done] * job.size
                    job.work_gpu_s, job.left = job.work_gpu_s - work_gpu_s, 1.0
                    self._work.add(now_s, now_s, -work_gpu_s)
                job.interruptions += 1
                self._changed.add(number)
                if job.interruptions >= _MOST_INTERRUPTIONS:
                    self._drop(job, f"it was interrupted {job.interruptions} times: its epochs are too long for this")
        for node in lost:
            self._nodes.lose(node, now_s)

    def _complete(self, number: int, job: Job) -> None:
        self._release(number, job)
        job.completed_s = self._clock.now
        self._active.pop(job, None)

    def _drop(self, job: Job, problem: str) -> None:
        self._settle(self._number[job], job)
        self._release(self._number[job], job)
        job.problem = problem
        self._active.pop(job, None)

    def _note(self, *, last: bool = False) -> None:
        self._timeline.note(self._clock.now, self._nodes.used, self._nodes.rented, last=last)
