"""Quotas of nothing: GPU types that no plan can use, because their quota is zero or less than any use of it.

Such a type is taken out of the problem, which is then an ordinary one, and put back into its answer: a multiplier of
its quota that no use is worth keeps every proof what it was. Limits next to nothing would otherwise be divided by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from typing import cast

import numpy as np
from pydantic import JsonValue

from optplan.contracts import (
    Answer,
    EnumeratedCertificate,
    Frontier,
    FrontierPoint,
    Infeasibility,
    LagrangianCertificate,
    Relaxation,
    ShadowPrice,
    SolveRequest,
    TreeCertificate,
)
from optplan.contracts.result import Hopeless
from optplan.errors import InfeasibleError, UnsupportedError
from optplan.formulations.boa.data.instance import QUOTA, BoaInstance, BoaSolution
from optplan.formulations.boa.exact.costs import cost_options, find_least, load_of
from optplan.formulations.boa.exact.feasibility import explain_shortfall, state_linked
from optplan.formulations.boa.exact.trees import relax_limit, say_indivisible
from optplan.solvers.paths import linked_dual
from optplan.solvers.paths.search import Effort
from optplan.units import Amount

Solve = Callable[[BoaInstance, SolveRequest], Answer[BoaSolution]]

#: A quota of at most this fraction of the least use of its type leaves a plan, or a mixture, nothing to gain.
_NOTHING = 1e-10
#: What takes the place of such a quota where it has to be a number to divide by, as a fraction of the least use.
_NEXT_TO_NOTHING = 1e-9
#: Steps in which the price of a quota is found, by halves.
_HALVINGS = 50


def without_closed(solve: Solve) -> Solve:
    """Make a solver of problems with quotas above nothing one of problems with any quotas."""

    @wraps(solve)
    def solve_any(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
        closed = find_closed(instance)
        if not closed:
            return solve(instance, request)
        _refuse_floors(instance, closed)
        reduced = take_out(instance, closed)
        if reduced is None:
            return _explain(instance, closed, None, request)
        answer = solve(reduced, request)
        lift = _Lift(instance, reduced, closed)
        if answer.infeasibility is not None:
            return _explain(instance, closed, answer, request)
        certificates = tuple(lift.certificate(each) for each in answer.certificates)
        bounds = [each.bound for each in certificates if each.bound is not None]
        bound = answer.bound if answer.bound is None or not bounds else min(answer.bound, max(bounds))
        return replace(answer, certificates=certificates, bound=bound, shadow_prices=lift.prices(answer))

    return solve_any


def frontier_without_closed(instance: BoaInstance, build: Callable[[BoaInstance], Frontier]) -> Frontier:
    """Make the frontier of a problem with quotas of nothing: that without their types, with proofs of the whole.

    Raises
    ------
    InfeasibleError
        When no budget is enough.
    """
    closed = find_closed(instance)
    _refuse_floors(instance, closed)
    reduced = take_out(instance, closed)
    if reduced is None:
        others = set(instance.gpu_types) - set(closed)
        stuck = next(name for name in instance.classes if not set(instance.options(name).gpu_types) & others)
        why = f"jobs of class {stuck} run on no type but those with a quota of next to nothing ({', '.join(closed)})"
        raise InfeasibleError(f"no budget is enough: {why}; raise a quota, or add a speedup on another type")
    line = build(reduced)

    def lift(point: FrontierPoint) -> FrontierPoint:
        given = instance.replace(budget=Amount(point.budget, instance.budget_unit))
        whole = _Lift(given, reduced, closed)
        price = whole.price(point.shadow_price, abs(point.objective))
        return point.replace(certificate=whole.certificate(point.certificate), shadow_price=price)

    return replace(
        line,
        instance_hash=instance.content_hash(),
        at=lambda budget: lift(line.at(budget)),
        budget_for=lambda objective: lift(line.budget_for(objective)),
    )


def _refuse_floors(instance: BoaInstance, closed: Mapping[str, float]) -> None:
    """Refuse floors where types are closed: without these the most GPUs of a class would be others."""
    if closed and instance.floors:
        types = ", ".join(closed)
        raise UnsupportedError(
            f"floors (least_mean_gpus) do not go with a quota of nothing ({types}): leave the type out of gpu_types"
        )


def find_closed(instance: BoaInstance) -> dict[str, float]:
    """Return by type that no plan can use the least that any use of it would take of its quota."""
    if not instance.quotas:
        return {}
    least = dict.fromkeys(instance.quotas, np.inf)
    for name in instance.classes:
        options, gpus = instance.options(name), cost_options(instance, name).gpus
        use = (load_of(instance, name)[:, None] * gpus / options.speeds).min(axis=0)
        for gpu_type in options.gpu_types:
            if gpu_type in least:
                least[gpu_type] = min(least[gpu_type], float(use[options.of_type(gpu_type)].min()))
    return {
        gpu_type: use if np.isfinite(use) else 1.0
        for gpu_type, use in least.items()
        if instance.quotas[gpu_type] <= (_NOTHING * use if np.isfinite(use) else 0.0)
    }


def take_out(instance: BoaInstance, closed: Mapping[str, float]) -> BoaInstance | None:
    """Return the instance with closed types out of all classes' reach; None when a class has no other type."""
    classes = {}
    for name, job_class in instance.classes.items():
        speedup = {gpu_type: curve for gpu_type, curve in job_class.speedup.items() if gpu_type not in closed}
        if not set(speedup) & set(instance.options(name).gpu_types):
            return None
        classes[name] = job_class.replace(speedup=speedup)
    return instance.replace(classes=classes, gpu_types=_requote(instance, dict.fromkeys(closed, 1.0)))


