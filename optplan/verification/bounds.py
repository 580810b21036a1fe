"""Bounds derived again: certificates, the bound that rests on them, and shadow prices."""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts import (
    BoundProof,
    Certificate,
    EnumeratedCertificate,
    LagrangianCertificate,
    ShadowPrice,
    Status,
    Termination,
    TreeCertificate,
)
from optplan.contracts.judgement import JUDGE_ROUNDING, UnlistedError
from optplan.contracts.registry import is_outside
from optplan.contracts.result import CERTIFIED
from optplan.judging.enumeration import least_divided, least_within
from optplan.verification.findings import ROUNDING, TOLERANCE, UNCHECKED, Findings

#: How far a general engine's bound may lie above the objective: engines stop at tolerances of about this.
ENGINE_TOLERANCE = 1e-6
#: Relative tolerance of shadow prices: slopes beside a breakpoint are read at a budget that differs by 1e-7.
PRICE_TOLERANCE = 1e-6
#: The most that a multiplier may stretch the tolerance of what its certificate proves, relative to the objective.
CERTIFICATE_TOLERANCE = 1e-6
#: Largest allowance, relative to bound and objective: beyond it an enumeration would be one of all plans.
_MOST_ALLOWANCE = 1e3
#: How far beyond the end of a shadow price the dual bound is looked at, and the least by which it must have fallen
#: there, both relative: less is indistinguishable from rounding.
_BEYOND, _LEAST_FALL = 1e-3, 1e-11


