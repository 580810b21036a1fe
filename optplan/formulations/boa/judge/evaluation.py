"""The independent judge of BOA: what widths amount to, and whether they keep the rules.

Written from Lemma 4.5, Lemma 4.8 and problem (7) alone; it imports no solver and no algebraic model, so that a user can
check a plan without trusting either. What no plan can beat is judged in :mod:`optplan.formulations.boa.judge.duality`.
Constraint families, by the names used in every message:

``every-class``
    The solution has branches for exactly the classes of the instance.
``fraction-sum``
    The fractions of a class's branches add up to one.
``one-path``
    A pure plan has one branch per class.
``row-length``
    A branch has one width per epoch.
``allowed-width``
    Every width is an allowed one (in the continuous problem: lies between the least and the largest).
``gpu-type``
    Every GPU type is one on which the class can run; with one type none need be named.
``budget``
    Time-average GPUs, or what they cost, running and rescaling, do not exceed the budget; with commitments the bill
    does not, in GPUs on demand or money, at the number of committed GPUs that is best for the widths.
``quota.<type>``
    Time-average GPUs of a type do not exceed its quota.
``due.<class>``
    The mean completion time of a class does not exceed its due date.
``floor.<class>``
    The time-average GPUs on which jobs of a class run, pauses not counted, do not fall below its floor.
``most-gpus``
    For at least the stated share of the time, no more GPUs are in use than the limit says.

GPUs that are held count as those that are paid for: whole nodes, where jobs share none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import JUDGE_ROUNDING, JUDGE_TOLERANCE, Check, Evaluation, keep_latest
from optplan.formulations.boa.data.instance import (
    BUDGET,
    DUE,
    FLOOR,
    QUOTA,
    BoaInstance,
    BoaSolution,
    Branch,
    Problem,
    has_real_widths,
)
from optplan.formulations.boa.data.problems import PeakLimit
from optplan.formulations.boa.judge.following import (
    EpochTimes,
    epochs_by_type,
    find_demand,
    follow_solution,
    real_range,
    types_along,
)
from optplan.formulations.boa.laws.bands import apply_speeds, find_bands, list_pairs
from optplan.formulations.boa.laws.demand import bill_demand
from optplan.speedup import Evidence
from optplan.speedup.curves import find_weakest
from optplan.units import SECONDS_PER_HOUR, BudgetUnit


def judge_truth(instance: BoaInstance, shifts: Mapping[str, Mapping[str, float]]) -> BoaInstance | None:
    """Return the instance with the speeds of a truth; None where widths are real, ValueError for other shifts."""
    if instance.problem is Problem.CONTINUOUS:
        return None
    pairs = {(name, gpu_type) for name, by_type in shifts.items() for gpu_type in by_type}
    if pairs != set(list_pairs(instance)):
        raise ValueError("a truth has one shift for each class and GPU type whose speeds have a band")
    spread = {}
    for name, by_type in shifts.items():
        options = instance.options(name)
        shift = np.array([by_type.get(gpu_type, 0.0) for gpu_type in options.gpu_types])
        spread[name] = find_bands(instance)[name].spread(shift[options.group])
    return apply_speeds(instance, spread)


#: Relative tolerance of every comparison of the judge; a plan exactly at the budget is feasible.
TOLERANCE = JUDGE_TOLERANCE
#: What sums in another order may differ by, relatively: a plan this little beyond the tolerance of a limit keeps it.
ROUNDING = JUDGE_ROUNDING


@keep_latest
def evaluate(instance: BoaInstance, solution: BoaSolution) -> Evaluation:
    """Recompute objective, GPU use and every constraint from widths, which may break any rule.

    The objective is the mean completion time in seconds, weighted where the classes have weights. Consumption:
    ``budget`` in time-average GPUs or US dollars per hour (``instance.budget_unit``), ``quota.<type>`` in time-average
    GPUs, ``due.<class>`` in seconds, ``floor.<class>`` as in ``instance.limits``. Source: Lemma 4.5, Lemma 4.8 (without
    the 1/lambda that (3) prints, and from epoch 1), problem (7).
    """
    checks = _check_shape(instance, solution)
    if not all(check.holds for check in checks):
        return Evaluation(float("nan"), dict.fromkeys(instance.limit_names, float("nan")), {}, tuple(checks))
    measures, gpus = _measure(instance, solution)
    prices = instance.prices_in_budget
    if instance.commits:
        measures |= _measure_bill(instance, solution)
    paid = math.fsum(prices[gpu_type] * used for gpu_type, used in gpus.items())
    consumption = {BUDGET: measures.get("bill", paid)}
    consumption |= {f"{QUOTA}{gpu_type}": gpus[gpu_type] for gpu_type in instance.quotas}
    consumption |= {f"{DUE}{name}": measures[f"classes.{name}.mean_jct_s"] for name in instance.due_s}
    running_on = {name: measures[f"classes.{name}.gpus_running"] for name in instance.floors}
    given = {limit: used for limit, used in consumption.items() if limit != BUDGET or instance.budget is not None}
    checks += [_check_limit(instance, limit, used) for limit, used in given.items()]
    checks += [_check_floor(name, floor, running_on[name]) for name, floor in instance.floors.items()]
    for limit, name in ((f"{FLOOR}{name}", name) for name in instance.floors):  # what runs beyond it counts no more
        consumption[limit] = max(instance.floors[name], instance.count_limit(limit, running_on[name]))
    if instance.most_gpus is not None:
        checks.append(_check_peak(instance, solution, instance.most_gpus))
    return Evaluation(measures["weighted_mean_jct_s"], consumption, measures, tuple(checks))


def _measure(instance: BoaInstance, solution: BoaSolution) -> tuple[dict[str, float], dict[str, float]]:
    """Measure times, GPUs and changes, of all jobs and class by class; and the time-average GPUs of each type."""
    # Sums that are rounded once do not depend on the order in which classes and types are given.
    weighted_s, jct_s, changes = list[float](), list[float](), list[float]()
    running, rescaling = ({gpu_type: list[float]() for gpu_type in instance.gpu_types} for _ in range(2))
    measures: dict[str, float] = {}
    starting, starts_h = list[tuple[str, float]](), list[float]()
    waits_for_nodes = instance.waits_for_nodes and instance.problem is not Problem.CONTINUOUS
    for name, job_class in instance.classes.items():
        rate = job_class.arrival_rate_per_hour
        class_s, class_runs, class_rescales = list[float](), list[float](), list[float]()
        for branch, times in zip(solution.branches[name], follow_solution(instance, solution)[name], strict=True):
            hours = float(times.wall @ times.run_h) + float(times.wall @ times.pause_h)
            jobs, held_gpus = rate * branch.fraction, times.paid * times.held
            class_s.append(branch.fraction * hours * SECONDS_PER_HOUR)
            for gpu_type, epochs in epochs_by_type(instance, branch):
                for part_h, own, total in (
                    (times.run_h, class_runs, running),
                    (times.pause_h, class_rescales, rescaling),
                ):
                    own.append(jobs * float(held_gpus[epochs] @ part_h[epochs]))
                    total[gpu_type].append(own[-1])
            changes.append(jobs * np.count_nonzero(times.change[1:]))
            waits = list(_wait_for_nodes(instance, branch, times)) if waits_for_nodes else []
            starts_h += [jobs * wait_h for wait_h, _ in waits]
            starting += [(gpu_type, jobs * wait_h * gpus) for wait_h, held in waits for gpu_type, gpus in held]
        measures[f"classes.{name}.mean_jct_s"] = math.fsum(class_s)
        jct_s.append(rate * math.fsum(class_s))
        weighted_s.append(job_class.weight * rate * math.fsum(class_s))
        measures[f"classes.{name}.gpus"] = math.fsum([*class_runs, *class_rescales])
        if name in instance.floors:
            measures[f"classes.{name}.gpus_running"] = math.fsum(class_runs)
    total_rate = instance.total_rate_per_hour
    gpus = {name: math.fsum(running[name]) + math.fsum(rescaling[name]) for name in instance.gpu_types}
    measures |= {
        "mean_jct_s": math.fsum(jct_s) / total_rate,
        "weighted_mean_jct_s": math.fsum(weighted_s) / instance.total_weighted_rate_per_hour,
        "gpus": math.fsum(gpus.values()),
        "gpus_running": math.fsum(map(math.fsum, running.values())),
        "gpus_rescaling": math.fsum(map(math.fsum, rescaling.values())),
        "width_changes_per_job": math.fsum(changes) / total_rate,
        "rescales_per_job": (total_rate + math.fsum(changes)) / total_rate,
    }
    if waits_for_nodes:
        measures["gpus_starting"] = math.fsum(used for _, used in starting)
        measures["starting_s_per_job"] = math.fsum(starts_h) * SECONDS_PER_HOUR / total_rate
        usd = [instance.gpu_types[gpu_type].price_usd_per_hour for gpu_type, _ in starting]
        if None not in usd:
            paid = zip(usd, starting, strict=True)
            measures["starting_usd_per_hour"] = math.fsum((price or 0.0) * used for price, (_, used) in paid)
    return measures | _measure_types(instance, gpus), gpus


def _measure_bill(instance: BoaInstance, solution: BoaSolution) -> dict[str, float]:
    """Measure how many GPUs are best committed, and the bill in the unit of the budget, which is least then."""
    laws = {name: find_demand(instance, solution, name) for name in instance.gpu_types}
    bills = bill_demand(instance, laws)
    measures = {f"committed.{name}.{term}": gpus for name, bill in bills.items() for term, gpus in bill.gpus.items()}
    parts = ("committed", "spot", "on_demand")
    measures |= {f"bill.{part}": math.fsum(getattr(bill, part) for bill in bills.values()) for part in parts}
    measures["bill"] = math.fsum(bill.total for bill in bills.values())
    usd = [kind.price_usd_per_hour for kind in instance.gpu_types.values()]
    if None not in usd:
        on_demand = zip(usd, instance.prices_on_demand.values(), bills.values(), strict=True)
        measures["bill_usd_per_hour"] = math.fsum((price or 0.0) / own * bill.total for price, own, bill in on_demand)
    return measures


def _wait_for_nodes(
    instance: BoaInstance, branch: Branch, times: EpochTimes
) -> Iterator[tuple[float, list[tuple[str, float]]]]:
    """Yield the hours of each wait for nodes in a job, and the GPUs paid meanwhile, by type: the old and the new."""
    # The most that can be: every GPU that the job comes to hold is one of a new node, so many of g GPUs fill ceil(new /
    # g).
    types = types_along(instance, branch).tolist()
    for epoch in np.flatnonzero(times.change).tolist():
        kind = instance.gpu_types[types[epoch]]
        before = float(times.paid[epoch - 1]) if epoch else 0.0
        stays = before if epoch and types[epoch - 1] == types[epoch] else 0.0
        node = kind.gpus_per_node or 1
        new = node * math.ceil((float(times.paid[epoch]) - stays) / node)
        if kind.start_s and new > 0:
            yield kind.start_s / SECONDS_PER_HOUR, [(types[epoch], float(new)), (types[max(0, epoch - 1)], before)]


def _measure_types(instance: BoaInstance, gpus: dict[str, float]) -> dict[str, float]:
    """Measure what concerns GPU types: how many of each where there are several, and their cost where it is known."""
    measures = {f"gpus.{gpu_type}": used for gpu_type, used in gpus.items()} if len(gpus) > 1 else {}
    prices = {name: gpu_type.price_usd_per_hour for name, gpu_type in instance.gpu_types.items()}
    if all(prices[gpu_type] is not None for gpu_type, used in gpus.items() if used > 0):
        measures["cost_usd_per_hour"] = math.fsum((prices[gpu_type] or 0.0) * used for gpu_type, used in gpus.items())
    return measures


def _check_shape(instance: BoaInstance, solution: BoaSolution) -> list[Check]:
    """Check everything that must hold before widths can be evaluated at all."""
    missing = set(instance.classes) ^ set(solution.branches)
    message = "the solution must name exactly the classes of the instance"
    index = min(missing, default="")
    checks = [Check.exactly("every-class", message, holds=not missing, sides=(len(missing), 0), index=index)]
    if missing:
        return checks
    for name, branches in solution.branches.items():
        checks.append(_check_fractions(name, branches))
        if instance.problem is not Problem.CONTINUOUS and instance.policy == "pure":
            message, sides = "a pure plan has one branch per class", (len(branches), 1)
            checks.append(Check.exactly("one-path", message, holds=len(branches) == 1, sides=sides, index=name))
        for number, branch in enumerate(branches, start=1):
            checks.extend(_check_row(instance, name, f"{name}[{number}]", branch))
    return checks


def _check_fractions(name: str, branches: tuple[Branch, ...]) -> Check:
    total = float(sum(branch.fraction for branch in branches))
    message, holds = "the fractions of a class's branches must add up to one", abs(total - 1.0) <= TOLERANCE
    return Check(
        family="fraction-sum", index=name, left=total, right=1.0, tolerance=TOLERANCE, holds=holds, message=message
    )


def _check_row(instance: BoaInstance, name: str, index: str, branch: Branch) -> list[Check]:
    epochs, widths = instance.classes[name].num_epochs, branch.widths
    fits = widths.shape == (epochs,) and (branch.gpu_types is None or len(branch.gpu_types) == epochs)
    message = "a branch has one width per epoch, and one GPU type where there are several"
    given = widths.size if branch.gpu_types is None else max(widths.size, len(branch.gpu_types))
    length = Check.exactly("row-length", message, holds=fits, sides=(given, epochs), index=index)
    if not fits:
        return [length]
    types = _check_types(instance, name, index, branch)
    return [length, types, *([_check_widths(instance, name, index, branch)] if types.holds else [])]


def _check_types(instance: BoaInstance, name: str, index: str, branch: Branch) -> Check:
    known = instance.options(name).gpu_types
    named = branch.gpu_types if branch.gpu_types is not None else ("",) if len(instance.gpu_types) > 1 else known[:1]
    wrong = [gpu_type for gpu_type in named if gpu_type not in known] if set(named) - set(known) else []
    message = f"every GPU type must be one on which the class can run ({', '.join(known)})"
    return Check.exactly("gpu-type", message, holds=not wrong, sides=(len(wrong), 0), index=index)


def _check_widths(instance: BoaInstance, name: str, index: str, branch: Branch) -> Check:
    widths, wrong = branch.widths, np.zeros(branch.widths.size, dtype=np.bool_)
    ends: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
    between = False
    for gpu_type, epochs in epochs_by_type(instance, branch):
        if _takes_real_widths(instance, name, gpu_type):
            least, largest = ends[gpu_type] = real_range(instance, name, gpu_type)
            outside = (widths < least * (1 - TOLERANCE)) | (widths > largest * (1 + TOLERANCE))
            between = True
        else:
            allowed = instance.allowed_widths(name, gpu_type)
            ends[gpu_type] = allowed[:1], allowed[-1:]
            outside = allowed[np.minimum(allowed.searchsorted(widths), allowed.size - 1)] != widths
        wrong[epochs] = outside[epochs]
    first = int(wrong.argmax())
    holds = not wrong[first]
    held = instance.only_gpu_type if branch.gpu_types is None else branch.gpu_types[first]
    low, high = (float(end[first % end.size]) for end in ends[held])
    rule = "widths must lie between the ends of the hull" if between else "widths must be allowed ones"
    return Check(
        family="allowed-width",
        index=index if holds else f"{index} epoch {first + 1}",
        left=float(widths[first]),
        right=high,
        tolerance=TOLERANCE * high,
        holds=holds,
        message=f"{rule} ({low:g} to {high:g})",
    )


def _takes_real_widths(instance: BoaInstance, name: str, gpu_type: str) -> bool:
    """Whether a solution may name widths between whole ones: of a table, two fractions of the jobs on the only type."""
    if instance.problem is not Problem.CONTINUOUS:
        return False
    return not instance.is_typed or has_real_widths(instance, name, gpu_type)


def _check_peak(instance: BoaInstance, solution: BoaSolution, limit: PeakLimit) -> Check:
    over, most = find_demand(instance, solution).over(limit.gpus), 1.0 - limit.probability
    message = f"the share of the time with more than {limit.gpus:g} GPUs in use must not exceed the rest"
    return _check_most("most-gpus", over, most, TOLERANCE, message)


def _check_limit(instance: BoaInstance, limit: str, used: float) -> Check:
    amount = instance.budget_amount() if limit == BUDGET else instance.further_limits[limit]
    if limit.startswith(DUE):
        what, whose = "mean completion time", f"the due date of {limit.removeprefix(DUE)}"
    else:
        counted = "time-average GPUs" if instance.limit_unit(limit) == BudgetUnit.GPU else "cost per hour"
        what = f"{counted}, running and rescaling,"
        what = "what is paid, committed GPUs at all hours," if instance.commits and limit == BUDGET else what
        whose = "the budget" if limit == BUDGET else f"the quota of {limit.removeprefix(QUOTA)}"
    return _check_most(limit, used, amount, (TOLERANCE + ROUNDING) * amount, f"{what} must not exceed {whose}")


def _check_floor(name: str, floor: float, running: float) -> Check:
    message = f"the floor of {name} must not exceed the time-average GPUs on which its jobs run"
    return _check_most(f"{FLOOR}{name}", floor, running, (TOLERANCE + ROUNDING) * floor, message)


def _check_most(family: str, left: float, right: float, tolerance: float, message: str) -> Check:
    holds = left <= right + tolerance
    return Check(family=family, left=left, right=right, tolerance=tolerance, holds=holds, message=message)


@keep_latest
def share_evidence(instance: BoaInstance, solution: BoaSolution | None) -> dict[str, float]:
    """Return the shares of a plan's GPUs, or of the load, by what speedups rest on; any assumed one is for all."""
    found: dict[str, list[float]] = defaultdict(list)
    for name, job_class in instance.classes.items():
        rate = job_class.arrival_rate_per_hour
        kinds = {
            kind
            for gpu_type, curve in job_class.speedup.items()
            for kind in curve.evidence_at(instance.allowed_widths(name, gpu_type))
        }
        weakest = find_weakest(kinds)
        if solution is None:
            found[weakest].append(rate * job_class.size_gpu_hours * job_class.reference_width)
            continue
        for branch, times in zip(solution.branches[name], follow_solution(instance, solution)[name], strict=True):
            gpus = rate * branch.fraction * times.paid * times.held_h
            if len(kinds) == 1 or weakest == Evidence.ASSUMED:
                found[weakest].append(float(gpus.sum()))
                continue
            for kind, used in zip(_list_kinds(instance, name, branch), gpus.tolist(), strict=True):
                found[kind].append(used)
    used = {kind: math.fsum(gpus) for kind, gpus in sorted(found.items())}
    total = math.fsum(used.values())
    return {kind: gpus / total for kind, gpus in used.items() if gpus > 0.0}


def _list_kinds(instance: BoaInstance, name: str, branch: Branch) -> list[str]:
    """List for each epoch of a branch where the speed at its width comes from."""
    kinds = [""] * branch.widths.size
    for gpu_type, epochs in epochs_by_type(instance, branch):
        said = instance.classes[name].speedup[gpu_type].evidence_at(branch.widths[epochs])
        for epoch, kind in zip(np.arange(branch.widths.size)[epochs].tolist(), said, strict=True):
            kinds[epoch] = kind
    return kinds
