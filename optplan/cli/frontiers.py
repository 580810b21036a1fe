"""``optplan frontier``: what every budget buys, for one instance or several, and what solvers reach beside it.

What `optplan frontier` does beside lines of budgets: lists of plans, and questions both ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

import optplan
from optplan.cli.amending import amend, amendments, naming
from optplan.cli.commands import command, refuse_but
from optplan.cli.console import Progress, Shown, note, print_answer, print_json
from optplan.cli.options import BUDGET, INSTANCES, TIME, known_name, list_solver_choices, option
from optplan.cli.outputs import Outputs, is_csv
from optplan.errors import UsageError, VerificationError

if TYPE_CHECKING:
    from optplan.contracts import Frontier, FrontierPoint, Instance, ParetoFrontier
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.reporting.boa.figures import FrontierAnswer, FrontierCurve
    from optplan.units import Amount

#: How more points of a frontier are seen.
MORE_POINTS = " (-o FILE writes all, --points N shows more)"


def show_pareto(instance: Instance, outputs: Outputs, *, limit: str, most: int, time_limit_s: float | None) -> int:
    """Find, print and write the frontier of an instance by a limit, empty for the usual; ``most`` rows are shown."""
    from optplan.reporting.pareto import present_pareto

    with Progress("frontier", instance.objective_unit) as progress:
        found = optplan.pareto(instance, limit=limit, time_limit_s=time_limit_s, on_event=progress.listen)
    outputs.answer(found, lambda: present_pareto(instance, found, most, more=MORE_POINTS))
    outputs.save_table(found.to_json_data, *_list_plans(found))
    outputs.save_text("--plot", lambda _: _draw_plans(instance, found))
    return outputs.exit_code(0)


def _list_plans(found: optplan.ParetoFrontier) -> tuple[list[str], Sequence[Sequence[object]]]:
    measures = sorted({name for point in found.points for name in point.measures})
    heading = [f"{found.limit_name}_{found.limit_unit}", f"objective_{found.objective_unit}", "bound", "low", "high"]
    rows = [
        [p.limit, p.objective, p.bound, p.low, p.high, *(p.measures.get(name) for name in measures)]
        for p in found.points
    ]
    return [*heading, *measures], rows


def _draw_plans(instance: Instance, found: ParetoFrontier) -> str:
    from optplan.reporting.pareto import count_plans
    from optplan.reporting.reports import build_figures, draw_frontier

    what = f"Plans by {found.limit_name}: {count_plans(len(found.points))} no other beats"
    return build_figures(instance.name, f"Frontier of {instance.name}", [(what, draw_frontier(instance, found))])


#: Relative tolerance between a bound and the one derived again, beside rounding in what the multipliers are worth.
_TOLERANCE = 1e-9


def answer_questions(
    instance: optplan.BoaInstance,
    line: Frontier,
    *,
    at: Sequence[Amount] = (),
    for_jct_s: Sequence[float] = (),
    for_weighted_jct_s: Sequence[float] = (),
) -> list[FrontierAnswer]:
    """Answer what budgets buy, and which budgets mean completion times take, in the order of the parameters."""
    from optplan.reporting.boa.figures import FrontierAnswer

    alike, line_of_alike = _count_alike(instance, line) if for_jct_s else (instance, line)
    found: list[tuple[dict[str, str | float], optplan.BoaInstance, FrontierPoint]] = []
    found += [({"at": str(amount)}, instance, line.at(_read_amount(instance, amount))) for amount in at]
    found += [({"for_jct_s": s}, alike, line_of_alike.budget_for(s)) for s in for_jct_s]
    found += [({"for_weighted_jct_s": s}, instance, line.budget_for(s)) for s in for_weighted_jct_s]
    return [FrontierAnswer(question, of, point, _check(of, point)) for question, of, point in found]


def _count_alike(instance: optplan.BoaInstance, line: Frontier) -> tuple[optplan.BoaInstance, Frontier]:
    if len({job_class.weight for job_class in instance.classes.values()}) == 1:
        return instance, line
    alike = instance.replace(classes={name: c.replace(weight=1.0) for name, c in instance.classes.items()})
    return alike, optplan.frontier(alike)


def _read_amount(instance: optplan.BoaInstance, amount: Amount) -> float:
    """Express an amount in the unit of the frontier's budgets."""
    limited = instance.replace(budget=amount)
    if limited.budget_unit is not instance.budget_unit:
        unit = instance.budget_unit.value
        message = (
            f"--at: got {str(amount)!r}, and this frontier counts {unit}; ask in that unit, or have a frontier of "
        )
        raise UsageError(f"{message}GPUs of all types alike by --budget {amount}")
    return limited.budget_amount()


