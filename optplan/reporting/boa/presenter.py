"""What a terminal shows of BOA's instances and results."""

from __future__ import annotations

from optplan.contracts import LagrangianCertificate, Result, Solution
from optplan.contracts.result import relative_gap
from optplan.formulations.boa.data.instance import BoaInstance, Policy
from optplan.reporting.boa import tables
from optplan.reporting.boa.breakdown import break_down, has_types, require_boa
from optplan.reporting.boa.demand import list_bills, list_demand, say_demand
from optplan.reporting.boa.facts import list_cards, list_facts, list_limits, list_types, say_prices
from optplan.reporting.boa.logs import compare_with_log, list_logged
from optplan.reporting.boa.phrases import say_answer, say_how_good
from optplan.reporting.boa.ranges import say_own, say_range
from optplan.reporting.pages import Page
from optplan.reporting.phrases import format_share
from optplan.reporting.presentation import Presenter
from optplan.reporting.presenters import Beside
from optplan.reporting.tables import Shown, plain_text

#: Classes that a line names.
_MOST_NAMED = 12


def say_mixed(boa: BoaInstance, result: Result[Solution]) -> str:
    """Say what a mixed plan could save over a pure one: a Lagrangian bound holds for mixed plans too."""
    bounds = [c.bound for c in result.certificates if isinstance(c, LagrangianCertificate)]
    distance = relative_gap(result.objective, max(bounds, default=None))
    if distance is None or boa.policy is not Policy.PURE or boa.floors:  # with floors the bound is of pure plans only
        return ""
    if distance == 0.0:
        return "No mixed plan (shares of a class's jobs differ in their widths) can be better either."
    better = f"at most {format_share(distance)} better"
    return f"A mixed plan (shares of a class's jobs differ in their widths) can be {better}."


def _list_decided(instance: BoaInstance, result: Result[Solution]) -> list[Shown]:
    from rich.console import Group

    mixed, demand = say_mixed(instance, result), list_demand(instance, result)
    types, limits = list_types(instance, result), list_limits(instance, result)
    shown: list[Shown | None] = [
        plain_text(mixed) if mixed else None,
        tables.list_plan(instance, result),
        tables.list_classes(instance, result) if has_types(instance) else None,
        types,
        limits,
        compare_with_log(instance, result),
        Group(*map(plain_text, say_prices(instance, result))) if limits is not None else None,
        *list_bills(instance, result),
        demand,
        Group(*map(plain_text, say_demand(instance, result))) if demand is not None else None,
    ]
    return [part for part in shown if part is not None]


def _build_page(instance: BoaInstance, result: Result[Solution], beside: Beside) -> Page:
    from optplan.reporting.boa.page import build_page  # draws, which no terminal needs

    return build_page(instance, result, beside)


def _name_widths(instance: BoaInstance, result: Result[Solution]) -> str:
    """Write the GPUs of each class's jobs, epoch by epoch: ``bert 16, yolov3 1 → 4 → 16``."""
    named = []
    for part in break_down(instance, result, _MOST_NAMED):
        ways = [(" → ".join(map(tables.name_gpus, path.ranges)), path.share) for path in part.paths]
        shares = [f"{way} ({format_share(share)})" if len(ways) > 1 else way for way, share in ways]
        named.append(f"{part.name} {' or '.join(shares)}")
    more = len(instance.classes) - len(named)
    return ", ".join([*named, *([f"and {more:,} more"] if more else [])])


PRESENTER = Presenter(
    require_boa,
    facts=list_facts,
    given=lambda boa: list(filter(None, [tables.list_class_data(boa), list_logged(boa)])),
    answer=lambda boa, result: say_answer(boa, result) + say_range(boa, result),
    how_good=lambda boa, result: say_how_good(boa, result) + say_own(boa, result),
    cards=list_cards,
    help=lambda _: "",  # a table says it
    first=lambda _, result: list(filter(None, [tables.list_relaxations(result)])),
    decided=_list_decided,
    compared=lambda boa, results: [tables.compare_results(boa, results)],
    page=_build_page,
    named=_name_widths,
)
