"""Fleets in a folder: what is read and written there, and a monitor that was killed after any transaction."""

from __future__ import annotations

import json
import shlex
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from optplan.errors import UsageError
from optplan.execution.fleets.folder import FolderFleet, Ranks, list_roles, read_iterations
from optplan.execution.fleets.hook import Member
from optplan.execution.fleets.monitor import Monitor
from optplan.execution.fleets.running import FleetRun, watch
from optplan.execution.fleets.state import FleetState
from optplan.execution.folders import FolderSettings, Running
from optplan.execution.journal import Beginning, Journal
from optplan.execution.loop import GIVEN_UP
from optplan.execution.options import FleetOptions
from optplan.execution.protocol import Event, Operation
from optplan.execution.records import Checkpoint, Ended, NodeNoticed, OperationWanted, Record, Reported
from optplan.execution.runs import read_run, resume
from optplan.formulations.srift.planning import SriftPlan

#: Seconds that a thread may take.
PATIENCE_S = 60.0
PLACE = {"spot.vm-001": 1, "spot.vm-002": 1}


class WrittenFleet(FolderFleet):
    """Ranks that are files: those of the first fleet do 20 iterations, store them and fall silent; others do all.

    Its clock goes on only where the monitor waits, so that a busy machine plans what an idle one does.
    """

    done = 20

    def __init__(self, root: Path, *, now_s: float = 0.0) -> None:
        super().__init__({"spot": 1, "steady": 1}, FolderSettings(root=root, heartbeat_s=0.02), now_s=now_s)
        self._now_s = now_s

    def now_s(self) -> float:
        """Return what the clock shows."""
        return self._now_s

    def poll(self, until_s: float) -> list[Event]:
        """Return what was written, or wait."""
        heard = super().poll(self._now_s)
        if not heard:
            self._now_s = max(self._now_s, until_s)
        return heard

    def _start(self, folder: Path, ranks: Ranks, log: Path) -> None:  # noqa: ARG002 - nothing is started
        said = ranks.said
        for role in said["ranks"]:
            lines: list[dict[str, Any]] = [{"pid": 1}]
            if said["id"] == "fleet-001":
                stored = {"stored": f"iteration-{self.done}"} if role["rank"] == 0 else {}
                lines.append({"iterations": self.done} | stored)
            else:
                lines.append({"iterations": said["to_iterations"], "ended": True})
                lines.append({"left": True})
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / "ranks" / f"{role['rank']:05d}.jsonl").write_text(text, encoding="utf-8")

    def _is_alive(self, running: Running[Ranks]) -> bool:
        return running.handle is not None and not running.handle.is_ended

    def _kill(self, running: Running[Ranks]) -> None:
        assert running.handle is not None
        running.handle.is_ended = True


def operation_of(number: int, place: Mapping[str, int] | None = None, **fields: Any) -> Operation:  # noqa: ANN401
    """Return an operation of the small plan's fleet, or of another place."""
    place = place or PLACE
    known: dict[str, Any] = {"batches": (32,) * sum(place.values()), "to_iterations": 60}
    name = f"fleet-{number:03d}"
    return Operation(name, "train", "job", number, place, sum(place.values()), 1, **known | fields)


