"""The log behind an instance: what it said of each class, and what its jobs took beside what they would have."""

from __future__ import annotations

from functools import partial

from optplan.contracts import Result, Solution
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import LoggedJobs
from optplan.reporting.boa.breakdown import break_down, price_usd_per_hour
from optplan.reporting.pages import Block, Items, Section
from optplan.reporting.phrases import NOTHING, format_gpus, format_share, format_usd
from optplan.reporting.tables import Cell, Column, Row, Table
from optplan.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, format_duration

_Number = partial(Column, is_number=True)
_HOW_TO_READ = (
    "Left what happened: on how many GPUs jobs ran, for how long they waited for them, and for how long they ran. "
    "Right what the plan would give jobs of the same sizes that arrive as often.",
    "With the plan nobody waits, because GPUs are rented when jobs need them; its times are expectations, pauses for "
    "starting included, and as good as the speedups and sizes that they rest on.",
)


def _logged(instance: BoaInstance) -> dict[str, LoggedJobs]:
    """Return what a log said, by class; of classes that come from none, nothing."""
    return {name: each.logged for name, each in instance.classes.items() if each.logged is not None}


def _mean_gpus(found: LoggedJobs) -> float:
    """Return the GPUs that a job of a class held on average over its time on GPUs, in every table the same."""
    return found.gpu_hours * SECONDS_PER_HOUR / found.run_s


def list_logged(instance: BoaInstance) -> Table | None:
    """List what a log said of each class, and how far it can be believed; None where no class comes from a log."""
    logged = _logged(instance)
    if not logged:
        return None
    columns = [Column("class"), _Number("jobs"), _Number("an hour, 95 %"), _Number("uneven"), _Number("GPUs")]
    columns += [_Number("waited"), _Number("ran"), _Number("sizes known of"), _Number("sizes differ by")]
    rows = [
        (
            name,
            f"{found.jobs:,}",
            f"{found.rate_low_per_hour:.3g} to {found.rate_high_per_hour:.3g}",
            NOTHING if found.dispersion == 1.0 else f"x {found.dispersion:.2g}",
            format_gpus(_mean_gpus(found)),
            NOTHING if found.wait_s is None else format_duration(found.wait_s),
            format_duration(found.run_s),
            f"{found.measured_jobs:,}",
            format_share(found.size_spread),
        )
        for name, found in logged.items()
    ]
    return Table("What the log says of each class", columns, rows)


def compare_with_log(instance: BoaInstance, result: Result[Solution]) -> Table | None:
    """List what the log's jobs took beside what they would have by the plan; None without a log or a plan."""
    logged, parts = _logged(instance), break_down(instance, result)
    if not logged or not parts:
        return None
    price = price_usd_per_hour(instance)
    names = ("GPUs", "waited", "ran", "GPU-hours a job", "GPUs by plan", "takes by plan", "GPU-hours by plan")
    money = ("cost a month", "cost by plan") if price is not None else ()
    totals = [0.0] * 6
    rows: list[Row] = []
    for part in parts:
        if part.name not in logged:
            continue
        found, rate = logged[part.name], instance.classes[part.name].arrival_rate_per_hour
        planned_h = part.gpus / rate
        usd = [] if price is None else [rate * held * price * HOURS_PER_MONTH for held in (found.gpu_hours, planned_h)]
        figures = [rate, rate * (found.wait_s or 0.0), rate * found.run_s, rate * found.gpu_hours]
        figures += [rate * part.mean_jct_s, rate * planned_h]
        totals = [total + figure for total, figure in zip(totals, figures, strict=True)]
        rows.append(
            Row(
                (
                    part.name,
                    format_gpus(_mean_gpus(found)),
                    NOTHING if found.wait_s is None else format_duration(found.wait_s),
                    format_duration(found.run_s),
                    f"{found.gpu_hours:.3g}",
                    Cell(format_gpus(planned_h * SECONDS_PER_HOUR / part.mean_jct_s), "strong"),
                    format_duration(part.mean_jct_s),
                    f"{planned_h:.3g}",
                    *map(format_usd, usd),
                )
            )
        )
    rate, wait, run, held_h, takes, planned_h = totals
    waits = any(found.wait_s is not None for found in logged.values())
    cells = [
        "all jobs",
        format_gpus(held_h * SECONDS_PER_HOUR / run),
        format_duration(wait / rate) if waits else NOTHING,
        format_duration(run / rate),
        f"{held_h / rate:.3g}",
        format_gpus(planned_h * SECONDS_PER_HOUR / takes),
        format_duration(takes / rate),
        f"{planned_h / rate:.3g}",
    ]
    if price is not None:
        cells += [format_usd(held * price * HOURS_PER_MONTH) for held in (held_h, planned_h)]
    columns = [Column("class"), *map(_Number, (*names, *money))]
    return Table("What the log's jobs took, and what they would have by the plan", columns, [*rows, Row(cells, "own")])


def tell_log(instance: BoaInstance, result: Result[Solution]) -> list[Section]:
    """Tell what the log's jobs took beside the plan, and what the log says of each class; nothing without a log."""
    table, logged = compare_with_log(instance, result), list_logged(instance)
    if logged is None:
        return []
    blocks: list[Block] = [logged] if table is None else [table, Items(_HOW_TO_READ), logged]
    return [Section("log", "The log beside the plan", blocks, "The log")]
