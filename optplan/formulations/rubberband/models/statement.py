r"""RubberBand's formulation sheet, and its mixed-integer program in Pyomo.

A search for hyperparameters runs in stages on a cluster that may change its size between them. Decide for every stage
how many instances are held and how many of their GPUs are used, for the least expected cost within a deadline, or the
least expected time within a budget.

Sets
----
``BRACKETS``
    Chains of stages b = 1, 2, ..., each on a cluster of its own.
``STAGES[b]``
    Stages s = 1, 2, ... of a bracket.
``HELD[b]``
    Numbers m of instances that bracket b may hold: those that some allocation of it needs, and where initialisation
    times vary all up to the most that one needs.
``OPTIONS``
    Quadruples (b, s, m, a): stage s of bracket b uses a GPUs, by the rule of the mode (family ``allocation``), of the m
    instances held, which are at least those needed (family ``instances``).
``CHANGES``
    Quadruples (b, s, l, m): m instances are held in stage s, and l before it, zero before the first.

Parameters
----------
``stage_s[b, s, a]``
    Expected time of the stage on a GPUs, seconds.
``busy_gpu_s[b, s, a]``
    Expected GPU-seconds for which its trials hold GPUs.
``needed[b, s, a]``
    Instances that the stage needs on a GPUs.
``change_s[l, m]``, ``change_usd[l, m]``
    Expected time and cost of changing from l instances to m: a request, the last of the initialisations, what is held
    meanwhile, and the data of new instances; zero where m is at most l.
``price``, ``gpus_per_instance``
    US dollars for a second of an instance, and its GPUs.

Variables
---------
``x[b, s, m, a]``
    Whether stage s of bracket b holds m instances and uses a GPUs, 0 or 1.
``y[b, s, l, m]``
    Whether it holds m after l; between 0 and 1, and whole where x is: x and y are a flow through a network.
``longest_s``
    Expected completion time of the slowest bracket, seconds; at most that of the longest stage and change, in turn.

Expressions
-----------
``gpus[b, s]``, ``instances[b, s]``
    GPUs used and instances held: ``sum a x[b,s,m,a]`` and ``sum m x[b,s,m,a]``.
``time_s[b]``
    ``sum_(s,m,a) stage_s[b,s,a] x[b,s,m,a] + sum_(s,l,m) change_s[l,m] y[b,s,l,m]``.
``usd[b]``
    ``sum_(s,m,a) price m stage_s[b,s,a] x[b,s,m,a] + sum_(s,l,m) change_usd[l,m] y[b,s,l,m]`` where instances are
    billed; where functions are, ``price busy_gpu_s[b,s,a] / gpus_per_instance`` takes the place of the first price.
``cost_usd``
    ``sum_b usd[b]``.

Objective
---------
Least ``cost_usd``, or least ``longest_s``.

Constraint families, by the names that the evaluator and its messages use
-------------------------------------------------------------------------
``stages[b, s]``
    One choice for each stage: ``sum_(m,a) x[b,s,m,a] == 1``.
``left[b, s, l]``, ``entered[b, s, m]``
    Changes join what is held: ``sum_m y[b,s,l,m] == sum_a x[b,s-1,l,a]`` for s >= 2, and ``sum_l y[b,s,l,m] ==
    sum_a x[b,s,m,a]``.
``slowest[b]``
    ``longest_s >= time_s[b]``.
``deadline``, ``budget``
    ``longest_s <= D`` (``deadline_s``), ``cost_usd <= B`` (``budget``), for those that there are.

What the model leaves out: the minimum charge of an instance depends on its whole life. Where a stage may be over before
it, the model is a relaxation: its cost is never more than the expected one.

Deviations and errata: a confidence is about distributions, which no linear model states. Source: RubberBand, section 4,
and Algorithm 2 for what is decided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyomo.environ as pyo

from optplan.errors import UnsupportedError
from optplan.formulations.rubberband.data.allocations import list_allowed
from optplan.formulations.rubberband.data.instance import (
    RubberBandInstance,
    RubberBandSolution,
    StageAllocation,
)
from optplan.formulations.rubberband.exact.chains import list_held
from optplan.formulations.rubberband.exact.costs import growth, lasts, stage_options
from optplan.formulations.rubberband.laws.stages import StageOptions
from optplan.progress import Stopwatch
from optplan.solvers.paths.search import Effort
from optplan.solvers.programs.program import Scaling
from optplan.solvers.programs.statement import Statement, are_whole, ask_time_and_money, list_ones

#: Choices of a model beyond which it is refused: building it would take minutes.
_MOST_CHOICES = 500_000


def state_model(instance: RubberBandInstance, *, every: bool = True, stopwatch: Stopwatch | None = None) -> Statement:
    """State an instance by this module's sheet, with ``every`` allocation, or those that can be best."""
    if instance.confidence is not None and instance.is_random:
        message = f"a confidence ({instance.confidence:g}) is about distributions, which no linear model states"
        raise UnsupportedError(f"{message}; leave it out: instance.replace(confidence=None)")
    m = pyo.ConcreteModel(name=instance.name)
    offered = {
        (b, s): stage_options(
            instance, b - 1, s - 1, np.sort(list_allowed(instance, stage.trials).gpus) if every else None, stopwatch
        )
        for b, chain in enumerate(instance.brackets, start=1)
        for s, stage in enumerate(chain, start=1)
    }
    effort = Effort(stopwatch if stopwatch is not None else Stopwatch())
    asked = (_add_sets, instance, offered), (_add_parameters, instance, offered)
    for add_part, *about in (*asked, (_add_variables,), (_add_sums, instance)):
        add_part(m, *about)
        effort.charge_pass()
    scaling = _add_limits(m, instance)
    effort.charge_pass()  # after the last one, too: to read it takes as long again
    may_miss = not all(lasts(instance, b - 1, s - 1, options).all() for (b, s), options in offered.items())
    return Statement(
        native=m,
        read=lambda: _read(m),
        choices=(m.x,),
        scaling=scaling,
        leaves_out="the minimum charges of instances" if may_miss else "",
    )


