"""Infeasibility judged: that no plan keeps the limits, what least change would help, and what cannot help."""

from __future__ import annotations

import re

import numpy as np

from optplan.contracts import Infeasibility, Relaxation
from optplan.contracts.result import Hopeless
from optplan.errors import OptplanError
from optplan.verification.findings import ROUNDING, TOLERANCE, Findings

#: How far figures in a sentence may lie from what they are rounded from.
WORDING_TOLERANCE = 1e-2

_FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_FAMILY = "infeasibility"


class InfeasibilityJudge:
    """Checks what a result says of an instance that no plan can solve."""

    def __init__(self, findings: Findings, infeasibility: Infeasibility) -> None:
        self.found = findings
        self.claim = infeasibility
        self.limits = findings.limits

    def check(self) -> None:
        """Check the proof, every relaxation, every limit that is said not to help, and the figures of the sentence."""
        if self.claim.certificate is not None:
            self._check_certificate()
        elif self.claim.multipliers and self.found.formulation.declares("least_consumption"):
            self._check_multipliers()
        elif self.claim.multipliers:
            self.found.fail(_FAMILY, "", "multipliers prove nothing about this problem")
        else:
            self.found.on_trust.append(f"{_FAMILY}: it has no certificate; that no plan keeps the limits")
        self._check_every_limit()
        # A limit that is named twice has failed, and is looked at once.
        for relaxation in {one.limit: one for one in self.claim.relaxations}.values():
            self.found.stopwatch.require()
            self._check_relaxation(relaxation)
        for hopeless in {one.limit: one for one in self.claim.hopeless}.values():
            self.found.stopwatch.require()
            self._check_hopeless(hopeless)
        self._check_reason()

    def _check_certificate(self) -> None:
        certificate = self.claim.certificate
        assert certificate is not None
        if certificate.bound is not None or certificate.limit:
            self.found.fail(_FAMILY, "certificate", "it must say that no plan at all keeps the limits")
        elif not self.found.check_tree(certificate, _FAMILY, "certificate") and self.found.end:
            self.found.on_trust.append(f"{_FAMILY}: it was not checked within {self.found.end}")
        if self.claim.multipliers or self.claim.factor != 1.0:
            self.found.fail(_FAMILY, "factor", "beside a certificate there are no multipliers and no factor")

    def _check_multipliers(self) -> None:
        """Recompute what plans need at least, weighted by the multipliers, and compare it with the limits."""
        multipliers = self.claim.multipliers
        if not self.found.names_all_limits(_FAMILY, "", multipliers):
            return
        least = sum(self._least(multipliers).values())
        most = sum(multipliers[limit] * amount for limit, amount in self.limits.items())
        if not most > 0:
            # Limits of zero alone have no factor by which they could grow; more than nothing is still more.
            message = "multipliers that weigh nothing prove nothing"
            self.found.at_most(_FAMILY, "", 0.0, least, 0.0, message) if least > 0 else self.found.fail(
                _FAMILY, "", message
            )
            return
        message = "an infeasible instance needs more than its limits, in the sum weighted by the multipliers"
        self.found.at_most(_FAMILY, "", most * (1 + TOLERANCE - ROUNDING), least, 0.0, message)
        message, factor = "the factor by which all limits would have to grow must be proven", least / most
        self.found.compare(_FAMILY, "factor", self.claim.factor, factor, TOLERANCE * factor, message)

    def _check_every_limit(self) -> None:
        """Have each limit once, among those that help alone or among those that cannot."""
        named = [one.limit for one in self.claim.relaxations] + [one.limit for one in self.claim.hopeless]
        for limit in self.limits:
            if named.count(limit) > 1:
                self.found.fail(_FAMILY, limit, "a limit either helps or does not: name it once")
            elif limit not in named and len(self.limits) == 1 and self.claim.multipliers:
                self.found.fail(_FAMILY, limit, "a relaxation that helps is missing")
            elif limit not in named:
                self.found.on_trust.append(f"{_FAMILY}: that {limit} alone cannot mend it")

    def _check_relaxation(self, relaxation: Relaxation) -> None:
        """Check that a limit is what the instance says, and that no less than its relaxation helps."""
        limit = relaxation.limit
        if limit not in self.limits:
            self.found.fail(_FAMILY, limit, f"the limits are {_names(self.limits)}")
            return
        given = self._check_statement(relaxation)
        # The unit is the instance's own, such as money a month: what it is worth shows in the limit as given.
        factor = self.limits[limit] / given if given else 1.0
        least = self.found.instance.count_limit(limit, relaxation.least_feasible)
        self._check_enough(relaxation, least)
        certificate = relaxation.certificate
        if certificate is not None:
            if certificate.limit != limit or certificate.bound is None:
                self.found.fail(_FAMILY, limit, "the certificate must be about this limit, and have a bound")
                return
            message = "the relaxation must be what its certificate proves"
            tolerance = TOLERANCE * abs(certificate.bound)
            self.found.compare(_FAMILY, limit, least, certificate.bound, tolerance, message)
            self.found.check_tree(certificate, _FAMILY, f"{limit} certificate")
        elif relaxation.multipliers and self.found.formulation.declares("least_consumption"):
            self._check_weights(relaxation, least, factor)
        elif self.found.formulation.declares("least_consumption") and len(self.limits) == 1:
            self.found.fail(_FAMILY, limit, f"multipliers of {_names(self.limits)} are needed, with 1 for this one")
        else:
            self.found.on_trust.append(f"{_FAMILY}: that no {limit} below the relaxation helps")

    def _check_weights(self, relaxation: Relaxation, least: float, factor: float) -> None:
        """Recompute the least that any plan needs of a limit, by the relaxation's multipliers."""
        limit = relaxation.limit
        weights = dict.fromkeys(self.limits, 0.0) | relaxation.multipliers
        if set(weights) != set(self.limits) or weights[limit] != 1.0:
            message = f"multipliers of {_names(self.limits)} are needed, with 1 for the limit that is relaxed"
            self.found.fail(_FAMILY, limit, message)
            return
        parts = self._least(weights)
        others = sum(weights[other] * amount for other, amount in self.limits.items() if other != limit)
        claims = [("", least, sum(parts.values()) - others)]
        # Parts that other limits' weights are mixed into are no amounts of this limit, and one part is the whole.
        alone = sum(part != 0.0 for part in parts.values()) > 1 and not any(
            weights[other] for other in self.limits if other != limit
        )
        if alone and not relaxation.parts:
            self.found.on_trust.append(f"{_FAMILY}: what its relaxation of {limit} is made of")
        elif relaxation.parts and set(relaxation.parts) != set(parts):
            self.found.fail(_FAMILY, f"{limit} parts", f"the parts are {', '.join(parts)}")
        claims += [(f" {name}", part * factor, parts.get(name, np.nan)) for name, part in relaxation.parts.items()]
        message = "the relaxation must be the least that any plan needs, made of what each part needs"
        for part, claimed, recomputed in claims:
            scale = sum(parts.values()) + others
            self.found.compare(_FAMILY, limit + part, claimed, recomputed, TOLERANCE * scale, message)

    def _check_hopeless(self, hopeless: Hopeless) -> None:
        """Check that without this limit there is still no plan that keeps the others."""
        limit, weights, index = hopeless.limit, hopeless.multipliers, f"{hopeless.limit} hopeless"
        if limit not in self.limits:
            self.found.fail(_FAMILY, index, f"the limits are {_names(self.limits)}")
        elif hopeless.certificate is not None:
            if hopeless.certificate.limit != limit or hopeless.certificate.bound is not None:
                self.found.fail(_FAMILY, index, "the certificate must say that no value of this limit helps")
            else:
                self.found.check_tree(hopeless.certificate, _FAMILY, index)
        elif not weights or not self.found.formulation.declares("least_consumption"):
            self.found.on_trust.append(f"{_FAMILY}: that {limit} alone cannot mend it")
        elif self.found.names_all_limits(_FAMILY, index, weights):
            if weights[limit] != 0.0:
                self.found.fail(_FAMILY, index, "the proof that it cannot help must do without this limit")
                return
            most = sum(weights[other] * amount for other, amount in self.limits.items())
            message = "the other limits must be too low without this one"
            least = sum(self._least(weights).values())
            if not least > 0:
                self.found.fail(_FAMILY, index, "multipliers that weigh nothing prove nothing")
                return
            self.found.at_most(_FAMILY, index, most * (1 + TOLERANCE - ROUNDING), least, 0.0, message)

    def _check_reason(self) -> None:
        """Check that the sentence has the figures of the relaxations; the rest of it is words."""
        figures = np.sort([float(figure.replace(",", "")) for figure in _FIGURE.findall(self.claim.reason)])
        for relaxation in self.claim.relaxations:
            for wanted in (relaxation.given, relaxation.least_feasible):
                place = int(np.searchsorted(figures, wanted))
                beside = figures[max(0, place - 1) : place + 1].tolist()
                nearest = min(beside, key=lambda figure: abs(figure - wanted), default=float("nan"))
                message = "the reason must state each limit and its relaxation as they are"
                tolerance = WORDING_TOLERANCE * abs(wanted)
                self.found.compare(_FAMILY, "reason", nearest, wanted, tolerance, message)
        self.found.never_checked.append(f"{_FAMILY}: the words of the reason; its figures are checked")

    def _check_statement(self, relaxation: Relaxation) -> float:
        """Check that a relaxation states the limit as the instance gives it, which is returned, and asks for more."""
        limit = relaxation.limit
        given, unit = self.found.instance.limit_as_given(limit)
        message = "the relaxation must state the limit as the instance gives it"
        self.found.compare(_FAMILY, f"{limit} given", relaxation.given, given, TOLERANCE * given, message)
        if relaxation.unit != unit:
            self.found.fail(_FAMILY, f"{limit} unit", f"the unit must be {unit!r}, not {relaxation.unit!r}")
        message = "a limit that is too low needs more than the instance gives"
        amount, least = self.limits[limit], self.found.instance.count_limit(limit, relaxation.least_feasible)
        self.found.at_most(_FAMILY, limit, amount * (1 + TOLERANCE - ROUNDING), least, 0.0, message)
        return given

    def _check_enough(self, relaxation: Relaxation, least: float) -> None:
        """Check that what is called enough is: decisions that keep all limits with it, or the least that may be."""
        index, limit = f"{relaxation.limit} enough", relaxation.limit
        if relaxation.enough is None:
            if relaxation.solution:
                self.found.fail(_FAMILY, index, "decisions show what is enough, and that is not said")
            return
        enough = self.found.instance.count_limit(limit, relaxation.enough)
        if not relaxation.solution:
            message = "without decisions that show it no more than the least is called enough"
            self.found.compare(_FAMILY, index, least, enough, TOLERANCE * max(abs(least), abs(enough)), message)
            if len(self.limits) > 1:
                self.found.never_checked.append(f"{_FAMILY}: that {limit} of so much as is called enough is")
            return
        formulation = self.found.formulation
        try:
            decisions = formulation.solution_type.parse(relaxation.solution)
        except OptplanError as error:
            self.found.fail(_FAMILY, index, f"its decisions cannot be read: {error}")
            return
        judged = formulation.evaluate(self.found.instance, decisions)
        broken = [check.message for check in judged.checks if not check.holds and check.family != limit]
        if broken:
            self.found.fail(_FAMILY, index, f"its decisions do not keep everything else: {broken[0]}")
            return
        message = "what is called enough must be what its decisions take"
        used = judged.consumption[limit]
        self.found.compare(_FAMILY, index, enough, used, TOLERANCE * max(abs(enough), abs(used)), message)
        message = "no less can be enough than the least that may be"
        self.found.at_most(_FAMILY, index, least, used, TOLERANCE * abs(used), message)

    def _least(self, multipliers: dict[str, float]) -> dict[str, float]:
        """Return by part the least weighted consumption of any plan."""
        self.found.stopwatch.require()
        weights = np.array([multipliers[limit] for limit in self.limits])
        return self.found.formulation.least_consumption(self.found.instance, weights, self.found.stopwatch)


def _names(limits: dict[str, float]) -> str:
    return ", ".join(repr(limit) for limit in limits)
