"""Rules of starting where prices follow the hour of the day: tables, and the page with the trade-off drawn."""

from __future__ import annotations

from optplan.lab.starts.study import RuleOutcome, StartStudy
from optplan.reporting.pages import Card, Charts, Items, Page, Section
from optplan.reporting.phrases import NOTHING, format_seconds, format_share
from optplan.reporting.style import BLUE, VERMILLION, Figure, new_figure
from optplan.reporting.tables import Column, Table, numbers
from optplan.units import SECONDS_PER_MINUTE

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
    rows = []
    for each in study.rules:
        told = study.summarise(each)
        rows.append(
            [
                each.rule,
                f"${told['cost_usd']:,.2f}",
                _write_saving(told["cost_usd"], at_once),
                f"${each.node_cost_usd:,.2f}",
                format_seconds(told["mean_wait_s"]),
                format_seconds(told["mean_jct_s"]),
            ]
        )
    columns = numbers("cost of GPUs", "saved", "of whole nodes", "mean wait", "mean completion time")
    return Table("What each rule costs, and how long jobs wait", [Column("start"), *columns], rows)


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


def list_trade_off(study: StartStudy) -> Table:
    """Show the trade-off of money and waiting at a few points, the first and the last among them."""
    points = study.list_trade_off()
    shown = sorted({round(row * (len(points) - 1) / (_ROWS - 1)) for row in range(_ROWS)})
    rows = []
    for number in shown:
        point = points[number]
        saved, wait_s, jct_s, cost = (point[name] for name in point)
        rows.append(
            [
                format_seconds(wait_s or 0.0),
                format_seconds(jct_s or 0.0),
                f"${cost:,.2f}",
                NOTHING if saved is None else f"${saved:,.3f}",
            ]
        )
    columns = numbers("mean wait", "mean completion time", "least cost", "an hour waited saves")
    return Table("The least cost for a mean wait", columns, rows)


def say_problems(study: StartStudy) -> list[str]:
    """Say which jobs could not be completed, and why."""
    return [f"{name}: {problem}" for name, problem in study.problems.items()]


def build_starts_page(study: StartStudy, name: str) -> Page:
    """Gather the report of a study of starts."""
    first, last = (study.summarise(study.rules[place]) for place in (0, -1))
    problems = say_problems(study)
    line = "Each point is the least cost with that much waiting; crosses are the rules."
    sections = [
        Section("rules", "Rules of starting", [compare_rules(study), PROVEN, NOT_PROVEN]),
        Section(
            "trade-off",
            "Money against waiting",
            [Charts([("Least cost by mean wait", _draw_trade_off(study))], line), list_trade_off(study)],
        ),
        Section("classes", "Jobs that may wait", [list_classes(study)]),
        Section("prices", "Prices", [Charts([("Price of a GPU by hour of the day", _draw_prices(study))])]),
    ]
    if problems:
        sections.append(Section("problems", "Jobs that were not completed", [Items(problems)]))
    saved = _write_saving(last["cost_usd"], first["cost_usd"])
    return Page(
        name=name,
        title=f"{name} under {study.policy}: jobs that wait for cheaper hours save {saved}",
        lead="Prices are the same every day and known; each job's length follows from its widths.",
        warnings=[f"{len(problems)} jobs were not completed and are left out"] if problems else [],
        cards=[
            Card("cost, all at once", f"${first['cost_usd']:,.2f}"),
            Card("least cost", f"${last['cost_usd']:,.2f}", f"{saved} saved"),
            Card("mean wait there", format_seconds(last["mean_wait_s"])),
        ],
        sections=sections,
    )


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
