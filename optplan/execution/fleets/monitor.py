"""The monitor of section 4.5: who is silent is lost; the lowest live rank stores; the rest is planned again.

A loop as the runtime's others: it decides, writes down, does, and listens. What is decided is in the journal before it
is done, and whatever is done has a name, so that a monitor that is killed anywhere goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from optplan.errors import UsageError
from optplan.execution import records as told
from optplan.execution.fleets.running import FleetRun
from optplan.execution.fleets.state import NAME, Attempt, FleetState, Heard
from optplan.execution.loop import EXIT_FAILED, EXIT_INFEASIBLE, EXIT_LIMIT, GIVEN_UP, Loop
from optplan.execution.options import RETURN_HEARTBEATS
from optplan.execution.protocol import Event, Executor
from optplan.execution.runs import Listener
from optplan.execution.state import Phase
from optplan.formulations.srift.data.instance import write_fleet
from optplan.formulations.srift.study.replanning import FleetStanding, name_vms, succeed
from optplan.solving import solve

#: Heartbeats that may be missed.
MISSED = 2
#: Heartbeats before a VM is taken back at which the last checkpoint is asked for.
_LEAD = 4


class Monitor(Loop[FleetState]):
    """Follows a run to its end."""

    def __init__(self, run: FleetRun, executor: Executor, listener: Listener | None = None) -> None:
        super().__init__(run, executor, listener)
        self._terms = terms = run.options
        self._heard, self.round_s = Heard(), min(self.round_s, terms.heartbeat_s / 4.0)
        self._silence_s = MISSED * terms.heartbeat_s
        self._return_s = RETURN_HEARTBEATS * terms.heartbeat_s if terms.return_s is None else terms.return_s
        #: From when on silence counts: nobody is gone just because nobody listened.
        self._since_s = -math.inf
        #: Whether nobody is waited for any longer, so that what is left is ended.
        self._is_over = False
        executor.adopt(run.state.plan)

    def resume(self, changes: Mapping[str, Any] | None = None, *, starts: bool = True) -> None:
        """Take over from an earlier monitor, with options that are others from now on."""
        super().resume(changes, starts=starts)
        if not self._executor.is_virtual:
            self._since_s = self._executor.now_s()
        attempt = self._state.attempt
        if attempt is not None and attempt.order > attempt.answered:
            self._executor.ask(attempt.operation.id, attempt.order, attempt.rank)
        self._listen(self._executor.now_s())  # before anything is decided

    # ------------------------------------------------------------------------------------------------------- deciding

    def _decide(self, now_s: float) -> None:
        attempt, known, self._is_over = self._state.attempt, len(self._news), False
        if attempt is None:
            self._begin(now_s)
        elif attempt.stopping_s is not None:
            self._is_over = self._is_through(attempt, attempt.stopping_s, now_s)
        elif self._given_up:
            self._note(told.StopWanted(now_s, attempt.operation.id, GIVEN_UP))
        elif self._heard.ended:
            self._is_over = not self._list_there(attempt, now_s)
        else:
            for look in (self._welcome, self._miss, self._secure):
                if len(self._news) == known:
                    look(attempt, now_s)
        if len(self._news) == known and self._interrupted and not self._given_up:
            self._note(told.Paused(now_s, "interrupted; the fleet goes on", self._interrupted))

    def _begin(self, now_s: float) -> None:
        """Ask for the fleet that the plan says; plan again first where VMs were lost since it was made."""
        state = self._state
        if self._given_up:
            self._close(told.Ended(now_s, None, GIVEN_UP, EXIT_FAILED))
        elif state.is_done or state.stored >= state.instance.iterations:
            self._close(told.Ended(now_s, None))
        elif state.missing:
            self._plan_again(now_s)
        elif state.crashes > self._terms.retries:
            why = f"{state.crashes} fleets failed though no VM was lost; the last: {state.last_failure}"
            self._close(told.Ended(now_s, None, why, EXIT_FAILED))
        elif now_s >= self._start_after_s:
            place, wanted = self._place(now_s)
            number, segment = state.attempts + 1, state.plan.segments[0].id
            self._note(*wanted, told.OperationWanted(now_s, NAME.format(number), segment, "job", number, place))

    def _place(self, now_s: float) -> tuple[dict[str, int], list[told.NodeWanted]]:
        """Give each group of the plan its VMs: those that are alive first, then new ones."""
        free, made = self._state.held_nodes(), len(self._state.nodes)
        place: dict[str, int] = {}
        wanted: list[told.NodeWanted] = []
        for group in self._state.plan.fleet:
            kept = [vm.name for vm in free if vm.resource == group.type and vm.name not in place][: group.count]
            new = [f"{group.type}.vm-{made + number:03d}" for number in range(1, 1 + group.count - len(kept))]
            made += len(new)
            wanted += [told.NodeWanted(now_s, name, group.id, group.type, f"train/{group.id}") for name in new]
            place |= dict.fromkeys([*kept, *new], group.gpus_per_vm)
        return place, wanted

    def _plan_again(self, now_s: float) -> None:
        """Follow another plan from now on; where there is none that keeps the limits, ask."""
        state, terms = self._state, self._terms
        done = state.iterations
        standing = FleetStanding(
            elapsed_s=now_s,
            iterations_done=done,
            iterations_lost=done - state.stored,
            running=state.count(Phase.WANTED, Phase.READY),
            lost=state.count(Phase.LOST),
            spent_usd=state.spent_usd,
            launch_s=terms.launch_s,
            detach_s=max(0.0, self._start_after_s - now_s),
        )
        try:
            plan, infeasibility = succeed(
                state.instance, state.plan, standing, lambda rest: solve(rest, time_limit_s=terms.time_limit_s)
            )
        except UsageError as error:
            self._note(told.Paused(now_s, str(error), EXIT_LIMIT))
            return
        if plan is not None:
            why = f"{name_vms(standing.lost)} lost: on with {write_fleet(plan.groups, ' and ')}"
            self._note(told.Replanned(now_s, plan.to_json_data(), why, state.spent_usd, 0.0))
        elif infeasibility is not None:
            asked = infeasibility.to_json_data()
            self._note(told.Paused(now_s, infeasibility.reason, EXIT_INFEASIBLE, asked))

    def _welcome(self, attempt: Attempt, now_s: float) -> None:
        """Note which VMs are there, of which a rank was heard of, and whether all ranks are."""
        for name in attempt.operation.place:
            if self._state.nodes[name].phase is Phase.WANTED and self._list_heard(attempt, name):
                self._note(told.NodeChanged(now_s, name, Phase.READY))
        if attempt.ready_s is None and len(self._heard.last_s) == sum(attempt.operation.place.values()):
            self._note(told.OperationStarted(now_s, attempt.operation.id))

    def _miss(self, attempt: Attempt, now_s: float) -> None:
        """Note whose ranks have all been silent for two heartbeats, or were not heard of in all the time they had."""
        silent, waited = f"silent for {MISSED} heartbeats", f"not heard of within {self._terms.launch_wait_s:g} s"
        for name in attempt.operation.place:
            if now_s >= self._deaf_s(attempt, name):
                why = silent if self._list_heard(attempt, name) else waited
                self._note(told.NodeChanged(now_s, name, Phase.LOST, why))

    def _secure(self, attempt: Attempt, now_s: float) -> None:
        """Have the training stored where VMs were lost, are about to be, or ranks wait for orders; then stop."""
        vms, terms = self._state.nodes, self._terms
        taken = [name for name in attempt.operation.place if now_s >= self._lead_s(name)]
        if attempt.silent_s or any(vms[name].phase is Phase.LOST for name in attempt.operation.place):
            why = "a VM was lost"
        elif taken:
            why = "a VM is about to be taken back"
        elif now_s >= self._stuck_s():
            why = f"ranks are stuck: {self._heard.trouble or 'a process has gone'}"
        else:
            return
        there = self._list_there(attempt, now_s)
        going = {rank for name in taken for rank in attempt.operation.ranks[name]}
        # The lowest, best of a VM that stays.
        rank = next(iter([*(rank for rank in there if rank not in going), *there]), None)
        is_late = now_s >= attempt.asked_s + terms.grace_s
        if attempt.order > attempt.answered and attempt.rank in there and not is_late:
            return
        if not 0 < attempt.order <= attempt.answered and rank is not None and not is_late:
            self._note(told.CheckpointWanted(now_s, attempt.operation.id, attempt.order + 1, rank, why))
            return
        gone = [told.NodeChanged(now_s, name, Phase.LOST, "taken back, as announced") for name in taken]
        self._note(*gone, told.StopWanted(now_s, attempt.operation.id, why))

    def _is_through(self, attempt: Attempt, stopping_s: float, now_s: float) -> bool:
        """Whether the ranks have ended that are asked to, or had time to, and silent VMs had time to come back."""
        is_waiting = self._list_there(attempt, now_s) and now_s < stopping_s + self._terms.grace_s
        return not is_waiting and (self._given_up or now_s >= self._back_s(attempt))

    # --------------------------------------------------------------------------------------------------- who and when

    @property
    def _start_after_s(self) -> float:
        """When what lost VMs store can be used: they went at the first heartbeat that they missed, at the latest."""
        return self._state.silent_s - (MISSED - 1) * self._terms.heartbeat_s + self._terms.detach_s

    def _list_heard(self, attempt: Attempt, name: str) -> list[float]:
        """Return when ranks of a VM were last heard of."""
        last_s = self._heard.last_s
        return [last_s[rank] for rank in attempt.operation.ranks[name] if rank in last_s]

    def _deaf_s(self, attempt: Attempt, name: str) -> float:
        """Return when a VM is taken for lost, unless it is heard of before."""
        has_left = self._heard.left.issuperset(attempt.operation.ranks[name])
        if has_left or self._state.nodes[name].phase is Phase.LOST:
            return math.inf
        heard = self._list_heard(attempt, name)
        return max(self._since_s, *heard) + self._silence_s if heard else attempt.wanted_s + self._terms.launch_wait_s

    def _list_silent(self, attempt: Attempt) -> dict[str, float]:
        """Return since when VMs are missed that would be taken back, should they be heard of again in time."""
        nodes, returns, most = self._state.nodes, self._state.returns, self._terms.retries
        silent = attempt.silent_s.items()
        return {name: t for name, t in silent if nodes[name].phase is Phase.LOST and returns[name] < most}

    def _back_s(self, attempt: Attempt) -> float:
        """Return until when to wait for those."""
        return max(self._list_silent(attempt).values(), default=-math.inf) + self._return_s

    def _stuck_s(self) -> float:
        """Return when ranks that are silent beside others of their VM, or wait for orders, are taken for stuck."""
        heard = self._heard
        silent = [last_s for rank, last_s in heard.last_s.items() if rank not in heard.left]
        # Time enough for a VM that is the cause to be missed first.
        since = [*silent, *heard.troubled_s.values()]
        return max(self._since_s, min(since, default=math.inf)) + self._silence_s + self._terms.heartbeat_s

    def _lead_s(self, name: str) -> float:
        """Return when the last checkpoint before a VM is taken back is asked for."""
        taken_s, every = self._state.taken_s.get(name, math.inf), self._state.plan.checkpoints
        takes_s = 0.0 if every is None else every.checkpoint_s
        is_lost = self._state.nodes[name].phase is Phase.LOST
        return math.inf if is_lost else taken_s - _LEAD * self._terms.heartbeat_s - takes_s

    def _list_there(self, attempt: Attempt, now_s: float) -> list[int]:
        """Return the ranks that are there, the lowest first: heard of of late, not at their end, and of no lost VM."""
        last_s, nodes = self._heard.last_s, self._state.nodes
        there = (vm for vm in attempt.operation.place if nodes[vm].phase is not Phase.LOST)
        ranks = {rank for vm in there for rank in attempt.operation.ranks[vm]} & last_s.keys() - self._heard.left
        return sorted(rank for rank in ranks if now_s < max(last_s[rank], self._since_s) + self._silence_s)

    def _wait_until(self, now_s: float) -> float:
        """Return when to look again though nothing is heard: at once where something was decided."""
        if self._decided or self._is_over:
            return now_s
        attempt, grace_s = self._state.attempt, self._terms.grace_s
        if attempt is None:
            return self._start_after_s
        times = [attempt.asked_s + grace_s, (attempt.stopping_s or math.inf) + grace_s]
        times += [self._stuck_s(), self._back_s(attempt), *map(self._lead_s, attempt.operation.place)]
        times += [self._deaf_s(attempt, name) for name in attempt.operation.place]
        return min(time_s for time_s in times if time_s > now_s)

    # ----------------------------------------------------------------------------------------------- hearing and doing

    def _perform(self, decided: Sequence[told.Record]) -> None:
        executor, attempt = self._executor, self._state.attempt
        for record in decided:
            match record:
                case told.Replanned():
                    executor.adopt(self._state.plan)
                case told.OperationWanted():
                    self._heard = Heard()
                case told.CheckpointWanted():
                    executor.ask(record.operation, record.order, record.rank)
        super()._perform(decided)
        if attempt is not None and self._is_over:
            executor.stop(attempt.operation.id, 0.0)

    def _release(self, nodes: Sequence[str]) -> None:
        """Give back those that are lost, too: they may be there all the same, and paid."""
        if nodes or self._state.ended is not None:
            lost = [vm.name for vm in self._state.nodes.values() if vm.phase is Phase.LOST]
            self._executor.release_nodes([*nodes, *lost])
        self._note_release(nodes)

    def _abandon(self) -> None:
        """Leave what runs alone: a fleet goes on without a monitor."""

    # ---------------------------------------------------------------------------------------------------------- hearing

    def _see_start(self, operation: str) -> None:
        """Leave it to the ranks: a fleet is there when all of them were heard of."""

    def _see_change(self, event: told.NodeChanged) -> None:
        """Take note of a VM that is gone; that one is there is said by its ranks."""
        if event.phase == Phase.LOST:
            super()._see_change(event)

    def _take_note(self, event: Event) -> None:
        """Take note of what ranks say, and of VMs that will be taken back, too."""
        match event:
            case told.NodeNoticed() if event.node in self._state.nodes and event.node not in self._state.taken_s:
                self._note(event)
            case told.Reported():
                self._see_report(event)
            case _:
                super()._take_note(event)

    def _see_report(self, event: told.Reported) -> None:
        """Take note of what a rank says; what is known already is left out."""
        state, attempt, heard = self._state, self._state.attempt, self._heard
        if attempt is None or event.operation != attempt.operation.id:
            return
        heard.take(event)
        for name, silent_s in self._list_silent(attempt).items():
            late_s = event.t - silent_s
            if event.rank in attempt.operation.ranks[name] and 0.0 < late_s <= self._return_s:
                why = f"is heard of again, {late_s:.3g} s after it was missed"
                self._note(told.NodeChanged(max(event.t, state.t), name, Phase.READY, why))
        if event.stored or event.order:
            known = state.checkpoint
            if known is None or (event.iterations or 0) > state.stored or event.order > attempt.answered:
                self._note(event)

    def _see_end(self, event: told.OperationEnded | told.OperationFailed) -> None:
        """Take note that a fleet has ended; before its time it is not to blame where a VM has gone, or come back."""
        if isinstance(event, told.OperationEnded):
            if event.complete:
                super()._see_end(event)
                return
            event = told.OperationFailed(event.t, event.operation, "ended to go on otherwise")
        state, attempt = self._state, self._state.attempt
        assert attempt is not None  # it runs, as the loop has seen
        blameless = event.blameless or bool(state.missing or attempt.silent_s)
        done = max(state.iterations, self._heard.iterations)
        why = self._heard.trouble or event.why
        self._note(replace(event, why=why, blameless=blameless, iterations=done))
