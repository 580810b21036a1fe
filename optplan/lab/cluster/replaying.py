"""The replay: arrivals, epochs and rounds in the order of time, each at its exact time.

What happens at one time happens at once: all of it is applied, in the order of the jobs, before the policy is asked.
So the order in which simultaneous jobs stand in a file, or in which events were scheduled, changes nothing.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from optplan.errors import DataError, InternalError, UsageError
from optplan.execution.progress import Course, VirtualClock
from optplan.instances.job_traces import Stays
from optplan.lab.cluster.jobs import (
    Application,
    Job,
    LearningPolicy,
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
from optplan.lab.cluster.nodes import Nodes, Renter
from optplan.lab.cluster.outcome import Bins, Outcome, Usage
from optplan.lab.cluster.world import Interference, NodeLosses, World

_number = attrgetter("number")
#: The event that is nobody's: the policy's next round. Those below it are interruptions, others nodes that are ready.
_ROUND = -1
#: After so many interruptions a job is given up: it might never complete an epoch.
_MOST_INTERRUPTIONS = 1000
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


class _Cluster:
    """The state of a replay."""

    def __init__(self, jobs: Sequence[Job], policy: SchedulingPolicy, nodes: Nodes, world: World, seed: int) -> None:
        self._jobs, self._policy, self._nodes, self._world, self._seed = jobs, policy, nodes, world, seed
        self._sizing = policy if isinstance(policy, SizingPolicy) else None
        # Where jobs slow one another down, nobody knows when they end an epoch.
        self._patient = policy if isinstance(policy, PatientPolicy) and not world.interference else None
        self._learning = policy if isinstance(policy, LearningPolicy) else None
        self._clock: VirtualClock[Job | int] = nodes.clock
        self._active: dict[Job, None] = {}
        self._running = 0
        self._changed: dict[Job, None] = {}
        self._round: int | None = None
        self._next_round = 0
        self._wakes_s = math.nan
        # By application and how its GPUs are spread: what epochs of a job of size 1 take.
        self._courses: dict[tuple[Application, Spread], Course | None] = {}
        self._learners = [job for job in jobs if job.agent is not None]
        self._timeline = Usage(nodes.rented)
        self._stays = array("d")  # rows of job, waits since, holds since, until and GPUs: there may be many
        self._interruptions = NodeLosses(world, seed, nodes)
        self._interference = Interference(world.interference)
        self._renter = Renter(nodes)
        self._work = Bins()
        # By application: GPU-seconds of each epoch on the fewest GPUs on which it runs.
        self._least_gpu_s: dict[Application, Course] = {}

    def run(self) -> Outcome:
        """Let everything happen, and return what came of it."""
        clock = self._clock
        for number, job in enumerate(self._jobs):
            job.number, job.waits_since_s = number, job.submitted_s
            clock.schedule(job.submitted_s, job)
        if self._learning is not None:
            self._learning.begin(self._nodes.gpus)
        self._watch()
        while self._num_coming:
            at_s = clock.next_at
            jobs, others = list[Job](), list[int]()
            while clock.next_at == at_s:
                item = clock.advance()
                assert item is not None
                if isinstance(item, int):
                    others.append(item)
                else:
                    jobs.append(item)
            self._apply(sorted(jobs, key=_number), sorted(others))
            self._ask(rounds=_ROUND in others)
            if self._round is not None and not (self._active or self._learning) and self._num_coming == 1:
                clock.cancel(self._round)  # nobody is there, and nobody will come
            self._interruptions.watch_nodes()
            self._note()
        for job in list(self._active):
            self._end(job, f"{self._policy.name} never gave it the GPUs to go on, and nothing else was to happen")
        self._note(last=True)
        times_s, used, rented = self._timeline.columns()
        names = sorted({job.application for job in self._jobs})
        job_numbers, *held = np.frombuffer(self._stays).reshape(-1, 5).T
        holders = job_numbers.astype(np.int64)
        which = np.array([names.index(job.application) for job in self._jobs], dtype=np.int64)[holders]
        return Outcome(
            policy=self._policy.name,
            gpus_per_node=self._nodes.gpus_per_node,
            jobs=self._jobs,
            times_s=times_s,
            gpus_used=used,
            nodes_rented=rented,
            work_gpu_s=self._work.close(float(times_s[-1])),
            stretch_s=self._work.stretch_s,
            stays=Stays(tuple(names), which, *held),
            holders=holders,
            reclaimed_s=self._nodes.reclaimed_s,
        )

    @property
    def _num_coming(self) -> int:
        """What is to happen to jobs, rounds that are to come, and starts of nodes for those who wait.

        A policy that learns is asked as long as there are jobs: that alone does not go on.
        """
        others = self._interruptions.num_events + (self._learning is not None and self._round is not None)
        return len(self._clock) - others - (0 if self._active else len(self._nodes.starting))

    def _apply(self, jobs: Sequence[Job], others: Sequence[int]) -> None:
        """Apply what happens at one time: to jobs in their order, then to nodes."""
        for job in jobs:
            job.ticket = None
        for job in jobs:
            self._advance(job)
        for event in others:
            if event == _ROUND:
                self._round = None
            elif event >= 0:
                self._nodes.see_start(event)
            else:
                self._interrupt(event)

    def _advance(self, job: Job) -> None:
        """Let a job arrive, or end its epoch."""
        if job not in self._active:
            self._admit(job)
            return
        self._settle(job)
        self._learn(job)
        if self._learning is not None:
            self._learning.hear_epoch(job, self._clock.now - job.begun_s)
        job.finish()
        self._count_work(job, self._clock.now)
        if job.epochs_done == job.truth.num_epochs:
            self._end(job)
        else:
            self._changed[job] = None
            self._choose_batch(job)
            self._go_on(job)

    def _admit(self, job: Job) -> None:
        """Let a job arrive, unless it is empty or can never run."""
        if not job.truth.num_epochs:
            self._end(job)
            return
        need = self._policy.need(job)
        if need > self._nodes.gpus and self._sizing is None:
            self._end(job, f"{self._policy.name} needs {need} GPUs for it, and the cluster has {self._nodes.gpus:g}")
        elif need > _MOST_GPUS:
            self._end(job, f"{self._policy.name} needs {need} GPUs for it; up to {_MOST_GPUS:,} are simulated")
        elif need < 1:
            self._end(job, f"{job.application} cannot run on any number of these GPUs")
        elif job.truth.epoch_times_s(consolidate(need, self._nodes.gpus_per_node)) is None:
            self._end(job, f"{self._policy.name} needs {need} GPUs for it, on which {job.application} cannot run")
        else:
            self._active[job] = self._changed[job] = None

    def _ask(self, *, rounds: bool) -> None:
        """Ask the policy, if it is its time, and do what it says: those that shrink first."""
        interval_s = self._policy.interval_s
        if rounds and interval_s is not None:
            self._adapt_batches()
        if interval_s is None or rounds:
            leaving = self._resize()
            wishes = self._policy.allocate(self._see(leaving))
            self._nodes.started_s.clear()
            if self._learning is not None or not self._nodes.is_fixed:
                wishes, leaving = self._renter.serve(wishes, self._changed)
            self._changed.clear()
            self._share(wishes)
            self._nodes.retire(leaving)
            self._watch()
        if interval_s is None or self._round is not None or not self._active:
            return
        # A round in which nobody runs and after which nothing happens by itself would be followed by its like forever.
        if self._running or self._num_coming or not rounds:
            self._next_round = max(self._next_round, math.ceil(self._clock.now / interval_s))
            self._round = self._clock.schedule(self._next_round * interval_s, _ROUND)
            self._next_round += 1

    def _watch(self) -> None:
        """Let a policy that learns be asked when it wants to be, whatever happens."""
        if self._learning is not None and (self._round is None or self._wakes_s != self._learning.next_s):
            if self._round is not None:
                self._clock.cancel(self._round)
            self._wakes_s = self._learning.next_s
            self._round = self._clock.schedule(self._wakes_s, _ROUND)

    def _see(self, leaving: Collection[int] = ()) -> Sight:
        """Return what the policy sees, without nodes that are about to leave."""
        changed = sorted((job for job in self._changed if job in self._active), key=_number)
        nodes = self._nodes
        gpus, staying = nodes.gpus - len(leaving) * nodes.gpus_per_node, nodes.ready if nodes.is_fixed else ()
        if leaving:
            staying = tuple(node for node in staying if node not in leaving)
        known = gpus, nodes.free, staying, nodes.gpus_per_node, tuple(nodes.started_s)
        return Sight(self._clock.now, self._active, changed, *known)

    def _resize(self) -> tuple[int, ...]:
        """Rent more nodes where the policy wants them; return those that it is to give up."""
        if self._sizing is None:
            return ()
        more = self._sizing.choose_nodes(self._see()) - self._nodes.rented
        self._nodes.rent(more)
        return self._nodes.emptiest(max(-more, 0))

    def _share(self, wishes: Mapping[Job, Wish]) -> None:
        """Do what the policy says: those that shrink first, and nobody takes a place before its holder has left it."""
        changes: list[tuple[bool, int, Job, Wish]] = []
        for job, wish in wishes.items():
            if isinstance(wish, int):
                if wish != job.gpus:
                    changes.append((wish > job.gpus, job.number, job, wish))
            elif sorted(wish) != sorted(job.places):
                self._release(job)
                changes.append((bool(wish), job.number, job, wish))
        for _, _, job, wish in sorted(changes, key=lambda change: change[:2]):
            self._hold(job, wish)

    def _hold(self, job: Job, wish: Wish) -> None:
        """Change what a job holds; it pauses for its rescaling."""
        if job not in self._active or (isinstance(wish, int) and wish < 0):
            raise InternalError(f"{self._policy.name}: {job.name} cannot be given {wish} GPUs")
        self._release(job)
        if not wish:
            return
        now_s = self._clock.now
        places = self._nodes.take(wish) if isinstance(wish, int) else self._nodes.take_places(wish)
        spread = spread_of(places)
        course = self._look_up(job, spread)
        if course is None:
            self._nodes.release(places)
            self._end(job, f"{job.application} cannot run on {sum(spread)} GPUs spread as {spread}")
            return
        job.rescales += job.started_s is not None
        job.started_s = now_s if job.started_s is None else job.started_s
        job.places, job.holds_since_s, job.stretch = places, now_s, job.size
        job.hold(sum(spread), course, now_s + job.truth.rescale_s)
        self._running += 1
        self._choose_batch(job)
        self._turn(self._interference.join(job, places))
        self._go_on(job)

    def _look_up(self, job: Job, spread: Spread) -> Course | None:
        """Return what the epochs of a job take on GPUs that are spread so, at size 1; None where it cannot run."""
        key = job.truth, spread
        if key not in self._courses:
            epochs_s = job.truth.epoch_times_s(spread)
            self._courses[key] = None if epochs_s is None else Course.of(epochs_s.tolist())
        course = self._courses[key]
        factors = self._world.draw_factors(job.name, job.truth.num_epochs, self._seed)
        return course if course is None or factors is None else Course.of((np.array(course.each) * factors).tolist())

    def _adapt_batches(self) -> None:
        """Let jobs that run learn, and choose their batch anew, as agents do in every round."""
        for job in self._learners:
            if job.gpus and job.goes_on_s < self._clock.now:
                self._settle(job)
                self._learn(job)
                before_s = job.epoch_s
                self._choose_batch(job)
                if job.epoch_s != before_s and self._cancel(job):
                    self._go_on(job)

    def _learn(self, job: Job) -> None:
        if job.agent is not None:
            job.agent.learn(spread_of(job.places), job.epochs_done)

    def _choose_batch(self, job: Job) -> None:
        """Let a job that learns choose its batch for the rest of its epoch."""
        if job.agent is not None:
            each, epoch = job.course.each.copy(), job.epochs_done
            each[epoch] = job.agent.choose_batch(spread_of(job.places), epoch)
            factors = self._world.draw_factors(job.name, job.truth.num_epochs, self._seed)
            each[epoch] *= 1.0 if factors is None else factors[epoch]
            job.course = Course.of(each)

    def _go_on(self, job: Job) -> None:
        """Schedule when the policy is to be asked again; a job that is pausing goes on after its pause."""
        if job.gpus:
            job.target = job.epochs_done + 1
            if self._patient is not None and job.agent is None and job.size:
                job.target = min(max(self._patient.keeps_until(job), job.target), job.truth.num_epochs)
            job.ticket = self._clock.schedule(job.ends_s, job)

    def _settle(self, job: Job) -> None:
        """Account for the time since a job was last looked at, and for its work by stretches of time."""
        now_s, stretch_s = self._clock.now, self._work.stretch_s
        while job.gpus and (from_s := job.trains_from_s) < now_s:
            to_s = min(now_s, (from_s // stretch_s + 1.0) * stretch_s)
            job.settle(to_s)
            self._count_work(job, from_s)
        job.settle(now_s)

    def _count_work(self, job: Job, from_s: float) -> None:
        """Count what a settled job has done since, as if evenly."""
        if job.truth not in self._least_gpu_s:
            self._least_gpu_s[job.truth] = Course.of(least_gpu_s(job.truth, self._nodes.gpus_per_node))
        least, before = self._least_gpu_s[job.truth], job.work_gpu_s
        done = least.until[job.epochs_done] if job.left == 1.0 else least.at(job.epochs_done, job.left)
        job.work_gpu_s = done * job.size
        self._work.add(from_s, job.settled_s, job.work_gpu_s - before)

    def _release(self, job: Job) -> None:
        """Take a job's GPUs away, and where that costs what it has done of its epoch, this too."""
        self._settle(job)
        self._cancel(job)
        if job.gpus:
            now_s = self._clock.now
            if self._learning is not None:
                self._learning.hear_leave(job, keeps=not self._world.loses_epoch)
            self._nodes.release(job.places)
            self._stays.extend((job.number, job.waits_since_s, job.holds_since_s, now_s, job.gpus))
            job.waits_since_s = now_s
            self._turn(self._interference.leave(job))
            job.gpus, job.places = 0, ()
            self._running -= 1
            if self._world.loses_epoch:
                job.left = 1.0
                self._count_work(job, now_s)

    def _cancel(self, job: Job) -> bool:
        """Forget when a job's epoch ends, and return whether that was known."""
        ticket, job.ticket = job.ticket, None
        if ticket is not None:
            self._clock.cancel(ticket)
        return ticket is not None

    def _turn(self, jobs: Iterable[Job]) -> None:
        """Change how fast jobs are beside others; what they did so far is accounted for first."""
        for job in jobs:
            self._settle(job)
            job.stretch = job.size * self._interference.turn(job)
            if self._cancel(job):
                self._go_on(job)

    def _interrupt(self, event: int) -> None:
        """Take nodes away; those who were there wait until the policy gives them others."""
        lost = self._interruptions.list_lost(event)
        for job in list(self._active):
            if any(node in lost for node, _ in job.places):
                self._release(job)
                job.interruptions += 1
                self._changed[job] = None
                if job.interruptions >= _MOST_INTERRUPTIONS:
                    self._end(job, f"it was interrupted {job.interruptions} times: its epochs are too long for this")
        for node in lost:
            self._nodes.lose(node)

    def _end(self, job: Job, problem: str = "") -> None:
        """Let a job be over, completed unless there is a problem; who places the others is told."""
        self._release(job)
        job.problem, job.completed_s = problem, None if problem else self._clock.now
        if self._learning is not None:
            self._learning.hear_end(job)
        self._active.pop(job, None)
        self._changed[job] = None

    def _note(self, *, last: bool = False) -> None:
        self._timeline.note(self._clock.now, self._nodes.used, self._nodes.rented, last=last)
