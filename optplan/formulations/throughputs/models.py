r"""The formulation sheet of throughputs, and its mixed-integer program in Pyomo.

One training job, of which samples a second were measured. Choose a type of VM, how many, and the configuration, for
the least cost or time within a deadline, a budget, both or neither.

Sets
----
``TYPES``
    Types of VM i on offer.
``CONFIGURATIONS``
    Ways c in which the training was spread over VMs; the empty text where there is one way only.
``CHOICES``
    Triples (i, c, n) of a type, a configuration and a number of VMs that was measured with it, or lies between two such
    numbers where these are interpolated, and of which as many are available: the families ``type``, ``measured`` and
    ``availability``.

Parameters
----------
``N``
    Samples to train (``samples``).
``r[i, c, n]``
    Samples a second of all n VMs together (``samples_per_s``).
``P[i]``
    Price of a VM, US dollars per hour (``price_usd_per_hour``).
``l``, ``paid``
    Seconds until the VMs train (``launch_s``), and whether they are paid meanwhile (``launch_billed``), 0 or 1.

Variables
---------
``x[i, c, n]``
    Whether this is the choice, 0 or 1.

Expressions
-----------
``vms[i]``
    VMs of type i: ``sum_(c,n) n x[i,c,n]``.
``time_s``
    ``sum_(i,c,n) (l + N / r[i,c,n]) x[i,c,n]``, seconds.
``cost_usd``
    ``sum_(i,c,n) n P[i] (paid l + N / r[i,c,n]) / 3600 x[i,c,n]``, US dollars.

Objective
---------
Least ``cost_usd`` (cheapest) or ``time_s`` (fastest).

Constraint families, by the names that the evaluator and its messages use
-------------------------------------------------------------------------
``one_choice``
    ``sum x == 1``: the solution is one choice.
``deadline``, ``budget``
    ``time_s <= T_lim`` (``deadline_s``), ``cost_usd <= $_lim`` (``budget``), for those that there are.

There is no paper behind it, so there are no deviations from one.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from optplan.errors import InfeasibleError
from optplan.formulations.throughputs.data import ThroughputsInstance, ThroughputsSolution
from optplan.formulations.throughputs.exact import list_choices
from optplan.solvers.programs.statement import Statement, are_whole, ask_time_and_money, list_ones
from optplan.units import SECONDS_PER_HOUR


def state_model(instance: ThroughputsInstance) -> Statement:
    """State an instance in the terms of this module's sheet."""
    listed = ((each.solution, each.samples_per_s) for each in list_choices(instance))
    choices = {(chosen.type, chosen.configuration, chosen.vms): speed for chosen, speed in listed}
    if not choices:
        raise InfeasibleError("there is nothing to choose from: fewer VMs are available than were measured")
    m = pyo.ConcreteModel(name=instance.name)
    m.TYPES = pyo.Set(initialize=list(instance.types))
    m.CONFIGURATIONS = pyo.Set(initialize=list(dict.fromkeys(c for _, c, _ in choices)))
    m.CHOICES = pyo.Set(dimen=3, initialize=list(choices))
    m.N = pyo.Param(initialize=instance.samples)
    m.r = pyo.Param(m.CHOICES, initialize=choices)
    m.P = pyo.Param(m.TYPES, initialize={i: vm.price_usd_per_hour for i, vm in instance.types.items()})
    m.l = pyo.Param(initialize=instance.launch_s)
    m.paid = pyo.Param(initialize=int(instance.launch_billed))
    m.x = pyo.Var(m.CHOICES, domain=pyo.Binary)
    m.vms = pyo.Expression(m.TYPES, rule=lambda m, i: pyo.quicksum(n * m.x[j, c, n] for j, c, n in m.CHOICES if j == i))
    trained_s = {(i, c, n): m.N / m.r[i, c, n] for i, c, n in m.CHOICES}
    m.time_s = pyo.Expression(expr=pyo.quicksum((m.l + trained_s[each]) * m.x[each] for each in m.CHOICES))
    paid_h = {each: (m.paid * m.l + trained_s[each]) / SECONDS_PER_HOUR for each in m.CHOICES}
    m.cost_usd = pyo.Expression(expr=pyo.quicksum(n * m.P[i] * paid_h[i, c, n] * m.x[i, c, n] for i, c, n in m.CHOICES))
    m.one_choice = pyo.Constraint(expr=pyo.quicksum(m.x.values()) == 1)
    scaling = ask_time_and_money(m, instance, m.time_s, m.cost_usd)
    return Statement(native=m, read=lambda: _read(m), choices=(m.x,), scaling=scaling)


def _read(m: Any) -> ThroughputsSolution | None:  # noqa: ANN401 - Pyomo has no types
    if not are_whole((m.x,)) or not (ones := list_ones((m.x,))):
        return None
    gpu_type, configuration, vms = ones[0].index()
    return ThroughputsSolution(type=gpu_type, vms=vms, configuration=configuration)
