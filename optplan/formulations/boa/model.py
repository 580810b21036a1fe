r"""BOA's formulation sheet, and its mixed-integer program in Pyomo.

Streams of training jobs arrive at a rented cluster. Decide how many GPUs (the *width*) a job of each class holds in
each of its epochs, so that the mean completion time is least while the time-average number of rented GPUs stays within
a budget. Under the optimal policy no job queues, so arrivals matter through their rates only (Theorem 4.7).

Sets
----
``CLASSES``
    Job classes i.
``EPOCHS[i]``
    Epochs j = 1, ..., l_i of a job of class i.
``WIDTHS[i]``
    Allowed widths k of class i, whole numbers of GPUs.

Parameters
----------
``arrivals[i]``
    Arrivals of class i per hour, lambda_i in the paper (``arrival_rate_per_hour``).
``X[i, j]``
    Mean time of epoch j on the reference width, hours (``epoch_size_gpu_hours``).
``s[i, j, k]``
    Speed at k GPUs relative to the reference width (``speedup``).
``r[i]``
    Mean time of a start or a change of width, without progress, hours (``rescale_s`` / 3600); zero in the problem
    whole.
``w[i]``
    Weight of class i in the mean (``weight``); one unless given.
``b``
    Budget, time-average GPUs (``budget``; money is divided by the price of a GPU).

Variables
---------
``x[i, j, k]``
    Share of the jobs of class i that hold k GPUs in epoch j: 0 or 1 in pure plans, from 0 to 1 in mixed ones.
``z[i, j, k]``
    Share of the jobs of class i that change to k GPUs at the start of epoch j >= 2; at least 0. Every job enters its
    first epoch by a start, so there z would be x.

Objective
---------
Least mean completion time in seconds, (2) with weights::

    3600 * sum_i w[i] arrivals[i] sum_j sum_k (X[i,j] / s[i,j,k] * x[i,j,k] + r[i] * z[i,j,k]) / sum_i w[i] arrivals[i]

Constraint families, by the names that the evaluator and its messages use
-------------------------------------------------------------------------
``budget``
    (3), or with r = 0 the constraint of (1):
    ``sum_i arrivals[i] sum_j sum_k k * (X[i,j] / s[i,j,k] * x[i,j,k] + r[i] * z[i,j,k]) <= b``.
``row-length``
    One width per epoch: ``sum_k x[i,j,k] == 1``.
``one-path``, ``fraction-sum``
    The domain of x: binary in pure plans; in mixed ones the same row says that fractions add up to one.
``allowed-width``, ``every-class``
    The index sets: k in WIDTHS[i], i in CLASSES.
``width-change``
    The indicator of Lemma 4.8, which the evaluator derives instead of checking:
    ``z[i,j,k] >= x[i,j,k] - x[i,j-1,k]`` for j >= 2.

For given x the cheapest z is the positive part of the difference, because what a change costs does not depend on the
width left; so the linear relaxation is exactly the problem of mixed plans.

Deviations and errata
---------------------
* (3) prints 1/lambda in front of the operating budget, and (2) and (3) let epochs run from 0. Neither is used: by Lemma
  4.5, and because b counts GPUs, the factor does not belong to the budget, and an extra epoch 0 would add a start.
* Lemma 4.3 does not carry over to rescaling as Section 4.3 says: a mixture of two rows of widths can beat every single
  one. With whole widths s1 = k^0.99, s2 = k^0.05, X = (3, 1) h, r = 0.05 h, one arrival per hour and b = 4.104 the best
  single row takes 4.05 h and the best mixture 3.41 h.
* Widths off the concave hull of a speedup can be optimal when widths are whole (Section 3.2 says they cannot), so all
  allowed widths are used, and measured tables as they are.
* Concavity as printed in 3.2 says that s(k)/k does not increase, which is less than concavity. The continuous problem
  uses the lower-left hull of (k/s, 1/s), of which the paper's hull of s is the image (see the module ``conic``).
* Feasibility asks for a budget above the load (Section 3.2). The least budget of the problem asked is used instead:
  with rescaling it includes the first starts, and a table that is superlinear somewhere needs less than its load.
* Weights multiply completion times only, never the budget.

Source: BOA Constrictor, (1) and Lemma 4.5 (problem whole), Lemma 4.8 with (2) and (3) (problem rescaling).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.errors import EngineError, UnsupportedError
from optplan.formulations.boa.answers import answer_from_paths
from optplan.formulations.boa.data import BoaInstance, BoaSolution, Policy, Problem
from optplan.formulations.boa.evaluation import path_costs
from optplan.formulations.boa.feasibility import answer_if_infeasible, raise_to_least
from optplan.schema import FloatArray
from optplan.solvers.budgeted_paths import BudgetedPaths, PathsOutcome
from optplan.solvers.flows import choice_of_flows
from optplan.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    import pyomo.environ as pyo

#: Absolute feasibility tolerance of HiGHS on the scaled rows, and the relative slack of a pure plan's budget; together
#: they are the evaluator's tolerance on the budget.
_ENGINE_TOLERANCE = 5e-10
_BUDGET_SLACK = 5e-10
#: HiGHS stops a little before the gap that was asked for, so that rounding does not leave it a little after.
_GAP_SHARE = 0.999

#: What each termination condition of Pyomo means; every other one is a failure.
_ENDINGS = {
    "convergenceCriteriaSatisfied": (Status.OPTIMAL, Termination.COMPLETED),
    "provenInfeasible": (Status.INFEASIBLE, Termination.COMPLETED),
    # Costs are not negative, so the problem is not unbounded.
    "infeasibleOrUnbounded": (Status.INFEASIBLE, Termination.COMPLETED),
    "maxTimeLimit": (Status.UNKNOWN, Termination.TIME_LIMIT),
    "iterationLimit": (Status.UNKNOWN, Termination.WORK_LIMIT),
}


def build_pyomo_model(instance: BoaInstance) -> pyo.ConcreteModel:
    """State the problem in Pyomo, in the terms of this module's sheet.

    Parameters
    ----------
    instance
        Problem whole or rescaling, with a budget. The policy decides on the domain of x.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the sets ``CLASSES``, ``EPOCHS``, ``WIDTHS``, the variables ``x`` and ``z``, the constraints
        ``row_length``, ``width_change`` and ``budget``, and the expressions ``mean_jct_s`` (seconds) and ``gpus``
        (time-average GPUs). Objective and budget are divided by ``scale_s`` and ``scale_gpus``, so that the units of
        the data do not matter to an engine's absolute tolerances.

    Raises
    ------
    UsageError
        When the instance has no budget.
    UnsupportedError
        When the problem is the continuous one.
    """
    import pyomo.environ as pyo

    if instance.problem is Problem.CONTINUOUS:
        raise UnsupportedError("this model has whole widths; the problem 'continuous' is stated in the solver 'conic'")
    model = pyo.ConcreteModel(name=instance.name)
    _add_data(model, instance)
    pure = instance.policy is Policy.PURE
    model.x = pyo.Var(model.CELLS, domain=pyo.Binary if pure else pyo.UnitInterval)
    model.z = pyo.Var(model.CHANGES, domain=pyo.UnitInterval)
    _add_totals(model)
    model.jct = pyo.Objective(expr=model.mean_jct_s / model.scale_s, sense=pyo.minimize)
    model.budget = pyo.Constraint(
        expr=model.gpus / model.scale_gpus <= model.b / model.scale_gpus * (1.0 + (_BUDGET_SLACK if pure else 0.0))
    )

    model.row_length = pyo.Constraint(
        [(i, j) for i in model.CLASSES for j in model.EPOCHS[i]],
        rule=lambda m, i, j: pyo.quicksum(m.x[i, j, k] for k in m.WIDTHS[i]) == 1,
    )
    model.width_change = pyo.Constraint(
        model.CHANGES, rule=lambda m, i, j, k: m.z[i, j, k] >= m.x[i, j, k] - m.x[i, j - 1, k]
    )
    return model


def solve_pyomo(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve the Pyomo model with HiGHS.

    Parameters
    ----------
    instance
        Problem whole or rescaling, with a budget.
    request
        Gap, seed, time limit.

    Returns
    -------
    Answer
        The bound of a pure plan is HiGHS's word; that of a mixed plan is re-derived from HiGHS's multiplier.

    Raises
    ------
    UsageError
        When the instance has no budget.
    UnsupportedError
        When the problem is the continuous one.
    EngineError
        When HiGHS fails.
    """
    infeasible = answer_if_infeasible(instance)
    if infeasible is not None:
        return infeasible
    reachable = raise_to_least(instance)
    model = build_pyomo_model(reachable)
    request.stopwatch.emit("pyomo")
    problem = BudgetedPaths(tuple(path_costs(instance)), reachable.budget_gpus())
    outcome = _run(model, instance, problem, request)
    return answer_from_paths(instance, request, problem, outcome, BoundProof.ENGINE)