def _check(instance: optplan.BoaInstance, point: FrontierPoint) -> float:
    """Derive the bound of a point again from its certificate, as :func:`optplan.verify` does for results."""
    from optplan.formulations import formulation_of
    from optplan.progress import Stopwatch
    from optplan.units import Amount

    limited = instance.replace(budget=Amount(point.budget, instance.budget_unit))
    multipliers = point.certificate.multipliers
    if set(multipliers) != set(limited.limits):
        named, needed = ", ".join(multipliers) or "none", ", ".join(limited.limits)
        message = f"frontier at {point.budget!r}: the certificate must name exactly the limits {needed}, not {named}"
        raise VerificationError(message)
    proven = formulation_of(limited).dual_bound(limited, multipliers, Stopwatch())
    worth = sum(multipliers[limit] * amount for limit, amount in limited.limits.items())
    if abs(proven - point.certificate.bound) > _TOLERANCE * (abs(proven) + worth):
        message = f"frontier at {point.budget!r}: the certificate proves {proven!r}, not {point.certificate.bound!r}"
        raise VerificationError(message)
    return proven


@command(
    short_help="Show what every budget, deadline or number of VMs buys.",
    examples=(
        "optplan frontier boa-newtrace",
        "optplan frontier boa-newtrace --at 120gpu --at 150gpu --for-jct 50min",
        "optplan frontier boa-newtrace -o frontier.csv --plot frontier.html",
        "optplan frontier boa-newtrace boa-newtrace-tables --report both.html",
        "optplan frontier boa-newtrace --points 8 --solver published-algorithm1 --plot rivals.html",
        "optplan frontier rubberband-resnet101-20min -o plans.csv --plot plans.html",
        "optplan frontier seer-informed-example --limit deadline",
        "optplan frontier jobs.csv --by gpus --instance mine.json --gpus-per-node 4 --nodes 2..12",
    ),
    writes={
        "output": "every breakpoint, as JSON, or as CSV when the name ends in .csv",
        "plot": "Write a figure as HTML.",
        "report": "Write an HTML report.",
    },
)
@amendments
def frontier(
    instance_names: tuple[str, ...] = INSTANCES,
    *,
    points: int = option(type=click.IntRange(min=2), default=20, metavar="N", help="Rows at most."),
    at: tuple[Amount, ...] = option(multiple=True, type=BUDGET, help="Ask what 120gpu buys."),
    for_jct: tuple[float, ...] = option(
        multiple=True, type=TIME, help="Ask what a mean of 50min costs, all jobs counting alike."
    ),
    for_weighted_jct: tuple[float, ...] = option(
        multiple=True, type=TIME, help="The same for the weighted mean; with equal weights they are one."
    ),
    solvers: tuple[str, ...] = option(
        "--solver",
        multiple=True,
        metavar="NAME",
        help="Show too what this solver reaches at each budget shown, and each --at. May be repeated.",
        **known_name("solver", list_solver_choices),
    ),
    time_limit: float | None = option(
        type=TIME,
        help="For the frontier of an instance with quotas, a list of plans, and each --solver at each budget.",
    ),
    limit: str = option(
        default="",
        metavar="NAME",
        help="What varies. Of a list of plans: budget or deadline, the other kept. Of srift also vms or gpus: how jobs "
        "scale on one type of VM, with options of its own: `optplan frontier --limit vms --help`.",
    ),
    by: str | None = option(
        type=click.Choice(["gpus", "commitments"]),
        help="Of one log or instance: how many own GPUs its jobs need, or how many to commit. Each has options of its "
        "own: `optplan frontier --by gpus --help`.",
    ),
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Show the best objective for every limit of each INSTANCE (a file or a name of the library).

    Where plans cannot be mixed (rubberband: time and cost of a search), it is the list of those that no other beats, of
    one instance at a time; -o, --plot, --points, --limit and --time-limit, for the whole of it, apply.

    For boa it is the best mean completion time for every budget, that of mixed plans; each of its breakpoints is a pure
    plan. Answers to --at, --for-jct and --for-weighted-jct come with the bound that their certificate proves, derived
    again without the solver. With --json, every breakpoint with its certificate, what a little more and a little less
    budget would change there, and the answers in that order; a list when there are several instances.

    The instance's own limit plays no role.

    With several instances --plot and --report draw one figure. It counts GPUs where all of them cost the same or have
    no price, else US dollars an hour; budgets that cannot be converted are refused.
    """
    from optplan.reporting.boa.frontier_tables import list_asked, list_reached, present_frontier, tell_curves
    from optplan.reporting.pages import Page

    if by is not None:  # whoever brings it has a command of its own, which is called in the place of this one
        raise UsageError(f"--by {by}: replays jobs, and this copy of optplan has no simulator (optplan.lab); add it")
    if limit in {"vms", "gpus"}:
        raise UsageError(
            f"--limit {limit}: studies sizes of fleets, which this copy of optplan cannot (optplan.lab); add it"
        )
    read = read_each(instance_names)
    plans = _find_plans(read, changes)
    if plans is not None:
        why = f"the frontier of {plans.name!r} is a list of plans, which cannot be mixed: -o writes and --plot draws it"
        why += ", and `optplan solve` answers for any limit"
        refuse_but("points", "time_limit", "limit", "output", "plot", *changes, why=why)
        return show_pareto(plans, outputs, limit=limit, most=points, time_limit_s=time_limit)
    if limit:
        raise UsageError("--limit: the frontier of mixed plans is by budget; lists of plans have a choice")
    instances = _amend_all(read, changes, solvers)
    questions = {"at": at, "for_jct_s": for_jct, "for_weighted_jct_s": for_weighted_jct}
    alone = len(instances) == 1
    views = [_view(label, instance, questions, points, time_limit, alone=alone) for label, instance in instances]
    _check_outputs(outputs, views)
    for position, view in enumerate(views):
        if not outputs.as_json:
            told = present_frontier(view.label, view.instance, view.frontier, view.shown, more=MORE_POINTS)
            print_answer(*([""] if position else []), *told, *_set_apart(list_asked(view)))
        for solver in solvers:
            with outputs.forgiving():
                _sweep(view, solver, time_limit)
            if not outputs.as_json:
                print_answer(*_set_apart(list_reached(view, solver)))
    if outputs.as_json:
        print_json(_write_records(views))
    outputs.save_table(lambda: _write_records(views), *_list_cells(views))
    outputs.save_text("--plot", lambda _: _write_figure(views))
    title = f"What budgets buy: {', '.join(view.label for view in views)}"
    outputs.save_page("--report", lambda: Page("", title, sections=[tell_curves(views)]))
    return outputs.exit_code(0)


def read_each(names: Sequence[str]) -> dict[str, Instance]:
    """Read the instances, by what the user calls them; standard input is read once."""
    twice = [name for position, name in enumerate(names) if name in names[:position]]
    if twice:
        message = f"INSTANCE: {twice[0]!r} is given twice; to compare it with itself changed, write the changed one "
        raise UsageError(f"{message}to a file, as in optplan show {twice[0]} --set budget=150gpu -o changed.json")
    return {name: optplan.read_instance(name) for name in names}


def _find_plans(read: Mapping[str, Instance], changes: dict[str, Any]) -> Instance | None:
    """Return the only instance, changed as users asked, if its frontier is a list of plans; refuse one of several."""
    from optplan.formulations import formulation_of

    plans = [name for name, instance in read.items() if formulation_of(instance).declares("build_pareto")]
    if plans and len(read) > 1:
        raise UsageError(f"{plans[0]}: its frontier is a list of plans, which is shown alone; give no other instance")
    return amend(read[plans[0]], changes) if plans else None


def _amend_all(
    read: Mapping[str, Instance], changes: dict[str, Any], solvers: Sequence[str]
) -> list[tuple[str, BoaInstance]]:
    """Change the instances, give each a label of its own, and refuse what cannot be done before any work."""
    from optplan.reporting.boa.breakdown import require_boa
    from optplan.solving import choose_solver

    instances = {}
    for name, instance in read.items():
        with naming(name, alone=len(read) == 1):  # a change that fits one instance need not fit the other
            instances[name] = require_boa(amend(instance, changes))
    for boa in instances.values():
        for solver in solvers:
            choose_solver(boa, solver)
    known = [boa.name for boa in instances.values()]
    return [
        (boa.name if boa.name == name or known.count(boa.name) == 1 else f"{boa.name} ({name})", boa)
        for name, boa in instances.items()
    ]


def _view(
    label: str, instance: BoaInstance, questions: dict[str, Any], most: int, time_limit_s: float | None, *, alone: bool
) -> FrontierCurve:
    from optplan.reporting.boa.figures import FrontierCurve
    from optplan.reporting.pareto import thin

    with Progress("frontier" if alone else f"frontier of {label}"):
        line = optplan.frontier(instance, time_limit_s=time_limit_s)
        if time_limit_s is not None and line.solve_seconds >= time_limit_s and not line.exact_between:
            note(
                f"{label}: the time limit left {len(line.budgets)} points; with more time there are others between them"
            )
        with naming(label, alone=alone):
            answers = answer_questions(instance, line, **questions)
    shown = [line.at(float(line.budgets[row])) for row in thin(len(line.budgets), most)]
    return FrontierCurve(label, instance, line, {}, answers, shown)


def _check_outputs(outputs: Outputs, views: Sequence[FrontierCurve]) -> None:
    """Refuse files that could not be written, before solvers run."""
    if "--plot" in outputs or "--report" in outputs:
        from optplan.reporting.boa.figures import choose_unit
        from optplan.reporting.style import load_plotly

        load_plotly()
        choose_unit(views)
    units = list(dict.fromkeys(view.frontier.budget_unit for view in views))
    if is_csv(outputs.path("--out")) and len(units) > 1:
        message = f"--out: the budgets have different units ({', '.join(units)}), and a CSV file has one column"
        raise UsageError(f"{message} for them; write JSON, as in -o frontiers.json")


def _set_apart(parts: Sequence[Shown]) -> list[Shown]:
    return [each for part in parts for each in ("", part)]


def _sweep(view: FrontierCurve, solver: str, time_limit_s: float | None) -> None:
    """Let a solver solve at each budget shown or asked for; what it found stays where it fails at one of them."""
    from optplan.progress import Event
    from optplan.reporting.boa.gathering import sweep_budgets

    found = view.sweeps.setdefault(solver, [])
    # Breakpoints flatter solvers: there the best plan is a pure one. The user's own budgets lie anywhere.
    by_budget = {point.budget: point for point in (*view.shown, *(a.point for a in view.asked if a.is_at))}
    points = [by_budget[budget] for budget in sorted(by_budget)]
    with Progress(f"solver {solver} on {view.label}") as progress:
        for point in sweep_budgets(view.instance, points, solver, time_limit_s=time_limit_s):
            found.append(point)
            done = len(found)
            progress.listen(Event(f"{done} of {len(points)} budgets", elapsed_s=0.0, fraction=done / len(points)))


def _write_records(views: Sequence[FrontierCurve]) -> dict[str, Any] | list[Any]:
    """Write frontiers as plain data: every breakpoint, the answers in their order, and what solvers reach."""
    from optplan.reporting.sections import share_load

    records = []
    for view in views:
        line = view.frontier
        names = ("budget_unit", "objective_unit", "exact_between", "solve_seconds")
        record = view.instance.origin() | {"evidence": share_load(view.instance)}
        record |= {name: getattr(line, name) for name in names}
        record |= {"points": [point.to_json_data() for point in line.points()]}
        record |= {"answers": [answer.to_json_data() for answer in view.asked]}
        if view.sweeps:
            record["solver_points"] = [point.to_json_data() for points in view.sweeps.values() for point in points]
        records.append(record)
    return records[0] if len(records) == 1 else records


def _list_cells(views: Sequence[FrontierCurve]) -> tuple[list[str], Sequence[Sequence[object]]]:
    """List the columns of a table of breakpoints, of several instances with one for their names, and its rows."""
    first, several = views[0].frontier, len(views) > 1
    unit = f"{first.objective_unit}_per_{first.budget_unit}"
    heading = [f"budget_{first.budget_unit}", f"objective_{first.objective_unit}", f"less_{unit}", f"more_{unit}"]
    rows = [
        [*([view.label] if several else []), p.budget, p.objective, p.shadow_price.less, p.shadow_price.more]
        for view in views
        for p in view.frontier.points()
    ]
    return [*(["instance"] if several else []), *heading], rows


def _write_figure(views: Sequence[FrontierCurve]) -> str:
    from optplan.reporting.boa.figures import draw_frontiers
    from optplan.reporting.reports import build_figures

    names = ", ".join(dict.fromkeys(view.label for view in views))
    return build_figures(names, f"Frontier of {names}", [("What every budget buys", draw_frontiers(views))])