class CountingJournal(Journal):
    """A journal that remembers how many records there were after each transaction."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ends: list[int] = []

    def commit(self, records: Sequence[Record]) -> None:
        """Append records."""
        super().commit(records)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(records))


def follow(
    plan: SriftPlan, out: Path, before: list[Record], *, done: int = 20, left: Path | None = None
) -> tuple[FleetState, list[Record], list[int]]:
    """Follow the small plan from these records on, with the fleets that another run has left.

    Return the state, all records, and where transactions ended.
    """
    journal = CountingJournal(out)
    try:
        journal.begin(Beginning("fleet", plan.to_json_data(), {}, {}), before)
        for name in [each.operation for each in before if isinstance(each, OperationWanted)]:
            assert left is not None
            own = Path("operations", name)
            shutil.copytree(left / own, out / own, ignore=shutil.ignore_patterns("stop"))
        run = FleetRun(plan, FleetOptions(heartbeat_s=0.02, grace_s=5.0))
        run.restore(before)
        run.journal, state = journal, run.state
        fleet = WrittenFleet(out, now_s=state.t)
        fleet.done = done
        monitor = Monitor(run, fleet)
        if before:
            monitor.resume()
        monitor.follow()
        return state, list(journal.replay()), journal.ends
    finally:
        journal.close()


def test_a_monitor_may_be_killed_after_any_transaction(small_plan: SriftPlan, tmp_path: Path) -> None:
    """Whatever of the journal there is, the run goes on from it and ends as if nothing had been."""
    whole, records, ends = follow(small_plan, tmp_path / "whole", [])
    assert [plan.units[0].type for plan in whole.followed] == ["spot", "steady"]
    assert len(ends) == 8  # releasing the nodes and the end itself are decided in one round
    for known in ends[:-1]:
        state, *_ = follow(small_plan, tmp_path / f"from-{known}", records[:known], left=tmp_path / "whole")
        assert state.ended is not None
        assert (state.ended.code, state.iterations, state.attempts) == (0, 60, 2), records[known - 1]
        assert list(state.nodes) == list(whole.nodes)
        assert [plan.fleet for plan in state.followed] == [plan.fleet for plan in whole.followed]


def test_the_second_fleet_goes_on_from_what_was_stored(small_plan: SriftPlan, tmp_path: Path) -> None:
    """Nobody is left to store: the last checkpoint counts, and the plan is of the 40 iterations since."""
    state, *_ = follow(small_plan, tmp_path, [])
    said = json.loads((tmp_path / "operations" / "fleet-002" / "operation.json").read_text(encoding="utf-8"))
    assert (said["from_iterations"], said["to_iterations"], said["checkpoint"]) == (20, 60, "iteration-20")
    assert (state.plan.iterations, state.plan.supersedes) == (40, small_plan.plan_id)


def test_what_was_stored_may_be_all(small_plan: SriftPlan, tmp_path: Path) -> None:
    """VMs that go after they have stored the last iteration cost nothing: the job is done."""
    state, *_ = follow(small_plan, tmp_path, [], done=60)
    assert state.ended is not None
    assert (state.ended.code, state.attempts, state.iterations) == (0, 1, 60)


def test_a_fleet_that_trains_is_given_up(small_plan: SriftPlan, tmp_path: Path) -> None:
    """Nobody waits for silent VMs to come back: it is ended, all are given back, and the run is over with code 1."""
    run = FleetRun(small_plan, FleetOptions(heartbeat_s=0.02, grace_s=5.0, return_s=1e6))
    state, fleet = run.state, WrittenFleet(tmp_path)
    monitor = Monitor(run, fleet)
    monitor.interrupt()
    assert (monitor.follow(), state.ended, state.paused is None) == (130, None, False)
    assert state.attempt is not None
    again = Monitor(run, fleet)
    again.resume()
    assert again.abort() == 1
    assert state.ended is not None
    assert state.ended == Ended(state.ended.t, None, GIVEN_UP, 1)
    assert state.ended.t <= state.t
    assert not state.operations
    assert not state.held_nodes()
    assert fleet.observe((), ()).nodes == frozenset()


def test_roles_divide_the_global_batch() -> None:
    """Eight ranks of two VMs have 128 samples each, one after the other."""
    roles = list(list_roles(operation_of(1, {"a": 4, "b": 4}, batches=(128,) * 8)))
    assert [role["first_sample"] for role in roles] == list(range(0, 1024, 128))
    assert [role["vm"] for role in roles] == ["a"] * 4 + ["b"] * 4
    assert [role["local_rank"] for role in roles] == [0, 1, 2, 3] * 2
    assert {role["loss_weight"] for role in roles} == {1.0}
    assert [role["loss_weight"] for role in list_roles(operation_of(1, batches=(48, 16)))] == [1.5, 0.5]


def test_lines_that_are_none_are_heartbeats(tmp_path: Path) -> None:
    """Half a line waits for its rest, and what is no object says only that the rank is there."""
    fleet = WrittenFleet(tmp_path)
    fleet.start(operation_of(2))
    fleet.poll(0.0)
    path = tmp_path / "operations" / "fleet-002" / "ranks" / "00000.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write('[1]\nnothing\n{"iterations": 7')
        file.flush()
        heard = fleet.poll(0.0)
        assert [getattr(report, "iterations", 0) for report in heard] == [None, None]
        file.write("}\n")
    (report,) = fleet.poll(0.0)
    assert getattr(report, "iterations", 0) == 7
    assert read_iterations(tmp_path, "fleet-002") == 60  # what the other rank says
    assert read_iterations(tmp_path, "fleet-003") == 0


def test_what_makes_no_sense_is_left_out(tmp_path: Path) -> None:
    """Each part of a line that is of another kind than it should be says nothing; the rest of the line counts."""
    fleet = WrittenFleet(tmp_path)
    fleet.start(operation_of(2))
    fleet.poll(0.0)
    path = tmp_path / "operations" / "fleet-002" / "ranks" / "00001.jsonl"
    said = {"iterations": "8", "order": [1], "metrics": 3, "trouble": None, "at": "now", "news": 1, "stored": "eight"}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(said) + "\n")
    assert fleet.poll(0.0) == [Reported(0.0, "fleet-002", 1, stored="eight")]


def test_reports_are_of_when_they_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes over hears of each when it was made, 40 s and 10 s ago, and of what comes then when it is seen."""
    first = WrittenFleet(tmp_path, now_s=100.0)
    operation = operation_of(1, {"spot.vm-001": 1}, wanted_s=30.0)
    first.start(operation)
    first.poll(0.0)
    path, now = tmp_path / "operations" / "fleet-001" / "ranks" / "00000.jsonl", time.time()
    lines = [json.dumps({"at": now - ago_s}) + "\n" for ago_s in (40.0, 10.0, -50.0)]
    path.write_text("".join(lines), encoding="utf-8")
    second = WrittenFleet(tmp_path, now_s=110.0)
    monkeypatch.setattr(second, "_start", lambda *_: None)  # they run
    assert second.observe((), [operation]).operations == {"fleet-001"}
    assert [event.t for event in second.poll(0.0)] == pytest.approx([70.0, 100.0, 110.0], abs=5.0)
    with path.open("a", encoding="utf-8") as file:
        file.write(lines[0])  # of a VM whose clock is late
    assert [event.t for event in second.poll(0.0)] == [110.0]


