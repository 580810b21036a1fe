"""What `optplan frontier` does beside lines of budgets: lists of plans, and questions both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import optplan
from optplan.cli.console import Progress
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError, VerificationError

if TYPE_CHECKING:
    from optplan.contracts import Frontier, FrontierPoint, Instance, ParetoFrontier
    from optplan.reporting.boa.figures import FrontierAnswer
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
