"""The judge: checks a result against its instance without any solver or algebraic model.

The formulation's evaluator recomputes objective and constraints from the decisions. Bounds are re-derived from their
certificates: a Lagrangian one by one pass of best paths, an exhaustive one by enumerating, anew and by an algorithm of
its own, everything within the certificate's allowance.
"""

from __future__ import annotations

import time

import numpy as np

from optplan.contracts import (
    BoundProof,
    Check,
    Evaluation,
    ExhaustiveCertificate,
    Instance,
    LagrangianCertificate,
    PathCosts,
    Result,
    Solution,
    Verification,
)
from optplan.contracts.registry import Formulation
from optplan.errors import UsageError
from optplan.formulations import formulation_of
from optplan.schema import FloatArray

#: Relative tolerance of every comparison; scales are stated where they are used.
TOLERANCE = 1e-9
#: How far a general engine's bound may lie above the objective: engines stop at tolerances of about this.
ENGINE_TOLERANCE = 1e-6
#: Relative tolerance of shadow prices: slopes beside a breakpoint are read at a budget that differs by 1e-7.
PRICE_TOLERANCE = 1e-6
#: The most that a multiplier may stretch the tolerance of what its certificate proves, relative to the objective.
CERTIFICATE_TOLERANCE = 1e-6

#: The one limit that certificates price.
_LIMIT = "budget"


def verify(instance: Instance, result: Result[Solution]) -> Verification:
    """Check everything that a result claims.

    Parameters
    ----------
    instance
        The problem.
    result
        What was returned or read for it.

    Returns
    -------
    Verification
        With every check, failures first, and what nobody can check cheaply.

    Raises
    ------
    UsageError
        When the result belongs to another instance.
    """
    start = time.perf_counter()
    formulation = formulation_of(instance)
    if (result.formulation, result.instance_hash) != (formulation.name, instance.content_hash()):
        message = (
            f"the result was made for {result.formulation} instance {result.instance_name!r} with hash "
            f"{result.instance_hash[:12]}, this one is {formulation.name} instance {instance.name!r} with hash "
            f"{instance.content_hash()[:12]}; give the instance it was made for"
        )
        raise UsageError(message)
    judge = _Judge(formulation, instance, result)
    with np.errstate(over="ignore", invalid="ignore"):  # absurd claims overflow, and fail their check by that
        judge.check_solution()
        judge.check_certificates()
        judge.check_bound()
        judge.check_prices()
        judge.check_infeasibility()
    checks = sorted(judge.checks, key=lambda check: check.holds)
    return Verification(checks=tuple(checks), unproven=tuple(judge.unproven), seconds=time.perf_counter() - start)


