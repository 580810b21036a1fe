"""What the answers and pages of all formulations have in common: how good, by whom, how to check it, where from.

How a solve went: the best plan and the best bound over its time, until they met or the solver stopped.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from optplan import wings
from optplan.contracts import BoundProof, Instance, Relaxation, Result, Sense, Solution, Status
from optplan.contracts.result import CERTIFIED, relative_gap, write_amount
from optplan.formulations import formulation_of
from optplan.reporting.pages import Block, Card, Command, Definitions, Items, Page, Section
from optplan.reporting.phrases import (
    LEAST_SHARE,
    NOTHING,
    PROOF_NAMES,
    PROOF_WORDS,
    compare_amounts,
    format_gap,
    format_seconds,
    format_share,
    relative_difference,
)
from optplan.reporting.presenters import Beside
from optplan.reporting.tables import Column, Shown, Table, fact_table, numbers, numeric, plain_text
from optplan.speedup import NOT_SAID, UNTRIED, Evidence

#: Steps that the table lists at most.
_MOST_ROWS = 8


def tell_trajectory(result: Result[Solution]) -> list[Section]:
    """Tell how the objective and the bound came about; nothing where they were known at once."""
    if len(result.events) < 2:
        return []
    said = "Times are those of the machine that solved it. No plan can pass the bound; where both meet, it is proven."
    return [Section("trajectory", "How the answer was found", [said, list_steps(result)], "The search", "folded")]


def list_steps(result: Result[Solution]) -> Table:
    """List when objective and bound became better, the first and the last ones where there are many."""

    def write(amount: float | None) -> str:
        return NOTHING if amount is None else write_amount(amount, result.objective_unit)

    columns = (numeric("after"), Column("while"), *numbers("best plan", "best bound", "gap"))
    rows = []
    for event in result.events:
        gap = relative_gap(event.objective, event.bound, result.sense)
        known = format_seconds(event.elapsed_s), event.stage, write(event.objective), write(event.bound)
        rows.append((*known, NOTHING if gap is None else format_share(gap)))
    left_out = len(rows) - _MOST_ROWS
    if left_out > 0:
        rows[_MOST_ROWS // 2 : -_MOST_ROWS // 2] = [("…", f"{left_out} more", "…", "…", "…")]
    return Table("When plan and bound became better", columns, rows)


#: Columns that end every table of several solvers.
STANDING: dict[Column, Callable[[Result[Solution]], str]] = {
    numeric("gap"): lambda result: "-" if result.gap is None else format_share(result.gap),
    Column("proof"): lambda result: PROOF_NAMES[result.bound_proof],
    numeric("solved in"): lambda result: format_seconds(result.solve_seconds),
}
#: Commands of wings that follow a plan, what each does, and how it is called where that is the same for all plans.
_FOLLOWED = (
    ("run", "Follow it, at first on a virtual clock", ""),
    (
        "export",
        "Or hand it to a scheduler",
        "optplan export plan.json --to slurm --command 'python train.py {gpus} {trial}' -o jobs",
    ),
)
NOTHING_PROVEN = "This solver proves nothing: how far its plan is from the best possible is not known."


def say_bound(
    result: Result[Solution], format_objective: Callable[[float], str], *, plan: str = "plan", proviso: str = ""
) -> str:
    """Say how far from the best possible ``plan`` is, and what that rests on; the ``proviso`` begins with a comma."""
    if result.bound is None:
        return NOTHING_PROVEN
    checked, gap, bound = PROOF_WORDS[result.bound_proof], result.gap, format_objective(result.bound)
    if bounds_nothing(result):
        return f"How far the {plan} is from the best possible is not known: the bound, {bound}, excludes nothing."
    if gap is None:
        return f"No {plan} can be better than {bound}; this bound {checked}."
    if result.status is Status.OPTIMAL and gap <= LEAST_SHARE and result.bound_proof not in CERTIFIED:
        return f"No {plan} can be better{proviso}; that {checked}."
    if result.status is Status.OPTIMAL and gap <= LEAST_SHARE:
        return f"No {plan} can be better: proven{proviso}. The proof {checked}."
    lower = f"the best possible is at most {format_gap(gap)} lower"
    return f"No {plan} can be better than {bound}, so {lower}. The bound {checked}."


def list_origin(result: Result[Solution]) -> list[tuple[str, str]]:
    """List who found a result, and how long that took."""
    engine = f"{result.engine} {result.engine_version}".strip()
    verified = f"verified in {format_seconds(result.verify_seconds)}" if result.verify_seconds else "not verified"
    return [
        ("solver", f"{result.solver} (engine {engine}, seed {result.seed})"),
        ("time", f"{format_seconds(result.solve_seconds)}, {verified}"),
    ]


def present_answer(
    result: Result[Solution],
    answer: str,
    how_good: str,
    facts: Iterable[tuple[str, str]],
    *tables: Shown,
    first: Sequence[Shown] = (),
) -> list[Shown]:
    """Present a result on a terminal: the answer, how good it is, what comes first, facts, notes, tables."""
    parts: list[Shown] = [
        plain_text(add_trust(answer, result), "bold"),
        *([plain_text(said)] if (said := add_evidence(how_good, result).strip()) else []),
        *(part for table in first for part in ("", table)),
        "",
        fact_table(facts),
        *(plain_text(f"note: {warning}") for warning in result.warnings),
    ]
    return [*parts, *(part for table in tables for part in ("", table))]


def build_answer_page(
    instance: Instance,
    result: Result[Solution],
    *,
    answer: str,
    how_good: str,
    cards: Sequence[Card],
    sections: Sequence[Section],
) -> Page:
    """Put the page of a result together; how it was found stands behind the section on its proof."""
    badge, kind = name_status(result)
    place = next((number for number, section in enumerate(sections, 1) if section.id == "proof"), len(sections))
    return Page(
        name=instance.name,
        title=add_trust(answer, result),
        lead=add_evidence(how_good, result),
        badge=badge,
        badge_kind=kind,
        warnings=result.warnings,
        cards=cards,
        sections=[*sections[:place], *tell_trajectory(result), *sections[place:]],
    )


def tell_next(result: Result[Solution], beside: Beside, run: str, *more: str) -> list[Section]:
    """Tell what to do with a plan, its file first; ``run`` is the command that follows it, empty where none does."""
    if result.solution is None:
        return []
    keep = solve_again(beside.verify_command, "-o", "result.json", "--plan", "plan.json")
    steps = [
        f"Keep it: `{keep}` writes the plan as data, for people and programs.",
        *(f"{said}: `{command or run}`" for name, said, command in _FOLLOWED if run and name in wings.commands()),
        *more,
        f"Check it, trusting no solver: `{beside.verify_command}`",
    ]
    return [Section("next", "What to do next", [Items(steps, ordered=True)], place="half")]


def solve_again(verify_command: str, *options: str, but: str = "") -> str:
    """Return the command that solves what a command verifies, with the same changes of the instance, ``but`` one."""
    _, _, checked = verify_command.rpartition("optplan verify ")
    try:
        instance, *changes = shlex.split(checked.partition(" < ")[0])
    except ValueError:  # not a command line of this tool
        instance, changes = "instance.json", []
    del changes[:1]  # the result
    if but in changes:
        place = changes.index(but)
        del changes[place : place + 2]
    return shlex.join(["optplan", "solve", instance, *changes, *options])


def relaxations_of(result: Result[Solution]) -> Sequence[Relaxation]:
    """Return which limits would have to be others; none where there is a plan."""
    return result.infeasibility.relaxations if result.infeasibility is not None else ()


def list_knowledge(
    result: Result[Solution],
    cards: Iterable[Card],
    format_objective: Callable[[float], str],
    write: Callable[[Relaxation], str],
) -> list[tuple[str, str]]:
    """List what is known of a result: its status, its main figures, its bound, what would help, and who found it."""
    status = f"{name_status(result)[0]} (stopped: {result.termination.value})"
    figures = [(card.name, f"{card.value} ({card.note})" if card.note else card.value) for card in cards]
    known = [("status", status), *figures]
    if result.bound is not None:
        gap = "" if result.gap is None else f"gap {format_share(result.gap)}; "
        known.append(("bound", f"{format_objective(result.bound)} ({gap}{result.bound_proof.value})"))
    known += [
        ("may help" if one.enough is None else "would help", f"a {one.limit.replace('_', ' ')} of {said}")
        for one in relaxations_of(result)
        if (said := write(one))
    ]
    return [*known, *list_origin(result)]


def tell_relaxations(
    result: Result[Solution],
    write: Callable[[Relaxation], tuple[str, str]],
    *said: str,
    parts: Sequence[tuple[str, str]] = (),
    least: str = "least that works",
) -> Section:
    """Tell which limits would have to be others: ``write`` says what is given of one, and what works."""
    columns = (Column("limit"), *numbers("given", least))
    rows = [(one.limit.replace("_", " "), *write(one)) for one in relaxations_of(result)]
    tables = [Table("Limits to relax", columns, rows)] if rows else []
    return Section("help", "What would help", [*said, *tables, Definitions(parts)])


def tell_proof(
    result: Result[Solution], beside: Beside, said: str, *terms: tuple[str, str], steps: Sequence[str] = ()
) -> Section:
    """Tell how a result is checked: ``said`` is what the command does, ``terms`` are the certificates."""
    # ``steps`` are what the bound follows from, one after the other.
    bound = [] if result.infeasibility is not None else [("the bound", PROOF_WORDS[result.bound_proof])]
    checked = []
    if beside.verification is not None:
        found = beside.verification
        checked = [("verified", f"all {len(found.checks)} checks hold")]
        checked += [("taken on trust", text) for text in found.on_trust]
        checked += [("never checked", text) for text in found.never_checked]
    known: list[Block] = [said, Command(beside.verify_command), Definitions([*bound, *terms, *checked])]
    explained: list[Block] = [Items(steps, ordered=True)] if steps else []
    return Section("proof", "How to check this", [*explained, *known], "The proof", place="folded")


def compare_objectives(
    results: Sequence[Result[Solution]],
    columns: Sequence[Column],
    write: Callable[[Result[Solution], str], Sequence[str]],
) -> Table:
    """Set results side by side; the first is what the others are compared with."""
    # ``write`` returns the cells between the solver and :data:`STANDING`, given a result and how its objective differs.
    rows = []
    for place, result in enumerate(results):
        above = relative_difference(result.objective, results[0].objective)
        difference = NOTHING if place == 0 or above is None else compare_amounts(above)
        rows.append((result.solver, *write(result, difference), *(cell(result) for cell in STANDING.values())))
    return Table("Solvers side by side", (Column("solver"), *columns, *STANDING), rows)


def tell_sources(instance: Instance, result: Result[Solution], *terms: tuple[str, str]) -> Section:
    """Tell where the figures come from, ``terms`` among them, and what would reproduce the result."""
    own = [("instance", f"{instance.name}, hash {result.instance_hash}")]
    own += [("description", instance.description)] if instance.description else []
    sources = [(kind.replace("_", " "), text) for kind, text in instance.source.items()]
    made = [*list_origin(result), ("made with", f"optplan {result.optplan_version}")]
    return Section(
        "provenance", "Where this comes from", [Definitions([*own, *sources, *terms, *made])], "Provenance", "folded"
    )


def add_evidence(how_good: str, result: Result[Solution]) -> str:
    """Add to the first sentences about a result what the speedups behind it rest on, where it has any."""
    if not result.evidence:
        return how_good
    behind = "its GPUs" if result.solution is not None else "the load"
    said = f"{how_good} Speedups behind {behind}: {say_evidence(result.evidence)}."
    if UNTRIED.keys() & result.evidence.keys() and (result.bound is not None or result.infeasibility is not None):
        said += " What is proven is proven for these, and not for what the jobs will really do."
    return said


def share_load(instance: Instance) -> dict[str, float]:
    """Return the shares of an instance's load by where its speedups come from; nothing where it has none."""
    formulation = formulation_of(instance)
    return formulation.share_evidence(instance, None) if formulation.declares("share_evidence") else {}


