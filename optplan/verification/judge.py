"""Every check of one result."""

from __future__ import annotations

import re
import time

import numpy as np

from optplan.contracts import (
    BoundProof,
    Check,
    Evaluation,
    ExhaustiveCertificate,
    Infeasibility,
    Instance,
    LagrangianCertificate,
    Relaxation,
    Result,
    Sense,
    Solution,
    Verification,
)
from optplan.contracts.registry import Formulation
from optplan.contracts.result import require_result
from optplan.errors import UsageError
from optplan.formulations import formulation_of
from optplan.verification.enumeration import TOLERANCE, least_within

#: How far a general engine's bound may lie above the objective: engines stop at tolerances of about this.
ENGINE_TOLERANCE = 1e-6
#: Relative tolerance of shadow prices: slopes beside a breakpoint are read at a budget that differs by 1e-7.
PRICE_TOLERANCE = 1e-6
#: Largest allowance, relative to bound and objective: beyond it an enumeration would be one of all plans.
_MOST_ALLOWANCE = 1e3
#: The most that a multiplier may stretch the tolerance of what its certificate proves, relative to the objective.
CERTIFICATE_TOLERANCE = 1e-6
#: How far figures in a sentence may lie from what they are rounded from.
WORDING_TOLERANCE = 1e-2

_FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


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
    require_own(instance, result)
    judge = _Judge(formulation, instance, result)
    with np.errstate(over="ignore", invalid="ignore"):  # absurd claims overflow, and fail their check by that
        judge.check_solution()
        judge.check_certificates()
        judge.check_bound()
        judge.check_prices()
        judge.check_infeasibility()
    checks = sorted(judge.checks, key=lambda check: check.holds)
    return Verification(checks=tuple(checks), unproven=tuple(judge.unproven), seconds=time.perf_counter() - start)


def require_own(instance: Instance, result: Result[Solution]) -> None:
    """Raise unless a result was made for an instance.

    Raises
    ------
    UsageError
        When the result belongs to another instance, or is none.
    """
    formulation = formulation_of(instance)
    require_result(result)
    if (result.formulation, result.instance_hash) != (formulation.name, instance.content_hash()):
        message = (
            f"the result was made for {result.formulation} instance {result.instance_name!r} with hash "
            f"{result.instance_hash[:12]}, this one is {formulation.name} instance {instance.name!r} with hash "
            f"{instance.content_hash()[:12]}; give the instance it was made for"
        )
        raise UsageError(message)


