"""Two instances, results or plans side by side: all that both have, of A, of B, and the change between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from optplan.contracts import Instance, Plan, Result
from optplan.errors import UsageError
from optplan.reporting.differences import (
    Answer,
    Difference,
    Fact,
    difference_table,
    pair_facts,
    state_answer,
    state_data,
)
from optplan.reporting.pages import Block, Definitions, Remark, Section
from optplan.reporting.presenters import find_module


@dataclass(frozen=True)
class Compared:
    """One of the two things that are compared."""

    name: str  #: How the user calls it: a file, a name of the library.
    instance: Instance | None = None  #: The instance; None where only the answer is known.
    answer: Answer | None = None  #: A result or a plan; None where only the instance is known.

    @property
    def kind(self) -> str:
        """What it is: ``instance``, ``result``, ``plan``, or ``solved instance``."""
        if self.instance is not None:
            return "instance" if self.answer is None else "solved instance"
        return "plan" if isinstance(self.answer, Plan) else "result"

    def describe(self) -> str:
        """Say what it is in one line: ``b.json, a result for 'boa-newtrace' by layered-paths``."""
        solver, of = "" if self.answer is None else f" by {self.answer.solver}", self.origin["instance_name"]
        if self.instance is None:
            return f"{self.name}, a {self.kind} for {of!r}{solver}"
        called = "" if of == self.name else f" {of!r}"
        return f"{self.name}, an instance{called}" + (f", solved{solver}" if solver else "")

    @property
    def origin(self) -> dict[str, Any]:
        """Formulation, name and hash of the instance, by the names of these fields in records."""
        if self.instance is not None:
            return self.instance.origin()
        return {name: getattr(self.answer, name) for name in ("formulation", "instance_name", "instance_hash")}

    def to_json_data(self) -> dict[str, Any]:
        """Return plain data that says what it is."""
        data = {"name": self.name, "kind": self.kind} | self.origin
        del data["formulation"]
        return data if self.answer is None else {**data, "solver": self.answer.solver}


@dataclass(frozen=True)
class Comparison:
    """Every figure that two things have in common."""

    #: a, b: The two.
    a: Compared
    b: Compared
    notes: tuple[str, ...]  #: What a reader has to know, such as that two results belong to different instances.
    rows: tuple[Difference, ...]  #: All figures, equal ones too; those of one group stand together.

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
        """Return plain data; rows in which the two are equal only with ``with_equal``."""
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
    of_a, of_b = (side.origin["formulation"] for side in (a, b))
    if of_a != of_b:
        raise UsageError(f"{a.name} is of formulation {of_a!r} and {b.name} of {of_b!r}; give two of one")
    rows = _compare_fields(a, b)
    groups = list(dict.fromkeys(row.of for row in rows))
    rows.sort(key=lambda row: groups.index(row.of))  # of a class its data, and what answers say of it
    return Comparison(a, b, tuple(_list_notes(a, b)), tuple(rows))


def _as_compared(record: Compared | Instance | Answer) -> Compared:
    match record:
        case Compared():
            return record
        case Instance():
            return Compared(record.name, record)
    return Compared(record.instance_name, answer=record)


def tell_comparison(comparison: Comparison) -> Section:
    """Tell what differs, for a page."""
    blocks: list[Block] = [
        Definitions([("A", comparison.a.describe()), ("B", comparison.b.describe())]),
        *(Remark(note) for note in comparison.notes),
        comparison.summarise(with_equal=True),
    ]
    if comparison.differing:
        blocks.append(difference_table(comparison.differing))
    return Section("changes", "What differs between A and B", blocks, "What differs")


def _compare_fields(a: Compared, b: Compared) -> list[Difference]:
    """Compare data field by field, and answers by what the formulation states of them, if it does."""
    rows: list[Difference] = []
    if a.instance is not None and b.instance is not None:
        rows += pair_facts(state_data(a.instance), state_data(b.instance))
    if a.answer is not None and b.answer is not None:
        words = find_module(a.answer.formulation, "differences") or find_module(a.answer.formulation, "words")
        state: Callable[[Answer], list[Fact]] = getattr(words, "state_answer", state_answer)
        pairs = pair_facts(state(a.answer), state(b.answer))
        in_both = isinstance(a.answer, Plan) != isinstance(b.answer, Plan)
        rows += [row for row in pairs if not in_both or (row.a is not None and row.b is not None)]
    if not rows:
        raise UsageError(
            f"{a.name} ({a.kind}) and {b.name} ({b.kind}) have nothing in common to compare; give two of a kind, or "
            "solve the instance too, as --solve does"
        )
    return rows


def _list_notes(a: Compared, b: Compared) -> Iterator[str]:
    """Say what a reader has to know before reading the rows."""
    if a.answer is None or b.answer is None:
        return
    if isinstance(a.answer, Plan) != isinstance(b.answer, Plan):
        yield "of a result and a plan, only what both have is compared"
    for side, answer in (("A", a.answer), ("B", b.answer)):
        if isinstance(answer, Result) and answer.solution is None:
            reason = f": {answer.infeasibility.reason}" if answer.infeasibility is not None else ""
            yield f"{side} has no plan{reason}"
    are_known = a.instance is not None and b.instance is not None
    if not are_known and a.answer.instance_hash != b.answer.instance_hash:
        name, other = a.answer.instance_name, b.answer.instance_name
        versions = f"two versions of {name!r}: data, limits, problem or kind of plan differ"
        yield f"A and B are for different instances, {versions if name == other else f'{name!r} and {other!r}'}"
