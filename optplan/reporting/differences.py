"""Figures of two things side by side, field by field: both values with their unit, and the change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, TypeAlias

from optplan.contracts import Instance, Plan, Result, Solution
from optplan.contracts.result import relative_gap
from optplan.reporting.phrases import NOTHING, ROUNDING, format_gpus, format_share, format_usd
from optplan.reporting.tables import Cell, Column, Row, Table, numbers, numeric
from optplan.units import format_duration

#: What can be compared besides instances.
Answer: TypeAlias = Result[Solution] | Plan


#: Beginning of the paths of least limits, which users type in again and so want in full.
LEAST = "relaxations."

#: Units of the figures that have no unit of the user's own.
SECONDS, GPUS, SHARE, COUNT = "s", "gpu", "share", "1"

#: Digits to which numbers are written that would read alike with fewer.
_MORE_DIGITS = (6, 9, 12, 17)
#: What stands between the entries of a list, and how often in one that is too long for a cell.
BETWEEN, _LONG_LIST = ", ", 20

#: Relative change below which amounts are written with more digits.
_ALIKE = 1e-3

#: The smallest change in percent that is written as a number.
_LEAST_PERCENT = 0.005

_COLUMNS = (Column(""), numeric("A", "wraps"), numeric("B", "wraps"), *numbers("change", "in %"))

#: What an instance is called and where it comes from: no data.
_NO_DATA = ("name", "description", "source", "formulation", "version")
_SETTINGS, ANSWER = "settings", "answer"
_SECONDS_ENDING = "_s"


@dataclass(frozen=True)
class Fact:
    """One figure of one thing."""

    of: str  #: Whom it concerns: ``settings``, a GPU type, a class, ``answer``.
    what: str  #: Its name for readers, as ``path`` is for programs.
    path: str
    value: float | str
    unit: str = ""


@dataclass(frozen=True)
class Difference:
    """One figure of A and of B; None stands where there is no value."""

    #: The names of what :meth:`to_json_data` returns.
    COLUMNS: ClassVar = ("of", "what", "path", "unit", "a", "b", "change", "relative_change")

    of: str
    what: str
    path: str
    unit: str
    a: float | str | None
    b: float | str | None

    @property
    def change(self) -> float | None:
        """B less A, in the unit; None unless both are numbers."""
        if isinstance(self.a, str | None) or isinstance(self.b, str | None):
            return None
        return self.b - self.a

    @property
    def relative_change(self) -> float | None:
        """The change as a fraction of A; None where A is zero or either is no number."""
        change = self.change
        return change / abs(self.a) if change is not None and isinstance(self.a, float | int) and self.a else None

    @property
    def differs(self) -> bool:
        """Whether the two differ by more than rounding."""
        if isinstance(self.a, str | None) or isinstance(self.b, str | None):
            return self.a != self.b
        scale = 1.0 if self.unit == SHARE else max(abs(self.a), abs(self.b))
        return abs(self.b - self.a) > ROUNDING * scale

    def to_json_data(self) -> dict[str, Any]:
        """Return plain data with both values, the change and the unit of all three; None where there is no value."""
        return {name: getattr(self, name) for name in self.COLUMNS}


def pair_facts(a: Sequence[Fact], b: Sequence[Fact]) -> list[Difference]:
    """Put the facts of A beside those of B, in the order of A; figures in different units become two rows."""
    by_a, by_b = ({(fact.path, fact.unit): fact for fact in facts} for facts in (a, b))
    order = list(by_a)
    last = -1
    for key in by_b:
        if key in by_a:
            last = order.index(key)
        else:
            last += 1
            order.insert(last, key)
    rows = []
    for key in order:
        left, right = by_a.get(key), by_b.get(key)
        either = left or right
        if either is not None:
            values = (left.value if left else None, right.value if right else None)
            rows.append(Difference(either.of, either.what, either.path, either.unit, *values))
    return rows


def write_values(row: Difference) -> tuple[str, str]:
    """Write both values for readers, with as many digits as it takes to tell them apart."""
    texts = (format_value(row.a, row.unit), format_value(row.b, row.unit))
    if row.path.startswith(LEAST):
        return _write_limit(row.a), _write_limit(row.b)
    if any(text.count(BETWEEN) >= _LONG_LIST for text in texts):
        return _abbreviate(texts)
    if not row.differs or (texts[0] != texts[1] and not _read_alike(row)):
        return texts
    for digits in _MORE_DIGITS:
        texts = (_write_digits(row.a, row.unit, digits), _write_digits(row.b, row.unit, digits))
        if texts[0] != texts[1]:
            break
    return texts


def _abbreviate(texts: tuple[str, str]) -> tuple[str, str]:
    """Write of long lists how many entries there are, and the first that tells them apart."""
    lists = [text.split(BETWEEN) for text in texts]
    pairs = enumerate(zip(*lists, strict=False))
    place = next((number for number, (a, b) in pairs if a != b), min(map(len, lists)))
    first, second = (
        _write_entry(entries, place) if len(entries) > 1 else text for entries, text in zip(lists, texts, strict=True)
    )
    return first, second


def _write_entry(entries: list[str], place: int) -> str:
    if place >= len(entries):
        return f"{len(entries)} in all"
    return f"no. {place + 1}: {entries[place]} ({len(entries)} in all)"


def _read_alike(row: Difference) -> bool:
    """Whether a reader would take two texts for the same number, such as 120 and 120.0."""
    relative = row.relative_change
    is_amount = row.unit == GPUS or row.unit.startswith("usd")
    return is_amount and relative is not None and abs(relative) < _ALIKE


def write_change(row: Difference) -> tuple[str, str]:
    """Write the change for readers: absolute, and in percent."""
    if not row.differs:
        return "same", ""
    if row.a is None or row.b is None:
        return ("only in B" if row.a is None else "only in A"), ""
    change, relative = row.change, row.relative_change
    if change is None:
        return "", ""
    sign = "+" if change > 0 else "-"
    if row.unit == SHARE:  # percent of a percentage would mislead
        return f"{sign}{100.0 * abs(change):.2g} points", ""
    return f"{sign}{format_value(abs(change), row.unit)}", "" if relative is None else _write_percent(relative)


def difference_table(rows: Iterable[Difference]) -> Table:
    """List differences, one row each, grouped by whom they concern."""
    cells: list[Row] = []
    for of, group in groupby(rows, key=lambda row: row.of):
        cells.append(Row([Cell(of, columns=len(_COLUMNS))], "group", starts_group=True))
        cells += [Row((row.what, *write_values(row), *write_change(row)), "part") for row in group]
    return Table("Every figure in which the two differ", _COLUMNS, cells)


def format_value(value: float | str | None, unit: str) -> str:
    """Write a value in its unit."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    return _writer(unit)(value)


