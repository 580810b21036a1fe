"""Simulated clusters, spot VMs and rules of starting for readers: tables, and pages with charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.job_traces import JobTrace, Level
from optplan.lab.cluster.outcome import Outcome, find_queued_s
from optplan.lab.spot.replaying import SpotOutcome, Stretch, name_place
from optplan.lab.spot.trials import Score
from optplan.lab.starts import RuleOutcome, StartStudy
from optplan.reporting.boa.logs import list_sizes, use_of_log
from optplan.reporting.job_use import Use, tell_use
from optplan.reporting.pages import Card, Charts, Items, Page, Section
from optplan.reporting.phrases import NOTHING, format_seconds, format_share
from optplan.reporting.style import BLUE, VERMILLION, Figure, new_figure
from optplan.reporting.tables import Column, Columns, Table, numbers, numeric, tabulate
from optplan.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE, format_duration

#: The least mean of any policy with as many GPU-hours, in the results of a simulation: with pauses, and without.
_LEAST = ("least_mean_jct_s", "least_mean_jct_s_without_pauses")
#: Points of a chart over time.
_MOST_POINTS = 1000


def list_facts(outcome: Outcome) -> list[tuple[str, str]]:
    """List the main figures, each with its name."""
    told = outcome.summarise()
    completed = f"{told['completed']:,} of {told['num_jobs']:,}"
    is_weighted = len({job.weight for job in outcome.jobs}) > 1
    return [
        ("policy", outcome.policy),
        ("jobs completed", completed),
        ("mean completion time", _say_seconds(told["mean_jct_s"])),
        *([("the same by weights", _say_seconds(told["weighted_mean_jct_s"]))] if is_weighted else []),
        ("P95 and P99", f"{_say_seconds(told['p95_jct_s'])}, {_say_seconds(told['p99_jct_s'])}"),
        ("mean time in the queue", _say_seconds(told["mean_queued_s"])),
        ("GPU-hours held by jobs", f"{outcome.gpu_hours:,.1f}"),
        ("GPU-hours of rented nodes", f"{outcome.node_gpu_hours:,.1f}"),
        ("GPUs in use, mean and P95", f"{_say(told['mean_gpus'], '.1f')}, {told['p95_gpus']:,}"),
        ("most GPUs in use at once", f"{outcome.most_gpus:,} (most nodes rented: {outcome.most_nodes:,})"),
        ("rented GPUs in use", _say(told["utilisation"], ".1%")),
        ("efficiency of GPUs in use", _say(told["efficiency"], ".1%")),
        ("changes of what jobs hold", f"{told['rescales']:,}"),
        ("time until the last job was over", f"{outcome.span_s / SECONDS_PER_HOUR:.2f} h"),
    ]


def list_least(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List the least mean of any policy with as many GPU-hours, where it is known, with its name."""
    least, without, took = (told.get(name) for name in (*_LEAST, "mean_jct_s"))
    if least is None or without is None or took is None:
        return []
    said = f"{format_seconds(least)} (x {took / least:.3f}), without pauses {format_seconds(without)}"
    return [("least mean of any policy", said)]


def list_applications(outcome: Outcome) -> Table:
    """List what came of the jobs of each application."""
    rows = [
        [name, f"{told['num_jobs']:,}", _say_seconds(told["mean_jct_s"]), f"{told['gpu_hours']:,.1f}"]
        for name, told in outcome.summarise_classes().items()
    ]
    return Table("Applications", [Column("application"), *numbers("jobs", "mean completion time", "GPU-hours")], rows)


_SIMULATIONS: Columns[Mapping[str, Any]] = {
    Column("workload"): lambda told: told["workload"],
    Column("policy"): lambda told: told["plan"] or told["policy"],
    numeric("nodes"): lambda told: "as needed" if told["nodes"] is None else f"{told['nodes']:,}",
    numeric("seed"): lambda told: str(told["seed"]),
    numeric("jobs"): lambda told: f"{told['completed']:,} of {told['num_jobs']:,}",
    numeric("mean time"): lambda told: _say_seconds(told["mean_jct_s"]),
    numeric("over the least"): lambda told: (
        f"x {told['mean_jct_s'] / told[_LEAST[0]]:.3f}" if told.get(_LEAST[0]) else NOTHING
    ),
    numeric("P95"): lambda told: _say_seconds(told["p95_jct_s"]),
    numeric("GPU-hours"): lambda told: f"{told['gpu_hours']:,.1f}",
    numeric("node GPU-hours"): lambda told: f"{told['node_gpu_hours']:,.1f}",
    numeric("P95 of GPUs"): lambda told: f"{told['p95_gpus']:,}",
    numeric("efficiency"): lambda told: _say(told["efficiency"], ".1%"),
}


