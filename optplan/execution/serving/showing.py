"""How a calculator stands, as plain data for the page, and as metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from optplan.errors import MissingExtraError
from optplan.execution.online.calculations import Verdict
from optplan.execution.online.width_table import Holding, WidthTable
from optplan.execution.serving.publisher import View

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


#: From which part of the budget on a plan is said to exceed it: estimates move a little between two tables.
_ALARM = 1.05


def describe(view: View) -> dict[str, Any]:
    """Return what the page shows, as plain data."""
    latest = view.calculations[0] if view.calculations else None
    return {
        "name": view.instance.name,
        "table": None if view.table is None else _describe_table(view.table),
        "classes": {
            name: {
                "rate_per_hour": job_class.arrival_rate_per_hour,
                "size_gpu_hours": job_class.size_gpu_hours,
                "new": name in view.new_classes,
            }
            for name, job_class in view.instance.classes.items()
        },
        "budget": {
            "given": view.instance.budget_amount(),
            "unit": view.instance.budget_unit.value,
            "planned": None if latest is None else latest.planned,
            "needed": None if latest is None else latest.needed,
            "followed": None if latest is None else latest.followed,
            "committed": view.committed,
            "debt_h": view.debt_h,
            # Whether the table that holds takes clearly more than the budget, and than what is to be spent now.
            "exceeded": latest is not None
            and (latest.planned or 0.0) > _ALARM * max(latest.budget, latest.followed or 0.0),
            "used_gpus": view.used_gpus,
        },
        "calculations": [each.to_json_data() for each in view.calculations],
        "events": view.events,
        "refused": view.refused,
        "began_s": view.began_s,
    }


def _describe_table(table: WidthTable) -> dict[str, Any]:
    return {
        "number": table.number,
        "made_s": table.made_s,
        "gpus": table.gpus,
        "mean_jct_s": table.mean_jct_s,
        "classes": {
            name: [
                {"share": row.share, "phases": _merge(table, name, place, row.gpus.size)}
                for place, row in enumerate(rows)
            ]
            for name, rows in table.classes.items()
        },
    }


def _merge(table: WidthTable, name: str, row: int, epochs: int) -> list[dict[str, Any]]:
    """Return phases of the same width: from and to which epoch, counted from 1."""
    held: Iterator[tuple[int, Holding]] = ((epoch, table.held_at(name, epoch, row)) for epoch in range(epochs))
    phases = []
    for holding, group in groupby(held, key=lambda pair: pair[1]):
        numbers = [epoch for epoch, _ in group]
        phases.append(
            {"from": numbers[0] + 1, "to": numbers[-1] + 1, "gpus": holding.gpus, "gpu_type": holding.gpu_type}
        )
    return phases


def render_metrics(view: View) -> bytes:
    """Return the metrics in Prometheus' text format."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.registry import Collector
    except ModuleNotFoundError:
        raise MissingExtraError("prometheus_client", "serve") from None

    class Scrape(Collector):
        """Collects from one view."""

        def collect(self) -> Iterator[Metric]:
            """Yield the metrics."""
            return _collect(view)

    registry = CollectorRegistry()
    registry.register(Scrape())
    return generate_latest(registry)


def _collect(view: View) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield CounterMetricFamily("optplan_events", "Events taken.", value=view.events)
    yield CounterMetricFamily("optplan_events_refused", "Events refused since the start.", value=view.refused)
    yield CounterMetricFamily("optplan_batches", "Transactions of events since the start.", value=view.batches)
    yield GaugeMetricFamily("optplan_start_time_seconds", "When the process began.", value=view.began_s)
    unit = view.instance.budget_unit.value.replace("/", "_per_")
    budget = GaugeMetricFamily("optplan_budget", f"The budget, in {unit}.", labels=["what"])
    budget.add_metric(["given"], view.instance.budget_amount())
    for what in ("planned", "needed", "followed"):
        if view.calculations and (amount := getattr(view.calculations[0], what)) is not None:
            budget.add_metric([what], amount)
    if view.committed is not None:
        budget.add_metric(["committed"], view.committed)
    yield budget
    gauges = [
        ("used_gpus", "Time-average GPUs of jobs that ended.", view.used_gpus),
        ("budget_debt_hours", "Hours of budget that were committed beyond what it gave.", view.debt_h),
    ]
    if view.calculations:
        latest = view.calculations[0]
        verdict = GaugeMetricFamily("optplan_calculation", "What became of the last calculation.", labels=["verdict"])
        for each in Verdict:
            verdict.add_metric([each.value], float(latest.verdict is each))
        yield verdict
        gauges.append(("calculated_time_seconds", "When widths were calculated.", latest.at_s))
        gauges.append(("gap", "Proven relative gap of the last calculation.", latest.gap))
    if view.table is not None:
        gauges.append(("table", "Number of the published table.", view.table.number))
        gauges.append(("table_time_seconds", "When it was made.", view.table.made_s))
        gauges.append(("planned_gpus", "Time-average GPUs expected of it.", view.table.gpus))
        gauges.append(("planned_jct_seconds", "Mean completion time expected.", view.table.mean_jct_s))
    for name, said, value in gauges:
        if value is not None:
            yield GaugeMetricFamily(f"optplan_{name}", said, value=value)
    rates = GaugeMetricFamily("optplan_arrivals_per_hour", "Estimated arrival rate.", labels=["job_class"])
    sizes = GaugeMetricFamily("optplan_size_gpu_hours", "Estimated mean size of a job.", labels=["job_class"])
    for name, job_class in view.instance.classes.items():
        rates.add_metric([name], job_class.arrival_rate_per_hour)
        sizes.add_metric([name], job_class.size_gpu_hours)
    yield rates
    yield sizes
