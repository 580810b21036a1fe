"""The log behind an instance: what it said of each class, and what its jobs took beside what they would have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optplan.contracts import Result, Solution
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import LoggedJobs
from optplan.instances.job_traces import JobTrace, Stays
from optplan.reporting.boa.breakdown import break_down, price_usd_per_hour
from optplan.reporting.job_use import Use, tell_use
from optplan.reporting.pages import Block, Card, Definitions, Items, Page, Section
from optplan.reporting.phrases import NOTHING, count_gpus, format_gpus, format_share, format_usd
from optplan.reporting.tables import Cell, Column, Content, Row, Table, numbers
from optplan.schema import FloatArray
from optplan.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, format_duration

_HOW_TO_READ = (
    "Left what happened: on how many GPUs jobs ran, for how long they waited for them, and for how long they ran. "
    "Right what the plan would give jobs of the same sizes that arrive as often.",
    "With the plan nobody waits, because GPUs are rented when jobs need them; its times are expectations, pauses for "
    "starting included, and as good as the speedups and sizes that they rest on.",
)


def _logged(instance: BoaInstance) -> dict[str, LoggedJobs]:
    """Return what a log said, by class; of classes that come from none, nothing."""
    return {name: each.logged for name, each in instance.classes.items() if each.logged is not None}


def list_logged(instance: BoaInstance) -> Table | None:
    """List what a log said of each class, and how far it can be believed; None where no class comes from a log."""
    logged = _logged(instance)
    if not logged:
        return None
    names = ("jobs", "an hour, 95 %", "uneven", "GPUs", "waited", "ran", "sizes known of", "sizes differ by")
    rows = [
        (
            name,
            f"{found.jobs:,}",
            f"{found.rate_low_per_hour:.3g} to {found.rate_high_per_hour:.3g}",
            NOTHING if found.dispersion == 1.0 else f"x {found.dispersion:.2g}",
            format_gpus(found.gpu_hours * SECONDS_PER_HOUR / found.run_s),
            NOTHING if found.wait_s is None else format_duration(found.wait_s),
            format_duration(found.run_s),
            f"{found.measured_jobs:,}",
            format_share(found.size_spread),
        )
        for name, found in logged.items()
    ]
    return Table("What the log says of each class", (Column("class"), *numbers(*names)), rows)


def compare_with_log(instance: BoaInstance, result: Result[Solution]) -> Table | None:
    """List what the log's jobs took beside what they would have by the plan; None without a log or a plan."""
    logged, parts = _logged(instance), break_down(instance, result)
    if not logged or not parts:
        return None
    price = price_usd_per_hour(instance)
    names = ("GPUs", "waited", "ran", "GPU-hours a job", "GPUs by plan", "takes by plan", "GPU-hours by plan")
    money = ("cost a month", "cost by plan") if price is not None else ()
    waits = any(found.wait_s is not None for found in logged.values())
    totals = [0.0] * 6
    rows: list[Row] = []
    for part in parts:
        if part.name not in logged:
            continue
        found, rate = logged[part.name], instance.classes[part.name].arrival_rate_per_hour
        each = (1.0, found.wait_s or 0.0, found.run_s, found.gpu_hours, part.mean_jct_s, part.gpus / rate)
        figures = [rate * figure for figure in each]
        totals = [total + figure for total, figure in zip(totals, figures, strict=True)]
        rows.append(Row(_write_means(part.name, figures, price, waits=found.wait_s is not None)))
    rows.append(Row(_write_means("all jobs", totals, price, waits=waits), "own"))
    caption = "What the log's jobs took, and what they would have by the plan"
    return Table(caption, (Column("class"), *numbers(*names, *money)), rows)


def _write_means(name: str, an_hour: Sequence[float], price: float | None, *, waits: bool) -> list[Content]:
    """Write the means of the jobs that come in an hour, given their sums."""
    rate, wait, run, held_h, takes, planned_h = an_hour
    return [
        name,
        format_gpus(held_h * SECONDS_PER_HOUR / run),
        format_duration(wait / rate) if waits else NOTHING,
        format_duration(run / rate),
        f"{held_h / rate:.3g}",
        Cell(format_gpus(planned_h * SECONDS_PER_HOUR / takes), "strong"),
        format_duration(takes / rate),
        f"{planned_h / rate:.3g}",
        *(format_usd(held * price * HOURS_PER_MONTH) for held in (held_h, planned_h) if price is not None),
    ]


def tell_log(instance: BoaInstance, result: Result[Solution]) -> list[Section]:
    """Tell what the log's jobs took beside the plan, and what the log says of each class; nothing without a log."""
    table, logged = compare_with_log(instance, result), list_logged(instance)
    if logged is None:
        return []
    blocks: list[Block] = [logged] if table is None else [table, Items(_HOW_TO_READ), logged]
    return [Section("log", "The log beside the plan", blocks, "The log")]


def use_of_log(trace: JobTrace) -> Use | None:
    """Return what a log's jobs held and waited for; None where it does not say what they held."""
    stays = Stays.of(trace)
    known = np.isfinite(trace.wait_s)
    waits_s = {name: trace.wait_s[(trace.class_index == place) & known] for place, name in enumerate(trace.classes)}
    return None if stays is None else Use("As it happened", stays, waits_s)


def list_sizes(instance: BoaInstance, trace: JobTrace) -> dict[str, FloatArray]:
    """List the sizes of the jobs of each class, in GPU-hours at the reference width; of a log, where they are known."""
    known = np.isfinite(trace.run_s) if np.isfinite(trace.run_s).any() else np.full(len(trace), fill_value=True)
    return {
        name: trace.size[known & (trace.class_index == place)] * instance.classes[name].size_gpu_hours
        for place, name in enumerate(trace.classes)
    }


def build_log_page(instance: BoaInstance, trace: JobTrace) -> Page:
    """Gather the page of a log, before anything is planned: who held GPUs when, how large jobs are, what is known."""
    use, table = use_of_log(trace), list_logged(instance)
    assert use is not None
    assert table is not None  # an instance of a log has both
    held, span_s = use.stays.held(), use.stays.span_s
    held_h = float(use.stays.gpu_hours().sum())
    mean = held_h * SECONDS_PER_HOUR / (span_s[1] - span_s[0])
    drawn, waits_s = use.stays.gpus.size, np.concatenate(list(use.waits_s.values()))
    lead = "What a log says of its jobs, and of how far it can be believed; nothing is planned."
    if drawn < len(trace):
        lead += f" Of {len(trace) - drawn:,} jobs it does not say for how long they ran: they are in no picture."
    return Page(
        name=instance.name,
        title=f"{len(trace):,} jobs held {count_gpus(mean)} on average, and waited "
        + (f"{format_duration(float(waits_s.mean()))} for them" if waits_s.size else "for as long as nobody knows"),
        lead=lead,
        cards=[
            Card("jobs", f"{len(trace):,}", f"of {len(trace.classes)} classes, in {format_duration(trace.span_s)}"),
            Card("GPU-hours held", f"{held_h:,.1f}"),
            Card("GPUs enough for 95 % of the time", f"{held.enough(0.95, *span_s):,.4g}", f"at most {held.most:,.4g}"),
        ],
        sections=[
            *tell_use([use], list_sizes(instance, trace), began_s=trace.began_s),
            Section("log", "What the log says", [table]),
            Section("provenance", "Where this comes from", [Definitions(list(instance.source.items()))], "Provenance"),
        ],
    )