def warn_of_untried(instance: Instance) -> list[str]:
    """Say of answers about many plans that speedups behind them rest on no run, where some do not."""
    shares = share_load(instance)
    if not UNTRIED.keys() & shares.keys():
        return []
    return [f"Speedups behind the load: {say_evidence(shares)}. What is proven is proven for these."]


def say_evidence(shares: Mapping[str, float]) -> str:
    """Say which shares of the GPUs rest on what: ``38 % assumed, 20 % from model cards, 42 % measured``."""
    kinds = [kind for kind in (*map(str, reversed(Evidence)), NOT_SAID) if kind in shares]
    names = {kind: "from model cards" if kind == Evidence.CARD else kind for kind in kinds}
    if kinds == [NOT_SAID]:
        return "where they come from is not said"
    if len(kinds) == 1:
        return f"all {names[kinds[0]]}"
    return ", ".join(f"{format_share(shares[kind])} {names[kind]}" for kind in kinds)


def name_status(result: Result[Solution]) -> tuple[str, str]:
    """Name what is known, last the share of speedups without a run, and how good it is: ``good``, ``fair``, ``bad``."""
    said, kind = _name_proof(result)
    shares = {words: result.evidence[each] for each, words in UNTRIED.items() if result.evidence.get(each)}
    if not shares:
        return said, kind
    of_what = "its GPUs" if result.solution is not None else "the load"
    on = " and ".join(f"{format_share(share)} of {of_what} on {words}" for words, share in shares.items())
    return f"{said}; {on}", "fair" if kind == "good" else kind


