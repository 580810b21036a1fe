"""Two instances, results or plans side by side: every figure of A, of B, and the change between them.

An answer is a result or a plan. What two things have in common is compared: two instances their data, two answers their
completion times, bounds, GPUs, cost and widths, an instance and a plan the prices and the arrival rates (of BOA).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from optplan.contracts import Instance, Plan, Result
from optplan.errors import UsageError
from optplan.formulations import formulation_of
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.reporting.boa.answer_differences import Answer, compare_answers, compare_class_answers
from optplan.reporting.boa.breakdown import require_boa
from optplan.reporting.boa.data_differences import (
    compare_class,
    compare_gpu_types,
    compare_settings,
    price_fact,
    rate_fact,
)
from optplan.reporting.boa.width_differences import compare_paths, list_paths
from optplan.reporting.differences import Difference, Fact, merge_names, pair_facts, pair_presence
from optplan.reporting.plain_differences import compare_data, state_answer

#: Its instances and answers are compared in its own terms, class by class.
_BOA = "boa"


@dataclass(frozen=True)
class Compared:
    """One of the two things that are compared.

    Parameters
    ----------
    name
        How the user calls it: a file, a name of the library.
    instance
        The instance; None where only the answer is known.
    answer
        A result or a plan; None where only the instance is known.
    """

    name: str
    instance: Instance | None = None
    answer: Answer | None = None

    @property
    def kind(self) -> str:
        """What it is: ``instance``, ``result``, ``plan``, or ``solved instance``."""
        if self.instance is not None:
            return "instance" if self.answer is None else "solved instance"
        return "plan" if isinstance(self.answer, Plan) else "result"

    def describe(self) -> str:
        """Say what it is in one line: ``b.json, a result for 'boa-newtrace' by layered-paths``."""
        solver = "" if self.answer is None else f" by {self.answer.solver}"
        if self.instance is None:
            return f"{self.name}, a {self.kind} for {self.instance_name!r}{solver}"
        called = "" if self.instance_name == self.name else f" {self.instance_name!r}"
        return f"{self.name}, an instance{called}" + (f", solved{solver}" if solver else "")

    @property
    def formulation(self) -> str:
        """Name of the formulation that it belongs to."""
        if self.instance is not None:
            return formulation_of(self.instance).name
        return "" if self.answer is None else self.answer.formulation

    @property
    def instance_name(self) -> str:
        """What the instance is called."""
        if self.instance is not None:
            return self.instance.name
        return "" if self.answer is None else self.answer.instance_name

    @property
    def instance_hash(self) -> str:
        """Hash of the instance."""
        if self.instance is not None:
            return self.instance.content_hash()
        return "" if self.answer is None else self.answer.instance_hash

    def to_json_data(self) -> dict[str, Any]:
        """Return plain data that says what it is."""
        names = ("name", "kind", "instance_name", "instance_hash")
        data = {name: getattr(self, name) for name in names}
        return data if self.answer is None else {**data, "solver": self.answer.solver}


@dataclass(frozen=True)
class Comparison:
    """Every figure that two things have in common.

    Parameters
    ----------
    a, b
        The two.
    notes
        What a reader has to know, such as that two results belong to different instances.
    rows
        All figures, equal ones too; those of one group stand together.
    """

    a: Compared
    b: Compared
    notes: tuple[str, ...]
    rows: tuple[Difference, ...]

    @property
    def differing(self) -> tuple[Difference, ...]:
        """The rows in which the two differ."""
        return tuple(row for row in self.rows if row.differs)

    def summarise(self, *, with_equal: bool = False) -> str:
        """Say in a line how much differs, and what is not shown."""
        count, equal = len(self.rows), len(self.rows) - len(self.differing)
        if equal == count:
            return f"Nothing differs: all {count} figures are equal."
        left_out = "" if with_equal or not equal else f"; --all shows the {equal} equal ones too"
        return f"{count - equal} of {count} figures differ{left_out}."

    def to_json_data(self, *, with_equal: bool = False) -> dict[str, Any]:
        """Return plain data.

        Parameters
        ----------
        with_equal
            Whether rows are listed in which the two are equal.
        """
        rows = self.rows if with_equal else self.differing
        return {
            "a": self.a.to_json_data(),
            "b": self.b.to_json_data(),
            "notes": list(self.notes),
            "num_equal": len(self.rows) - len(self.differing),
            "rows": [row.to_json_data() for row in rows],
        }


def compare(a: Compared | Instance | Answer, b: Compared | Instance | Answer) -> Comparison:
    """Compare two instances, results or plans.

    Parameters
    ----------
    a, b
        What is compared; changes are counted from A to B. An instance with its answer is a :class:`Compared`.

    Raises
    ------
    UsageError
        When the two have nothing in common, such as a formulation.
    """
    a, b = _as_compared(a), _as_compared(b)
    if a.formulation != b.formulation:
        message = f"{a.name} is of formulation {a.formulation!r} and {b.name} of {b.formulation!r}; give two of one"
        raise UsageError(message)
    rows = _compare_boa(a, b) if a.formulation == _BOA else _compare_plainly(a, b)
    return Comparison(a, b, tuple(_list_notes(a, b)), tuple(rows))


def _as_compared(record: Compared | Instance | Answer) -> Compared:
    match record:
        case Compared():
            return record
        case Instance():
            return Compared(record.name, record)
    return Compared(record.instance_name, answer=record)


def _compare_plainly(a: Compared, b: Compared) -> list[Difference]:
    """Compare field by field, and answers by what the formulation's own module states of them."""
    rows: list[Difference] = []
    if a.instance is not None and b.instance is not None:
        rows += compare_data(a.instance, b.instance)
    if a.answer is not None and b.answer is not None:
        module = f"{__package__}.{a.formulation}.differences"
        if find_spec(module) is not None:
            state: Callable[[Answer], list[Fact]] = import_module(module).state_answer
        else:
            state = state_answer
        pairs = pair_facts(state(a.answer), state(b.answer))
        in_both = isinstance(a.answer, Plan) != isinstance(b.answer, Plan)
        rows += [row for row in pairs if not in_both or (row.a is not None and row.b is not None)]
    if not rows:
        raise _nothing_in_common(a, b)
    return rows


