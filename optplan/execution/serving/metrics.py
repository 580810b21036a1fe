"""How a calculator stands, as metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from optplan.errors import MissingExtraError
from optplan.execution.online.calculations import Verdict
from optplan.execution.serving.publisher import View

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


def render_metrics(view: View) -> bytes:
    """Return the metrics in Prometheus' text format."""
    try:
        from prometheus_client import generate_latest
        from prometheus_client.registry import Collector
    except ModuleNotFoundError:
        raise MissingExtraError("prometheus_client", "serve") from None

    class Scrape(Collector):
        """Collects from one view."""

        def collect(self) -> Iterator[Metric]:
            """Yield the metrics."""
            return _collect(view)

    return generate_latest(Scrape())


def _collect(view: View) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield CounterMetricFamily("optplan_events", "Events taken.", value=view.events)
    yield CounterMetricFamily("optplan_events_refused", "Events refused since the start.", value=view.refused)
    yield CounterMetricFamily("optplan_batches", "Transactions of events since the start.", value=view.batches)
    budgets, verdicts = {"given": view.instance.budget_amount(), "committed": view.committed}, dict[str, float | None]()
    gauges: list[tuple[str, str, float | None]] = [
        ("start_time_seconds", "When the process began.", view.began_s),
        ("budget_debt_hours", "Hours of budget that were committed beyond what it gave.", view.debt_h),
    ]
    if view.calculations:
        latest = view.calculations[0]
        budgets |= {"planned": latest.planned, "needed": latest.needed, "followed": latest.followed}
        verdicts |= {each.value: float(latest.verdict is each) for each in Verdict}
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
    classes, unit = view.instance.classes, view.instance.budget_unit.value.replace("/", "_per_")
    rates = {name: each.arrival_rate_per_hour for name, each in classes.items()}
    sizes = {name: each.size_gpu_hours for name, each in classes.items()}
    for name, said, label, values in (
        ("budget", f"The budget, in {unit}.", "what", budgets),
        ("calculation", "What became of the last calculation.", "verdict", verdicts),
        ("arrivals_per_hour", "Estimated arrival rate.", "job_class", rates),
        ("size_gpu_hours", "Estimated mean size of a job.", "job_class", sizes),
    ):
        family = GaugeMetricFamily(f"optplan_{name}", said, labels=[label])
        for labelled, value in values.items():
            if value is not None:
                family.add_metric([labelled], value)
        yield family
