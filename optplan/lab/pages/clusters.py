"""A simulated trace for readers: main figures, applications, jobs that could not run, and GPUs over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optplan.lab.cluster.outcome import Outcome
from optplan.reporting.pages import Block, Card, Charts, Items, Page, Section
from optplan.reporting.phrases import format_seconds
from optplan.reporting.style import BLUE, VERMILLION, Figure, new_figure
from optplan.reporting.tables import Column, Table, numbers
from optplan.units import SECONDS_PER_HOUR

#: Points of a chart over time.
_MOST_POINTS = 1000


def list_facts(outcome: Outcome) -> list[tuple[str, str]]:
    """List the main figures, each with its name."""
    told = outcome.summarise()
    completed = f"{told['completed']:,} of {told['num_jobs']:,}"
    return [
        ("policy", outcome.policy),
        ("jobs completed", completed),
        ("mean completion time", _say_seconds(told["mean_jct_s"])),
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


def list_applications(outcome: Outcome) -> Table:
    """List what came of the jobs of each application."""
    rows = [
        [name, f"{told['num_jobs']:,}", _say_seconds(told["mean_jct_s"]), f"{told['gpu_hours']:,.1f}"]
        for name, told in outcome.summarise_classes().items()
    ]
    return Table("Applications", [Column("application"), *numbers("jobs", "mean completion time", "GPU-hours")], rows)


def compare_simulations(results: Sequence[Mapping[str, Any]]) -> Table:
    """Show the main figures of several simulations, as their JSON has them, one row each."""
    columns = ("nodes", "seed", "jobs", "mean time", "P95", "GPU-hours", "node GPU-hours", "P95 of GPUs", "efficiency")
    rows = [
        [
            told["workload"],
            told["plan"] or told["policy"],
            "as needed" if told["nodes"] is None else f"{told['nodes']:,}",
            str(told["seed"]),
            f"{told['completed']:,} of {told['num_jobs']:,}",
            _say_seconds(told["mean_jct_s"]),
            _say_seconds(told["p95_jct_s"]),
            f"{told['gpu_hours']:,.1f}",
            f"{told['node_gpu_hours']:,.1f}",
            f"{told['p95_gpus']:,}",
            _say(told["efficiency"], ".1%"),
        ]
        for told in results
    ]
    return Table("Simulations", [Column("workload"), Column("policy"), *numbers(*columns)], rows, 2)


def say_problems(outcome: Outcome) -> list[str]:
    """Say which jobs could not be completed, and why."""
    return [f"{name}: {problem}" for name, problem in outcome.problems.items()]


def build_cluster_page(outcome: Outcome, name: str) -> Page:
    """Gather the report of a simulated trace."""
    facts = list_facts(outcome)
    reading = "The most in each stretch of time. What is between the lines is paid for and not used."
    blocks: list[Block] = [Charts([("GPUs in use and rented over time", _draw_gpus(outcome))], reading)]
    sections = [Section("gpus", "GPUs over time", blocks)]
    efficiency = "Work over GPU-time held, in GPU-seconds on the fewest GPUs on which a job runs; pauses count as held."
    sections.append(
        Section("efficiency", "Efficiency over time", [Charts([("Efficiency", _draw_efficiency(outcome))], efficiency)])
    )
    sections.append(Section("applications", "Applications", [list_applications(outcome)]))
    problems = say_problems(outcome)
    if problems:
        sections.append(Section("problems", "Jobs that were not completed", [Items(problems)]))
    return Page(
        name=name,
        title=f"{name} under {outcome.policy}",
        lead="Simulated event by event; every GPU-second is accounted for.",
        warnings=[f"{len(problems)} of {len(outcome.jobs):,} jobs were not completed"] if problems else [],
        cards=[Card(what, said) for what, said in facts[1:]],
        sections=sections,
    )


def _say_seconds(seconds: float | None) -> str:
    return "none" if seconds is None else format_seconds(seconds)


def _say(number: float | None, form: str) -> str:
    return "none" if number is None else format(number, form)


def _draw_efficiency(outcome: Outcome) -> Figure:
    """Draw what each stretch of time did with the GPUs in use."""
    figure = new_figure(height=260)
    told = outcome.tell_over_time()
    hours = [place * told["stretch_s"] / SECONDS_PER_HOUR for place in range(len(told["efficiency"]))]
    step = -(-len(hours) // _MOST_POINTS)
    figure.add_scatter(x=hours[::step], y=told["efficiency"][::step], mode="lines", line={"shape": "hv", "color": BLUE})
    figure.update_xaxes(title_text="time since the start (hours)")
    figure.update_yaxes(title_text="efficiency of GPUs in use", rangemode="tozero")
    return figure


def _draw_gpus(outcome: Outcome) -> Figure:
    """Draw GPUs in use and rented: of each stretch of time the most."""
    figure = new_figure(height=340, top=36)
    firsts = np.arange(0, outcome.times_s.size, -(-outcome.times_s.size // _MOST_POINTS))
    hours = outcome.times_s[firsts] / SECONDS_PER_HOUR
    rented = outcome.nodes_rented * outcome.gpus_per_node
    for name, color, counts in (("rented", BLUE, rented), ("in use", VERMILLION, outcome.gpus_used)):
        most = np.maximum.reduceat(counts, firsts)
        figure.add_scatter(
            x=hours.tolist(), y=most.tolist(), name=name, mode="lines", line={"shape": "hv", "color": color}
        )
    figure.update_xaxes(title_text="time since the start (hours)")
    figure.update_yaxes(title_text="GPUs", rangemode="tozero")
    figure.update_layout(showlegend=True, legend={"orientation": "h", "x": 0.0, "y": 1.0, "yanchor": "bottom"})
    return figure