def _nothing_in_common(a: Compared, b: Compared) -> UsageError:
    return UsageError(
        f"{a.name} ({a.kind}) and {b.name} ({b.kind}) have nothing in common to compare; give two of a kind, or solve "
        "the instance too, as --solve does"
    )


def _compare_boa(a: Compared, b: Compared) -> list[Difference]:
    """Compare class by class."""
    rows: list[Difference] = []
    if a.instance is not None and b.instance is not None:
        instances = require_boa(a.instance), require_boa(b.instance)
        rows += [*compare_settings(*instances), *compare_gpu_types(*instances)]
    else:
        rows += _compare_prices(a, b)
    if a.answer is not None and b.answer is not None:
        rows += compare_answers(a.answer, b.answer, types=_name_types(a, b))
    elif a.kind != b.kind and "result" in (a.kind, b.kind):
        raise _nothing_in_common(a, b)
    known_a, known_b = _list_classes(a), _list_classes(b)
    if known_a and known_b:  # an answer without a plan names no classes
        for name in merge_names(known_a, known_b):
            in_a, in_b = name in known_a, name in known_b
            alone = pair_presence(name, "class", f"classes.{name}", in_a=in_a, in_b=in_b)
            rows += _compare_class(a, b, name) if in_a and in_b else [alone]
    return rows


def _compare_class(a: Compared, b: Compared, name: str) -> list[Difference]:
    """List what both say about a class that both have."""
    rows: list[Difference] = []
    rates = (_rates(a), _rates(b))
    if a.instance is not None and b.instance is not None:
        rows += compare_class(require_boa(a.instance), require_boa(b.instance), name)
    elif rates[0] is not None and rates[1] is not None:
        rows += pair_facts([rate_fact(name, rates[0][name])], [rate_fact(name, rates[1][name])])
    if a.answer is not None and b.answer is not None:
        rows += compare_class_answers(name, a.answer, b.answer)
        types = _name_types(a, b)
        paths = [list_paths(one, only_type=of).get(name) for one, of in zip((a.answer, b.answer), types, strict=True)]
        if paths[0] and paths[1]:
            rows += compare_paths(name, paths[0], paths[1])
    return rows