class _Judge:
    """Collects the checks of one result."""

    def __init__(self, formulation: Formulation, instance: Instance, result: Result[Solution]) -> None:
        self.formulation = formulation
        self.instance = instance
        self.result = result
        self.checks: list[Check] = []
        self.unproven: list[str] = []
        self.evaluation: Evaluation | None = None
        #: Best bound that a certificate proved, rounding included.
        self.proven = float("-inf")
        self._duals: dict[float, float] = {}

    def check_solution(self) -> None:
        """Recompute constraints, objective and measures from the decisions."""
        if self.result.solution is None:
            claims = [("measure", name, value, np.nan) for name, value in self.result.measures.items()]
        else:
            evaluation: Evaluation = self.formulation.loaded("evaluate")(self.instance, self.result.solution)
            self.checks.extend(evaluation.checks)
            if np.isfinite(evaluation.objective):
                self.evaluation = evaluation
            claims = [("objective", "", self.result.objective or 0.0, evaluation.objective)]
            claims += [
                ("measure", name, value, evaluation.measures.get(name, np.nan))
                for name, value in self.result.measures.items()
            ]
        for family, index, claimed, recomputed in claims:
            message = "the result's figure must equal the one recomputed from the decisions"
            self._compare(family, index, claimed, recomputed, TOLERANCE * max(abs(claimed), abs(recomputed)), message)
        if self.result.objective_unit != self.formulation.objective_unit:
            unit = self.formulation.objective_unit
            self._fail("objective", "unit", f"the unit of the objective is {unit}, not {self.result.objective_unit}")

    def check_certificates(self) -> None:
        """Re-derive what each certificate proves."""
        for number, certificate in enumerate(self.result.certificates, start=1):
            index = f"{certificate.form}[{number}]"
            if set(certificate.multipliers) != {_LIMIT}:
                named = ", ".join(certificate.multipliers) or "none"
                self._fail("certificate", index, f"multipliers must name exactly the limit {_LIMIT!r}, not {named}")
                continue
            multiplier = certificate.multipliers[_LIMIT]
            dual = self._dual(multiplier)
            tolerance = self._tolerance(multiplier, max(abs(dual), abs(certificate.bound)))
            if isinstance(certificate, LagrangianCertificate):
                proven = dual
            else:
                proven = self._check_enumeration(certificate, multiplier, dual, tolerance, index)
            message = "the certificate must prove exactly the bound that it states"
            self._compare("certificate", index, certificate.bound, proven, tolerance, message)
            self.proven = max(self.proven, proven + tolerance)

    def _check_enumeration(
        self, certificate: ExhaustiveCertificate, multiplier: float, dual: float, tolerance: float, index: str
    ) -> float:
        """Enumerate anew, compare the optimum and return what follows."""
        graphs = self.formulation.loaded("path_costs")(self.instance)
        best = least_within(graphs, multiplier, certificate.allowance + tolerance, _budget(self.instance))
        reached = dual + certificate.allowance
        if certificate.optimum is not None:
            message = "the optimum must be the least objective within the allowance"
            self._compare("certificate", f"{index} optimum", certificate.optimum, best, tolerance, message)
        elif best < reached - tolerance:
            message = f"there is a plan of objective {best!r} within the allowance, although optimum says none"
            self._fail("certificate", f"{index} optimum", message)
        return min(best, reached)

    def check_bound(self) -> None:
        """Hold the stated bound against its certificates and the objective, or name it as taken on trust."""
        result = self.result
        if result.bound is None:
            return
        if result.bound_proof not in (BoundProof.LAGRANGIAN, BoundProof.EXHAUSTIVE):
            self.unproven.append(f"bound: rests on {result.bound_proof}, which cannot be re-derived cheaply")
        elif result.bound_proof.value not in {certificate.form for certificate in result.certificates}:
            self._fail("bound", "proof", f"the result has no certificate of the form {result.bound_proof}")
        else:
            message = f"a bound called {result.bound_proof} must follow from the result's certificates"
            self._at_most("bound", "", result.bound, self.proven, 0.0, message)
            best = max(certificate.bound for certificate in result.certificates)
            # Rounding, and the tolerance on the limit, may put a certificate above the objective.
            best = best if result.objective is None else min(best, result.objective)
            message = "the bound must be the best one of the result's certificates"
            self._at_most("bound", "best", best, result.bound, TOLERANCE * abs(best), message)
        if result.objective is not None:
            relative = ENGINE_TOLERANCE if result.bound_proof is BoundProof.ENGINE else TOLERANCE
            tolerance = relative * max(abs(result.bound), abs(result.objective))
            self._at_most(
                "bound", "objective", result.bound, result.objective, tolerance, "no bound can lie above the objective"
            )

    def check_prices(self) -> None:
        """Check that both ends of each shadow price are multipliers of the best Lagrangian bound."""
        if self.result.shadow_prices:
            self.unproven.append("shadow prices: they are best multipliers; that none lie beyond them is not checked")
        for limit, price in self.result.shadow_prices.items():
            ends = [end for end in (price.less, price.more) if end is not None]
            if limit != _LIMIT or min(ends) < 0 or ends[0] < price.more:
                self._fail("shadow-price", limit, "prices of the limits from zero on are needed, with less >= more")
                continue
            certified = [c.multipliers[_LIMIT] for c in self.result.certificates if set(c.multipliers) == {_LIMIT}]
            duals = [self._dual(multiplier) for multiplier in ends + certified]
            scale = self._scale(max(ends), max(abs(dual) for dual in duals))
            message = "at a shadow price the dual bound must be as good as at the certificate's multiplier"
            self._at_most("shadow-price", limit, max(duals), min(duals), PRICE_TOLERANCE * scale, message)

    def check_infeasibility(self) -> None:
        """Recompute the least consumption of any plan and hold it against the limit and the relaxation."""
        if self.result.infeasibility is None:
            return
        graphs: list[PathCosts] = self.formulation.loaded("path_costs")(self.instance)
        least_parts = {g.name: float(_reach(g.run_consumption, g.enter_consumption)[-1].min()) for g in graphs}
        least, budget = sum(least_parts.values()), _budget(self.instance)
        message = "an infeasible instance needs more than its limit, even with the least consumption of any plan"
        self._at_most("infeasibility", "", budget * (1 + TOLERANCE), least, 0.0, message)
        for relaxation in self.result.infeasibility.relaxations:
            # The unit is the instance's own, such as money a month: what it is worth shows in the limit as given.
            factor = budget / relaxation.given if relaxation.given else np.nan
            claims = [("", relaxation.least_feasible, least)]
            claims += [(f" {n}", part, least_parts.get(n, np.nan)) for n, part in relaxation.parts.items()]
            message = "the relaxation must be the least consumption of any plan, made of what each part needs"
            for part, claimed, recomputed in claims:
                index, tolerance = relaxation.limit + part, TOLERANCE * recomputed
                self._compare("infeasibility", index, claimed * factor, recomputed, tolerance, message)

    def _dual(self, multiplier: float) -> float:
        if multiplier not in self._duals:
            self._duals[multiplier] = float(self.formulation.loaded("dual_bound")(self.instance, {_LIMIT: multiplier}))
        return self._duals[multiplier]

    def _scale(self, multiplier: float, value: float) -> float:
        """Return what rounding errors are relative to: |value| + mu * |consumption| + mu * limit (design 4.1.6)."""
        priced = multiplier * _budget(self.instance)
        if self.evaluation is None:
            return value + 2.0 * priced
        consumed = multiplier * self.evaluation.consumption[_LIMIT]
        return max(value, abs(self.evaluation.objective)) + consumed + priced

    def _tolerance(self, multiplier: float, value: float) -> float:
        """Return the tolerance of what a multiplier proves.

        A multiplier out of all proportion must not buy a proof by its own rounding errors: where least consumption and
        limit coincide, every large multiplier has a finite dual bound.
        """
        tolerance = TOLERANCE * self._scale(multiplier, value)
        if self.evaluation is None:
            return tolerance
        return min(tolerance, CERTIFICATE_TOLERANCE * abs(self.evaluation.objective))

    def _compare(
        self, family: str, index: str, claimed: float, recomputed: float, tolerance: float, message: str
    ) -> None:
        holds = bool(abs(claimed - recomputed) <= tolerance)
        self._add(family, index, (claimed, recomputed, tolerance), message, holds=holds)

    def _at_most(self, family: str, index: str, left: float, right: float, tolerance: float, message: str) -> None:
        self._add(family, index, (left, right, tolerance), message, holds=bool(left <= right + tolerance))

    def _fail(self, family: str, index: str, message: str) -> None:
        self._add(family, index, (1.0, 0.0, 0.0), message, holds=False)

    def _add(self, family: str, index: str, sides: tuple[float, float, float], message: str, *, holds: bool) -> None:
        # A NaN or an infinity is not fit for JSON; the check has failed already, and says so by ``holds``.
        left, right, tolerance = (float(side) if np.isfinite(side) else 0.0 for side in sides)
        self.checks.append(
            Check(
                family=family,
                index=index,
                left=left,
                right=right,
                tolerance=tolerance,
                holds=holds,
                message=message,
            )
        )


