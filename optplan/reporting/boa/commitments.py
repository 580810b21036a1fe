"""Commitments: how many GPUs are committed, what the bill is made of, and what other discounts would change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from optplan.formulations.boa.data.gpu_types import Term
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.peak.demand import find_demand
from optplan.formulations.boa.laws.commitments import Tariff, bill_demand, make_bill
from optplan.reporting.pages import Section
from optplan.reporting.phrases import format_gpus, format_share
from optplan.reporting.tables import Column, Table, numbers

if TYPE_CHECKING:
    from optplan.contracts import Result, Solution
    from optplan.formulations.boa.laws.demand import Demand

#: Discounts that a table compares, and the share of the time for which the rival's number is enough.
_DISCOUNTS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.75)
_RIVAL = 0.95


def list_bills(instance: BoaInstance, result: Result[Solution]) -> list[Table]:
    """List what the bill is made of, and how many GPUs to commit at other discounts; nothing without commitments."""
    if not instance.commits or not isinstance(result.solution, BoaSolution):
        return []
    laws = {name: find_demand(instance, result.solution, name) for name in instance.gpu_types}
    bills, parts = bill_demand(instance, laws), list[tuple[str, str, str]]()
    total = sum(bill.total for bill in bills.values())
    for name, bill in bills.items():
        kind, on_demand = instance.gpu_types[name], instance.prices_on_demand[name]
        rates = {term: rate.of_demand(kind.price_usd_per_hour) for term, rate in (kind.commitments or {}).items()}
        rows = [(f"{name} for {term}", gpus, gpus * on_demand * rates[term]) for term, gpus in bill.gpus.items()]
        if kind.spot_market is not None:
            rate = kind.spot_market.of_demand(kind.price_usd_per_hour) * on_demand
            rows.append((f"{name} on spot", bill.spot / rate, bill.spot))
        rows.append((f"{name} on demand", bill.on_demand / on_demand, bill.on_demand))
        parts += [(what, format_gpus(gpus), format_share(cost / total)) for what, gpus, cost in rows]
    table = Table("What the bill is made of", (Column("GPUs"), *numbers("number", "of the bill")), parts)
    return [table, *(_list_discounts(name, laws[name]) for name, t in instance.gpu_types.items() if t.commitments)]


def _list_discounts(name: str, demand: Demand) -> Table:
    """List what the plan's own widths would commit at some discounts, and save of the bill on demand."""
    rows, most = [], math.ceil(demand.quantile(_RIVAL))
    for discount in _DISCOUNTS:
        tariff = Tariff.of_terms({"": Term(discount=discount)})
        best, rival = make_bill(tariff, demand), make_bill(tariff, demand, most)
        saved = [format_share(1.0 - each.total / demand.mean) for each in (best, rival)]
        rows.append((format_share(discount), format_gpus(sum(best.gpus.values())), *saved))
    caption = f"{name} at other discounts, widths as they are"
    columns = (Column("discount"), *numbers("commit", "saved", f"saved with {format_gpus(most)}, the P95"))
    return Table(caption, columns, rows)


def tell_commitments(instance: BoaInstance, result: Result[Solution]) -> list[Section]:
    """Tell what is committed; nothing without a plan, or without commitments."""
    tables = list_bills(instance, result)
    return [Section("commitments", "What to commit", tables, "Commitments", follows=True)] if tables else []