def test_notices_are_files(tmp_path: Path) -> None:
    """A file named after the VM has the seconds that are left, counted from when it was written."""
    fleet = WrittenFleet(tmp_path, now_s=100.0)
    (tmp_path / "notices" / "spot.vm-001.json").write_text('{"in_s": 120}', encoding="utf-8")
    (notice,) = fleet.poll(0.0)
    assert isinstance(notice, NodeNoticed)
    assert notice.node == "spot.vm-001"
    assert notice.at_s == pytest.approx(220.0, abs=5.0)
    assert fleet.poll(0.0) == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a fleet that was asked for, whose ranks have not come yet."""
    fleet = WrittenFleet(tmp_path)
    fleet.start(operation_of(2, from_iterations=3, to_iterations=5, checkpoint=Checkpoint("three", "")))
    found = tmp_path / "operations" / "fleet-002"
    for path in (found / "ranks").glob("*"):
        path.unlink()
    return found


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """Return what rank 0 has said beside heartbeats."""
    path = folder / "ranks" / "00000.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    told = [json.loads(line) for line in lines]
    assert all(said.pop("at") > 0 for said in told)
    return [said for said in told if said]


def test_a_member_says_what_it_does(folder: Path) -> None:
    """Its number, two iterations with their metrics, its last checkpoint, that it is done, and that it leaves."""
    with Member(folder, 0) as member:
        assert (member.vm, member.batch, member.loss_weight, member.world_size) == ("spot.vm-001", 32, 1.0, 2)
        member.save_with(lambda path: path.write_text("state", encoding="utf-8"))
        for iteration in member.iterations():
            with member.update(loss=1.0 / iteration):
                pass
    first, *rest = read_lines(folder)
    path = str(folder / "checkpoints" / "000000005-00000")
    assert "pid" in first
    assert rest == [
        {"iterations": 4, "metrics": {"loss": 1 / 3}},
        {"iterations": 5, "metrics": {"loss": 1 / 4}},
        {"iterations": 5, "stored": path, "order": 0},
        {"iterations": 5, "ended": True},
        {"left": True},
    ]
    assert Path(path).read_text(encoding="utf-8") == "state"


def test_a_member_that_fails_stores_when_it_is_asked(folder: Path) -> None:
    """An exchange that fails ends nothing: it waits, stores what it has, and ends once it is told to."""
    saved = threading.Event()

    def save(path: Path) -> None:
        path.write_text("state", encoding="utf-8")
        saved.set()

    def fail() -> None:
        with Member(folder, 0) as member:
            member.save_with(save)
            with member.update():
                pass
            raise RuntimeError("connection closed by peer")

    code: list[object] = []

    def run() -> None:
        try:
            fail()
        except SystemExit as end:
            code.append(end.code)

    def troubles() -> list[str]:
        return [said["trouble"] for said in read_lines(folder) if "trouble" in said]

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive() and not troubles():
        thread.join(0.01)
    (folder / "orders" / "0001.json").write_text('{"order": 1, "rank": 0}', encoding="utf-8")
    assert saved.wait(PATIENCE_S)
    (folder / "stop").touch()
    thread.join(PATIENCE_S)
    assert code == [75]
    stored = [said for said in read_lines(folder) if "stored" in said]
    assert [(said["iterations"], said["order"]) for said in stored] == [(4, 1)]
    assert any("connection closed by peer" in trouble for trouble in troubles())


def test_a_rank_runs_once(folder: Path) -> None:
    """A second process that is the same rank ends at once, in good order."""
    with Member(folder, 0), pytest.raises(SystemExit) as end, Member(folder, 0):
        pass
    assert end.value.code == 0


def test_a_command_starts_and_ends_fleets(small_plan: SriftPlan, tmp_path: Path) -> None:
    """It is called to start, to end what is left, and to give all back; status reads the folder."""
    script = tmp_path / "vms.sh"
    done = '{"iterations": 60, "ended": true, "left": true}'
    script.write_text(
        f"echo $OPTPLAN_ACTION >> {tmp_path}/calls\n[ $OPTPLAN_ACTION = start ] || exit 0\n"
        f"for rank in 0 1; do echo '{done}' > $OPTPLAN_FLEET/ranks/0000$rank.jsonl; done\n",
        encoding="utf-8",
    )
    out = tmp_path / "run"
    outcome = watch(small_plan, out=out, executor="command", command=f"sh {script}", heartbeat_s=0.1)
    assert (outcome.status, outcome.code, outcome.iterations) == ("ended", 0, 60)
    assert (tmp_path / "calls").read_text(encoding="utf-8").split() == ["start", "stop", "release"]
    assert read_run(out).describe() == outcome
    assert resume(out) == outcome
    with pytest.raises(UsageError, match="optplan run --resume"):
        read_run(out, "search")
    with pytest.raises(UsageError, match="a run of this plan is there; go on with --resume"):
        watch(small_plan, out=out, executor="command", command="true")


def test_a_command_that_fails_says_so(small_plan: SriftPlan, tmp_path: Path) -> None:
    """The run can be gone on with once it is mended."""
    with pytest.raises(
        UsageError, match=r"ended with exit code 7 on start \(see .*; mend it, then go on with --resume"
    ):
        watch(small_plan, out=tmp_path / "run", executor="command", command="sh -c 'exit 7'")


def test_a_program_that_dies_at_once_is_given_up(small_plan: SriftPlan, tmp_path: Path) -> None:
    """No VM was lost: the fleet is tried again as often as retries say, and then it is over with code 1."""
    pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
    out = tmp_path / "run"
    options: dict[str, Any] = {"executor": "local", "command": "sh -c 'exit 9'"}
    outcome = watch(small_plan, out=out, heartbeat_s=0.05, grace_s=1.0, retries=1, **options)
    assert (outcome.status, outcome.code, outcome.lost) == ("ended", 1, {})
    assert "2 fleets failed though no VM was lost" in outcome.why
    assert "exit code 9" in outcome.why


def test_helpers_of_ranks_end_with_their_fleet(small_plan: SriftPlan, tmp_path: Path) -> None:
    """Each of two ranks starts a daemon and dies: when the run has ended, none of them is left."""
    psutil = pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
    daemons = tmp_path / "daemons"
    script = f"setsid sleep 100000 & echo $! >>{daemons}; exit 9"
    options: dict[str, Any] = {"executor": "local", "command": shlex.join(["sh", "-c", script])}
    outcome = watch(small_plan, out=tmp_path / "run", heartbeat_s=0.05, grace_s=1.0, retries=0, **options)
    assert outcome.code == 1
    started = [int(line) for line in daemons.read_text(encoding="utf-8").split()]
    assert len(started) == 2
    assert [pid for pid in started if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"] == []
