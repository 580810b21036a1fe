"""What a plan uses of GPU types and limits, as tables for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optplan.contracts import Instance, Result, Solution
from optplan.reporting.boa.breakdown import require_boa
from optplan.reporting.boa.limits import list_limit_uses, list_types, say_prices
from optplan.reporting.tables import add_row, new_table, plain_text

if TYPE_CHECKING:
    from rich.console import RenderableType


def type_tables(instance: Instance, result: Result[Solution]) -> list[RenderableType]:
    """Tables of what a plan uses of each GPU type and each limit, and what more of these is worth, in a sentence each.

    Parameters
    ----------
    instance
        The problem, with its budget.
    result
        Its result; empty where it has no solution, or where there is one GPU type and no quota.

    Raises
    ------
    UsageError
        When the instance is of a formulation that tables cannot show.
    """
    boa = require_boa(instance)
    parts: list[RenderableType] = []
    types, limits = list_types(boa, result), list_limit_uses(boa, result)
    if types:
        columns = ("GPUs", "share", "price", "$ an hour", "$ a day", "$ a month")
        table = new_table(("GPU type", False), *((column, True) for column in columns))
        for row in types:
            add_row(table, row.name, row.gpus, row.share, row.price, row.usd_hour, row.usd_day, row.usd_month)
        parts.append(table)
    if limits:
        headings = ("used", "given", "share", "one more saves", "worth")
        table = new_table(("limit", False), *((heading, True) for heading in headings))
        for limit in limits:
            add_row(table, limit.name, limit.used, limit.given, limit.share, limit.saves, limit.value)
        parts += [
            *([plain_text("")] if types else []),
            table,
            plain_text(""),
            *(plain_text(sentence) for sentence in say_prices(boa, result)),
        ]
    return parts