def _add_data(model: Any, instance: BoaInstance) -> None:  # noqa: ANN401 - Pyomo has no types
    """Add sets and parameters."""
    import pyomo.environ as pyo

    classes = instance.classes
    widths = {i: instance.allowed_widths(i).tolist() for i in classes}
    speeds = {i: np.broadcast_to(instance.speeds(i), (c.num_epochs, len(widths[i]))) for i, c in classes.items()}
    rescaling = instance.problem is Problem.RESCALING
    cells = [(i, j, k) for i, c in classes.items() for j in range(1, c.num_epochs + 1) for k in widths[i]]
    model.CLASSES = pyo.Set(initialize=list(classes))
    model.EPOCHS = pyo.Set(model.CLASSES, initialize={i: range(1, c.num_epochs + 1) for i, c in classes.items()})
    model.WIDTHS = pyo.Set(model.CLASSES, initialize=widths)
    model.CELLS = pyo.Set(dimen=3, initialize=cells)
    model.CHANGES = pyo.Set(dimen=3, initialize=[cell for cell in cells if cell[1] > 1] if rescaling else [])
    model.w = pyo.Param(model.CLASSES, initialize={i: c.weight for i, c in classes.items()})
    model.arrivals = pyo.Param(model.CLASSES, initialize={i: c.arrival_rate_per_hour for i, c in classes.items()})
    model.X = pyo.Param(
        [(i, j) for i, c in classes.items() for j in range(1, c.num_epochs + 1)],
        initialize={(i, j + 1): float(x) for i, c in classes.items() for j, x in enumerate(c.epoch_size_gpu_hours)},
    )
    model.s = pyo.Param(
        model.CELLS,
        initialize=dict(zip(cells, np.concatenate([s.ravel() for s in speeds.values()]).tolist(), strict=True)),
    )
    model.r = pyo.Param(
        model.CLASSES,
        initialize={i: c.rescale_s / SECONDS_PER_HOUR if rescaling else 0.0 for i, c in classes.items()},
    )
    model.b = pyo.Param(initialize=instance.budget_gpus())