def _add_sets(
    m: Any,  # noqa: ANN401 - Pyomo has no types
    instance: RubberBandInstance,
    offered: dict[tuple[int, int], StageOptions],
) -> None:
    brackets = sorted({b for b, _ in offered})
    stages = {b: [s for own, s in offered if own == b] for b in brackets}
    held = {b: list_held(instance, [offered[b, s] for s in stages[b]]).tolist() for b in brackets}
    options = [
        (b, s, count, a)
        for (b, s), each in offered.items()
        for a, needed in zip(each.gpus.tolist(), each.instances.tolist(), strict=True)
        for count in held[b]
        if count >= needed
    ]
    changes = [
        (b, s, before, after)
        for b in brackets
        for s in stages[b]
        for before in (held[b] if s > 1 else [0])
        for after in held[b]
    ]
    if len(options) + len(changes) > _MOST_CHOICES:
        raise UnsupportedError(
            f"a model of this search would have {len(options) + len(changes):,} choices, and {_MOST_CHOICES:,} are "
            "stated; lower training.most_gpus or cloud.most_instances"
        )
    m.BRACKETS = pyo.Set(initialize=brackets)
    m.STAGES = pyo.Set(m.BRACKETS, initialize=stages)
    m.HELD = pyo.Set(m.BRACKETS, initialize=held)
    m.OPTIONS = pyo.Set(dimen=4, initialize=options)
    m.CHANGES = pyo.Set(dimen=4, initialize=changes)


def _add_parameters(
    m: Any,  # noqa: ANN401 - Pyomo has no types
    instance: RubberBandInstance,
    offered: dict[tuple[int, int], StageOptions],
) -> None:
    def tabulate(read: Callable[[StageOptions], Any]) -> Any:  # noqa: ANN401 - Pyomo has no types
        table = {
            (b, s, a): figure
            for (b, s), each in offered.items()
            for a, figure in zip(each.gpus.tolist(), read(each).tolist(), strict=True)
        }
        return pyo.Param(list(table), initialize=table)

    m.stage_s = tabulate(lambda each: each.expected_s)
    m.busy_gpu_s = tabulate(lambda each: each.busy_gpu_s)
    m.needed = tabulate(lambda each: each.instances)
    counts = np.array(sorted({count for b in m.BRACKETS for count in m.HELD[b]} | {0}))
    seconds, usd = growth(instance, counts[:, None], counts[None, :])
    pairs = [(before, after) for before in counts.tolist() for after in counts.tolist()]
    m.change_s = pyo.Param(pairs, initialize=dict(zip(pairs, np.ravel(seconds).tolist(), strict=True)))
    m.change_usd = pyo.Param(pairs, initialize=dict(zip(pairs, np.ravel(usd).tolist(), strict=True)))
    m.price = pyo.Param(initialize=instance.cloud.price_usd_per_s)
    m.gpus_per_instance = pyo.Param(initialize=instance.cloud.gpus_per_instance)


