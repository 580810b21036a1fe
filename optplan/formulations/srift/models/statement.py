r"""Srift's formulation sheet, and the linear relaxation of its problem in Pyomo.

One training job runs on a fleet of VMs, perhaps of several types. Decide how many VMs of each type, and how many
samples of an iteration each of them gets, for the least cost within a deadline or the least time within a budget.

The time of an iteration is no linear function of the fleet: which gradients wait for which, and who straggles, depends
on all of it. The model has what bounds it from below, by tables for each type, batch and number of VMs and for each
number of ranks (:mod:`optplan.formulations.srift.models.statement`). So it is a **relaxation**: every fleet keeps
it, at no more than its true time and cost, and a fleet that keeps it may in truth be late or dear.

Sets
----
``TYPES``
    Types of VM i (family ``type``).
``GROUPS``
    Pairs (i, b) of a type and a choice of samples for each of its VMs (family ``choices``).
``COUNTS``
    Triples (i, b, n): n = 0, 1, ... VMs of type i with b samples each, as many as are available.
``RANKS``
    Numbers R of GPUs that a fleet may have.

Parameters
----------
``B``, ``N``
    Samples of an iteration (``global_batch``), and iterations.
``P[i]``, ``gpus[i]``, ``available[i]``, ``running[i]``
    US dollars per hour and GPUs of a VM; VMs that can be had, and that run already.
``slowest_s[i, b, n]``
    Mean compute time of the slowest of n such VMs, seconds.
``transfer_s[i, R]``
    Least time to exchange all gradients between R ranks at the capacity of type i, seconds.
``share``
    Share of the compute time after which the first gradient is ready, at least.
``launch_s``, ``paid``
    Seconds until new VMs train, and whether they are paid meanwhile (``launch_billed``), 0 or 1.
``most_s``
    A time that no fleet exceeds, seconds.

Variables
---------
``x[i, b, n]``
    Whether there are n VMs of type i with b samples each, 0 or 1.
``present[i]``, ``ranks[R]``, ``launches``
    Whether the fleet has VMs of type i, has R ranks, and has more VMs of a type than run already; 0 or 1.
``compute_s``, ``exchange_s``, ``iteration_s``
    Bounds from below on compute, exchange and iteration, seconds.
``paid_s[i, b, n]``
    Time for which that group is paid: all of it where x is 1, none where it is 0.

Expressions
-----------
``vms[i]``
    ``sum_(b,n) n x[i,b,n]``.
``time_s``
    ``N iteration_s + launch_s launches``.
``cost_usd``
    ``sum_(i,b,n) n P[i] / 3600 paid_s[i,b,n]``.

Objective
---------
Least ``cost_usd`` or ``time_s``.

Constraint families, by the names that the evaluator and its messages use
-------------------------------------------------------------------------
``one_count[i, b]``
    ``sum_n x[i,b,n] == 1``.
``batch``
    ``sum_(i,b,n) b n x[i,b,n] == B``.
``availability[i]``, ``running[i]``
    ``vms[i] <= available[i]`` and ``vms[i] >= running[i]``.
``one_batch[i]``
    ``sum_b (1 - x[i,b,0]) <= 1``, where all VMs of a type get the same batch.
``mixed``
    ``sum_i present[i] <= 1``, where all VMs are of one type.
``deadline``, ``budget``
    ``time_s <= T_lim``, ``cost_usd <= $_lim``, for those that there are.
``is_present``, ``is_absent``, ``one_rank``, ``has_ranks``, ``grows``
    What ``present``, ``ranks`` and ``launches`` mean.
``computes[i, b]``
    ``compute_s >= sum_n slowest_s[i,b,n] x[i,b,n]``.
``exchanges[i]``
    ``exchange_s >= sum_R transfer_s[i,R] ranks[R]`` where type i is present.
``overlaps``
    ``iteration_s >= compute_s`` and ``iteration_s >= share compute_s + exchange_s``.
``pays[i, b, n]``
    ``paid_s >= N iteration_s + paid launch_s launches`` where x is 1.

Deviations and errata: interruptions are left out; they lengthen times and raise costs, so the model stays a relaxation.
Source: Srift, sections 4.2 to 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyomo.environ as pyo

from optplan.errors import InfeasibleError
from optplan.formulations.srift.data.bandwidth import BYTES_PER_GBIT, volume_factor
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.laws.iteration import standard_maximum
from optplan.schema import FloatArray
from optplan.solvers.programs.statement import Statement, are_whole, ask_time_and_money, list_ones
from optplan.units import SECONDS_PER_HOUR

#: What rounding may add to a computed time.
ROUNDING = 1e-8


def list_groups(instance: SriftInstance) -> dict[tuple[str, int], FloatArray]:
    """List the types and batches that a fleet can have, the largest batch of a type first.

    Each has the least compute seconds (most + 1,) of 0 to as many VMs as there can be.
    """
    groups = {}
    for name, batches in instance.batches_of.items():
        profile = instance.job.devices[instance.types[name].gpu]
        for batch in reversed(batches):
            most = min(instance.most_of(name), instance.global_batch // batch)
            if most:
                raw_s = sum(instance.passes_s(name, batch))
                slowest = [1.0 + profile.deviation * standard_maximum(count) for count in range(1, most + 1)]
                groups[name, batch] = raw_s * np.array([0.0, *slowest])
    return groups


def list_volumes(instance: SriftInstance) -> FloatArray:
    """Return (R + 1,) bytes that a rank exchanges in an iteration, by the number of ranks."""
    most_ranks = min(instance.global_batch, sum(vm.gpus * instance.most_of(n) for n, vm in instance.types.items()))
    layers = instance.job.layers
    chance = np.ones(layers.ready.size) if layers.probability is None else layers.probability
    total = float(layers.gradient_bytes @ chance)
    return np.array([0.0, 0.0, *(volume_factor(ranks) * total for ranks in range(2, most_ranks + 1))])


def find_least_share(instance: SriftInstance, groups: Iterable[tuple[str, int]]) -> float:
    """Return the least share of an iteration's compute time after which any gradient can be ready."""
    shares = []
    for name, samples in groups:
        forward, backward = instance.passes_s(name, samples)
        first = float(instance.job.ready_on(instance.types[name].gpu)[0])
        shares.append((forward + first * backward) / (forward + backward) if forward + backward else 0.0)
    return min(shares, default=0.0)