def _add_totals(model: Any) -> None:  # noqa: ANN401 - Pyomo has no types
    """Add the two sums of Lemma 4.8 as expressions, and the scales."""
    import pyomo.environ as pyo

    m = model
    total_rate = sum(m.w[i] * m.arrivals[i] for i in m.CLASSES)
    per_hour = {i: SECONDS_PER_HOUR * m.w[i] * m.arrivals[i] / total_rate for i in m.CLASSES}
    #: Hours that a job spends at a node: the epoch, and in the first one the start.
    hours = {(i, j, k): m.X[i, j] / m.s[i, j, k] + (m.r[i] if j == 1 else 0.0) for i, j, k in m.CELLS}
    m.mean_jct_s = pyo.Expression(
        expr=pyo.quicksum(per_hour[i] * hours[i, j, k] * m.x[i, j, k] for i, j, k in m.CELLS)
        + pyo.quicksum(per_hour[i] * m.r[i] * m.z[i, j, k] for i, j, k in m.CHANGES)
    )
    m.gpus = pyo.Expression(
        expr=pyo.quicksum(m.arrivals[i] * k * hours[i, j, k] * m.x[i, j, k] for i, j, k in m.CELLS)
        + pyo.quicksum(m.arrivals[i] * k * m.r[i] * m.z[i, j, k] for i, j, k in m.CHANGES)
    )
    least_s = sum(per_hour[i] * min(hours[i, j, k] for k in m.WIDTHS[i]) for i in m.CLASSES for j in m.EPOCHS[i])
    epochs = sum(len(m.EPOCHS[i]) for i in m.CLASSES)
    m.scale_s = pyo.Param(initialize=least_s / epochs)
    m.scale_gpus = pyo.Param(initialize=pyo.value(m.b) / epochs)


