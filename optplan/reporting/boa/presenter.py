"""What a terminal shows of BOA's instances and results."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts import Instance, LagrangianCertificate, Result, Solution
from optplan.contracts.result import relative_gap
from optplan.formulations.boa.data.instance import Policy
from optplan.reporting.boa import tables
from optplan.reporting.boa.breakdown import has_types, require_boa
from optplan.reporting.boa.demand import list_demand, say_demand
from optplan.reporting.boa.facts import list_facts, list_result_facts, say_prices
from optplan.reporting.boa.logs import compare_with_log, list_logged
from optplan.reporting.boa.phrases import say_answer, say_how_good
from optplan.reporting.pages import Page
from optplan.reporting.phrases import format_share
from optplan.reporting.presenters import Beside
from optplan.reporting.sections import present_answer
from optplan.reporting.tables import Shown, fact_table, plain_text


def present_instance(instance: Instance) -> list[Shown]:
    """Say what an instance asks for, and the data of each class."""
    boa = require_boa(instance)
    logged = list_logged(boa)
    parts: list[Shown] = [fact_table(list_facts(boa)), "", tables.list_class_data(boa)]
    return parts if logged is None else [*parts, "", logged]


def present_result(instance: Instance, result: Result[Solution]) -> list[Shown]:
    """Say what was found, how good it is, and which class gets which widths."""
    from rich.console import Group

    boa = require_boa(instance)
    shown: list[Shown] = []
    mixed, relaxations = say_mixed(instance, result), tables.list_relaxations(result)
    if mixed:
        shown.append(plain_text(mixed))
    if result.solution is not None:
        used = (tables.list_type_uses(boa, result), tables.list_limits(boa, result), compare_with_log(boa, result))
        shown += [
            tables.list_plan(boa, result),
            *([tables.list_classes(boa, result)] if has_types(boa) else []),
            *(table for table in used if table is not None),
        ]
        shown += [Group(*map(plain_text, say_prices(boa, result)))] if used[1] is not None else []
        demand = list_demand(boa, result)
        shown += [] if demand is None else [demand, Group(*map(plain_text, say_demand(boa, result)))]
    first = [relaxations] if relaxations is not None else []
    answer, how_good = say_answer(boa, result), say_how_good(boa, result)
    return present_answer(result, answer, how_good, list_result_facts(boa, result), *shown, first=first)


def present_comparison(instance: Instance, results: Sequence[Result[Solution]]) -> list[Shown]:
    """Set the results of several solvers side by side, ours first."""
    return [tables.compare_results(instance, results)]


def say_mixed(instance: Instance, result: Result[Solution]) -> str:
    """Say what a mixed plan could save over a pure one: a Lagrangian bound holds for mixed plans too."""
    bounds = [c.bound for c in result.certificates if isinstance(c, LagrangianCertificate)]
    distance = relative_gap(result.objective, max(bounds, default=None))
    boa = require_boa(instance)
    if distance is None or boa.policy is not Policy.PURE or boa.floors:  # with floors the bound is of pure plans only
        return ""
    if distance == 0.0:
        return "No mixed plan (shares of a class's jobs differ in their widths) can be better either."
    better = f"at most {format_share(distance)} better"
    return f"A mixed plan (shares of a class's jobs differ in their widths) can be {better}."


def build_page(instance: Instance, result: Result[Solution], beside: Beside) -> Page:
    """Gather the report of a result, of any status; its background is the frontier."""
    from optplan.reporting.boa.page import build_page as gather  # draws, which no terminal needs

    return gather(instance, result, beside)