def _add_variables(m: Any) -> None:  # noqa: ANN401 - Pyomo has no types
    m.x = pyo.Var(m.OPTIONS, domain=pyo.Binary)
    m.y = pyo.Var(m.CHANGES, domain=pyo.UnitInterval)
    # Longer than every stage and every change in turn takes no bracket.
    longest_s = max(len(m.STAGES[b]) for b in m.BRACKETS) * (max(m.stage_s.values()) + max(m.change_s.values()))
    m.longest_s = pyo.Var(bounds=(0.0, longest_s))
    rows = [(b, s) for b in m.BRACKETS for s in m.STAGES[b]]
    holding: dict[Any, list[Any]] = {}
    for b, s, count, a in m.OPTIONS:
        holding.setdefault((b, s), []).append(m.x[b, s, count, a])
        holding.setdefault((b, s, count), []).append(m.x[b, s, count, a])
    leaving: dict[Any, list[Any]] = {}
    entering: dict[Any, list[Any]] = {}
    for b, s, before, after in m.CHANGES:
        leaving.setdefault((b, s, before), []).append(m.y[b, s, before, after])
        entering.setdefault((b, s, after), []).append(m.y[b, s, before, after])
    m.stages = pyo.Constraint(rows, rule=lambda _, b, s: pyo.quicksum(holding[b, s]) == 1)
    m.left = pyo.Constraint(
        [each for each in leaving if each[1] > 1],
        rule=lambda _, b, s, before: (
            pyo.quicksum(leaving[b, s, before]) == pyo.quicksum(holding.get((b, s - 1, before), ()))
        ),
    )
    m.entered = pyo.Constraint(
        list(entering),
        rule=lambda _, b, s, after: pyo.quicksum(entering[b, s, after]) == pyo.quicksum(holding.get((b, s, after), ())),
    )


def _add_sums(m: Any, instance: RubberBandInstance) -> None:  # noqa: ANN401 - Pyomo has no types
    rows = [(b, s) for b in m.BRACKETS for s in m.STAGES[b]]
    gpus: dict[Any, list[Any]] = {row: [] for row in rows}
    held: dict[Any, list[Any]] = {row: [] for row in rows}
    seconds: dict[int, list[Any]] = {b: [] for b in m.BRACKETS}
    usd: dict[int, list[Any]] = {b: [] for b in m.BRACKETS}
    for b, s, count, a in m.OPTIONS:
        x = m.x[b, s, count, a]
        gpus[b, s].append(a * x)
        held[b, s].append(count * x)
        seconds[b].append(m.stage_s[b, s, a] * x)
        busy_s = m.busy_gpu_s[b, s, a] / m.gpus_per_instance
        usd[b].append(m.price * (count * m.stage_s[b, s, a] if instance.cloud.is_per_instance else busy_s) * x)
    for b, s, before, after in m.CHANGES:
        if m.change_s[before, after] or m.change_usd[before, after]:
            seconds[b].append(m.change_s[before, after] * m.y[b, s, before, after])
            usd[b].append(m.change_usd[before, after] * m.y[b, s, before, after])
    m.gpus = pyo.Expression(rows, rule=lambda _, b, s: pyo.quicksum(gpus[b, s]))
    m.instances = pyo.Expression(rows, rule=lambda _, b, s: pyo.quicksum(held[b, s]))
    m.time_s = pyo.Expression(m.BRACKETS, rule=lambda _, b: pyo.quicksum(seconds[b]))
    m.usd = pyo.Expression(m.BRACKETS, rule=lambda _, b: pyo.quicksum(usd[b]))
    m.cost_usd = pyo.Expression(expr=pyo.quicksum(m.usd[b] for b in m.BRACKETS))


def _add_limits(m: Any, instance: RubberBandInstance) -> Scaling:  # noqa: ANN401 - Pyomo has no types
    m.slowest = pyo.Constraint(m.BRACKETS, rule=lambda m, b: m.longest_s >= m.time_s[b])
    scaling = ask_time_and_money(m, instance, m.longest_s, m.cost_usd)
    longest_s = max(m.stage_s.values())
    return replace(scaling, rows={id(m.slowest[b]): longest_s for b in m.BRACKETS} | dict(scaling.rows))


def _read(m: Any) -> RubberBandSolution | None:  # noqa: ANN401 - Pyomo has no types
    if not are_whole((m.x,)):
        return None
    chosen = {(b, s): (count, a) for b, s, count, a in (each.index() for each in list_ones((m.x,)))}
    return RubberBandSolution(
        brackets=tuple(
            tuple(StageAllocation(instances=chosen[b, s][0], gpus=chosen[b, s][1]) for s in m.STAGES[b])
            for b in m.BRACKETS
        )
    )