class _Judge:
    """Collects the checks of one result."""

    def __init__(self, formulation: Formulation, instance: Instance, result: Result[Solution]) -> None:
        self.formulation = formulation
        self.instance = instance
        self.result = result
        self.checks: list[Check] = []
        self.unproven: list[str] = []
        self.evaluation: Evaluation | None = None
        self.minimises = instance.sense is Sense.MINIMISE
        #: Best bound that a certificate proved, rounding included.
        self.proven = float("-inf") if self.minimises else float("inf")
        self._duals: dict[tuple[float, ...], float] = {}
        self.limits = instance.limits

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
        for field, word in (("objective_unit", "unit"), ("sense", "sense")):
            own, claimed = (getattr(one, field) for one in (self.instance, self.result))
            if own != claimed:
                self._fail("objective", word, f"the {word} of the objective is {own}, not {claimed}")

    def check_certificates(self) -> None:
        """Re-derive what each certificate proves."""
        for number, certificate in enumerate(self.result.certificates, start=1):
            index = f"{certificate.form}[{number}]"
            if set(certificate.multipliers) != set(self.limits):
                named = ", ".join(certificate.multipliers) or "none"
                self._fail("certificate", index, f"multipliers must name exactly {_names(self.limits)}, not {named}")
                continue
            dual = self._dual(certificate.multipliers)
            if not np.isfinite(dual):
                self._fail("certificate", index, "multipliers such as these prove no bound")
                continue
            tolerance = self._tolerance(certificate.multipliers, max(abs(dual), abs(certificate.bound)))
            if isinstance(certificate, LagrangianCertificate):
                proven = dual
            elif not self.minimises:
                self._fail("certificate", index, "enumeration within an allowance proves nothing where more is better")
                continue
            else:
                proven = self._check_enumeration(certificate, dual, tolerance, index)
            message = "the certificate must prove exactly the bound that it states"
            self._compare("certificate", index, certificate.bound, proven, tolerance, message)
            if self.minimises:
                self.proven = max(self.proven, proven + tolerance)
            else:
                self.proven = min(self.proven, proven - tolerance)

    def _check_enumeration(
        self, certificate: ExhaustiveCertificate, dual: float, tolerance: float, index: str
    ) -> float:
        """Enumerate anew, compare the optimum and return what follows.

        What lies further above the dual bound than the optimum cannot be better than it, so that much is looked at and
        no more, whatever the allowance.
        """
        allowance, scale = certificate.allowance, max(abs(dual), abs(self.result.objective or 0.0))
        if not allowance <= _MOST_ALLOWANCE * scale:
            self._fail("certificate", index, "an allowance out of all proportion to the bound proves nothing")
            return dual
        needed = allowance if certificate.optimum is None else min(allowance, max(0.0, certificate.optimum - dual))
        best = self._least_within(certificate.multipliers, needed + tolerance)
        reached = dual + allowance
        if certificate.optimum is not None:
            message = "the optimum must be the least objective within the allowance"
            self._compare("certificate", f"{index} optimum", certificate.optimum, best, tolerance, message)
        elif best < reached - tolerance:
            message = f"there is a plan of objective {best!r} within the allowance, although optimum says none"
            self._fail("certificate", f"{index} optimum", message)
        return min(best, reached)

    def _least_within(self, multipliers: dict[str, float], allowance: float) -> float:
        """Return the least objective of plans that keep the limits and lie within the allowance of the dual bound."""
        if self.formulation.least_within:
            return float(self.formulation.loaded("least_within")(self.instance, multipliers, allowance))
        graphs = self.formulation.loaded("path_costs")(self.instance)
        weights = np.array([multipliers[limit] for limit in self.limits])
        return least_within(graphs, weights, allowance, np.array(list(self.limits.values())))

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
            self._no_better("bound", "", result.bound, self.proven, 0.0, message)
            better, worse = (max, min) if self.minimises else (min, max)
            best = better(certificate.bound for certificate in result.certificates)
            # Rounding, and the tolerance on the limit, may put a certificate beyond the objective.
            best = best if result.objective is None else worse(best, result.objective)
            message = "the bound must be the best one of the result's certificates"
            self._no_better("bound", "best", best, result.bound, TOLERANCE * abs(best), message)
        if result.objective is not None:
            relative = ENGINE_TOLERANCE if result.bound_proof is BoundProof.ENGINE else TOLERANCE
            tolerance = relative * max(abs(result.bound), abs(result.objective))
            message = f"no bound can lie {'above' if self.minimises else 'below'} the objective"
            self._no_better("bound", "objective", result.bound, result.objective, tolerance, message)

    def check_prices(self) -> None:
        """Check that both ends of each shadow price are multipliers of the best Lagrangian bound."""
        if self.result.shadow_prices:
            self.unproven.append("shadow prices: they are best multipliers; that none lie beyond them is not checked")
        certified = [c.multipliers for c in self.result.certificates if set(c.multipliers) == set(self.limits)]
        for limit, price in self.result.shadow_prices.items():
            ends = [end for end in (price.less, price.more) if end is not None]
            if limit not in self.limits or min(ends) < 0 or ends[0] < price.more:
                self._fail("shadow-price", limit, "prices of the limits from zero on are needed, with less >= more")
                continue
            unit = self.instance.price_unit(limit)
            if price.unit != unit:
                self._fail("shadow-price", limit, f"the unit must be {unit!r}, not {price.unit!r}")
            if len(self.limits) == 1:
                self._check_price_ends(limit, ends, certified)
            elif certified:
                # The other multipliers differ at the ends, and are not part of the result.
                least, most = price.more, np.inf if price.less is None else price.less
                slack = PRICE_TOLERANCE * max(most if np.isfinite(most) else least, certified[0][limit])
                message = "the certificate's multiplier must lie between the two ends of the shadow price"
                self._at_most("shadow-price", f"{limit} more", least, certified[0][limit], slack, message)
                if price.less is not None:
                    self._at_most("shadow-price", f"{limit} less", certified[0][limit], most, slack, message)

    def _check_price_ends(self, limit: str, ends: list[float], certified: list[dict[str, float]]) -> None:
        duals = [self._dual(multipliers) for multipliers in [{limit: end} for end in ends] + certified]
        scale = self._scale({limit: max(ends)}, max(abs(dual) for dual in duals))
        message = "at a shadow price the dual bound must be as good as at the certificate's multiplier"
        self._at_most("shadow-price", limit, max(duals), min(duals), PRICE_TOLERANCE * scale, message)

    def check_infeasibility(self) -> None:
        """Recompute what plans need at least and hold it against the limits and the relaxations."""
        infeasibility = self.result.infeasibility
        if infeasibility is None:
            return
        if not self.formulation.least_consumption:
            self._check_exhausted(infeasibility)
            return
        if set(infeasibility.multipliers) != set(self.limits):
            named = ", ".join(infeasibility.multipliers) or "none"
            self._fail("infeasibility", "", f"multipliers must name exactly {_names(self.limits)}, not {named}")
            return
        least = sum(self._least(infeasibility.multipliers).values())
        most = sum(infeasibility.multipliers[limit] * amount for limit, amount in self.limits.items())
        if not most > 0:
            self._fail("infeasibility", "", "multipliers that are all zero prove nothing")
            return
        message = "an infeasible instance needs more than its limits, in the sum weighted by the multipliers"
        self._at_most("infeasibility", "", most * (1 + TOLERANCE), least, 0.0, message)
        message, factor = "the factor by which all limits would have to grow must be proven", least / most
        self._compare("infeasibility", "factor", infeasibility.factor, factor, TOLERANCE * factor, message)
        self._check_which_help(infeasibility)
        for relaxation in infeasibility.relaxations:
            self._check_relaxation(relaxation)
        self._check_reason(infeasibility)

    def _check_exhausted(self, infeasibility: Infeasibility) -> None:
        """Check what is said of an infeasible instance whose proof is that a search looked at everything."""
        listed = [relaxation.limit for relaxation in infeasibility.relaxations]
        for relaxation in infeasibility.relaxations:
            limit = relaxation.limit
            if limit not in self.limits or listed.count(limit) > 1:
                self._fail("infeasibility", limit, f"one relaxation of each of {_names(self.limits)} is enough")
            else:
                self._check_statement(relaxation)
            if relaxation.parts or relaxation.multipliers:
                self._fail("infeasibility", limit, "this formulation has no parts and no multipliers to check")
        if infeasibility.multipliers:
            self._fail("infeasibility", "", "this formulation has no multipliers to check")
        self._check_reason(infeasibility)
        self.unproven.append("infeasibility: that a search found nothing, and nothing less that helps, is not checked")

    def _check_which_help(self, infeasibility: Infeasibility) -> None:
        """Check which limits have a relaxation: each one once, the only one always, none that cannot help."""
        listed = [relaxation.limit for relaxation in infeasibility.relaxations]
        for limit, multiplier in infeasibility.multipliers.items():
            if listed.count(limit) > 1:
                self._fail("infeasibility", limit, "one relaxation of a limit is enough")
            elif limit in listed and multiplier == 0.0:
                self._fail("infeasibility", limit, "the proof does without this limit, so that no value of it helps")
            elif limit not in listed and len(self.limits) == 1:
                self._fail("infeasibility", limit, "a relaxation that helps is missing")
            elif limit not in listed and multiplier > 0.0:
                self.unproven.append(f"infeasibility: that {limit} alone cannot mend it is not checked")
        if listed and len(self.limits) > 1:
            self.unproven.append(
                "infeasibility: no less helps than the relaxations say; that so much does is not checked"
            )

    def _check_reason(self, infeasibility: Infeasibility) -> None:
        """Check that the sentence has the figures of the relaxations; the rest of it is words."""
        figures = [float(figure.replace(",", "")) for figure in _FIGURE.findall(infeasibility.reason)]
        for relaxation in infeasibility.relaxations:
            for wanted in (relaxation.given, relaxation.least_feasible):
                nearest = min(figures, key=lambda figure: abs(figure - wanted), default=0.0)
                message = "the reason must state each limit and its relaxation as they are"
                self._compare("infeasibility", "reason", nearest, wanted, WORDING_TOLERANCE * abs(wanted), message)
        self.unproven.append("infeasibility: the reason is a sentence; its figures are checked, its words are not")

    def _check_relaxation(self, relaxation: Relaxation) -> None:
        """Check that a limit is what the instance says, and its relaxation what its multipliers prove."""
        limit = relaxation.limit
        weights = dict.fromkeys(self.limits, 0.0) | relaxation.multipliers
        if limit not in self.limits or set(weights) != set(self.limits) or weights[limit] != 1.0:
            message = f"multipliers of {_names(self.limits)} are needed, with 1 for the limit that is relaxed"
            self._fail("infeasibility", limit, message)
            return
        given = self._check_statement(relaxation)
        # The unit is the instance's own, such as money a month: what it is worth shows in the limit as given.
        factor = self.limits[limit] / given
        parts = self._least(weights)
        others = sum(weights[other] * amount for other, amount in self.limits.items() if other != limit)
        claims = [("", relaxation.least_feasible, sum(parts.values()) - others)]
        claims += [(f" {name}", part, parts.get(name, np.nan)) for name, part in relaxation.parts.items()]
        message = "the relaxation must be the least that any plan needs, made of what each part needs"
        for part, claimed, recomputed in claims:
            scale = sum(parts.values()) + others
            self._compare("infeasibility", limit + part, claimed * factor, recomputed, TOLERANCE * scale, message)

    def _check_statement(self, relaxation: Relaxation) -> float:
        """Check that a relaxation states the limit as the instance gives it, which is returned, and asks for more."""
        limit = relaxation.limit
        given, unit = self.instance.limit_as_given(limit)
        message = "the relaxation must state the limit as the instance gives it"
        self._compare("infeasibility", f"{limit} given", relaxation.given, given, TOLERANCE * given, message)
        if relaxation.unit != unit:
            self._fail("infeasibility", f"{limit} unit", f"the unit must be {unit!r}, not {relaxation.unit!r}")
        message = "a limit that is too low needs more than the instance gives"
        self._at_most("infeasibility", limit, given * (1 + TOLERANCE), relaxation.least_feasible, 0.0, message)
        return given

    def _least(self, multipliers: dict[str, float]) -> dict[str, float]:
        """Return by part the least weighted consumption of any plan."""
        weights = np.array([multipliers[limit] for limit in self.limits])
        least: dict[str, float] = self.formulation.loaded("least_consumption")(self.instance, weights)
        return least

    def _dual(self, multipliers: dict[str, float]) -> float:
        key = tuple(multipliers[limit] for limit in self.limits)
        if key not in self._duals:
            self._duals[key] = float(self.formulation.loaded("dual_bound")(self.instance, multipliers))
        return self._duals[key]

    def _scale(self, multipliers: dict[str, float], value: float) -> float:
        """Return what rounding errors are relative to: |value| + mu * |consumption| + mu * limit (design 4.1.6)."""
        priced = sum(multipliers[limit] * amount for limit, amount in self.limits.items())
        if self.evaluation is None:
            return value + 2.0 * priced
        consumed = sum(multipliers[limit] * self.evaluation.consumption[limit] for limit in self.limits)
        return max(value, abs(self.evaluation.objective)) + consumed + priced

    def _tolerance(self, multipliers: dict[str, float], value: float) -> float:
        """Return the tolerance of what multipliers prove.

        A multiplier out of all proportion must not buy a proof by its own rounding errors: where least consumption and
        limit coincide, every large multiplier has a finite dual bound.
        """
        tolerance = TOLERANCE * self._scale(multipliers, value)
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

    def _no_better(self, family: str, index: str, claimed: float, known: float, tolerance: float, message: str) -> None:
        """Check that a bound does not claim more than is known: no higher where less is better, else no lower."""
        ends = (claimed, known) if self.minimises else (known, claimed)
        self._at_most(family, index, *ends, tolerance, message)

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


def _names(limits: dict[str, float]) -> str:
    return ", ".join(repr(limit) for limit in limits)
