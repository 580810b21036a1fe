r"""BOA's formulation sheet, and its mixed-integer program in Pyomo.

Streams of training jobs arrive at a rented cluster. Decide how many GPUs (the *width*), and of which type, a job of
each class holds in each of its epochs, so that the mean completion time is least while the time-average of what is
rented stays within a budget, and within the quotas of GPU types. Under the optimal policy no job queues, so arrivals
matter through their rates only (Theorem 4.7).

Sets
----
``CLASSES``
    Job classes i.
``EPOCHS[i]``
    Epochs j = 1, ..., l_i of a job of class i.
``TYPES``
    GPU types h. A job holds GPUs of one type at a time; a class can run on the types for which it has a speedup.
``WIDTHS[i, h]``
    Allowed widths k of class i on type h, whole numbers of GPUs; empty where it cannot run.

Parameters
----------
``arrivals[i]``
    Arrivals of class i per hour, lambda_i in the paper (``arrival_rate_per_hour``).
``X[i, j]``
    Mean time of epoch j on the reference width, hours (``epoch_size_gpu_hours``); with several types, on one GPU of the
    type that speeds are relative to.
``s[i, j, h, k]``
    Speed at k GPUs of type h relative to that (``speedup``); with several types s[i, j, h, 1] need not be 1.
``r[i, h]``
    Mean time of a start or a change of width on type h, without progress, hours (``rescale_s`` or ``rescale_s_on``, /
    3600); zero in the problem whole.
``d[i, g, h]``
    Mean time that a change from type g to type h takes more, hours (``type_change_s``, ``type_change_s_from``); zero
    for g = h and in the problem whole.
``paid[h, k]``
    GPUs that a job on k GPUs of type h pays for: k, or those of its whole nodes where jobs share none
    (``gpus_per_node``).
``wall[h, k]``, ``held[h, k]``
    Factors by which interruptions of spot GPUs stretch what a job takes, and the time for which it holds its GPUs; 1
    for GPUs that stay; :mod:`optplan.formulations.boa.data.gpu_types` derives them. A pause r that an epoch begins with
    is stretched, too.
``w[i]``
    Weight of class i in the mean (``weight``); one unless given.
``b``, ``c[h]``
    Budget, and what one GPU of type h counts in it: time-average GPUs with c = 1 (with one type, money is divided by
    its price), or US dollars per hour with c the price (``budget``, ``price_usd_per_hour``).
``q[h]``
    Quota: time-average GPUs of type h (``quota_gpus``), for the types that have one.
``D[i]``
    Due date of class i, seconds (``most_mean_jct_s``), for the classes that have one.
``f[i]``
    Floor of class i, time-average GPUs (``least_mean_gpus``), for the classes that have one.

Variables
---------
``x[i, j, h, k]``
    Share of the jobs of class i that hold k GPUs of type h in epoch j: 0 or 1 in pure plans, from 0 to 1 in mixed ones.
``z[i, j, h, k]``
    Share of the jobs of class i that change to k GPUs of type h at the start of epoch j >= 2; at least 0. Every job
    enters its first epoch by a start, so there z would be x.
``y[i, j, g, h, k]``, ``u[i, j, h, k]``
    In place of z for the classes with some d above zero: share that comes to k GPUs of type h from type g, and share
    that keeps them, at the start of epoch j >= 2; at least 0.

Expressions
-----------
``width[i, j]``
    GPUs that jobs of class i hold in epoch j, in the mean of mixed plans: ``sum_(h,k) k * x[i,j,h,k]``.
``mean_jct_s``, ``jct_s[i]``, ``gpus[h]``, ``gpus_running[i]``
    The sums of the objective and of the limits, below.

Objective
---------
Least mean completion time in seconds, (2) with weights, types and interruptions::

    3600 * sum_i w[i] arrivals[i] sum_(j,h,k) wall[h,k] * hours[i,j,h,k] / sum_i w[i] arrivals[i]

where ``hours[i,j,h,k]`` = ``X[i,j] / s[i,j,h,k] * x[i,j,h,k] + r[i,h] * z[i,j,h,k]``, or for the classes without z
``X[i,j] / s[i,j,h,k] * x[i,j,h,k] + sum_g (r[i,h] + d[i,g,h]) * y[i,j,g,h,k]``.

Constraint families, by the names that the evaluator and its messages use
-------------------------------------------------------------------------
``budget``
    (3), or with r = 0 the constraints of (1) and (7): ``sum_h c[h] * gpus[h] <= b``, where
    ``gpus[h] = sum_i arrivals[i] sum_(j,k) paid[h,k] * held[h,k] * hours[i,j,h,k]`` are the time-average GPUs of type
    h.
``quota.<type>``
    ``gpus[h] <= q[h]``.
``due.<class>``
    ``jct_s[i] <= D[i]``, where ``jct_s[i] = 3600 * sum_(j,h,k) wall[h,k] * hours[i,j,h,k]`` is the mean completion time
    of class i, whatever its weight.
``floor.<class>``
    ``gpus_running[i] >= f[i]``, where ``gpus_running[i] = arrivals[i] sum_(j,h,k) paid[h,k] * held[h,k] * X[i,j] /
    s[i,j,h,k] * x[i,j,h,k]`` are the time-average GPUs on which jobs of class i run. GPUs held in a pause do no work
    and do not count: else a plan could keep a floor by stopping and starting jobs.
``row-length``
    One width on one type per epoch: ``sum_(h,k) x[i,j,h,k] == 1``.
``one-path``, ``fraction-sum``
    The domain of x: binary in pure plans; in mixed ones the same row says that fractions add up to one.
``allowed-width``, ``gpu-type``, ``every-class``
    The index sets: k in WIDTHS[i, h], h in TYPES, i in CLASSES.
``width-change``
    The indicator of Lemma 4.8, which the evaluator derives instead of checking:
    ``z[i,j,h,k] >= x[i,j,h,k] - x[i,j-1,h,k]`` for j >= 2.
``type-change``
    The same for the classes with y, for j >= 2, as a flow that knows which type is left: ``entered``,
    ``x[i,j,h,k] == u[i,j,h,k] + sum_g y[i,j,g,h,k]``; ``kept``, ``u[i,j,h,k] <= x[i,j-1,h,k]``; ``left``,
    ``sum_k (x[i,j-1,g,k] - u[i,j,g,k]) == sum_(h,k) y[i,j,g,h,k]``.

For given x the cheapest z is the positive part of the difference, because what a change costs does not depend on the
width left; y, u and x are a flow through a network. So the linear relaxation is exactly the problem of mixed plans.

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
* Appendix E has types without rescaling, one width per type, and the assignment fraction p of (7), which is
  ``sum_k x[i,j,h,k]`` here. Rescaling with types (r by the type entered, d by the type left), quotas and interruptions
  are not in the paper, nor are due dates and floors. With a quota, mixtures of two widths on one type can be needed,
  which (7) does not have.

Source: BOA Constrictor, (1) and Lemma 4.5 (problem whole), Lemma 4.8 with (2) and (3) (problem rescaling), Appendix E
(GPU types).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyomo.environ as pyo

from optplan.errors import UnsupportedError
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem
from optplan.formulations.boa.exact.costs import find_least_use, list_closed
from optplan.progress import Stopwatch
from optplan.solvers.paths.search import Effort
from optplan.solvers.programs.program import Scaling
from optplan.units import SECONDS_PER_HOUR

#: Relative slack of limits; with the engine's own tolerance on rows it is the evaluator's tolerance on limits.
_BUDGET_SLACK = 5e-10


def build_pyomo_model(instance: BoaInstance, *, stopwatch: Stopwatch | None = None) -> pyo.ConcreteModel:
    """State the problem whole or rescaling in Pyomo, in the terms and units of this module's sheet.

    With its sets, variables and parameters, the constraints ``budget``, ``quota``, ``due``, ``floor``, ``row_length``,
    ``width_change``, ``entered``, ``kept`` and ``left``, and the expressions ``mean_jct_s`` (seconds), ``jct_s``
    (seconds, by class with a due date), ``gpus_running`` (time-average GPUs, by class with a floor), ``gpus`` (by type)
    and ``width`` (GPUs, by class and epoch); :func:`scale_model` has what engines divide by. The stopwatch is looked at
    before each part of the model; an OutOfEffortError where it has run out.
    """
    if instance.problem is Problem.CONTINUOUS:
        raise UnsupportedError(
            "this model has whole widths; the problem 'continuous' is stated in CVXPY: engine='cvxpy'"
        )
    effort = Effort(stopwatch if stopwatch is not None else Stopwatch())
    effort.charge_pass()
    pure = instance.policy is Policy.PURE
    parts: tuple[Callable[[Any], None], ...] = (
        lambda model: _add_data(model, instance),
        lambda model: _add_variables(model, pyo.Binary if pure else pyo.UnitInterval),
        _add_totals,
        _add_limits,
        _add_rows,
        _add_type_changes,
    )
    model = pyo.ConcreteModel(name=instance.name)
    for add_part in parts:
        effort.charge_pass()
        add_part(model)
    return model


def _add_data(model: Any, instance: BoaInstance) -> None:  # noqa: ANN401 - Pyomo has no types
    """Add sets and parameters; the pairs of h and k of a class are its options, in their order."""
    classes, m = instance.classes, model
    options = {i: instance.options(i) for i in classes}
    pairs = {
        i: [(own.gpu_types[group], k) for group, k in zip(own.group.tolist(), own.widths.tolist(), strict=True)]
        for i, own in options.items()
    }
    rows = [(i, j) for i, c in classes.items() for j in range(1, c.num_epochs + 1)]
    cells = [(i, j, h, k) for i, j in rows for h, k in pairs[i]]
    m.CLASSES = pyo.Set(initialize=list(classes))
    m.EPOCHS = pyo.Set(m.CLASSES, initialize={i: range(1, c.num_epochs + 1) for i, c in classes.items()})
    m.TYPES = pyo.Set(initialize=list(instance.gpu_types))
    widths = {(i, h): own.widths[own.of_type(h)].tolist() for i, own in options.items() for h in instance.gpu_types}
    m.WIDTHS = pyo.Set(m.CLASSES, m.TYPES, initialize=widths)
    m.CELLS = pyo.Set(dimen=4, initialize=cells)
    m.w = pyo.Param(m.CLASSES, initialize={i: c.weight for i, c in classes.items()})
    m.arrivals = pyo.Param(m.CLASSES, initialize={i: c.arrival_rate_per_hour for i, c in classes.items()})
    sizes = np.concatenate([c.epoch_size_gpu_hours for c in classes.values()])
    m.X = pyo.Param(rows, initialize=dict(zip(rows, sizes.tolist(), strict=True)))
    tables = [np.broadcast_to(own.speeds, (classes[i].num_epochs, own.widths.size)) for i, own in options.items()]
    speeds = np.concatenate([table.ravel() for table in tables])
    m.s = pyo.Param(m.CELLS, initialize=dict(zip(cells, speeds.tolist(), strict=True)))
    for name in ("wall", "held", "paid"):
        factors: dict[tuple[str, int], float] = {}
        for i, own in options.items():
            factors |= zip(pairs[i], getattr(own, name).tolist(), strict=True)
        setattr(m, name, pyo.Param(list(factors), initialize=factors))
    m.b = pyo.Param(initialize=instance.budget_amount())
    m.c = pyo.Param(m.TYPES, initialize=instance.prices_in_budget)
    m.q = pyo.Param(list(instance.quotas), initialize=instance.quotas)
    m.D = pyo.Param(list(instance.due_s), initialize=instance.due_s)
    m.f = pyo.Param(list(instance.floors), initialize=instance.floors)
    _add_pauses(m, instance)


def _add_pauses(model: Any, instance: BoaInstance) -> None:  # noqa: ANN401 - Pyomo has no types
    """Add what starts and changes take, and the sets of changes, for each class of one of two kinds."""
    m, options = model, {i: instance.options(i) for i in instance.classes}
    r: dict[tuple[str, str], float] = {}
    d: dict[tuple[str, str, str], float] = {}
    for i, own in options.items():
        for h in own.gpu_types:
            first = own.of_type(h).start  # pauses are the same at all widths
            r[i, h] = float(own.pause_h[first])
            d |= {(i, g, h): hours for g, hours in zip(own.gpu_types, own.change_h[:, first].tolist(), strict=True)}
    later = [cell for cell in m.CELLS if cell[1] > 1] if instance.problem is Problem.RESCALING else []
    kept = [cell for cell in later if options[cell[0]].changes_cost]
    m.r = pyo.Param(list(r), initialize=r)
    m.d = pyo.Param(list(d), initialize=d)
    m.CHANGES = pyo.Set(dimen=4, initialize=[cell for cell in later if not options[cell[0]].changes_cost])
    m.KEPT = pyo.Set(dimen=4, initialize=kept)
    changes = [(i, j, g, h, k) for i, j, h, k in kept for g in options[i].gpu_types]
    m.TYPE_CHANGES = pyo.Set(dimen=5, initialize=changes)


def _add_variables(model: Any, domain: Any) -> None:  # noqa: ANN401 - Pyomo has no types
    model.x = pyo.Var(model.CELLS, domain=domain)
    model.z = pyo.Var(model.CHANGES, domain=pyo.UnitInterval)
    model.u = pyo.Var(model.KEPT, domain=pyo.UnitInterval)
    model.y = pyo.Var(model.TYPE_CHANGES, domain=pyo.UnitInterval)


def _add_totals(model: Any) -> None:  # noqa: ANN401 - Pyomo has no types
    """Add the sums of Lemma 4.8 as expressions, the second by GPU type, the scale of the first, and the objective."""
    m = model
    # Looked up once: asking Pyomo for each of a million parameters would take most of the time.
    arrivals, w, wall, held = (each.extract_values() for each in (m.arrivals, m.w, m.wall, m.held))
    paid, work, speed, r, d = (each.extract_values() for each in (m.paid, m.X, m.s, m.r, m.d))
    total_rate = sum(w[i] * arrivals[i] for i in m.CLASSES)
    per_hour = {i: SECONDS_PER_HOUR * w[i] * arrivals[i] / total_rate for i in m.CLASSES}
    #: Hours that a job spends at a node, interruptions not counted: the epoch, and in the first one the start.
    hours = {(i, j, h, k): work[i, j] / speed[i, j, h, k] + (r[i, h] if j == 1 else 0.0) for i, j, h, k in m.CELLS}
    terms = [(i, h, k, hours[i, j, h, k], m.x[i, j, h, k]) for i, j, h, k in m.CELLS]
    terms += [(i, h, k, r[i, h], m.z[i, j, h, k]) for i, j, h, k in m.CHANGES]
    terms += [(i, h, k, r[i, h] + d[i, g, h], m.y[i, j, g, h, k]) for i, j, g, h, k in m.TYPE_CHANGES]
    m.mean_jct_s = pyo.Expression(
        expr=pyo.quicksum(per_hour[i] * wall[h, k] * each * variable for i, h, k, each, variable in terms)
    )
    by_class: dict[str, list[Any]] = {i: [] for i in m.D}
    for i, h, k, each, variable in terms if by_class else ():
        if i in by_class:
            by_class[i].append(SECONDS_PER_HOUR * wall[h, k] * each * variable)
    m.jct_s = pyo.Expression(list(m.D), initialize={i: pyo.quicksum(by_class[i]) for i in m.D})
    running: dict[str, list[Any]] = {i: [] for i in m.f}
    for i, j, h, k in m.CELLS if running else ():
        if i in running:
            running[i].append(arrivals[i] * paid[h, k] * held[h, k] * work[i, j] / speed[i, j, h, k] * m.x[i, j, h, k])
    m.gpus_running = pyo.Expression(list(m.f), initialize={i: pyo.quicksum(running[i]) for i in m.f})
    by_type: dict[str, list[Any]] = {h: [] for h in m.TYPES}
    for i, h, k, each, variable in terms:
        by_type[h].append(arrivals[i] * paid[h, k] * held[h, k] * each * variable)
    m.gpus = pyo.Expression(m.TYPES, initialize={h: pyo.quicksum(used) for h, used in by_type.items()})
    m.jct = pyo.Objective(expr=m.mean_jct_s, sense=pyo.minimize)


def _add_limits(model: Any) -> None:  # noqa: ANN401 - Pyomo has no types
    """Add budget, quotas, due dates and floors; a quota of a type that nobody can use is kept anyway."""
    m = model
    usable = [h for h in m.q if any(len(m.WIDTHS[i, h]) for i in m.CLASSES)]
    m.budget = pyo.Constraint(expr=pyo.quicksum(m.c[h] * m.gpus[h] for h in m.TYPES) <= m.b)
    m.quota = pyo.Constraint(usable, rule=lambda m, h: m.gpus[h] <= m.q[h])
    m.due = pyo.Constraint(list(m.D), rule=lambda m, i: m.jct_s[i] <= m.D[i])
    m.floor = pyo.Constraint(list(m.f), rule=lambda m, i: m.gpus_running[i] >= m.f[i])


def scale_model(model: Any, instance: BoaInstance) -> Scaling:  # noqa: ANN401 - Pyomo has no types
    """Return scales on which each limit, and the least objective, is the number of epochs: typical entries are one."""
    m = model
    epochs = float(sum(len(m.EPOCHS[i]) for i in m.CLASSES))
    rows = {id(m.budget): m.b.value / epochs}
    for family, amounts in ((m.due, m.D), (m.floor, m.f)):
        rows |= {id(family[name]): amounts[name] / epochs for name in family}
    closed = list_closed(instance)
    for h in m.quota:
        rows[id(m.quota[h])] = (find_least_use(instance, h) if h in closed else m.q[h]) / epochs
    wall, work, speed = (each.extract_values() for each in (m.wall, m.X, m.s))
    rates = {i: m.w[i] * m.arrivals[i] for i in m.CLASSES}
    hours: dict[tuple[str, int], float] = {}
    for i, j, h, k in m.CELLS:
        each = wall[h, k] * (work[i, j] / speed[i, j, h, k] + (m.r[i, h] if j == 1 else 0.0))
        hours[i, j] = min(hours.get((i, j), each), each)
    least_s = SECONDS_PER_HOUR * sum(rates[i] * each for (i, _), each in hours.items()) / sum(rates.values())
    # One budget of a linear program is at least the least one, of several nobody knows.
    slack = _BUDGET_SLACK if instance.policy is Policy.PURE or instance.further_limits else 0.0
    return Scaling(least_s / epochs, rows, slack)


def _add_rows(model: Any) -> None:  # noqa: ANN401 - Pyomo has no types
    rows = [(i, j) for i in model.CLASSES for j in model.EPOCHS[i]]
    model.width = pyo.Expression(
        rows,
        rule=lambda m, i, j: pyo.quicksum(k * m.x[i, j, h, k] for h in m.TYPES for k in m.WIDTHS[i, h]),
    )
    model.row_length = pyo.Constraint(
        rows,
        rule=lambda m, i, j: pyo.quicksum(m.x[i, j, h, k] for h in m.TYPES for k in m.WIDTHS[i, h]) == 1,
    )
    model.width_change = pyo.Constraint(
        model.CHANGES, rule=lambda m, i, j, h, k: m.z[i, j, h, k] >= m.x[i, j, h, k] - m.x[i, j - 1, h, k]
    )


def _add_type_changes(model: Any) -> None:  # noqa: ANN401 - Pyomo has no types
    """Add who comes from which type, for the classes in which that matters."""
    m = model
    left_by: dict[tuple[str, int, str], list[Any]] = {}
    entered_by: dict[tuple[str, int, str, int], list[Any]] = {}
    for i, j, g, h, k in m.TYPE_CHANGES:
        left_by.setdefault((i, j, g), []).append(m.y[i, j, g, h, k])
        entered_by.setdefault((i, j, h, k), []).append(m.y[i, j, g, h, k])
    m.entered = pyo.Constraint(
        m.KEPT,
        rule=lambda m, i, j, h, k: m.x[i, j, h, k] == m.u[i, j, h, k] + pyo.quicksum(entered_by[i, j, h, k]),
    )
    m.kept = pyo.Constraint(m.KEPT, rule=lambda m, i, j, h, k: m.u[i, j, h, k] <= m.x[i, j - 1, h, k])
    m.left = pyo.Constraint(
        list(left_by),
        rule=lambda m, i, j, g: (
            pyo.quicksum(m.x[i, j - 1, g, k] - m.u[i, j, g, k] for k in m.WIDTHS[i, g])
            == pyo.quicksum(left_by[i, j, g])
        ),
    )