def state_model(instance: SriftInstance) -> Statement:
    """State the relaxation of an instance in the terms of this module's sheet."""
    groups = list_groups(instance)
    if not groups:
        raise InfeasibleError("there are no VMs to be had of any type; raise types.*.available")
    m = pyo.ConcreteModel(name=instance.name)
    _add_data(m, instance, groups)
    _add_fleet(m, instance)
    _add_times(m)
    _add_cost(m)
    scaling = ask_time_and_money(m, instance, m.time_s, m.cost_usd)
    leaves_out = "how the exchange of gradients and the passes of a whole fleet overlap"
    if instance.interruptions is not None:
        leaves_out += ", and interruptions"
    return Statement(native=m, read=lambda: _read(m), choices=(m.x,), scaling=scaling, leaves_out=leaves_out)


def _add_data(
    m: Any,  # noqa: ANN401 - Pyomo has no types
    instance: SriftInstance,
    groups: dict[tuple[str, int], FloatArray],
) -> None:
    types, volumes = instance.types, list_volumes(instance)
    m.TYPES = pyo.Set(initialize=list(types))
    m.GROUPS = pyo.Set(dimen=2, initialize=list(groups))
    slowest = {
        (i, b, n): seconds * (1.0 - ROUNDING)
        for (i, b), compute_s in groups.items()
        for n, seconds in enumerate(compute_s.tolist())
    }
    m.COUNTS = pyo.Set(dimen=3, initialize=list(slowest))
    m.RANKS = pyo.Set(initialize=range(volumes.size))
    m.B = pyo.Param(initialize=instance.global_batch)
    m.N = pyo.Param(initialize=instance.iterations)
    m.P = pyo.Param(m.TYPES, initialize={i: vm.price_usd_per_hour for i, vm in types.items()})
    m.gpus = pyo.Param(m.TYPES, initialize={i: vm.gpus for i, vm in types.items()})
    m.available = pyo.Param(m.TYPES, initialize={i: instance.most_of(i) for i in types})
    m.already = pyo.Param(m.TYPES, initialize={i: vm.running for i, vm in types.items()})
    m.slowest_s = pyo.Param(m.COUNTS, initialize=slowest)
    shortest = {
        (i, ranks): seconds
        for i, vm in types.items()
        for ranks, seconds in enumerate(
            (volumes * (1.0 - ROUNDING) / (vm.network_gbit_per_s * BYTES_PER_GBIT)).tolist()
        )
    }
    m.transfer_s = pyo.Param(list(shortest), initialize=shortest)
    m.share = pyo.Param(initialize=find_least_share(instance, groups))
    m.launch_s = pyo.Param(initialize=instance.launch_s)
    m.paid = pyo.Param(initialize=int(instance.launch_billed))
    m.most_s = pyo.Param(
        initialize=instance.iterations * (max(slowest.values()) + max(shortest.values())) + instance.launch_s or 1.0
    )