def _budget(instance: Instance) -> float:
    budget: float = instance.budget_gpus()  # type: ignore[attr-defined]
    return budget


def least_within(graphs: list[PathCosts], mu: float, allowance: float, budget: float) -> float:
    """Enumerate what lies within an allowance of the dual bound and return the least value that keeps the budget.

    Parameters
    ----------
    graphs
        What the steps of each graph's paths cost.
    mu
        The multiplier of the budget.
    allowance
        Total reduced cost above the graphs' best paths that a choice may have.
    budget
        Limit on the total consumption.

    Returns
    -------
    float
        Infinity when nothing within the allowance keeps the budget.
    """
    suffixes = [_suffixes_within(graph, mu, allowance) for graph in graphs]
    if not all(value.size for value, _ in suffixes):
        return float("inf")
    least_left = np.append(np.cumsum([c.min() for _, c in reversed(suffixes)])[::-1], 0.0)
    best_left = np.append(np.cumsum([(v + mu * c).min() for v, c in reversed(suffixes)])[::-1], 0.0)
    ceiling = best_left[0] + allowance
    value, consumption = np.zeros(1), np.zeros(1)
    for number, (more_value, more_consumption) in enumerate(suffixes, start=1):
        value = (value[:, None] + more_value).ravel()
        consumption = (consumption[:, None] + more_consumption).ravel()
        kept = (value + mu * consumption + best_left[number] <= ceiling) & (
            consumption + least_left[number] <= budget * (1 + TOLERANCE)
        )
        value, consumption = _undominated(value[kept], consumption[kept])
        if not value.size:
            return float("inf")
    return float(value.min())