def _compare_prices(a: Compared, b: Compared) -> list[Difference]:
    """List the prices where both know some, without the other data of GPU types."""
    prices_a, prices_b = _prices(a), _prices(b)
    if prices_a is None or prices_b is None:
        return []
    rows = []
    for name in merge_names(prices_a, prices_b):
        rows += pair_facts(
            *([price_fact(name, known[name])] if name in known else [] for known in (prices_a, prices_b))
        )
    return rows


def _prices(side: Compared) -> dict[str, float] | None:
    """Return US dollars per hour by GPU type; None where prices are not among the data."""
    if side.instance is not None:
        types = require_boa(side.instance).gpu_types
        return {n: t.price_usd_per_hour for n, t in types.items() if t.price_usd_per_hour is not None}
    if isinstance(side.answer, Plan):
        return {name: price.usd_per_hour for name, price in side.answer.prices.items()}
    return None


def _rates(side: Compared) -> Mapping[str, float] | None:
    """Return arrivals per hour by class; None where they are not among the data."""
    if side.instance is not None:
        return {name: c.arrival_rate_per_hour for name, c in require_boa(side.instance).classes.items()}
    return side.answer.arrival_rate_per_hour if isinstance(side.answer, BoaPlan) else None


def _list_classes(side: Compared) -> list[str]:
    rates = _rates(side)
    if rates is not None:
        return list(rates)
    return [] if side.answer is None else list(list_paths(side.answer))


def _name_types(a: Compared, b: Compared) -> tuple[str, str]:
    """Name the GPU type of each answer that has one only, where it does not go without saying."""
    known_a, known_b = _only_type(a), _only_type(b)
    if known_a and known_b:
        return ("", "") if known_a == known_b else (known_a, known_b)
    return known_a if _names_types(b) else "", known_b if _names_types(a) else ""


def _names_types(side: Compared) -> bool:
    """Whether an answer says of which type its GPUs are."""
    paths = {} if side.answer is None else list_paths(side.answer)
    return any(held.gpu_type for of_class in paths.values() for path in of_class for held in path.held[:1])


def _only_type(side: Compared) -> str:
    """Return the GPU type where it is known that there is one only, else nothing."""
    types = set()
    if side.instance is not None:
        types = set(require_boa(side.instance).gpu_types)
    elif isinstance(side.answer, BoaPlan) and all(
        r.gpu_types is None for t in side.answer.width_table.values() for r in t
    ):
        types = {step.gpu_type for step in side.answer.steps}
    return types.pop() if len(types) == 1 else ""


def _list_notes(a: Compared, b: Compared) -> list[str]:
    """Say what a reader has to know before reading the rows."""
    notes = []
    if isinstance(a.instance, BoaInstance) and isinstance(b.instance, BoaInstance):
        notes += _note_problems(a.instance, b.instance)
    if a.answer is None or b.answer is None:
        notes += [] if a.kind == b.kind else ["of an instance and a plan, only prices and arrival rates are compared"]
    else:
        notes += _note_answers(a.answer, b.answer)
        notes += [] if a.instance is not None and b.instance is not None else _note_instances(a.answer, b.answer)
    return notes


def _note_problems(a: BoaInstance, b: BoaInstance) -> list[str]:
    if a.problem is b.problem:
        return []
    return [
        f"A asks the {a.problem.value} problem and B the {b.problem.value} one: a plan of one may not do for the other"
    ]


def _note_answers(a: Answer, b: Answer) -> list[str]:
    notes = []
    if isinstance(a, Plan) != isinstance(b, Plan):
        notes.append("of a result and a plan, only what both have is compared")
    for side, answer in (("A", a), ("B", b)):
        if isinstance(answer, Result) and answer.solution is None:
            reason = f": {answer.infeasibility.reason}" if answer.infeasibility is not None else ""
            notes.append(f"{side} has no plan{reason}")
    return notes


def _note_instances(a: Answer, b: Answer) -> list[str]:
    """Say whether two answers belong to different instances."""
    if a.instance_hash == b.instance_hash:
        return []
    if a.instance_name == b.instance_name:
        which = f"two versions of {a.instance_name!r}: data, limits, problem or kind of plan differ"
    else:
        which = f"{a.instance_name!r} and {b.instance_name!r}"
    return [f"A and B are for different instances, {which}"]