def _name_proof(result: Result[Solution]) -> tuple[str, str]:
    """Name what is proven in a few words, and how good that is."""
    if result.status is Status.OPTIMAL:
        said = f"optimal, says {_name_source(result)}"
        return (said, "fair") if result.rests_on_trust else ("proven optimal", "good")
    if result.status is Status.FEASIBLE:
        is_bound = result.gap is not None and not bounds_nothing(result)
        return (f"within {format_gap(result.gap or 0.0)} of the bound" if is_bound else "no bound"), "fair"
    if result.status is Status.INFEASIBLE:
        said = f"infeasible, says {_name_source(result)}"
        return (said if result.rests_on_trust else "infeasible: proven"), "bad"
    return "no plan found", "bad"


def bounds_nothing(result: Result[Solution]) -> bool:
    """Whether the bound is one that every plan keeps: a time or a cost of zero, where the plan's own is above it."""
    could_be_less = result.objective_unit not in ("s", "usd")
    if could_be_less or result.status is Status.OPTIMAL or result.sense is not Sense.MINIMISE:
        return False
    return result.bound is not None and result.bound <= 0.0


def add_trust(answer: str, result: Result[Solution]) -> str:
    """Add to the first sentence about a result what it claims without a certificate, if there is anything."""
    if not result.rests_on_trust:
        return answer
    claim = {
        Status.OPTIMAL: "That nothing is better",
        Status.FEASIBLE: "How much better it could be",
        Status.INFEASIBLE: "That there is none",
        Status.UNKNOWN: "The bound",
    }[result.status]
    without = "" if _has_certificate(result) else ", without a certificate"
    return f"{answer} {claim} rests on trust: {_name_source(result)} says so{without}."


def _has_certificate(result: Result[Solution]) -> bool:
    """Whether there is a certificate of what the status claims, checked or not."""
    if result.infeasibility is not None:
        return bool(result.infeasibility.multipliers or result.infeasibility.certificate)
    return result.bound_proof in CERTIFIED


def _name_source(result: Result[Solution]) -> str:
    """Name who says what nobody checked: an engine, a search of ours, a certificate for which time was too short."""
    if _has_certificate(result):
        return "a certificate that was not checked in time"
    if result.bound_proof is BoundProof.ENGINE:
        return f"{result.engine} {result.engine_version}".strip()
    return "a search"