def compare_simulations(results: Sequence[Mapping[str, Any]]) -> Table:
    """Show the main figures of several simulations, as their JSON has them, one row each."""
    return tabulate("Simulations", _SIMULATIONS, results, 2)


def say_problems(told: Outcome | StartStudy) -> list[str]:
    """Say which jobs could not be completed, and why."""
    return [f"{name}: {problem}" for name, problem in told.problems.items()]


def build_cluster_page(
    outcome: Outcome,
    name: str,
    told: Mapping[str, Any],
    *,
    budget_gpus: float | None = None,
    given: tuple[BoaInstance, JobTrace] | None = None,
) -> Page:
    """Gather the report of a simulated trace, beside its budget and the log of the jobs where these are given."""
    facts = [*list_facts(outcome), *list_least(told)]
    logged = None if given is None else use_of_log(given[1])
    uses = [*([] if logged is None else [logged]), _gather_use(outcome, told, budget_gpus)]
    sizes_h = {} if given is None else list_sizes(*given)
    began_s = 0.0 if given is None else given[1].began_s
    sections = tell_use(uses, sizes_h, began_s=began_s) if outcome.stays.gpus.size else []
    reading = "Work over GPU-time held, in GPU-seconds on the fewest GPUs on which a job runs; pauses count as held."
    efficiency = Charts([("Efficiency", _draw_efficiency(outcome))], reading)
    sections.append(Section("efficiency", "Efficiency over time", [efficiency]))
    sections.append(Section("applications", "Applications", [list_applications(outcome)]))
    problems = say_problems(outcome)
    if problems:
        sections.append(Section("problems", "Jobs that were not completed", [Items(problems)]))
    return Page(
        name=name,
        title=f"{name} under {outcome.policy}"
        + (f": jobs finish in {_say_seconds(told['mean_jct_s'])} on average" if told["completed"] else ""),
        lead="Simulated event by event; every GPU-second is accounted for.",
        warnings=[
            *([f"{len(problems)} of {len(outcome.jobs):,} jobs were not completed"] if problems else []),
            *([f"Left out of the log: {given[1].left_out}"] if given is not None and given[1].left_out else []),
        ],
        cards=[Card(what, said) for what, said in facts[1:]],
        sections=sections,
    )


def _gather_use(outcome: Outcome, told: Mapping[str, Any], budget_gpus: float | None) -> Use:
    """Gather who held and waited for GPUs; of nodes that are rented as they are needed how many, too."""
    waits = [(job.application, wait_s) for job in outcome.jobs if (wait_s := find_queued_s(job)) is not None]
    waits_s = {name: np.array([wait_s for of, wait_s in waits if of == name]) for name in outcome.applications}
    marks = {} if budget_gpus is None else {"budget": budget_gpus}
    if told["nodes"] is not None:
        marks["capacity"] = float(told["nodes"] * outcome.gpus_per_node)
        return Use("Replayed", outcome.stays, waits_s, marks)
    rented = (outcome.nodes_rented * outcome.gpus_per_node).astype(np.float64)
    return Use("Replayed", outcome.stays, waits_s, marks, Level(outcome.times_s, rented))


def _say_seconds(seconds: float | None) -> str:
    return "none" if seconds is None else format_seconds(seconds)


def _say(number: float | None, form: str) -> str:
    return "none" if number is None else format(number, form)