def _requote(instance: BoaInstance, quotas: Mapping[str, float]) -> dict[str, object]:
    """Return the GPU types with some quotas changed."""
    return {
        name: kind.replace(quota_gpus=quotas[name]) if name in quotas else kind
        for name, kind in instance.gpu_types.items()
    }


class _Lift:
    """From what is proven without the closed types to what is proven with them.

    Any use of a closed type takes at least ``least`` of its quota, so weights of twice all that the other weights can
    amount to, divided by that, make every such use dearer than anything that a proof looks at.
    """

    def __init__(self, instance: BoaInstance, reduced: BoaInstance, closed: Mapping[str, float]) -> None:
        self.instance = instance
        self.reduced = reduced
        self.closed = {f"{QUOTA}{gpu_type}": use for gpu_type, use in closed.items()}
        self.limits = instance.limits

    def raised(self, multipliers: Mapping[str, float], value: float) -> dict[str, float]:
        """Return multipliers with those of closed quotas; ``value`` is what the objective, so weighted, amounts to."""
        paid = sum(amount * self.limits[name] for name, amount in multipliers.items() if name not in self.closed)
        return {
            name: 2.0 * (value + paid) / self.closed[name] if name in self.closed else amount
            for name, amount in multipliers.items()
        }

    def paid(self, multipliers: Mapping[str, float]) -> float:
        """Return what closed quotas are worth: next to nothing."""
        return sum(amount * self.limits[name] for name, amount in multipliers.items() if name in self.closed)

    def certificate(
        self, given: LagrangianCertificate | EnumeratedCertificate | TreeCertificate
    ) -> LagrangianCertificate | EnumeratedCertificate | TreeCertificate:
        """Return what a certificate proves of the whole problem."""
        if isinstance(given, TreeCertificate):
            return self.tree(given)
        if isinstance(given, LagrangianCertificate):
            multipliers = self.raised(given.multipliers, abs(given.bound))
            return given.replace(multipliers=multipliers, bound=given.bound - self.paid(multipliers))
        multipliers = self.raised(given.multipliers, abs(given.bound) + given.allowance)
        return given.replace(multipliers=multipliers, allowance=given.allowance + self.paid(multipliers))

    def tree(self, given: TreeCertificate) -> TreeCertificate:
        """Return a division as the whole problem counts options.

        Options of closed types are closed first, which no path is light enough for.
        """
        names = [limit for limit in self.instance.limit_names if limit != given.limit]
        value = 0.0 if given.bound is None else given.bound
        rows = [self._raise_weights(row, names, value) for row in cast(list[list[float]], given.content["weights"])]
        places = [self._places(name) for name in self.instance.classes]
        numbers = iter(cast(list[int], given.content["tree"]))
        tree: list[JsonValue] = [1, 0]
        for entry in numbers:
            tree += [entry, next(numbers)]
            if entry == 2:
                epoch, first, behind = next(numbers), next(numbers), next(numbers)
                own = places[cast(int, tree[-1])]
                tree += [epoch, int(own[first]), int(own[behind - 1]) + 1]
        return given.replace(content={"weights": cast(JsonValue, rows), "tree": tree})

    def _raise_weights(self, weights: list[float], names: list[str], value: float) -> list[JsonValue]:
        """Return weights of the objective and of limits with those of closed quotas."""
        objective, *others = weights
        return [objective, *self.raised(dict(zip(names, others, strict=True)), objective * value).values()]

    def _places(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        """Return where the options of a class that are left stand among all."""
        known = {label: place for place, label in enumerate(self.instance.options(name).labels)}
        options = self.reduced.options(name)
        types = [options.gpu_types[group] for group in options.group.tolist()]
        labels = options.labels if len(self.instance.options(name).gpu_types) == 1 else None
        named = labels or [f"{kind}.{width}" for kind, width in zip(types, options.widths.tolist(), strict=True)]
        return np.array([known[label] for label in named], dtype=np.intp)

    def prices(self, answer: Answer[BoaSolution]) -> dict[str, ShadowPrice]:
        """Return shadow prices of all limits; that of a closed quota is what makes its first use not worth while."""
        prices = {}
        for limit, price in answer.shadow_prices.items():
            if limit in self.closed:
                prices[limit] = self._price_closed(limit, price)
                continue
            prices[limit] = self.price(price, abs(answer.objective or 0.0))
        return prices

    def price(self, given: ShadowPrice, value: float) -> ShadowPrice:
        """Return a shadow price with multipliers of the whole problem; ``value`` is the objective."""
        less_value = value if given.less is not None else 0.0  # then they weigh no objective
        return given.replace(
            less_multipliers=self.raised(given.less_multipliers, less_value),
            more_multipliers=self.raised(given.more_multipliers, value),
        )

    def _price_closed(self, limit: str, price: ShadowPrice) -> ShadowPrice:
        """Return the least multiplier of a closed quota with which nothing is gained by using its type."""
        names = list(self.instance.limit_names)
        value = sum(find_least(self.reduced, np.array(list(price.more_multipliers.values()))).values())
        multipliers = self.raised(price.more_multipliers, value)
        weights = np.array([multipliers[name] for name in names])
        place = names.index(limit)
        best = sum(find_least(self.instance, weights).values()) * (1.0 - 1e-12)
        low, high = 0.0, float(weights[place])
        for _ in range(_HALVINGS):
            weights[place] = 0.5 * (low + high)
            if sum(find_least(self.instance, weights).values()) >= best:
                high = float(weights[place])
            else:
                low = float(weights[place])
        ends = multipliers | {limit: high}
        less = high if self.limits[limit] > 0.0 else None
        return price.replace(less=less, more=high, less_multipliers={} if less is None else ends, more_multipliers=ends)


def _explain(
    instance: BoaInstance, closed: Mapping[str, float], answer: Answer[BoaSolution] | None, request: SolveRequest
) -> Answer[BoaSolution]:
    """Say why no plan keeps the limits, of which some are nothing.

    What proves it of a quota next to nothing proves it all the more of less. Where only mixtures would keep the limits,
    the division found without the closed types does.
    """
    claim = None if answer is None else answer.infeasibility
    relax = partial(_relax, instance, closed, claim, request)
    next_to = {gpu_type: max(instance.quotas[gpu_type], _NEXT_TO_NOTHING * use) for gpu_type, use in closed.items()}
    family = state_linked(instance.replace(gpu_types=_requote(instance, next_to)))
    if claim is None or claim.multipliers:
        found = linked_dual.maximise_bound(family, effort=Effort(request.stopwatch))
        if isinstance(found, linked_dual.LinkedShortfall):
            return explain_shortfall(instance, family, found, relax)
    reduced = take_out(instance, closed)
    assert answer is not None
    assert claim is not None
    assert reduced is not None
    changes = [relax(limit) for limit in instance.limit_names]
    relaxations = [change for change in changes if isinstance(change, Relaxation)]
    certificate = None if claim.certificate is None else _Lift(instance, reduced, closed).tree(claim.certificate)
    explained = Infeasibility(
        reason=say_indivisible(instance, relaxations),
        relaxations=tuple(relaxations),
        hopeless=tuple(change for change in changes if isinstance(change, Hopeless)),
        certificate=certificate,
    )
    return replace(answer, infeasibility=explained)


def _relax(
    instance: BoaInstance,
    closed: Mapping[str, float],
    claim: Infeasibility | None,
    request: SolveRequest,
    limit: str,
) -> Relaxation | Hopeless | None:
    """Return what pure plans need of a limit; ``claim`` says it, without the closed types, of all but their quotas."""
    others = {gpu_type: use for gpu_type, use in closed.items() if f"{QUOTA}{gpu_type}" != limit}
    left = take_out(instance, others) if others else instance
    if left is None:
        return None
    if len(others) < len(closed):
        change = relax_limit(left, limit, request)
    else:
        known: list[Relaxation | Hopeless] = [] if claim is None else [*claim.relaxations, *claim.hopeless]
        change = next((each for each in known if each.limit == limit), None)
    return None if change is None else _lift_change(_Lift(instance, left, others), change)


def _lift_change(lift: _Lift, change: Relaxation | Hopeless) -> Relaxation | Hopeless:
    """Return a change of one limit with its division as the whole problem counts it."""
    if change.certificate is not None:
        return change.replace(certificate=lift.tree(change.certificate))
    return change.replace(multipliers=lift.raised(change.multipliers, 0.0)) if change.multipliers else change