def _reach(run: FloatArray, enter: FloatArray) -> FloatArray:
    """Return the least cost (E, K) of a path's beginning that ends at, and includes, a node."""
    reach = np.empty_like(run)
    reach[0] = enter[0] + run[0]
    for layer in range(1, len(run)):
        reach[layer] = run[layer] + np.minimum(reach[layer - 1], reach[layer - 1].min() + enter[layer])
    return reach


def _suffixes_within(graph: PathCosts, mu: float, allowance: float) -> tuple[FloatArray, FloatArray]:
    """List undominated (value, consumption) of a graph's paths within the allowance, from the last layer backwards."""
    reach = _reach(graph.run_value + mu * graph.run_consumption, graph.enter_value + mu * graph.enter_consumption)
    ceiling = reach[-1].min() + allowance
    # after[k]: what can follow node k of the current layer; all that starts by entering some node is shared.
    nothing = (np.zeros(1), np.zeros(1))
    after = dict.fromkeys(np.flatnonzero(reach[-1] <= ceiling).tolist(), nothing)
    for layer in range(len(reach) - 1, 0, -1):
        shared = _entered(graph, layer, after)
        least_shared = (shared[0] + mu * shared[1]).min(initial=np.inf)
        near = set(np.flatnonzero(reach[layer - 1] + least_shared <= ceiling).tolist())
        before: dict[int, tuple[FloatArray, FloatArray]] = {}
        for k in near | set(after):
            options = [shared] if k in near else []
            if k in after:
                v, c = after[k]
                options.append((v + graph.run_value[layer, k], c + graph.run_consumption[layer, k]))
            value, consumption = _joined(options)
            kept = reach[layer - 1, k] + value + mu * consumption <= ceiling
            if kept.any():
                before[k] = _undominated(value[kept], consumption[kept])
        after = before
    return _entered(graph, 0, after)


def _entered(
    graph: PathCosts, layer: int, after: dict[int, tuple[FloatArray, FloatArray]]
) -> tuple[FloatArray, FloatArray]:
    """List what can follow anything by entering a node of a layer."""
    options = [(np.zeros(0), np.zeros(0))]
    for k, (value, consumption) in after.items():
        more_value = graph.run_value[layer, k] + graph.enter_value[layer, k]
        more_consumption = graph.run_consumption[layer, k] + graph.enter_consumption[layer, k]
        options.append((value + more_value, consumption + more_consumption))
    return _undominated(*_joined(options))


def _joined(sets: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([v for v, _ in sets]), np.concatenate([c for _, c in sets])


def _undominated(value: FloatArray, consumption: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Keep the points that no other beats in both coordinates."""
    order = np.lexsort((value, consumption))
    value, consumption = value[order], consumption[order]
    best_before = np.minimum.accumulate(np.concatenate(([np.inf], value)))[:-1]
    kept = value < best_before
    return value[kept], consumption[kept]
