"""Streams of jobs served by a BOA plan's widths: how they are begun and told, and what was planned beside what came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optplan.errors import UsageError
from optplan.execution.cli.kinds import Account, RunKind
from optplan.execution.streams.running import StreamOutcome, run_stream
from optplan.execution.streams.state import read_jobs
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.instances.files import read_instance
from optplan.reporting.pages import Card, Section
from optplan.reporting.phrases import NOTHING, format_seconds, format_share
from optplan.reporting.tables import Column, Table, numbers

if TYPE_CHECKING:
    from optplan.contracts.plan import Plan
    from optplan.execution.runs import Listener

_COLUMNS = (
    Column("class"),
    Column(""),
    *numbers("jobs", "mean completion time", "GPU-hours of a job"),
    Column("GPUs of a job", style="wraps"),
)

#: What is said of a stream on the virtual clock.
_VIRTUAL = "virtual stream: nothing was trained; times are those of the instance"


class _Streams(RunKind):
    KIND = "stream"
    NAME = "a stream of jobs"
    FAILED = "jobs were given up"
    OWN = frozenset({"jobs", "learn", "truth"})

    def begin(self, plan: Plan, own: dict[str, Any], listener: Listener, fields: dict[str, Any]) -> StreamOutcome:
        if "jobs" not in own:
            what = "a plan of a stream is followed for a list of jobs, as in run PLAN jobs.yaml"
            raise UsageError(f"JOBS is missing; {what}")
        assert isinstance(plan, BoaPlan)  # no other has classes of jobs
        for name in fields.get("terms", ()) if "learn" not in own else ():
            raise UsageError(f"terms.{name}: goes with --learn; leave it out, or say with what it learns")
        known = {name: read_instance(own[name], BoaInstance) for name in ("learn", "truth") if name in own}
        instances = {"instance": known.get("learn"), "truth": known.get("truth")}
        return run_stream(plan, read_jobs(own["jobs"]), out=own.get("out"), listener=listener, **instances, **fields)

    def tell(self, outcome: StreamOutcome) -> Account:
        jobs, done = (sum(getattr(one, what) for one in outcome.classes) for what in ("jobs", "completed"))
        actual, planned = _seconds(outcome.actual_jct_s), _seconds(outcome.planned_jct_s)
        held = f"{_say_starting(outcome)}held by jobs {_hours(outcome.gpu_hours)}"
        title = f"{done:,} of {jobs:,} jobs done"
        if outcome.actual_jct_s is not None:
            title += f", in {actual} on average (planned: {planned})"
        dropped = f"; given up {len(outcome.dropped):,}" if outcome.dropped else ""
        cards = [
            Card("mean completion time", actual, f"planned {planned}"),
            Card("GPU-hours of nodes", _hours(outcome.node_gpu_hours), held),
            Card("jobs", f"{jobs:,}", f"{done:,} done{dropped}"),
        ]
        facts = [
            ("tables learned", f"{outcome.tables:,}"),
            ("changes of width", f"{outcome.changes:,}"),
            ("time", format_seconds(outcome.time_s)),
        ]
        facts += [("arrivals", outcome.drift)] if outcome.drift else []
        facts += [(f"given up: {name}", why) for name, why in outcome.dropped.items()]
        classes = Section("classes", "Classes of jobs", [_make_table(outcome)])
        return Account(title, _VIRTUAL if outcome.virtual else "", cards, facts, [classes], "The whole stream")


def _make_table(outcome: StreamOutcome) -> Table:
    rows: list[tuple[str, ...]] = []
    for one in outcome.classes:
        planned = (_seconds(one.planned_jct_s), _hours(one.planned_gpu_hours))
        widths = ", ".join(map(str, one.widths)) or NOTHING
        rows.append((one.job_class, "planned", f"{one.jobs:,}", *planned, ""))
        actual = (_seconds(one.actual_jct_s), _hours(one.actual_gpu_hours))
        rows.append(("", "virtual" if outcome.virtual else "actual", f"{one.completed:,}", *actual, widths))
    title = "Planned, and on the virtual clock" if outcome.virtual else "Planned against actual"
    return Table(title, _COLUMNS, rows, num_keys=2)


def _say_starting(outcome: StreamOutcome) -> str:
    starting = outcome.starting_gpu_hours
    share = format_share(starting / outcome.node_gpu_hours) if starting else ""
    return f"{_hours(starting)} of them, {share}, while they started; " if starting else ""


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else format_seconds(value)


def _hours(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4g}"


KIND = _Streams()