def _writer(unit: str) -> Callable[[float], str]:
    if unit == SECONDS or unit.startswith("s of "):
        return format_duration
    if unit == GPUS:
        return format_gpus
    if unit == SHARE:
        return format_share
    return _write_usd if unit.startswith("usd") else _shorten


def _write_usd(usd: float) -> str:
    return format_usd(usd) if usd == 0 or usd >= 0.001 else f"${usd:.2g}"


def _write_limit(value: float | str | None) -> str:
    return f"{value:,.6g}" if isinstance(value, float | int) else format_value(value, "")


def _write_digits(value: float | str | None, unit: str, digits: int) -> str:
    """Write a number plainly, to so many digits."""
    if not isinstance(value, float | int):
        return format_value(value, unit)
    if unit == SHARE:
        return f"{100.0 * value:#.{digits - 2}g} %"
    if unit.startswith("usd"):
        return f"${value:#.{digits}g}"
    return f"{value:#.{digits}g}{' s' if unit.startswith('s') else ''}"


def _shorten(value: float) -> str:
    whole = math.isfinite(value) and value == round(value) and abs(value) < 1e6
    return f"{round(value):,}" if whole else f"{value:.4g}"


def _write_percent(fraction: float) -> str:
    percent = 100.0 * fraction
    if abs(percent) < _LEAST_PERCENT:
        return f"{'+' if percent > 0 else '-'}0.00"
    return f"{percent:+,.0f}" if abs(percent) >= 10 else f"{percent:+.2g}"