class BoundJudge:
    """Derives what certificates prove, and compares the bound and the shadow prices with it."""

    def __init__(self, findings: Findings) -> None:
        self.found = findings
        #: By form, the best bound that a certificate of it proved, rounding included.
        self.proven: dict[str, float] = {}
        #: Whether time was too short for some certificate.
        self.unfinished = False

    def check_certificates(self) -> None:
        """Derive anew what each certificate proves; those of a kind that proves nothing here are refused."""
        for number, certificate in enumerate(self.found.result.certificates, start=1):
            index = f"{certificate.form}[{number}]"
            if BoundProof(certificate.form) not in self.found.accepted:
                message = f"a certificate of the form {certificate.form} proves nothing about this problem"
                self.found.fail("certificate", index, message)
            elif isinstance(certificate, TreeCertificate):
                self._check_tree(certificate, index)
            elif self.found.names_all_limits("certificate", index, certificate.multipliers):
                try:
                    self._check_multipliers(certificate, index)
                except UNCHECKED as error:
                    self.unfinished = True
                    self.found.leave(f"certificate {index}:", error)
                except UnlistedError as error:
                    self.found.fail("certificate", index, f"the certificate does not prove what it claims: {error}")
                    self.found.unlisted.append(f"certificate {index}")

    def _check_tree(self, certificate: TreeCertificate, index: str) -> None:
        if certificate.bound is None or certificate.limit:
            self.found.fail("certificate", index, "a certificate of the bound must be about the objective")
            return
        trusted = len(self.found.on_trust)
        if self.found.check_tree(certificate, "certificate", index):
            self._take(certificate, certificate.bound, 0.0)
        self.unfinished |= len(self.found.on_trust) > trusted

    def _check_multipliers(self, certificate: LagrangianCertificate | EnumeratedCertificate, index: str) -> None:
        found, multipliers = self.found, certificate.multipliers
        dual = found.dual(multipliers)
        scale = found.scale(multipliers, abs(dual))
        reference = abs(dual) if found.evaluation is None else abs(found.evaluation.objective)
        if not np.isfinite(dual):
            found.fail("certificate", index, "multipliers such as these prove no bound")
            return
        if not JUDGE_ROUNDING * scale <= CERTIFICATE_TOLERANCE * reference and scale > 0.0:
            message = "these multipliers prove no bound: it would be lost in the rounding of what they weigh"
            found.fail("certificate", index, message)
            return
        # A multiplier out of all proportion must not buy a proof by its own rounding errors: where least consumption
        # and limit coincide, every large multiplier has a finite dual bound.
        tolerance = min(TOLERANCE * max(scale, abs(certificate.bound)), CERTIFICATE_TOLERANCE * reference)
        if isinstance(certificate, LagrangianCertificate):
            proven = dual
        else:
            proven = self._check_enumeration(certificate, dual, tolerance, index)
        message = "the certificate must prove exactly the bound that it states"
        found.compare("certificate", index, certificate.bound, proven, tolerance, message)
        self._take(certificate, proven, tolerance)

    def _take(self, certificate: Certificate, bound: float, tolerance: float) -> None:
        """Note what a certificate proves, for bounds that are said to rest on one of its form."""
        better, proven = (max, bound + tolerance) if self.found.minimises else (min, bound - tolerance)
        self.proven[certificate.form] = better(self.proven.get(certificate.form, proven), proven)

    def _check_enumeration(
        self, certificate: EnumeratedCertificate, dual: float, tolerance: float, index: str
    ) -> float:
        """Enumerate anew, compare the optimum and return what follows."""
        # What lies further above the dual bound than the optimum cannot be better than it, so that much is looked at
        # and no more, whatever the allowance.
        found = self.found
        allowance, scale = certificate.allowance, max(abs(dual), abs(found.result.objective or 0.0))
        needed = allowance if certificate.optimum is None else min(allowance, max(0.0, certificate.optimum - dual))
        best = math.inf
        if needed <= _MOST_ALLOWANCE * max(scale, abs(certificate.optimum or 0.0)):
            best = self._least_within(certificate, dual + needed + tolerance, needed + tolerance, index)
        if not allowance <= _MOST_ALLOWANCE * (scale if best == math.inf else max(scale, abs(best))):
            found.fail("certificate", index, "an allowance out of all proportion to the bound proves nothing")
            return dual
        reached = dual + allowance
        if certificate.optimum is not None:
            message = "the optimum must be the least objective within the allowance"
            found.at_most("certificate", f"{index} optimum", certificate.optimum, best, tolerance, message)
            # A plan on the very line where the tolerance of a limit ends need not be found again.
            best = min(best, certificate.optimum)
        elif best < reached - tolerance:
            message = f"there is a plan of objective {best!r} within the allowance, although optimum says none"
            found.fail("certificate", f"{index} optimum", message)
        return min(best, reached)

    def _least_within(self, certificate: EnumeratedCertificate, below: float, allowance: float, index: str) -> float:
        """Return the least objective of plans that keep the limits and lie within the allowance of the dual bound.

        Where the certificate divides, of those that are ``below`` dual bound + allowance.
        """
        found, multipliers = self.found, certificate.multipliers
        if found.formulation.declares("least_within"):
            judged = found.formulation.least_within
            return float(judged(found.instance, multipliers, allowance, found.stopwatch))
        graphs = found.formulation.path_costs(found.instance)
        most = np.array(list(found.limits.values())) * (1 + TOLERANCE - ROUNDING)
        further = [each for each in certificate.further if found.names_all_limits("certificate", index, each)]
        prices = np.array([[1.0, *(each[limit] for limit in found.limits)] for each in (multipliers, *further)])
        if not certificate.divided:
            return least_within(graphs, prices[0], allowance, most, found.stopwatch)
        first = [number for name in certificate.divided for number, graph in enumerate(graphs) if graph.name == name]
        ceilings = (below + prices[:, 1:] @ most) * (1 + TOLERANCE)
        if len(set(first)) < len(certificate.divided) or not np.isfinite(ceilings).all():
            found.fail("certificate", index, "classes are divided once each, at multipliers that leave a bound")
            return -math.inf
        return least_divided(graphs, first, prices, ceilings, most, found.stopwatch)

    def check_bound(self) -> None:
        """Compare the stated bound with its certificates and the objective, or name it as taken on trust."""
        found, result = self.found, self.found.result
        if result.bound is None:
            return
        if result.bound_proof not in CERTIFIED:
            claim = f"bound: rests on {_TRUSTED[result.bound_proof]}, which has no certificate"
            own = f", and holds for plans that keep its user's own {', '.join(result.own_constraints)}"
            found.on_trust.append(claim + own if result.own_constraints else claim)
        elif result.bound_proof.value not in {certificate.form for certificate in result.certificates}:
            found.fail("bound", "proof", f"the result has no certificate of the form {result.bound_proof}")
        elif self.unfinished:
            found.on_trust.append(f"bound: its certificate was not checked within {found.end}")
        else:
            self._check_best(result.bound)
        if result.objective is not None:
            relative = ENGINE_TOLERANCE if result.bound_proof is BoundProof.ENGINE else TOLERANCE
            tolerance = relative * max(abs(result.bound), abs(result.objective))
            message = f"no bound can lie {'above' if found.minimises else 'below'} the objective"
            found.no_better("bound", "objective", result.bound, result.objective, tolerance, message)

    def _check_best(self, bound: float) -> None:
        """Check that the bound follows from the certificates, and is the best that they prove."""
        found, result = self.found, self.found.result
        message = f"a bound called {result.bound_proof} must follow from the result's certificates of that form"
        nothing = float("-inf") if found.minimises else float("inf")
        found.no_better("bound", "", bound, self.proven.get(result.bound_proof.value, nothing), 0.0, message)
        better, worse = (max, min) if found.minimises else (min, max)
        stated = [certificate.bound for certificate in result.certificates if certificate.bound is not None]
        best = better(stated, default=bound)
        # Rounding, and the tolerance on the limit, may put a certificate beyond the objective.
        best = best if result.objective is None else worse(best, result.objective)
        message = "the bound must be the best one of the result's certificates"
        found.no_better("bound", "best", best, bound, TOLERANCE * abs(best), message)

    def check_prices(self) -> None:
        """Check that the ends of each shadow price are multipliers of the best bound, and that none is missing."""
        found, result = self.found, self.found.result
        certified = [
            c.multipliers
            for c in result.certificates
            if isinstance(c, LagrangianCertificate) and set(c.multipliers) == set(found.limits)
        ]
        for limit, price in result.shadow_prices.items():
            ends = [end for end in (price.less, price.more) if end is not None]
            if limit not in found.limits or min(ends) < 0 or ends[0] < price.more:
                message = "prices of the limits from zero on are needed, with less >= more"
                found.fail("shadow-price", limit, message)
                continue
            unit = found.instance.price_unit(limit)
            if price.unit != unit:
                found.fail("shadow-price", limit, f"the unit must be {unit!r}, not {price.unit!r}")
            if price.less is None:
                self._check_least(limit, price)
            if len(found.limits) == 1:
                self._check_ends(limit, price, [{limit: end} for end in ends], certified)
                self._check_extent(limit, price)
            else:
                self._check_linked_ends(limit, price, certified)
        gives_prices = not is_outside(result.solver) and found.formulation.solver(result.solver).prices
        # Every limit has a price, unless the solver was stopped before it could ask for them.
        ended = result.status is Status.OPTIMAL and result.termination is Termination.COMPLETED
        for limit in found.limits if gives_prices and certified and ended else ():
            if limit not in result.shadow_prices:
                message = f"solver {result.solver!r} gives the shadow price of every limit, and this one is missing"
                found.fail("shadow-price", limit, message)

    def _check_least(self, limit: str, price: ShadowPrice) -> None:
        """Check that no plan keeps less of a limit, as a price without its ``less`` end says."""
        found, amount = self.found, self.found.limits[limit]
        if amount == 0.0:  # there is nothing less than nothing
            return
        weights = price.less_multipliers if len(found.limits) > 1 else {limit: 1.0}
        if not found.formulation.declares("least_consumption") or not weights:
            found.on_trust.append(f"shadow price of {limit}: that nothing less is feasible")
            return
        if not found.names_all_limits("shadow-price", f"{limit} least", weights):
            return
        in_order = np.array([weights[name] for name in found.limits])
        least = sum(found.formulation.least_consumption(found.instance, in_order, found.stopwatch).values())
        others = sum(weights[name] * most for name, most in found.limits.items() if name != limit)
        if weights[limit] != 1.0 or not JUDGE_ROUNDING * (others + amount) <= PRICE_TOLERANCE * amount:
            message = "weights with 1 for the limit are needed, and others in proportion to it"
            found.fail("shadow-price", f"{limit} least", message)
            return
        message = "a price without the end for less says that no plan needs less than the limit"
        found.at_most("shadow-price", f"{limit} least", amount, least - others, PRICE_TOLERANCE * amount, message)

    def _check_ends(
        self, limit: str, price: ShadowPrice, ends: list[dict[str, float]], certified: list[dict[str, float]]
    ) -> None:
        duals = [self.found.dual(multipliers) for multipliers in ends + certified]
        most = {name: max(end[name] for end in ends) for name in self.found.limits}
        scale = self.found.scale(most, max(abs(dual) for dual in duals))
        message = "at a shadow price the dual bound must be as good as at the certificate's multiplier"
        self.found.at_most("shadow-price", limit, max(duals), min(duals), PRICE_TOLERANCE * scale, message)
        if price.less_multipliers and len(self.found.limits) == 1:
            self.found.fail("shadow-price", limit, "multipliers of the ends belong to several limits")

    def _check_extent(self, limit: str, price: ShadowPrice) -> None:
        """Look a little beyond both ends: where the dual bound is as good there, they are not the ends."""
        # The dual function is concave, so what falls a little beyond an end falls everywhere beyond it. Where it falls
        # by no more than rounding, nobody can tell.
        best = self.found.dual({limit: price.more})
        # A limit with room to spare has the price zero; what lies beyond it is measured by the objective.
        step = _BEYOND * abs(best) / self.found.limits[limit]
        beyond = [] if price.less is None else [price.less * (1.0 + _BEYOND) or step]
        beyond += [price.more * (1.0 - _BEYOND)] if price.more > 0.0 else []
        for other in beyond:
            fall = best - self.found.dual({limit: other})
            if not abs(fall) > _LEAST_FALL * self.found.scale({limit: other}, abs(best)):
                self.found.on_trust.append(f"shadow price of {limit}: that no multiplier beyond it is as good")
                return

    def _check_linked_ends(self, limit: str, price: ShadowPrice, certified: list[dict[str, float]]) -> None:
        """Derive the dual bound at the multipliers that an end was found with; that none lie beyond is not checked."""
        found = self.found
        ends = []
        for name, end, multipliers in (
            ("less", price.less, price.less_multipliers),
            ("more", price.more, price.more_multipliers),
        ):
            if end is None:
                continue
            if not multipliers:
                found.on_trust.append(f"shadow price of {limit}: its {name} end has no multipliers to check it by")
            elif found.names_all_limits("shadow-price", f"{limit} {name}", multipliers):
                message = "the multipliers of an end must have the price itself for its limit"
                tolerance = PRICE_TOLERANCE * max(end, multipliers[limit])
                found.compare("shadow-price", f"{limit} {name}", end, multipliers[limit], tolerance, message)
                ends.append(multipliers)
        if ends:
            self._check_ends(limit, price, ends, certified)
            found.never_checked.append(f"shadow price of {limit}: that no best multipliers lie beyond its ends")


#: What a bound without a certificate rests on.
_TRUSTED = {
    BoundProof.ENGINE: "a general engine's word",
    BoundProof.SEARCHED: "a search",
    BoundProof.NONE: "nothing",
}