def _run(
    model: Any,  # noqa: ANN401 - Pyomo has no types
    instance: BoaInstance,
    problem: BudgetedPaths,
    request: SolveRequest,
) -> PathsOutcome:
    """Hand the model to HiGHS through Pyomo and read what it says."""
    from pyomo.contrib.solver.solvers.highs import Highs

    mixed = instance.policy is Policy.MIXED
    engine = Highs()
    results = engine.solve(
        model,
        load_solutions=False,
        raise_exception_on_nonoptimal_result=False,
        time_limit=request.stopwatch.remaining_s,
        rel_gap=request.gap * _GAP_SHARE,
        abs_gap=0.0,
        solver_options={
            # As in the module milp: in the rows of rescaling presolve finds next to nothing and is slow.
            "presolve": "off" if instance.problem is Problem.RESCALING else "choose",
            "parallel": "off",
            "random_seed": request.seed % 2**31,
            "mip_feasibility_tolerance": _ENGINE_TOLERANCE,
            "primal_feasibility_tolerance": _ENGINE_TOLERANCE,
            "dual_feasibility_tolerance": _ENGINE_TOLERANCE,
        },
    )
    name = results.termination_condition.name
    if name not in _ENDINGS:
        message = f"HiGHS, called by Pyomo, ended with {name}, which has no meaning for this problem"
        raise EngineError(message)
    status, termination = _ENDINGS[name]
    choice = multiplier = None
    # An interrupted linear program leaves values that need not be feasible; an interrupted search leaves an incumbent.
    if results.incumbent_objective is not None and (status is Status.OPTIMAL or not mixed):
        results.solution_loader.load_vars()
        choice = choice_of_flows(problem, _flows(model, instance), mixed=mixed)
        status = Status.FEASIBLE if status is Status.UNKNOWN and choice is not None else status
    if mixed and status is Status.OPTIMAL:
        dual = results.solution_loader.get_duals([model.budget])[model.budget]
        multiplier = max(0.0, -float(dual)) * float(model.scale_s.value / model.scale_gpus.value)
    bound = results.objective_bound
    return PathsOutcome(
        status=status,
        termination=termination,
        choice=choice,
        bound=float(bound * model.scale_s.value) if bound is not None and np.isfinite(bound) else None,
        multiplier=multiplier,
        engine="HiGHS through Pyomo",
        engine_version=".".join(str(part) for part in engine.version()),
    )


def _flows(model: Any, instance: BoaInstance) -> list[FloatArray]:  # noqa: ANN401 - Pyomo has no types
    """Read x class by class, (E, K) each."""
    return [
        np.array([[model.x[i, j, k].value for k in model.WIDTHS[i]] for j in model.EPOCHS[i]]) for i in instance.classes
    ]
