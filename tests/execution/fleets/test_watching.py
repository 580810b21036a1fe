"""The monitor on the virtual clock: the paper's timeline, notices, losses that leave nothing, limits that are gone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from optplan.errors import UsageError
from optplan.execution.fleets.running import Course, FleetOutcome, Loss, VirtualFleet, watch
from optplan.execution.journal import Journal
from optplan.execution.records import (
    CheckpointWanted,
    NodeChanged,
    NodeWanted,
    OperationStarted,
    OperationWanted,
    Record,
    Replanned,
    Reported,
)
from optplan.execution.runs import resume
from optplan.formulations.srift.planning import SriftPlan

#: Section 5.4: heartbeats are quick (it is noticed immediately), volumes take 4 s, and new VMs 150 s.
PAPER: dict[str, Any] = {"heartbeat_s": 0.1, "detach_s": 4.0, "launch_s": 150.0}
#: The first fleet is there after 138 s, and does 200 iterations until 222 s.
BEFORE: dict[str, Any] = {"boots_s": (138.0, 150.0), "iterations_s": (0.42,)}
LOST = Loss("p3.8xlarge", 222.0)


def follow(plan: SriftPlan, course: Course, **options: Any) -> tuple[FleetOutcome, list[Record]]:  # noqa: ANN401
    """Watch a plan on the virtual clock, and return what was written down; nobody waits for VMs to come back."""
    records: list[Any] = []
    options.setdefault("return_s", 0.0)
    return watch(plan, course=course, listener=records.append, **options), records


def of(records: list[Record], *kinds: type[Any]) -> list[Any]:
    """Return the records of some kinds."""
    return [record for record in records if isinstance(record, kinds)]


def test_the_papers_timeline(paper_plan: SriftPlan) -> None:
    """138 s, 222 s, 226 s, 376 s, and the end at 476 s (5.4 says 479, but 222 + 4 + 150 + 100 is 476)."""
    outcome, records = follow(paper_plan, Course(losses=(LOST,), **BEFORE), **PAPER)
    ready, again = of(records, OperationStarted)
    (lost,) = [record for record in of(records, NodeChanged) if record.phase == "lost"]
    (stored,) = of(records, Reported)
    (replanned,) = of(records, Replanned)
    _, wanted = of(records, OperationWanted)
    # Missed twice: 222.1 and 222.2; what it stores is free 4 s after the first.
    assert [ready.t, lost.t, stored.t, replanned.t] == pytest.approx([138.0, 222.2, 222.2, 222.2], abs=0.11)
    assert [int(wanted.t), int(again.t), int(outcome.time_s)] == [226, 376, 476]
    assert (stored.iterations, stored.rank) == (200, 0)
    assert outcome.fleets == ("2 p3.8xlarge@512", "1 p3.8xlarge@512 + 8 g3.8xlarge@64")
    assert (outcome.status, outcome.code, outcome.iterations) == ("ended", 0, 400)
    assert outcome.lost == {"p3.8xlarge": 1}


def test_the_successor_says_whose_place_it_takes(paper_plan: SriftPlan) -> None:
    """Its limit is the paper's 124 s after the boot, its segments are the new fleet's, and it holds its problem."""
    _, records = follow(paper_plan, Course(losses=(LOST,), **BEFORE), **PAPER)
    (replanned,) = of(records, Replanned)
    plan = SriftPlan.parse(replanned.plan)
    assert plan.supersedes == paper_plan.plan_id
    assert plan.limits["deadline"].amount - plan.launch_s == pytest.approx(124.0, abs=0.3)
    assert [(each.resource, each.nodes) for each in plan.segments] == [("p3.8xlarge", 1), ("g3.8xlarge", 8)]
    assert plan.instance["iterations"] == 200
    assert plan.units[0].kept == 1


def test_vms_that_boot_in_95_s_end_it_earlier(paper_plan: SriftPlan) -> None:
    """As in 5.4: 226 + 95 + 100 is 421 (the paper's trained a little quicker, until 419)."""
    outcome, _ = follow(paper_plan, Course(losses=(LOST,), boots_s=(138.0, 95.0), iterations_s=(0.42,)), **PAPER)
    assert int(outcome.time_s) == 421


def test_money_is_for_training_alone(paper_plan: SriftPlan) -> None:
    """Two VMs at 3.68 for 84.2 s, one and eight at 0.69 for 100.3 s: 0.172 + 0.256 dollars; waiting is not paid."""
    outcome, _ = follow(paper_plan, Course(losses=(LOST,), **BEFORE), **PAPER)
    assert outcome.cost_usd == pytest.approx(0.172 + 0.256, abs=0.001)


def test_a_loss_is_noticed_within_two_heartbeats(small_plan: SriftPlan) -> None:
    """With heartbeats of 0.5 s, a VM that goes at 1.3 s was last heard at 1 s and is lost at 2 s."""
    _, records = follow(small_plan, Course(losses=(Loss("spot", 1.3),)), heartbeat_s=0.5)
    (lost,) = [record for record in of(records, NodeChanged) if record.phase == "lost"]
    assert lost.t == pytest.approx(2.0)


def test_the_lowest_rank_alive_stores(small_plan: SriftPlan) -> None:
    """Where both spot VMs go, one after the other, nobody is asked who is gone, and no spot VM is asked for again."""
    losses = (Loss("spot", 1.3), Loss("spot", 4.0))
    outcome, records = follow(small_plan, Course(losses=losses), heartbeat_s=0.5)
    # 1.3 / 0.06 iterations are done; then rank 0 of the second fleet goes, and rank 1, which is another VM, stores.
    assert [(record.operation, record.rank) for record in of(records, CheckpointWanted)] == [
        ("fleet-001", 0),
        ("fleet-002", 1),
    ]
    assert of(records, Reported)[0].iterations == 21
    assert [record.resource for record in of(records, NodeWanted)] == ["spot", "spot", "steady", "steady"]
    assert outcome.fleets == ("2 spot@32", "1 spot@32 + 1 steady@32", "2 steady@32")
    assert (outcome.code, outcome.iterations) == (0, 60)


def test_all_vms_lost_at_once_go_back_to_what_was_stored(small_plan: SriftPlan) -> None:
    """Nobody is left to store: the rest is everything, from 2 s on, when silence is noticed; 60 times 0.06 s."""
    losses = (Loss("spot", 1.3), Loss("spot", 1.3))
    outcome, records = follow(small_plan, Course(losses=losses), heartbeat_s=0.5)
    assert outcome.lost == {"spot": 2}
    assert not of(records, CheckpointWanted, Reported)
    assert outcome.fleets == ("2 spot@32", "2 steady@32")
    assert outcome.time_s == pytest.approx(2.0 + 60 * 0.06)


def test_a_vm_lost_before_the_last_iteration_costs_that_one(small_plan: SriftPlan) -> None:
    """60 iterations of 0.06 s are done at 3.6 s; the VM that goes at 3.59 s costs one, which the next fleet does."""
    outcome, records = follow(small_plan, Course(losses=(Loss("spot", 3.59),)), heartbeat_s=0.5)
    assert of(records, Reported)[0].iterations == 59
    assert (outcome.code, outcome.iterations, len(outcome.fleets)) == (0, 60, 2)


def test_a_notice_is_heeded_before_the_vm_goes(small_plan: SriftPlan) -> None:
    """A VM that goes at 3 s, said 2 s ahead: it trains until four heartbeats before, stores, and nothing is lost."""
    outcome, records = follow(small_plan, Course(losses=(Loss("spot", 3.0, notice_s=2.0),)), heartbeat_s=0.25)
    (stored,) = of(records, Reported)
    (lost,) = [record for record in of(records, NodeChanged) if record.phase == "lost"]
    assert (stored.t, stored.iterations) == (pytest.approx(2.0), 33)  # 2 s of 0.06 s
    assert (lost.t, lost.why) == (pytest.approx(2.0), "taken back, as announced")
    assert outcome.fleets[1] == "1 spot@32 + 1 steady@32"
    # 27 iterations are left, which take 1.62 s of any fleet.
    assert outcome.time_s == pytest.approx(2.0 + 27 * 0.06)


def test_limits_that_cannot_be_kept_are_asked_about(paper_plan: SriftPlan) -> None:
    """After 400 s nothing ends by 500 s; the answer is code 3 with the deadline that would do."""
    outcome, records = follow(
        paper_plan, Course(losses=(Loss("p3.8xlarge", 400.0),), boots_s=(138.0,), iterations_s=(0.9,)), **PAPER
    )
    assert (outcome.status, outcome.code) == ("paused", 3)
    assert outcome.infeasibility is not None
    (relaxation,) = outcome.infeasibility.relaxations
    assert (relaxation.limit, relaxation.given) == ("deadline", 500.0)
    assert relaxation.least_feasible > 500.0
    assert not of(records, Replanned)


def test_a_plan_without_its_instance_is_refused(paper_plan: SriftPlan) -> None:
    """Nothing could be planned anew."""
    bare = paper_plan.replace(plan_id="", instance={})
    with pytest.raises(UsageError, match="does not hold its instance"):
        watch(bare)


def test_what_is_started_needs_a_command_and_a_folder(small_plan: SriftPlan) -> None:
    """A command is what starts ranks, and a folder where they report."""
    with pytest.raises(UsageError, match="command: executor 'local' needs one"):
        watch(small_plan, executor="local")
    with pytest.raises(UsageError, match="out: a folder is needed"):
        watch(small_plan, executor="local", command="true")


def list_changes(records: list[Record]) -> list[tuple[str, str]]:
    """Return how VMs changed, and why."""
    return [(record.phase, record.why) for record in of(records, NodeChanged) if record.why]


@pytest.mark.parametrize("return_s", [None, 3.0])
def test_a_vm_that_stalls_costs_a_restart(small_plan: SriftPlan, return_s: float | None) -> None:
    """Silent from 1.3 s on, missed at 2 s, heard of at 4.3 s: the same fleet goes on, and no type is given up.

    Six heartbeats of 0.5 s are waited for by default.
    """
    course = Course(losses=(Loss("spot", 1.3, back_s=3.0),))
    outcome, records = follow(small_plan, course, heartbeat_s=0.5, return_s=return_s)
    missed, back = list_changes(records)
    assert missed == ("lost", "silent for 2 heartbeats")
    assert back == ("ready", "is heard of again, 2.3 s after it was missed")
    assert not of(records, Replanned)
    assert [record.resource for record in of(records, NodeWanted)] == ["spot", "spot"]
    first, second = of(records, OperationWanted)
    assert first.place == second.place
    assert (outcome.code, outcome.fleets, outcome.lost) == (0, ("2 spot@32",), {})
    # 21 iterations were stored, and from 4.3 s on the other 39 take 0.06 s each.
    assert second.t == pytest.approx(4.3)
    assert outcome.time_s == pytest.approx(4.3 + 39 * 0.06)


def test_a_stall_between_two_heartbeats_costs_its_time(small_plan: SriftPlan) -> None:
    """Nobody misses a VM that stands still from 1.3 s to 1.5 s; all others wait: 60 times 0.06 s, and 0.2 s."""
    outcome, records = follow(small_plan, Course(losses=(Loss("spot", 1.3, back_s=0.2),)), heartbeat_s=0.5)
    assert list_changes(records) == []
    assert (outcome.code, outcome.fleets, outcome.lost) == (0, ("2 spot@32",), {})
    assert outcome.time_s == pytest.approx(60 * 0.06 + 0.2)


def test_a_vm_that_is_back_while_another_one_stores(small_plan: SriftPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missed at 2 s, it is heard of at 3.3 s, and trains; rank 0 has stored at 5 s, and all start again at once.

    Until then it is 1.3 s and 1.7 s of training, 50 iterations of 0.06 s.
    """
    ask = VirtualFleet.ask

    def ask_slowly(fleet: VirtualFleet, *order: Any) -> None:  # noqa: ANN401 - as asked
        fleet._clock.schedule(fleet.now_s() + 3.0, partial(ask, fleet, *order))

    monkeypatch.setattr(VirtualFleet, "ask", ask_slowly)
    outcome, records = follow(
        small_plan, Course(losses=(Loss("spot", 1.3, back_s=2.0),)), heartbeat_s=0.5, return_s=3.0
    )
    assert [(record.t, record.phase) for record in of(records, NodeChanged) if record.why] == [
        (pytest.approx(2.0), "lost"),
        (pytest.approx(3.3), "ready"),
    ]
    assert [record.t for record in of(records, CheckpointWanted, Reported)] == pytest.approx([2.0, 5.0])
    assert (outcome.code, outcome.fleets, outcome.lost) == (0, ("2 spot@32",), {})
    assert outcome.time_s == pytest.approx(5.0 + 10 * 0.06)


def test_a_vm_that_comes_back_too_late_is_lost(small_plan: SriftPlan) -> None:
    """It is waited for until 2 s after it was missed, at 2 s; it comes 2.3 s after: the rest was planned without it."""
    course = Course(losses=(Loss("spot", 1.3, back_s=3.0),))
    outcome, records = follow(small_plan, course, heartbeat_s=0.5, return_s=2.0)
    (replanned,) = of(records, Replanned)
    assert replanned.t == pytest.approx(4.0)
    assert outcome.lost == {"spot": 1}
    assert outcome.fleets == ("2 spot@32", "1 spot@32 + 1 steady@32")


def test_all_vms_may_stall_at_once(small_plan: SriftPlan) -> None:
    """Nobody is left to store, and both come back: they begin anew, and nothing is planned again."""
    losses = (Loss("spot", 1.3, back_s=2.0), Loss("spot", 1.3, back_s=2.0))
    outcome, records = follow(small_plan, Course(losses=losses), heartbeat_s=0.5, return_s=None)
    assert [phase for phase, _ in list_changes(records)] == ["lost", "lost", "ready", "ready"]
    assert (outcome.code, outcome.fleets, outcome.lost) == (0, ("2 spot@32",), {})
    assert outcome.time_s == pytest.approx(3.3 + 60 * 0.06)


def test_a_vm_comes_back_so_often(small_plan: SriftPlan) -> None:
    """As often as a fleet may fail; then it is lost. Restarts for it are no failures of the fleet."""
    stalls = tuple(Loss("spot", at_s, back_s=2.0) for at_s in (1.3, 4.3, 7.0))
    outcome, records = follow(small_plan, Course(losses=stalls), heartbeat_s=0.5, return_s=None, retries=2)
    assert [phase for phase, _ in list_changes(records)] == ["lost", "ready", "lost", "ready", "lost"]
    assert outcome.fleets == ("2 spot@32", "1 spot@32 + 1 steady@32")
    assert outcome.code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "course",
    [
        Course((Loss("spot", 1.3, back_s=3.0), Loss("spot", 5.1))),
        Course((Loss("spot", 3.0, notice_s=2.0), Loss("spot", 4.0)), boots_s=(0.4, 0.7), iterations_s=(0.07,)),
    ],
)
def test_a_virtual_fleet_goes_on(small_plan: SriftPlan, tmp_path: Path, course: Course) -> None:
    """Its monitor is gone after any transaction: another one makes the same of the course, which is kept."""
    options: dict[str, Any] = {"course": course, "heartbeat_s": 0.5, "launch_wait_s": 9.0}
    whole, commit, died = watch(small_plan, **options), Journal.commit, 0

    class GoneError(Exception):
        """The monitor is gone."""

    for last in range(100):
        out, left = tmp_path / str(last), [last]

        def commit_some(self: Journal, records: Sequence[Record], left: list[int] = left) -> None:
            commit(self, records)
            left[0] -= 1
            if left[0] < 0:
                raise GoneError

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Journal, "commit", commit_some)
            try:
                watch(small_plan, out=out, **options)
                break
            except GoneError:
                died += 1
        assert (last, resume(out).model_dump()) == (last, whole.model_dump())
    assert died > 8
