"""What to say when no search keeps SEER's deadline and budget; the same for all solvers."""

from __future__ import annotations

from optplan.contracts.result import Answer, Hopeless, Infeasibility, Relaxation, Status, Termination
from optplan.formulations.seer.data.brackets import SHORTFALL, paid_gpus
from optplan.formulations.seer.data.instance import BUDGET, DEADLINE, SeerInstance, SeerSolution
from optplan.solvers.limits import write_up


def infeasible_answer(instance: SeerInstance) -> Answer[SeerSolution]:
    """Say why no search keeps the limits (T < t_min or B < p_min t_min), and which deadline and budget would do.

    Where both limits fall short, no relaxation of one alone helps, and the reason names both.
    """
    paid = paid_gpus(instance.nodes_paid, instance.least_gpus, 1)
    least = {BUDGET: paid * instance.least_round_min, DEADLINE: instance.least_round_min}
    quotients = {limit: least[limit] / amount for limit, amount in instance.limits.items()}
    worst = max(quotients, key=lambda limit: quotients[limit])
    short = [limit for limit in least if least[limit] > instance.limits[limit] * (1.0 + SHORTFALL)]
    relaxations = [_relax(instance, limit, quotients[limit]) for limit in short]
    # Without one limit the other still falls short, unless it is the only one that does.
    hopeless = {limit: [other for other in short if other != limit] for limit in least}
    wishes = " and ".join(
        f"a {each.limit} of at least {write_up(each.least_feasible, each.given)} {each.unit} "
        f"(given: {each.given:,.12g})"
        for each in relaxations
    )
    gpus = "1 GPU" if paid == 1 else f"{paid:,.12g} GPUs"
    gpus += "" if instance.nodes_paid is None else " of whole nodes"
    reason = f"one trial for the shortest round ({instance.least_round_min:,.12g} min on {gpus}) needs {wishes}"
    return Answer(
        status=Status.INFEASIBLE,
        termination=Termination.COMPLETED,
        infeasibility=Infeasibility(
            reason=reason,
            relaxations=tuple(relaxations) if len(relaxations) == 1 else (),
            hopeless=tuple(
                Hopeless(limit=limit, multipliers={each: float(each == others[0]) for each in least})
                for limit, others in hopeless.items()
                if others
            ),
            multipliers={limit: float(limit == worst) for limit in instance.limits},
            factor=quotients[worst],
        ),
    )


def _relax(instance: SeerInstance, limit: str, quotient: float) -> Relaxation:
    least = instance.limit_as_given(limit)[0] * quotient
    multipliers = {each: float(each == limit) for each in instance.limits}
    return instance.relax(limit, least, enough=least, parts={"one trial": least}, multipliers=multipliers)