def state_proof(answer: Result[Solution] | Plan) -> list[Fact]:
    """State who solved it, how it ended, what is proven of it, and what limits are worth or would have to be."""
    facts = [Fact(ANSWER, "solver", "solver", answer.solver)]
    if isinstance(answer, Result):
        facts.append(Fact(ANSWER, "status", "status", answer.status.value))
    if answer.bound is not None:
        facts.append(Fact(ANSWER, "proven bound", "bound", answer.bound, answer.objective_unit))
    gap = relative_gap(answer.objective, answer.bound)
    if gap is not None and math.isfinite(gap):
        facts.append(Fact(ANSWER, "gap", "gap", gap, SHARE))
    if isinstance(answer, Result):
        facts += _state_limits(answer)
    return facts


def measures_of(answer: Result[Solution] | Plan) -> Mapping[str, float]:
    """Return what the judge measured; empty without a solution."""
    return answer.expected if isinstance(answer, Plan) else answer.measures


def state_figures(answer: Result[Solution] | Plan, figures: Sequence[tuple[str, str, str]]) -> list[Fact]:
    """State what is proven, and those of some figures that were measured: of each what it is, its name and unit."""
    measures = measures_of(answer)
    known = [Fact(ANSWER, what, name, measures[name], unit) for what, name, unit in figures if name in measures]
    return [*state_proof(answer), *known]


def state_answer(answer: Result[Solution] | Plan, measures: Mapping[str, float] | None = None) -> list[Fact]:
    """State what is proven, the objective, and everything that the judge measured, or other measures."""
    facts, measures = state_proof(answer), measures_of(answer) if measures is None else measures
    if answer.objective is not None:
        facts.append(Fact(ANSWER, "objective", "objective", answer.objective, answer.objective_unit))
    return facts + [Fact(ANSWER, _name(path), path, value, _unit(path)) for path, value in measures.items()]


def _state_limits(result: Result[Solution]) -> Iterator[Fact]:
    for limit, price in result.shadow_prices.items():
        path, step = f"shadow_prices.{limit}", price.unit.rpartition(" per ")[2]
        yield Fact(ANSWER, f"{limit} eased by one {step} saves", f"{path}.more", price.more, price.unit)
        if price.less is not None:
            yield Fact(ANSWER, f"{limit} tightened by one {step} costs", f"{path}.less", price.less, price.unit)
    for one in result.infeasibility.relaxations if result.infeasibility is not None else ():
        path = f"{LEAST}{one.limit}"
        what = f"nearest {one.limit} that {'may work' if one.enough is None else 'works'}, {one.unit}"
        yield Fact(ANSWER, what, path, one.least_feasible, one.unit)


def state_data(instance: Instance) -> list[Fact]:
    """State every field of an instance but for its names."""
    facts = []
    for of, path, value in _list_groups(instance.to_json_data()):
        for leaf, found in _list_leaves(value, path):
            field = leaf.removeprefix(path).removeprefix(".")
            group, what = (of, field) if field else (_SETTINGS, leaf)
            is_number = isinstance(found, float | int) and not isinstance(found, bool)
            unit = _unit(leaf) if is_number else ""
            facts.append(Fact(group, _name(what), leaf, float(found) if is_number else _write_text(found), unit))
    return facts


def _list_groups(data: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """List what data concern, each of several named things by itself, such as a class; with its path and value."""
    for field, value in data.items():
        if field in _NO_DATA:
            continue
        if isinstance(value, dict) and all(isinstance(part, dict) for part in value.values()):
            yield from ((name, f"{field}.{name}", part) for name, part in value.items())
        else:
            yield field, field, value


def _list_leaves(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """List what is at the ends of nested data; numbers in lists are one thing, and what is not given is left out."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _list_leaves(part, f"{path}.{name}")
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for number, part in enumerate(value, start=1):
            yield from _list_leaves(part, f"{path}.{number}")
    elif value is not None:
        yield path, value


def _name(path: str) -> str:
    return (path.removesuffix(_SECONDS_ENDING) if _is_in_seconds(path) else path).replace("_", " ")


def _is_in_seconds(path: str) -> bool:
    return path.endswith(_SECONDS_ENDING) and not path.endswith(f"_per{_SECONDS_ENDING}")


def _unit(path: str) -> str:
    if _is_in_seconds(path):
        return SECONDS
    return "usd" if path.endswith("_usd") else COUNT


def _write_text(value: object) -> str:
    if isinstance(value, list):
        return BETWEEN.join(map(_write_text, value))
    if isinstance(value, float):
        return f"{value:.12g}"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