def _add_fleet(m: Any, instance: SriftInstance) -> None:  # noqa: ANN401 - Pyomo has no types
    """Say what a fleet is: it reaches the batch, within availability and the rules on batches and types."""
    m.x = pyo.Var(m.COUNTS, domain=pyo.Binary)
    m.present = pyo.Var(m.TYPES, domain=pyo.Binary)
    batches: dict[str, list[int]] = {i: [] for i in m.TYPES}
    for i, b in m.GROUPS:
        batches[i].append(b)
    counts = {(i, b): [n for j, c, n in m.COUNTS if (j, c) == (i, b)] for i, b in m.GROUPS}
    m.vms = pyo.Expression(
        m.TYPES, rule=lambda m, i: pyo.quicksum(n * m.x[i, b, n] for b in batches[i] for n in counts[i, b])
    )
    m.one_count = pyo.Constraint(m.GROUPS, rule=lambda m, i, b: pyo.quicksum(m.x[i, b, n] for n in counts[i, b]) == 1)
    m.batch = pyo.Constraint(expr=pyo.quicksum(b * n * m.x[i, b, n] for i, b, n in m.COUNTS) == m.B)
    usable = [i for i in m.TYPES if batches[i]]
    m.availability = pyo.Constraint(usable, rule=lambda m, i: m.vms[i] <= m.available[i])
    m.running = pyo.Constraint([i for i in m.TYPES if m.already[i]], rule=lambda m, i: m.vms[i] >= m.already[i])
    if instance.one_batch_per_type:
        m.one_batch = pyo.Constraint(usable, rule=lambda m, i: pyo.quicksum(1 - m.x[i, b, 0] for b in batches[i]) <= 1)
    m.is_present = pyo.Constraint(m.GROUPS, rule=lambda m, i, b: m.present[i] >= 1 - m.x[i, b, 0])
    m.is_absent = pyo.Constraint(
        m.TYPES, rule=lambda m, i: m.present[i] <= pyo.quicksum(1 - m.x[i, b, 0] for b in batches[i])
    )
    if not instance.mixed:
        m.mixed = pyo.Constraint(expr=pyo.quicksum(m.present[i] for i in m.TYPES) <= 1)


def _add_times(m: Any) -> None:  # noqa: ANN401 - Pyomo has no types
    """Add what bounds the time of an iteration from below, and the time of all of them with the launch."""
    m.ranks = pyo.Var(m.RANKS, domain=pyo.Binary)
    m.launches = pyo.Var(domain=pyo.Binary)
    m.compute_s, m.exchange_s, m.iteration_s = (pyo.Var(domain=pyo.NonNegativeReals) for _ in range(3))
    m.one_rank = pyo.Constraint(expr=pyo.quicksum(m.ranks[r] for r in m.RANKS) == 1)
    m.has_ranks = pyo.Constraint(
        expr=pyo.quicksum(m.gpus[i] * m.vms[i] for i in m.TYPES) == pyo.quicksum(r * m.ranks[r] for r in m.RANKS)
    )
    by_group: dict[tuple[str, int], list[Any]] = {group: [] for group in m.GROUPS}
    for i, b, n in m.COUNTS:
        by_group[i, b].append(m.slowest_s[i, b, n] * m.x[i, b, n])
    m.computes = pyo.Constraint(m.GROUPS, rule=lambda m, i, b: m.compute_s >= pyo.quicksum(by_group[i, b]))
    longest = {i: max(m.transfer_s[i, r] for r in m.RANKS) for i in m.TYPES}
    m.exchanges = pyo.Constraint(
        m.TYPES,
        rule=lambda m, i: (
            m.exchange_s
            >= pyo.quicksum(m.transfer_s[i, r] * m.ranks[r] for r in m.RANKS) - longest[i] * (1 - m.present[i])
        ),
    )
    m.overlaps = pyo.ConstraintList()
    m.overlaps.add(m.iteration_s >= m.compute_s)
    m.overlaps.add(m.iteration_s >= m.share * m.compute_s + m.exchange_s)
    m.grows = pyo.Constraint(
        [i for i in m.TYPES if m.available[i] > m.already[i]],
        rule=lambda m, i: m.launches * (m.available[i] - m.already[i]) >= m.vms[i] - m.already[i],
    )
    m.time_s = pyo.Expression(expr=m.N * m.iteration_s + m.launch_s * m.launches)


def _add_cost(m: Any) -> None:  # noqa: ANN401 - Pyomo has no types
    """Add the cost: a product of fleet and time, whose parts are the time where a group is there, and else nothing."""
    m.paid_s = pyo.Var([each for each in m.COUNTS if each[2]], domain=pyo.NonNegativeReals)
    billed_s = m.N * m.iteration_s + m.paid * m.launch_s * m.launches
    m.pays = pyo.Constraint(
        list(m.paid_s),
        rule=lambda m, i, b, n: m.paid_s[i, b, n] / m.most_s >= billed_s / m.most_s - (1 - m.x[i, b, n]),
    )
    # What the group itself takes tightens the relaxation of the product.
    m.pays_own = pyo.Constraint(
        list(m.paid_s),
        rule=lambda m, i, b, n: m.paid_s[i, b, n] / m.most_s >= m.N * m.slowest_s[i, b, n] / m.most_s * m.x[i, b, n],
    )
    m.cost_usd = pyo.Expression(
        expr=pyo.quicksum(n * m.P[i] / SECONDS_PER_HOUR * m.paid_s[i, b, n] for i, b, n in m.paid_s)
    )


def _read(m: Any) -> SriftSolution | None:  # noqa: ANN401 - Pyomo has no types
    if not are_whole((m.x,)):
        return None
    chosen = {each.index()[:2]: each.index()[2] for each in list_ones((m.x,))}
    return SriftSolution(
        groups=tuple(VmGroup(type=i, count=chosen[i, b], batch=b) for i, b in m.GROUPS if chosen[i, b])
    )
