"""Fills in the tables that come from the registry and the library, so that no page can lag behind them.

A line such as ``<!-- table: solvers -->`` in a page stands for the table of that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from optplan.contracts.registry import Formulation
from optplan.formulations import formulations
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.feasibility import least_budget
from optplan.instances.library import GENERATED, build_named, manifest, names
from optplan.units import BudgetUnit, parse_budget

_MARK = re.compile(r"^<!-- table: (?P<name>[a-z-]+) -->$", re.MULTILINE)
_YES, _NO = "✓", "✗"
#: A relative gap below this is rounding.
_ROUNDING = 1e-9


def fill_tables(markdown: str) -> str:
    """Replace every mark of a page by its table.

    Raises
    ------
    ValueError
        When a mark names no table.
    """

    def write(match: re.Match[str]) -> str:
        if match["name"] not in _TABLES:
            raise ValueError(f"no table {match['name']!r}; there are: {', '.join(_TABLES)}")
        return "\n".join(_TABLES[match["name"]]())

    return _MARK.sub(write, markdown)


def list_capabilities() -> Iterator[str]:
    """Write, for each formulation, what each of its solvers takes and what its bound rests on."""
    for formulation in formulations().values():
        problems, policies = _words(formulation, "problems"), _words(formulation, "policies")
        head = ["solver", *problems, *policies, "closes the gap", "its bound rests on", "largest instance", "package"]
        rows = [
            [
                f"`{entry.name}`",
                *(_tick(word in entry.problems) for word in problems),
                *(_tick(word in entry.policies) for word in policies),
                _tick(entry.exact),
                ", ".join(sorted(entry.proofs)) or "no bound",
                f"{entry.max_cells:,} choices" if entry.max_cells is not None else "no limit",
                entry.needs or "none",
            ]
            for entry in formulation.solvers
        ]
        yield from _write_table(head, rows, caption=f"Formulation `{formulation.name}`, in order of preference.")


def list_summaries() -> Iterator[str]:
    """Write one line for each solver of each formulation."""
    rows = [[f"`{s.name}`", s.summary] for f in formulations().values() for s in f.solvers]
    yield from _write_table(["solver", "what it does"], rows)


def list_instances() -> Iterator[str]:
    """Write what BOA's instances of the library are."""
    head = ["instance", "what it is", "GPU types", "classes", "epochs", "widths", "load", "least budget", "origin"]
    rows = []
    for name, instance in _boa_instances().items():
        classes = instance.classes.values()
        rows.append(
            [
                f"`{name}`",
                instance.description,
                str(len(instance.gpu_types)),
                str(len(classes)),
                str(sum(c.num_epochs for c in classes)),
                str(max(instance.options(each).widths.size for each in instance.classes)),
                f"{sum(c.arrival_rate_per_hour * c.size_gpu_hours for c in classes):.2f}",
                f"{'$' if instance.budget_unit is BudgetUnit.USD_PER_HOUR else ''}{least_budget(instance)[0]:.2f}",
                "generated" if name in GENERATED else str(manifest()[name]["origin"]),
            ]
        )
    yield from _write_table(head, rows)


def list_best_known() -> Iterator[str]:
    """Write the best objectives on record for each of BOA's instances, problems and budgets, and what proves them."""
    head = ["instance", "problem", "budget", "pure (s)", "proof", "mixed (s)", "proof", "mixing gains", "solved"]
    rows = []
    for name in _boa_instances():
        facts = manifest().get(name, {"best": []})
        for (problem, budget), best in sorted(_by_limit(facts["best"]).items(), key=lambda item: _amount(item[0][1])):
            pure, mixed = best["pure"], best["mixed"]
            rows.append(
                [
                    f"`{name}`",
                    problem,
                    budget,
                    f"{pure['objective']:,.3f}",
                    _say_proof(pure),
                    f"{mixed['objective']:,.3f}",
                    _say_proof(mixed),
                    f"{100.0 * (1.0 - mixed['objective'] / pure['objective']):.2f} %",
                    max(pure["date"], mixed["date"]),
                ]
            )
    yield from _write_table(head, rows)


def list_searches() -> Iterator[str]:
    """Write the best objectives on record for the instances of all other formulations, and what proves them."""
    head = ["instance", "what it is", "within", "best known", "proof", "solved"]
    rows = []
    for name in [name for name in manifest() if name not in _boa_instances()]:
        instance = build_named(name)
        for best in manifest()[name]["best"]:
            limits = [str(best[limit]) for limit in ("deadline", "budget") if limit in best]
            objective = f"{best['objective']:,.5g} {instance.objective_unit}"
            rows.append(
                [f"`{name}`", instance.description, ", ".join(limits), objective, _say_proof(best), best["date"]]
            )
    yield from _write_table(head, rows)


def _by_limit(entries: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """Put the pure and the mixed entry of a problem and budget side by side."""
    grouped: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for entry in entries:
        grouped.setdefault((entry["problem"], entry["budget"]), {})[entry["policy"]] = entry
    return grouped


def _amount(budget: str) -> float:
    return parse_budget(budget).value


def _say_proof(entry: dict[str, Any]) -> str:
    if "bound" not in entry:
        return f"{entry['proof']}: sampled"
    gap = abs(1.0 - entry["bound"] / entry["objective"])
    return entry["proof"] if gap < _ROUNDING else f"{entry['proof']}, gap {gap:.2g}"


def _boa_instances() -> dict[str, BoaInstance]:
    """Return BOA's instances of the library by name."""
    instances = {name: build_named(name) for name in names()}
    return {name: instance for name, instance in instances.items() if isinstance(instance, BoaInstance)}


def _words(formulation: Formulation, field: str) -> list[str]:
    """List the values of a field of the solvers, each once, in the order of their first solver."""
    found: Iterable[Sequence[str]] = (sorted(getattr(entry, field)) for entry in formulation.solvers)
    return list(dict.fromkeys(word for several in found for word in several))


def _tick(holds: object) -> str:
    return _YES if holds else _NO


def _write_table(head: list[str], rows: list[list[str]], *, caption: str = "") -> Iterator[str]:
    if caption:
        yield from (caption, "")
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


_TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "capabilities": list_capabilities,
    "summaries": list_summaries,
    "instances": list_instances,
    "best-known": list_best_known,
    "searches": list_searches,
}