def _draw_efficiency(outcome: Outcome) -> Figure:
    figure = new_figure(height=260)
    told = outcome.tell_over_time()
    hours = [place * told["stretch_s"] / SECONDS_PER_HOUR for place in range(len(told["efficiency"]))]
    step = -(-len(hours) // _MOST_POINTS)
    figure.add_scatter(x=hours[::step], y=told["efficiency"][::step], mode="lines", line={"shape": "hv", "color": BLUE})
    figure.update_xaxes(title_text="time since the start (hours)")
    figure.update_yaxes(title_text="efficiency of GPUs in use", rangemode="tozero")
    return figure


_SCORES: Columns[Score] = {
    Column("deadline"): lambda told: format_duration(told.deadline_s),
    Column("policy"): lambda told: told.policy,
    numeric("cost"): lambda told: f"${told.cost_usd:,.2f}",
    numeric("to hindsight"): lambda told: f"{told.ratio:.3f}",
    numeric("P95"): lambda told: f"{told.high_ratio:.3f}",
    numeric("kept"): lambda told: f"{told.kept:.0%}",
    numeric("spot h"): lambda told: f"{told.spot_hours:,.1f}",
    numeric("on demand h"): lambda told: f"{told.on_demand_hours:,.1f}",
    numeric("starts"): lambda told: f"{told.starts:.1f}",
    numeric("losses"): lambda told: f"{told.losses:.1f}",
}


def compare_policies(scores: Sequence[Score]) -> Table:
    """Show how policies did, one row each for each deadline."""
    return tabulate("Policies", _SCORES, scores, 2)


def list_segments(outcome: SpotOutcome) -> Table:
    """Show where a job was when."""

    def say_hours(steps: int) -> str:
        return f"{steps * outcome.job.step_s / SECONDS_PER_HOUR:.2f}"

    columns: Columns[Stretch] = {
        numeric("from h"): lambda stretch: say_hours(stretch.start),
        numeric("to h"): lambda stretch: say_hours(stretch.stop),
        Column("where"): lambda stretch: name_place(stretch.place, outcome.zones),
        numeric("trained h"): lambda stretch: say_hours(stretch.trained),
        numeric("cost"): lambda stretch: f"${stretch.cost_usd:,.2f}",
        Column(""): lambda stretch: "lost" if stretch.is_lost else "",
    }
    return tabulate(outcome.policy, columns, outcome.stretches)


#: Rows of the trade-off that are shown.
_ROWS = 8
#: What is proven, and of what.
PROVEN = (
    "Proven, for these jobs on these widths, without interruption, on GPUs that are rented as needed and paid as jobs "
    "hold them: no rule that keeps the allowances costs less than the last row, and none that waits as long in all "
    "costs less than the line of the trade-off."
)
NOT_PROVEN = (
    "Not proven: what fewer or other widths by the hour would cost, jobs that stop and go on later, a limit on the "
    "cluster, whole nodes (their cost is as replayed), or lengths and prices that nobody knows beforehand."
)


def compare_rules(study: StartStudy) -> Table:
    """Show the rules, one row each."""
    at_once = study.summarise(study.rules[0])["cost_usd"]
    columns: Columns[tuple[RuleOutcome, Mapping[str, Any]]] = {
        Column("start"): lambda row: row[0].rule,
        numeric("cost of GPUs"): lambda row: f"${row[1]['cost_usd']:,.2f}",
        numeric("saved"): lambda row: _write_saving(row[1]["cost_usd"], at_once),
        numeric("of whole nodes"): lambda row: f"${row[0].node_cost_usd:,.2f}",
        numeric("mean wait"): lambda row: format_seconds(row[1]["mean_wait_s"]),
        numeric("mean completion time"): lambda row: format_seconds(row[1]["mean_jct_s"]),
    }
    rules = [(each, study.summarise(each)) for each in study.rules]
    return tabulate("What each rule costs, and how long jobs wait", columns, rules)


def list_classes(study: StartStudy) -> Table:
    """Show the applications whose jobs may wait: at once, and at the least cost."""
    first, last = study.rules[0], study.rules[-1]
    rows = [_write_class(study, name, first, last) for name in sorted(study.may_wait_s)]
    columns = numbers("jobs", "may wait", "at once", "least cost", "saved", "mean wait", "mean completion time")
    return Table("What they cost at once, and at least", [Column("application"), *columns], rows)


def _write_class(study: StartStudy, name: str, first: RuleOutcome, last: RuleOutcome) -> list[str]:
    if not any(use.application == name for use in study.uses):
        return [name, "0", format_seconds(study.may_wait_s[name]), *[NOTHING] * 5]
    before, after = (study.summarise(each, name) for each in (first, last))
    return [
        name,
        f"{before['num_jobs']:,}",
        format_seconds(study.may_wait_s[name]),
        f"${before['cost_usd']:,.2f}",
        f"${after['cost_usd']:,.2f}",
        _write_saving(after["cost_usd"], before["cost_usd"]),
        format_seconds(after["mean_wait_s"]),
        format_seconds(after["mean_jct_s"]),
    ]


_TRADE_OFF: Columns[Mapping[str, float | None]] = {
    numeric("mean wait"): lambda point: format_seconds(point["mean_wait_s"] or 0.0),
    numeric("mean completion time"): lambda point: format_seconds(point["mean_jct_s"] or 0.0),
    numeric("least cost"): lambda point: f"${point['cost_usd']:,.2f}",
    numeric("an hour waited saves"): lambda point: _say_saved(point["saved_usd_per_hour_waited"]),
}


def list_trade_off(study: StartStudy) -> Table:
    """Show the trade-off of money and waiting at a few points, the first and the last among them."""
    points = study.list_trade_off()
    shown = sorted({round(row * (len(points) - 1) / (_ROWS - 1)) for row in range(_ROWS)})
    return tabulate("The least cost for a mean wait", _TRADE_OFF, [points[number] for number in shown])


def build_starts_page(study: StartStudy, name: str) -> Page:
    """Gather the report of a study of starts."""
    first, last = (study.summarise(study.rules[place]) for place in (0, -1))
    problems = say_problems(study)
    line = "Each point is the least cost with that much waiting, proven; crosses are the rules."
    charts = Charts([("Least cost by mean wait", _draw_trade_off(study))], line)
    prices = Charts([("Price of a GPU by hour of the day", _draw_prices(study))])
    sections = [
        Section("trade-off", "Money against waiting", [charts, list_trade_off(study)], place="split"),
        Section("rules", "Rules of starting", [compare_rules(study)]),
        Section("classes", "Jobs that may wait", [list_classes(study)]),
        Section("prices", "Prices", [prices], place="half"),
        Section("proof", "What is proven", [PROVEN, NOT_PROVEN], place="half"),
    ]
    if problems:
        sections.append(Section("problems", "Jobs that were not completed", [Items(problems)]))
    saved = _write_saving(last["cost_usd"], first["cost_usd"])
    return Page(
        name=name,
        title=f"{name} under {study.policy}: jobs that wait for cheaper hours save {saved}"
        f", with {format_seconds(last['mean_wait_s'])} of waiting on average",
        lead="Prices are the same every day and known; each job's length follows from its widths.",
        warnings=[f"{len(problems)} jobs were not completed and are left out"] if problems else [],
        cards=[
            Card("cost, all at once", f"${first['cost_usd']:,.2f}"),
            Card("least cost", f"${last['cost_usd']:,.2f}", f"{saved} saved"),
            Card("mean wait there", format_seconds(last["mean_wait_s"])),
        ],
        sections=sections,
    )


def _say_saved(usd: float | None) -> str:
    return NOTHING if usd is None else f"${usd:,.3f}"


def _write_saving(cost: float, at_once: float) -> str:
    return NOTHING if at_once <= 0.0 else format_share(1.0 - cost / at_once)


def _draw_trade_off(study: StartStudy) -> Figure:
    figure = new_figure(height=340, top=36)
    points = study.list_trade_off()
    figure.add_scatter(
        x=[(point["mean_wait_s"] or 0.0) / SECONDS_PER_MINUTE for point in points],
        y=[point["cost_usd"] for point in points],
        name="least cost",
        mode="lines",
        line={"color": BLUE},
    )
    told = [(each.rule, study.summarise(each)) for each in study.rules]
    figure.add_scatter(
        x=[each["mean_wait_s"] / SECONDS_PER_MINUTE for _, each in told],
        y=[each["cost_usd"] for _, each in told],
        text=[rule for rule, _ in told],
        name="rules",
        mode="markers",
        marker={"color": VERMILLION, "symbol": "x"},
    )
    figure.update_xaxes(title_text="mean wait (minutes)", rangemode="tozero")
    figure.update_yaxes(title_text="cost of GPUs ($)")
    figure.update_layout(showlegend=True, legend={"orientation": "h", "x": 0.0, "y": 1.0, "yanchor": "bottom"})
    return figure


def _draw_prices(study: StartStudy) -> Figure:
    figure = new_figure(height=240)
    prices = study.prices.usd_per_gpu_hour.tolist()
    figure.add_scatter(x=list(range(25)), y=[*prices, prices[-1]], mode="lines", line={"shape": "hv", "color": BLUE})
    figure.update_xaxes(title_text="hour of the day", dtick=3)
    figure.update_yaxes(title_text="price of a GPU ($ an hour)", rangemode="tozero")
    return figure
