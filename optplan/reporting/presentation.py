"""How a formulation's problems are shown: by what it says of them, plainly where it says nothing of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from optplan.contracts import Instance, Relaxation, Result, Solution
from optplan.contracts.result import require_solution, write_amount
from optplan.errors import UsageError
from optplan.formulations import formulation_of
from optplan.reporting.pages import Block, Card, Definitions, Page, Section
from optplan.reporting.phrases import capitalise
from optplan.reporting.presenters import Beside, find_module, plan_words_of
from optplan.reporting.sections import (
    build_answer_page,
    compare_objectives,
    list_knowledge,
    present_answer,
    say_bound,
    tell_next,
    tell_proof,
    tell_relaxations,
    tell_sources,
)
from optplan.reporting.segments import draw_segments
from optplan.reporting.style import Figure
from optplan.reporting.tables import Column, Shown, Table, fact_table, numbers, plain_text
from optplan.reporting.trying import build_control

InstanceT = TypeVar("InstanceT", bound=Instance)

_CHECK = "verify trusts no solver: it computes the objective and every limit again, from the solution alone."
#: Results for other amounts that are worth a control.
_FEWEST_TRIED = 3
_UNTRIED = (
    "Another {limit} cannot be tried on this page, as too few were solved for in the seconds that writing it may take: "
    "`optplan report INSTANCE RESULT --serve` solves for each that is asked."
)
#: Characters of a plan's name at most.
_LONGEST_NAME = 60


def name_plan(instance: Instance, solution: Solution) -> str:  # noqa: ARG001 - what words are asked with
    """Write a plan as its data, cut where that is long."""
    text = ", ".join(f"{name}={value}" for name, value in solution.to_json_data().items())
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def name_objective(instance: Instance) -> str:  # noqa: ARG001 - what words are asked with
    """Name the objective, of which no more is known than its unit."""
    return "objective"


def format_limit(instance: Instance, amount: float, limit: str = "") -> str:
    """Write an amount of a limit with its unit."""
    return write_amount(amount, instance.limit_as_given(limit)[1] if limit in instance.limits else "").strip()


def format_objective(instance: Instance, objective: float) -> str:
    """Write an objective with its unit."""
    return f"{objective:,.6g} {instance.objective_unit}"


def list_facts(instance: Instance) -> list[tuple[str, str]]:
    """List what an instance says of itself, by name."""
    facts = [("instance", instance.name), ("formulation", formulation_of(instance).title)]
    facts += [("description", instance.description)] if instance.description else []
    facts += [(limit, write_amount(*instance.limit_as_given(limit))) for limit in instance.limits]
    return [*facts, ("hash", instance.content_hash())]


def list_decisions(result: Result[Solution]) -> Table:
    """List what a plan decides, and what was measured of it."""
    decided = {} if result.solution is None else result.solution.to_json_data()
    rows = [(name.replace("_", " "), str(value)) for name, value in decided.items()]
    rows += [(name.replace("_", " "), f"{value:,.6g}") for name, value in result.measures.items()]
    return Table("What the plan decides, and what was measured of it", (Column("what"), Column("value")), rows)


def compare_results(instance: Instance, results: Sequence[Result[Solution]]) -> Table:
    """Set results side by side; the first is what the others are compared with."""
    words = plan_words_of(instance)

    def write(result: Result[Solution], difference: str) -> tuple[str, str]:
        found = result.status.value if result.objective is None else words.format_objective(instance, result.objective)
        return found, difference

    return compare_objectives(results, numbers("objective", "difference"), write)


def say_answer(instance: Instance, result: Result[Solution]) -> str:
    """Say the answer in a sentence."""
    if result.infeasibility is not None:
        return f"No plan is possible: {result.infeasibility.reason}."
    if result.objective is None:
        return f"No plan was found (stopped: {result.termination.value})."
    return f"The best plan found has {format_objective(instance, result.objective)}."


def say_how_good(instance: Instance, result: Result[Solution]) -> str:
    """Say how good that is, and what the proof is worth."""
    if result.infeasibility is not None:
        return "No plan keeps all limits."
    return say_bound(result, partial(format_objective, instance))


def _write_relaxation(one: Relaxation) -> tuple[str, str]:
    return write_amount(one.given, one.unit), one.describe()


def _tell_relaxations(_: Instance, result: Result[Solution]) -> Section:
    why = "" if result.infeasibility is None else result.infeasibility.reason
    return tell_relaxations(result, _write_relaxation, f"{capitalise(why)}.")


def _nothing(*_: object) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class Presenter(Generic[InstanceT]):
    """What a terminal and a page show of one formulation's problems."""

    require: Callable[[Instance], InstanceT]  #: Returns an instance of the formulation's own type, and refuses others.
    facts: Callable[[InstanceT], list[tuple[str, str]]] = list_facts
    given: Callable[[InstanceT], Sequence[Shown]] = _nothing  #: Shown below the facts of an instance.
    answer: Callable[[InstanceT, Result[Solution]], str] = say_answer
    title: Callable[[InstanceT, Result[Solution]], str] | None = None  #: The answer as a page's title.
    how_good: Callable[[InstanceT, Result[Solution]], str] = say_how_good
    first: Callable[[InstanceT, Result[Solution]], Sequence[Shown]] = _nothing  #: Shown before what was found.
    decided: Callable[[InstanceT, Result[Solution]], Sequence[Shown]] = lambda _, result: [list_decisions(result)]
    compared: Callable[[InstanceT, Sequence[Result[Solution]]], Sequence[Block]] = lambda instance, results: [
        compare_results(instance, results)
    ]
    #: The main figures of a plan.
    cards: Callable[[InstanceT, Result[Solution]], list[Card]] = lambda instance, result: [
        Card("objective", format_objective(instance, result.objective or 0.0))
    ]
    help: Callable[[Relaxation], str] = lambda one: _write_relaxation(one)[1]  #: What a limit would have to be.
    rivals: str = "Other solvers"  #: What stands above those compared.
    beside: Callable[[Beside], Sequence[Result[Solution]]] = lambda beside: beside.rivals
    relaxed: Callable[[InstanceT, Result[Solution]], Section] = _tell_relaxations
    plan: Callable[[InstanceT, Result[Solution], Sequence[Result[Solution]]], Sequence[Section]] = (
        lambda _, result, __: [Section("plan", "The plan", [list_decisions(result)])]
    )
    #: What was gathered, with all results that are shown.
    gathered: Callable[[InstanceT, Any, Sequence[Result[Solution]]], Sequence[Section]] = _nothing
    question: Callable[[InstanceT], Sequence[Block]] | None = None  #: What was asked; without it, the facts.
    check: Callable[[InstanceT], str] = lambda _: _CHECK  #: What verify does.
    terms: Callable[[Result[Solution]], Iterable[tuple[str, str]]] = _nothing  #: The certificates.
    granted: Callable[[InstanceT], Sequence[tuple[str, str]]] = _nothing  #: What is taken for granted.
    picture: Callable[[InstanceT, Result[Solution]], Figure] | None = None  #: A plan over time.
    #: A plan in a line.
    named: Callable[[InstanceT, Result[Solution]], str] = lambda instance, result: plan_words_of(instance).name_plan(
        instance, require_solution(result)
    )
    run: str = ""  #: The command that follows a plan, where there is one.
    page: Callable[[InstanceT, Result[Solution], Beside], Page] | None = None  #: In place of one of all these parts.

    def present_instance(self, instance: Instance) -> list[Shown]:
        """Say what an instance asks for."""
        own = self.require(instance)
        facts = self.facts(own)
        described = not own.description or any(name == "description" for name, _ in facts)
        above: list[Shown] = [] if described else [plain_text(own.description), ""]
        return [*above, fact_table(facts), *(part for table in self.given(own) for part in ("", table))]

    def present_result(self, instance: Instance, result: Result[Solution], *, in_short: bool = False) -> list[Shown]:
        """Say what was found, how good it is, and what to do; in short, the plan in a line in place of its tables."""
        own = self.require(instance)
        tables = () if in_short else self.present_decisions(instance, result)
        answer, how_good = self.answer(own, result), self.how_good(own, result)
        found = self.list_found(own, result)
        if in_short and result.solution is not None:
            found.insert(1, ("plan", self.named(own, result)))
        return present_answer(result, answer, how_good, found, *tables, first=self.first(own, result))

    def present_decisions(self, instance: Instance, result: Result[Solution]) -> Sequence[Shown]:
        """Say what a plan decides, in tables; nothing without one."""
        return () if result.solution is None else self.decided(self.require(instance), result)

    def list_found(self, own: InstanceT, result: Result[Solution]) -> list[tuple[str, str]]:
        """List what is known of a result, by name."""
        cards = [] if result.objective is None else self.cards(own, result)
        return list_knowledge(result, cards, partial(plan_words_of(own).format_objective, own), self.help)

    def present_comparison(self, instance: Instance, results: Sequence[Result[Solution]]) -> list[Shown]:
        """Set the results of several solvers side by side, ours first."""
        shown: list[Shown] = []
        for block in self.compared(self.require(instance), results):
            if isinstance(block, Table):
                shown.append(block)
            elif isinstance(block, Definitions) and block.pairs:
                shown += ["", fact_table(block.pairs)]
        return shown

    def draw_plan(self, instance: Instance, result: Result[Solution]) -> Figure:
        """Draw a plan over time, or, where it has no picture of its own, who holds what in which order."""
        if self.picture is not None:
            return self.picture(self.require(instance), result)
        return draw_segments(formulation_of(instance).build_plan(instance, result))

    def build_page(self, instance: Instance, result: Result[Solution], beside: Beside) -> Page:
        """Put the report of a result together, with a control where there are enough other amounts to try."""
        own = self.require(instance)
        page = self._build_page(own, result, beside) if self.page is None else self.page(own, result, beside)
        if beside.others is None:
            return page
        if len(beside.others.results) < _FEWEST_TRIED:
            said = _UNTRIED.format(limit=beside.others.limit)
            told = [each._replace(blocks=[*each.blocks, said]) if each.id == "next" else each for each in page.sections]
            return page._replace(sections=told)
        return page._replace(control=build_control(self.build_page, own, result, page, beside, beside.others))

    def _build_page(self, own: InstanceT, result: Result[Solution], beside: Beside) -> Page:
        for name in ("explanation", "sensitivity"):
            if getattr(beside, name) is not None:
                raise UsageError(f"{name}: reports of formulation {formulation_of(own).name!r} show none; leave it out")
        rivals, sections = () if beside.is_moved else self.beside(beside), list[Section]()
        results = [result, *rivals]
        if result.infeasibility is not None:
            sections.append(self.relaxed(own, result))
        if result.solution is not None:
            sections += [section._replace(follows=True) for section in self.plan(own, result, rivals)]
        if not beside.is_moved:
            sections += self._tell_rest(own, result, beside, results)
        return build_answer_page(
            own,
            result,
            answer=(self.title or self.answer)(own, result),
            how_good=self.how_good(own, result),
            cards=[] if result.objective is None else self.cards(own, result),
            sections=sections,
        )

    def _tell_rest(
        self, own: InstanceT, result: Result[Solution], beside: Beside, results: Sequence[Result[Solution]]
    ) -> list[Section]:
        """Tell what does not follow a page's control, and where other amounts lie."""
        sections = tell_next(result, beside, self.run)
        if len(results) > 1:
            sections.append(Section("solvers", self.rivals, self.compared(own, results)))
        if beside.background is not None:
            sections += [each._replace(follows=True) for each in self.gathered(own, beside.background, results)]
        question = [Definitions(self.facts(own))] if self.question is None else self.question(own)
        sections.append(Section("question", "What was asked", question, place="folded"))
        sections.append(tell_proof(result, beside, self.check(own), *self.terms(result)))
        if granted := self.granted(own):
            taken = Definitions(granted)
            sections.append(Section("assumptions", "What is taken for granted", [taken], place="folded"))
        return [*sections, tell_sources(own, result)]


PRESENTER = Presenter[Instance](lambda instance: instance)


def presenter_of(instance: Instance) -> Presenter[Any]:
    """Return what presents an instance and its results."""
    own = find_module(formulation_of(instance).name, "presenter")
    return PRESENTER if own is None else cast(Presenter[Any], own.PRESENTER)
